"""usage: scores and filters by measured node usage."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import Scene, argument_error, made, seen
from tests.scheduler.reference.placement import actions
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.cluster import TasksView
from volcanopy.scheduler.model.measures import Measured, of_load
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policies.nodes.usage import CPU, MEMORY
from volcanopy_testing.notation import NOW, world
from volcanopy_testing.uncached import UncachedPlacement

NODES = "node n1 cpu=4 memory=8Gi\nnode n2 cpu=4 memory=8Gi\n"
TWO: dict[str, dict[str, Any]] = {"usage": {}}


def test_the_node_with_lower_usage_scores_higher() -> None:
    """Half of the cpu and 70 % of the memory are free: five times the mean."""
    scene = Scene(seen(f"{NODES}job new: 1 x cpu=1", {"n1": (50, 30), "n2": (60, 30)}), TWO)
    assert scene.scores("new-0") == {"n1": 300.0, "n2": 275.0}


def test_weights_select_the_resources() -> None:
    only_cpu = {"usage": {"usage.weight": 1, "cpu.weight": 2, "memory.weight": 0}}
    scene = Scene(seen(f"{NODES}job new: 1 x cpu=1", {"n1": (50, 90), "n2": (60, 0)}), only_cpu)
    assert scene.scores("new-0") == {"n1": 50.0, "n2": 40.0}


def test_a_node_above_a_threshold_is_rejected() -> None:
    text = "\n".join(f"node n{number} cpu=4" for number in range(1, 5)) + "\njob new: 1 x cpu=1"
    scene = Scene(seen(text, {"n1": (80.5, 0), "n2": (0, 81), "n3": (80, 80)}), TWO)
    assert scene.rejected("new-0") == {"n1": CPU, "n2": MEMORY}


@pytest.mark.parametrize(
    ("age", "has_opinion"), [(timedelta(minutes=5), True), (timedelta(minutes=5, seconds=1), False)]
)
def test_an_old_measurement_is_ignored(age: timedelta, has_opinion: bool) -> None:
    scene = Scene(seen(f"{NODES}job new: 1 x cpu=1", {"n1": (90, 90)}, age=age), TWO)
    assert bool(scene.rejected("new-0")) is has_opinion
    assert (scene.scores("new-0")["n1"] > 0) is has_opinion


def test_without_measurements_all_nodes_score_zero() -> None:
    scene = Scene(seen(f"{NODES}job new: 1 x cpu=1"), TWO)
    assert scene.scores("new-0") == {"n1": 0.0, "n2": 0.0}
    assert scene.rejected("new-0") == {}


def test_a_measurement_is_valid_until_the_next_and_follows_node_changes() -> None:
    state = State()
    first, second = (obj for obj in world(NODES) if isinstance(obj, core.Node))
    state.upsert(second)
    state.set_measures(Measured(of_load({"n1": (10.0, 20.0, NOW), "n2": (30.0, 40.0, NOW)})))
    before = state.snapshot(NOW)
    assert before.measure("cpu").mean.tolist() == [30.0]
    assert state.snapshot(NOW).measures is before.measures
    state.upsert(first)
    after = state.snapshot(NOW)
    assert [after.measure(name).mean.tolist() for name in ("cpu", "memory")] == [[10.0, 30.0], [20.0, 40.0]]
    state.set_measures(Measured(of_load({"n2": (50.0, 60.0, NOW)})))
    last = state.snapshot(NOW)
    assert last.version > after.version
    assert last.measure("cpu").known.tolist() == [False, True]
    assert last.measure("cpu").mean[1] == 50.0


# Pods that no measurement shows yet


def running(name: str, node: str, started: float, cpu: str = "2", limit: str = "") -> core.Pod:
    """Return a pod that has run for ``started`` seconds."""
    resources = core.ResourceRequirements(requests={"cpu": cpu}, limits={"cpu": limit} if limit else {})
    return core.Pod(
        metadata=core.Meta(name=name, namespace="default", uid=name),
        spec=core.PodSpec(node_name=node, containers=(core.Container(resources=resources),)),
        status=core.PodStatus(phase="Running", start_time=NOW - timedelta(seconds=started)),
    )


def beside(*pods: core.Pod, loads: Mapping[str, tuple[float, float]], **estimator: Any) -> Scene:
    state = State()
    for obj in (*world(f"{NODES}job new: 3 x cpu=1"), *pods):
        state.upsert(obj)
    state.set_measures(Measured(of_load({name: (*load, NOW) for name, load in loads.items()})))
    usage = {"cpu.weight": 1, "memory.weight": 0, "usage.weight": 1, "estimator": estimator}
    return Scene(state.snapshot(NOW, "test"), {"usage": usage})


IDLE = {"n1": (0.0, 0.0), "n2": (0.0, 0.0)}


def test_a_recently_started_pod_counts_with_its_request() -> None:
    """70 % of the two requested cores of four are assumed to be used."""
    scene = beside(running("young", "n1", 29), running("old", "n2", 31), loads=IDLE)
    assert scene.scores("new-0") == {"n1": 65.0, "n2": 100.0}


def test_limits_above_requests_count_by_the_burst_ratio() -> None:
    """Two cores requested and four allowed: 1 of the first, half of the rest, of four cores."""
    scene = beside(running("young", "n1", 1, limit="4"), loads=IDLE, request_ratio=0.5, burst_ratio=0.5)
    assert scene.scores("new-0")["n1"] == 50.0


def test_a_pod_without_requests_counts_with_the_configured_load() -> None:
    scene = beside(running("young", "n1", 1, cpu="0"), loads=IDLE, be_cpu="400m")
    assert scene.scores("new-0")["n1"] == 90.0


def test_estimated_usage_increases_on_a_node_at_risk() -> None:
    """35 % expected beside 30 % measured is above 60 %: a fifth more is expected."""
    scene = beside(running("young", "n1", 1), loads={"n1": (30, 0), "n2": (0, 0)})
    assert scene.scores("new-0")["n1"] == 100 - 30 - 35 * 1.2


def test_placements_of_the_session_count_and_evictions_do_not() -> None:
    scene = beside(running("young", "n1", 1), loads=IDLE)
    assert scene.scores("new-0") == {"n1": 65.0, "n2": 100.0}
    scene.place("new-1", "n2")
    assert scene.scores("new-0") == {"n1": 65.0, "n2": 82.5}
    scene.evict("young")
    assert scene.scores("new-0") == {"n1": 100.0, "n2": 82.5}


def test_a_run_of_equal_tasks_spreads_as_each_of_them_adds_to_the_load() -> None:
    snapshot = seen(f"{NODES}job new: 4 x cpu=1", {"n1": (0, 0), "n2": (10, 0)})
    binds = [effect.node for effect in made(snapshot, {"usage": {}, "gang": {}}).of(Bind)]
    assert binds == ["n1", "n2", "n1", "n2"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"usage.weight": -1}, "usage.weight: input should be greater than or equal to 0, not -1"),
        ({"thresholds": {"cpu": 101}}, "thresholds.cpu: input should be less than or equal to 100, not 101"),
        ({"thresholds": {"memory": 80}}, "unknown argument 'thresholds.memory', did you mean 'mem'?"),
        (
            {"estimator": {"risk_factor": 0.5}},
            "estimator.risk_factor: input should be greater than or equal to 1, not 0.5",
        ),
        ({"estimator": {"be_cpu": "much"}}, "estimator.be_cpu: must be a quantity such as 250m, not 'much'"),
        ({"estimator": {"be_mem": -1}}, "estimator.be_mem: input should be greater than or equal to 0, not -1"),
    ],
)
def test_invalid_arguments_are_rejected_with_a_message(arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in argument_error("usage", arguments)


# Twins

loads = st.dictionaries(st.sampled_from(["n0", "n1", "n2"]), st.tuples(st.integers(0, 90), st.integers(0, 90)))
jobs = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4)


@examples(80)
@given(loads, jobs, jobs)
def test_runs_are_placed_as_single_tasks_by_usage(
    measured: dict[str, tuple[int, int]], old: list[tuple[int, int, int]], new: list[tuple[int, int, int]]
) -> None:
    lines = [f"node n{number} cpu={4 + number} memory=8Gi" for number in range(3)]
    lines += [f"job o{i}: {count} x cpu={cpu} memory={gib}Gi on=n0,n2" for i, (count, cpu, gib) in enumerate(old)]
    lines += [f"job w{i} min=1: {count} x cpu={cpu} memory={gib}Gi" for i, (count, cpu, gib) in enumerate(new)]
    snapshot = seen("\n".join(lines), measured)
    plugins: dict[str, dict[str, Any]] = {"gang": {}, "usage": {}}
    fast, slow = Scene(snapshot, plugins).session, Scene(snapshot, plugins).session
    slow.placement = UncachedPlacement(slow.ledger, slow.hooks)
    for session in (fast, slow):
        for action in ("allocate", "backfill"):
            actions()[action](session, {})
    assert list(map(str, fast.effects)) == list(map(str, slow.effects))
    _reckoned_anew_it_is_the_same(fast)


def _reckoned_anew_it_is_the_same(session: Session) -> None:
    """Check that the incremental values of the plugin equal a loop over all pods."""
    snapshot, ledger = session.snapshot, session.ledger
    if not snapshot.measures.nodes:
        return
    cpu, memory = snapshot.measure("cpu").mean, snapshot.measure("memory").mean
    result = session.hooks.score(TasksView([session.cluster.task(0)]), session.cluster.nodes())[0]
    for node in range(len(snapshot.nodes)):
        if np.isnan(cpu[node]):
            assert result[node] == 0
            continue
        there = [
            row
            for row in range(len(snapshot.tasks))
            if ledger.node[row] == node and ledger.status[row] in {Status.RUNNING, Status.ALLOCATED, Status.BINDING}
        ]
        load = {}
        for factor in (1.0, 1.2):
            parts = []
            for name, real, best_effort in (
                ("cpu", cpu[node], 250),
                ("memory", memory[node], 200 * 2**20),
            ):
                expected = 0
                for row in there:
                    task = session.cluster.task(row)
                    asked = task.request[name]
                    expected += int(best_effort * factor if task.best_effort else min(asked * 0.7 * factor, asked))
                parts.append(min(real / 100 + expected / int(snapshot.nodes.allocatable[name][node]), 1.0))
            load[factor] = sum(parts) / 2
        mean = load[1.2] if load[1.0] >= 0.6 else load[1.0]
        assert np.isclose(result[node], 500 * (1 - mean))
