"""Applying a plan to pods, on a cluster whose requests are counted and fail as the test specifies."""

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.kube.applier_setup import Rig, bind, now
from tests.kube.cluster import Cluster, body
from tests.kube.flaky_client import Fault, lost, refused
from volcanopy.api import names
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.client.errors import Forbidden, StatusCause, StatusDetails
from volcanopy.kube.client.raw_kinds import NAMESPACES
from volcanopy.kube.writes.write_queue import DelayedWrites
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate
from volcanopy.scheduler.model.task_status import Status
from volcanopy.services.scheduler.state.statuses import pod_condition
from volcanopy.services.scheduler.writers.applier import Applied

# Binds


async def test_a_gang_is_bound_with_one_request_per_pod_and_no_events(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 3)
    await rig.see()
    done = await rig.apply(bind("a-0"), bind("a-1", device="gpu-3"), bind("a-2", "n2"))
    assert done == Applied(bound=3)
    assert await cluster.where() == {"a-0": "n1", "a-1": "n1", "a-2": "n2"}
    assert (await cluster.get_pod("a-1")).metadata.annotations["device"] == "gpu-3"
    assert await rig.applier.finish(5)
    assert rig.script.by_object() == {"a-0": 1, "a-1": 1, "a-2": 1}


async def test_gangs_are_bound_sequentially(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 2)
    await cluster.gang("b", 2)
    await rig.see()
    await rig.apply(bind("a-0"), bind("b-0", group="default/b"), bind("a-1"), bind("b-1", group="default/b"))
    assert [name for verb, _, name in rig.script.sent if verb == "bind"] == ["a-0", "a-1", "b-0", "b-1"]


async def test_a_bind_of_another_namespace_does_not_wait_for_all_binds_of_a_large_job(
    cluster: Cluster, rig: Rig
) -> None:
    """Of the plans before, only the binds in flight and one more precede it."""
    at_once = 64
    await cluster.gang("a", 3 * at_once)
    await cluster.client.create(NAMESPACES, None, {"metadata": {"name": "beside"}})
    await cluster.client.create(POD_GROUPS, "beside", body(POD_GROUPS, "b", spec={"minMember": 1, "queue": "default"}))
    await cluster.pod("b", "b", namespace="beside")
    await rig.see()
    rig.script.held["bind"] = asyncio.Event()
    large = rig.submit(*(bind(f"a-{number}") for number in range(3 * at_once)))
    await rig.script.until("bind", at_once)
    small = rig.submit(Bind("beside/b", "n1", "beside/b"))
    rig.script.held["bind"].set()
    await asyncio.gather(large, small)
    bound = [name for verb, _, name in rig.script.sent if verb == "bind"]
    assert bound.index("b") <= at_once + 1


async def test_a_bind_with_a_lost_response_is_verified_and_not_sent_again(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    rig.script.plan("bind", lost(done=True))
    assert (await rig.apply(bind("a-0"))).bound == 1
    assert rig.script.count("bind") == 1
    assert await cluster.where() == {"a-0": "n1"}
    assert not rig.store.waits("default/a-0")


async def test_a_lost_bind_releases_its_resources_and_reports_it(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    rig.script.plan("bind", lost(done=False))
    assert (await rig.apply(bind("a-0"))).failed == ("default/a-0",)
    assert rig.store.waits("default/a-0")
    condition = await rig.condition("a-0")
    assert condition is not None
    assert condition[:2] == ("False", "SchedulerError")
    assert 'node "n1"' in condition[2]


async def test_resources_stay_assumed_while_the_outcome_of_a_bind_is_unknown(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    rig.script.plan("bind", lost(done=True))
    rig.script.held["get"] = asyncio.Event()
    task = rig.submit(bind("a-0"))
    await rig.script.until("get")
    assert not rig.store.waits("default/a-0")
    assert not task.done()
    rig.script.held["get"].set()
    assert (await task).bound == 1


async def test_a_pod_already_bound_to_the_same_node_is_a_success(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await cluster.client.bind("default", "a-0", "n1")
    assert await rig.apply(bind("a-0")) == Applied(bound=1)


async def test_a_pod_already_bound_to_another_node_stays_there(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await cluster.client.bind("default", "a-0", "n2")
    assert (await rig.apply(bind("a-0"))).failed == ("default/a-0",)
    assert await cluster.where() == {"a-0": "n2"}
    assert rig.store.pods["default/a-0"].spec.node_name == "n2", "the answer has told, before the watch did"


async def test_a_bind_in_a_namespace_that_is_being_deleted_is_tried_again_and_not_reported(
    cluster: Cluster, rig: Rig
) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    cause = StatusCause(reason="NamespaceTerminating", message="namespace default is being terminated")
    rig.script.plan("bind", Fault(Forbidden(403, "Forbidden", "forbidden", StatusDetails(causes=[cause]))))
    with capture_logs() as logs:
        assert (await rig.apply(bind("a-0"))).failed == ("default/a-0",)
    assert rig.store.waits("default/a-0")
    assert await rig.condition("a-0") is None
    assert await rig.recorder.flush()
    assert await cluster.events() == []
    assert [line["log_level"] for line in logs if line["event"] == "bind failed"] == ["info"]


async def test_a_rejected_bind_records_an_event_and_the_pod_is_pending_again(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 2)
    await rig.see()
    rig.script.plan("bind", refused(403, "the gatekeeper says no"))
    done = await rig.apply(bind("a-0"), bind("a-1"))
    assert (done.bound, done.failed) == (1, ("default/a-0",))
    assert await rig.condition("a-0") == (
        "False",
        "SchedulerError",
        'binding to node "n1" failed: the gatekeeper says no',
    )
    assert rig.store.waits("default/a-0")
    assert not rig.store.waits("default/a-1")
    assert await rig.recorder.flush()
    assert await cluster.events("FailedScheduling") == [
        ("a-0", "FailedScheduling", 'binding to node "n1" failed: the gatekeeper says no')
    ]


def gated(rig: Rig) -> list[str]:
    tasks = rig.store.snapshot(now()).tasks
    return [str(key) for key in tasks.keys[tasks.gated]]


async def test_repeated_bind_rejections_back_off(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    rig.script.plan("bind", refused(), refused())
    await rig.apply(bind("a-0"))
    assert rig.store.waits("default/a-0")
    assert not gated(rig), "the first time the next cycle decides again"
    await rig.apply(bind("a-0"))
    assert rig.store.waits("default/a-0"), "its resources are given back at once"
    assert gated(rig) == ["default/a-0"], "the second time it backs off"
    assert rig.applier.waiting == 1
    rig.store.changed.clear()
    async with asyncio.timeout(60):
        await rig.store.changed.wait()
    assert not gated(rig)


@pytest.mark.parametrize(("evicts", "least", "most"), [(False, 14, 31), (True, 899, 1801)])
async def test_a_rejected_pod_for_which_others_are_evicted_is_tried_ever_less_often(
    cluster: Cluster, rig: Rig, monkeypatch: pytest.MonkeyPatch, evicts: bool, least: float, most: float
) -> None:
    pauses = list[float]()
    monkeypatch.setattr(DelayedWrites, "put", lambda _, __, delay, ___: pauses.append(delay))
    await cluster.gang("a", 1)
    await rig.see()
    if evicts:
        await rig.apply(Nominate("default/a-0", "n1", "default/a"))
        await rig.see()
    rig.script.plan("bind", *[refused(403, "denied by policy")] * 15)
    for _ in range(15):
        await rig.apply(bind("a-0"))
    assert least <= pauses[-1] <= most


async def test_a_pod_whose_eviction_is_rejected_again_is_no_victim_while_it_backs_off(
    cluster: Cluster, rig: Rig
) -> None:
    await running_pod(cluster, rig)
    rig.script.plan("delete", refused(403, "not now"), refused(403, "not now"))
    evict = Evict("default/a-0", "preempted", "default/a")
    for preemptable in (True, False):
        assert (await rig.apply(evict)).failed == ("default/a-0",)
        tasks = rig.store.snapshot(now()).tasks
        assert tasks.status.tolist() == [Status.RUNNING], "the pod does not count as terminating"
        assert tasks.preemptable.tolist() == [preemptable]


async def test_binding_a_deleted_pod_is_no_error(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await cluster.client.delete(PODS, "default", "a-0")
    assert (await rig.apply(bind("a-0"))).failed == ("default/a-0",)
    assert rig.script.count() == 1
    assert "default/a-0" not in rig.store.state.writes.binds


async def test_a_recreated_pod_with_the_same_name_is_not_bound(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await cluster.client.delete(PODS, "default", "a-0")
    await cluster.pod("a-0", "a")
    assert (await rig.apply(bind("a-0"))).failed == ("default/a-0",)
    assert await cluster.where() == {}
    assert await rig.condition("a-0") is None


# Evictions and nominations


async def running_pod(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await cluster.client.bind("default", "a-0", "n1")
    await cluster.client.patch_status(PODS, "default", "a-0", {"status": {"phase": "Running"}})
    await rig.see()


async def test_an_eviction_sets_its_condition_before_it_deletes(cluster: Cluster, rig: Rig) -> None:
    await running_pod(cluster, rig)
    evict = Evict("default/a-0", "preempted", "default/a", "a job of higher priority needs its room")
    rig.script.held["delete"] = asyncio.Event()
    task = rig.submit(evict)
    await rig.script.until("delete")
    assert await rig.condition("a-0", "DisruptionTarget") == (
        "True",
        "PreemptionByScheduler",
        "preempted: a job of higher priority needs its room",
    )
    assert await rig.condition("a-0", "Ready") == ("False", "Evicted", "a job of higher priority needs its room")
    assert names.PREEMPTOR not in (await cluster.get_pod("a-0")).metadata.annotations
    rig.script.held["delete"].set()
    assert (await task).evicted == 1
    assert (await cluster.client.list(PODS)).items == []
    assert await rig.recorder.flush()
    assert [(name, reason) for name, reason, _ in await cluster.events()] == [("a", "Evicted"), ("a-0", "Evicted")]


@pytest.mark.parametrize(("grace", "status"), [(3600, Status.RELEASING), (10**7, Status.RUNNING)])
async def test_a_pod_deleted_with_a_very_long_grace_period_counts_as_running_until_its_eviction_shortens_it(
    cluster: Cluster, rig: Rig, grace: int, status: Status
) -> None:
    await running_pod(cluster, rig)
    await cluster.client.delete(PODS, "default", "a-0", grace=grace)
    await rig.see()
    assert rig.store.snapshot(now()).tasks.status.tolist() == [status]
    assert (await rig.apply(Evict("default/a-0", "preempted", "default/a"))).evicted == 1
    assert (await cluster.get_pod("a-0")).metadata.deletion_grace_period_seconds == 1
    await rig.see()
    assert rig.store.snapshot(now()).tasks.status.tolist() == [Status.RELEASING]


async def test_an_eviction_names_the_job_of_the_preemptor_in_an_annotation(cluster: Cluster, rig: Rig) -> None:
    await running_pod(cluster, rig)
    await cluster.gang("b", 1)
    await rig.see()
    rig.script.held["delete"] = asyncio.Event()
    task = rig.submit(Evict("default/a-0", "preempt", "default/a", preemptor="default/b"))
    await rig.script.until("delete")
    assert (await cluster.get_pod("a-0")).metadata.annotations[names.PREEMPTOR] == "default/b"
    rig.script.held["delete"].set()
    assert (await task).evicted == 1


async def test_an_eviction_tried_again_after_a_failed_delete_deletes(cluster: Cluster, rig: Rig) -> None:
    await running_pod(cluster, rig)
    rig.script.plan("delete", refused(403, "not now"))
    evict = Evict("default/a-0", "preempted", "default/a")
    assert (await rig.apply(evict)).failed == ("default/a-0",)
    assert "default/a-0" not in rig.store.state.writes.evictions
    assert (await rig.apply(evict)).evicted == 1
    assert rig.script.count("patch", "pods") == 1, "it was announced already"
    assert (await cluster.client.list(PODS)).items == []


async def test_an_eviction_with_a_lost_response_is_verified(cluster: Cluster, rig: Rig) -> None:
    await running_pod(cluster, rig)
    rig.script.plan("delete", lost(done=True))
    assert (await rig.apply(Evict("default/a-0", "preempted", "default/a"))).evicted == 1
    assert rig.script.count("delete") == 1


async def test_the_successor_of_an_evicted_pod_is_left_alone(cluster: Cluster, rig: Rig) -> None:
    await running_pod(cluster, rig)
    await cluster.client.delete(PODS, "default", "a-0")
    await cluster.pod("a-0", "a")
    assert (await rig.apply(Evict("default/a-0", "preempted", "default/a"))).evicted == 1
    pod = await cluster.get_pod("a-0")
    assert pod.metadata.deletion_timestamp is None
    assert pod_condition(pod, "DisruptionTarget") is None


async def test_a_nomination_is_written_once(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await rig.apply(Nominate("default/a-0", "n2", "default/a"))
    await rig.apply(Nominate("default/a-0", "n2", "default/a"))
    assert (await cluster.get_pod("a-0")).status.nominated_node_name == "n2"
    assert rig.script.count() == 1
