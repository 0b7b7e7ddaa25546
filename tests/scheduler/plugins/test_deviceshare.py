"""deviceshare: pods get parts of cards, whole cards, or several cards, named in annotations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.plugins.scene import Scene, argument_error, configured, made, seen
from volcanopy.api import names
from volcanopy.api.builtin import gpu_annotations
from volcanopy.api.builtin.gpu_annotations import Card
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan
from volcanopy_policies.devices.cards import device_kind
from volcanopy_policies.devices.gpus import shared_gpus
from volcanopy_policies.devices.gpus.device_names import DeviceNames
from volcanopy_policies.devices.gpus.shared_gpus import SharedGpus
from volcanopy_testing.notation import NOW, world

MEMORY, NUMBER = names.GPU_MEMORY, names.GPU_NUMBER
VGPU = f"{names.VGPU_NUMBER}=40 {names.VGPU_MEMORY}=100000 {names.VGPU_CORES}=1000"


def by(way: str, **more: Any) -> dict[str, dict[str, Any]]:
    switches: dict[str, Any] = {"memory": "GPUSharingEnable", "number": "GPUNumberEnable", "vgpu": "VGPUEnable"}
    arguments = {f"deviceshare.{switches[way]}": True}
    arguments |= {f"deviceshare.{key}": value for key, value in more.items()}
    return {"priority": {}, "gang": {}, "predicates": {}, "deviceshare": arguments}


def cards(plan: Plan) -> dict[str, str]:
    """The node and the cards of each pod that is bound."""
    result = {}
    for bind in plan.of(Bind):
        annotation = bind.annotations.get(names.GPU_INDEX) or bind.annotations.get(names.VGPU_IDS, "")
        ids = ";".join(
            "+".join(item.split(",")[0] for item in part.split(":") if item) for part in annotation.split(";")
        )
        result[bind.pod.removeprefix("default/")] = (
            f"{bind.node} {ids if names.VGPU_IDS in bind.annotations else annotation}"
        )
    return result


def vgpus(*texts: str, mode: str = "hami-core") -> str:
    """Return the keys of a node line that register vGPUs, given as ``uuid,pods,memory,type`` with an optional ``,false``."""
    whole = [text if text.count(",") > 3 else f"{text},true" for text in texts]
    return f"{VGPU} note.{names.VGPU_REGISTER}='{':'.join(f'{item},{mode}' for item in whole)}:'"


# Shared by memory


def test_pods_share_a_card_by_memory_and_are_annotated() -> None:
    plan = made(
        seen(f"""
            node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
            job a: 3 x cpu=1 {MEMORY}=4
            job b: 1 x cpu=1 {MEMORY}=6
        """),
        by("memory"),
    )
    assert cards(plan) == {"a-0": "n1 0", "a-1": "n1 0", "a-2": "n1 1", "b-0": "n1 1"}


def test_memory_of_two_cards_does_not_add_up() -> None:
    """20 of memory are free on the node, but 10 on each card."""
    text = f"""
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
        job a: 1 x cpu=1 {MEMORY}=12
    """
    assert Scene(seen(text), by("memory")).rejected("a-0") == {"n1": SharedGpus.unfit}
    text = f"""
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
        job old: 2 x cpu=1 on=n1 {MEMORY}=5 note.{names.GPU_INDEX}=0
        job new: 1 x cpu=1 on=n1 {MEMORY}=5 note.{names.GPU_INDEX}=1
        job a: 1 x cpu=1 {MEMORY}=5
        job b: 1 x cpu=1 {MEMORY}=6
    """
    scene = Scene(seen(text), by("memory"))
    assert scene.rejected("a-0") == {}
    assert scene.rejected("b-0") == {"n1": SharedGpus.busy}


def test_the_cards_of_running_pods_are_read_from_their_annotations() -> None:
    text = f"""
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
        job old: 1 x cpu=1 on=n1 {MEMORY}=8 note.{names.GPU_INDEX}=0
        job a: 1 x cpu=1 {MEMORY}=8
    """
    assert cards(made(seen(text), by("memory"))) == {"a-0": "n1 1"}


def test_an_unhealthy_card_is_not_assigned() -> None:
    text = f"""
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2 note.{names.GPU_UNHEALTHY}=0
        job a: 1 x cpu=1 {MEMORY}=8
    """
    assert cards(made(seen(text), by("memory"))) == {"a-0": "n1 1"}


def test_a_node_without_cards_is_infeasible() -> None:
    scene = Scene(seen(f"node n1 cpu=8\njob a: 1 x cpu=1 {MEMORY}=8"), by("memory"))
    assert scene.rejected("a-0") == {"n1": shared_gpus.NO_CARDS}


def test_pods_without_card_requests_are_not_filtered() -> None:
    scene = Scene(seen(f"node n1 cpu=8\nnode n2 cpu=8 {MEMORY}=9 {NUMBER}=1\njob a: 1 x cpu=1"), by("memory"))
    assert scene.rejected("a-0") == {}
    assert scene.scores("a-0") == {"n1": 0.0, "n2": 0.0}


# By number


def test_a_pod_gets_several_whole_cards() -> None:
    text = f"""
        node n1 cpu=8 {MEMORY}=40 {NUMBER}=4
        job a: 1 x cpu=1 {NUMBER}=2
        job b: 1 x cpu=1 {NUMBER}=1
        job c: 1 x cpu=1 {NUMBER}=2
    """
    plan = made(seen(text), by("number"))
    assert cards(plan) == {"a-0": "n1 0,1", "b-0": "n1 2"}


def test_the_assignment_time_is_that_of_the_snapshot() -> None:
    plan = made(seen(f"node n1 cpu=8 {MEMORY}=40 {NUMBER}=4\njob a: 1 x cpu=1 {NUMBER}=2"), by("number"))
    (bind,) = plan.of(Bind)
    assert bind.annotations[names.PREDICATE_TIME] == f"{int(NOW.timestamp())}000000000"


# vGPUs


def test_vgpus_are_given_by_memory_cores_and_number() -> None:
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4", "GPU-b,4,8000,T4")}
        job a: 1 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=5000 {names.VGPU_CORES}=60
        job b: 1 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=2000 {names.VGPU_CORES}=50
        job c: 1 x cpu=1 {names.VGPU_NUMBER}=2 {names.VGPU_MEMORY}=1000 {names.VGPU_CORES}=10
        job d: 1 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_PERCENTAGE}=50
    """
    plan = made(seen(text), by("vgpu"))
    assert cards(plan) == {"a-0": "n1 GPU-b", "b-0": "n1 GPU-a", "c-0": "n1 GPU-b+GPU-a", "d-0": "n1 GPU-a"}
    first, _, third, fourth = plan.of(Bind)
    seconds = str(int(NOW.timestamp()))
    assert first.annotations == {
        names.VGPU_NODE: "n1",
        names.VGPU_TIME: seconds,
        names.VGPU_IDS: "GPU-b,T4,5000,60:",
        names.VGPU_TO_ALLOCATE: "GPU-b,T4,5000,60:",
        names.BIND_PHASE: "allocating",
        names.BIND_TIME: seconds,
    }
    assert third.annotations[names.VGPU_IDS] == "GPU-b,T4,1000,10:GPU-a,T4,1000,10:"
    assert fourth.annotations[names.VGPU_IDS] == "GPU-a,T4,4000,0:"


def test_the_cards_of_a_pod_are_those_that_volcanos_device_plugin_looks_for() -> None:
    """It registers cards so, and finds those of container 1 after one semicolon, by the family of their type."""
    register = gpu_annotations.parse_register("GPU-9e0,10,15109,NVIDIA-Tesla V100-SXM2-32GB,true,hami-core:")
    assert register.cards == (Card("GPU-9e0", 15109, 10, "NVIDIA-Tesla V100-SXM2-32GB"),)
    kind = register.cards[0].type
    assert gpu_annotations.format_vgpus([[], [("GPU-9e0", kind, 3000, 50)]]) == ";GPU-9e0,NVIDIA,3000,50:"


def test_a_node_whose_device_plugin_has_gone_offers_no_cards() -> None:
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4")} note.{names.VGPU_HANDSHAKE}='Deleted_2026.01.02 10:00:00'
        node n2 cpu=8 {vgpus("GPU-b,4,8000,T4")} note.{names.VGPU_HANDSHAKE}='Reported 2026.01.02 10:00:00'
        job a: 2 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=100
    """
    assert cards(made(seen(text), by("vgpu"))) == {"a-0": "n2 GPU-b", "a-1": "n2 GPU-b"}


def test_every_name_of_gpus_may_be_changed() -> None:
    assert {field.alias for field in DeviceNames.model_fields.values()} == names.GPU_NAMES


def test_resources_and_annotations_may_have_other_names() -> None:
    named = {
        names.VGPU_NUMBER: "x.io/gpu",
        names.VGPU_MEMORY: "x.io/gpumem",
        names.VGPU_PERCENTAGE: "x.io/gpumem-percentage",
        names.VGPU_CORES: "x.io/gpucores",
        names.VGPU_REGISTER: "x.io/register",
        names.VGPU_IDS: "x.io/ids",
        names.VGPU_AVOID: "x.io/avoid",
        names.GPU_TYPE_USE: "x.io/type",
    }
    room = "x.io/gpu=8 x.io/gpumem=16000 x.io/gpucores=200"
    text = f"""
        node n1 cpu=8 {room} note.x.io/register='GPU-a,4,8000,T4,true,hami-core:GPU-b,4,8000,T4,true,hami-core:'
        job old: 1 x cpu=1 on=n1 x.io/gpu=1 x.io/gpumem=6000 note.{names.VGPU_IDS}=GPU-b,T4,6000,0:
        job a: 1 x cpu=1 x.io/gpu=1 x.io/gpumem-percentage=50 note.x.io/avoid=GPU-b note.x.io/type=T4
        job b: 1 x cpu=1 x.io/gpu=1 x.io/gpumem=5000
    """
    plan = made(seen(text), by("vgpu", names=named))
    (bind,) = plan.of(Bind)
    assert (bind.pod, bind.annotations["x.io/ids"]) == ("default/a-0", "GPU-a,T4,4000,0:")
    assert bind.annotations[names.VGPU_IDS] == bind.annotations["x.io/ids"]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"volcano.sh/vgpu-memry": "x"}, "unknown argument 'deviceshare.names.volcano.sh/vgpu-memry', did you mean"),
        ({names.VGPU_CORES: names.VGPU_NUMBER}, f"the name {names.VGPU_NUMBER} is that of {names.VGPU_NUMBER} already"),
        ({names.VGPU_PERCENTAGE: "x.io/part"}, "must end with -percentage, not x.io/part"),
        ({names.GPU_INDEX: ""}, "must be a name, not empty"),
    ],
)
def test_names_of_devices_are_checked(named: dict[str, str], message: str) -> None:
    assert message in argument_error("deviceshare", {"deviceshare.names": named})


def test_all_cores_of_a_card_are_exclusive_to_one_pod() -> None:
    words = f"cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=1000"
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4")}
        job a: 1 x {words} {names.VGPU_CORES}=100
        job b: 1 x {words}
    """
    assert cards(made(seen(text), by("vgpu"))) == {"a-0": "n1 GPU-a"}


@pytest.mark.parametrize(
    ("annotation", "answer"),
    [
        (f"note.{names.VGPU_USE}=GPU-b", "n1 GPU-b"),
        (f"note.{names.VGPU_AVOID}=GPU-c,GPU-b", "n1 GPU-a"),
        (f"note.{names.GPU_TYPE_USE}=a100,h100", "n1 GPU-b"),
        (f"note.{names.GPU_TYPE_AVOID}=a100,T4", "n1 GPU-c"),
        (f"note.{names.VGPU_MODE}=hami-core", "n1 GPU-c"),
        (f"note.{names.VGPU_MODE}=mig", ""),
    ],
)
def test_a_pod_can_select_its_cards(annotation: str, answer: str) -> None:
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4", "GPU-b,4,8000,NVIDIA-A100", "GPU-c,4,8000,V100")}
        job a: 1 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=100 {annotation}
    """
    assert cards(made(seen(text), by("vgpu"))) == ({"a-0": answer} if answer else {})


def test_unhealthy_unknown_and_unreadable_cards_are_not_assigned() -> None:
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4,false")}
        node n2 cpu=8 {vgpus("GPU-b,4,8000,T4", mode="mig")}
        node n5 cpu=8 {vgpus("GPU-d,4,8000,T4", mode="mps")}
        node n3 cpu=8 {VGPU} note.{names.VGPU_REGISTER}=GPU-c,many,8000,T4,true
        node n4 cpu=8 {VGPU}
        job a: 1 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=100
    """
    assert Scene(seen(text), by("vgpu")).rejected("a-0") == {
        "n1": SharedGpus.unfit,
        "n2": shared_gpus.UNDIVIDED,
        "n5": shared_gpus.OTHER_MODE,
        "n3": device_kind.UNREADABLE.format(names.VGPU_REGISTER),
        "n4": shared_gpus.NO_CARDS,
    }


def test_pods_of_a_group_can_avoid_each_others_cards() -> None:
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4", "GPU-b,4,8000,T4", "GPU-c,4,8000,T4")}
        job other: 1 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=100 note.{names.VGPU_USE}=GPU-c
        job a min=2: 4 x cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=100 note.{names.VGPU_GROUP_POLICY}=spread
    """
    assert cards(made(seen(text), by("vgpu"))) == {
        "other-0": "n1 GPU-c",
        "a-0": "n1 GPU-c",
        "a-1": "n1 GPU-b",
        "a-2": "n1 GPU-a",
    }


def test_pods_under_an_exclusive_rule_do_not_share_a_card_with_each_other() -> None:
    want = f"cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=100"
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4", "GPU-b,4,8000,T4")}
        job old: 1 x on=n1 {want} label.app=train note.{names.VGPU_IDS}=GPU-b,T4,100,0:
        job a min=1: 2 x {want} label.app=train
        job b: 1 x {want} label.app=serve
    """
    plan = made(seen(text), by("vgpu", GPUExclusiveRules=[{"app": "train"}]))
    assert cards(plan) == {"a-0": "n1 GPU-a", "b-0": "n1 GPU-b"}


@pytest.mark.parametrize(
    ("policy", "first", "scores"),
    [
        ("binpack", "n1 GPU-a", {"n1": 150.0, "n2": 50.0}),
        ("spread", "n1 GPU-b", {"n1": 200.0, "n2": 200.0}),
    ],
)
def test_the_policy_chooses_the_card_and_scores_the_node(policy: str, first: str, scores: dict[str, float]) -> None:
    want = f"cpu=1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=2000"
    text = f"""
        node n1 cpu=8 {vgpus("GPU-a,4,8000,T4", "GPU-b,4,8000,T4")}
        node n2 cpu=8 {vgpus("GPU-c,4,8000,T4", "GPU-d,4,8000,T4")}
        job old: 1 x cpu=1 on=n1 {names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=4000 note.{names.VGPU_IDS}=GPU-a,T4,4000,0:
        job a: 1 x {want}
    """
    plugins = by("vgpu", SchedulePolicy=policy, ScheduleWeight=2)
    assert Scene(seen(text), {"deviceshare": plugins["deviceshare"]}).scores("a-0") == scores
    assert cards(made(seen(text), plugins)) == {"a-0": first}


@pytest.mark.parametrize(
    ("way", "node", "wanted", "locks"),
    [
        ("vgpu", vgpus("GPU-a,4,8000,T4"), f"{names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}=100", ("hamivgpu",)),
        ("memory", f"{MEMORY}=20 {NUMBER}=2", f"{MEMORY}=4", ("gpu",)),
        ("number", f"{MEMORY}=20 {NUMBER}=2", f"{NUMBER}=1", ()),
    ],
)
def test_binds_lock_the_node_for_its_device_plugin(way: str, node: str, wanted: str, locks: tuple[str, ...]) -> None:
    """Those of pods without GPUs do not, and those of whole GPUs do not in Volcano either."""
    text = f"""
        node n1 cpu=8 {node}
        job a: 1 x cpu=1 {wanted}
        job b: 1 x cpu=1
    """
    plan = made(seen(text), by(way, NodeLockEnable=True))
    assert {bind.pod: bind.locks for bind in plan.of(Bind)} == {"default/a-0": locks, "default/b-0": ()}
    assert not any(bind.locks for bind in made(seen(text), by(way)).of(Bind))


# Sessions


def test_a_gang_shares_one_card() -> None:
    text = f"""
        node n1 cpu=8 {MEMORY}=10 {NUMBER}=1
        job a min=3: 3 x cpu=1 {MEMORY}=3
    """
    assert cards(made(seen(text), by("memory"))) == {"a-0": "n1 0", "a-1": "n1 0", "a-2": "n1 0"}


def test_a_gang_that_cannot_start_releases_its_assignments() -> None:
    text = f"""
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
        job a min=3: 3 x cpu=1 {MEMORY}=6
        job b: 2 x cpu=1 {MEMORY}=10
    """
    assert cards(made(seen(text), by("memory"))) == {"b-0": "n1 0", "b-1": "n1 1"}


def test_a_pending_bind_reserves_its_card_until_it_fails() -> None:
    state = State()
    for obj in world(f"node n1 cpu=8 {MEMORY}=20 {NUMBER}=2\njob a: 1 x cpu=1 {MEMORY}=6"):
        state.upsert(obj)
    state.assume(made(state.snapshot(NOW), by("memory")))
    for obj in world(f"job b: 1 x cpu=1 {MEMORY}=6"):
        state.upsert(obj)
    assert cards(made(state.snapshot(NOW), by("memory"))) == {"b-0": "n1 1"}
    state.forget("default/a-0")
    assert sorted(cards(made(state.snapshot(NOW), by("memory"))).values()) == ["n1 0", "n1 1"]


def test_a_card_freed_by_eviction_is_nominated_until_it_is_free() -> None:
    """10 of memory are free on the node, but not on one card: the cheapest way to 8 on one card is to evict one pod."""
    text = f"""
        class high value=10
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
        job low min=1: 1 x cpu=1 on=n1 {MEMORY}=5 note.{names.GPU_INDEX}=0, 1 x cpu=1 on=n1 {MEMORY}=5 note.{names.GPU_INDEX}=1
        job high priority=high: 1 x cpu=1 {MEMORY}=8
    """
    plan = schedule(seen(text), configured(by("memory"), "allocate, preempt"))
    assert not plan.of(Bind)
    assert len(plan.of(Evict)) == 1
    assert [effect.pod for effect in plan.of(Nominate)] == ["default/high-0"]


def test_the_card_of_a_victim_is_not_bound_in_the_same_session() -> None:
    """The card of the victim is not free yet: later pods are not bound to it."""
    text = f"""
        class high value=10
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
        job low min=1: 1 x cpu=1 on=n1 {MEMORY}=5 note.{names.GPU_INDEX}=0, 1 x cpu=1 on=n1 {MEMORY}=5 note.{names.GPU_INDEX}=1
        job a priority=high: 1 x cpu=1 {MEMORY}=8
        job b priority=high: 1 x cpu=1 {MEMORY}=2
    """
    plan = schedule(seen(text), configured(by("memory"), "preempt, allocate"))
    (victim,) = plan.of(Evict)
    free = {"default/low-0": "1", "default/low-1": "0"}[victim.pod]
    assert cards(plan) == {"b-0": f"n1 {free}"}
    assert [effect.pod for effect in plan.of(Nominate)] == ["default/a-0"]


def test_the_card_of_a_terminating_pod_stays_nominated() -> None:
    text = f"""
        node n1 cpu=8 {MEMORY}=20 {NUMBER}=2
        job old: 1 x cpu=1 on=n1 releasing {MEMORY}=6 note.{names.GPU_INDEX}=0
        job else: 1 x cpu=1 on=n1 {MEMORY}=8 note.{names.GPU_INDEX}=1
        job a: 1 x cpu=1 {MEMORY}=10 nominated=n1
        job b: 1 x cpu=1 {MEMORY}=4
    """
    plan = made(seen(text), by("memory"))
    assert cards(plan) == {}
    assert not plan.of(Evict)


@examples(60)
@given(st.data())
def test_no_card_is_overcommitted(data: st.DataObject) -> None:
    """Random nodes and jobs: the assignments in annotations fit every card, in any order of arrival."""
    nodes = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(4, 12)), min_size=1, max_size=3))
    lines = [f"node n{row} cpu=99 {MEMORY}={count * size} {NUMBER}={count}" for row, (count, size) in enumerate(nodes)]
    jobs = data.draw(
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8), st.integers(1, 4)), min_size=1, max_size=5)
    )
    lines += [
        f"job j{row} min={least}: {count} x cpu=1 {MEMORY}={size}" for row, (count, size, least) in enumerate(jobs)
    ]
    policy = data.draw(st.sampled_from(["", "binpack", "spread"]))
    objects = world("\n".join(lines))
    plans = []
    for order in (objects, data.draw(st.permutations(objects))):
        state = State()
        for obj in order:
            state.upsert(obj)
        plans.append(made(state.snapshot(NOW), by("memory", SchedulePolicy=policy, ScheduleWeight=1)))
    assert cards(plans[0]) == cards(plans[1])
    taken: dict[str, int] = {}
    for pod, place in cards(plans[0]).items():
        taken[place] = taken.get(place, 0) + jobs[int(pod.split("-")[0][1:])][1]
    for place, amount in taken.items():
        count, size = nodes[int(place.split()[0][1:])]
        assert int(place.split()[1]) < count
        assert amount <= size


# Arguments


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"deviceshare.GPUSharingEnable": True, "deviceshare.VGPUEnable": True}, "switch on only one of"),
        ({"deviceshare.GPUSharingEnable": True, "deviceshare.GPUNumberEnable": True}, "switch on only one of"),
        ({"deviceshare.SchedulePolicy": "best"}, "input should be '', 'binpack' or 'spread', not 'best'"),
        ({"deviceshare.ScheduleWeigth": 1}, "did you mean 'deviceshare.ScheduleWeight'?"),
        ({"deviceshare.GPUExclusiveRules": [{}]}, "name at least one label"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_sentence(arguments: dict[str, Any], says: str) -> None:
    annotation = argument_error("deviceshare", arguments)
    assert says in annotation
    assert "\n" not in annotation
