"""What a naive first fit does with the same streams, and whether a waiting job fits: cpus only.

Every job starts as soon as it fits, the oldest first; surplus pods of elastic jobs do not run. Jobs keep to no shares, so that the
work of some queues fills what those of others leave. With ``keeps_shares`` they do, and none waits for ever:

1. The queue (or user) comes first that has had the least for its share in the last ``PAYBACK`` cycles.
2. While it has no job that fits, each other one is allocated ``EXCESS`` times its share at most.
3. Once a job has waited for ``PATIENCE`` cycles and does not fit, the nodes with the most free are left to it and to those before it.

The constants are those of the highest utilisation, of 80 combinations, with errors of shares below 2 points and waits near those of
the default configuration in the case of flat queues with the seeds 4 to 7: what could be had by rules as simple as these.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.scheduler.long_run.workload import Job, Single, Stream, drawn, job
from volcanopy_testing.notation import NOW

PAYBACK, EXCESS, PATIENCE = 15, 1.05, 20


def placed(job: Job, free: Sequence[int]) -> list[int] | None:
    """Return what is free on nodes beside the minimum of a job, the fullest nodes first; None if it does not fit."""
    rest, result = job.group.spec.min_member, list(free)
    for node in sorted(range(len(free)), key=free.__getitem__):
        pods = min(result[node] // job.cpu, rest)
        result[node], rest = result[node] - pods * job.cpu, rest - pods
    return None if rest else result


def any_fits(jobs: Iterable[Job], free: Sequence[int]) -> bool:
    """Return whether a job fits into what is free on nodes."""
    return any(placed(job, free) is not None for job in jobs)


@dataclass(frozen=True)
class Result:
    """What a first fit came to; see :class:`~tests.scheduler.long_run.measures.Measures`."""

    utilisation: float
    error: float
    slowest: float


class FirstFit:
    """The nodes and jobs of a first fit."""

    def __init__(
        self,
        nodes: Sequence[int],
        streams: Sequence[Stream],
        singles: Sequence[Single],
        seed: int,
        expected: Mapping[str, float],
        keeps_shares: bool = False,
    ) -> None:
        """``expected`` are the shares of queues, or of users ``queue/user``, relative to each other."""
        self._nodes, self._streams, self._singles = list(nodes), streams, singles
        self._capacity, self._keeps_shares = sum(nodes), keeps_shares
        weights = sum(expected.values())
        self._shares = {name: self._capacity * share / weights for name, share in expected.items()}
        """Milli-cpus."""
        self._longest = max([*(stream.minutes[1] for stream in streams), *(single.minutes for single in singles)])
        self._dice = {stream: Random(f"{seed} {stream.queue} {stream.user}") for stream in streams}
        self._numbers, self._backlog = Counter[Stream](), Counter[Stream]()
        self._free, self._waiting = list(nodes), list[Job]()
        self._running: list[tuple[int, list[int], str]] = []
        """The end of each job, what it has of each node, and whose share it uses."""
        self._allocated = Counter[str]()
        self._debt = dict.fromkeys(self._shares, 0.0)
        """What each had above its share in the last cycles."""
        self._before: dict[str, int] = {}
        """The work of the jobs of the same share that waited when a job came."""
        self._slowest = 0.0

    def run(self, cycles: int, settle: int) -> Result:
        """Run some cycles, of which the first ``settle`` are not measured."""
        used, allocated = 0, Counter[str]()
        for cycle in range(1, cycles + 1):
            self._end(cycle)
            self._arrive(cycle)
            while self._start_first(cycle):
                pass
            for name, share in self._shares.items():
                self._debt[name] = (self._debt[name] + self._allocated[name] - share) * (1 - 1 / PAYBACK)
            if cycle > settle:
                used += self._capacity - sum(self._free)
                allocated.update({name: self._allocated[name] for name in self._shares})
        for waiting in self._waiting:
            self._count_wait(waiting, cycles)
        total = max(sum(allocated.values()), 1)
        errors = (abs(allocated[name] / total - share / self._capacity) for name, share in self._shares.items())
        utilisation = 100 * used / (self._capacity * max(cycles - settle, 1))
        return Result(utilisation, 100 * max(errors, default=0.0), self._slowest)

    def _end(self, cycle: int) -> None:
        for _, amounts, name in [entry for entry in self._running if entry[0] <= cycle]:
            self._free = [free + amount for free, amount in zip(self._free, amounts, strict=True)]
            self._allocated[name] -= sum(amounts)
        self._running = [entry for entry in self._running if entry[0] > cycle]

    def _arrive(self, cycle: int) -> None:
        arrivals = [job(single, NOW) for single in self._singles if single.cycle == cycle]
        for stream in self._streams:
            while cycle >= stream.first and self._backlog[stream] < stream.backlog * self._capacity:
                arrivals.append(drawn(stream, self._numbers[stream], self._dice[stream], cycle, NOW))
                self._numbers[stream] += 1
                self._backlog[stream] += arrivals[-1].requested
        for arrival in arrivals:
            same = (other for other in self._waiting if other.claimant == arrival.claimant)
            self._before[arrival.name] = sum(other.work for other in same)
            self._waiting.append(arrival)

    def _start_first(self, cycle: int) -> bool:
        """Start the first job that may start; return whether there is one."""
        left = self._free
        """What is left to jobs behind one that has waited for long."""
        waiting = sorted(self._waiting, key=self._rank) if self._keeps_shares else self._waiting
        for entry in waiting:
            name = entry.claimant
            exceeds = self._allocated[name] + entry.requested > EXCESS * self._shares.get(name, self._capacity)
            if self._keeps_shares and exceeds and name != waiting[0].claimant:
                continue
            after = placed(entry, left)
            if after is None:
                if self._keeps_shares and left is self._free and cycle - entry.submitted >= PATIENCE:
                    left = self._left_beside(entry)
                continue
            amounts = [free - rest for free, rest in zip(left, after, strict=True)]
            self._free = [free - amount for free, amount in zip(self._free, amounts, strict=True)]
            self._running.append((cycle + entry.minutes, amounts, name))
            self._allocated[name] += sum(amounts)
            self._waiting.remove(entry)
            if entry.stream is not None:
                self._backlog[entry.stream] -= entry.requested
            self._count_wait(entry, cycle)
            return True
        return False

    def _rank(self, entry: Job) -> float:
        name = entry.claimant
        return (self._debt[name] + self._allocated[name]) / self._shares[name]

    def _left_beside(self, entry: Job) -> list[int]:
        """Return what is free on the nodes that are not left to a job."""
        left, rest = list(self._free), entry.group.spec.min_member
        for node in sorted(range(len(left)), key=left.__getitem__, reverse=True):
            if rest <= 0:
                break
            left[node], rest = 0, rest - self._nodes[node] // entry.cpu
        return left

    def _count_wait(self, entry: Job, cycle: int) -> None:
        bound = self._longest + self._before[entry.name] / self._shares.get(entry.claimant, self._capacity)
        self._slowest = max(self._slowest, (cycle - entry.submitted) / bound)
