"""Reasons of waiting jobs, which are written once."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given

from tests.nightly import examples
from tests.scheduler.strategies import crowded_worlds, evicting_configs
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.fit_error import Why
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.services.scheduler.state import statuses
from volcanopy_testing.notation import NOW, config, decide, world

DEFAULT = "priority, gang, conformance | overcommit, drf, predicates, proportion, nodeorder, binpack"
BARE = "priority, gang | predicates"


def why(text: str, job: str, plugins: str = BARE, actions: str = "enqueue, allocate, backfill") -> Explain:
    effects: list[Explain] = [
        effect for effect in decide(text, plugins, actions).of(Explain) if effect.job == f"default/{job}"
    ]
    return effects[0]


def test_a_capability_that_a_larger_share_would_not_help_against_comes_before_the_share() -> None:
    """The queue has no fair share: beyond it the first pod can be placed, the second exceeds the capability."""
    explain = why(
        "node n1 cpu=8\nqueue q capability.cpu=4\njob a queue=q: 2 x cpu=3",
        "a",
        "gang | predicates, capacity",
    )
    assert (explain.gate, explain.numbers["fit"]) == ("capability", "1")


def test_amounts_of_a_share_are_requested_allocated_and_fair_share() -> None:
    explain = why(
        """
        node n1 cpu=8
        queue q
        queue r
        job x queue=q: 4 x cpu=1 on=n1
        job y queue=r: 4 x cpu=1 on=n1
        job a queue=q: 1 x cpu=1500m
        job b queue=r: 4 x cpu=1
        """,
        "a",
        DEFAULT,
    )
    assert explain.gate == "share"
    assert explain.amounts["requested"]["cpu"] == "1500m"
    assert (
        explain.amounts["allocated"]["cpu"],
        explain.amounts["limit"]["cpu"],
        explain.amounts["available"]["cpu"],
    ) == (
        "4",
        "4",
        "0",
    )
    assert explain.unblocked_by == 'release of 1.5 cpu in queue "q"'
    assert explain.numbers == {"needed": "1", "fit": "0", "queue": "q", "position": "1"}


def test_amounts_of_nodes_are_those_of_the_nearest_node() -> None:
    explain = why(
        "node n1 cpu=4\nnode n2 cpu=8\njob x: 1 x cpu=3 on=n1, 1 x cpu=6 on=n2\njob a: 1 x cpu=3 memory=1Gi", "a"
    )
    assert explain.amounts == {
        "requested": {"cpu": "3", "memory": "1Gi", "pods": "1"},
        "allocated": {"cpu": "6", "memory": "0", "pods": "1"},
        "available": {"cpu": "2", "memory": "64Gi", "pods": "109"},
        "limit": {"cpu": "8", "memory": "64Gi", "pods": "110"},
    }
    assert explain.unblocked_by == 'release of 1 cpu on node "n2"'
    assert explain.nodes == {"Insufficient cpu": 2}


def test_a_gang_above_the_capability_of_its_queue_has_a_reason() -> None:
    explain = why("node n1 cpu=8\nqueue q capability.cpu=4\njob a queue=q: 3 x cpu=2", "a", DEFAULT)
    assert explain.unblocked_by == 'raising the capability of queue "q" by 2 cpu, or a smaller request'


def test_waiting_jobs_have_a_position_in_the_queue() -> None:
    text = "node n1 cpu=1\nclass high value=9\njob x: 1 x cpu=1 on=n1\njob a: 1 x cpu=1\njob b: 1 x cpu=1\n"
    text += "job c priority=high: 1 x cpu=1"
    assert {job: why(text, job).numbers["position"] for job in "abc"} == {"c": "1", "a": "2", "b": "3"}
    assert why(text, "b").blocked_by == ("job default/a",)


@pytest.mark.parametrize("plugins", [BARE, DEFAULT, "gang | predicates, capacity"])
@pytest.mark.parametrize("cpu", [1, 99])
def test_the_gates_of_required_pods_come_before_shares_and_nodes(plugins: str, cpu: int) -> None:
    explain = why(f"node n1 cpu=8\njob a: 1 x cpu={cpu}, 1 x cpu=1 gated", "a", plugins)
    assert (explain.gate, explain.message) == ("gang", 'pod "a-1" has scheduling gate "test"')


def test_gated_pods_have_no_condition() -> None:
    """The API server sets their condition."""
    explain = why("node n1 cpu=8\njob a: 2 x cpu=1, 1 x cpu=1 gated", "a")
    assert explain.gate == "gang"
    assert set(explain.pods) == {"default/a-0", "default/a-1"}


def test_surplus_pods_of_a_running_job_have_a_condition() -> None:
    text = "node n1 cpu=2\njob a min=1: 2 x cpu=1 on=n1, 2 x cpu=1"
    assert set(why(text, "a").pods) == {"default/a-2", "default/a-3"}
    assert "podgroup a Running Unschedulable" not in str(decide(text, BARE))


def test_pods_without_an_existing_pod_group_have_a_condition() -> None:
    state = State()
    for obj in world("node n1 cpu=2\njob a: 1 x cpu=1"):
        if not isinstance(obj, core.PodGroup):
            state.upsert(obj)
    explain = schedule(state.snapshot(NOW, "test"), config(BARE)).of(Explain)[0]
    assert (explain.job, explain.gate, explain.message) == ("default/a", "gang", 'podgroup "a" not found')


def test_a_nominated_gang_waits_for_termination_of_victims() -> None:
    """The nomination by preempt replaces the reason of allocate."""
    text = "node n1 cpu=2\nclass high value=9\njob old: 1 x cpu=2 on=n1\njob new priority=high: 1 x cpu=2"
    rules = "priority | predicates"
    assert why(text, "new", rules, "enqueue, allocate, preempt").message == ("waiting for 1 evicted pod to terminate")


def test_node_reasons_are_computed_once_per_equal_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    whole = Placement.why_not

    def counting(self: Placement, task: TaskView) -> Why:
        calls.append(task.key)
        return whole(self, task)

    monkeypatch.setattr(Placement, "why_not", counting)
    lines = ["node n1 cpu=4", "node n2 cpu=4"]
    lines += [f"job a{n:02}: 1 x cpu={5 + n % 2}" for n in range(20)]
    lines += [f"job b{n:02}: 3 x cpu=3" for n in range(20)]
    assert len(decide("\n".join(lines), BARE).of(Explain)) == 40
    assert calls == ["default/a00-0", "default/a01-0", "default/b00-2"]


def after(snapshot: Snapshot, plan: Plan, things: list[object]) -> Iterator[object]:
    """Return the world with updated pod group statuses."""
    updates = {effect.pod_group: effect for effect in plan.of(SetPodGroup)}
    for obj in things:
        if isinstance(obj, core.PodGroup) and obj.metadata.key in updates:
            status = statuses.group_status(obj.status, updates[obj.metadata.key], snapshot.session, NOW)
            yield msgspec.structs.replace(obj, status=status)
        else:
            yield obj


@examples(60)
@given(crowded_worlds(), evicting_configs())
def test_a_waiting_job_has_a_reason_that_is_written_once(text: str, rules: SchedulerConfig) -> None:
    things: list[object] = list(world(text))
    state = State()
    for obj in things:
        state.upsert(obj)  # type: ignore[arg-type]
    snapshot = state.snapshot(NOW, "first")
    plan = schedule(snapshot, rules)
    explains = {effect.job: effect for effect in plan.of(Explain)}
    bound = {effect.pod for effect in plan.of(Bind)}
    soon = {
        effect.pod for effect in plan.of(Nominate) if effect.node
    }  # these are told nothing: they wait for room of their own
    waiting = snapshot.tasks.status == Status.PENDING
    for key, job in zip(snapshot.tasks.keys[waiting], snapshot.tasks.job[waiting], strict=True):
        if key not in bound:
            explain = explains[str(snapshot.jobs.keys[job])]
            assert explain.message
            assert explain.unblocked_by, explain
            assert key in explain.pods or key in soon
    if plan.of(Bind, Evict, Nominate) or any(effect.phase == "Inqueue" for effect in plan.of(SetPodGroup)):
        return  # what was placed, evicted or admitted changes what the next cycle decides
    again = State()
    for obj in after(snapshot, plan, things):
        again.upsert(obj)  # type: ignore[arg-type]
    second = schedule(again.snapshot(NOW, "second"), rules)
    assert not second.of(SetPodGroup)
    assert second.of(Explain) == plan.of(Explain)


def test_a_job_with_pods_that_is_not_admitted_has_the_reason_of_one_without() -> None:
    text = "node n1 cpu=4\nqueue q closed\njob a queue=q phase=Pending: 2 x cpu=1"
    effects = decide(text, "gang | predicates, capacity").of(SetPodGroup)
    (effect,) = [effect for effect in effects if effect.pod_group == "default/a"]
    assert effect.phase == "Pending"
    assert effect.condition is not None
    assert effect.condition.reason == "NotAdmitted"


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ("2 x cpu=1", "too little is free in the cluster: cpu requested 1, allocated 4, capacity 4"),
        ("2 x cpu=8", "request exceeds the capacity of the cluster: cpu requested 8, capacity 4"),
        (
            "2 x cpu=1 selector.disk=ssd",
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
        ),
        ("1 x cpu=1 pvc=data", '0/1 nodes are available: 1 persistentvolumeclaim "data" not found'),
    ],
)
def test_a_full_cluster_does_not_hide_why_no_node_would_take_a_job_if_it_was_empty(tasks: str, message: str) -> None:
    world_text = f"node n1 cpu=4\njob running: 1 x cpu=4 on=n1\njob a: {tasks}"
    explain = why(world_text, "a", DEFAULT)
    assert (explain.gate, explain.message) == ("nodes", message)


def test_a_job_that_runs_with_all_its_pods_is_not_called_unschedulable_when_its_queue_is_deleted() -> None:
    world_text = """
    node n1 cpu=4
    job complete queue=gone phase=Running: 2 x cpu=1 on=n1
    job partial queue=gone phase=Running min=1: 1 x cpu=1 on=n1, 1 x cpu=1
    """
    conditions = {effect.pod_group: effect.condition for effect in decide(world_text, BARE).of(SetPodGroup)}
    assert [name for name, condition in conditions.items() if condition is not None] == ["default/partial"]
