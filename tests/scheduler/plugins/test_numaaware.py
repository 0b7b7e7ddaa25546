"""numa-aware: guaranteed pods are placed where enough exclusive cpus are free on few NUMA nodes."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scheduler.plugins.scene import Scene, argument_error, configured, made, seen
from volcanopy.api import core, names, topology_read
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan
from volcanopy.scheduler.policies.nodes import numaaware
from volcanopy_testing.notation import NOW, world

NOTE = f"note.{names.NUMA_TOPOLOGY_POLICY}"
SINGLE = f"{NOTE}=single-numa-node guaranteed memory=1Gi"
PLUGINS: dict[str, dict[str, Any]] = {"gang": {}, "predicates": {}, "numa-aware": {}}


def cpus(plan: Plan) -> dict[str, tuple[str, str]]:
    """The node and the cpus that each pod is bound to."""
    result = {}
    for bind in plan.of(Bind):
        annotation = json.loads(bind.annotations.get(names.TOPOLOGY_DECISION, '{"cpus":{"main":""}}'))
        result[bind.pod.removeprefix("default/")] = (bind.node, annotation["cpus"]["main"])
    return result


def rejected(text: str, task: str = "a-0") -> dict[str, str]:
    return Scene(seen(text), {"numa-aware": {}}).rejected(task)


def test_a_pod_is_placed_where_it_fits_one_numa_node() -> None:
    plan = made(
        seen(f"""
            node n1 cpu=8
            numa n1 cpus=2x4 policy=single-numa-node free=0-2,4-6
            node n2 cpu=8
            numa n2 cpus=2x4 policy=single-numa-node
            job a: 1 x cpu=4 {SINGLE}
        """),
        PLUGINS,
    )
    assert cpus(plan) == {"a-0": ("n2", "0-3")}


@pytest.mark.parametrize(
    ("policy", "free", "answer"),
    [
        ("best-effort", "0-2,4-6", ""),
        ("restricted", "0-2,4-6", numaaware.BUSY),
        ("single-numa-node", "0-2,4-6", numaaware.BUSY),
        ("restricted", "0-3,5", ""),
        ("single-numa-node", "0-3,5", ""),
        ("best-effort", "0-2", numaaware.BUSY),
    ],
)
def test_each_policy_admits_what_the_kubelet_would_admit(policy: str, free: str, answer: str) -> None:
    text = f"""
        node n1 cpu=8
        numa n1 cpus=2x4 policy={policy} free={free}
        job a: 1 x cpu=4 memory=1Gi guaranteed {NOTE}={policy}
    """
    assert rejected(text) == ({"n1": answer} if answer else {})


def test_more_cpus_than_one_numa_node_has_fit_with_restricted_but_never_with_single() -> None:
    for policy, answer in (("restricted", {}), ("single-numa-node", {"n1": numaaware.TOO_SMALL})):
        text = f"""
            node n1 cpu=8
            numa n1 cpus=2x4 policy={policy}
            job a: 1 x cpu=6 memory=1Gi guaranteed {NOTE}={policy}
        """
        assert rejected(text) == answer


@pytest.mark.parametrize(
    ("report", "answer"),
    [
        ("", numaaware.UNREPORTED),
        ("numa n1 cpus=2x4 policy=single-numa-node manager=none", numaaware.NOT_STATIC),
        ("numa n1 cpus=2x4 policy=restricted", numaaware.OTHER_POLICY),
        ("numa n1 cpus=2x4", numaaware.OTHER_POLICY),
    ],
)
def test_a_requested_policy_requires_a_node_with_it(report: str, answer: str) -> None:
    text = f"""
        node n0 cpu=8
        numa n0 cpus=2x4 policy=single-numa-node
        node n1 cpu=8
        {report}
        job a: 1 x cpu=4 {SINGLE}
    """
    assert rejected(text) == {"n1": answer}


def test_a_requested_policy_is_unschedulable_without_reports() -> None:
    assert rejected(f"node n1 cpu=8\njob a: 1 x cpu=4 {SINGLE}") == {"n1": numaaware.UNREPORTED}
    assert rejected("node n1 cpu=8\njob a: 1 x cpu=4 memory=1Gi guaranteed") == {}


def test_the_node_policy_also_rejects_pods_that_request_none() -> None:
    text = """
        node n1 cpu=8
        numa n1 cpus=2x4 policy=single-numa-node free=0-2,4-6
        node n2 cpu=8
        node n3 cpu=8
        numa n3 cpus=2x4 free=0-2,4-6
        job a: 1 x cpu=4 memory=1Gi guaranteed
    """
    assert rejected(text) == {"n1": numaaware.BUSY}


@pytest.mark.parametrize("task", ["cpu=4", "cpu=4 memory=1Gi", "cpu=3500m memory=1Gi guaranteed"])
def test_pods_without_exclusive_cpus_fit_any_node(task: str) -> None:
    text = f"""
        node n1 cpu=8
        numa n1 cpus=2x4 policy=single-numa-node free=0
        job a: 1 x {task}
    """
    assert rejected(text) == {}


def test_a_fraction_of_a_cpu_needs_no_alignment_but_the_policy() -> None:
    text = f"""
        node n1 cpu=8
        numa n1 cpus=2x4 policy=single-numa-node free=0
        node n2 cpu=8
        numa n2 cpus=2x4 policy=restricted
        job a: 1 x cpu=1500m {SINGLE}
    """
    assert rejected(text) == {"n2": numaaware.OTHER_POLICY}


def test_reserved_cpus_are_not_assigned() -> None:
    text = f"""
        node n1 cpu=8
        numa n1 cpus=2x4 policy=single-numa-node reserved=1500m free=0-7
        job a: 1 x cpu=4 {SINGLE}
        job b: 1 x cpu=1 {SINGLE}
    """
    assert cpus(made(seen(text), PLUGINS)) == {"a-0": ("n1", "4-7"), "b-0": ("n1", "2")}


def test_tasks_of_a_session_do_not_take_the_same_cpus() -> None:
    text = f"""
        node n1 cpu=8
        numa n1 cpus=2x4 policy=single-numa-node
        job a: 2 x cpu=3 {SINGLE}
        job b: 1 x cpu=1 {SINGLE}
        job c: 1 x cpu=1 {SINGLE}
        job d: 1 x cpu=1 {SINGLE}
    """
    result = cpus(made(seen(text), PLUGINS))
    assert sorted(result) == ["a-0", "a-1", "b-0", "c-0"]
    taken = [cpu for _, item in result.values() for cpu in list_of(item)]
    assert sorted(taken) == list(range(8))


def list_of(annotation: str) -> list[int]:
    return [
        cpu for part in annotation.split(",") for cpu in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
    ]


def test_a_gang_that_cannot_start_releases_its_assignments() -> None:
    """Two of three members of gang a find cpus; it is allocated nothing, and b gets them."""
    text = f"""
        node n1 cpu=16
        numa n1 cpus=2x4 policy=single-numa-node
        job a min=3: 3 x cpu=3 {SINGLE}
        job b: 2 x cpu=4 {SINGLE}
    """
    assert cpus(made(seen(text), PLUGINS)) == {"b-0": ("n1", "0-3"), "b-1": ("n1", "4-7")}


def test_fewer_numa_nodes_score_better() -> None:
    text = f"""
        node n1 cpu=8
        numa n1 cpus=4x2 policy=best-effort
        node n2 cpu=8
        numa n2 cpus=2x4 policy=best-effort
        node n3 cpu=8
        numa n3 cpus=2x4 policy=best-effort free=0-1,4-5
        job a: 1 x cpu=4 memory=1Gi guaranteed {NOTE}=best-effort
    """
    scene = Scene(seen(text), {"numa-aware": {"weight": 2}})
    assert scene.scores("a-0") == {"n1": 100.0, "n2": 150.0, "n3": 100.0}


def with_note(pod: core.Pod, what: str) -> core.Pod:
    notes = {**pod.metadata.annotations, names.TOPOLOGY_DECISION: what}
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))


def state_with_assignment(pod: str, what: str, report: topology_read.PodAllocation | None = None) -> State:
    """Return a state in which a running pod has assigned cpus, optionally with a report of the node agent."""
    state = State()
    text = f"""
        node n1 cpu=8
        numa n1 cpus=2x4 policy=single-numa-node
        job old: 1 x cpu=4 on=n1 guaranteed memory=1Gi
        job a: 1 x cpu=4 {SINGLE}
    """
    for obj in world(text):
        match obj:
            case core.Pod() if obj.metadata.name == pod:
                state.upsert(with_note(obj, what))
            case topology_read.NumaTopology() if report is not None:
                state.upsert(replace(obj, spec=replace(obj.spec, pod_allocations=(report,))))
            case _:
                state.upsert(obj)
    return state


def test_assigned_cpus_count_until_the_node_reports_them() -> None:
    state = state_with_assignment("old-0", '{"cpus":{"main":"0-3"}}')
    assert cpus(made(state.snapshot(NOW), PLUGINS)) == {"a-0": ("n1", "4-7")}


def test_the_report_of_the_node_overrides_the_annotation() -> None:
    allocation = topology_read.ContainerAllocation(name="main", allocations={"cpu": "4-7"})
    report = topology_read.PodAllocation(uid="uid-default-old-0", container_allocations=(allocation,))
    state = state_with_assignment("old-0", '{"cpus":{"main":"0-3"}}', report)
    assert cpus(made(state.snapshot(NOW), PLUGINS)) == {"a-0": ("n1", "0-3")}


@pytest.mark.parametrize("what", ["", "{", "[]", '{"cpus": 3}', '{"cpus": {"main": "x"}}'])
def test_an_unreadable_annotation_uses_no_cpus(what: str) -> None:
    assert cpus(made(state_with_assignment("old-0", what).snapshot(NOW), PLUGINS)) == {"a-0": ("n1", "0-3")}


def test_a_pending_bind_reserves_its_cpus() -> None:
    state = State()
    text = f"""
        node n1 cpu=8
        numa n1 cpus=2x4 policy=single-numa-node
        job a: 1 x cpu=4 {SINGLE}
    """
    for obj in world(text):
        state.upsert(obj)
    plan = made(state.snapshot(NOW), PLUGINS)
    assert cpus(plan) == {"a-0": ("n1", "0-3")}
    state.assume(plan)
    for obj in world(f"job b: 1 x cpu=4 {SINGLE}"):
        state.upsert(obj)
    assert cpus(made(state.snapshot(NOW), PLUGINS)) == {"b-0": ("n1", "4-7")}
    state.forget("default/a-0")
    again = cpus(made(state.snapshot(NOW), PLUGINS))
    assert sorted(again.values()) == [("n1", "0-3"), ("n1", "4-7")]


def test_cpus_of_a_victim_are_nominated_until_it_terminates() -> None:
    text = f"""
        class high value=10
        node n1 cpu=16
        numa n1 cpus=2x4 policy=single-numa-node
        job low min=1: 2 x cpu=3 on=n1 guaranteed memory=1Gi
        job high priority=high: 1 x cpu=4 {SINGLE}
    """
    state = State()
    spots = {"low-0": "0-2", "low-1": "4-6"}
    for obj in world(text):
        if isinstance(obj, core.Pod) and obj.metadata.name in spots:
            state.upsert(with_note(obj, json.dumps({"cpus": {"main": spots[obj.metadata.name]}})))
        else:
            state.upsert(obj)
    config = configured({"priority": {}, "gang": {}, "predicates": {}, "numa-aware": {}}, "allocate, preempt")
    plan = schedule(state.snapshot(NOW), config)
    assert not plan.of(Bind)
    assert [effect.pod for effect in plan.of(Evict)] == ["default/low-1"]
    assert [effect.node for effect in plan.of(Nominate)] == ["n1"]


def test_a_terminating_pods_cpus_are_nominated_not_bound() -> None:
    text = f"""
        node n1 cpu=16
        numa n1 cpus=1x4 policy=single-numa-node
        job old: 1 x cpu=4 on=n1 releasing guaranteed memory=1Gi note.{names.TOPOLOGY_DECISION}='{{"cpus":{{"main":"0-3"}}}}'
        job a: 1 x cpu=4 {SINGLE}
    """
    assert Scene(seen(text), {"numa-aware": {}}).rejected("a-0") == {"n1": numaaware.BUSY}
    plan = made(seen(text), PLUGINS)
    assert not plan.of(Bind)


def test_an_invalid_weight_is_rejected() -> None:
    assert argument_error("numa-aware", {"weight": -1}) == "weight: input should be greater than or equal to 0, not -1"
