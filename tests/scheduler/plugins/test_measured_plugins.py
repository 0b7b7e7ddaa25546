"""The plugins that read measures: each formula by hand, and what unknown values mean."""

import math
from typing import Any

import pytest

from tests.scheduler.plugins.scene import Scene, argument_error, made, seen
from volcanopy.scheduler.model.plan import Bind
from volcanopy_testing.notation import decide

JOB = "\njob new: 2 x cpu=1 memory=1Gi"


def noted(name: str, **measures: float | str) -> str:
    """A node with four cores and measures, as a line."""
    notes = " ".join(f"note.measure.volcanopy.io/{measure}='{value}'" for measure, value in measures.items())
    return f"node {name} cpu=4 memory=8Gi {notes}"


def scene(nodes: list[str], plugin: str, job: str = JOB, **arguments: Any) -> Scene:
    return Scene(seen("\n".join(nodes) + job), {plugin: arguments})


# targetload


def test_target_load_fills_up_to_the_target_and_spreads_beyond() -> None:
    """A core of four is 25 percent: the nodes have 35, 40, 70 and 115 percent with the task."""
    nodes = [noted("n1", cpu=10), noted("n2", cpu=15), noted("n3", cpu=45), noted("n4", cpu=90), noted("n5")]
    assert scene(nodes, "targetload").scores("new-0") == {
        "n1": 92.5,
        "n2": 100.0,
        "n3": 20.0,
        "n4": 0.0,
        "n5": 0.0,
    }


def test_target_load_counts_what_no_measurement_shows_yet() -> None:
    both = scene([noted("n1", cpu=10), noted("n2", cpu=10)], "targetload")
    both.place("new-1", "n1")
    assert both.scores("new-0") == {"n1": round(40 * 40 / 60, 6), "n2": 92.5}


def test_pods_that_the_measurement_shows_are_not_counted_twice() -> None:
    text = f"{noted('n1', cpu=25)}\njob old: 1 x cpu=1 on=n1{JOB}"
    (loaded,) = Scene(seen(text), {"targetload": {}}).scores("new-0").values()
    (alone,) = scene([noted("n1", cpu=25)], "targetload").scores("new-0").values()
    assert loaded < alone  # a pod without a start time is not in the measurement
    assert loaded == round(40 * 25 / 60, 6)


# loadvariation


def test_load_variation_is_half_mean_half_deviation_of_the_worst_resource() -> None:
    spread = '{"mean":25,"deviation":20}'
    quiet = '{"mean":25,"deviation":0}'
    nodes = [
        noted("n1", cpu=spread, memory=quiet),
        noted("n2", cpu=quiet, memory=quiet),
        noted("n3", cpu=25),
        noted("n4", memory=spread),
    ]
    expected = {"n1": 65.0, "n2": 75.0, "n3": 0.0, "n4": round(100 - (37.5 + 20) / 2, 6)}
    assert scene(nodes, "loadvariation").scores("new-0") == expected
    (strict,) = (
        scene(nodes[:1], "loadvariation", safeVarianceMargin=2, safeVarianceSensitivity=2).scores("new-0").values()
    )
    assert strict == round(100 * (1 - (0.5 + 2 * math.sqrt(0.2)) / 2), 6)


# telemetry

RULES = {
    "dontschedule": [{"measure": "temperature", "operator": "GreaterThan", "target": 80}],
    "scheduleonmetric": {"measure": "power", "operator": "LessThan"},
}


def telemetry(label: str = "label.telemetry-policy=cool", **policy: Any) -> Scene:
    nodes = [
        noted("n1", temperature=90, power=100),
        noted("n2", temperature=80, power=300),
        noted("n3", power=200),
        noted("n4", temperature=1),
    ]
    return scene(nodes, "telemetry", f"\njob new: 1 x cpu=1 {label}", policies={"cool": RULES | policy})


def test_a_rule_of_the_pods_policy_rejects_nodes() -> None:
    why = "node(s) violated telemetry policy cool: temperature GreaterThan 80"
    assert telemetry().rejected("new-0") == {"n1": why}
    assert telemetry("").rejected("new-0") == {}
    assert telemetry("label.telemetry-policy=other").scores("new-0") == dict.fromkeys(("n1", "n2", "n3", "n4"), 0.0)


def test_a_policy_decides_on_nodes_that_are_not_measured() -> None:
    assert telemetry(unknown="reject").rejected("new-0")["n3"] == "node(s) had no current value of measure temperature"


def test_a_preference_orders_known_values() -> None:
    assert telemetry().scores("new-0") == {"n1": 100.0, "n2": 0.0, "n3": 50.0, "n4": 0.0}
    greater = telemetry(scheduleonmetric={"measure": "power", "operator": "GreaterThan"})
    assert greater.scores("new-0") == {"n1": 0.0, "n2": 100.0, "n3": 50.0, "n4": 0.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": {}, "default": "x"}, "default names the policy 'x', which is not among policies"),
        (
            {"policies": {"a": {"dontschedul": []}}},
            "unknown argument 'policies.a.dontschedul', did you mean 'dontschedule'?",
        ),
    ],
)
def test_wrong_policies_are_errors(arguments: dict[str, Any], message: str) -> None:
    assert message in argument_error("telemetry", arguments)


# energy


def test_energy_prefers_nodes_whose_power_rises_least_and_leaves_empty_ones_off() -> None:
    """10 W for each percent's exponential; the idle power of a node without pods counts."""
    models = {"old": {"idle": 100, "k1": 10, "k2": 0.02}, "new": {"idle": 50, "k1": 10, "k2": 0.01}}
    lines = [
        f"{noted('n1', cpu=25)} label.kind=old",
        f"{noted('n2', cpu=25)} label.kind=new",
        f"{noted('n3', cpu=0)} label.kind=new",
        f"{noted('n4')} label.kind=new",
        noted("n5", cpu=1),
    ]
    text = "\n".join(lines) + "\npod a cpu=0 node=n1\npod b cpu=0 node=n2" + JOB
    scores = Scene(seen(text), {"energy": {"models": models, "label": "kind"}}).scores("new-0")
    most = 100 + 10 * math.exp(2)
    added = {
        "n1": 10 * (math.exp(1.0) - math.exp(0.5)),
        "n2": 10 * (math.exp(0.5) - math.exp(0.25)),
        "n3": 10 * (math.exp(0.25) - 1) + 50,
    }
    assert scores == {name: round(100 * (1 - watts / most), 6) for name, watts in added.items()} | {
        "n4": 0.0,
        "n5": 0.0,
    }


# datalocality


def test_data_locality_is_the_part_of_the_pods_bytes_that_a_node_has() -> None:
    nodes = [noted("n1", **{"cached.big": 1}), noted("n2", **{"cached.big": 0.5, "cached.small": 1}), noted("n3")]
    job = "\njob new: 1 x cpu=1 note.volcanopy.io/datasets=big=3Gi,small=1Gi,broken\njob other: 1 x cpu=1"
    place = scene(nodes, "datalocality", job)
    assert place.scores("new-0") == {"n1": 75.0, "n2": 62.5, "n3": 0.0}
    assert place.scores("other-0") == {"n1": 0.0, "n2": 0.0, "n3": 0.0}


# interference

SLOWDOWN = {"batch": {"stream": 30}, "stream": {"batch": 50, "stream": 40}}
CLASSES = (
    "node n1 cpu=9\nnode n2 cpu=9\n"
    "job a: 1 x cpu=1 label.volcanopy.io/workload-class=stream on=n1\n"
    "job new: 2 x cpu=1 label.volcanopy.io/workload-class=batch\njob other: 1 x cpu=1"
)


def test_interference_counts_both_directions_and_placements_of_the_session() -> None:
    pair = Scene(seen(CLASSES), {"interference": {"slowdown": SLOWDOWN}})
    assert pair.scores("new-0") == {"n1": round(100 / 1.8, 6), "n2": 100.0}
    assert pair.scores("other-0") == {"n1": 100.0, "n2": 100.0}
    pair.evict("a-0")
    assert pair.scores("new-0") == {"n1": round(100 / 1.8, 6), "n2": 100.0}  # it still runs
    batch = Scene(seen(CLASSES), {"interference": {"slowdown": SLOWDOWN | {"batch": {"batch": 5}}}})
    batch.place("new-1", "n2")
    assert batch.scores("new-0") == {"n1": round(100 / 1.5, 6), "n2": round(100 / 1.1, 6)}


def test_a_pod_is_not_placed_where_it_would_run_too_long() -> None:
    limited = Scene(seen(CLASSES), {"interference": {"slowdown": SLOWDOWN, "most": 20}})
    assert limited.rejected("new-0") == {"n1": "node(s) had pods that slow this pod down by more than the limit"}
    assert limited.rejected("other-0") == {}


# demand


@pytest.mark.parametrize(
    ("policy", "first"),
    [("demand", "many"), ("demand-drf", "few")],
)
def test_queues_are_ordered_by_what_they_request_and_have(policy: str, first: str) -> None:
    """Queue many has 4 of 5 cores and requests 5 more, few has nothing and requests 2: one more core is free."""
    text = (
        "node n1 cpu=5\nqueue many\nqueue few\njob old queue=many: 4 x cpu=1 on=n1\n"
        "job a queue=many min=1: 5 x cpu=1\njob b queue=few min=1: 2 x cpu=1"
    )
    plan = made(seen(text), {"gang": {}, "demand": {"policy": policy}, "predicates": {}})
    assert {effect.pod.split("/")[1][0] for effect in plan.of(Bind)} == {"a" if first == "many" else "b"}


def test_measured_load_decides_a_whole_plan() -> None:
    plan = decide(f"{noted('n1', cpu=90)}\n{noted('n2', cpu=20)}\njob new: 1 x cpu=1", "gang, predicates, targetload")
    assert "bind new-0 -> n2" in str(plan)
