"""Pods whose bind or eviction the API server rejects: until the next attempt they hold nothing that others could use."""

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.gates import Gate
from volcanopy.scheduler.cache.bulk_load import BULK_SIZE
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Plan
from volcanopy_testing.notation import NOW, config, world

NODES = "node n1 cpu=8\nnode n2 cpu=8\nnode n3 cpu=8\n"
NEXT = "job next phase=Pending min=3 minres.cpu=24: 3 x cpu=8\n"
PLUGINS = "priority, gang | overcommit, predicates, proportion, nodeorder, reservation"


REJECTION = 'binding to node "n1" failed: denied by policy'


def rejected_pod(pod: core.Pod) -> core.Pod:
    """The pod with the condition that it gets when its bind is rejected."""
    condition = core.Condition(type="PodScheduled", status="False", reason="SchedulerError", message=REJECTION)
    return replace(pod, status=replace(pod.status, conditions=(condition,)))


def state(text: str, *backing_off: str) -> State:
    state = State()
    for obj in world(text):
        state.upsert(obj)
    for pod in backing_off:
        state.forget(f"default/{pod}", backs_off=True)
    return state


def decide(state: State, actions: str = "enqueue, allocate, backfill") -> Plan:
    return schedule(state.snapshot(NOW), config(PLUGINS, actions=actions))


def bound(plan: Plan) -> set[str]:
    return {bind.pod.removeprefix("default/") for bind in plan.of(Bind)}


@pytest.mark.parametrize("rejected", [("refused-0", "refused-1", "refused-2"), ("refused-1",)])
@pytest.mark.parametrize("least", ["", " minres.cpu=24"])
def test_a_gang_with_too_many_rejected_members_leaves_the_cluster_to_the_next(
    rejected: tuple[str, ...], least: str
) -> None:
    plan = decide(state(NODES + f"job refused min=3{least}: 3 x cpu=8\n" + NEXT, *rejected))
    assert bound(plan) == {"next-0", "next-1", "next-2"}


def test_a_job_that_needs_none_of_its_rejected_pods_starts() -> None:
    plan = decide(state(NODES + "job elastic min=2: 3 x cpu=8", "elastic-0"))
    assert bound(plan) == {"elastic-1", "elastic-2"}


def test_the_bound_members_of_a_gang_stay_and_the_rejected_one_holds_nothing() -> None:
    text = "job gang min=3: 2 x cpu=8 role=a on=n1,n2, 1 x cpu=8 role=b\njob small: 1 x cpu=8"
    assert bound(decide(state(NODES + text, "gang-b-0"))) == {"small-0"}


REASONS = [
    ("", "job refused min=1: 1 x cpu=8", ("refused-0",), 'pod "refused-0" waits'),
    ("", "job refused min=3: 3 x cpu=8", ("refused-0",), 'pod "refused-0" waits'),
    ("", "job refused min=3: 3 x cpu=8\njob busy: 3 x cpu=8 on=n1,n2,n3", ("refused-0",), 'pod "refused-0" waits'),
    (
        "queue q capability.cpu=8",
        "job refused queue=q min=2: 2 x cpu=4\njob busy queue=q: 1 x cpu=8 on=n1",
        ("refused-0",),
        'pod "refused-0" waits',
    ),
    (
        "queue q capability.cpu=8",
        "job refused queue=q min=2: 2 x cpu=4\njob busy queue=q: 1 x cpu=8 on=n1",
        ("refused-0", "refused-1"),
        'pods "refused-0", "refused-1" wait',
    ),
]


@pytest.mark.parametrize(("queue", "jobs", "rejected", "start"), REASONS)
@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill"])
def test_the_reason_of_a_job_that_backs_off_is_the_answer_of_the_server(
    queue: str, jobs: str, rejected: tuple[str, ...], start: str, actions: str
) -> None:
    cluster = state(f"{NODES}{queue}\n{jobs}")
    for name in rejected:
        pod = cluster.tasks.plain["pods"][cluster.tasks.rows[f"default/{name}"]]
        cluster.upsert(rejected_pod(pod))
        cluster.forget(f"default/{name}", backs_off=True)
    (explain,) = [effect for effect in decide(cluster, actions).of(Explain) if effect.job == "default/refused"]
    assert explain.message == f"{start} for the next attempt to bind: {REJECTION}"


def test_a_job_that_could_start_without_its_rejected_pods_names_what_it_lacks() -> None:
    cluster = state(NODES + "job refused min=2: 3 x cpu=8\njob busy: 2 x cpu=8 on=n1,n2", "refused-0")
    (explain,) = [effect for effect in decide(cluster).of(Explain) if effect.job == "default/refused"]
    assert explain.gate == Gate.NODES


def test_a_pod_starts_at_its_next_attempt() -> None:
    cluster = state(NODES + "job refused min=1: 1 x cpu=8", "refused-0")
    assert not bound(decide(cluster))
    cluster.forget("default/refused-0")
    assert bound(decide(cluster)) == {"refused-0"}


def test_the_successor_of_a_rejected_pod_does_not_back_off() -> None:
    cluster = state(NODES + "job refused min=1: 1 x cpu=8", "refused-0")
    pod = cluster.tasks.plain["pods"][cluster.tasks.rows["default/refused-0"]]
    cluster.upsert(replace(pod, metadata=replace(pod.metadata, uid="new")))
    assert bound(decide(cluster)) == {"refused-0"}


def test_pods_back_off_in_a_compacted_state_too() -> None:
    count = 2 * BULK_SIZE
    cluster = state(NODES + f"job refused min=1: {count} x cpu=1", "refused-0")
    cluster.compact()
    tasks = cluster.snapshot(NOW).tasks
    assert tasks.keys[tasks.gated].tolist() == ["default/refused-0"]


def test_another_victim_is_chosen_while_the_eviction_of_the_first_is_rejected() -> None:
    text = """
        class high value=1000
        node n1 cpu=4
        node n2 cpu=4
        job low min=0: 2 x cpu=4 on=n1,n2
        job urgent priority=high: 1 x cpu=4
    """
    cluster = state(text)
    (first,) = decide(cluster, "enqueue, allocate, preempt").of(Evict)
    cluster.forget(first.pod, backs_off=True)
    (second,) = decide(cluster, "enqueue, allocate, preempt").of(Evict)
    assert {first.pod, second.pod} == {"default/low-0", "default/low-1"}
