"""Random mixes of work for long runs: queues with weights, flat or in a tree, each with jobs of its own sizes."""

from random import Random

from tests.scheduler.long_run.cases import ADMIT, EVICT, config
from tests.scheduler.long_run.measures import Case
from tests.scheduler.long_run.workload import MIXED, SMALL, Stream

PODS = ((1,), SMALL, (4,), (8,), (1, 16))
CPUS = (("1",), MIXED, ("2", "4"), ("8",))
MINUTES = ((5, 20), (10, 30), (2, 6))
CPUS_OF_CLUSTER = 64
BACKLOG = 0.8
"""With less, a queue of large jobs that run for a few minutes does not always have one that waits."""
LARGEST_WAITING = 4
"""The backlog is at least so many of the largest jobs of a stream.

Jobs arrive as others start. With a backlog of two, only gangs of half the cluster are left in the end: while they wait for nodes, no
smaller job arrives, so that the queue has no work for its share and is rightly allocated less than it.
"""


def random_case(seed: int) -> Case:
    """Return the mix of a seed. No job needs more than half of the cluster."""
    dice = Random(seed)
    tree = dice.random() < 0.5
    names = "abcd"[: dice.randint(2, 4)]
    weights = {name: dice.randint(1, 4) for name in names}
    parents = {name: dice.choice("xy") if tree else "root" for name in names}
    lines = ["queue root", *(f"queue {parent} parent=root" for parent in sorted(set(parents.values()) - {"root"}))]
    lines += [f"queue {name} parent={parents[name]} weight={weights[name]}" for name in names]
    streams = []
    for name in names:
        fitting = [
            (pods, cpu) for pods in PODS for cpu in CPUS if max(pods) * max(map(_cpus, cpu)) <= CPUS_OF_CLUSTER / 2
        ]
        pods, cpu = dice.choice(fitting)
        minutes, declared = dice.choice(MINUTES), dice.random() < 0.3
        backlog = max(BACKLOG, LARGEST_WAITING * max(pods) * max(map(_cpus, cpu)) / CPUS_OF_CLUSTER)
        streams.append(Stream(name, pods=pods, cpu=cpu, minutes=minutes, declared=declared, backlog=backlog))
    siblings = {name: sum(weights[other] for other in names if parents[other] == parents[name]) for name in names}
    expected = {name: weights[name] / siblings[name] for name in names}
    evicts = dice.random() < 0.4
    # A job that needs several free nodes, and may not evict as it is larger than the fair share of its queue, starts only with a
    # reservation: one for the first job of each queue.
    heads = {"name": "reservation", "arguments": {"heads": len(names)}}
    return Case(
        name=f"mix {seed}",
        config=config(EVICT if evicts else ADMIT, first=[heads]),
        queues="\n".join(lines),
        streams=tuple(streams),
        expected=expected,
        cycles=180,
        settle=60,
        restarts=(dice.randint(60, 180),),
    )


def granularity(case: Case) -> float:
    """Return the points by which the shares of a run may deviate because jobs are not divisible.

    A queue is ahead or behind by at most one of the largest jobs for the time that it runs.
    """
    measured = case.cycles - case.settle
    largest = max(max(stream.pods) * max(map(_cpus, stream.cpu)) * stream.minutes[1] for stream in case.streams)
    return 100 * largest / (CPUS_OF_CLUSTER * measured)


def _cpus(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
