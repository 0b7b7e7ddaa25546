"""deviceshare on cards in MIG mode: pods get instances, of one group of the card's geometries at a time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import Scene, argument_error, made, seen
from volcanopy.api import names
from volcanopy.api.builtin import gpu_annotations
from volcanopy.api.builtin.gpu_annotations import CardShare
from volcanopy.scheduler.model.plan import Bind, Plan
from volcanopy_policies.devices.cards.instances import UNKNOWN, Instance, instance_table
from volcanopy_policies.devices.gpus import shared_gpus
from volcanopy_policies.devices.gpus.shared_gpus import SharedGpus

ROOM = f"{names.VGPU_NUMBER}=40 {names.VGPU_MEMORY}=400000 {names.VGPU_CORES}=1000"
A100 = "NVIDIA-NVIDIA A100-SXM4-40GB"


def mig(*uuids: str, mode: str = "mig", kind: str = A100, slots: int = 10) -> str:
    """Return the keys of a node line with these cards of 40 GB."""
    cards = "".join(f"{uuid},{slots},40960,{kind},true,{mode}:" for uuid in uuids)
    return f"{ROOM} note.{names.VGPU_REGISTER}='{cards}'"


def asks(memory: int, number: int = 1) -> str:
    return f"cpu=1 {names.VGPU_NUMBER}={number} {names.VGPU_MEMORY}={memory}"


def on(node: str, ids: str, memory: int = 1000) -> str:
    return f"on={node} {asks(memory)} note.{names.VGPU_IDS}={ids},NVIDIA,{memory},0:"


def by(**more: Any) -> dict[str, dict[str, Any]]:
    arguments = {"deviceshare.VGPUEnable": True} | {f"deviceshare.{key}": value for key, value in more.items()}
    return {"priority": {}, "gang": {}, "predicates": {}, "deviceshare": arguments}


def written(plan: Plan) -> dict[str, str]:
    return {bind.pod.removeprefix("default/"): bind.annotations[names.VGPU_IDS] for bind in plan.of(Bind)}


def test_pods_get_instances_of_the_first_group_that_has_large_enough_ones() -> None:
    """The annotation names the group, the position in it, and the memory that the pod requests, as the device plugin reads it."""
    text = f"""
        node n1 cpu=8 {mig("GPU-a")}
        job a: 3 x {asks(8000)}
    """
    assert written(made(seen(text), by())) == {
        "a-0": "GPU-a[group2-0],NVIDIA,8000,0:",
        "a-1": "GPU-a[group2-1],NVIDIA,8000,0:",
        "a-2": "GPU-a[group2-2],NVIDIA,8000,0:",
    }


def test_a_card_in_use_keeps_its_group_and_gives_the_smallest_free_instance_of_it() -> None:
    text = f"""
        node n1 cpu=8 {mig("GPU-a")}
        job old: 1 x {on("n1", "GPU-a[group2-0]", 8000)}
        job small: 2 x {asks(4000)}
        job large: 1 x {asks(20000)}
    """
    scene = Scene(seen(text), by())
    assert scene.rejected("large-0") == {"n1": SharedGpus.busy}
    assert written(made(seen(text), by())) == {
        "small-0": "GPU-a[group2-3],NVIDIA,4000,0:",
        "small-1": "GPU-a[group2-1],NVIDIA,4000,0:",
    }


def test_an_instance_is_free_again_when_its_pod_has_gone() -> None:
    text = f"""
        node n1 cpu=8 {mig("GPU-a")}
        job old: 1 x {on("n1", "GPU-a[group3-1]", 20000)}
        job a: 1 x {asks(20000)}
        job b: 1 x {asks(20000)}
    """
    assert written(made(seen(text), by())) == {"a-0": "GPU-a[group3-0],NVIDIA,20000,0:"}


def test_several_cards_of_a_container_and_several_containers_get_instances_of_their_own() -> None:
    text = f"""
        node n1 cpu=8 {mig("GPU-a", "GPU-b")}
        job a: 1 x {asks(8000, number=2)}
        job b: 1 x {asks(5000, number=2)}
    """
    assert written(made(seen(text), by())) == {
        "a-0": "GPU-b[group2-0],NVIDIA,8000,0:GPU-a[group2-0],NVIDIA,8000,0:",
        "b-0": "GPU-b[group2-3],NVIDIA,5000,0:GPU-a[group2-3],NVIDIA,5000,0:",
    }


def test_an_instance_counts_with_all_of_its_memory() -> None:
    """1,000 of memory were requested, 5,120 are used: an eighth of the card's 40,960, and two eighths with the new pod."""
    text = f"""
        node n1 cpu=8 {mig("GPU-a")}
        job old: 1 x {on("n1", "GPU-a[group1-0]")}
        job a: 1 x {asks(1000)}
    """
    plugins = by(SchedulePolicy="binpack", ScheduleWeight=1)
    assert Scene(seen(text), {"deviceshare": plugins["deviceshare"]}).scores("a-0") == {"n1": 25.0}


@pytest.mark.parametrize(
    ("mode", "rejected"),
    [("mig", {"n2": shared_gpus.OTHER_MODE}), ("hami-core", {"n1": shared_gpus.OTHER_MODE}), ("", {})],
)
def test_a_pod_can_select_the_mode_of_its_cards(mode: str, rejected: dict[str, str]) -> None:
    text = f"""
        node n1 cpu=8 {mig("GPU-a")}
        node n2 cpu=8 {mig("GPU-b", mode="hami-core")}
        job a: 1 x {asks(1000)} {f"note.{names.VGPU_MODE}={mode}" if mode else ""}
    """
    assert Scene(seen(text), by()).rejected("a-0") == rejected


def test_no_instance_is_as_large_as_the_request() -> None:
    text = f"node n1 cpu=8 {mig('GPU-a')}\njob a: 1 x {asks(40961)}"
    assert Scene(seen(text), by()).rejected("a-0") == {"n1": SharedGpus.unfit}


@pytest.mark.parametrize("ids", ["GPU-a", "GPU-a[group9-0]", "GPU-a[group1-7]"])
def test_a_card_with_an_instance_that_no_group_has_takes_no_other_pod_until_it_is_free(ids: str) -> None:
    """It is divided as the geometries were when the pod came, which nothing tells."""
    text = f"""
        node n1 cpu=8 {mig("GPU-a")}
        job old: 1 x {on("n1", ids)}
        job a: 1 x {asks(1000)}
    """
    assert Scene(seen(text), by()).rejected("a-0") == {"n1": SharedGpus.busy}


def test_geometries_and_the_unit_of_memory_can_be_set() -> None:
    """With a unit of 1,000 MB, 3 units need an instance of 3,000 MB, and one of 6,144 MB counts as 6 units."""
    geometries = [
        {
            "models": ["T9"],
            "allowedGeometries": [
                {"group": "half", "geometries": [{"name": "1g", "memory": 2048, "count": 1}]},
                {"group": "all", "geometries": [{"name": "2g", "memory": 6144, "count": 1}]},
            ],
        }
    ]
    text = f"""
        node n1 cpu=8 {ROOM} note.{names.VGPU_REGISTER}='GPU-a,10,12,NVIDIA-T9,true,mig:'
        job a: 1 x {asks(3)}
    """
    plugins = by(knownMigGeometries=geometries, gpuMemoryFactor=1000, SchedulePolicy="binpack", ScheduleWeight=1)
    assert written(made(seen(text), plugins)) == {"a-0": "GPU-a[all-0],NVIDIA,3,0:"}
    assert Scene(seen(text), {"deviceshare": plugins["deviceshare"]}).scores("a-0") == {"n1": 50.0}


def test_exclusive_rules_do_not_hold_between_instances() -> None:
    text = f"""
        node n1 cpu=8 {mig("GPU-a")}
        job old: 1 x {on("n1", "GPU-a[group1-0]")} label.app=train
        job a: 1 x {asks(1000)} label.app=train
    """
    plan = made(seen(text), by(GPUExclusiveRules=[{"app": "train"}]))
    assert written(plan) == {"a-0": "GPU-a[group1-1],NVIDIA,1000,0:"}


@pytest.mark.parametrize(
    ("group", "profile", "message"),
    [
        ("a-b", {"name": "1g", "memory": 1, "count": 1}, "a group must not contain any of - [ ] , : ;"),
        ("a", {"name": "1g", "memory": 1, "count": 1, "cuont": 1}, "did you mean"),
        ("a", {"name": "1g", "memory": 0, "count": 1}, "greater than 0"),
    ],
)
def test_geometries_are_checked(group: str, profile: dict[str, Any], message: str) -> None:
    geometries = [{"models": ["A30"], "allowedGeometries": [{"group": group, "geometries": [profile]}]}]
    assert message in argument_error("deviceshare", {"deviceshare.knownMigGeometries": geometries})


def test_the_name_of_an_instance_is_read_from_the_annotation() -> None:
    text = gpu_annotations.format_vgpus([[(gpu_annotations.instance_id("GPU-a", "group2-3"), A100, 4000, 0)]])
    assert gpu_annotations.vgpu_shares(text) == (CardShare("GPU-a", 4000, instance="group2-3"),)


GROUPS = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=3)


@examples(60)
@given(GROUPS, st.lists(st.integers(0, 11), max_size=3), st.integers(1, 7))
def test_the_instance_chosen_equals_that_of_a_search_one_by_one(
    groups: list[list[int]], taken: list[int], requested: int
) -> None:
    """Any instances may be in use, also of two groups, which a card has while one of them is terminating."""
    instances = [
        Instance(f"g{number}-{position}", number, memory)
        for number, group in enumerate(groups)
        for position, memory in sorted(enumerate(group), key=lambda item: item[1])
    ]
    table = instance_table([instances], [1])
    used = np.zeros((table.width, 1), dtype=np.int64)
    in_use = {column for column in taken if 0 < column < table.width}
    used[list(in_use)] = 1
    locked = {instances[column - 1].group for column in in_use}
    expected = next(
        (
            column
            for column, instance in enumerate(instances, start=1)
            if column not in in_use and instance.memory >= requested and locked <= {instance.group}
        ),
        UNKNOWN,
    )
    assert table.first_fit(np.array([0]), used, np.array([requested])).tolist() == [expected]
