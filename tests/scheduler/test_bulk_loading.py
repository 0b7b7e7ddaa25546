"""Bulk loading of pods equals adding them one by one."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.nightly import examples
from tests.scheduler.reference import placement
from tests.scheduler.strategies import worlds
from volcanopy.api import core
from volcanopy.scheduler.cache import bulk_load
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Plan
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy_testing.notation import NOW, config, world

RICH = """
queue q weight=2
node n1 cpu=8 memory=16Gi pods=20 zone=a
node n2 cpu=8 memory=16Gi pods=20 zone=b
"""


_NUMBERS = {"job", "role", "mark", "node", "nominated", "shape"}
"""Columns with row numbers of other tables, which may differ."""


def matching(state: State) -> list[int]:
    """Return for each selector the number of tasks that match it."""
    matched = [state.shapes.all[state.tasks.plain["shape"][row]].matched for row in state.tasks.rows.values()]
    return [sum(number in numbers for numbers in matched) for number in range(len(state.shapes.selectors))]


def columns(state: State) -> dict[str, Any]:
    """Return all columns of tasks and nodes, by name."""
    count_due(state)
    tasks, nodes = state.tasks.plain, state.nodes

    def name(table: Any, row: int) -> str:
        return "" if row == NONE else str(table[row])

    return {
        key: (
            name(state.jobs.keys, tasks["job"][row]),
            name(state.roles.plain["names"], tasks["role"][row]),
            "" if tasks["mark"][row] == NONE else list(state.marks.all)[tasks["mark"][row]],
            name(nodes.keys, tasks["node"][row]),
            name(nodes.keys, tasks["nominated"][row]),
            [tasks[item][row] for item in sorted(set(tasks) - _NUMBERS)],
            sorted(state.shapes.selectors[item].key() for item in state.shapes.all[tasks["shape"][row]].matched),
            state.shapes.all[tasks["shape"][row]].request,
        )
        for key, row in state.tasks.rows.items()
    } | {
        f"node {key}": (
            int(nodes.plain["tasks"][row]),
            sorted(item.pod.metadata.key for item in nodes.plain["assigned_pods"][row] or ()),
        )
        for key, row in nodes.rows.items()
        if nodes.plain["objects"][row] is not None or nodes.plain["tasks"][row]  # else it was only named by a pod
    }


def same(one: State, other: State) -> None:
    snapshots = one.snapshot(NOW), other.snapshot(NOW)  # first: they compare pods with new selectors
    assert columns(one) == columns(other)
    assert placement.canonical(snapshots[0]) == placement.canonical(snapshots[1])


@examples(40)
@given(worlds(), worlds(), st.data())
def test_bulk_loading_equals_adding_pods_each_alone(text: str, later: str, data: st.DataObject) -> None:
    """With any previous state, with repeated pods, and with pending effects of plans; so does building the state again."""
    things = world(text)
    pods = [item for item in things if isinstance(item, core.Pod)]
    again = [item for item in world(later) if isinstance(item, core.Pod)]
    known = data.draw(st.lists(st.sampled_from(pods), unique_by=id)) if pods else []
    states = State(), State()
    for state in states:
        for obj in things:
            if not isinstance(obj, core.Pod):
                state.upsert(obj)
        for pod in known:
            state.upsert(pod)
    snapshot = states[0].snapshot(NOW)
    plan = schedule(snapshot, config("gang, predicates"))
    running = [pod for pod in known if pod.status.phase == "Running"][:2]
    plan = Plan((*plan.of(Bind), *(Evict(pod.metadata.key, "test", "", "") for pod in running)))
    arriving = data.draw(st.permutations([*pods, *again]))
    for state in states:
        state.assume(plan)
    for pod in arriving:
        states[0].upsert(pod)
    with mock.patch.object(bulk_load, "BULK_SIZE", 1):
        states[1].load(arriving)
    same(*states)
    states[0].compact()
    same(*states)
    plans = [schedule(state.snapshot(NOW, "one"), config("gang, predicates, proportion")) for state in states]
    assert list(map(str, plans[0].effects)) == list(map(str, plans[1].effects))


def pod(name: str, **fields: Any) -> core.Pod:
    meta = core.Meta(
        name=name,
        namespace="ns",
        uid=name,
        labels=fields.pop("labels", {}),
        annotations={"scheduling.k8s.io/group-name": "g", **fields.pop("annotations", {})},
    )
    requests: core.Quantities = {"cpu": fields.pop("cpu", "1")}
    container = core.Container(name="main", resources=core.ResourceRequirements(requests=requests))
    status = core.PodStatus(phase="Running" if fields.get("node_name") else "Pending")
    return core.Pod(
        metadata=meta, spec=core.PodSpec(scheduler_name="volcanopy", containers=(container,), **fields), status=status
    )


def test_a_priority_of_any_size_leaves_all_pods_counted() -> None:
    pods = [pod(f"p-{number}", node_name="n1") for number in range(40)]
    pods[7] = pod("p-7", node_name="n1", annotations={"volcanopy.io/task-priority": "9" * 30})
    states = State(), State()
    for state in states:
        for item in world("node n1 cpu=100"):
            state.upsert(item)
    states[0].load(pods)
    for item in pods:
        states[1].upsert(item)
    same(*states)
    snapshot = states[0].snapshot(NOW)
    assert snapshot.nodes.used["cpu"].tolist() == [40_000]
    assert snapshot.tasks.priority.max() == 2**31 - 1


def test_bulk_loading_includes_selectors_devices_and_deadlines() -> None:
    """A selector of the last pod is matched with all pods, and assigned devices are known."""
    away = core.Affinity(
        pod_anti_affinity=core.PodAffinity(
            required=(
                core.PodAffinityTerm(topology_key="zone", label_selector=core.LabelSelector(match_labels={"app": "a"})),
            )
        )
    )
    volume = core.Volume(name="v", persistent_volume_claim=core.ClaimSource(claim_name="c"))
    pods = [
        *(pod(f"p-x-{number}", labels={"app": "ab"[number % 2]}, node_name="n1") for number in range(40)),
        pod("card", node_name="n2", annotations={"volcano.sh/gpu-index": "1"}),
        pod("claims", node_name="n2", volumes=(volume,)),
        pod("limited", active_deadline_seconds=600),
        pod("other", cpu="3", annotations={"volcanopy.io/task-spec": "b", "volcanopy.io/task-priority": "x"}),
        pod("away", labels={"app": "b"}, affinity=away),
    ]
    one, other = State(), State()
    for state in (one, other):
        for obj in world(RICH):
            state.upsert(obj)
    for each in pods:
        one.upsert(each)
    other.load(pods)
    same(one, other)
    assert set(matching(other)) == {20}


def test_pods_with_one_specification_and_different_labels_match_different_selectors() -> None:
    term = core.PodAffinityTerm(topology_key="zone", label_selector=core.LabelSelector(match_labels={"app": "a"}))
    away = core.Affinity(pod_anti_affinity=core.PodAffinity(required=(term,)))
    first = pod("p-x-0", labels={"app": "a"}, node_name="n1")
    others = [replace(pod(f"p-x-{number}", labels={"app": "b"}), spec=first.spec) for number in range(1, 40)]
    state = State()
    for each in [*world(RICH), pod("away", affinity=away)]:
        state.upsert(each)
    state.load([first, *others])
    assert matching(state) == [1]
    state.upsert(replace(others[0], metadata=replace(others[0].metadata, labels={"app": "a"})))
    assert matching(state) == [2]


@pytest.mark.parametrize("differing", ["nothing", "specification", "annotations", "selectors", "sub-groups"])
def test_copies_of_a_pod_equal_adding_pods_each_alone(differing: str) -> None:
    """They share all columns but name and number where nothing looks at their labels."""
    first = pod("p-x-0", labels={"app": "a", "index": "0"}, annotations={"volcanopy.io/task-spec": "x"})
    copies = [
        replace(
            first, metadata=replace(first.metadata, name=f"p-x-{number}", labels={"app": "a", "index": str(number)})
        )
        for number in range(1, 5)
    ]
    if differing == "specification":
        copies[2] = replace(copies[2], spec=pod("p-x-3", cpu="3").spec)
    if differing == "annotations":
        copies[2] = replace(copies[2], metadata=pod("p-x-3", annotations={"volcanopy.io/task-priority": "7"}).metadata)
    term = core.PodAffinityTerm(topology_key="zone", label_selector=core.LabelSelector(match_labels={"index": "2"}))
    away = pod("away", affinity=core.Affinity(pod_anti_affinity=core.PodAffinity(required=(term,))))
    policy = core.SubGroupPolicy(name="s", match_label_keys=("index",), sub_group_size=1)
    group = core.PodGroup(
        metadata=core.Meta(name="g", namespace="ns"),
        spec=core.PodGroupSpec(min_member=5, sub_group_policy=(policy,) if differing == "sub-groups" else ()),
    )
    one, other = State(), State()
    for state in (one, other):
        for obj in [*world(RICH), group, *([away] if differing == "selectors" else [])]:
            state.upsert(obj)
    for each in [first, *copies]:
        one.upsert(each)
    other.insert_copies([first, *copies])
    same(one, other)
    assert one.jobs.amounts["pending"].tolist() == other.jobs.amounts["pending"].tolist()
    assert one.snapshot(NOW).tasks.ordinal.tolist() == other.snapshot(NOW).tasks.ordinal.tolist()
    for state in (one, other):
        state.delete(copies[0])
    same(one, other)


def test_the_last_version_of_a_repeated_pod_counts() -> None:
    first = [pod(f"p-x-{number}") for number in range(40)]
    updated = replace(first[3], spec=replace(first[3].spec, node_name="n1"), status=core.PodStatus(phase="Running"))
    over = replace(first[5], status=core.PodStatus(phase="Succeeded"), spec=replace(first[5].spec, scheduler_name="x"))
    one, other = State(), State()
    for each in [*first, updated, over]:
        one.upsert(each)
    other.load([*first, updated, over])
    same(one, other)
    assert "ns/p-x-5" not in other.tasks.rows
