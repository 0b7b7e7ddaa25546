"""Simulation of scheduling cycles on a world: each plan is applied at once, and nothing else changes.

Bound pods run, evicted pods are deleted (at once, or by ``end_terminating``) and their controllers create new ones,
nominations and phases are written. Without other changes the plans of a stable scheduler become empty.
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


class Simulation:
    """A world and the plans that are applied to it."""

    def __init__(
        self, objects: Iterable[Object], config: SchedulerConfig, replaced: bool = True, graceful: bool = False
    ) -> None:
        """``replaced``: an evicted pod is created again under its name; ``graceful``: it terminates until ``end_terminating``."""
        self.objects: dict[tuple[str, str], Object] = {
            (type(item).__name__, item.metadata.key): item for item in objects
        }
        self.config = config
        self.replaced = replaced
        self.graceful = graceful

    def snapshot(self) -> Snapshot:
        """Return the current snapshot."""
        state = State()
        for item in self.objects.values():
            state.upsert(item)
        return state.snapshot(NOW, "simulation")

    def pod(self, key: str) -> core.Pod | None:
        """Return the current state of a pod, if it exists."""
        pod = self.objects.get(("Pod", key))
        return pod if isinstance(pod, core.Pod) else None

    def cycle(self) -> Plan:
        """Make a plan and apply it."""
        plan = schedule(self.snapshot(), self.config)
        self.apply(plan)
        return plan

    def apply(self, effects: Iterable[Effect]) -> None:
        """Apply effects."""
        for effect in effects:
            self._apply(effect)

    def cycles(self, most: int) -> Iterator[Plan]:
        """Yield the plans up to the first that moves no pod, at most ``most``."""
        for _ in range(most):
            plan = self.cycle()
            yield plan
            if not plan.of(Bind, Evict, Nominate):
                return

    def add(self, objects: Iterable[Object]) -> None:
        """Add objects."""
        self.objects |= {(type(item).__name__, item.metadata.key): item for item in objects}

    def gate_pending(self, but: Container[str]) -> None:
        """Add a scheduling gate to all pending pods but these: their requests still count, but they are not placed."""
        for item in list(self.objects.values()):
            if isinstance(item, core.Pod) and not item.spec.node_name and item.metadata.key not in but:
                spec = replace(item.spec, scheduling_gates=(core.SchedulingGate(name="simulation"),))
                self.objects["Pod", item.metadata.key] = replace(item, spec=spec)

    def has_terminating_pods(self) -> bool:
        """Whether a pod is terminating."""
        return any(
            isinstance(item, core.Pod) and item.metadata.deletion_timestamp is not None
            for item in self.objects.values()
        )

    def end_terminating(self) -> None:
        """Delete all terminating pods."""
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
                if self.graceful:
                    terminating = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))
                    self.objects["Pod", key] = terminating
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
