"""What a naive first fit uses of the cluster with the same streams, and whether a waiting job fits: cpus only."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from tests.scheduler.long_run.workload import Job, Single, Stream, drawn, job
from volcanopy.testing.notation import NOW


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


def utilisation(
    nodes: Sequence[int], streams: Sequence[Stream], singles: Sequence[Single], cycles: int, settle: int, seed: int
) -> float:
    """Return the percent of the cpus that are allocated if every job starts as soon as it fits, the oldest first.

    Jobs keep to no shares, and surplus pods of elastic jobs do not run.
    """
    dice = {stream: Random(f"{seed} {stream.queue} {stream.user}") for stream in streams}
    numbers, backlog = Counter[Stream](), Counter[Stream]()
    free, waiting, running, used = list(nodes), list[Job](), list[tuple[int, list[int]]](), 0
    for cycle in range(1, cycles + 1):
        for _, amounts in [entry for entry in running if entry[0] <= cycle]:
            free = [have + back for have, back in zip(free, amounts, strict=True)]
        running = [entry for entry in running if entry[0] > cycle]
        waiting += [job(single, NOW) for single in singles if single.cycle == cycle]
        for stream in streams:
            while cycle >= stream.first and backlog[stream] < stream.backlog * sum(nodes):
                waiting.append(drawn(stream, numbers[stream], dice[stream], cycle, NOW))
                numbers[stream] += 1
                backlog[stream] += waiting[-1].requested
        for entry in list(waiting):
            after = placed(entry, free)
            if after is None:
                continue
            running.append((cycle + entry.minutes, [have - rest for have, rest in zip(free, after, strict=True)]))
            free = after
            waiting.remove(entry)
            if entry.stream is not None:
                backlog[entry.stream] -= entry.requested
        used += sum(nodes) - sum(free) if cycle > settle else 0
    return 100 * used / (sum(nodes) * max(cycles - settle, 1))
