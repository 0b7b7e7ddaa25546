"""Comparison of allocate with exhaustive search in small worlds."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from tests import nightly
from tests.scheduler.reference.exhaustive_placement import placement_of
from volcanopy.scheduler.actions.allocate.vector_packing import packing
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy_testing.notation import config, decide, snapshot

NODES, TASKS = 4, 6
PLUGINS = "priority, gang | predicates, nodeorder, binpack"


def tiny(dice: Random) -> str:
    """Up to four nodes, and one gang of up to six tasks of up to three kinds."""
    lines, parts, left = list[str](), list[str](), TASKS
    for number in range(dice.randint(1, NODES)):
        memory = f" memory={dice.randint(1, 8)}Gi" if dice.randint(0, 1) else ""
        flag = dice.choice(["", "", " zone=a", " taint=t:NoSchedule"])
        lines.append(f"node n{number} cpu={dice.randint(1, 8)}{memory}{flag}")
    for role in range(dice.randint(1, 3)):
        count = dice.randint(1, min(3, max(left, 1)))
        memory = f" memory={dice.randint(1, 5)}Gi" if dice.randint(0, 1) else ""
        flag = dice.choice(["", "", " tolerates=t", " selector.topology.kubernetes.io/zone=a"])
        if left >= count:
            parts.append(f"{count} x role=r{role} cpu={dice.randint(1, 5)}{memory}{flag}")
            left -= count
    least = dice.choice([TASKS - left, TASKS - left, dice.randint(1, TASKS - left)])
    return "\n".join([*lines, f"job a min={least}: {', '.join(parts)}"])


def verdicts(plugins: str, seeds: range) -> Iterator[tuple[str, bool, bool]]:
    """Return worlds, whether a placement exists, and whether allocate places the gang."""
    chosen = config(plugins)
    for seed in seeds:
        text = tiny(Random(seed))
        seen = snapshot(text)
        possible = placement_of(seen, chosen, "default/a") is not None
        yield text, possible, bool(schedule(seen, chosen).of(Bind))


@pytest.mark.parametrize("seeds", nightly.seeds(90, 250, 90, 160))
@pytest.mark.parametrize("plugins", [PLUGINS, "gang, predicates, nodeorder"])
def test_where_a_gang_can_be_placed_allocate_places_it(plugins: str, seeds: range) -> None:
    """A heuristic search may miss at most one world in two hundred."""
    outcomes = list(verdicts(plugins, seeds))
    assert not [text for text, possible, result in outcomes if result and not possible]
    possible = sum(possible for _, possible, _ in outcomes)
    missed = [text for text, possible, result in outcomes if possible and not result]
    assert possible > len(seeds) / 4
    assert len(missed) <= possible / 200, "\n--\n".join(missed)


def bound(text: str, plugins: str = PLUGINS) -> list[str]:
    return [str(effect) for effect in decide(text, plugins).of(Bind)]


def test_small_tasks_are_repacked_for_a_large_task_of_their_gang() -> None:
    """In their order the small tasks are spread over both nodes, and the large task fits no node."""
    text = "node n1 cpu=4\nnode n2 cpu=4\njob a: 2 x cpu=1 role=s, 1 x cpu=4 role=b"
    assert bound(text, "gang, predicates, nodeorder") == ["bind a-b-0 -> n1", "bind a-s-0 -> n2", "bind a-s-1 -> n2"]


def test_flexible_tasks_are_repacked_for_restricted_ones() -> None:
    text = (
        "node n1 cpu=2 zone=a\nnode n2 cpu=1\n"
        "job a: 1 x cpu=1 role=any, 1 x cpu=2 role=z selector.topology.kubernetes.io/zone=a"
    )
    assert sorted(bound(text, "gang, predicates, binpack")) == ["bind a-any-0 -> n2", "bind a-z-0 -> n1"]


def test_a_gang_that_needs_only_some_of_its_tasks_starts_with_those_that_fit() -> None:
    text = "node n1 cpu=4\njob a min=3: 1 x cpu=3 role=big, 3 x cpu=1 role=small"
    assert bound(text)[:3] == ["bind a-small-0 -> n1", "bind a-small-1 -> n1", "bind a-small-2 -> n1"]


def test_no_repack_if_no_order_can_place_the_gang() -> None:
    assert bound("node n1 cpu=4\nnode n2 cpu=4\njob a: 2 x cpu=3 role=s, 1 x cpu=5 role=b") == []
    assert bound("node n1 cpu=4\nnode n2 cpu=4\njob a: 2 x cpu=3 role=s, 1 x cpu=3 role=b") == []
    assert (
        bound(
            "queue default capability.cpu=3\nnode n1 cpu=9\njob a: 2 x cpu=1 role=s, 1 x cpu=2 role=b",
            PLUGINS + ", proportion",
        )
        == []
    )


def planted(dice: Random, nodes: int, fill: float) -> str:
    """Nodes of two resources and one gang of 20 unequal tasks that fits: the parts into which each node was cut."""
    lines, parts = list[str](), list[tuple[int, int]]()
    for number in range(nodes):
        cpu, memory = dice.choice([8000, 16000, 32000]), dice.choice([16, 32, 64]) * 1024
        lines.append(f"node n{number} cpu={cpu}m memory={memory}Mi")
        count = len(range(number, 20, nodes))
        parts += zip(_cut(dice, cpu, count, fill), _cut(dice, memory, count, fill), strict=True)
    dice.shuffle(parts)
    tasks = (f"1 x role=r{at} cpu={cpu}m memory={memory}Mi" for at, (cpu, memory) in enumerate(parts))
    return "\n".join([*lines, f"job a: {', '.join(tasks)}"])


def _cut(dice: Random, total: int, count: int, fill: float) -> list[int]:
    weights = [dice.uniform(0.05, 1.05) for _ in range(count)]
    return [max(1, int(total * fill * weight / sum(weights))) for weight in weights]


@pytest.mark.parametrize(("fill", "most"), [(0.76, 0), (0.80, 0), (0.84, 1), (0.88, 3)])
def test_gangs_of_unequal_tasks_that_fill_the_nodes_are_placed(fill: float, most: int) -> None:
    """Of 60 gangs on 4 to 10 nodes at most ``most`` are missed."""
    missed = 0
    for seed in range(40):
        text = planted(Random(f"{seed} {fill}"), (4, 5, 7, 10)[seed % 4], fill)
        missed += not decide(text, PLUGINS).of(Bind)
    assert missed <= most


def test_a_task_that_fits_nowhere_takes_the_place_of_another() -> None:
    """7 goes to the tighter node of 8, 5 and 4 to that of 12; the second 4 fits only where another makes way."""
    free, requests = np.array([[12, 8]]), np.array([[7, 5, 4, 4]])
    nodes, steps = packing(free, requests, np.ones((4, 2), dtype=np.bool_), np.array([12]), balanced=False)
    assert nodes is not None
    assert nodes.tolist() == [0, 0, 1, 1]
    assert steps > 4
    assert (
        packing(free, np.array([[7, 7, 6]]), np.ones((3, 2), dtype=np.bool_), np.array([12]), balanced=True)[0] is None
    )
