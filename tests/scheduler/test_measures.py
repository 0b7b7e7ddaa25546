"""The table of measures: annotations, ages, and what users learn of unknown values."""

import json
import math
from datetime import timedelta

import pytest

from tests.scheduler.plugins.scene import configured
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.measures import Measured, Reading, annotated, annotation
from volcanopy.scheduler.policy.unknown_measures import unknown_measures
from volcanopy_testing.notation import NOW, world

POWER = "note.measure.volcanopy.io/power"


def state_of(text: str) -> State:
    state = State()
    for item in world(text):
        state.upsert(item)
    return state


def test_an_annotation_is_a_number_or_has_more_statistics() -> None:
    value = json.dumps({"mean": 2, "deviation": 0.5, "peak": 3, "prediction": 4}, separators=(",", ":"))
    power = (
        state_of(f"node n1 cpu=1 {POWER}=310.5\nnode n2 cpu=1 {POWER}='{value}'\nnode n3 cpu=1")
        .snapshot(NOW)
        .measure("power")
    )
    assert power.known.tolist() == [True, True, False]
    assert [column[1] for column in power] == [2.0, math.inf, 0.5, 3.0, 4.0]
    assert math.isnan(power.deviation[0])


@pytest.mark.parametrize("text", ["", "hot", '{"peak": 3}', "[1]", '{"mean": "1"}'])
def test_other_text_is_unknown(text: str) -> None:
    assert annotated({f"{names.MEASURE_PREFIX}power": text}, "power") is None


def test_an_annotation_of_a_value_is_read_as_that_value() -> None:
    reading = Reading(1 / 3, deviation=0.1, peak=2.0, prediction=5.0)
    assert annotated({f"{names.MEASURE_PREFIX}power": annotation(reading)}, "power") == reading


def test_values_older_than_the_table_allows_are_unknown_and_those_without_a_time_do_not_age() -> None:
    state = state_of(f"node n1 cpu=1\nnode n2 cpu=1 {POWER}=7\nnode n3 cpu=1")
    limit = NOW - timedelta(minutes=2)
    values = {"n1": Reading(1.0, limit.timestamp()), "n3": Reading(3.0, limit.timestamp() - 1)}
    state.set_measures(Measured({"power": values}, max_age=timedelta(minutes=2)))
    assert state.snapshot(NOW).measure("power").known.tolist() == [True, True, False]
    assert state.snapshot(NOW + timedelta(days=9)).measure("power").known.tolist() == [False, True, False]


def test_a_source_replaces_the_annotation_of_a_node() -> None:
    state = state_of(f"node n1 cpu=1 {POWER}=7\nnode n2 cpu=1 {POWER}=8")
    state.set_measures(Measured({"power": {"n1": Reading(1.0)}}))
    assert state.snapshot(NOW).measure("power").mean.tolist() == [1.0, 8.0]


def test_a_changed_annotation_is_seen_and_keeps_what_is_cached_of_labels() -> None:
    state = state_of(f"node n1 cpu=1 {POWER}=7")
    before = state.snapshot(NOW)
    before.nodes.traits.memo["labels"] = "cached"
    (node,) = (item for item in world(f"node n1 cpu=1 {POWER}=8") if isinstance(item, core.Node))
    state.upsert(node)
    after = state.snapshot(NOW)
    assert (before.measure("power").mean.tolist(), after.measure("power").mean.tolist()) == ([7.0], [8.0])
    assert after.nodes.traits.memo["labels"] == "cached"


def test_users_learn_which_measures_are_unknown_and_which_plugins_need_them() -> None:
    state = state_of("node n1 cpu=1\nnode n2 cpu=1 note.measure.volcanopy.io/memory=1\nnode n3 cpu=1")
    old = (NOW - timedelta(minutes=6)).timestamp()
    state.set_measures(Measured({"cpu": {"n1": Reading(1.0), "n2": Reading(2.0, old)}}))
    assert unknown_measures(state.snapshot(NOW), configured({"usage": {}, "rescheduling": {}})) == {
        "cpu": 'measure "cpu" is unknown for 2 of 3 nodes, 1 of them older than 300 s (plugins: rescheduling, usage)',
        "memory": 'measure "memory" is unknown for 2 of 3 nodes (plugins: rescheduling, usage)',
    }
    assert not unknown_measures(state.snapshot(NOW), configured({"gang": {}}))
