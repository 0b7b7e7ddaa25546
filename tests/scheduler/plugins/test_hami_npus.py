"""deviceshare: NPUs that HAMi registers are divided by templates or by software."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scheduler.plugins.scene import Scene, argument_error, configured, made, seen
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan
from volcanopy_policies.devices.cards import device_kind
from volcanopy_policies.devices.npus import hami_npus, npu_kinds
from volcanopy_policies.devices.npus.hami_npus import HamiNpus
from volcanopy_policies.devices.npus.npu_kinds import DEFAULT
from volcanopy_testing.notation import NOW, world

NPU = "huawei.com/Ascend310P"
MEMORY, CORES = f"{NPU}-memory", f"{NPU}-core"
BY_SOFTWARE = f"note.{names.NPU_MODE}=hami-core"
WITH_NETWORKS = {
    "commonWord": "Ascend910B3",
    "resourceName": "huawei.com/Ascend910B3",
    "resourceMemoryName": "huawei.com/Ascend910B3-memory",
    "memoryAllocatable": 65536,
    "memoryCapacity": 65536,
    "templates": [{"name": "vir10_3c_32g", "memory": 32768}, {"name": "vir05_1c_16g", "memory": 16384}],
}


def shared(**more: Any) -> dict[str, dict[str, Any]]:
    arguments = {"deviceshare.AscendHAMiVNPUEnable": True}
    return {
        "priority": {},
        "gang": {},
        "predicates": {},
        "deviceshare": arguments | {f"deviceshare.{key}": value for key, value in more.items()},
    }


def npus(*cards: dict[str, Any] | str, word: str = "Ascend310P", slots: int = 7) -> str:
    """Return the keys of a node line that register cards, by id or with other values."""
    default = {"count": slots, "devmem": 21527, "devcore": 8, "type": word, "health": True}
    entries = [default | ({"id": card} if isinstance(card, str) else card) for card in cards]
    return f"huawei.com/{word}={slots * len(cards)} note.hami.io/node-register-{word}='{json.dumps(entries, separators=(',', ':'))}'"


def assigned(plan: Plan, word: str = "Ascend310P") -> dict[str, str]:
    """The node and the cards of each pod that is bound."""
    return {
        bind.pod.removeprefix("default/"): f"{bind.node} {bind.annotations[f'hami.io/{word}-devices-allocated']}"
        for bind in plan.of(Bind)
    }


def held(text: str, word: str = "Ascend310P") -> str:
    """Return the keys of a job line whose pods have these cards."""
    return f"note.hami.io/{word}-devices-allocated={text} note.{names.HAMI_NODE}=n1"


def test_memory_is_rounded_up_to_the_next_template_and_written_for_the_device_plugin() -> None:
    plan = made(
        seen(f"""
            node n1 cpu=8 {npus("dev-0")}
            job a: 1 x cpu=1 {NPU}=1 {MEMORY}=4000
        """),
        shared(),
    )
    (bind,) = plan.of(Bind)
    seconds = str(int(NOW.timestamp()))
    assert bind.annotations == {
        "hami.io/Ascend310P-devices-to-allocate": "dev-0,Ascend310P,6144,0:;",
        "hami.io/Ascend310P-devices-allocated": "dev-0,Ascend310P,6144,0:;",
        "huawei.com/Ascend310P": '[{"UUID":"dev-0","temp":"vir02"}]',
        "predicate-time": seconds,
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": seconds,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": seconds,
    }


@pytest.mark.parametrize(
    ("request_", "gets"),
    [
        (f"{MEMORY}=1", "dev-0,Ascend310P,3072,0:;"),
        (f"{MEMORY}=3073", "dev-0,Ascend310P,6144,0:;"),
        (f"{NPU}=1 {MEMORY}=12289", "dev-0,Ascend310P,21527,0:;"),
        (f"{NPU}=1 {MEMORY}=24576", "dev-0,Ascend310P,21527,0:;"),
        (f"{NPU}=1", "dev-0,Ascend310P,21527,0:;"),
        (f"{NPU}=2", "dev-0,Ascend310P,21527,0:dev-1,Ascend310P,21527,0:;"),
        (f"{NPU}=2 {MEMORY}=20000", "dev-0,Ascend310P,21527,0:dev-1,Ascend310P,21527,0:;"),
    ],
)
def test_a_container_gets_a_template_or_whole_cards(request_: str, gets: str) -> None:
    text = f"node n1 cpu=8 {npus('dev-0', 'dev-1')}\njob a: 1 x cpu=1 {request_}"
    assert assigned(made(seen(text), shared())) == {"a-0": f"n1 {gets}"}


def test_cards_that_run_out_of_memory_or_parts_are_not_used() -> None:
    text = f"""
        node n1 cpu=8 {npus("dev-0", slots=2)}
        node n2 cpu=8 {npus("dev-1")}
        node n3 cpu=8
        node n4 cpu=8 {npus({"id": "dev-2", "health": False})}
        node n5 cpu=8 {NPU}=7 note.hami.io/node-register-Ascend310P=[broken
        job small: 1 x on=n1 {NPU}=1 {MEMORY}=3072 {held("dev-0,Ascend310P,3072,0:;")}
        job other: 1 x on=n1 {NPU}=1 {MEMORY}=3072 {held("dev-0,Ascend310P,3072,0:;")}
        job large: 1 x on=n2 {NPU}=1 {held("dev-1,Ascend310P,21527,0:;")}
        job a: 1 x cpu=1 {MEMORY}=3072
        job b: 1 x cpu=1 {NPU}=1 {MEMORY}=24577
        job c: 1 x cpu=1 {NPU}=2 {MEMORY}=3072
    """
    scene = Scene(seen(text), {"deviceshare": shared()["deviceshare"]})
    always = {
        "n3": hami_npus.NO_NPUS,
        "n4": HamiNpus.unfit,
        "n5": device_kind.UNREADABLE.format("hami.io/node-register-Ascend310P"),
    }
    assert scene.rejected("a-0") == {"n1": HamiNpus.busy, "n2": HamiNpus.busy} | always
    assert scene.rejected("b-0") == {"n1": HamiNpus.unfit, "n2": HamiNpus.unfit} | always
    assert scene.rejected("c-0") == dict.fromkeys(["n1", "n2", "n3", "n4", "n5"], hami_npus.PARTS_OF_SEVERAL)


def test_a_pod_whose_cards_are_divided_by_software_gets_the_memory_and_cores_that_it_requests() -> None:
    text = f"""
        node n1 cpu=8 {npus("dev-0")} note.{names.NPU_CORE_MODE}=true
        node n2 cpu=8 {npus("dev-1")}
        job a: 1 x cpu=1 {NPU}=1 {MEMORY}=4096 {CORES}=60 {BY_SOFTWARE}
        job b: 1 x cpu=1 {NPU}=1 {MEMORY}=4096 {CORES}=50 {BY_SOFTWARE}
    """
    plan = made(seen(text), shared())
    assert assigned(plan) == {"a-0": "n1 dev-0,Ascend310P,4096,60:;"}
    (bind,) = plan.of(Bind)
    assert bind.annotations["huawei.com/Ascend310P"] == '[{"UUID":"dev-0","memory":4096,"core":60}]'
    scene = Scene(seen(text), shared())
    scene.place("a-0", "n1")
    assert scene.rejected("b-0") == {"n1": HamiNpus.busy, "n2": hami_npus.BY_TEMPLATE}


def test_all_cores_of_a_card_divided_by_software_are_exclusive() -> None:
    text = f"""
        node n1 cpu=8 {npus("dev-0")}
        job a: 1 x cpu=1 {MEMORY}=1000 {CORES}=100 {BY_SOFTWARE}
        job b: 1 x cpu=1 {MEMORY}=1000 {BY_SOFTWARE}
    """
    kinds = {"hamiVnpuCore": True, "configs": DEFAULT.model_dump(by_alias=True)["configs"]}
    assert assigned(made(seen(text), shared(vnpus=kinds))) == {"a-0": "n1 dev-0,Ascend310P,1000,100:;"}


def with_two_containers(pod: core.Pod) -> core.Pod:
    (container,) = pod.spec.containers
    return replace(pod, spec=replace(pod.spec, containers=(container, replace(container, name="other"))))


def test_containers_of_a_pod_get_different_cards() -> None:
    text = f"""
        node n1 cpu=8 {npus("dev-0", "dev-1")}
        job a: 1 x cpu=1 {MEMORY}=3072
    """
    state = State()
    for obj in world(text):
        state.upsert(with_two_containers(obj) if isinstance(obj, core.Pod) else obj)
    plan = made(state.snapshot(NOW), shared())
    assert assigned(plan) == {"a-0": "n1 dev-0,Ascend310P,3072,0:;dev-1,Ascend310P,3072,0:;"}


@pytest.mark.parametrize(
    ("policy", "card", "scores"),
    [
        ("binpack", "dev-0", {"n1": 86.0, "n2": 28.0}),
        ("spread", "dev-1", {"n1": 200.0, "n2": 200.0}),
        ("", "dev-0", {"n1": 0.0, "n2": 0.0}),
    ],
)
def test_the_policy_selects_the_card_and_scores_the_node(policy: str, card: str, scores: dict[str, float]) -> None:
    text = f"""
        node n1 cpu=8 {npus("dev-0", "dev-1")}
        node n2 cpu=8 {npus("dev-2", "dev-3")}
        job old: 1 x cpu=1 on=n1 {MEMORY}=6144 {held("dev-0,Ascend310P,6144,0:;")}
        job a: 1 x cpu=1 {MEMORY}=3072
    """
    plugins = shared(SchedulePolicy=policy, ScheduleWeight=2)
    assert Scene(seen(text), {"deviceshare": plugins["deviceshare"]}).scores("a-0") == scores
    assert assigned(made(seen(text), plugins)) == {"a-0": f"n1 {card},Ascend310P,3072,0:;"}


def test_cards_of_a_pod_are_in_the_network_with_most_free_ones() -> None:
    def card(number: int, network: int) -> dict[str, Any]:
        return {"id": f"dev-{number}", "devmem": 65536, "custominfo": {"NetworkID": network}}

    word = "Ascend910B3"
    text = f"""
        node n1 cpu=8 {npus(card(0, 1), card(1, 1), card(2, 2), card(3, 2), word=word)}
        node n2 cpu=8 {npus(card(4, 1), card(5, 2), word=word)}
        job old: 1 x cpu=1 on=n1 huawei.com/{word}=1 {held(f"dev-0,{word},65536,0:;", word)}
        job a: 1 x cpu=1 huawei.com/{word}=2
    """
    plugins = shared(vnpus=[WITH_NETWORKS], ScheduleWeight=1)
    assert Scene(seen(text), {"deviceshare": plugins["deviceshare"]}).scores("a-0") == {"n1": 10.0, "n2": 5.0}
    assert assigned(made(seen(text), plugins), word) == {"a-0": f"n1 dev-2,{word},65536,0:dev-3,{word},65536,0:;"}


def test_a_card_is_taken_in_later_cycles_by_the_pods_whose_annotations_have_it() -> None:
    text = f"""
        node n1 cpu=8 {npus("dev-0", "dev-1")}
        job old: 1 x cpu=1 on=n1 {NPU}=1 {held("dev-0,Ascend310P,21527,0:;")}
        job a: 1 x cpu=1 {MEMORY}=3072
    """
    assert assigned(made(seen(text), shared())) == {"a-0": "n1 dev-1,Ascend310P,3072,0:;"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"resourceName": "example.com/npu"}, "must begin with huawei.com/Ascend"),
        ({"resourceMemoryName": "huawei.com/Ascend910B3-mem"}, "huawei.com/Ascend910B3-mem must end with -memory"),
        ({"memoryAllocatable": 0}, "input should be greater than 0"),
        ({"memoryAlocatable": 1}, "did you mean 'memoryAllocatable'?"),
    ],
)
def test_kinds_are_checked(change: dict[str, Any], says: str) -> None:
    assert says in argument_error("deviceshare", {"deviceshare.vnpus": [WITH_NETWORKS | change]})
    twice = argument_error("deviceshare", {"deviceshare.vnpus": [WITH_NETWORKS, WITH_NETWORKS]})
    assert "the commonWord Ascend910B3 is there twice" in twice


def test_a_bind_locks_the_node_for_the_device_plugin_of_the_npus_if_nodes_are_locked() -> None:
    text = f"""
        node n1 cpu=8 {npus("dev-0")}
        job a: 1 x cpu=1 {NPU}=1
    """
    assert [bind.locks for bind in made(seen(text), shared(NodeLockEnable=True)).of(Bind)] == [("hami.io/mutex.lock",)]
    assert [bind.locks for bind in made(seen(text), shared()).of(Bind)] == [()]


def test_a_card_freed_by_eviction_is_nominated_until_it_is_free() -> None:
    text = f"""
        class high value=10
        node n1 cpu=8 {npus("dev-0", "dev-1")}
        job low min=1: 1 x on=n1 {NPU}=1 {held("dev-0,Ascend310P,21527,0:;")}, 1 x on=n1 {NPU}=1 {held("dev-1,Ascend310P,21527,0:;")}
        job high priority=high: 1 x cpu=1 {MEMORY}=3072
    """
    plan = schedule(seen(text), configured(shared(), "allocate, preempt"))
    assert (len(plan.of(Bind)), len(plan.of(Evict))) == (0, 1)
    assert [effect.pod for effect in plan.of(Nominate)] == ["default/high-0"]


def test_keys_that_the_device_plugin_reads_change_nothing() -> None:
    (kind,) = npu_kinds.DEFAULT.model_dump(by_alias=True)["configs"]
    more = dict.fromkeys(npu_kinds.KEYS_WITHOUT_EFFECT, 1)
    templates = [{**template, **more} for template in kind["templates"]]
    assert npu_kinds.NpuKinds.model_validate([{**kind, **more, "templates": templates}]) == npu_kinds.DEFAULT
