import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.nightly import examples
from volcanopy.api import core, names
from volcanopy.api.container_states import ContainerStatus
from volcanopy.kube.cache.followed_kinds import slim_pod
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.scheduler.model.plan import Bind, GroupCondition, Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.model.task_status import Status
from volcanopy.services.scheduler.state.notifications import ChangeSignal
from volcanopy.services.scheduler.state.store import Store
from volcanopy_testing.notation import world

NOW = datetime(2031, 1, 1, tzinfo=UTC)
WORLD = """
    node n1 cpu=4
    node n2 cpu=4
    job  a  min=2: 2 x cpu=1
"""


def added(*things: Any) -> list[Change[Any]]:
    return [Change(ChangeType.ADDED, obj) for obj in things]


def filled(text: str = WORLD) -> Store:
    store = Store(clock=lambda: 5.0)
    store.take(added(*world(text)))
    store.changed.clear()
    return store


def versioned(obj: Any, version: int, **status: Any) -> Any:
    meta = replace(obj.metadata, resource_version=str(version))
    return replace(obj, metadata=meta, status=replace(obj.status, **status))


def status_of(store: Store, pod: str) -> tuple[Status, str]:
    snapshot = store.snapshot(NOW)
    row = snapshot.task_rows[pod]
    node = int(snapshot.tasks.node[row])
    return Status(snapshot.tasks.status[row]), snapshot.nodes.names[node] if node >= 0 else ""


def phase_of(store: Store, group: str) -> str:
    snapshot = store.snapshot(NOW)
    return str(snapshot.jobs.phase[list(snapshot.jobs.keys).index(group)])


class Counting:
    """A clock that goes on by one with each look."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        self.at += 1.0
        return self.at


def test_the_trigger_keeps_the_first_unprocessed_change() -> None:
    store = Store(clock=Counting())
    node, *_ = world("node n1 cpu=4")[1:]
    store.take(added(node))
    assert store.changed.since == 1.0
    store.take([Change(ChangeType.DELETED, node)])
    assert store.changed.since == 1.0
    store.changed.clear()
    assert store.changed.since is None


def test_irrelevant_changes_do_not_trigger_a_cycle() -> None:
    store = filled()
    pod = store.pods["default/a-0"]
    condition = core.Condition(type="PodScheduled", status="False", message="no room")
    group = store.groups["default/a"]
    store.take([Change(ChangeType.MODIFIED, versioned(pod, 7, conditions=(condition,)))])
    store.take([Change(ChangeType.MODIFIED, versioned(group, 7, running=1))])
    assert store.changed.since is None
    assert store.pods["default/a-0"].status.conditions == (condition,)
    store.take([Change(ChangeType.MODIFIED, versioned(pod, 8, phase="Running"))])
    assert store.changed.since == 5.0


def test_a_pending_pod_of_another_scheduler_is_not_stored() -> None:
    store = filled()
    store.take(added(*world("pod stranger cpu=1")[1:]))
    assert "default/stranger" not in store.pods
    assert store.changed.since is None


def test_a_pod_of_another_scheduler_counts_once_it_has_a_node() -> None:
    store = filled()
    store.take(added(*world("pod stranger cpu=3 node=n1")[1:]))
    snapshot = store.snapshot(NOW)
    assert snapshot.nodes.used["cpu"].tolist() == [3000, 0]
    assert store.changed.since is not None


def test_an_assumed_bind_counts_until_it_is_reverted() -> None:
    store = filled()
    store.assume(Plan((Bind("default/a-0", "n2", "default/a"),)), NOW)
    assert status_of(store, "default/a-0") == (Status.BINDING, "n2")
    assert not store.waits("default/a-0")
    store.forget("default/a-0", store.pods["default/a-0"].metadata.uid)
    assert status_of(store, "default/a-0") == (Status.PENDING, "")
    assert store.changed.since == 5.0


def test_a_group_that_loses_its_admission_is_considered_in_the_next_cycle() -> None:
    """No change from the server follows: the pods are created after the next admission."""
    store = filled()
    store.assume(Plan((SetPodGroup("default/a", "Pending"),)), NOW)
    assert store.changed.minor_since == 5.0
    store.changed.clear()
    store.assume(
        Plan((SetPodGroup("default/a", "Pending", GroupCondition("Unschedulable", "NotAdmitted", "full")),)), NOW
    )
    assert store.changed.minor_since is None


@pytest.mark.parametrize(("admitted", "awaits"), [(None, False), (NOW, True)])
def test_a_controller_awaits_the_admission_of_a_group_whose_pods_were_lost(
    admitted: datetime | None, awaits: bool
) -> None:
    """Pods that were created with their group may not be observed yet at its first admission."""
    (group,) = (item for item in world(WORLD) if isinstance(item, core.PodGroup))
    meta = replace(group.metadata, annotations={names.PODS_CREATED: "true"})
    store = filled("node n1 cpu=4")
    store.take(added(replace(group, metadata=meta, status=replace(group.status, admitted_at=admitted))))
    assert store.awaits_admission("default/a") == awaits


def test_pods_of_an_incomplete_gang_are_a_minor_change_until_it_is_complete() -> None:
    gang = world("job  a  min=3: 3 x cpu=1")
    pods = [item for item in gang if isinstance(item, core.Pod)]
    store = filled("node n1 cpu=4")
    store.take(added(*(item for item in gang if item not in pods)))
    store.changed.clear()
    store.take(added(*pods[:2]))
    assert (store.changed.since, store.changed.minor_since) == (None, 5.0)
    store.take(added(pods[2]))
    assert store.changed.since == 5.0


@pytest.mark.parametrize(
    ("node", "phase", "minor"), [("n2", "Pending", True), ("n1", "Pending", False), ("n2", "Running", False)]
)
def test_an_assumed_bind_that_is_observed_and_nothing_else_is_a_minor_change(
    node: str, phase: str, minor: bool
) -> None:
    store = filled()
    store.assume(Plan((Bind("default/a-0", "n2", "default/a"),)), NOW)
    pod = store.pods["default/a-0"]
    condition = core.Condition(type="PodScheduled", status="True")
    seen = versioned(pod, 7, phase=phase, conditions=(condition,))
    store.take([Change(ChangeType.MODIFIED, replace(seen, spec=replace(seen.spec, node_name=node)), pod)])
    assert (store.changed.since is None, store.changed.minor_since is not None) == (minor, minor)


async def test_a_minor_change_waits_for_others_and_for_no_longer_than_the_limit() -> None:
    signal, loop = ChangeSignal(), asyncio.get_running_loop()
    signal.set(minor=True)
    loop.call_soon(signal.set)
    await signal.wait(limit=3600.0)
    signal.clear()
    signal.set(minor=True)
    await signal.wait(limit=0.001)
    assert (signal.since, signal.minor_since is None) == (None, False)


def test_a_failed_bind_of_an_earlier_pod_does_not_affect_its_successor() -> None:
    """a-0 was deleted and made anew while its bind was on the way; the new one is being bound."""
    store = filled()
    old = store.pods["default/a-0"]
    store.assume(Plan((Bind("default/a-0", "n1", "default/a"),)), NOW)
    new = replace(old, metadata=replace(old.metadata, uid="new"))
    store.take([Change(ChangeType.DELETED, old), Change(ChangeType.ADDED, new)])
    store.assume(Plan((Bind("default/a-0", "n2", "default/a"),)), NOW)
    store.forget("default/a-0", old.metadata.uid)
    assert status_of(store, "default/a-0") == (Status.BINDING, "n2")


def test_an_admission_is_expected_until_the_server_shows_it() -> None:
    store = filled("job a phase=Pending: 1 x cpu=1")
    group = store.groups["default/a"]
    store.assume(Plan((SetPodGroup("default/a", "Inqueue"),), session="s1"), NOW)
    wanted = store.expected_group("default/a")
    assert wanted is not None
    assert phase_of(store, "default/a") == "Inqueue"
    store.take([Change(ChangeType.MODIFIED, versioned(group, 6))])
    assert phase_of(store, "default/a") == "Inqueue", "an older state must not take the admission back"
    store.apply_response(versioned(group, 7, phase="Inqueue"))
    store.settle_group("default/a", wanted)
    assert store.expected_group("default/a") is None
    assert phase_of(store, "default/a") == "Inqueue"


def test_a_failed_write_is_no_longer_expected() -> None:
    store = filled("job a phase=Pending: 1 x cpu=1")
    store.assume(Plan((SetPodGroup("default/a", "Inqueue"),)), NOW)
    wanted = store.expected_group("default/a")
    assert wanted is not None
    store.settle_group("default/a", wanted)
    assert phase_of(store, "default/a") == "Pending"


def test_a_newer_expectation_outlives_the_settling_of_an_older_one() -> None:
    store = filled("job a phase=Pending: 1 x cpu=1")
    store.assume(Plan((SetPodGroup("default/a", "Inqueue"),)), NOW)
    older = store.expected_group("default/a")
    assert older is not None
    store.assume(Plan((SetPodGroup("default/a", "Running"),)), NOW)
    store.settle_group("default/a", older)
    assert phase_of(store, "default/a") == "Running"


def test_a_recreated_group_does_not_inherit_expectations() -> None:
    store = filled("job a phase=Pending: 1 x cpu=1")
    group = store.groups["default/a"]
    store.assume(Plan((SetPodGroup("default/a", "Inqueue"),)), NOW)
    store.take([Change(ChangeType.DELETED, group)])
    store.take(added(replace(group, metadata=replace(group.metadata, uid="new"))))
    assert phase_of(store, "default/a") == "Pending"
    assert store.expected_group("default/a") is None


def test_a_write_response_is_not_overwritten_by_an_older_event() -> None:
    store = filled()
    group = store.groups["default/a"]
    store.apply_response(versioned(group, 9, phase="Running"))
    store.take([Change(ChangeType.MODIFIED, versioned(group, 8, phase="Inqueue"))])
    assert store.groups["default/a"].status.phase == "Running"
    store.take([Change(ChangeType.MODIFIED, versioned(group, 10, phase="Completed"))])
    assert store.groups["default/a"].status.phase == "Completed"


def test_a_write_response_does_not_restore_a_deleted_object() -> None:
    store = filled()
    group = store.groups["default/a"]
    store.take([Change(ChangeType.DELETED, group)])
    store.apply_response(versioned(group, 99))
    assert "default/a" not in store.groups


def test_allocated_of_a_queue_is_expected_and_its_state_is_the_servers() -> None:
    store = filled()
    queue = store.queues["default"]
    store.assume(Plan((SetQueue("default", {"cpu": "2"}),)), NOW)
    store.take([Change(ChangeType.MODIFIED, versioned(queue, 4, state="Closed"))])
    seen = store.snapshot(NOW).queues.objects[0]
    assert seen is not None
    assert (seen.status.state, seen.status.allocated) == ("Closed", {"cpu": "2"})


def test_a_nomination_is_assumed_until_the_pod_shows_it() -> None:
    store = filled()
    pod = store.pods["default/a-0"]
    store.assume(Plan((Nominate("default/a-0", "n2", "default/a"),)), NOW)
    snapshot = store.snapshot(NOW)
    assert snapshot.tasks.nominated[snapshot.task_rows["default/a-0"]] == 1
    store.take([Change(ChangeType.MODIFIED, versioned(pod, 3))])
    snapshot = store.snapshot(NOW)
    assert snapshot.tasks.nominated[snapshot.task_rows["default/a-0"]] == 1
    store.forget_nomination("default/a-0", pod.metadata.uid)
    snapshot = store.snapshot(NOW)
    assert snapshot.tasks.nominated[snapshot.task_rows["default/a-0"]] == -1


def test_unread_fields_are_not_stored() -> None:
    pod = core.Pod(
        metadata=core.Meta(name="p", annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "k": "v"}),
        status=core.PodStatus(phase="Running", pod_ip="10.0.0.1", container_statuses=(ContainerStatus(name="c"),)),
    )
    slim = slim_pod(pod)
    assert slim.metadata.annotations == {"k": "v"}
    assert slim.status == core.PodStatus(phase="Running")


def test_of_the_conditions_of_pods_those_that_are_true_of_each_running_pod_are_not_stored() -> None:
    usual = tuple(core.Condition(type=kind, status="True") for kind in ("Initialized", "ContainersReady", "Ready"))
    other = (core.Condition(type="PodScheduled", status="True"), core.Condition(type="DisruptionTarget", status="True"))
    assert (
        slim_pod(
            core.Pod(metadata=core.Meta(name="p"), status=core.PodStatus(conditions=(*usual, *other)))
        ).status.conditions
        == other
    )
    unready = (core.Condition(type="Ready", status="False"),)
    assert (
        slim_pod(core.Pod(metadata=core.Meta(name="p"), status=core.PodStatus(conditions=unready))).status.conditions
        == unready
    )


@examples(60)
@given(st.lists(st.sampled_from(["assume", "write", "fail", "echo", "elsewhere"]), max_size=30))
def test_after_all_writes_and_events_the_store_equals_the_server(steps: list[str]) -> None:
    """A server with one group: plans, writes, conflicts, their events and writes of others in any order."""
    store = filled("job a phase=Pending: 1 x cpu=1")
    server = versioned(store.groups["default/a"], 1)
    store.take(added(server))
    history, message, phases = [server], 1, ["Inqueue", "Running", "Pending", "Unknown", "Completed"]
    for number, step in enumerate(steps):
        wanted = store.expected_group("default/a")
        if step == "assume":
            condition = GroupCondition("Unschedulable", "Reason", f"sentence {number}")
            store.assume(Plan((SetPodGroup("default/a", phases[number % 5], condition),), session=str(number)), NOW)
        elif step == "write" and wanted is not None:
            server = replace(versioned(server, len(history) + 1), status=wanted)
            history.append(server)
            store.apply_response(server)
            store.settle_group("default/a", wanted)
        elif step == "fail" and wanted is not None:
            store.settle_group("default/a", wanted)
        elif step == "echo" and message < len(history):
            store.take([Change(ChangeType.MODIFIED, history[message])])
            message += 1
        elif step == "elsewhere":
            server = versioned(server, len(history) + 1, running=number)
            history.append(server)
    for event in history[message:]:
        store.take([Change(ChangeType.MODIFIED, event)])
    left = store.expected_group("default/a")
    if left is not None:
        store.settle_group("default/a", left)
    assert store.groups["default/a"] == server
    assert store.snapshot(NOW).jobs.groups[0] == server
