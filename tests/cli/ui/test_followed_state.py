"""Node usage, decisions and samples are what the changes of objects say."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.cli.ui.decisions import Decisions
from volcanopy.cli.ui.gpu_cards import used_parts
from volcanopy.cli.ui.node_usage import NodeUsage
from volcanopy.cli.ui.samples import Samples

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def pod(
    name: str,
    node: str = "",
    *,
    cpu: str = "1",
    phase: str = "Running",
    nominated: str = "",
    evicted: str = "",
    preemptor: str = "",
) -> core.Pod:
    conditions = (core.Condition(type="DisruptionTarget", status="True", message=evicted),) if evicted else ()
    labels = {names.JOB_NAME: name.partition("-")[0]}
    notes = {names.PREEMPTOR: preemptor} if preemptor else {}
    return core.Pod(
        metadata=core.Meta(name=name, namespace="a", uid=name, labels=labels, annotations=notes),
        spec=core.PodSpec(
            node_name=node,
            containers=(core.Container(resources=core.ResourceRequirements(requests={"cpu": cpu})),),
        ),
        status=core.PodStatus(phase=phase, nominated_node_name=nominated, conditions=conditions),
    )


def test_a_finished_pod_uses_nothing() -> None:
    usage = NodeUsage()
    usage.take(pod("j-0", "n1", cpu="2"))
    assert usage.allocated("n1") == {"cpu": 2000}
    usage.take(pod("j-0", "n1", cpu="2", phase="Succeeded"))
    assert usage.allocated("n1") == {}


def test_the_room_of_a_nominated_pod_is_reserved_but_not_allocated() -> None:
    usage = NodeUsage()
    usage.take(pod("j-0", nominated="n1"))
    assert [(use.job, use.reserved) for use in usage.of("n1")] == [("a/j", True)]
    assert usage.allocated("n1") == {}


@pytest.mark.parametrize("seed", range(20))
def test_usage_after_changes_is_that_of_the_pods_that_are_left(seed: int) -> None:
    rng = random.Random(seed)
    usage, pods = NodeUsage(), dict[str, core.Pod]()
    for _ in range(200):
        name = f"j-{rng.randrange(12)}"
        if rng.random() < 0.3:
            usage.remove(f"a/{name}")
            pods.pop(name, None)
        else:
            phase = rng.choice(["Pending", "Running", "Failed"])
            pods[name] = pod(name, rng.choice(["", "n1", "n2"]), cpu=str(rng.randrange(1, 5)), phase=phase)
            usage.take(pods[name])
    again = NodeUsage()
    for each in pods.values():
        again.take(each)
    for node in ("n1", "n2"):
        assert usage.allocated(node) == again.allocated(node)
        assert sorted(map(str, usage.of(node))) == sorted(map(str, again.of(node)))


def test_pods_of_a_job_that_are_placed_together_are_one_decision() -> None:
    decisions = Decisions()
    for number in range(3):
        decisions.take_pod(pod(f"j-{number}"), pod(f"j-{number}", f"n{number}"), NOW)
    decisions.take_pod(pod("j-3"), pod("j-3", "n1"), NOW + timedelta(seconds=5))
    assert [(each.action, each.job, each.pods, each.nodes) for each in decisions.items] == [
        ("placed", "a/j", 3, ("n0", "n1", "n2")),
        ("placed", "a/j", 1, ("n1",)),
    ]


def test_an_eviction_is_a_decision_once_with_its_message() -> None:
    decisions = Decisions()
    running, evicted = pod("j-0", "n1"), pod("j-0", "n1", evicted="preempted for a/high")
    decisions.take_pod(running, evicted, NOW)
    decisions.take_pod(evicted, evicted, NOW)
    assert [(each.action, each.message) for each in decisions.items] == [("evicted", "preempted for a/high")]


@pytest.mark.parametrize(("placed", "after"), [("high-0", 3.0), ("other-0", None)])
def test_an_eviction_has_paid_when_pods_of_the_preemptor_are_placed(placed: str, after: float | None) -> None:
    decisions = Decisions()
    evicted = pod("j-0", "n1", evicted='preempt: preempted by job "high" in queue "q"', preemptor="a/high")
    decisions.take_pod(pod("j-0", "n1"), evicted, NOW)
    decisions.take_pod(pod(placed), pod(placed, "n1"), NOW + timedelta(seconds=3))
    document = decisions.documents(2)[1]
    assert (document["action"], document["preemptor"], document["paidAfter"]) == ("evicted", "a/high", after)


def test_shared_gpus_show_the_part_that_each_job_uses() -> None:
    def sharing(name: str, cards: str, memory: int = 0) -> core.Pod:
        shown = pod(name, "n1")
        limits: dict[str, str | int | float] = {names.GPU_MEMORY: memory} if memory else {names.GPU_NUMBER: 1}
        container = core.Container(resources=core.ResourceRequirements(limits=limits))
        metadata = replace(shown.metadata, annotations={names.GPU_INDEX: cards})
        return replace(shown, metadata=metadata, spec=replace(shown.spec, containers=(container,)))

    node = core.Node(
        metadata=core.Meta(name="n1", uid="n1"),
        status=core.NodeStatus(allocatable={names.GPU_MEMORY: 32, names.GPU_NUMBER: 4}),
    )
    usage = NodeUsage()
    for each in (sharing("a-0", "0", 2), sharing("b-0", "0", 4), sharing("c-0", "2")):
        usage.take(each)
    assert used_parts(node, usage) == [[("a/a", 0.25), ("a/b", 0.5)], [], [("a/c", 1.0)], []]
    listed = replace(node.metadata, annotations={names.VGPU_REGISTER: "u1,10,16000,A,true,:u2,10,16000,A,true,:"})
    assert used_parts(replace(node, metadata=listed), usage) == [[], []]


def test_a_pod_group_is_admitted_once_and_waits_at_each_new_gate() -> None:
    def group(phase: str, gate: str = "") -> core.PodGroup:
        reason = core.Explanation(gate=gate, message="cpu missing") if gate else None
        meta = core.Meta(name="g", namespace="a", uid="g")
        return core.PodGroup(
            metadata=meta,
            spec=core.PodGroupSpec(queue="q"),
            status=core.PodGroupStatus(phase=phase, explanation=reason),
        )

    decisions, states = Decisions(), [group(""), group("Pending", "overcommit"), group("Inqueue", "nodes")]
    states.append(group("Inqueue", "nodes"))
    for old, new in pairwise(states):
        decisions.take_group(old, new, "a/j", NOW)
    assert [(each.action, each.message) for each in decisions.items] == [
        ("waits", "overcommit: cpu missing"),
        ("admitted", ""),
        ("waits", "nodes: cpu missing"),
    ]


def test_decisions_are_counted_by_minute() -> None:
    decisions = Decisions()
    decisions.take_pod(None, pod("j-0", "n1"), NOW - timedelta(minutes=2, seconds=30))
    decisions.take_pod(None, pod("k-0", "n1"), NOW)
    assert decisions.per_minute(NOW, 4)["placed"] == [0, 1, 0, 1]


def test_samples_keep_the_newest_and_fill_gaps_of_new_queues() -> None:
    def queue(name: str, cpu: str) -> core.Queue:
        return core.Queue(metadata=core.Meta(name=name), status=core.QueueStatus(allocated={"cpu": cpu}))

    samples = Samples(kept=2)
    samples.add([queue("a", "1")], NOW)
    samples.add([queue("a", "2")], NOW)
    samples.add([queue("a", "3"), queue("b", "4")], NOW)
    rows = samples.document("cpu")["queues"]
    assert rows["a"]["allocated"] == [2000, 3000]
    assert rows["b"]["allocated"] == [0, 4000]
