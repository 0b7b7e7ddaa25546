"""A dumped world, run again on a desk, gives the plan that it was dumped for."""

import json
import math
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from volcanopy.cli.plan import PlanOptions, plan_with
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.measures import Measured, Reading, of_load
from volcanopy.scheduler.model.plan import Evict, Plan, document
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import parse
from volcanopy.services.scheduler.dump import dump
from volcanopy.services.scheduler.replay import SchedulingCycle, entry, readings
from volcanopy_testing import notation

CONFIG = """\
actions: "enqueue, allocate, backfill, preempt, shuffle"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: pdb
- plugins:
  - name: predicates
  - name: resourcequota
  - name: nodeorder
  - name: numa-aware
  - name: deviceshare
    arguments: {deviceshare.GPUSharingEnable: true}
  - name: usage
  - name: rescheduling
    arguments:
      interval: 1h
      strategies: [{name: lowNodeUtilization, params: {thresholds: {cpu: 30}, targetThresholds: {cpu: 60}}}]
"""
NOW = notation.NOW + timedelta(seconds=1, microseconds=1)


def parsed_state(
    text: str, loads: dict[str, tuple[float, float]] | None = None, previous: datetime | None = None
) -> State:
    state = State()
    for obj in notation.world(text):
        state.upsert(obj)
    if loads is not None:
        moment = NOW - timedelta(seconds=10, microseconds=333)
        measures = of_load({name: (*load, moment) for name, load in loads.items()})
        state.set_measures(Measured(measures, timedelta(seconds=15)))
    if previous is not None:
        state.snapshot(previous, "before")
    return state


def again(folder: Path, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> tuple[list[Any], list[Any]]:
    """The effects of the plan, and those of the plan for the dump of its world."""
    (folder / "conf").write_text(CONFIG)
    made = schedule(snapshot, parse(CONFIG, notation.all_policies()))
    world = dump(folder, snapshot, made, [])
    capsys.readouterr()
    plan_with([str(world)], PlanOptions(folder / "conf", as_json=True))
    printed = json.loads(capsys.readouterr().out)
    return effects(document(made)), effects(printed)


def effects(said: Any) -> list[Any]:
    result: list[Any] = said["effects"]
    return result


WORLDS = {
    "the load of nodes": (
        "node n1 cpu=4\nnode n2 cpu=4\njob a: 2 x cpu=1",
        {"n1": (90.0, 10.0), "n2": (100 / 3, 20.0)},
        None,
    ),
    "the cycle before": (
        "node n1 cpu=10\nnode n2 cpu=10\njob old min=1: 4 x cpu=2 on=n1",
        {"n1": (90.0, 10.0), "n2": (5.0, 20.0)},
        NOW - timedelta(hours=2),
    ),
    "quotas": ("node n1 cpu=4\nquota q hard.cpu=4 used.cpu=3\njob a phase=Pending minres.cpu=2 min=1", None, None),
    "budgets": (
        "class high value=9\nnode n1 cpu=2\nbudget b allowed=0 selector.app=web\n"
        "job old min=1: 1 x cpu=1 on=n1, 1 x cpu=1 on=n1 label.app=web\njob a priority=high: 1 x cpu=1",
        None,
        None,
    ),
    "cpus": (
        "node n1 cpu=8\nnuma n1 cpus=2x4 policy=single-numa-node free=0-2,4-7\njob a: 1 x cpu=4 memory=1Gi guaranteed",
        None,
        None,
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_a_dump_gives_the_same_plan(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, loads, previous = WORLDS[name]
    first, second = again(tmp_path, parsed_state(text, loads, previous).snapshot(NOW, "s1"), capsys)
    assert first == second
    without, _ = again(tmp_path, parsed_state("\n".join(bare(text)), None, None).snapshot(NOW, "s2"), capsys)
    assert first != without, "what the test is about makes no difference"


def bare(text: str) -> Sequence[str]:
    """The world without what is no object of everyday."""
    return [line for line in text.splitlines() if not line.startswith(("quota", "budget", "numa"))]


def test_gpu_cards_of_assumed_binds_are_in_the_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    room = "volcano.sh/gpu-memory=20 volcano.sh/gpu-number=2"
    state = parsed_state(f"node n1 cpu=8 {room}\njob a: 1 x cpu=1 volcano.sh/gpu-memory=6")
    state.assume(schedule(state.snapshot(NOW), parse(CONFIG, notation.all_policies())))
    for obj in notation.world("job b: 1 x cpu=1 volcano.sh/gpu-memory=6"):
        state.upsert(obj)
    first, second = again(tmp_path, state.snapshot(NOW, "s1"), capsys)
    assert first == second
    (bind,) = [item for item in first if item["effect"] == "Bind"]
    assert bind["annotations"]["volcano.sh/gpu-index"] == "1"


def test_evicted_pods_are_marked_in_the_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = parsed_state(
        "class high value=9\nnode n1 cpu=2\njob old min=1: 2 x cpu=1 on=n1\njob a priority=high: 1 x cpu=1"
    )
    plan = schedule(state.snapshot(NOW), parse(CONFIG, notation.all_policies()))
    assert len(plan.of(Evict)) == 1
    state.assume(plan)
    first, second = again(tmp_path, state.snapshot(NOW, "s1"), capsys)
    assert first == second
    assert not [item for item in first if item["effect"] == "Evict"]


def test_the_cycle_is_a_readable_object_of_the_list(tmp_path: Path) -> None:
    snapshot = parsed_state("node n1 cpu=4\nnode n2 cpu=4", {"n1": (1 / 3, 0.1)}, NOW - timedelta(seconds=1)).snapshot(
        NOW, "s1"
    )
    world = dump(tmp_path, snapshot, Plan(()), [])
    cycle = next(obj for obj in yaml.safe_load(world.read_text())["items"] if obj["kind"] == "SchedulingCycle")
    assert cycle["metadata"] == {"name": "s1"}
    assert cycle["now"] == msgspec.to_builtins(NOW)
    moment = (NOW - timedelta(seconds=10, microseconds=333)).timestamp()
    assert cycle["measures"] == {
        "interval": 15.0,
        "maxAge": 300.0,
        "series": {
            "cpu": {"nodes": {"n1": {"mean": 1 / 3, "at": moment}}},
            "memory": {"nodes": {"n1": {"mean": 0.1, "at": moment}}},
        },
    }


def test_a_measure_that_has_no_mean_is_read_again() -> None:
    state = parsed_state("node n1 cpu=4")
    measures = {"cpu": {"n1": Reading(math.nan, 5.0, peak=0.5), "n2": Reading(0.25)}}
    state.set_measures(Measured(measures, timedelta(seconds=15)))
    text = msgspec.json.encode(entry(state.snapshot(NOW, "s1")))
    cycle = msgspec.json.decode(text, type=SchedulingCycle)
    assert cycle.measures is not None
    assert str(readings(cycle.measures.series["cpu"].nodes)) == str(measures["cpu"])


@given(st.integers(0, 120 * 366 * 86400 * 10**6))
@examples(100)
def test_times_are_kept_in_seconds(microseconds: int) -> None:
    """Measurements are written as seconds and read as moments: nothing is lost on the way."""
    seconds = (datetime(1990, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).timestamp()
    assert datetime.fromtimestamp(json.loads(json.dumps(seconds)), UTC).timestamp() == seconds


def _worlds(count: int) -> list[Snapshot]:
    state = State()
    for item in notation.world("node n1 cpu=1\njob a min=1: 1 x cpu=1"):
        state.upsert(item)
    return [state.snapshot(notation.NOW, f"s-{number:02}") for number in range(count)]


def test_only_the_last_dumps_are_kept(tmp_path: Path) -> None:
    for snapshot in _worlds(12):
        dump(tmp_path, snapshot, None, ["a problem"])
    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept == sorted(f"s-{number:02}.{part}.json" for number in range(7, 12) for part in ("plan", "world"))


def test_dumps_are_limited_in_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = _worlds(3)
    size = dump(tmp_path, first, None, []).stat().st_size
    monkeypatch.setattr("volcanopy.services.scheduler.dump.MOST_BYTES", size * 5 // 2)
    dump(tmp_path, second, None, [])
    dump(tmp_path, third, None, [])
    assert sorted(file.name for file in tmp_path.glob("*.world.json")) == ["s-01.world.json", "s-02.world.json"]
    monkeypatch.setattr("volcanopy.services.scheduler.dump.MOST_BYTES", size - 1)
    with pytest.raises(OSError, match=f"the dump has {size} bytes"):
        dump(tmp_path, first, None, [])


def test_dumps_are_readable_by_their_owner_only_and_follow_no_link(tmp_path: Path) -> None:
    (snapshot,) = _worlds(1)
    folder, secret = tmp_path / "dumps", tmp_path / "secret"
    secret.write_text("mine")
    folder.mkdir()
    (folder / "s-00.world.json").symlink_to(secret)
    dump(folder, snapshot, None, [])
    assert secret.read_text() == "mine"
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
