from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.services.scheduler.writers.recheck import recheck
from volcanopy_testing.notation import NOW, config, world

WORLD = """
    node n1 cpu=4
    node n2 cpu=4
    job  a  min=2 phase=Pending: 2 x cpu=2
    job  b  min=2 phase=Pending: 2 x cpu=2
"""
POLICY = "gang, binpack"


def snapshot_of(*things: Object, without: frozenset[str] = frozenset()) -> Snapshot:
    state = State()
    for obj in things:
        if obj.metadata.name not in without:
            state.upsert(obj)
    return state.snapshot(NOW)


def made(*things: Object) -> tuple[Snapshot, Plan]:
    basis = snapshot_of(*things)
    return basis, schedule(basis, config(POLICY))


def binds(plan: Plan) -> set[str]:
    return {effect.pod for effect in plan.of(Bind)}


def test_a_valid_plan_is_unchanged() -> None:
    things = world(WORLD)
    basis, plan = made(*things)
    assert len(binds(plan)) == 4
    left = recheck(plan, basis, snapshot_of(*things), {"gang"})
    assert left.plan is plan
    assert left.dropped == {}


def test_a_group_on_a_deleted_node_is_dropped_and_others_proceed() -> None:
    things = world(WORLD)
    basis, plan = made(*things)
    gone = next(effect.node for effect in plan.of(Bind) if effect.group == "default/b")
    left = recheck(plan, basis, snapshot_of(*things, without=frozenset({gone})), {"gang"})
    assert set(left.dropped) == {"default/b"}
    assert gone in left.dropped["default/b"]
    assert binds(left.plan) == {"default/a-0", "default/a-1"}
    assert {effect.pod_group for effect in left.plan.of(SetPodGroup)} == {"default/a"}


def test_a_gang_below_min_member_is_not_bound() -> None:
    things = world(WORLD)
    basis, plan = made(*things)
    left = recheck(plan, basis, snapshot_of(*things, without=frozenset({"a-1"})), {"gang"})
    assert left.dropped == {"default/a": "pod default/a-1 is gone"}
    assert binds(left.plan) == {"default/b-0", "default/b-1"}


def test_a_recreated_pod_is_not_bound_by_an_old_plan() -> None:
    things = world(WORLD)
    basis, plan = made(*things)
    renewed = [
        replace(obj, metadata=replace(obj.metadata, uid="new"))
        if isinstance(obj, core.Pod) and obj.metadata.name == "b-0"
        else obj
        for obj in things
    ]
    left = recheck(plan, basis, snapshot_of(*renewed), {"gang"})
    assert set(left.dropped) == {"default/b"}


def test_resources_taken_meanwhile_are_not_allocated_twice() -> None:
    things = world(WORLD)
    basis, plan = made(*things)
    stranger = world("pod stranger cpu=3 node=n1")[1:]
    fresh = snapshot_of(*things, *stranger)
    left = recheck(plan, basis, fresh, {"gang"})
    assert len(left.dropped) == 1
    assert "node n1 is overcommitted" in next(iter(left.dropped.values()))
    assert len(binds(left.plan)) == 2


def test_only_infeasible_groups_are_dropped() -> None:
    text = "\n".join(["node n1 cpu=100", "node n2 cpu=100", *(f"job j{n} min=1: 1 x cpu=1" for n in range(40))])
    things = world(text)
    basis, plan = made(*things)
    lost = frozenset({"j7-0", "j31-0"})
    left = recheck(plan, basis, snapshot_of(*things, without=lost), {"gang"})
    assert set(left.dropped) == {"default/j7", "default/j31"}
    assert len(binds(left.plan)) == 38


def test_no_pod_is_evicted_for_a_deleted_job() -> None:
    """An eviction is rechecked together with its preemptor: without the preemptor's pod it would have no effect."""
    things = world("class high value=9\nnode n1 cpu=1\njob v min=0: 1 x cpu=1 on=n1\njob a priority=high: 1 x cpu=1")
    basis = snapshot_of(*things)
    plan = schedule(basis, config("priority, gang", "preempt"))
    assert [effect.pod for effect in plan.of(Evict)] == ["default/v-0"]
    assert recheck(plan, basis, snapshot_of(*things), {"gang"}).plan is plan
    left = recheck(plan, basis, snapshot_of(*things, without=frozenset({"a-0"})), {"gang"})
    assert left.dropped == {"default/a": "pod default/v-0 is evicted for default/a, which gets no node"}
    assert left.plan.of(Evict) == []
