"""What holds in every world."""

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volcanopy.scheduler.check import violations
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.ledger import Ledger
from volcanopy.scheduler.plan import Bind, Plan
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.state import Object, State
from volcanopy.scheduler.statement import Statement
from volcanopy.scheduler.status import Status
from volcanopy.testing import reference
from volcanopy.testing.notation import NOW, config, snapshot, world
from volcanopy.testing.strategies import plugin_sets, worlds

many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def made_from(objects: Sequence[Object], plugins: str) -> Plan:
    state = State()
    for thing in objects:
        state.upsert(thing)
    return schedule(state.snapshot(NOW, "test"), config(plugins))


@many
@given(worlds(), plugin_sets())
def test_no_plan_does_what_no_plan_may_do(text: str, plugins: str) -> None:
    seen = snapshot(text)
    made = schedule(seen, config(plugins))
    assert violations(seen, made, config(plugins).plugins) == []


@many
@given(worlds(), plugin_sets(), st.randoms(use_true_random=False))
def test_the_order_in_which_objects_arrive_does_not_matter(text: str, plugins: str, order: Random) -> None:
    objects = world(text)
    shuffled = list(objects)
    order.shuffle(shuffled)
    assert str(made_from(objects, plugins)) == str(made_from(shuffled, plugins))


@many
@given(worlds(), plugin_sets())
def test_the_same_snapshot_gives_the_same_plan(text: str, plugins: str) -> None:
    seen = snapshot(text)
    assert schedule(seen, config(plugins)) == schedule(seen, config(plugins))


@many
@given(worlds(), plugin_sets())
def test_the_vectorised_allocation_decides_what_the_slow_one_decides(text: str, plugins: str) -> None:
    seen = snapshot(text)
    fast = Session(seen, config(plugins))
    slow = Session(seen, config(plugins))
    slow.placement = reference.OneByOne(slow.ledger, slow.hooks)
    actions = reference.actions()
    for name in ("enqueue", "allocate", "backfill"):
        actions[name](fast, {})
        actions[name](slow, {})
    assert list(map(str, fast.effects)) == list(map(str, slow.effects))


@many
@given(worlds(), st.data())
def test_a_rollback_leaves_no_trace(text: str, data: st.DataObject) -> None:
    seen = snapshot(text)
    ledger, untouched = Ledger(seen), Ledger(seen)
    with Statement(ledger) as statement:
        _random_operations(ledger, statement, data)
    for name, column in vars(untouched).items():
        if isinstance(column, np.ndarray):
            assert (getattr(ledger, name) == column).all(), name


def _random_operations(ledger: Ledger, statement: Statement, data: st.DataObject) -> None:
    nodes = len(ledger.snapshot.nodes)
    for row in np.flatnonzero(ledger.status != Status.ABSENT).tolist():
        if ledger.status[row] == Status.PENDING:
            node = data.draw(st.integers(0, nodes - 1))
            data.draw(st.sampled_from([statement.allocate, statement.pipeline]))(row, node)
        elif ledger.status[row] == Status.RUNNING and data.draw(st.booleans()):
            statement.evict(row, "test")


@many
@given(worlds(), st.data())
def test_the_state_kept_current_equals_the_state_built_anew(text: str, data: st.DataObject) -> None:
    """Objects come, change and go in any order; what is left is as if nothing else had ever been."""
    objects = world(text)
    other = world(data.draw(worlds()))
    state = State()
    for thing in data.draw(st.permutations([*objects, *other])):
        state.upsert(thing)
    for thing in other:
        state.delete(thing)
    for thing in data.draw(st.permutations(objects)):
        state.upsert(thing)
    fresh = State()
    for thing in objects:
        fresh.upsert(thing)
    assert reference.canonical(state.snapshot(NOW)) == reference.canonical(fresh.snapshot(NOW))


def test_tables_grow_while_they_are_written() -> None:
    """More jobs and roles than a table begins with, so that each table is made anew in the midst of a change."""
    lines = ["node n1 cpu=500 pods=500"] + [
        f"job j{number}: 1 x cpu=1 role=a min=1, 1 x cpu=1 role=b min=1" for number in range(70)
    ]
    seen = snapshot("\n".join(lines))
    assert int(seen.roles.minimum.sum()) == 140
    assert len(schedule(seen, config("gang, predicates")).of(Bind)) == 140
