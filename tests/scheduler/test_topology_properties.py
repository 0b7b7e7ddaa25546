"""Properties of topology constraints in random networks."""

from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.nightly import examples
from volcanopy.scheduler.actions.allocate import topology_search
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants import plan_outcome
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.invariants.topology import topology_crossed
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.topology import HyperNodeTable
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, config, snapshot, world

many = examples(40)

PLUGINS = (
    "gang, predicates",
    "gang, predicates, network-topology-aware",
    "priority, gang | predicates, proportion, network-topology-aware, nodeorder, binpack",
    "gang, predicates, nodeorder, task-topology",
)
ACTIONS = ("enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill", "allocate")


@st.composite
def networks(draw: st.DrawFn, faults: bool = True) -> tuple[list[str], list[str]]:
    """Return node names, and lines that declare the nodes and hypernodes of up to two tiers."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 7)))]
    lines = [f"node {name} cpu={draw(st.integers(1, 6))}" for name in names]
    racks: dict[int, list[str]] = {}
    for name in names:
        racks.setdefault(draw(st.integers(0, 3)), []).append(name)
    outside = racks.pop(0, [])
    if faults and outside and draw(st.booleans()):
        racks.setdefault(draw(st.integers(1, 3)), []).append(draw(st.sampled_from(names)))
    halls: dict[int, list[str]] = {}
    for number, members in racks.items():
        lines.append(f"hypernode rack-{number} tier=1 tiername=rack: {' '.join(members)}")
        halls.setdefault(draw(st.integers(0, 2)), []).append(f"rack-{number}")
    for hall, held in halls.items():
        if hall:
            lines.append(f"hypernode hall-{hall} tier={draw(st.integers(2, 3))}: {' '.join(held)}")
    return names, lines


TOPOLOGIES = ("hard:0", "hard:1", "hard:1", "hard:2", "hard:3", "hard:rack", "hard:row", "soft", "")


@st.composite
def worlds(draw: st.DrawFn) -> str:
    """A network with jobs with required or preferred topology or sub-groups, some of which already run, possibly too far apart."""
    names, lines = draw(networks())
    lines += ["queue q1 weight=2", "class high value=5"]
    for number in range(draw(st.integers(1, 4))):
        words = [f"queue={draw(st.sampled_from(['default', 'q1']))}"]
        words += draw(st.sampled_from([[], ["priority=high"], ["phase=Pending"]]))
        asked = draw(st.sampled_from(TOPOLOGIES))
        words += [f"topology={asked}"] if asked else []
        if draw(st.booleans()):
            words += [
                f"split={draw(st.integers(1, 2))}",
                "split.by=p/p",
                f"split.min={draw(st.integers(0, 2))}",
            ]
            part = draw(st.sampled_from(TOPOLOGIES))
            words += [f"split.topology={part}"] if part else []
        parts, total = [], 0
        for _ in range(draw(st.integers(1, 3))):
            count = draw(st.integers(1, 3))
            total += count
            said = [f"{count} x cpu={draw(st.integers(0, 3))}"]
            said += draw(st.sampled_from([[], ["label.p/p=a"], ["label.p/p=b"], ["role=w", "label.p/p=a"]]))
            where = draw(st.sampled_from(["", "", "on", "nominated"]))
            if where:
                said.append(f"{where}={draw(st.sampled_from(names))}")
            parts.append(" ".join(said))
        lines.append(f"job j{number} min={draw(st.integers(1, total))} {' '.join(words)}: {', '.join(parts)}")
    return "\n".join(lines)


@many
@given(worlds(), st.sampled_from(PLUGINS), st.sampled_from(ACTIONS))
def test_a_job_never_spans_more_of_the_network_than_it_allows(text: str, plugins: str, actions: str) -> None:
    seen = snapshot(text)
    chosen = config(plugins, actions)
    made = schedule(seen, chosen)
    assert topology_crossed(plan_outcome.read(seen, made)[0]) == []
    assert violations(seen, made, chosen.plugins) == []


@many
@given(worlds(), st.sampled_from(PLUGINS), st.sampled_from(ACTIONS))
def test_domains_that_cannot_hold_a_gang_are_left_out_without_another_plan(
    text: str, plugins: str, actions: str
) -> None:
    seen, chosen = snapshot(text), config(plugins, actions)
    plan = str(schedule(seen, chosen))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topology_search._Search, "_large_enough", lambda self, pending, group: group)
        assert plan == str(schedule(seen, chosen))


@many
@given(worlds(), st.sampled_from(PLUGINS), st.randoms(use_true_random=False))
def test_the_order_in_which_objects_arrive_does_not_matter(text: str, plugins: str, order: Random) -> None:
    objects = world(text)
    shuffled = list(objects)
    order.shuffle(shuffled)
    plans = []
    for things in (objects, shuffled):
        state = State()
        for obj in things:
            state.upsert(obj)
        plans.append(str(schedule(state.snapshot(NOW, "test"), config(plugins))))
    assert plans[0] == plans[1]


@examples(20)
@given(worlds(), st.sampled_from(PLUGINS), st.sampled_from(ACTIONS[:2]))
def test_cycles_with_topologies_become_stable(text: str, plugins: str, actions: str) -> None:
    simulation = Simulation(world(text), config(plugins, actions))
    assert len(list(simulation.cycles(6))) <= 5


@many
@given(networks(faults=False), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.sampled_from(PLUGINS))
@example((["n0", "n1"], ["node n0 cpu=1", "node n1 cpu=1", "hypernode r tier=1: n0 n1"]), 2, 1, 1, PLUGINS[1])
def test_a_gang_of_equal_pods_is_placed_if_any_domain_fits(
    network: tuple[list[str], list[str]], count: int, cpu: int, tier: int, plugins: str
) -> None:
    _, lines = network
    seen = snapshot("\n".join([*lines, f"job a topology=hard:{tier}: {count} x cpu={cpu}"]))
    table, cpus = seen.hypernodes, seen.nodes.allocatable["cpu"] // (cpu * 1000)
    fits = any(cpus[table.nodes(row)].sum() >= count for row in range(len(table)) if table.tiers[row] <= tier)
    assert len(schedule(seen, config(plugins)).of(Bind)) == (count if fits else 0)


@many
@given(networks())
def test_the_forest_equals_its_parents(network: tuple[list[str], list[str]]) -> None:
    table = snapshot("\n".join(network[1])).hypernodes
    amounts = np.arange(len(table.of_node), dtype=np.int64)[None, :] + 1
    sums = table.sums(amounts)[0]
    for row in range(len(table)):
        inside = [node for node in range(len(table.of_node)) if row in climb(table, int(table.of_node[node]))]
        assert table.nodes(row).tolist() == inside
        assert sums[row] == amounts[0, inside].sum()
        assert row == table.top or table.tiers[table.parent[row]] > table.tiers[row]
    for one in range(len(table)):
        for other in range(len(table)):
            meeting = next(row for row in climb(table, one) if row in climb(table, other))
            assert table.common((one, other)) == meeting


def climb(table: HyperNodeTable, row: int) -> list[int]:
    line = [row]
    while table.parent[line[-1]] >= 0:
        line.append(int(table.parent[line[-1]]))
    return line
