"""Measures of an outcome, and their means over seeds with confidence intervals.

**Bounded slowdown** of a job: the time from its submission to its end, divided by its run time, both at least 10 seconds; at
least 1. A job that ends at once after its submission has 1.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

from volcanopy_lab.simulate.outcome import JobOutcome, Outcome

THRESHOLD = 10.0
"""Seconds below which a run time counts as this, so that very short jobs do not dominate."""
STARVED = 4.0
"""A job that waits this many times its bound starves."""
_STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""97.5 % quantiles of Student's t distribution for 1 to 15 degrees of freedom."""


def bounded_slowdown(job: JobOutcome) -> float:
    """Return the bounded slowdown of a job that has ended."""
    return max((job.end - job.submit) / max(job.run_time, THRESHOLD), 1.0)


def waited(job: JobOutcome, end: float) -> float:
    """Return the seconds from the submission of a job to its first start, or so far."""
    return (job.start if job.start >= 0 else end) - job.submit


@dataclass(frozen=True)
class Measures:
    """Measures of one run. Times are in seconds, parts from 0 to 1."""

    jobs: float
    """Jobs that were submitted and not rejected."""
    never_started: float
    mean_wait: float
    """From submission to the first start, of the jobs that started."""
    longest_wait: float
    """Those that never start count with their wait until the end."""
    mean_bounded_slowdown: float
    """Of the jobs that ended."""
    utilisation: float
    """Mean allocated part of the cpus while jobs arrive and until the end."""
    gpu_utilisation: float
    """The same of the cards."""
    gpu_allocation: float
    """Allocated part of the cards at the end."""
    makespan: float
    fairness_distance: float
    """Mean distance of the shares of the queues from their fair shares while queues compete: 0 is fair, 1 the opposite."""
    slowest: float
    """The longest wait of a job in multiples of its bound: the longest run time, and the time in which the weight of its
    queue does the work before it. Above :data:`STARVED` it starves.
    """
    starved: float
    """Jobs that starve."""
    evictions: float
    """Pods that were evicted for other jobs."""
    thrash: float
    """Evictions of a job for one that was evicted for it before."""
    lost: float
    """Part of all work that evictions destroyed."""
    fragmentation: float
    """Mean part of the free cards (cpus without any) that an average pod of the workload cannot use."""
    events_per_second: float
    """Arrivals and ends per second of processor time; 0 where that was not measured."""


def measure(outcome: Outcome) -> Measures:
    """Return the measures of a run."""
    started = [job for job in outcome.jobs if job.start >= 0]
    ended = [job for job in outcome.jobs if job.end >= 0 and job.run_time >= 0]
    slowness = [waited(job, outcome.end) / job.bound for job in outcome.jobs if job.bound > 0]
    for_others = [eviction for eviction in outcome.evictions if eviction.preemptor]
    work = outcome.utilisation.get(outcome.main, 0.0) * outcome.capacity.get(outcome.main, 0.0) * outcome.end
    return Measures(
        jobs=len(outcome.jobs),
        never_started=len(outcome.jobs) - len(started),
        mean_wait=_mean([waited(job, outcome.end) for job in started]),
        longest_wait=max((waited(job, outcome.end) for job in outcome.jobs), default=0.0),
        mean_bounded_slowdown=_mean([bounded_slowdown(job) for job in ended]),
        utilisation=outcome.utilisation.get("cpu", 0.0),
        gpu_utilisation=outcome.utilisation.get("gpu", 0.0),
        gpu_allocation=outcome.allocated.get("gpu", 0.0),
        makespan=max((job.end for job in outcome.jobs), default=0.0)
        - min((job.submit for job in outcome.jobs), default=0.0),
        fairness_distance=outcome.distance,
        slowest=max(slowness, default=0.0),
        starved=sum(slow > STARVED for slow in slowness),
        evictions=sum(eviction.pods for eviction in for_others),
        thrash=thrash(outcome),
        lost=sum(eviction.lost for eviction in outcome.evictions) / work if work else 0.0,
        fragmentation=_mean([sample.fragmentation for sample in outcome.samples]),
        events_per_second=outcome.events / outcome.cpu_seconds if outcome.cpu_seconds else 0.0,
    )


def thrash(outcome: Outcome) -> int:
    """Return the number of evictions of a job for one that was evicted for it before."""
    before: set[tuple[str, str]] = set()
    again = 0
    for eviction in outcome.evictions:
        if eviction.preemptor:
            again += (eviction.preemptor, eviction.job) in before
            before.add((eviction.job, eviction.preemptor))
    return again


@dataclass(frozen=True)
class Interval:
    """Mean of a measure over seeds, with half the width of its 95 % confidence interval; 0 with one seed."""

    mean: float
    half: float = 0.0


def over_seeds(measures: Sequence[Measures]) -> dict[str, Interval]:
    """Return the mean and the confidence interval of each measure."""
    return {field.name: interval([getattr(run, field.name) for run in measures]) for field in fields(Measures)}


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of values with its 95 % confidence interval after Student."""
    mean = _mean(values)
    if len(values) < 2:
        return Interval(mean)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    quantile = _STUDENT[len(values) - 2] if len(values) - 2 < len(_STUDENT) else 1.96
    return Interval(mean, quantile * deviation / math.sqrt(len(values)))


def by_class(
    jobs: Iterable[JobOutcome], key: Callable[[JobOutcome], str], end: float
) -> dict[str, tuple[int, float, float]]:
    """Return number, mean wait and mean bounded slowdown of the jobs that ended, by class."""
    classes: dict[str, list[JobOutcome]] = {}
    for job in jobs:
        if job.end >= 0 and job.run_time >= 0:
            classes.setdefault(key(job), []).append(job)
    return {
        name: (len(same), _mean([waited(job, end) for job in same]), _mean([bounded_slowdown(job) for job in same]))
        for name, same in classes.items()
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
