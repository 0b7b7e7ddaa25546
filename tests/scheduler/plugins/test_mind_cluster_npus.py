"""deviceshare: NPUs that MindCluster divides, by templates of AI cores and AI cpus."""

import random
from typing import Any

import pytest

from tests.scheduler.plugins.scene import Scene, made, seen
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.plan import Bind, Plan
from volcanopy_policies.devices.npus import mind_cluster_npus
from volcanopy_policies.devices.npus.chip_templates import TEMPLATES, ChipPart
from volcanopy_testing.notation import NOW, world

CORES = "huawei.com/npu-core"
REAL = "huawei.com/AscendReal"
POD = "cpu=1 label.ring-controller.atlas=ascend-310P"
HIGH = "label.vnpu-level=high"


def divided(**more: Any) -> dict[str, dict[str, Any]]:
    arguments = {"deviceshare.AscendMindClusterVNPUEnable": True}
    return {
        "priority": {},
        "gang": {},
        "predicates": {},
        "deviceshare": arguments | {f"deviceshare.{key}": value for key, value in more.items()},
    }


def chips(number: int, per_chip: int = 8) -> str:
    """Return the keys of a node line with this many chips."""
    labels = f"label.servertype=Ascend310P-{per_chip} label.accelerator=huawei-Ascend310P"
    return f"cpu=64 {CORES}={number * per_chip} {labels}"


def on(text: str, made_as: str = "") -> str:
    """Return the keys of a job line whose pods run with these chips; ``made_as`` is the part that the device plugin made."""
    return f"{POD} note.{CORES}={text}" + (f" note.{REAL}={made_as}" if made_as else "")


def assigned(plan: Plan) -> dict[str, str]:
    """The node, and the chips with the template, of each pod that is bound."""
    return {bind.pod.removeprefix("default/"): f"{bind.node} {bind.annotations[CORES]}" for bind in plan.of(Bind)}


@pytest.mark.parametrize(
    ("request_", "gets"),
    [
        (f"{CORES}=1", "0-vir01"),
        (f"{CORES}=2", "0-vir02_1c"),
        (f"{CORES}=2 {HIGH}", "0-vir02"),
        (f"{CORES}=4", "0-vir04_3c"),
        (f"{CORES}=4 {HIGH}", "0-vir04"),
        (f"{CORES}=4 label.vnpu-dvpp=no {HIGH}", "0-vir04_3c_ndvpp"),
        (f"{CORES}=4 label.vnpu-dvpp=yes", "0-vir04_4c_dvpp"),
        (f"{CORES}=8", "0"),
        (f"{CORES}=16 label.vnpu-dvpp=other", "0,1"),
    ],
)
def test_the_template_follows_from_the_ai_cores_and_the_labels(request_: str, gets: str) -> None:
    plan = made(seen(f"node n1 {chips(2)}\njob a: 1 x {POD} {request_}"), divided())
    (bind,) = plan.of(Bind)
    assert bind.annotations == {CORES: gets, "predicate-time": f"{int(NOW.timestamp())}000000000"}


def test_requests_without_a_template_or_enough_chips_are_infeasible() -> None:
    text = f"""
        node n1 {chips(1)}
        node n2 cpu=8 {CORES}=8
        node n3 {chips(2, per_chip=10)}
        job three: 1 x {POD} {CORES}=3
        job dvpp: 1 x {POD} {CORES}=4 label.vnpu-dvpp=maybe
        job two: 1 x {POD} {CORES}=16
        job other: 1 x cpu=1 {CORES}=3
    """
    scene = Scene(seen(text), {"deviceshare": divided()["deviceshare"]})
    none, no_template = mind_cluster_npus.NO_CHIPS, mind_cluster_npus.NO_TEMPLATE
    assert scene.rejected("three-0") == {"n1": no_template, "n2": none, "n3": no_template}
    assert scene.rejected("dvpp-0") == {"n1": no_template, "n2": none, "n3": no_template}
    assert scene.rejected("two-0") == {"n1": mind_cluster_npus.UNFIT, "n2": none, "n3": no_template}
    assert scene.rejected("other-0") == {}


def test_a_pod_gets_fewer_ai_cpus_where_those_of_its_template_are_not_free() -> None:
    """A chip has 8 AI cores and 7 AI cpus: of two pods with 4 cores, only one gets 4 cpus."""
    text = f"""
        node n1 {chips(1)}
        job old: 1 x on=n1 {on("0-vir04", "Ascend310P-4c-100-0_1")} {CORES}=4
        job a: 1 x {POD} {CORES}=4 {HIGH}
    """
    assert assigned(made(seen(text), divided())) == {"a-0": "n1 0-vir04_3c"}


def test_the_chip_with_the_fewest_free_cores_is_divided_further() -> None:
    text = f"""
        node n1 {chips(3)}
        job old: 1 x on=n1 {on("1-vir02_1c", "Ascend310P-2c.1cpu-100-1_1")} {CORES}=2
        job a: 1 x {POD} {CORES}=4
        job b: 1 x {POD} {CORES}=8
    """
    assert assigned(made(seen(text), divided())) == {"a-0": "n1 1-vir04_3c"}
    assert assigned(made(seen(text.replace("job a", "job b2").replace(f"{CORES}=4", f"{CORES}=8")), divided())) == {
        "b2-0": "n1 0",
        "b-0": "n1 2",
    }


def test_while_the_device_plugin_makes_a_part_only_pods_of_the_same_template_follow() -> None:
    text = f"""
        node n1 {chips(2)}
        job old: 1 x on=n1 {on("0-vir02_1c")} {CORES}=2
        job same: 1 x {POD} {CORES}=2
        job other: 1 x {POD} {CORES}=1
        job whole: 1 x {POD} {CORES}=8
    """
    scene = Scene(seen(text), {"deviceshare": divided()["deviceshare"]})
    assert scene.rejected("other-0") == {"n1": mind_cluster_npus.IN_FLIGHT}
    assert scene.rejected("whole-0") == {"n1": mind_cluster_npus.IN_FLIGHT}
    assert assigned(made(seen(text), divided())) == {"same-0": "n1 1-vir02_1c"}


def test_the_unit_for_images_of_a_chip_has_one_user() -> None:
    text = f"""
        node n1 {chips(1)}
        job old: 1 x on=n1 {on("0-vir01", "Ascend310P-1c-100-0_1")} {CORES}=1
        job uses: 1 x {POD} {CORES}=4 label.vnpu-dvpp=yes
        job without: 1 x {POD} {CORES}=4 label.vnpu-dvpp=no
    """
    scene = Scene(seen(text), {"deviceshare": divided()["deviceshare"]})
    assert scene.rejected("uses-0") == {"n1": mind_cluster_npus.BUSY}
    assert scene.rejected("without-0") == {}


def test_a_chip_in_four_groups_takes_only_pods_with_one_core() -> None:
    old = "\n".join(
        f"job old{group}: 1 x on=n1 {on('0-vir01', f'Ascend310P-1c-10{group}-0_{group}')} {CORES}=1"
        for group in range(4)
    )
    text = f"node n1 {chips(1)}\n{old}\njob two: 1 x {POD} {CORES}=2\njob one: 1 x {POD} {CORES}=1"
    scene = Scene(seen(text), {"deviceshare": divided()["deviceshare"]})
    assert scene.rejected("two-0") == {"n1": mind_cluster_npus.BUSY}
    assert scene.rejected("one-0") == {}


def test_chips_that_the_node_lists_as_unhealthy_are_not_used() -> None:
    listed = "note.huawei.com/Ascend310P=Ascend310P-0,Ascend310P-3 note.huawei.com/Ascend310P-Unhealthy=Ascend310P-0"
    text = f"node n1 {chips(4)} {listed}\njob a: 1 x {POD} {CORES}=8"
    assert assigned(made(seen(text), divided())) == {"a-0": "n1 3"}


def test_the_node_with_the_fewest_free_cores_scores_unless_another_has_the_better_template() -> None:
    text = f"""
        node n1 {chips(1)}
        node n2 {chips(1)}
        node n3 {chips(2)}
        job old: 1 x on=n2 {on("0-vir04", "Ascend310P-4c-100-0_1")} {CORES}=4
        job low: 1 x {POD} {CORES}=2
        job high: 1 x {POD} {CORES}=4 {HIGH}
    """
    scene = Scene(seen(text), {"deviceshare": divided(ScheduleWeight=2)["deviceshare"]})
    assert scene.scores("low-0") == {"n1": 0.0, "n2": 16.0, "n3": 0.0}
    assert scene.scores("high-0") == {"n1": 32.0, "n2": 16.0, "n3": 0.0}


@pytest.mark.parametrize("seed", range(8))
def test_no_chip_is_overcommitted(seed: int) -> None:
    """Neither AI cores nor cpus, its unit for images has one user, and on each node one template is in flight."""
    dice = random.Random(seed)
    nodes = [f"node n{number} {chips(dice.randint(1, 3))}" for number in range(dice.randint(1, 3))]
    jobs = [
        f"job j{number}: 2 x {POD} {CORES}={dice.choice([1, 2, 4, 8])} label.vnpu-dvpp={dice.choice(['yes', 'no', 'null'])} "
        f"label.vnpu-level={dice.choice(['low', 'high'])}"
        for number in range(8)
    ]
    plan = made(seen("\n".join(nodes + jobs)), divided(ScheduleWeight=dice.choice([0, 1])))
    parts: dict[tuple[str, str], list[ChipPart]] = {}
    templates: dict[str, set[str]] = {}
    for place in assigned(plan).values():
        node, annotation = place.split()
        ids, _, template = annotation.partition("-")
        templates.setdefault(node, set()).add(template)
        for chip in ids.split(","):
            parts.setdefault((node, chip), []).append(TEMPLATES[template] if template else ChipPart(8, 7))
    assert parts
    for on_chip in parts.values():
        units = [part.dvpp for part in on_chip]
        assert sum(part.cores for part in on_chip) <= 8
        assert sum(part.cpus for part in on_chip) <= 7
        assert "yes" not in units or (units.count("yes") == 1 and "null" not in units)
    assert all(len(of_node) == 1 for of_node in templates.values())


def test_ai_cores_that_a_node_reports_after_its_labels_are_used() -> None:
    """The device plugin starts after the kubelet; nothing but the amounts of the node changes."""
    before, after = (f"queue q1\nnode n1 {chips(number)}\njob j queue=q1: 1 x {POD} {CORES}=1" for number in (0, 1))
    state = State()
    for obj in world(before):
        state.upsert(obj)
    arguments = {"deviceshare": divided()["deviceshare"]}
    assert Scene(state.snapshot(NOW, "first"), arguments).rejected("j-0") == {"n1": mind_cluster_npus.NO_CHIPS}
    state.upsert(next(obj for obj in world(after) if isinstance(obj, core.Node)))
    assert Scene(state.snapshot(NOW, "second"), arguments).rejected("j-0") == {}
