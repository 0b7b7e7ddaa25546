"""Textbook policies, computed apart from the scheduler: first fit and backfilling with one reservation (EASY).

Nodes are equal and have one resource. Pods are placed best fit. The first job in the order that does not fit gets a reservation
at its earliest start by the estimated ends; a later job starts if it ends before that, or leaves enough for it then. An estimate
that is too short doubles until it is long enough. With weights, the next job is the first of the queue that has the least for its
weight; without, queues do not count. Learnt estimates are those that the default is given; a job that was never run before counts
with its walltime, or else with the mean of the jobs that have ended.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

from volcanopy.api import quantity
from volcanopy.jobcontroller.learnt_run_times import LearntRunTimes, key_of
from volcanopy.lab.simulate.workload import Job

Order = Literal["fcfs", "sjf", "slowdown"]
_BOUND = 10.0
"""Seconds that run times count at least, as in a bounded slowdown."""


@dataclass
class _Nodes:
    """The free amounts of nodes."""

    free: list[int]

    def place(self, job: "_Sized") -> dict[int, int] | None:
        """Return what the pods of a job use of each node, the fullest first; None if they do not fit."""
        rest, used = job.pods, dict[int, int]()
        if sum(amount // job.request for amount in self.free) < rest:
            return None
        for amount, node in sorted((amount, node) for node, amount in enumerate(self.free) if amount >= job.request):
            pods = min(amount // job.request, rest)
            used[node], rest = pods * job.request, rest - pods
            if not rest:
                return used
        return None

    def change(self, used: dict[int, int], sign: int) -> None:
        """Free or use amounts."""
        for node, amount in used.items():
            self.free[node] += sign * amount


@dataclass(frozen=True)
class _Sized:
    """A job with the request of a pod and its estimate in seconds."""

    job: Job
    request: int
    pods: int
    estimate: float

    def key(self, order: Order, now: float) -> tuple[float, float, str]:
        """Return the sort key."""
        run_time, waited = max(self.estimate, _BOUND), now - self.job.submit
        first = {"fcfs": 0.0, "sjf": run_time, "slowdown": -(waited + run_time) / run_time}[order]
        return first, self.job.submit, self.job.name

    def end(self, start: float, now: float) -> float:
        """Return the expected end."""
        run_time = max(self.estimate, 1.0)
        while start + run_time <= now:
            run_time *= 2
        return start + run_time


@dataclass
class _Running:
    """What runs where and since when, by name."""

    jobs: dict[str, tuple[_Sized, float, dict[int, int]]] = field(default_factory=dict)

    def earliest(self, job: _Sized, free: Sequence[int], now: float) -> tuple[float, _Nodes] | None:
        """Return the first expected end after which a job fits, and what is free then."""
        nodes = _Nodes(list(free))
        for end, name in sorted((each.end(start, now), name) for name, (each, start, _) in self.jobs.items()):
            nodes.change(self.jobs[name][2], 1)
            if nodes.place(job) is not None:
                return end, nodes
        return None

    def allocated(self) -> dict[str, int]:
        """Return what the jobs of each queue use."""
        sums: dict[str, int] = {}
        for each, _, used in self.jobs.values():
            sums[each.job.queue] = sums.get(each.job.queue, 0) + sum(used.values())
        return sums


@dataclass
class _Learnt:
    """Run times of jobs that have ended."""

    times: LearntRunTimes = field(default_factory=LearntRunTimes)
    ended: int = 0
    total: float = 0.0

    def learn(self, job: Job) -> None:
        """Note the run time of a job that has ended."""
        self.times.learn(key_of(job.queue, job.user, job.name, ""), timedelta(seconds=job.ends_after))
        self.ended, self.total = self.ended + 1, self.total + job.ends_after

    def estimate(self, job: Job) -> float:
        """Return the estimate of a job."""
        run = self.times.estimate(key_of(job.queue, job.user, job.name, ""))
        if run is not None:
            return run.total_seconds()
        return job.walltime or (self.total / self.ended if self.ended else _BOUND)


def start_times(
    jobs: Sequence[Job],
    nodes: int,
    per_node: int,
    order: Order = "fcfs",
    backfill: bool = True,
    resource: str = "cpu",
    exact: bool = False,
    weights: Mapping[str, float] | None = None,
    learnt: bool = False,
) -> dict[str, float]:
    """Return the start of each job in seconds, by name; ``per_node`` is in base units (milli-cpus, cards).

    Without ``backfill`` each job starts as soon as it fits (first fit). ``exact``: estimates are the run times; ``learnt``: those
    of earlier runs. ``weights`` are those of the queues.
    """
    known = _Learnt()
    free, running, waiting, starts = _Nodes([per_node] * nodes), _Running(), list[_Sized](), dict[str, float]()
    sized = []
    for job in jobs:
        estimate = job.run_time if exact or not job.estimate else job.estimate
        sized.append(_Sized(job, quantity.amount(resource, job.requests[resource]), job.least, estimate))
    events = [(job.submit, 0, number) for number, job in enumerate(jobs)]
    heapq.heapify(events)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, is_end, number = heapq.heappop(events)
            if is_end:
                free.change(running.jobs.pop(jobs[number].name)[2], 1)
                known.learn(jobs[number])
            else:
                each = sized[number]
                waiting.append(replace(each, estimate=known.estimate(each.job)) if learnt else each)
        in_order = sorted(waiting, key=lambda job: job.key(order, now))
        started = _start(_by_queue(in_order, running, weights or {}), free, running, now, backfill)
        numbers = {job.name: number for number, job in enumerate(jobs)} if started else {}
        for each in started:
            starts[each.job.name] = now
            heapq.heappush(events, (now + each.job.ends_after, 1, numbers[each.job.name]))
        waiting = [each for each in waiting if each.job.name not in starts]
    return starts


def _by_queue(waiting: Sequence[_Sized], running: _Running, weights: Mapping[str, float]) -> Iterator[_Sized]:
    """Yield the jobs, the next of the queue that has the least for its weight; in their order without weights."""
    queues: dict[str, deque[_Sized]] = {}
    for each in waiting:
        queues.setdefault(each.job.queue if weights else "", deque()).append(each)
    while queues:
        allocated = running.allocated() if weights else {}
        queue = min(queues, key=lambda name: (allocated.get(name, 0) / weights.get(name, 1.0), name))
        yield queues[queue].popleft()
        if not queues[queue]:
            del queues[queue]


def _start(waiting: Iterator[_Sized], free: _Nodes, running: _Running, now: float, backfill: bool) -> list[_Sized]:
    """Start what can start now; return it."""
    started: list[_Sized] = []
    reserved: tuple[_Sized, float, _Nodes] | None = None
    for job in waiting:
        used = free.place(job)
        if used is None:
            if backfill and reserved is None and (start := running.earliest(job, free.free, now)):
                reserved = (job, *start)
            continue
        if reserved is not None and now + job.estimate > reserved[1]:
            head, _, later = reserved
            later.change(used, -1)
            if min(later.free) < 0 or later.place(head) is None:
                later.change(used, 1)
                continue
        free.change(used, -1)
        running.jobs[job.job.name] = (job, now, used)
        started.append(job)
    return started
