"""Cases of long runs and what is measured of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.scheduler.long_run import first_fit
from tests.scheduler.long_run.simulation import COOLDOWN, LongRun
from tests.scheduler.long_run.workload import Single, Stream
from volcanopy.api import core, quantity
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy_testing.notation import world

EIGHT_NODES = "\n".join(f"node n{number} cpu=8" for number in range(8))


@dataclass(frozen=True)
class Case:
    """A workload on a cluster with a configuration."""

    name: str
    config: SchedulerConfig
    queues: str
    streams: tuple[Stream, ...]
    expected: Mapping[str, float] = field(default_factory=dict)
    """The fair shares of the busy queues, relative to each other; of ``queue/user`` for users."""
    singles: tuple[Single, ...] = ()
    nodes: str = EIGHT_NODES
    cycles: int = 180
    settle: int = 60
    """Cycles at the beginning that are not measured."""
    restarts: tuple[int, ...] = ()
    """Cycles before which the scheduler restarts."""
    delay: int = 0
    """Cycles from the admission of a job to the creation of its pods."""

    @property
    def longest(self) -> int:
        """The longest time that a job runs."""
        return max([*(stream.minutes[1] for stream in self.streams), *(single.minutes for single in self.singles)])

    def first_fit(self, cycles: int | None, seed: int, keeps_shares: bool = False) -> first_fit.Result:
        """Return what a naive first fit comes to, or one that keeps to shares (:mod:`.first_fit`)."""
        nodes = [item.status.allocatable["cpu"] for item in world(self.nodes) if isinstance(item, core.Node)]
        milli = [quantity.amount("cpu", cpus) for cpus in nodes]
        jobs = first_fit.FirstFit(milli, self.streams, self.singles, seed, self.expected, keeps_shares)
        return jobs.run(cycles or self.cycles, self.settle)


@dataclass(frozen=True)
class Measures:
    """What a long run came to."""

    shares: Mapping[str, float]
    """The part of all allocated cpus that each queue had, in percent."""
    expected: Mapping[str, float]
    """The part that it should have had."""
    utilisation: float
    """Percent of the cluster's cpus that were allocated."""
    beside_first_fit: float
    """Points of it above those of a naive first fit that keeps to no shares."""
    idle: float
    """Percent of the cycles after which a job that waits would fit on what is free."""
    starts: int
    evictions: int
    repeated: int
    """Pods that were evicted more than once."""
    most_repeated: int
    """The most evictions of one job."""
    thrash: int
    """Evictions of a pod again for the same pair of queues within the cooldown."""
    partly_evicted: int
    """Jobs of which an eviction left a part below the minimum."""
    lost: float
    """Work lost by evictions, in percent of all work."""
    lost_hours: float
    """The same in cpu-hours."""
    worst_wait: int
    """Cycles that a job waited at most, those that still wait included."""
    slowest: float
    """How many times as long as its bound without losses a job waited at most: the longest run time, and the time in which the
    fair share of its queue or user does the work of the jobs before it."""
    waits: Mapping[str, int | None]
    """Cycles that each single job waited; None if it did not start."""

    @property
    def error(self) -> float:
        """The largest deviation of a share from the expected one, in points."""
        return max((abs(self.shares[name] - share) for name, share in self.expected.items()), default=0.0)

    @property
    def evictions_per_thousand(self) -> float:
        """Evicted pods per 1,000 started jobs."""
        return 1000 * self.evictions / max(self.starts, 1)


def measure(case: Case, cycles: int | None = None, seed: int = 3, checked: bool = False) -> Measures:
    """Run a case; ``cycles`` replaces its number of cycles."""
    run = LongRun(f"{case.nodes}\n{case.queues}", case.config, case.streams, case.singles, seed, checked, case.delay)
    sums: Counter[str] = Counter()
    total = measured = idle = 0
    cycles = cycles or case.cycles
    for number in range(cycles):
        if number in case.restarts:
            run.restart()
        run.cycle()
        if number >= case.settle:
            measured += 1
            total += sum(run.allocated.values())
            waiting = (job for job in run.jobs.values() if not job.bound)
            idle += first_fit.any_fits(waiting, run.free())
            sums.update(_allocated(run, case.expected))
    sharing = sum(sums[name] for name in case.expected)
    weights = sum(case.expected.values())
    evicted = Counter(pod for _, pod, _, _ in run.evictions)
    waits = run.waits | {
        name: run.cycle_number - job.submitted for name, job in run.jobs.items() if job.first_started is None
    }
    work = total * run.cycle_number / max(measured, 1)
    return Measures(
        shares={name: 100 * sums[name] / max(sharing, 1) for name in case.expected},
        expected={name: 100 * share / weights for name, share in case.expected.items()},
        utilisation=100 * total / (run.capacity * max(measured, 1)),
        beside_first_fit=100 * total / (run.capacity * max(measured, 1)) - case.first_fit(cycles, seed).utilisation,
        idle=100 * idle / max(measured, 1),
        starts=len(run.waits),
        evictions=len(run.evictions),
        repeated=sum(count > 1 for count in evicted.values()),
        most_repeated=max(_evictions_by_job(run).values(), default=0),
        thrash=_thrash(run),
        partly_evicted=len(run.partly_evicted),
        lost=100 * run.lost / max(work, 1),
        lost_hours=run.lost / 60_000,
        worst_wait=max(waits.values(), default=0),
        slowest=max(
            (wait / (case.longest + run.before[name] / _share(case, run, name)) for name, wait in waits.items())
        ),
        waits={single.name: run.waits.get(single.name) for single in case.singles},
    )


def _allocated(run: LongRun, names: Mapping[str, float]) -> Mapping[str, int]:
    """Return the milli-cpus of queues, or of users ``queue/user``."""
    if not any("/" in name for name in names):
        return run.allocated
    sums: Counter[str] = Counter()
    for job in run.jobs.values():
        sums[job.claimant] += job.cpu * len(job.bound)
    return sums


def _share(case: Case, run: LongRun, job: str) -> float:
    """Return the milli-cpus of the fair share that a job is started with."""
    if not case.expected:
        return run.capacity
    return run.capacity * case.expected[run.claimants[job]] / sum(case.expected.values())


def _evictions_by_job(run: LongRun) -> Counter[str]:
    """Return in how many cycles pods of each job were evicted."""
    return Counter(job for _, job in {(cycle, pod.rpartition("-")[0]) for cycle, pod, _, _ in run.evictions})


def _thrash(run: LongRun) -> int:
    last: dict[tuple[str, str, str], int] = {}
    again = 0
    for cycle, pod, queue, preemptor in run.evictions:
        pair = (pod, queue, preemptor)
        again += pair in last and 0 < cycle - last[pair] <= COOLDOWN
        last[pair] = cycle
    return again
