"""Pods of a deleted Node use nothing until they are collected."""

from random import Random

import pytest

from tests.scheduler.random_cases import evicting_config
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Bind, Plan
from volcanopy.scheduler.policy.config import default
from volcanopy_testing import eviction_worlds
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, config, world
from volcanopy_testing.notation import decide as decide_world

WORLD = """
    queue q {}
    node n1 cpu=4
    node n2 cpu=4
    job old queue=q: 2 x cpu=2 on=n1
    job new queue=q phase=Pending min=2 minres.cpu=4: 2 x cpu=2
"""


def state(text: str, gone: str = "n1") -> State:
    state, nodes = State(), {}
    for obj in world(text):
        state.upsert(obj)
        if isinstance(obj, core.Node):
            nodes[obj.metadata.name] = obj
    if gone:
        state.delete(nodes[gone])
    return state


def decide(state: State, shares: str = "proportion") -> Plan:
    return schedule(
        state.snapshot(NOW), config(f"priority, gang | overcommit, predicates, {shares}", actions="enqueue, allocate")
    )


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize(
    "limit", ["", "guarantee.cpu=2", "deserved.cpu=4", "capability.cpu=4", "limit.user.*.cpu=4", "maxrunning=2"]
)
def test_pods_of_a_deleted_node_leave_the_rest_to_others(shares: str, limit: str) -> None:
    plan = decide(state(WORLD.format(limit)), shares)
    assert {bind.node for bind in plan.of(Bind)} == {"n2"}


def test_pods_count_again_when_the_node_returns() -> None:
    cluster = state(WORLD.format("capability.cpu=4"))
    cluster.upsert(world("node n1 cpu=4")[-1])
    again = state(WORLD.format("capability.cpu=4"), gone="")
    assert cluster.snapshot(NOW).jobs.allocated["cpu"].tolist() == again.snapshot(NOW).jobs.allocated["cpu"].tolist()
    assert not decide(cluster).of(Bind)


def test_pods_that_are_seen_before_their_node_count_with_it() -> None:
    cluster = State()
    for obj in reversed(world(WORLD.format(""))):
        cluster.upsert(obj)
    assert sorted(cluster.snapshot(NOW).jobs.allocated["cpu"].tolist()) == [0, 4000]


def test_a_gang_of_two_kinds_of_pods_waits_in_a_cluster_without_nodes() -> None:
    plan = decide_world("job gang: 1 x cpu=1, 1 x", default(builtin()))
    assert "explain gang [nodes]: no nodes available to schedule pods" in str(plan)


@pytest.mark.parametrize("seed", range(6))
def test_a_cluster_goes_on_after_the_loss_of_all_its_nodes(seed: int) -> None:
    dice = Random(seed)
    text, evicting = eviction_worlds.world(dice), evicting_config(dice)
    for chosen in (evicting, default(builtin())):
        simulation = Simulation(world(text), chosen)
        simulation.cycle()
        nodes = [(key, obj) for key, obj in simulation.cluster.objects.items() if key[0] == "Node"]
        for key, _ in nodes:
            simulation.cluster.remove(*key)
        assert not simulation.cycle().of(Bind)
        simulation.add(node for _, node in nodes)
        assert simulation.cycle() is not None


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize("limit", ["", "guarantee.cpu=2", "deserved.cpu=4", "capability.cpu=9"])
def test_what_pods_use_beyond_a_node_that_shrank_is_not_taken_from_other_nodes(shares: str, limit: str) -> None:
    text = WORLD.format(limit).replace("n1 cpu=4", "n1 cpu=1")
    assert [bind.node for bind in decide(state(text, gone=""), shares).of(Bind)] == ["n2", "n2"]
