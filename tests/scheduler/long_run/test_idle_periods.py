"""Long-run shares of queues follow their weights at every level, also after idle periods."""

import json
from collections import Counter
from fractions import Fraction

import pytest

from tests.nightly import nightly
from tests.scheduler.long_run.simulation import LongRun
from tests.scheduler.long_run.workload import Stream
from tests.scheduler.reference.weighted_shares import QueueNode, shares_of
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, parse

CPUS = 60
TREE = {"root": {"eng": 3, "sci": 2, "ops": 1}, "eng": {"dev": 2, "test": 1}, "sci": {"bio": 3, "phys": 1}}
LEAVES = ("dev", "test", "bio", "phys", "ops")


def shares(busy: set[str]) -> dict[str, float]:
    """Return the shares of busy leaf queues by weight, as fractions."""

    def below(name: str) -> list[QueueNode]:
        return [
            QueueNode(child, weight, asks=CPUS if child in busy else 0, below=below(child))
            for child, weight in TREE.get(name, {}).items()
        ]

    result = dict(shares_of(Fraction(CPUS), below("root")))
    return {leaf: float(result[leaf] / CPUS) for leaf in LEAVES}


def world(claims: bool) -> str:
    """Return nodes and the tree; with ``claims`` the deserved cpus of queues follow their weights."""
    lines = [f"node n{number} cpu=10 pods=30" for number in range(CPUS // 10)] + ["queue root"]
    all_busy = shares(set(LEAVES))
    for parent, children in TREE.items():
        for name, weight in children.items():
            due = sum(all_busy[leaf] for leaf in (name, *TREE.get(name, {})) if leaf in all_busy)
            words = f" deserved.cpu={round(due * CPUS * 1000)}m" if claims else ""
            lines.append(f"queue {name} parent={parent} weight={weight}{words}")
    return "\n".join(lines)


def config(plugin: str) -> SchedulerConfig:
    entry = {"name": plugin, "enableHierarchy": plugin != "proportion"}
    tiers = [{"plugins": [{"name": "gang"}, entry]}, {"plugins": [{"name": "predicates"}]}]
    return parse(json.dumps({"actions": "allocate, reclaim", "tiers": tiers}), builtin())


def averages(run: LongRun, settling: int, measured: int) -> dict[str, float]:
    """Run cycles; return the part of the allocated cpus that each queue has in the last ``measured`` of them."""
    sums: Counter[str] = Counter()
    for number in range(settling + measured):
        run.cycle()
        if number >= settling:
            sums.update(run.allocated)
    return {leaf: sums[leaf] / sums.total() for leaf in LEAVES}


@pytest.mark.parametrize(
    "plugin", [pytest.param("proportion", marks=nightly), pytest.param("capacity", marks=nightly), "drf"]
)
def test_long_run_shares_are_within_two_percent_of_the_weights(plugin: str) -> None:
    streams = [Stream(leaf, pods=(1, 1, 2, 3), cpu=("1",), minutes=(4, 16), backlog=0.2) for leaf in LEAVES]
    run = LongRun(world(claims=plugin == "capacity"), config(plugin), streams, seed=1)
    stages = [(set[str](), 5), ({"bio"}, 15), ({"bio", "phys"}, 15), (set(), 15)]
    for absent, settling in stages:
        for leaf in LEAVES:
            if leaf in absent:
                run.stop_arrivals(leaf)
            else:
                run.idle.discard(leaf)
        assert averages(run, settling, 20) == pytest.approx(shares(set(LEAVES) - absent), abs=0.02), absent
