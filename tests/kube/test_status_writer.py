"""Statuses and explanations, written sparingly."""

import asyncio
from datetime import UTC, datetime

import pytest

from tests.kube.applier_setup import Rig, applier_rig, bind, set_pod_group
from tests.kube.cluster import EVENTS, Cluster
from tests.kube.flaky_client import refused
from volcanopy.api import core
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, QUEUES
from volcanopy.kube.writes.write_queue import KeyLocks
from volcanopy.scheduler.model.plan import Explain, GroupCondition, SetPodGroup, SetQueue
from volcanopy.services.scheduler.writers.status_writer import Timing

# Pod groups


async def test_a_change_of_phase_is_written_at_once(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1)
    await rig.see()
    await rig.apply(set_pod_group("Inqueue"))
    assert (await cluster.get_group("a")).status.phase == "Inqueue"
    assert rig.script.count("patch", "podgroups") == 1


async def test_repeated_count_changes_are_one_request(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1, "Running")
    await rig.see()
    for running in range(1, 6):
        await rig.apply(set_pod_group("Running", running=running))
    assert rig.script.count() == 0
    assert await rig.applier.finish(5)
    assert (await cluster.get_group("a")).status.running == 5
    assert rig.script.count() == 1


async def test_counts_that_return_to_the_written_value_are_not_written(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1, "Running")
    await rig.see()
    await rig.apply(set_pod_group("Running", running=1))
    await rig.apply(set_pod_group("Running"))
    assert await rig.applier.finish(5)
    assert rig.script.count() == 0


async def test_the_estimated_start_of_a_group_is_kept_until_it_starts(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1)
    await rig.see()
    estimate = {"basis": "walltime", "time": "2026-01-01T00:00:00Z"}
    await cluster.client.patch_status(POD_GROUPS, "default", "a", {"status": {"estimatedStart": estimate}})
    await rig.see()
    await rig.apply(set_pod_group("Inqueue"))
    waiting = (await cluster.get_group("a")).status
    assert waiting.phase == "Inqueue"
    assert waiting.estimated_start is not None
    assert waiting.estimated_start.basis == "walltime"
    await rig.apply(set_pod_group("Running", running=1))
    assert (await cluster.get_group("a")).status.estimated_start is None


async def test_a_phase_write_includes_delayed_counts(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1, "Running")
    await rig.see()
    await rig.apply(set_pod_group("Running", running=1))
    await rig.apply(SetPodGroup("default/a", "Completed", succeeded=1))
    status = (await cluster.get_group("a")).status
    assert (status.phase, status.running, status.succeeded) == ("Completed", 0, 1)
    assert rig.script.count() == 1


async def test_a_later_phase_never_overtakes_an_earlier_one(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1)
    await rig.see()
    rig.script.held["patch"] = asyncio.Event()
    first, second = rig.submit(set_pod_group("Inqueue")), rig.submit(set_pod_group("Running"))
    await rig.script.until("patch")
    assert rig.script.count("patch") == 1, "one at a time"
    rig.script.held["patch"].set()
    await asyncio.gather(first, second)
    assert (await cluster.get_group("a")).status.phase == "Running"


async def test_a_gang_scheduled_within_the_grace_period_is_never_unschedulable(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 2, phase="")
    await rig.see()
    why = Explain("default/a", "gang", "1 of the 2 pods exist", pods={"default/a-0": "1 of the 2 pods exist"})
    await rig.apply(set_pod_group("Inqueue", "1 of the 2 pods exist"), why)
    assert (await cluster.get_group("a")).status.conditions == ()
    await rig.apply(bind("a-0"), bind("a-1", "n2"))
    await rig.see()
    scheduled = GroupCondition("Scheduled", "GangReady", "gang is ready: the required pods have nodes")
    await rig.apply(SetPodGroup("default/a", "Running", scheduled))
    assert [condition.type for condition in (await cluster.get_group("a")).status.conditions] == ["Scheduled"]
    assert rig.script.by_object() == {"a-0": 1, "a-1": 1, "a": 1 + rig.script.count("create", "events")}
    assert await rig.recorder.flush()
    assert await cluster.events() == [("a", "Scheduled", "pod group is ready")]


async def test_after_the_grace_period_the_condition_has_the_reason(cluster: Cluster) -> None:
    await cluster.group("a", 2)
    async with applier_rig(cluster, Timing(settle=0.05)) as rig:
        await rig.see()
        await rig.apply(set_pod_group("Inqueue", "no room"))
        assert (await cluster.get_group("a")).status.phase == "Inqueue"

        async def condition_written() -> bool:
            return bool((await cluster.get_group("a")).status.conditions)

        await cluster.until(condition_written, POD_GROUPS)
        (condition,) = (await cluster.get_group("a")).status.conditions
        assert (condition.type, condition.status, condition.message) == ("Unschedulable", "True", "no room")
        assert condition.transition_id == "session-1"
        assert condition.last_transition_time is not None
        assert rig.script.count("patch", "podgroups") == 2, "the phase at once, the condition after the period"


async def test_another_message_is_no_transition(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 2)
    since = "2020-01-01T00:00:00Z"
    old = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "two nodes are full"}
    patch = {"status": {"phase": "Inqueue", "conditions": [{**old, "lastTransitionTime": since}]}}
    await cluster.client.patch_status(POD_GROUPS, "default", "a", patch)
    await rig.see()
    await rig.apply(set_pod_group("Inqueue", "three nodes are full"))
    assert await rig.applier.finish(5)
    (condition,) = (await cluster.get_group("a")).status.conditions
    assert condition.message == "three nodes are full"
    assert condition.last_transition_time == datetime(2020, 1, 1, tzinfo=UTC)
    assert condition.transition_id == "session-1"


async def test_a_status_that_cannot_be_written_is_not_assumed(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1)
    await rig.see()
    rig.script.plan("patch", refused(403, "no rights"))
    await rig.apply(set_pod_group("Inqueue"))
    assert rig.store.phase_of("default/a") == "Pending"
    await rig.apply(set_pod_group("Inqueue"))
    assert (await cluster.get_group("a")).status.phase == "Inqueue"


# Why a group waits, as data in its status


def reason(message: str = "no room", unblocked_by: str = "1 cpu", **numbers: str) -> Explain:
    return Explain("default/a", "nodes", message, {"needed": "2", **numbers}, {"Insufficient cpu": 3}, unblocked_by)


async def waiting_group(cluster: Cluster, message: str = "no room") -> None:
    """A group with an unschedulable condition and without an explanation."""
    await cluster.group("a", 2)
    said = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message}
    await cluster.client.patch_status(
        POD_GROUPS, "default", "a", {"status": {"phase": "Inqueue", "conditions": [said]}}
    )


async def explained(cluster: Cluster) -> core.Explanation | None:
    return (await cluster.get_group("a")).status.explanation


async def test_the_explanation_is_written_with_the_unschedulable_condition(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 2, "Inqueue")
    await rig.see()
    amounts = {"requested": {"cpu": "2"}, "available": {"cpu": "1"}}
    why = Explain(
        "default/a", "nodes", "no room", {"position": "1"}, {"full": 3}, "1 cpu", {}, amounts, ("job default/b",)
    )
    await rig.apply(set_pod_group("Inqueue", "no room"), why)
    assert await rig.applier.finish(5)
    status = (await cluster.get_group("a")).status
    assert status.explanation == core.Explanation(
        gate="nodes",
        message="no room",
        unblocked_by="1 cpu",
        numbers={"position": "1"},
        nodes={"full": 3},
        amounts={"requested": {"cpu": "2"}, "available": {"cpu": "1"}},
        blocked_by=("job default/b",),
    )
    assert [condition.message for condition in status.conditions] == ["no room"]
    assert rig.script.count("patch", "podgroups") == 1


async def test_a_scheduled_group_has_no_explanation(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 2, "Inqueue")
    await rig.see()
    await rig.apply(set_pod_group("Inqueue", "no room"), reason())
    assert await rig.applier.finish(5)
    await rig.see()
    async with applier_rig(cluster) as delayed:
        await delayed.see()
        await delayed.apply(SetPodGroup("default/a", "Running", GroupCondition("Scheduled", "GangReady", "all there")))
        assert await delayed.applier.finish(5)
        assert await explained(cluster) is None
        assert delayed.script.count("patch", "podgroups") == 1


async def test_changed_numbers_are_written_only_with_other_changes(cluster: Cluster, rig: Rig) -> None:
    await waiting_group(cluster)
    async with applier_rig(cluster, Timing(settle=0.0, message_delay=0.0, repeat_delay=0.0)) as eager:
        await eager.see()
        await eager.apply(reason(position="7"))

        async def condition_written() -> bool:
            return await explained(cluster) is not None

        await cluster.until(condition_written, POD_GROUPS)
    await rig.see()
    for place in ("6", "5", "4"):
        await rig.apply(reason(position=place))
    assert rig.applier.waiting == 1, "the event; no status"
    await rig.apply(set_pod_group("Inqueue", "no room", running=1), reason(position="4"))
    assert await rig.applier.finish(5)
    result = await explained(cluster)
    assert result is not None
    assert result.numbers["position"] == "4"
    assert rig.script.count("patch", "podgroups") == 1


async def test_a_changed_explanation_with_the_same_message_is_one_delayed_write(cluster: Cluster, rig: Rig) -> None:
    await waiting_group(cluster)
    await rig.see()
    for number in range(1, 6):
        await rig.apply(reason(unblocked_by=f"{number} cpu on node n{number}"))
    assert rig.script.count("patch", "podgroups") == 0
    assert await rig.applier.finish(5)
    result = await explained(cluster)
    assert result is not None
    assert result.unblocked_by == "5 cpu on node n5"
    assert rig.script.count("patch", "podgroups") == 1


async def test_an_explanation_that_returns_to_the_written_value_is_not_written(cluster: Cluster, rig: Rig) -> None:
    await waiting_group(cluster)
    async with applier_rig(cluster) as before:
        await before.see()
        await before.apply(reason())
        assert await before.applier.finish(5)
    await rig.see()
    await rig.apply(reason(unblocked_by="another"))
    await rig.apply(reason())
    assert await rig.applier.finish(5)
    assert rig.script.count("patch", "podgroups") == 0


async def test_a_message_without_an_explanation_removes_the_old_explanation(cluster: Cluster, rig: Rig) -> None:
    await waiting_group(cluster)
    await rig.see()
    await rig.apply(set_pod_group("Inqueue", "no room"), reason())
    await rig.apply(set_pod_group("Inqueue", "another sentence"))
    assert await rig.applier.finish(5)
    assert await explained(cluster) is None


async def test_an_explanation_is_truncated(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 2, "Inqueue")
    await rig.see()
    nodes = {f"node(s) had untolerated taint {{{'k' * 300}: {number:03}}}": 1 for number in range(100)}
    nodes["Insufficient cpu"] = 9
    blocked_by = tuple(f"job default/{number}" for number in range(100))
    numbers = {f"number-{number}": "1" * 500 for number in range(100)}
    message = "no room " * 5000
    await rig.apply(
        set_pod_group("Inqueue", message), Explain("default/a", "nodes", message, numbers, nodes, blocked_by=blocked_by)
    )
    assert await rig.applier.finish(5)
    result = await explained(cluster)
    assert result is not None
    assert (len(result.message), len(result.blocked_by), len(result.numbers)) == (32768, 64, 64)
    assert next(iter(result.nodes.items())) == ("Insufficient cpu", 9)
    assert max(map(len, result.nodes)) == 253


# Queues and explanations


async def test_allocated_of_a_queue_is_written_and_removed(cluster: Cluster, rig: Rig) -> None:
    await cluster.client.patch_status(QUEUES, None, "default", {"status": {"allocated": {"gpu": "1"}}})
    await rig.see()
    await rig.apply(SetQueue("default", {"cpu": "1"}))
    await rig.apply(SetQueue("default", {"cpu": "2"}))
    assert await rig.applier.finish(5)
    status = (await cluster.client.get(QUEUES, None, "default")).status
    assert (status.state, status.allocated) == ("Open", {"cpu": "2"})
    assert rig.script.count() == 1


@pytest.mark.parametrize(
    ("gate", "reason"),
    [("nodes", "Unschedulable"), ("topology", "Unschedulable"), ("share", "QueueShare")],
)
async def test_only_groups_that_more_nodes_would_help_are_unschedulable(
    cluster: Cluster, rig: Rig, gate: str, reason: str
) -> None:
    """Cluster autoscalers take that word as a call for nodes."""
    await cluster.gang("a", 1)
    await rig.see()
    await rig.apply(Explain("default/a", gate, "why", pods={"default/a-0": "why exactly"}))
    assert await rig.condition("a-0") is None, "not before the grace time"
    assert await rig.applier.finish(5)
    assert await rig.condition("a-0") == ("False", reason, "why exactly")
    assert await rig.recorder.flush()
    assert await cluster.events() == [("a", "Unschedulable", "why")], "one event for the group, none for its pods"


async def test_pods_of_an_incomplete_gang_get_no_condition(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await rig.apply(Explain("default/a", "gang", "1/2 required pods created", pods={"default/a-0": "1/2 created"}))
    assert await rig.applier.finish(5)
    assert await rig.recorder.flush()
    assert await cluster.events() == [("a", "Unschedulable", "1/2 required pods created")]
    assert rig.script.count("patch", "pods") == 0


async def test_pods_get_events_if_that_is_switched_on(cluster: Cluster) -> None:
    await cluster.gang("a", 2)
    async with applier_rig(cluster, pod_events=True) as rig:
        await rig.see()
        await rig.apply(bind("a-0"), Explain("default/a", "nodes", "why", pods={"default/a-1": "why exactly"}))
        assert await rig.applier.finish(5)
        assert await rig.recorder.flush()
    assert await cluster.events() == [
        ("a", "Unschedulable", "why"),
        ("a-0", "Scheduled", "Successfully assigned default/a-0 to n1"),
        ("a-1", "FailedScheduling", "why exactly"),
    ]


async def test_a_recorded_condition_is_not_written_again(cluster: Cluster) -> None:
    await cluster.gang("a", 2)
    why = Explain("default/a", "nodes", "why", pods={"default/a-0": "why", "default/a-1": "why"})
    async with applier_rig(cluster, Timing(settle=0.02)) as rig:
        await rig.see()

        async def condition_written() -> bool:
            return await rig.condition("a-0") is not None and await rig.condition("a-1") is not None

        await rig.apply(why)
        await cluster.until(condition_written)
        await rig.see()
        for _ in range(3):
            await rig.apply(why)
        assert rig.applier.waiting == 0
        assert rig.script.count("patch", "pods") == 2


async def test_new_pods_get_the_condition_and_the_others_no_write(cluster: Cluster) -> None:
    await cluster.gang("a", 1)
    async with applier_rig(cluster, Timing(settle=0.02)) as rig:
        await rig.see()
        await rig.apply(Explain("default/a", "nodes", "1 of 2", pods={"default/a-0": "1 of 2"}))

        async def condition_written(pod: str) -> bool:
            return await rig.condition(pod) is not None

        await cluster.until(lambda: condition_written("a-0"))
        await cluster.pod("a-1", "a")
        await rig.see()
        both = {"default/a-0": "2 of 3", "default/a-1": "2 of 3"}
        await rig.apply(Explain("default/a", "nodes", "2 of 3", pods=both))
        await cluster.until(lambda: condition_written("a-1"))
        assert await rig.condition("a-0") == ("False", "Unschedulable", "1 of 2")
        assert rig.script.count("patch", "pods") == 2
        assert await rig.applier.finish(5)


async def test_a_group_without_pods_has_the_reason_why_it_is_not_admitted(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 2)
    await rig.see()
    await rig.apply(Explain("default/a", "queue", 'queue "default" is closed'))
    assert await rig.applier.finish(5)
    assert await rig.recorder.flush()
    assert await cluster.events() == [("a", "Unschedulable", 'queue "default" is closed')]


async def test_a_thousand_pending_pods_do_not_delay_a_bind(cluster: Cluster) -> None:
    await cluster.gang("a", 1)
    await cluster.gang("b", 40)
    async with applier_rig(cluster, Timing(settle=0.0)) as rig:
        await rig.see()
        rig.script.held["patch"] = asyncio.Event()
        sentences = {f"default/b-{number}": "no room" for number in range(40)}
        await rig.apply(Explain("default/b", "nodes", "no room", pods=sentences))
        await rig.script.until("patch", 8)
        assert (await rig.apply(bind("a-0"))).bound == 1
        assert rig.script.count("patch") == 8
        rig.script.held["patch"].set()
        assert await rig.applier.finish(10)
        assert rig.script.count("patch", "pods") == 40


async def test_a_large_job_has_few_writes_of_explanations_at_a_time_however_often_it_is_explained(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.gang("b", 200)
    locked = 0
    lock = KeyLocks.lock

    def counting(locks: KeyLocks, key: object) -> object:
        nonlocal locked
        locked += key[0] == "Pod"  # type: ignore[index]
        return lock(locks, key)

    monkeypatch.setattr(KeyLocks, "lock", counting)
    async with applier_rig(cluster, Timing(settle=0.0)) as rig:
        await rig.see()
        rig.script.held["patch"] = asyncio.Event()
        for number in range(10):
            pods = {f"default/b-{pod}": f"no room {number}" for pod in range(200)}
            await rig.apply(Explain("default/b", "nodes", f"no room {number}", pods=pods))
            await rig.script.until("patch", 8)
        assert locked < 50
        rig.script.held["patch"].set()
        assert await rig.applier.finish(60)
        assert rig.script.count("patch", "pods") >= 200


async def test_closing_has_a_timeout(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1, "Running")
    await rig.see()
    rig.script.held["patch"] = asyncio.Event()
    await rig.apply(set_pod_group("Running", running=1))
    assert not await rig.applier.finish(0.05)


async def test_events_have_their_involved_objects(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await rig.apply(Explain("default/a", "nodes", "why", pods={"default/a-0": "why"}))
    assert await rig.applier.finish(5)
    assert await rig.recorder.flush()
    about = {
        event["involvedObject"]["kind"]: event["involvedObject"] for event in (await cluster.client.list(EVENTS)).items
    }
    assert about["PodGroup"]["uid"] == (await cluster.client.get(POD_GROUPS, "default", "a")).metadata.uid
    assert about["PodGroup"]["apiVersion"] == "scheduling.volcanopy.io/v1beta1"


async def test_an_admission_for_which_nobody_waits_is_written_with_the_start(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1, phase="")
    await rig.see()
    scheduled = GroupCondition("Scheduled", "GangReady", "gang is ready: the required pods have nodes")
    await rig.apply(SetPodGroup("default/a", "Inqueue", scheduled), bind("a-0"))
    assert (await cluster.get_group("a")).status.phase == ""
    await rig.apply(SetPodGroup("default/a", "Running", scheduled))
    status = (await cluster.get_group("a")).status
    assert status.phase == "Running"
    assert status.admitted_at is not None
    assert rig.script.by_object() == {"a-0": 1, "a": 1 + rig.script.count("create", "events")}


async def test_an_admission_is_written_at_once_where_pods_are_missing(cluster: Cluster, rig: Rig) -> None:
    await cluster.group("a", 1, phase="")
    await rig.see()
    await rig.apply(set_pod_group("Inqueue"))
    assert (await cluster.get_group("a")).status.phase == "Inqueue"


async def test_the_admission_of_a_job_that_stays_unschedulable_is_written_with_the_condition(
    cluster: Cluster, rig: Rig
) -> None:
    await cluster.gang("a", 1, phase="")
    await rig.see()
    await rig.apply(set_pod_group("Inqueue", "0/1 nodes are available"))
    assert rig.script.by_object() == {}
    assert await rig.applier.finish(5)
    status = (await cluster.get_group("a")).status
    assert (status.phase, [condition.type for condition in status.conditions]) == ("Inqueue", ["Unschedulable"])
    assert rig.script.by_object() == {"a": 1}
