"""A world that unfolds: plans are carried out at once, cycle after cycle, with nothing else happening.

Bound pods run, evicted pods are gone (at once, or when they are told to end) and their controllers make new ones,
nominations and phases are written. Nothing arrives and nothing ends, so a scheduler that knows what it wants comes to
rest.
"""

from collections.abc import Container, Iterable, Iterator

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.framework.config import SchedulerConfig
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.testing.notation import NOW


class Unfolding:
    """A world and the plans that change it."""

    def __init__(
        self, objects: Iterable[Object], config: SchedulerConfig, replaced: bool = True, lingering: bool = False
    ) -> None:
        """``replaced``: an evicted pod comes back, pending, under its name; ``lingering``: it must be told to end first."""
        self.objects: dict[tuple[str, str], Object] = {
            (type(item).__name__, item.metadata.key): item for item in objects
        }
        self.config = config
        self.replaced = replaced
        self.lingering = lingering

    def snapshot(self) -> Snapshot:
        """The world as it is now."""
        state = State()
        for item in self.objects.values():
            state.upsert(item)
        return state.snapshot(NOW, "unfolding")

    def pod(self, key: str) -> core.Pod | None:
        """A pod as it is now."""
        pod = self.objects.get(("Pod", key))
        return pod if isinstance(pod, core.Pod) else None

    def cycle(self) -> Plan:
        """Decide once, and carry the plan out."""
        plan = schedule(self.snapshot(), self.config)
        self.carry_out(plan)
        return plan

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Let effects become true."""
        for effect in effects:
            self._apply(effect)

    def cycles(self, most: int) -> Iterator[Plan]:
        """The plans until one moves nothing, that one included, but no more than ``most``."""
        for _ in range(most):
            plan = self.cycle()
            yield plan
            if not plan.of(Bind, Evict, Nominate):
                return

    def add(self, things: Iterable[Object]) -> None:
        """Let something arrive."""
        self.objects |= {(type(item).__name__, item.metadata.key): item for item in things}

    def gate_pending(self, but: Container[str]) -> None:
        """Hold back the pods that wait for a node, but for these: they still ask, but are not placed."""
        for item in list(self.objects.values()):
            if isinstance(item, core.Pod) and not item.spec.node_name and item.metadata.key not in but:
                spec = replace(item.spec, scheduling_gates=(core.SchedulingGate(name="unfolding"),))
                self.objects["Pod", item.metadata.key] = replace(item, spec=spec)

    def someone_leaves(self) -> bool:
        """Whether a pod is being deleted."""
        return any(
            isinstance(item, core.Pod) and item.metadata.deletion_timestamp is not None
            for item in self.objects.values()
        )

    def end_terminating(self) -> None:
        """Let all pods go that are being deleted."""
        for item in list(self.objects.values()):
            if isinstance(item, core.Pod) and item.metadata.deletion_timestamp is not None:
                self._end(item)

    def _end(self, pod: core.Pod) -> None:
        key = pod.metadata.key
        del self.objects["Pod", key]
        if self.replaced:
            self.objects["Pod", key] = replace(
                pod,
                metadata=replace(pod.metadata, uid=f"{pod.metadata.uid}'", deletion_timestamp=None),
                spec=replace(pod.spec, node_name=""),
                status=core.PodStatus(phase="Pending"),
            )

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Bind(key, node):
                self._change(key, node=node, phase="Running")
            case Evict(key):
                pod = self.pod(key)
                assert pod is not None, key
                if self.lingering:
                    leaving = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))
                    self.objects["Pod", key] = leaving
                else:
                    self._end(pod)
            case Nominate(key, node):
                self._change(key, nominated=node)
            case SetPodGroup(name, phase):
                group = self.objects["PodGroup", name]
                if isinstance(group, core.PodGroup):
                    self.objects["PodGroup", name] = replace(group, status=replace(group.status, phase=phase))

    def _change(self, key: str, node: str = "", phase: str = "", nominated: str = "") -> None:
        pod = self.pod(key)
        assert pod is not None, key
        spec = replace(pod.spec, node_name=node) if node else pod.spec
        status = replace(pod.status, nominated_node_name="" if node else nominated, phase=phase or pod.status.phase)
        self.objects["Pod", key] = replace(pod, spec=spec, status=status)
