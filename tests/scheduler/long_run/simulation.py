"""Simulation of a cluster under load, one minute a cycle, through the whole chain from enqueue on.

A cycle:

1. Jobs that have run for their time end; evicted pods are deleted and created again, as the controller does.
2. Jobs arrive in phase Pending.
3. ``schedule()`` decides on a snapshot of the incremental cache; its plan is applied at once: pods run, get a deletion
   timestamp or a nomination, and statuses of pod groups and queues are written as the service writes them. A job starts
   when its minimum runs, and its time counts from there.
4. Jobs that were admitted get their pods, at once or some cycles later.
5. 3 and 4 are repeated until a plan neither starts, evicts nor admits anything, as the service does within a second.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import Random

from msgspec.structs import replace

from tests.scheduler.long_run.workload import Job, Single, Stream, class_name, drawn, job
from volcanopy.api import core, quantity
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.services.scheduler.state import statuses
from volcanopy_testing.notation import NOW, world

COOLDOWN = 30
"""Cycles within which a pod must not be evicted again for the same queue."""
_MOST_PLANS = 40
"""Far more plans than a cycle takes until nothing changes: each admits or starts a part of what waits."""


class LongRun:
    """A cluster, its workload, and what has happened so far."""

    def __init__(
        self,
        text: str,
        config: SchedulerConfig,
        streams: Sequence[Stream],
        singles: Sequence[Single] = (),
        seed: int = 3,
        checked: bool = False,
        delay: int = 0,
    ) -> None:
        """``text`` has the nodes and queues; ``checked``: every plan is checked for violations.

        Admitted jobs get their pods ``delay`` cycles later.
        """
        self.config, self.streams, self.singles, self.checked = config, list(streams), list(singles), checked
        self.cycle_number = 0
        self.idle: set[str] = set()
        """Queues in which no jobs arrive."""
        self.jobs: dict[str, Job] = {}
        self.plan = Plan()
        self.allocated: Counter[str] = Counter()
        """Milli-cpus of running pods by queue."""
        self.evictions: list[tuple[int, str, str, str]] = []
        """Cycle, pod, its queue and the queue of the preemptor of every evicted pod."""
        self.lost = 0
        """Milli-cpu-minutes of work lost by evictions."""
        self.waits: dict[str, int] = {}
        """Cycles from submission to the first start, by job."""
        self.claimants: dict[str, str] = {}
        """Whose share each job uses."""
        self.before: dict[str, int] = {}
        """Milli-cpu-minutes of the jobs of the same queue, or of the same user of a fair one, that come before each job."""
        self.partly_evicted: list[str] = []
        """Jobs of which an eviction left some pods running, but fewer than the minimum."""
        self._objects: dict[str, Object] = {}
        priorities = ({item.priority for item in streams} | {item.priority for item in singles}) - {0}
        classes = [
            core.PriorityClass(metadata=core.Meta(name=class_name(value)), value=value) for value in sorted(priorities)
        ]
        for item in (*world(text), *classes):
            self._objects[f"{type(item).__name__} {item.metadata.name}"] = item
        nodes = [item for item in self._objects.values() if isinstance(item, core.Node)]
        self.nodes = {node.metadata.name: quantity.amount("cpu", node.status.allocatable["cpu"]) for node in nodes}
        """Milli-cpus of the nodes."""
        self.capacity = sum(self.nodes.values())
        self._dice = {stream: Random(f"{seed} {stream.queue} {stream.user}") for stream in self.streams}
        self._numbers: Counter[Stream] = Counter()
        self._backlog: Counter[Stream] = Counter()
        self._evicted: list[tuple[Job, str]] = []
        self._delay = delay
        self._admitted: list[tuple[int, Job]] = []
        """Jobs without pods, with the cycle in which these are created."""
        self.restart()

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return NOW + timedelta(minutes=self.cycle_number)

    def restart(self) -> None:
        """Build the cache anew from the API objects, as a restarted scheduler does."""
        self._state = State()
        pods = [pod for entry in self.jobs.values() if entry.created for pod in entry.pods.values()]
        for item in (*self._objects.values(), *(entry.group for entry in self.jobs.values()), *pods):
            self._state.upsert(item)

    def queue(self, name: str) -> core.Queue:
        """Return a queue with its status."""
        queue = self._objects[f"Queue {name}"]
        assert isinstance(queue, core.Queue)
        return queue

    def cycle(self) -> Plan:
        """Run one cycle; return its last plan, after which nothing changes."""
        self.cycle_number += 1
        self._end_jobs()
        self._recreate_evicted()
        self._arrive()
        for _ in range(_MOST_PLANS):
            admitted = len(self._admitted)
            snapshot = self._state.snapshot(self.now, f"cycle-{self.cycle_number}")
            self.plan = schedule(snapshot, self.config)
            if self.checked:
                assert violations(snapshot, self.plan) == [], self.cycle_number
            self._apply(self.plan)
            changed = self.plan.of(Bind, Evict) or len(self._admitted) > admitted
            self._create_pods()
            if not changed:
                return self.plan
        raise AssertionError(f"cycle {self.cycle_number}: no rest after {_MOST_PLANS} plans")

    def free(self) -> list[int]:
        """Return the free milli-cpus of each node."""
        free = dict(self.nodes)
        for entry in self.jobs.values():
            for key in entry.bound:
                free[entry.pods[key].spec.node_name] -= entry.cpu
        return list(free.values())

    def stop_arrivals(self, queue: str) -> None:
        """Stop the arrivals in a queue, and delete its waiting jobs."""
        self.idle.add(queue)
        for entry in [entry for entry in self.jobs.values() if entry.queue == queue and not entry.bound]:
            if entry.first_started is None and entry.stream is not None:
                self._backlog[entry.stream] -= entry.requested
            self._delete(entry)

    # Arrivals and ends

    def _arrive(self) -> None:
        for single in self.singles:
            if single.cycle == self.cycle_number:
                self._submit(job(single, self.now))
        for stream in self.streams:
            if self.cycle_number < stream.first or stream.queue in self.idle:
                continue
            while self._backlog[stream] < stream.backlog * self.capacity:
                entry = drawn(stream, self._numbers[stream], self._dice[stream], self.cycle_number, self.now)
                self._numbers[stream] += 1
                self._backlog[stream] += entry.requested
                self._submit(entry)

    def _submit(self, entry: Job) -> None:
        self.before[entry.name], self.claimants[entry.name] = 0, entry.claimant
        for other in self.jobs.values():
            if other.claimant == entry.claimant and other.first_started is None:
                earlier, later = (other, entry) if other.priority >= entry.priority else (entry, other)
                self.before[later.name] += earlier.work
        self.jobs[entry.name] = entry
        self._state.upsert(entry.group)

    def _end_jobs(self) -> None:
        ended = [
            entry
            for entry in self.jobs.values()
            if entry.started is not None and entry.started + entry.minutes <= self.cycle_number
        ]
        for entry in ended:
            self.allocated[entry.queue] -= entry.cpu * len(entry.bound)
            self._delete(entry)

    def _delete(self, entry: Job) -> None:
        for pod in entry.pods.values() if entry.created else ():
            self._state.delete(pod)
        self._state.delete(entry.group)
        del self.jobs[entry.name]

    def _recreate_evicted(self) -> None:
        for entry, key in self._evicted:
            if entry.name not in self.jobs:
                continue
            pod = entry.pods[key]
            self._state.delete(pod)
            meta = replace(pod.metadata, uid=f"{pod.metadata.uid}'", deletion_timestamp=None)
            self._set(
                entry,
                replace(
                    pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=core.PodStatus(phase="Pending")
                ),
            )
        self._evicted = []

    # The plan

    def _apply(self, plan: Plan) -> None:
        evicted: dict[str, list[Evict]] = {}
        for effect in plan.effects:
            match effect:
                case Bind(key, node):
                    self._bind(self._job(effect.group), key, node)
                case Evict():
                    evicted.setdefault(effect.group, []).append(effect)
                case Nominate(key, node):
                    entry = self._job(effect.group)
                    pod = entry.pods[key]
                    self._set(entry, replace(pod, status=replace(pod.status, nominated_node_name=node)))
                case SetPodGroup(key):
                    self._set_group(self._job(key), effect)
                case SetQueue(name):
                    queue = self.queue(name)
                    queue = replace(queue, status=statuses.queue_status(queue.status, effect))
                    self._objects[f"Queue {name}"] = queue
                    self._state.upsert(queue)
        for group, effects in evicted.items():
            self._evict(self._job(group), effects)
        for entry in self.jobs.values():
            if entry.started is None and entry.runs:
                self._start(entry)

    def _start(self, entry: Job) -> None:
        entry.started = self.cycle_number
        if entry.first_started is None:
            entry.first_started = self.cycle_number
            self.waits[entry.name] = self.cycle_number - entry.submitted
            if entry.stream is not None:
                self._backlog[entry.stream] -= entry.requested

    def _bind(self, entry: Job, key: str, node: str) -> None:
        pod = entry.pods[key]
        status = core.PodStatus(phase="Running", start_time=self.now)
        self._set(entry, replace(pod, spec=replace(pod.spec, node_name=node), status=status))
        entry.bound[key] = self.cycle_number
        self.allocated[entry.queue] += entry.cpu

    def _evict(self, entry: Job, effects: Iterable[Evict]) -> None:
        before = dict(entry.bound)
        for effect in effects:
            pod = entry.pods[effect.pod]
            self._set(entry, replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now)))
            self._evicted.append((entry, effect.pod))
            del entry.bound[effect.pod]
            self.allocated[entry.queue] -= entry.cpu
            preemptor = self._job(effect.preemptor).queue if effect.preemptor else ""
            self.evictions.append((self.cycle_number, effect.pod, entry.queue, preemptor))
        if entry.runs:  # only the surplus pods lose their work
            self.lost += entry.cpu * sum(
                self.cycle_number - since for key, since in before.items() if key not in entry.bound
            )
            return
        self.lost += entry.cpu * sum(self.cycle_number - since for since in before.values())
        entry.started = None
        if entry.bound:
            self.partly_evicted.append(entry.name)

    def _set_group(self, entry: Job, effect: SetPodGroup) -> None:
        status = statuses.group_status(entry.group.status, effect, self.plan.session, self.now)
        entry.group = replace(entry.group, status=status)
        self._state.upsert(entry.group)
        if not entry.admitted and status.phase != "Pending":
            entry.admitted = True
            self._admitted.append((self.cycle_number + self._delay, entry))

    def _create_pods(self) -> None:
        due = [entry for cycle, entry in self._admitted if cycle <= self.cycle_number]
        self._admitted = self._admitted[len(due) :]
        for entry in due:
            if entry.name in self.jobs:
                entry.created = True
                for pod in entry.pods.values():
                    self._state.upsert(pod)

    def _job(self, key: str) -> Job:
        return self.jobs[key.partition("/")[2]]

    def _set(self, entry: Job, pod: core.Pod) -> None:
        entry.pods[pod.metadata.key] = pod
        self._state.upsert(pod)
