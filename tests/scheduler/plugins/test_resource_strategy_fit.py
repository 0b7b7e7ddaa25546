"""resource-strategy-fit: strategies by resource."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import Scene, argument_error, made, seen
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policies.nodes.resource_strategy_fit import SCORING_KEY, WEIGHT_KEY

FIT = "resource-strategy-fit"
MOST_GPU = {"nvidia.com/gpu": {"type": "MostAllocated", "weight": 2}, "cpu": {"type": "LeastAllocated", "weight": 1}}


def scene(text: str, **arguments: Any) -> Scene:
    return Scene(seen(text), {FIT: arguments})


def test_without_arguments_the_emptier_node_is_better() -> None:
    """With the task, half of the cpu of n1 and seven eighths of the memory are free: ten times the mean of both."""
    stage = scene(
        "node n1 cpu=4 memory=8Gi\nnode n2 cpu=8 memory=8Gi\njob old: 1 x cpu=1 on=n1\njob new: 1 x cpu=1 memory=1Gi"
    )
    assert stage.scores("new-0") == {"n1": 10 * 100 * (0.5 + 0.875) / 2, "n2": 10 * 100 * (0.875 + 0.875) / 2}


def test_each_resource_has_its_own_strategy() -> None:
    """A quarter of the gpus of n1 and three quarters of those of n2 would be used; half of the cpu is free on both."""
    stage = scene(
        "node n1 cpu=4 gpu=8\nnode n2 cpu=4 gpu=8\njob old: 1 x gpu=4 on=n2\njob new: 1 x cpu=2 gpu=2",
        resources=MOST_GPU,
    )
    assert stage.scores("new-0") == {
        "n1": round(1000 * (2 * 0.25 + 0.5) / 3, 6),
        "n2": round(1000 * (2 * 0.75 + 0.5) / 3, 6),
    }


def test_missing_resources_do_not_count_and_insufficient_ones_score_zero() -> None:
    stage = scene("node n1 cpu=4\nnode n2 cpu=4 gpu=1\njob new: 1 x cpu=2 gpu=2", resources=MOST_GPU)
    assert stage.scores("new-0") == {"n1": round(1000 * 0.5 / 3, 6), "n2": 0.0}


def test_an_exact_name_precedes_the_longest_prefix() -> None:
    resources = {
        "example.com/*": {"type": "LeastAllocated"},
        "example.com/big*": {"type": "MostAllocated"},
        "example.com/bigger": {"type": "LeastAllocated"},
    }
    text = "node n1 example.com/a=4 example.com/big=4 example.com/bigger=4\n"
    for name, score in {"a": 750.0, "big": 250.0, "bigger": 750.0}.items():
        stage = scene(f"{text}job new: 1 x example.com/{name}=1", resources=resources)
        assert stage.scores("new-0") == {"n1": score}, name


def test_a_pod_annotation_overrides_the_weights() -> None:
    note = f"note.{SCORING_KEY}=MostAllocated 'note.{WEIGHT_KEY}={{\"cpu\": 1}}'"
    stage = scene(f"node n1 cpu=4\njob new: 1 x cpu=1 {note}, 1 x cpu=1", resources={"cpu": {"type": "LeastAllocated"}})
    assert stage.scores("new-0") == {"n1": 250.0}
    assert stage.scores("new-1") == {"n1": 750.0}


@pytest.mark.parametrize(
    "weights", ["", "note.X={}", f"'note.{WEIGHT_KEY}=[1]'", f"'note.{WEIGHT_KEY}={{\"cpu\": 0}}'"]
)
def test_invalid_weights_of_a_pod_score_zero(weights: str) -> None:
    stage = scene(f"node n1 cpu=4\njob new: 1 x cpu=1 note.{SCORING_KEY}=MostAllocated {weights}")
    assert stage.scores("new-0") == {"n1": 0.0}


def test_equal_tasks_with_different_weights_are_not_placed_as_one_run() -> None:
    """The first two tasks prefer the full node, the other two the empty one, all in one role."""
    note = f"note.{SCORING_KEY}=MostAllocated 'note.{WEIGHT_KEY}={{\"cpu\": 1}}'"
    text = f"node n1 cpu=8\nnode n2 cpu=8\njob old: 1 x cpu=1 on=n1\njob new: 2 x cpu=1 {note}, 2 x cpu=1"
    snapshot = seen(text)
    binds = {
        effect.pod: effect.node for effect in made(snapshot, {FIT: {"resources": {"cpu": {}}}, "gang": {}}).of(Bind)
    }
    assert binds == {"default/new-0": "n1", "default/new-1": "n1", "default/new-2": "n2", "default/new-3": "n2"}


def test_scarce_devices_are_left_to_pods_that_request_them() -> None:
    sra = {
        "enable": True,
        "resources": "a.io/t4, a.io/a10",
        "weight": 5,
        "resourceWeight": {"a.io/t4": 2, "a.io/a10": 3},
    }
    stage = scene(
        """
        node n1 cpu=8
        node n2 cpu=8 a.io/t4=4
        node n3 cpu=8 a.io/a10=4
        node n4 cpu=8 a.io/t4=4 a.io/a10=4
        job none: 1 x cpu=1
        job t4: 1 x cpu=1 a.io/t4=1
        """,
        resourceStrategyFitWeight=0,
        sra=sra,
    )
    assert stage.scores("none-0") == {"n1": 500.0, "n2": 300.0, "n3": 200.0, "n4": 0.0}
    assert stage.scores("t4-0") == {"n1": 0.0, "n2": 300.0, "n3": 0.0, "n4": 0.0}


def test_cpu_and_memory_are_reserved_for_idle_devices() -> None:
    """Two gpus are idle on both nodes, and each reserves four cores: n1 has one more free core, n2 none."""
    proportional = {"enable": True, "resources": "nvidia.com/gpu", "resourceProportion": {"nvidia.com/gpu.cpu": 4}}
    stage = scene(
        "node n1 cpu=9 gpu=2\nnode n2 cpu=8 gpu=2\nnode n3 cpu=2\njob new: 1 x cpu=1, 1 x cpu=1 gpu=1",
        proportional=proportional,
    )
    assert stage.rejected("new-0") == {"n2": "node(s) keep their cpu and memory for their scarce resources"}
    assert stage.rejected("new-1") == {}


def test_the_reservation_counts_resources_being_freed() -> None:
    """An eviction could free resources beside the devices: the rejection is resolvable."""
    proportional = {"enable": True, "resources": "nvidia.com/gpu", "resourceProportion": {"nvidia.com/gpu.memory": 0}}
    stage = scene("node n1 cpu=4 gpu=2\njob old: 1 x cpu=2 on=n1\njob new: 1 x cpu=1", proportional=proportional)
    assert list(stage.rejected("new-0")) == ["n1"]
    assert not stage.session.placement.infeasible_nodes(stage.task("new-0")).any()
    stage.evict("old-0")
    assert stage.rejected("new-0") == {}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"resourceStrategyFitWeight": -1},
            "resourceStrategyFitWeight: input should be greater than or equal to 0, not -1",
        ),
        (
            {"resources": {"cpu": {"type": "Most"}}},
            "resources.cpu.type: input should be 'LeastAllocated' or 'MostAllocated', not 'Most'",
        ),
        ({"resources": {"*": {}}}, "'*' is no resource: write a name"),
        ({"resources": {"a*b": {}}}, "'a*b' is no resource: write a name"),
        ({"sra": {"resources": "a", "resourceWeight": {"b": 1}}}, "resourceWeight weighs 'b': add it to sra.resources"),
        ({"proportional": {"resources": "a", "resourceProportion": {"a.pods": 1}}}, "resourceProportion has 'a.pods'"),
        ({"resources": {"cpu": {"wight": 1}}}, "unknown argument 'resources.cpu.wight', did you mean 'weight'?"),
        ({"resource": {}}, "unknown argument 'resource', did you mean 'resources'?"),
    ],
)
def test_invalid_arguments_are_rejected_with_a_message(arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in argument_error(FIT, arguments)


amounts = st.integers(0, 6)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(1, 8), amounts, amounts), min_size=1, max_size=4),
    st.tuples(amounts, amounts),
    st.sampled_from(["LeastAllocated", "MostAllocated"]),
    st.sampled_from(["LeastAllocated", "MostAllocated"]),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_vectorised_scores_equal_scores_per_node(
    nodes: list[tuple[int, int, int]], asked: tuple[int, int], cpu: str, gpu: str, weights: tuple[int, int]
) -> None:
    lines = [f"node n{i} cpu={room} gpu={devices}" for i, (room, devices, _) in enumerate(nodes)]
    lines += [f"pod p{i} cpu={used} node=n{i}" for i, (_, _, used) in enumerate(nodes)]
    lines.append(f"job new: 1 x cpu={asked[0]} gpu={asked[1]}")
    resources = {"cpu": {"type": cpu, "weight": weights[0]}, "nvidia.com/gpu": {"type": gpu, "weight": weights[1]}}
    scores = scene("\n".join(lines), resources=resources).scores("new-0")
    for i, (room, devices, used) in enumerate(nodes):
        terms = [(asked[0], used, room, cpu, weights[0]), (asked[1], 0, devices, gpu, weights[1])]
        terms = [term for term in terms if term[0]]
        score = 0.0
        if terms and not any(ask + use > have > 0 for ask, use, have, _, _ in terms):
            for ask, use, have, kind, weight in terms:
                part = ask + use if kind == "MostAllocated" else have - ask - use
                score += weight * part / have if have else 0.0
            score *= 1000 / sum(term[4] for term in terms)
        assert np.isclose(scores[f"n{i}"], score, atol=1e-5)
