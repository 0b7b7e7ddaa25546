"""Textbook policies, computed apart from the scheduler: first fit, and backfilling with some reservations.

Nodes are equal and have one resource. Pods are placed best fit. Jobs are taken in an order; one that fits now until its
estimated end starts. The first others get reservations at their earliest starts, which no later job delays: none is first fit, one
is EASY, any number is conservative backfilling. An estimate that is too short doubles until it is long enough. With
weights, the next job is the first of the queue that has the least for its weight; without, queues do not count. Learnt
estimates are those that the default is given; a job that was never run counts with its walltime, or else with the mean of
the jobs that have ended.
"""

import heapq
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

import numpy as np
import numpy.typing as npt

from volcanopy.api import quantity
from volcanopy.jobcontroller.learnt_run_times import LearntRunTimes, key_of
from volcanopy.scheduler.engine import defaults
from volcanopy_lab.simulate.workload import Job

Order = Literal["fcfs", "sjf", "aged", "due"]
"""By age, by estimate, by estimate after the jobs that have waited for a day, which come by age, or by due times as the default does."""
Amounts = npt.NDArray[np.int64]
_BOUND, _AGED = 10.0, 86_400.0
"""Seconds that run times count at least, as in a bounded slowdown, and after which a job counts as aged."""


@dataclass(frozen=True)
class Policy:
    """What is taken first, and for how many jobs nodes are reserved."""

    order: Order = "fcfs"
    reservations: float = 1
    weighted: bool = False
    """Whether the weights of queues count."""
    learnt: bool = False
    """Whether estimates are learnt."""


@dataclass(frozen=True)
class _Sized:
    """A job with the request of a pod and its estimate in seconds."""

    job: Job
    request: int
    estimate: float
    past: float = 0.0
    """The run time that was learnt from earlier runs."""

    @property
    def requested(self) -> int:
        """What all pods request."""
        return self.request * self.job.least

    def key(self, order: Order, now: float, longest: float) -> tuple[float, float, str]:
        """Return the sort key; ``longest`` is the longest time until a job is due."""
        if order == "due":
            run_time = max(self.estimate, defaults.LEAST_RUN_TIME)
            due = self.job.submit + min(defaults.WAIT_OF_RUN_TIMES * run_time, longest)
            return min(due, now - longest + run_time / defaults.PRECEDING_PART), self.job.submit, self.job.name
        aged = order == "fcfs" or (order == "aged" and now - self.job.submit > _AGED)
        return 0.0 if aged else max(self.estimate, _BOUND), self.job.submit, self.job.name

    def end(self, start: float, now: float) -> float:
        """Return the expected end."""
        run_time = max(self.estimate, 1.0)
        while start + run_time <= now:
            run_time *= 2
        return start + run_time


class _Profile:
    """What is free on nodes from now on: (T, N) amounts that hold from each of (T,) times to the next."""

    def __init__(self, free: Amounts, now: float, ends: Mapping[float, Amounts]) -> None:
        """``ends`` are the amounts that are released at each time."""
        self.times = [now, *sorted(ends)]
        self.free = np.cumsum([free, *(ends[time] for time in self.times[1:])], axis=0)

    def start(self, job: _Sized, only_now: bool) -> tuple[float, Amounts] | None:
        """Return the earliest start of a job and what it uses then; None if it does not fit."""
        fits = (self.free[: 1 if only_now else None] // job.request).sum(axis=1) >= job.job.least
        for first in np.flatnonzero(fits).tolist():
            last = np.searchsorted(self.times, self.times[first] + job.estimate)
            used = _placed(self.free[first : max(int(last), first + 1)].min(axis=0), job)
            if used is not None:
                return self.times[first], used
        return None

    def reserve(self, start: float, used: Amounts, run_time: float) -> None:
        """Use amounts from a time on."""
        for time in (start, start + run_time):
            row = int(np.searchsorted(self.times, time))
            if row == len(self.times) or self.times[row] != time:
                self.times.insert(row, time)
                self.free = np.insert(self.free, row, self.free[row - 1], axis=0)
        rows = slice(*np.searchsorted(self.times, (start, start + run_time)).tolist())
        self.free[rows] -= used


def _placed(free: Amounts, job: _Sized) -> Amounts | None:
    """Return what the pods of a job use of each node, the fullest first; None if they do not fit."""
    room = np.maximum(free, 0) // job.request
    order = np.argsort(free, kind="stable")
    pods = np.minimum(np.cumsum(room[order]), job.job.least)
    if pods[-1] < job.job.least:
        return None
    used = np.zeros_like(free)
    used[order] = np.diff(pods, prepend=0) * job.request
    return used


class _Learnt:
    """Run times of jobs that have ended."""

    def __init__(self) -> None:
        self._times, self._ended, self._total = LearntRunTimes(), 0, 0.0

    def learn(self, job: Job) -> None:
        """Note the run time of a job that has ended."""
        self._times.learn(key_of(job.queue, job.user, job.name, ""), timedelta(seconds=job.ends_after))
        self._ended, self._total = self._ended + 1, self._total + job.ends_after

    def past(self, job: Job) -> float:
        """Return the run time of earlier runs of a job, 0 without any."""
        run = self._times.estimate(key_of(job.queue, job.user, job.name, ""))
        return 0.0 if run is None else run.total_seconds()

    def estimate(self, job: Job) -> float:
        """Return the estimate of a job."""
        if (past := self.past(job)) > 0:
            return past
        return job.walltime or (self._total / self._ended if self._ended else _BOUND)


class _Schedule:
    """What runs where, since when."""

    def __init__(self, free: Amounts, weights: Mapping[str, float]) -> None:
        self.free, self.weights = free, weights
        self.running: dict[str, tuple[_Sized, float, Amounts]] = {}

    def start(self, waiting: Sequence[_Sized], now: float, reservations: float) -> list[_Sized]:
        """Start what can start now, in the order of the jobs; return it."""
        ends: dict[float, Amounts] = {}
        for job, start, used in self.running.values():
            end = job.end(start, now)
            ends[end] = ends[end] + used if end in ends else used
        profile, started = _Profile(self.free, now, ends), list[_Sized]()
        for job in self._by_queue(waiting) if self.weights else waiting:
            placement = profile.start(job, only_now=reservations <= 0)
            if placement is None:
                continue
            profile.reserve(*placement, max(job.estimate, 1.0))
            if placement[0] > now:
                reservations -= 1
                continue
            self.free = self.free - placement[1]
            self.running[job.job.name] = (job, now, placement[1])
            started.append(job)
        return started

    def _by_queue(self, waiting: Sequence[_Sized]) -> Iterator[_Sized]:
        """Yield the jobs, the next of the queue that has the least for its weight."""
        queues: dict[str, deque[_Sized]] = {}
        for each in waiting:
            queues.setdefault(each.job.queue, deque()).append(each)
        while queues:
            allocated = dict.fromkeys(queues, 0)
            for job, _, used in self.running.values():
                allocated[job.job.queue] = allocated.get(job.job.queue, 0) + int(used.sum())
            queue = min(queues, key=lambda name: (allocated[name] / self.weights.get(name, 1.0), name))
            yield queues[queue].popleft()
            if not queues[queue]:
                del queues[queue]


def _work(waiting: Sequence[_Sized], schedule: _Schedule) -> float:
    """Return the expected work of the waiting jobs as the plugin ``slowdown`` does, with the measured excess of declared run times."""
    repeated = [job for job in (*waiting, *(entry[0] for entry in schedule.running.values())) if job.past]
    excess, work = defaults.DECLARED_EXCESS, sum(job.requested * job.past for job in repeated)
    if work:
        measured = sum(job.requested * job.estimate for job in repeated) / work
        excess += (measured - excess) * len(repeated) / (len(repeated) + defaults.PRIOR_JOBS)
    return sum(job.requested * (job.past or job.estimate / max(excess, 1.0)) for job in waiting)


EASY = Policy()
FIRST_FIT, CONSERVATIVE = Policy(reservations=0), Policy(reservations=math.inf)


def start_times(
    jobs: Sequence[Job],
    nodes: int,
    per_node: int,
    policy: Policy = EASY,
    resource: str = "cpu",
    weights: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the start of each job in seconds, by name; ``per_node`` is in base units (milli-cpus, cards)."""
    known, starts, waiting = _Learnt(), dict[str, float](), list[_Sized]()
    schedule = _Schedule(np.full(nodes, per_node, dtype=np.int64), (weights or {}) if policy.weighted else {})
    events = [(job.submit, 0, number) for number, job in enumerate(jobs)]
    heapq.heapify(events)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, is_end, number = heapq.heappop(events)
            job = jobs[number]
            if is_end:
                schedule.free = schedule.free + schedule.running.pop(job.name)[2]
                known.learn(job)
            else:
                request, estimate = quantity.amount(resource, job.requests[resource]), job.estimate or job.run_time
                sized = _Sized(job, request, estimate, known.past(job))
                waiting.append(replace(sized, estimate=known.estimate(job)) if policy.learnt else sized)
        longest = (
            defaults.WAIT_OF_BACKLOGS * _work(waiting, schedule) / (nodes * per_node) if policy.order == "due" else 0.0
        )
        waiting.sort(key=lambda job: job.key(policy.order, now, longest))
        numbers = {job.name: number for number, job in enumerate(jobs)} if waiting else {}
        for each in schedule.start(waiting, now, policy.reservations):
            starts[each.job.name] = now
            heapq.heappush(events, (now + each.job.ends_after, 1, numbers[each.job.name]))
        waiting = [each for each in waiting if each.job.name not in starts]
    return starts
