"""The history of simulated jobs: what runs, waits, was evicted and has ended."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Floats
from volcanopy.whatif.cluster import Cluster
from volcanopy_lab.simulate.accounts import RESOURCES, QueueAllocations, amounts_of
from volcanopy_lab.simulate.outcome import JobEviction, JobOutcome, JobRun, Outcome, SamplePoint
from volcanopy_lab.simulate.workload import Job

PLACEMENTS = 5000
"""The most runs in the Gantt chart."""


@dataclass(eq=False, slots=True)
class OpenJob:
    """A job that has not ended."""

    job: Job
    key: str
    """Key of its PodGroup."""
    row: int
    """Row of its queue in the accounts."""
    amounts: Floats
    """(R,): of one pod."""
    work: float
    """Seconds in which the whole cluster does its work."""
    limit: float
    created: bool = False
    pods: list[str] = field(default_factory=list)
    bound: dict[str, float] = field(default_factory=dict)
    """Running pods, with the time since which each runs."""
    started: float | None = None
    """Since when its minimum runs."""
    first_started: float = -1.0
    run: int = 0
    """Number of the present run."""
    evictions: int = 0
    lost: float = 0.0


class Records:
    """The jobs of a simulation by the keys of their PodGroups."""

    def __init__(self, accounts: QueueAllocations, cluster: Cluster, jobs: Sequence[Job]) -> None:
        self.accounts = accounts
        self.entries: dict[str, OpenJob] = {}
        self.waiting: dict[str, OpenJob] = {}
        """Jobs whose minimum does not run."""
        self.running: dict[str, OpenJob] = {}
        self.ended: list[JobOutcome] = []
        self.evictions: list[JobEviction] = []
        self.placements: list[JobRun] = []
        self.rejected: dict[str, str] = {}
        self._longest = max((job.ends_after for job in jobs if math.isfinite(job.ends_after)), default=0.0)
        self._backlog: dict[str, float] = {}
        self._share = _shares(cluster, {job.queue for job in jobs})
        self._cluster = cluster

    @property
    def busy(self) -> bool:
        """Whether jobs wait or run."""
        return bool(self.entries)

    def submit(self, job: Job) -> OpenJob:
        """Add a job."""
        amounts, work = self._amounts_and_work(job)
        before = self._backlog.get(job.queue, 0.0)
        limit = self._longest + before / self._share.get(job.queue, 1.0)
        entry = OpenJob(job, f"{job.namespace}/{job.name}", self.accounts.row(job.queue), amounts, work, limit)
        self.entries[entry.key] = self.waiting[entry.key] = entry
        self._backlog[job.queue] = before + work
        self.accounts.submitted(job.requests, job.pods)
        return entry

    def select(self, entry: OpenJob, alternative: str) -> None:
        """Let a job run with an alternative."""
        entry.job = entry.job.with_alternative(alternative)
        self._backlog[entry.job.queue] -= entry.work
        entry.amounts, entry.work = self._amounts_and_work(entry.job)
        self._backlog[entry.job.queue] += entry.work

    def _amounts_and_work(self, job: Job) -> tuple[Floats, float]:
        """Return the amounts of a pod, and for how long all pods would use the whole cluster."""
        amounts = amounts_of(dict(job.requests), self.accounts.card)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(self.accounts.capacity > 0, amounts / self.accounts.capacity, 0.0)
        return amounts, float(parts.max()) * job.pods * (job.ends_after if math.isfinite(job.ends_after) else 0.0)

    def bind(self, entry: OpenJob, pods: Sequence[str], time: float) -> bool:
        """Let pods of a job run; return whether its minimum runs from now on."""
        entry.bound.update(dict.fromkeys(pods, time))
        self.accounts.allocated[entry.row] += entry.amounts * len(pods)
        if entry.started is not None or len(entry.bound) < entry.job.least:
            return False
        entry.started = time
        entry.run += 1
        if entry.first_started < 0:
            entry.first_started = time
            self._backlog[entry.job.queue] -= entry.work
        del self.waiting[entry.key]
        self.running[entry.key] = entry
        return True

    def interrupt(self, entry: OpenJob, pods: Iterable[str], preemptor: str, time: float) -> None:
        """Stop pods of a job: below its minimum it starts again from the beginning."""
        since = [entry.bound.pop(pod) for pod in pods if pod in entry.bound]
        if not since:
            return
        main = self.accounts.main
        size = float(entry.amounts[main])
        self.accounts.allocated[entry.row] -= entry.amounts * len(since)
        entry.evictions += 1
        lost = sum(time - begin for begin in since) * size
        if entry.started is not None and len(entry.bound) < entry.job.least:
            lost += sum(time - begin for begin in entry.bound.values()) * size
            entry.lost += time - entry.started
            self._placed(entry, time)
            entry.started = None
            del self.running[entry.key]
            self.waiting[entry.key] = entry
        self.evictions.append(JobEviction(time, entry.job.name, preemptor.partition("/")[2], len(since), lost))

    def end(self, entry: OpenJob, time: float) -> None:
        """End a job."""
        self.accounts.allocated[entry.row] -= entry.amounts * len(entry.bound)
        self._placed(entry, time)
        del self.entries[entry.key]
        del self.running[entry.key]
        self.ended.append(self._outcome(entry, time))

    def _placed(self, entry: OpenJob, time: float) -> None:
        if entry.started is not None and len(self.placements) < PLACEMENTS:
            size = float(entry.amounts[self.accounts.main]) * entry.job.pods
            self.placements.append(JobRun(entry.job.name, entry.job.queue, entry.started, time, size))

    def _outcome(self, entry: OpenJob, end: float) -> JobOutcome:
        job, amounts = entry.job, entry.amounts * entry.job.pods
        return JobOutcome(
            job.name,
            job.queue,
            job.user,
            job.pods,
            float(amounts[0]),
            float(amounts[2]),
            job.submit,
            entry.first_started,
            end,
            job.ends_after if math.isfinite(job.ends_after) else -1.0,
            entry.evictions,
            entry.lost,
            entry.limit,
            self._reason(entry) if entry.first_started < 0 else "",
        )

    def _reason(self, entry: OpenJob) -> str:
        """Return why a job waits, as the last cycle states it."""
        group = self._cluster.group(entry.key)
        condition = pod_fields.condition(group, "Unschedulable") if group is not None else None
        return condition.message if condition is not None else f'waiting for admission to queue "{entry.job.queue}"'

    def outcome(self, configuration: str, seed: int, end: float, events: int, cycles: int) -> Outcome:
        """Return everything that is measured."""
        accounts = self.accounts
        for entry in list(self.running.values()):
            self._placed(entry, end)
        jobs = [*self.ended, *(self._outcome(entry, -1.0) for entry in self.entries.values())]
        total = accounts.area.sum(axis=0)
        used = accounts.area[:, accounts.main]
        capacity, areas = accounts.capacity, accounts.capacity_area
        queues = tuple(accounts.queues)
        return Outcome(
            configuration=configuration,
            seed=seed,
            end=end,
            main=RESOURCES[accounts.main],
            capacity=dict(zip(RESOURCES, capacity.tolist(), strict=True)),
            queues=queues,
            jobs=tuple(sorted(jobs, key=lambda job: (job.submit, job.name))),
            evictions=tuple(self.evictions),
            placements=tuple(self.placements),
            samples=tuple(self._points()),
            utilisation=_parts(total, areas),
            allocated=_parts(accounts.allocated.sum(axis=0), capacity),
            shares={
                name: float(used[row] / used.sum()) if used.sum() else 0.0 for name, row in accounts.queues.items()
            },
            distance=accounts.distance / accounts.contended if accounts.contended else 0.0,
            rejected=dict(self.rejected),
            events=events,
            cycles=cycles,
        )

    def _points(self) -> Iterable[SamplePoint]:
        accounts, main = self.accounts, self.accounts.main
        for sample in accounts.samples:
            parts = _parts(sample.allocated.sum(axis=0), accounts.capacity)
            shares, fair = (np.zeros(len(accounts.queues)) for _ in range(2))
            shares[: len(sample.allocated)], fair[: len(sample.fair)] = sample.allocated[:, main], sample.fair[:, main]
            yield SamplePoint(
                sample.time,
                parts["cpu"],
                parts["memory"],
                parts["gpu"],
                tuple(shares.tolist()),
                tuple(fair.tolist()),
                sample.waiting,
                sample.running,
                sample.fragmentation,
            )


def _parts(amounts: Floats, capacity: Floats) -> dict[str, float]:
    return {
        name: float(amount / most) if most else 0.0
        for name, amount, most in zip(RESOURCES, amounts, capacity, strict=True)
    }


def _shares(cluster: Cluster, used: Iterable[str]) -> dict[str, float]:
    """Return the part of the cluster of each queue with jobs, by the weights in the tree of queues."""
    queues, used = cluster.state.queues, set(used)
    with_jobs = {name for name in used for name in _path(queues, name)}
    result: dict[str, float] = {}
    for name in used:
        share = 1.0
        for element in _path(queues, name):
            if element in queues:
                parent = queues[element].spec.parent or "root"
                same = [
                    other for other in with_jobs if other in queues and (queues[other].spec.parent or "root") == parent
                ]
                share *= max(queues[element].spec.weight, 1) / sum(max(queues[other].spec.weight, 1) for other in same)
        result[name] = share
    return result


def _path(queues: dict[str, core.Queue], name: str) -> list[str]:
    """Return a queue and those above it, without the root."""
    path: list[str] = []
    while name and name != "root" and name not in path:
        path.append(name)
        name = queues[name].spec.parent if name in queues else ""
    return path
