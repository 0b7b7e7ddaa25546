"""fragmentation: pods go where the GPUs that stay free are usable by the pods that usually come."""

import random
from typing import Any

import numpy as np
import pytest

from bench import growth, quality_gpu
from tests.scheduler.plugins.scene import Scene, made, seen
from volcanopy.api import names
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.ledger.cluster import TasksView
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.resources import Axis
from volcanopy.scheduler.nodes.devices.pod_mix import Mix, PodClass, gpu_resources
from volcanopy.scheduler.policy.config import DEFAULT, default, parse
from volcanopy_policies.devices.cards import card_usage
from volcanopy_policies.devices.cards.card_selection import choose
from volcanopy_policies.devices.cards.card_usage import SessionCards
from volcanopy_testing import random_worlds
from volcanopy_testing.notation import NOW, all_policies

ALONE: dict[str, dict[str, object]] = {"gang": {}, "predicates": {}, "fragmentation": {}}
SHARED: dict[str, dict[str, object]] = {
    "gang": {},
    "predicates": {},
    "deviceshare": {"deviceshare.VGPUEnable": True},
    "fragmentation": {},
}


def cards(node: str, number: int) -> str:
    """The keys of a node line with cards of 100 units of memory."""
    register = "".join(f"{node}-{card},10,100,T4,true,hami-core:" for card in range(number))
    return (
        f"{names.VGPU_NUMBER}={10 * number} {names.VGPU_MEMORY}={100 * number} note.{names.VGPU_REGISTER}='{register}'"
    )


def part(units: int, on: str = "", card: str = "") -> str:
    """The keys of a job line for a part of a card, running on one if it is given."""
    keys = f"{names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}={units}"
    return f"{keys} on={on} note.{names.VGPU_IDS}={card},T4,{units},0:;" if on else keys


def placed(text: str, plugins: dict[str, dict[str, object]]) -> dict[str, str]:
    """The node of each pod that is bound."""
    return {bind.pod.removeprefix("default/"): bind.node for bind in made(seen(text), plugins).of(Bind)}


def test_a_pod_without_gpus_leaves_the_cpu_of_gpu_nodes_to_pods_with_gpus() -> None:
    text = """
        node n1 cpu=8 gpu=2
        node n2 cpu=8
        job plain: 1 x cpu=6
        job other: 2 x cpu=4 gpu=1
    """
    assert placed(text, ALONE) == {"plain-0": "n2", "other-0": "n1", "other-1": "n1"}


def test_a_small_pod_goes_where_the_gpus_of_a_node_are_broken_up_already() -> None:
    text = """
        node n1 cpu=32 gpu=4
        node n2 cpu=32 gpu=4
        job old: 1 x cpu=4 gpu=1 on=n2
        job small: 1 x cpu=4 gpu=1
        job large: 1 x cpu=16 gpu=4
    """
    assert placed(text, ALONE) == {"small-0": "n2", "large-0": "n1"}


def test_a_pod_goes_to_a_node_whose_cpu_suffices_for_the_other_gpus() -> None:
    """On n1 the pod leaves a GPU without cpu; on n2 nothing is lost."""
    text = """
        node n1 cpu=8 gpu=2
        node n2 cpu=40 gpu=2
        job a: 1 x cpu=6 gpu=1
        job b: 3 x cpu=4 gpu=1
    """
    assert placed(text, ALONE)["a-0"] == "n2"


def test_a_pod_that_runs_anywhere_leaves_the_model_that_others_require() -> None:
    text = """
        node n1 cpu=8 gpu=1 label.model=a
        node n2 cpu=8 gpu=1 label.model=b
        job anywhere: 1 x cpu=1 gpu=1
        job picky: 1 x cpu=1 gpu=1 selector.model=a
    """
    assert placed(text, ALONE) == {"anywhere-0": "n2", "picky-0": "n1"}


def test_mig_slices_are_parts_of_a_gpu() -> None:
    axis = Axis.of(["nvidia.com/gpu", "nvidia.com/mig-3g.20gb", "nvidia.com/mig-7g.40gb", "example.com/other"])
    found = {axis.names[position]: value for position, value in gpu_resources(axis).items()}
    assert found == {
        "nvidia.com/gpu": 1.0,
        "nvidia.com/mig-3g.20gb": pytest.approx(3 / 7),
        "nvidia.com/mig-7g.40gb": 1.0,
    }


def test_gpus_may_have_other_names() -> None:
    axis = Axis.of(["x.io/gpu", "nvidia.com/gpu"])
    assert {axis.names[position]: part for position, part in gpu_resources(axis, ("x.io/gpu",)).items()} == {
        "x.io/gpu": 1.0
    }


def test_a_pod_with_a_mig_slice_goes_to_the_node_without_whole_gpus() -> None:
    text = """
        node n1 cpu=8 gpu=1 nvidia.com/mig-1g.5gb=7
        node n2 cpu=8 nvidia.com/mig-1g.5gb=7
        job slice: 1 x cpu=5 nvidia.com/mig-1g.5gb=1
        job whole: 1 x cpu=4 gpu=1
    """
    assert placed(text, ALONE) == {"slice-0": "n2", "whole-0": "n1"}


# Cards


def test_the_card_is_chosen_on_which_most_stays_usable() -> None:
    """60 of a card fit beside 40; on an empty card they would leave 40, which whole cards cannot use."""
    text = f"""
        node n1 cpu=32 {cards("n1", 2)}
        job old: 1 x cpu=1 {part(40, "n1", "n1-1")}
        job new: 1 x cpu=1 {part(60)}
        job whole: 1 x cpu=1 {part(100)}
    """
    plan = made(seen(text), SHARED)
    chosen = {bind.pod: bind.annotations[names.VGPU_IDS].split(",")[0] for bind in plan.of(Bind)}
    assert chosen == {"default/new-0": "n1-1", "default/whole-0": "n1-0"}


def test_the_pods_of_one_cycle_are_placed_as_in_a_cycle_for_each() -> None:
    """This is what the measure of bench relies on. Pods that have not arrived are gated, so that the mix is the same."""
    nodes, pods = quality_gpu.generated_nodes(4, 3), quality_gpu.generated_pods(40, 3)
    config = parse(quality_gpu.CONFIGURATIONS["fragmentation"], all_policies())
    together, _ = quality_gpu.place(nodes, pods, config)
    expected = {
        bind.pod: (bind.node, dict(bind.annotations)[names.VGPU_IDS]) for bind in together.of(Bind) if bind.annotations
    }
    state = quality_gpu.cluster(nodes)
    for number, shape in enumerate(pods):
        quality_gpu.add_pod(state, number, shape, gated=True)
    one_by_one: dict[str, tuple[str, str]] = {}
    for number, shape in enumerate(pods):
        quality_gpu.add_pod(state, number, shape)
        bind = next(iter(schedule(state.snapshot(quality_gpu.MOMENT), config).of(Bind)), None)
        if bind is None:
            quality_gpu.add_pod(state, number, shape, gated=True)
            continue
        if bind.annotations:
            one_by_one[bind.pod] = (bind.node, bind.annotations[names.VGPU_IDS])
        quality_gpu.add_pod(state, number, shape, bind.node, bind.annotations)
    assert one_by_one == expected
    assert 10 < len(expected) < len(pods)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_choices_of_cards_that_are_kept_by_the_state_of_a_node_are_those_that_are_computed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, pods = quality_gpu.generated_nodes(6, seed), quality_gpu.generated_pods(60, seed)
    config = parse(quality_gpu.CONFIGURATIONS["fragmentation"], all_policies())
    kept, _ = quality_gpu.place(nodes, pods, config)
    monkeypatch.setattr(SessionCards, "state", lambda *_: object())
    computed, _ = quality_gpu.place(nodes, pods, config)
    assert str(kept) == str(computed)


def test_the_cards_of_equal_pods_are_chosen_once_for_each_state_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return choose(*arguments)

    monkeypatch.setattr(card_usage, "choose", counted)
    plan = schedule(growth.shared_gpus(200), parse(growth.SHARING, all_policies()))
    assert len(plan.of(Bind)) == 200
    assert len(calls) < 250


def test_scores_of_many_shapes_together_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = "\n".join(f"node n{number} cpu=64 gpu=8" for number in range(6))
    jobs = "\n".join(f"job j{number}: 1 x cpu={number % 6 + 1} gpu={1 + number % 3}" for number in range(40))
    together = placed(f"{nodes}\n{jobs}", ALONE)
    monkeypatch.setattr(defaults, "TABLE_LEAST", 1000)
    assert len(together) > 20
    assert placed(f"{nodes}\n{jobs}", ALONE) == together


# The measure


def reference(classes: list[PodClass], room: list[tuple[int, int, int]]) -> list[float]:
    """The expected usable GPUs of nodes, each with free cpu, memory and GPUs."""
    total = sum(each.weight for each in classes)
    return [
        sum(
            each.weight / total * gpus
            for each in classes
            if each.number <= gpus and each.cpu <= cpu and each.memory <= memory and each.nodes[row]
        )
        for row, (cpu, memory, gpus) in enumerate(room)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_usable_gpus_are_those_of_the_definition(seed: int) -> None:
    chooser = random.Random(seed)
    classes = [
        PodClass(
            chooser.randint(1, 9),
            chooser.randint(0, 8),
            chooser.randint(0, 8),
            number := chooser.choice([1, 1, 2, 4, 8]),
            3,
            float(number),
            np.array([chooser.random() < 0.8 for _ in range(6)]),
        )
        for _ in range(12)
    ]
    room = [(chooser.randint(0, 16), chooser.randint(0, 16), chooser.randint(0, 8)) for _ in range(6)]
    mix = Mix.of(classes, 6, 0)
    assert mix is not None
    cpu, memory, gpus = np.array(room).T
    usable = mix.usable(gpus[None, None], gpus[None, None].astype(float), cpu[None], memory[None], np.arange(6))
    assert usable[0].tolist() == pytest.approx(reference(classes, room))


# The default configuration


@pytest.mark.parametrize("seed", range(12))
def test_clusters_without_gpus_are_scheduled_as_without_the_plugin(seed: int) -> None:
    text = random_worlds.world(random.Random(seed))
    if "gpu=" in text:
        text = text.replace("gpu=", "other.example/unit=")
    snapshot = seen(text, now=NOW)
    without = parse(DEFAULT.replace("  - name: fragmentation\n", ""), all_policies())
    assert str(schedule(snapshot, default(all_policies()))) == str(schedule(snapshot, without))


def test_other_scores_by_amounts_count_again_if_the_plugin_is_told_so() -> None:
    text = "node n1 cpu=8 gpu=2\nnode n2 cpu=8\njob a: 1 x cpu=1\njob b: 1 x cpu=1 gpu=1"
    alone = {"binpack": {}, "fragmentation": {"fragmentation.weight": 0}}
    assert set(Scene(seen(text), alone).scores("a-0").values()) == {0.0}
    both = {"binpack": {}, "fragmentation": {"fragmentation.weight": 0, "fragmentation.exclusive": False}}
    assert Scene(seen(text), both).scores("a-0") == {"n1": 12.5, "n2": 12.5}


def test_the_default_allocates_more_gpus_than_volcanos_default() -> None:
    nodes, pods = quality_gpu.generated_nodes(12, 1), quality_gpu.generated_pods(100, 1)
    allocated = {
        name: quality_gpu.measure(nodes, pods, seed=1, configuration=name).allocated for name in ("default", "volcano")
    }
    assert allocated["default"] > allocated["volcano"] + 1


# Devices of ResourceClaims

GPU_CLASS = "deviceclass gpu.nvidia.com driver=gpu.nvidia.com"


def claimed(count: int, *pods: str) -> str:
    """The lines of a template for so many GPUs, made for these pods."""
    return "\n".join(f"claim {pod}-gpus class=gpu.nvidia.com count={count} owner={pod}" for pod in pods)


def small_beside_large(old: str, cpu: int) -> str:
    """Two nodes, one of which has lost a GPU to a pod with the template ``old``, a small pod, and a large one with so much cpu."""
    return f"""
        {GPU_CLASS}
        node n1 cpu=32
        node n2 cpu=32
        devices n1 count=4 driver=gpu.nvidia.com
        devices n2 count=4 driver=gpu.nvidia.com
        claim old-0-{old} class=gpu.nvidia.com driver=gpu.nvidia.com count=1 owner=old-0 users=old-0 has=n2/0
        {claimed(1, "small-0")}
        {claimed(4, "large-0")}
        job old: 1 x cpu=4 on=n2 template={old}
        job small: 1 x cpu=4 template=gpus
        job large: 1 x cpu={cpu} template=gpus
    """


def test_a_small_pod_goes_where_the_claimed_gpus_of_a_node_are_broken_up_already() -> None:
    assert placed(small_beside_large("gpus", cpu=16), ALONE) == {"small-0": "n2", "large-0": "n1"}


def test_pods_of_one_template_name_with_claims_of_other_contents_are_different_pods() -> None:
    """The template was changed between the two pods."""
    assert placed(small_beside_large("one", cpu=4), ALONE) == {"small-0": "n2", "large-0": "n1"}


def test_pods_of_one_cycle_count_the_claimed_gpus_of_those_before() -> None:
    """Each node has one GPU more than a large pod needs: two small ones on the same node would leave one large pod without."""
    text = f"""
        {GPU_CLASS}
        node n1 cpu=64
        node n2 cpu=64
        devices n1 count=4 driver=gpu.nvidia.com
        devices n2 count=4 driver=gpu.nvidia.com
        {claimed(1, "small-0", "small-1")}
        {claimed(3, "large-0", "large-1")}
        job small: 2 x cpu=4 template=gpus
        job large: 2 x cpu=12 template=gpus
    """
    nodes = placed(text, ALONE)
    assert {nodes["small-0"], nodes["small-1"]} == {nodes["large-0"], nodes["large-1"]} == {"n1", "n2"}


def test_a_pod_without_claims_leaves_the_cpu_of_nodes_with_claimed_gpus_to_pods_with_gpus() -> None:
    text = f"""
        {GPU_CLASS}
        node n1 cpu=8
        node n2 cpu=8
        devices n1 count=2 driver=gpu.nvidia.com
        {claimed(1, "other-0", "other-1")}
        job plain: 1 x cpu=6
        job other: 2 x cpu=4 template=gpus
    """
    assert placed(text, ALONE) == {"plain-0": "n2", "other-0": "n1", "other-1": "n1"}


def test_claimed_mig_devices_are_parts_of_a_gpu() -> None:
    """The same worlds but for the profile: a plain pod costs more where the free devices are larger."""
    worlds = (
        f"""
        deviceclass gpu.nvidia.com driver=gpu.nvidia.com type=gpu
        deviceclass mig.nvidia.com driver=gpu.nvidia.com type=mig
        node n1 cpu=8
        node n2 cpu=8
        devices n1 count=1 driver=gpu.nvidia.com type=mig profile={profile}
        devices n2 count=1 driver=gpu.nvidia.com type=gpu
        claim slice-0-part class=mig.nvidia.com owner=slice-0
        claim whole-0-gpus class=gpu.nvidia.com owner=whole-0
        job plain: 1 x cpu=5
        job slice: 1 x cpu=4 template=part
        job whole: 1 x cpu=4 template=gpus
        """
        for profile in ("1g.5gb", "7g.40gb")
    )
    small, large = (Scene(seen(text), ALONE).scores("plain-0") for text in worlds)
    assert small["n1"] > large["n1"] == large["n2"]


@pytest.mark.parametrize(
    "claim",
    [
        "class=other.example.com count=1",
        "class=gpu.nvidia.com all",
        "class=gpu.nvidia.com count=1 admin",
    ],
)
def test_claims_that_do_not_request_a_number_of_gpus_are_left_out(claim: str) -> None:
    """As without the plugin: nothing prefers the node whose devices are broken up already."""
    text = f"""
        {GPU_CLASS}
        deviceclass other.example.com driver=gpu.nvidia.com
        node n1 cpu=32
        node n2 cpu=32
        devices n1 count=4 driver=gpu.nvidia.com
        devices n2 count=4 driver=gpu.nvidia.com
        claim small-0-gpus {claim} owner=small-0
        job small: 1 x cpu=4 template=gpus
    """
    scene = Scene(seen(text), ALONE)
    assert set(scene.scores("small-0").values()) == {0.0}


def test_tasks_without_gpus_have_the_same_scores_together_as_alone() -> None:
    text = """
        node n1 cpu=8 nvidia.com/gpu=4
        node n2 cpu=2 nvidia.com/gpu=4
        job trains: 1 x cpu=2 nvidia.com/gpu=1 on=n1
        job small: 1 x cpu=1
        job large: 1 x cpu=2
    """
    scene = Scene(seen(text), ALONE)
    tasks = [scene.task("small-0"), scene.task("large-0")]
    together = scene.session.hooks.score(TasksView(tasks), scene.nodes)
    alone = [scene.session.hooks.score(TasksView([task]), scene.nodes)[0] for task in tasks]
    assert together.tolist() == [scores.tolist() for scores in alone]
