"""Simulation of scheduling cycles: each plan is applied at once, and nothing else changes.

Bound pods run, evicted pods are deleted (at once, or by ``end_terminating``), those with a controller are created again,
nominations and phases are written. Without other changes the plans of a stable scheduler become empty.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.builtin import pod_claims
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.whatif.cluster import Cluster

NOTHING: Mapping[str, str] = MappingProxyType({})


class Simulation:
    """A cluster and the plans that are applied to it."""

    def __init__(
        self,
        cluster: Cluster,
        config: SchedulerConfig,
        now: datetime,
        *,
        replaced: Callable[[core.Pod], bool],
        graceful: bool = False,
        registry: Registry | None = None,
    ) -> None:
        """``replaced``: whether an evicted pod is created again under its name; ``graceful``: it
        terminates until ``end_terminating``.
        """
        self.cluster = cluster
        self.config = config
        self.now = now
        self.replaced = replaced
        self.graceful = graceful
        self.registry = registry
        self.session = "simulation"
        self._annotations: dict[str, core.Labels] = {}
        """The annotations of pods before they were bound with others."""
        self.phase_changes = 0
        """The number of changed phases of pod groups so far."""

    def snapshot(self) -> Snapshot:
        """Return the current snapshot."""
        return self.cluster.snapshot(self.now, self.session)

    def pod(self, key: str) -> core.Pod | None:
        """Return the current state of a pod, if it exists."""
        return self.cluster.pod(key)

    def cycle(self) -> Plan:
        """Make a plan and apply it."""
        plan = schedule(self.snapshot(), self.config, self.registry)
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
        for item in objects:
            self.cluster.put(item)

    def has_terminating_pods(self) -> bool:
        """Whether a pod is terminating."""
        return bool(self.cluster.terminating)

    def end_terminating(self) -> None:
        """Delete all terminating pods."""
        for key in sorted(self.cluster.terminating):
            self._end(self.cluster.objects["Pod", key])

    def _end(self, pod: core.Pod) -> None:
        self.cluster.remove("Pod", pod.metadata.key)
        if self.replaced(pod):
            self.cluster.put(
                replace(
                    pod,
                    metadata=replace(
                        pod.metadata,
                        uid=f"{pod.metadata.uid}'",
                        deletion_timestamp=None,
                        annotations=self._annotations.pop(pod.metadata.key, pod.metadata.annotations),
                    ),
                    spec=replace(pod.spec, node_name=""),
                    status=core.PodStatus(phase="Pending", resource_claim_statuses=pod.status.resource_claim_statuses),
                )
            )
            self._renew_claims(pod)

    def _renew_claims(self, pod: core.Pod) -> None:
        """Make the own claims of a pod those of the pod that is created in its place."""
        keys = [("ResourceClaim", requested.key) for requested in pod_claims.devices(pod) if requested.own]
        keys += [("PersistentVolumeClaim", requested.key) for requested in pod_claims.volumes(pod) if requested.own]
        owner = core.OwnerReference(kind="Pod", name=pod.metadata.name, uid=f"{pod.metadata.uid}'", controller=True)
        for key in keys:
            claim = self.cluster.objects.get(key)
            if claim is not None:
                self.cluster.put(replace(claim, metadata=replace(claim.metadata, owner_references=(owner,))))

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Bind(key, node):
                self.cluster.bind_claims(effect)
                self._change(key, node=node, phase="Running", annotations=effect.annotations)
            case Evict(key):
                pod = self.pod(key)
                assert pod is not None, key
                if self.graceful:
                    self.cluster.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now)))
                else:
                    self._end(pod)
            case Nominate(key, node):
                self._change(key, nominated=node)
            case SetPodGroup():
                self._set_group(effect)
            case SetQueue():
                self._set_queue(effect)

    def _set_group(self, effect: SetPodGroup) -> None:
        if effect.moves is not None:
            self._move(effect.pod_group, effect.moves)
        group = self.cluster.group(effect.pod_group)
        if group is not None and (group.status.phase or "Pending") != effect.phase:
            self.phase_changes += 1
            alternative = effect.alternative or group.status.alternative
            admitted_at = self.now if effect.phase == "Inqueue" else group.status.admitted_at
            status = replace(group.status, phase=effect.phase, alternative=alternative, admitted_at=admitted_at)
            self.cluster.put(replace(group, status=status))

    def _set_queue(self, effect: SetQueue) -> None:
        """Statuses of queues stay as they are: a question takes no time in which shares change."""

    def _move(self, name: str, moves: tuple[core.PodMove, ...]) -> None:
        """Write the moved pods of a pod group."""
        group = self.cluster.group(name)
        if group is not None:
            since = self.now if moves and not group.status.moves else group.status.moved_at
            self.cluster.put(replace(group, status=replace(group.status, moves=moves, moved_at=since)))

    def _change(
        self, key: str, node: str = "", phase: str = "", nominated: str = "", annotations: Mapping[str, str] = NOTHING
    ) -> None:
        pod = self.pod(key)
        assert pod is not None, key
        if not node:
            self.cluster.put(replace(pod, status=replace(pod.status, nominated_node_name=nominated)))
            return
        metadata = pod.metadata
        if annotations:
            self._annotations[key] = metadata.annotations
            metadata = replace(metadata, annotations={**metadata.annotations, **annotations})
        status = replace(pod.status, nominated_node_name="", phase=phase, start_time=self.now)
        self.cluster.put(replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=node), status=status))
