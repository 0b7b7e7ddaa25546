"""Tests of the placement of gangs by an integer program."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.scheduler.test_exhaustive import PLUGINS, planted
from volcanopy.api.config_file import ConfigError
from volcanopy.scheduler.actions.allocate.exact_packing import Demand, exact_packing
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.resources import Ints, Mask
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.testing.notation import config, snapshot

GREEDY = config(PLUGINS)


def exactly(chosen: SchedulerConfig) -> SchedulerConfig:
    return replace(chosen, action_arguments={"allocate": {"exactPlacement": True}})


def binds(text: str, chosen: SchedulerConfig) -> list[str]:
    return [str(bind) for bind in schedule(snapshot(text), chosen).of(Bind)]


def tiny_demand(dice: Random) -> tuple[Ints, Mask, Demand]:
    """Two resources, up to three nodes, up to three groups of up to two tasks."""
    nodes, groups = dice.randint(1, 3), dice.randint(1, 3)
    free = np.array([[dice.randint(0, 9) for _ in range(nodes)] for _ in range(2)])
    requests = np.array([[dice.randint(0, 5) for _ in range(groups)] for _ in range(2)])
    sizes = np.array([dice.randint(1, 2) for _ in range(groups)])
    feasible = np.array([[dice.random() < 0.8 for _ in range(nodes)] for _ in range(groups)])
    members = np.array([dice.random() < 0.5 for _ in range(groups)])
    return free, feasible, Demand(requests, sizes, dice.randint(1, int(sizes.sum())), [(members, dice.randint(0, 2))])


def satisfies(placed: Ints, free: Ints, feasible: Mask, demand: Demand) -> bool:
    used: Ints = demand.requests @ placed
    return (
        bool((used <= free).all() and not placed[~feasible].any() and (placed.sum(axis=1) <= demand.sizes).all())
        and placed.sum() >= demand.total
        and all(placed[members].sum() >= least for members, least in demand.minima)
    )


def every_placement(feasible: Mask, demand: Demand) -> Iterator[Ints]:
    most = [int(demand.sizes[group]) for group, _ in np.ndindex(*feasible.shape)]
    for counts in product(*(range(size + 1) for size in most)):
        yield np.array(counts).reshape(feasible.shape)


def test_it_finds_a_placement_exactly_where_one_exists() -> None:
    found = 0
    for seed in range(60):
        free, feasible, demand = tiny_demand(Random(seed))
        placed = exact_packing(free, feasible, demand)
        exists = any(satisfies(each, free, feasible, demand) for each in every_placement(feasible, demand))
        assert (placed is not None) == exists, seed
        assert placed is None or satisfies(placed, free, feasible, demand), seed
        found += exists
    assert 10 < found < 50


@pytest.mark.parametrize(("total", "exists"), [(3, True), (4, False)])
def test_amounts_of_very_different_size_are_exact(total: int, exists: bool) -> None:
    """A large task fills a node to the byte: one byte more does not fit."""
    terabyte, anywhere = 2**40, np.ones((2, 2), dtype=bool)
    free = np.array([[4, 4], [terabyte, terabyte]])
    demand = Demand(np.array([[1, 1], [terabyte, 1]]), np.array([2, 2]), total)
    placed = exact_packing(free, anywhere, demand)
    assert (placed is not None and satisfies(placed, free, anywhere, demand)) == exists


def test_gangs_that_fill_the_nodes_start_where_greedy_placement_misses_them() -> None:
    missed = []
    for seed in range(12):
        text = planted(Random(f"{seed} 0.92"), (4, 5, 7, 10)[seed % 4], 0.92)
        if not binds(text, GREEDY):
            missed.append(len(binds(text, exactly(GREEDY))))
    assert len(missed) > 1
    assert set(missed) == {20}


def test_the_tasks_of_a_gang_are_selected_together_with_their_nodes() -> None:
    """The two smallest tasks exceed the memory; one of each kind fits."""
    text = "node n1 cpu=7 memory=5Gi\njob a min=2: 2 x cpu=3 memory=3Gi role=s, 1 x cpu=4 memory=1Gi role=b"
    assert binds(text, GREEDY)[:2] in ([], ["bind a-b-0 -> n1", "bind a-s-0 -> n1"])
    assert sorted(binds(text, exactly(GREEDY))) == ["bind a-b-0 -> n1", "bind a-s-0 -> n1"]


def test_each_role_gets_its_minimum() -> None:
    text = (
        "node n1 cpu=5 memory=4Gi\nnode n2 cpu=5 memory=4Gi\n"
        "job a min=4: 3 x cpu=2 memory=1Gi role=s min=2, 2 x cpu=3 memory=3Gi role=b min=2"
    )
    assert sorted(pair.split(" -> ")[0] for pair in binds(text, exactly(GREEDY))) == [
        "bind a-b-0",
        "bind a-b-1",
        "bind a-s-0",
        "bind a-s-1",
    ]


def test_a_limit_of_the_queue_holds() -> None:
    text = "queue default capability.cpu=5\nnode n1 cpu=4\nnode n2 cpu=4\njob a: 2 x cpu=2 role=s, 1 x cpu=4 role=b"
    assert binds(text, exactly(config(PLUGINS + ", capacity"))) == []


def test_without_the_solver_the_argument_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    text = 'actions: "allocate"\nconfigurations:\n- name: allocate\n  arguments: {exactPlacement: true}\n'
    with pytest.raises(ConfigError) as error:
        parse(text, builtin())
    assert str(error.value) == (
        "configurations[0].arguments (allocate).exactPlacement: must be false unless highspy is installed "
        "(pip install highspy), not True"
    )
