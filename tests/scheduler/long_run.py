"""Simulation of a full cluster on a virtual clock: jobs arrive in every busy queue, run for a while, and end."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from random import Random

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.framework.config import SchedulerConfig
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.testing.notation import NOW, START, world

BACKLOG = 15
"""So many jobs wait in a busy queue, at any time."""


class LongRun:
    """A cluster with queues; sums the allocation of each queue over ticks."""

    def __init__(self, text: str, config: SchedulerConfig, busy: Collection[str], seed: int = 1) -> None:
        """``busy`` are the queues in which jobs arrive."""
        self.config, self.busy, self._dice = config, set(busy), Random(seed)
        self._state = State()
        for thing in world(text):
            self._state.upsert(thing)
        self._ends: dict[str, int] = {}
        self._pods: dict[str, core.Pod] = {}
        self._groups: dict[str, tuple[core.PodGroup, set[str]]] = {}
        self._waiting: dict[str, set[str]] = {}
        self.tick = 0
        self.evictions = 0
        self.held: dict[str, int] = {}

    def run(self, ticks: int, settling: int = 0) -> Mapping[str, float]:
        """Run ticks; return the average part of allocated cpus per queue, after the first ``settling`` ticks."""
        sums: dict[str, int] = {}
        for number in range(ticks):
            self._end()
            self._arrive()
            self._decide()
            if number >= settling:
                for queue, cpus in self.held.items():
                    sums[queue] = sums.get(queue, 0) + cpus
        total = sum(sums.values())
        return {queue: held / total for queue, held in sums.items()}

    def stop_arrivals(self, queue: str) -> None:
        """Stop arrivals in a queue and delete its waiting jobs."""
        self.busy.discard(queue)
        for name in self._waiting.pop(queue, set()):
            group, pods = self._groups.pop(name)
            for pod in pods:
                self._state.delete(self._pods.pop(pod))
            self._state.delete(group)

    def _arrive(self) -> None:
        for queue in sorted(self.busy):
            waiting = self._waiting.setdefault(queue, set())
            while len(waiting) < BACKLOG:
                self._submit(queue, waiting)

    def _submit(self, queue: str, waiting: set[str]) -> None:
        name = f"{queue}-{self._dice.getrandbits(48):012x}"
        count = self._dice.choice([1, 1, 2, 3])
        made = START + timedelta(seconds=self.tick)
        group = core.PodGroup(
            metadata=core.Meta(name=name, namespace="default", uid=name, creation_timestamp=made),
            spec=core.PodGroupSpec(min_member=count, queue=queue),
            status=core.PodGroupStatus(phase="Inqueue"),
        )
        self._state.upsert(group)
        keys = set()
        for number in range(count):
            meta = core.Meta(
                name=f"{name}-{number}",
                namespace="default",
                uid=f"{name}-{number}",
                creation_timestamp=made,
                annotations={"scheduling.k8s.io/group-name": name},
            )
            container = core.Container(resources=core.ResourceRequirements(requests={"cpu": "1"}))
            self._set(core.Pod(metadata=meta, spec=core.PodSpec(scheduler_name="volcanopy", containers=(container,))))
            keys.add(meta.key)
        self._groups[name] = (group, keys)
        waiting.add(name)

    def _decide(self) -> None:
        self.tick += 1
        plan = schedule(self._state.snapshot(NOW + timedelta(seconds=self.tick)), self.config)
        for evict in plan.of(Evict):
            self.evictions += 1
            pod = self._pods[evict.pod]
            self.held[_queue_of(pod)] -= 1
            self._ends.pop(evict.pod)
            self._set(replace(pod, spec=replace(pod.spec, node_name=""), status=core.PodStatus(phase="Pending")))
        for bind in plan.of(Bind):
            pod = self._pods[bind.pod]
            queue, job = _queue_of(pod), pod.metadata.annotations["scheduling.k8s.io/group-name"]
            self._waiting.get(queue, set()).discard(job)
            self.held[queue] = self.held.get(queue, 0) + 1
            self._ends[bind.pod] = self.tick + self._dice.randint(4, 16)
            self._set(replace(pod, spec=replace(pod.spec, node_name=bind.node), status=core.PodStatus(phase="Running")))

    def _end(self) -> None:
        for key in [key for key, end in self._ends.items() if end <= self.tick]:
            pod = self._pods.pop(key)
            self._ends.pop(key)
            self.held[_queue_of(pod)] -= 1
            self._state.delete(pod)
            job = pod.metadata.annotations["scheduling.k8s.io/group-name"]
            group, pods = self._groups[job]
            pods.discard(key)
            if not pods:
                self._state.delete(group)
                del self._groups[job]

    def _set(self, pod: core.Pod) -> None:
        self._pods[pod.metadata.key] = pod
        self._state.upsert(pod)


def _queue_of(pod: core.Pod) -> str:
    return pod.metadata.annotations["scheduling.k8s.io/group-name"].rpartition("-")[0]
