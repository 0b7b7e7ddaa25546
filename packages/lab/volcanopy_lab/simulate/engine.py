"""The simulator: events in a heap, and scheduling cycles between them.

1. The next events happen: jobs arrive (admission reviews them, the controller creates their PodGroups), end, or are ended at
   their walltime; evicted pods end and are created again. All events of one period are one step.
2. The scheduler makes a plan, which is applied at once; admitted jobs get their pods.
3. If pods were created, or evicted pods have ended, 2 follows in the next period.
4. While jobs wait and nothing happens, a cycle follows after the heartbeat, since some decisions depend on time only.

The same cluster, jobs, configuration and seed give the same outcome.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.shares.usage_shares import usage_shares
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.whatif.cluster import Cluster
from volcanopy_lab.simulate.accounts import QueueAllocations, is_gpu
from volcanopy_lab.simulate.existing_jobs import existing_jobs
from volcanopy_lab.simulate.job_objects import JobObjectCache, JobObjects, Rejected, priority_class
from volcanopy_lab.simulate.outcome import Outcome
from volcanopy_lab.simulate.records import OpenJob, Records
from volcanopy_lab.simulate.virtual_cluster import VirtualCluster
from volcanopy_lab.simulate.workload import Estimates, Job, WorkloadError

START = datetime(2030, 1, 1, tzinfo=UTC)
"""The date of the beginning."""
_CYCLES_AT_ONCE = 50
"""The most cycles in a row without an event: more are a scheduler that moves pods for ever."""


class SimulationError(Exception):
    """A plan that violates an invariant, or a scheduler that does not come to rest."""


class _Kind(IntEnum):
    """Kinds of events, in the order in which those of one time happen."""

    TERMINATED = 0
    END = 1
    CYCLE = 2


@dataclass(frozen=True)
class Options:
    """How a simulation is run. Times are in seconds."""

    seed: int = 42
    """Seed of the workload, for the outcome."""
    estimates: str = "users"
    """Which run times the scheduler is given: :data:`volcanopy_lab.simulate.workload.ESTIMATES`."""
    period: float = 1.0
    """Time between two cycles: events of one period are one step. 0 for a step at each time."""
    heartbeat: float = 600.0
    """Longest time between two cycles while jobs wait; 0 for none."""
    grace: float = 0.0
    """How long evicted pods take to end."""
    until: float = math.inf
    """Time at which the simulation ends, whatever still runs."""
    checked: bool = False
    """Check each plan for violations of invariants."""
    samples: int = 400
    """Number of samples of the cluster's state between the first and the last submission."""
    configuration: str = "default"
    """Name of the configuration in the outcome."""


class Simulator:
    """A cluster, its workload, and what has happened so far."""

    def __init__(
        self,
        objects: Iterable[Object],
        jobs: Sequence[Job],
        config: SchedulerConfig,
        options: Options | None = None,
        registry: Registry | None = None,
        start: datetime = START,
    ) -> None:
        """``objects`` are nodes, queues and whatever else the cluster has. Raises WorkloadError."""
        self.options, self.config, self.registry, self.start = options or Options(), config, registry, start
        self.jobs = sorted(jobs, key=lambda job: (job.submit, job.name))
        if len({job.name for job in jobs}) < len(jobs):
            twice = next(name for name, count in Counter(job.name for job in jobs).items() if count > 1)
            raise WorkloadError(f"two jobs have the name {twice!r}: names of jobs must be unique")
        self.cluster = Cluster(objects)
        for priority in sorted({job.priority for job in jobs} - {0}):
            self.cluster.put(core.PriorityClass(metadata=core.Meta(name=priority_class(priority)), value=priority))
        self.cluster.commit()
        self.virtual = VirtualCluster(self.cluster, config, start, self.options.grace > 0, registry)
        nodes = list(self.cluster.of_kind("Node").values())
        queues = sorted(self.cluster.state.queues)
        last = max((job.submit for job in jobs), default=0.0)
        self.accounts = QueueAllocations(queues, nodes, last / max(self.options.samples, 1))
        self.records = Records(self.accounts, self.cluster, self.jobs)
        self.estimates = Estimates(self.options.estimates)
        self.time = 0.0
        self.events = self.cycles = 0
        self.plan = Plan()
        self._objects = JobObjectCache(self.cluster)
        self._enforced = enforced_invariants(config)
        self._heap: list[tuple[float, int, str, int]] = []
        self._arrived = 0
        self._row = 0
        """Cycles in a row without an event."""
        self._adopt()

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self.start + timedelta(seconds=self.time)

    def run(self) -> Outcome:
        """Run to the end, and return the outcome."""
        for _ in self.steps():
            pass
        return self.outcome()

    def outcome(self) -> Outcome:
        """Return the outcome so far."""
        options = self.options
        self.accounts.advance(self.time)
        outcome = self.records.outcome(options.configuration, options.seed, self.time, self.events, self.cycles)
        queues = list(self.cluster.state.queues.values())
        used = sorted({name for queue in queues for name in queue.status.usage})
        resource = next(filter(is_gpu, used), "cpu") if outcome.main == "gpu" else "cpu"
        return replace(outcome, usage=tuple(usage_shares(queues, resource, self.now)))

    def steps(self) -> Iterator[Plan]:
        """Run, and yield the plan of each cycle. Raises SimulationError."""
        while (time := self._next_time()) is not None:
            self.time = time
            self.accounts.advance(time)
            self.virtual.now = self.now
            self._happen(time)
            yield self.cycle()

    def cycle(self) -> Plan:
        """Make a plan, apply it, and let the controller create the pods of admitted jobs. Raises SimulationError."""
        self.cycles += 1
        snapshot = self.cluster.snapshot(self.virtual.now, f"cycle-{self.cycles}")
        plan = self.plan = schedule(snapshot, self.config, self.registry)
        if self.options.checked and (broken := violations(snapshot, plan, self._enforced)):
            raise SimulationError(f"cycle {self.cycles} at {self.time:.0f} s: {broken[0]}")
        self.virtual.apply(plan)
        again = self._account(plan)
        self.cluster.commit()
        self.accounts.sample(len(self.records.waiting), len(self.records.running), self.cluster.state)
        self._row = self._row + 1 if again else 0
        if self._row > _CYCLES_AT_ONCE:
            raise SimulationError(
                f"the scheduler does not come to rest at {self.time:.0f} s: {plan.of(Bind, Evict)[:3]}"
            )
        if again:
            self._push(self.time + self.options.period, _Kind.CYCLE, "")
        return plan

    def _adopt(self) -> None:
        """Take over the jobs that the cluster has already."""
        for job, pods, running in existing_jobs(self.cluster, self.start):
            entry = self.records.submit(job)
            entry.created, entry.pods = True, pods
            if running and self.records.bind(entry, running, 0.0):
                self._push(job.ends_after, _Kind.END, entry.key, entry.run)
        self.cluster.commit()
        if self.records.busy:
            self._push(0.0, _Kind.CYCLE, "")

    # Events

    def _push(self, time: float, kind: _Kind, name: str, run: int = 0) -> None:
        heapq.heappush(self._heap, (time, kind, name, run))

    def _next_time(self) -> float | None:
        """Return the time of the next step; None at the end."""
        first = self.jobs[self._arrived].submit if self._arrived < len(self.jobs) else math.inf
        if self._heap:
            first = min(first, self._heap[0][0])
        if self.records.waiting and self.options.heartbeat and (self.records.running or first < math.inf):
            first = min(first, self.time + self.options.heartbeat)
        period = self.options.period
        time = max(math.ceil(first / period - 1e-9) * period if period and first < math.inf else first, self.time)
        return time if time < self.options.until else None

    def _happen(self, time: float) -> None:
        """Let all events up to a time happen."""
        before = self.events
        while self._heap and self._heap[0][0] <= time:
            _, kind, name, run = heapq.heappop(self._heap)
            match kind:
                case _Kind.TERMINATED:
                    self._terminated(name)
                case _Kind.END:
                    self._end(name, run)
        while self._arrived < len(self.jobs) and self.jobs[self._arrived].submit <= time:
            self._arrive(self.jobs[self._arrived])
            self._arrived += 1
        if self.events > before:
            self._row = 0

    def _arrive(self, job: Job) -> None:
        self.events += 1
        objects = self._objects.of(job, self.now)
        if isinstance(objects, Rejected):
            self.records.rejected[job.name] = objects.message
            return
        entry = self.records.submit(job)
        estimates = self.estimates.of_alternatives(job)
        self.cluster.put(objects.podgroup(job, self.now, self.estimates.annotations(job), estimates))
        if objects.group.status.phase not in {"", "Pending"}:
            self._create_pods(entry, objects)

    def _create_pods(self, entry: OpenJob, objects: JobObjects, alternative: str = "") -> None:
        entry.created = True
        pods = objects.pods_of(entry.job, self.now, alternative)
        if alternative:
            self.records.select(entry, alternative)
        entry.pods = [pod.metadata.key for pod in pods]
        self.cluster.put_copies(pods)

    def _end(self, key: str, run: int) -> None:
        entry = self.records.entries.get(key)
        if entry is None or entry.run != run or entry.started is None:
            return
        self.events += 1
        self.estimates.learn(entry.job)
        for pod in entry.pods:
            self.cluster.remove("Pod", pod)
        self.cluster.remove("PodGroup", key)
        self.records.end(entry, self.time)

    def _terminated(self, key: str) -> None:
        self.virtual.end_pod(key)

    # The plan

    def _account(self, plan: Plan) -> bool:
        """Account for a plan; return whether another cycle must follow without an event."""
        records, again = self.records, False
        bound: dict[str, list[str]] = {}
        evicted: dict[tuple[str, str], list[str]] = {}
        for effect in plan.effects:
            match effect:
                case Bind():
                    bound.setdefault(effect.group, []).append(effect.pod)
                case Evict():
                    evicted.setdefault((effect.group, effect.preemptor), []).append(effect.pod)
                case SetPodGroup():
                    entry = records.entries.get(effect.pod_group)
                    if entry is not None and not entry.created and effect.phase != "Pending":
                        objects = self._objects.of(entry.job, self.now)
                        assert isinstance(objects, JobObjects)
                        chosen = effect.alternative
                        self._create_pods(entry, objects, "" if chosen is None else chosen.name)
                        again = True
                case SetQueue():
                    self.accounts.set_fair_share(effect)
                case Nominate():
                    again = again or bool(self.cluster.terminating)
        for (group, preemptor), pods in evicted.items():
            if group in records.entries:
                records.interrupt(records.entries[group], pods, preemptor, self.time)
        for group, pods in bound.items():
            entry = records.entries.get(group)
            if entry is not None and records.bind(entry, pods, self.time):
                self._push(self.time + entry.job.ends_after, _Kind.END, group, entry.run)
        if evicted:
            again = True
            if self.options.grace:
                for pods in evicted.values():
                    for pod in pods:
                        self._push(self.time + self.options.grace, _Kind.TERMINATED, pod)
        return again
