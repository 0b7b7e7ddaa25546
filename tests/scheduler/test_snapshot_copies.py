"""Snapshots share what did not change, and never change themselves."""

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.nightly import examples
from tests.scheduler.strategies import worlds
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.cache.freeze import Layout
from volcanopy.scheduler.cache.row_table import Changes, Column, RowTable
from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.queue_shares import Bounds, bounds
from volcanopy.scheduler.model.resources import Columns
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy_testing.notation import NOW, config, world

TABLES = ("nodes", "tasks", "jobs", "roles")


def contents(snapshot: Snapshot) -> dict[str, Any]:
    """Return copies of all columns of a snapshot, by name."""
    return {
        f"{table}.{field.name}": value(getattr(getattr(snapshot, table), field.name))
        for table in TABLES
        for field in fields(getattr(snapshot, table))
        if field.name not in {"hints", "traits", "index"}
    }


def value(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column.tolist()
    return column.values.tolist() if isinstance(column, Columns) else column


def made_anew(state: State) -> Snapshot:
    """Return a snapshot that shares nothing with earlier ones."""
    count_due(state)
    layout, state.layout = state.layout, Layout()
    tables: tuple[RowTable[Any], ...] = (state.tasks, state.nodes, state.jobs, state.roles)
    copies = [table._copies for table in tables]
    changed = [set(table.changed) for table in tables]
    for table in tables:
        table._copies = {}
        table.changed = set(range(table.size))
    snapshot = state.snapshot(NOW, "anew")
    for table, known, rows in zip(tables, copies, changed, strict=True):
        table._copies, table.changed = known, rows
    state.layout = layout
    return snapshot


def other(obj: Object, number: int) -> Object:
    """Return another state of an object."""
    if isinstance(obj, core.Pod):
        if number % 3 == 0:
            return replace(obj, status=replace(obj.status, phase="Succeeded"))
        metadata = replace(obj.metadata, labels={**obj.metadata.labels, "changed": str(number)})
        return replace(obj, metadata=metadata) if number % 3 == 1 else replace(obj)
    if isinstance(obj, core.PodGroup):
        phase = ("Pending", "Inqueue", "Running", "Completed", "Unknown")[number % 5]
        return replace(obj, status=replace(obj.status, phase=phase, running=number % 4))
    if isinstance(obj, core.Node):
        amounts = {**obj.status.allocatable, "cpu": str(1 + number % 9), f"example.com/{number % 3}": "1"}
        return replace(obj, status=replace(obj.status, allocatable=amounts))
    return obj


@examples(30)
@given(worlds(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200), st.booleans()), min_size=3, max_size=14))
def test_a_snapshot_equals_one_made_anew_and_stays_as_it_is(text: str, steps: list[tuple[int, int, bool]]) -> None:
    objects = list(world(text))
    state = State()
    for obj in objects:
        state.upsert(obj)
    kept: list[tuple[Snapshot, dict[str, Any]]] = []
    for kind, number, keep in steps:
        obj = objects[number % len(objects)]
        match kind:
            case 0:
                state.delete(obj)
            case 1:
                state.upsert(obj)
            case 2:
                state.upsert(other(obj, number))
            case _:
                plan = schedule(state.snapshot(NOW, "plan"), config("gang, predicates, proportion"))
                state.assume(plan)
                for effect in plan.of(Bind)[number % 2 :]:
                    state.forget(effect.pod)
        expected = contents(made_anew(state))
        snapshot = state.snapshot(NOW, "incremental")
        assert contents(snapshot) == expected
        if keep:
            kept.append((snapshot, expected))
        del snapshot
    for snapshot, expected in kept:
        assert contents(snapshot) == expected


def test_a_copy_is_used_again_only_if_nothing_refers_to_it() -> None:
    copies: dict[str, Column] = {}
    live = np.arange(20)
    Changes(20, None).copy([("column", live)], copies)
    identity = id(copies["column"])
    live[3] = 30
    Changes(20, np.array([3])).copy([("column", live)], copies)
    assert id(copies["column"]) == identity
    assert copies["column"].tolist() == live.tolist()
    part = copies["column"][:5]
    Changes(20, np.array([], dtype=np.intp)).copy([("column", live)], copies)
    assert id(copies["column"]) == identity
    live[4] = 40
    Changes(20, np.array([4])).copy([("column", live)], copies)
    assert part.tolist() == [0, 1, 2, 30, 4]
    assert copies["column"].tolist() == live.tolist()


def test_the_bounds_of_queues_last_while_the_cluster_stays() -> None:
    state = State()
    for item in world("node n1 cpu=4\nqueue q\njob a queue=q: 1 x cpu=1"):
        state.upsert(item)

    def of_queues() -> Bounds:
        snapshot = state.snapshot(NOW)
        return bounds(snapshot.total, snapshot.queues, by_weight=True, in_tree=False)

    before = of_queues()
    for item in world("node n1 cpu=4\nqueue q\njob a queue=q: 1 x cpu=1 on=n1"):
        if isinstance(item, core.Pod):
            state.upsert(item)
    assert of_queues() is before
    for item in world("node n2 cpu=4"):
        state.upsert(item)
    assert of_queues() is not before
