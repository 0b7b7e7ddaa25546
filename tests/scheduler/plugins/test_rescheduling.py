"""rescheduling: evictions from nodes with high usage."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import argument_error, evicted, seen
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.measures import Measured, of_load
from volcanopy_testing.notation import NOW, world

BEFORE = NOW - timedelta(minutes=1)
LIMITS = {"thresholds": {"cpu": 30, "memory": 30}, "targetThresholds": {"cpu": 60, "memory": 60}}
BUSY = {"n1": (90.0, 50.0), "n2": (10.0, 10.0)}
NODES = "node n1 cpu=10 memory=10Gi\nnode n2 cpu=10 memory=10Gi\n"


def low(**params: Any) -> dict[str, dict[str, Any]]:
    strategies = [{"name": "lowNodeUtilization", "params": LIMITS | params}]
    return {"rescheduling": {"interval": "5m", "strategies": strategies}}


def leave(text: str, loads: Any = None, **params: Any) -> list[str]:
    return evicted(seen(text, loads or BUSY, previous=BEFORE), low(**params))


def test_a_busy_node_is_relieved_until_it_is_no_busier_than_the_target() -> None:
    """From 90 % usage, two of ten cores are evicted to reach 70 %, and a third to reach 60 %."""
    assert leave(f"{NODES}job a: 8 x cpu=1 role=w on=n1") == ["a-w-5", "a-w-6", "a-w-7"]


@pytest.mark.parametrize(
    "loads",
    [
        {"n1": (60.0, 60.0), "n2": (10.0, 10.0)},  # nobody is above the target
        {"n1": (90.0, 50.0), "n2": (30.0, 10.0)},  # nobody is below the threshold
        {"n1": (10.0, 10.0), "n2": (10.0, 10.0)},
        {"n1": (90.0, 50.0)},  # nothing is known of the other
    ],
)
def test_no_eviction_without_both_busy_and_quiet_nodes(loads: dict[str, tuple[float, float]]) -> None:
    assert leave(f"{NODES}job a: 8 x cpu=1 role=w on=n1", loads) == []


def test_no_eviction_with_default_thresholds() -> None:
    snapshot = seen(f"{NODES}job a: 8 x cpu=1 role=w on=n1", BUSY, previous=BEFORE)
    assert evicted(snapshot, {"rescheduling": {}}) == []


@pytest.mark.parametrize(("minutes", "moves"), [(4, 0), (5, 3), (6, 0)])
def test_rescheduling_runs_once_per_interval_and_not_in_the_first_cycle(minutes: int, moves: int) -> None:
    now = NOW + timedelta(minutes=minutes)
    text = f"{NODES}job a: 8 x cpu=1 role=w on=n1"
    assert len(evicted(seen(text, BUSY, now=now, previous=now - timedelta(minutes=1)), low())) == moves
    assert evicted(seen(text, BUSY, now=now), low()) == []


def test_no_eviction_with_old_measurements() -> None:
    snapshot = seen(f"{NODES}job a: 8 x cpu=1 role=w on=n1", BUSY, previous=BEFORE, age=timedelta(minutes=6))
    assert evicted(snapshot, low()) == []


def test_a_cordoned_node_is_no_target() -> None:
    assert leave("node n1 cpu=10\nnode n2 cpu=10 unschedulable\njob a: 8 x cpu=1 role=w on=n1") == []


def test_the_lowest_priority_is_evicted_first_then_the_youngest() -> None:
    text = f"{NODES}job a: 1 x cpu=3 on=n1 priority=2, 1 x cpu=3 on=n1 priority=1, 1 x cpu=3 on=n1 priority=3"
    assert leave(text) == ["a-1"]
    assert leave(f"{NODES}job a: 1 x cpu=3 on=n1\njob b: 1 x cpu=3 on=n1") == ["b-0"]


def test_pods_without_requests_of_the_busy_resource_stay() -> None:
    assert leave(f"{NODES}job a: 1 x cpu=3 on=n1, 1 x cpu=0 on=n1, 1 x memory=1Gi on=n1") == ["a-0"]


def test_of_equals_burstable_pods_are_evicted_before_guaranteed_ones() -> None:
    """The younger pod is guaranteed: it stays."""

    def running(name: str, limits: core.Quantities, age: int) -> core.Pod:
        resources = core.ResourceRequirements(requests={"cpu": "3", "memory": "1Gi"}, limits=limits)
        created = NOW - timedelta(hours=age)
        return core.Pod(
            metadata=core.Meta(
                name=name, namespace="default", annotations={names.GROUP_NAME: "a"}, creation_timestamp=created
            ),
            spec=core.PodSpec(
                node_name="n1", scheduler_name="volcanopy", containers=(core.Container(resources=resources),)
            ),
            status=core.PodStatus(phase="Running"),
        )

    state = State()
    pods = (running("burst", {"cpu": "4"}, 2), running("sure", {"cpu": "3", "memory": "1Gi"}, 1))
    for obj in (*world(f"{NODES}job a min=1:"), *pods):
        state.upsert(obj)
    state.set_measures(Measured(of_load({name: (*load, NOW) for name, load in BUSY.items()})))
    state.snapshot(BEFORE, "before")
    assert evicted(state.snapshot(NOW, "test"), low()) == ["burst"]


def test_surplus_members_of_gangs_are_evicted_first() -> None:
    text = f"{NODES}job a min=1: 2 x cpu=3 role=w on=n1\njob b min=1: 1 x cpu=3 on=n1"
    assert leave(text) == ["a-w-1"]


def test_pods_at_the_priority_threshold_stay() -> None:
    text = f"class vip value=10\n{NODES}job a: 1 x cpu=3 on=n1 priority=10, 1 x cpu=3 on=n1 priority=9"
    assert leave(text, thresholdPriorityClassName="vip") == ["a-1"]
    assert leave(text.replace("priority=9", "priority=11"), thresholdPriorityClassName="vip") == []


def test_evictions_are_limited_by_the_quiet_nodes() -> None:
    """n2 may go from 10 % to 60 %: five cores of ten, so only one pod of three cores is evicted."""
    assert leave(f"{NODES}job a: 3 x cpu=3 role=w on=n1", {"n1": (100, 0), "n2": (10, 0)}) == ["a-w-2"]


def test_no_eviction_of_pods_that_fit_no_quiet_node() -> None:
    """The node with low usage is full by requests, or is infeasible for the pod."""
    full = f"{NODES}job a: 8 x cpu=1 role=w on=n1\njob b: 8 x cpu=1 on=n2"
    assert leave(full) == ["a-w-6", "a-w-7"]
    assert leave(full, nodeFit=False) == ["a-w-5", "a-w-6", "a-w-7"]
    assert leave("node n1 cpu=10\nnode n2 cpu=10 taint=t:NoSchedule\njob a: 4 x cpu=1 on=n1") == []
    assert leave(f"{NODES}job a: 4 x cpu=1 on=n1 selector.kubernetes.io/hostname=n1") == []


def test_a_minimum_of_quiet_nodes_is_required() -> None:
    assert leave(f"{NODES}job a: 8 x cpu=1 role=w on=n1", numberOfNodes=1) == []


def test_the_number_of_pods_is_a_dimension_under_either_name() -> None:
    text = "node n1 cpu=10 pods=10\nnode n2 cpu=10 pods=10\njob a: 9 x cpu=0 role=w on=n1"
    for name in ("pod", "pods"):
        limits = {"thresholds": {name: 50}, "targetThresholds": {name: 70}}
        assert leave(text, {"n1": (5, 5), "n2": (5, 5)}, **limits) == ["a-w-7", "a-w-8"]


def test_unpreemptable_and_critical_pods_stay() -> None:
    text = f"{NODES}job a: 4 x cpu=1 on=n1 note.volcanopy.io/preemptable=false\njob b namespace=kube-system: 1 x cpu=1 on=n1"
    snapshot = seen(text, BUSY, previous=BEFORE)
    assert evicted(snapshot, low() | {"conformance": {}}) == []


def test_pods_of_one_name_in_two_namespaces_are_two_pods() -> None:
    text = f"{NODES}job a: 1 x cpu=3 on=n1\njob a namespace=other: 1 x cpu=1 on=n2"
    assert leave(text) == ["a-0"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"interval": "0s"}, "interval: must be a duration above zero such as 5m"),
        ({"strategies": [{"name": "highNodeUtilization"}]}, "strategies.0.name: input should be 'lowNodeUtilization'"),
        (
            {
                "strategies": [
                    {
                        "name": "lowNodeUtilization",
                        "params": {"thresholds": {"cpu": 80}, "targetThresholds": {"cpu": 50}},
                    }
                ]
            },
            "thresholds.cpu is 80, above targetThresholds.cpu, 50: exchange them",
        ),
        (
            {"strategies": [{"name": "lowNodeUtilization", "params": {"treshholds": {}}}]},
            "unknown argument 'strategies.0.params.treshholds', did you mean 'thresholds'?",
        ),
        ({"strategy": []}, "unknown argument 'strategy', did you mean 'strategies'?"),
    ],
)
def test_invalid_arguments_are_rejected_with_a_message(arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in argument_error("rescheduling", arguments)


nodes = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=2, max_size=4)


@examples(60)
@given(nodes, st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=8))
def test_each_victim_is_above_the_target_and_fits_a_quiet_node(
    loads: list[tuple[int, int]], pods: list[tuple[int, int]]
) -> None:
    measured = {f"n{i}": (float(cpu), float(memory)) for i, (cpu, memory) in enumerate(loads)}
    lines = [f"node {name} cpu=10 memory=10Gi" for name in measured]
    lines += [f"job j{i}: 1 x cpu={cpu} on=n{node % len(loads)}" for i, (node, cpu) in enumerate(pods)]
    gone = evicted(seen("\n".join(lines), measured, previous=BEFORE), low())
    quiet = [name for name, (cpu, memory) in measured.items() if cpu < 30 and memory < 30]
    cpu_of = {f"j{i}-0": (f"n{node % len(loads)}", cpu) for i, (node, cpu) in enumerate(pods)}
    assert sum(cpu_of[pod][1] for pod in gone) * 10 <= sum(60 - measured[name][0] for name in quiet)
    for node, (cpu, memory) in measured.items():
        youngest_first = sorted((pod for pod in gone if cpu_of[pod][0] == node), reverse=True)
        for number, _ in enumerate(youngest_first):
            before = sum(cpu_of[pod][1] for pod in youngest_first[:number])
            assert memory > 60 or cpu - 10 * before > 60
