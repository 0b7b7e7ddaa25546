"""Legal but extreme amounts never stop the scheduler, never overcommit a node, and never delay other jobs."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from volcanopy.api import core, quantity
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy_testing.notation import NOW, config, world

WORLD = """
queue big
node n1 cpu=4 memory=8Gi
node n2 cpu=4 memory=8Gi
job control min=2: 2 x cpu=1
job extreme min=1 queue=big: 1 x cpu=1
"""
CONTROL = {"default/control-0", "default/control-1"}
EVERY_PLUGIN = config("gang, priority, drf, predicates, proportion, nodeorder, binpack", "enqueue, allocate, backfill")
AMOUNTS = ("8e15", "9e18", "9223372036854775807", "7Ei", "9e30", "1e9999", "1n")
Quantities = dict[str, str | int | float]


def state_of(text: str, change: Callable[[Any], Any] = lambda item: item) -> State:
    """The state of a world whose objects are changed first."""
    state = State()
    for item in world(text):
        state.upsert(change(item))
    return state


def requesting(pod: core.Pod, amounts: Quantities, containers: int = 2) -> core.Pod:
    """The pod with so many containers that each request these amounts."""
    container = core.Container(resources=core.ResourceRequirements(requests=amounts))
    return replace(pod, spec=replace(pod.spec, containers=(container,) * containers))


def offering(node: core.Node, amounts: Quantities) -> core.Node:
    return replace(node, status=replace(node.status, allocatable={"pods": "10", **amounts}))


def is_extreme(item: Any) -> bool:
    return isinstance(item, core.Pod) and "extreme" in item.metadata.name


def planned(state: State) -> tuple[Snapshot, Plan]:
    """The plan of one cycle, which violates nothing."""
    snapshot = state.snapshot(NOW)
    plan = schedule(snapshot, EVERY_PLUGIN)
    assert violations(snapshot, plan) == []
    return snapshot, plan


def bound(plan: Plan) -> set[str]:
    return {effect.pod for effect in plan.of(Bind)}


@pytest.mark.parametrize("amount", AMOUNTS[:-1])
@pytest.mark.parametrize("resource", ["cpu", "memory", "example.com/card"])
def test_a_pod_of_extreme_requests_stays_pending_and_delays_nobody(resource: str, amount: str) -> None:
    state = state_of(WORLD, lambda item: requesting(item, {resource: amount}) if is_extreme(item) else item)
    assert bound(planned(state)[1]) == CONTROL


def test_a_foreign_pod_of_extreme_requests_fills_its_node_and_frees_it_when_it_ends() -> None:
    foreign = requesting(
        next(item for item in world("pod foreign cpu=1 node=n1") if isinstance(item, core.Pod)),
        {"cpu": "9e18", "memory": "9e18"},
    )
    state = state_of(WORLD)
    state.upsert(foreign)
    assert {effect.node for effect in planned(state)[1].of(Bind)} == {"n2"}
    state.delete(foreign)
    snapshot, plan = planned(state)
    assert snapshot.nodes.used.values.sum() == 0
    assert len(bound(plan)) == 3


def test_nodes_of_extreme_capacity_do_not_sum_to_nothing() -> None:
    amounts: Quantities = {"cpu": "8", "memory": "7Ei"}
    state = state_of(WORLD, lambda item: offering(item, amounts) if isinstance(item, core.Node) else item)
    snapshot, plan = planned(state)
    assert snapshot.total[snapshot.axis.index["memory"]] == 2 * (quantity.LIMIT - 1)
    assert len(bound(plan)) == 3


def test_a_pod_that_requests_the_limit_fits_on_no_node() -> None:
    def extreme(item: Any) -> Any:
        if isinstance(item, core.Node):
            return offering(item, {"cpu": "9e30"})
        return requesting(item, {"cpu": "9e30"}) if isinstance(item, core.Pod) else item

    assert bound(planned(state_of("node n1 cpu=4\njob a min=1: 1 x cpu=1", extreme))[1]) == set()


def test_many_groups_of_extreme_minimum_resources_do_not_overflow_the_sum_of_a_queue() -> None:
    state = state_of(WORLD)
    group = next(item for item in world(WORLD) if isinstance(item, core.PodGroup) and item.metadata.name == "extreme")
    for number in range(200):
        meta = replace(group.metadata, name=f"extreme-{number}", uid=f"extreme-{number}")
        spec = replace(group.spec, min_resources={"cpu": "9e30", "memory": "8Ei"})
        state.upsert(replace(group, metadata=meta, spec=spec))
    snapshot, plan = planned(state)
    sums = snapshot.jobs.min_resources.values.astype(object).sum(axis=1)
    assert all(0 <= units < 2**62 for units in sums)
    assert bound(plan) >= CONTROL


@pytest.mark.parametrize("field", ["capability", "deserved", "guarantee", "borrowing_limit", "lending_limit"])
@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_queue_of_extreme_limits_delays_nobody(field: str, amount: str) -> None:
    amounts: Quantities = {"cpu": amount, "memory": amount}
    value = core.Guarantee(resource=amounts) if field == "guarantee" else amounts

    def limited(item: Any) -> Any:
        queue = isinstance(item, core.Queue) and item.metadata.name == "big"
        return replace(item, spec=replace(item.spec, **{field: value})) if queue else item

    for plugins in ("proportion", "capacity"):
        chosen = config(f"gang, priority, predicates, {plugins}, nodeorder", "enqueue, allocate, backfill")
        assert bound(schedule(state_of(WORLD, limited).snapshot(NOW), chosen)) >= CONTROL


@pytest.mark.parametrize("plugin", ["proportion", "capacity", "drf"])
def test_a_guarantee_above_the_cluster_stops_no_other_queue(plugin: str) -> None:
    """The queue itself gets what it requests first."""
    text = """
    queue guaranteed guarantee.cpu=10000 deserved.cpu=10000
    queue other
    node n1 cpu=24
    job a queue=other min=1: 10 x cpu=1
    """
    chosen = config(f"gang, priority, predicates, {plugin}, nodeorder", "enqueue, allocate, backfill")
    assert len(bound(schedule(state_of(text).snapshot(NOW), chosen))) == 10
    busy = state_of(text + "    job b queue=guaranteed min=1: 20 x cpu=1")
    plan = schedule(busy.snapshot(NOW), chosen)
    assert len([pod for pod in bound(plan) if pod.startswith("default/b-")]) == 20


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_mixture_of_legal_amounts_gives_a_valid_plan(data: st.DataObject) -> None:
    amount: st.SearchStrategy[str | int | float] = st.sampled_from(AMOUNTS)
    resources = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/card"]), amount)

    def extreme(item: Any) -> Any:
        if is_extreme(item):
            return requesting(item, data.draw(resources), data.draw(st.integers(1, 3)))
        if isinstance(item, core.Node) and data.draw(st.booleans()):
            amounts: Quantities = {"cpu": "4"}
            return offering(item, amounts | data.draw(resources))
        if isinstance(item, core.PodGroup) and item.metadata.name == "extreme":
            return replace(item, spec=replace(item.spec, min_resources=data.draw(resources)))
        return item

    planned(state_of(WORLD, extreme))
