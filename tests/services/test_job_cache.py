"""What the job controller believes to exist: its own writes at once, the watches' news later, and no ghosts."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.kube.faulty_server import WatchPlan, connect, faulty_server
from volcanopy.api.container_states import ContainerStatus
from volcanopy.api.core import Condition, Node, Pod, PodGroup, PodSpec, PodStatus
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.services.controllers.api_controllers import slimming_of_jobs
from volcanopy.services.controllers.job_cache import JobCache, Urgency, with_labels_and_readiness

Json = dict[str, Any]
OWNER = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "name": "j", "uid": "u1", "controller": True}
JOB = {"metadata": {"name": "j", "namespace": "ns", "uid": "u1", "resourceVersion": "1"}}


def made(uid: str, version: int, name: str = "j-a-0") -> Json:
    """A pod, or PodGroup, of the job."""
    meta = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version), "ownerReferences": [OWNER]}
    return {"metadata": meta}


def pod(uid: str, version: int) -> Pod:
    return msgspec.convert(made(uid, version), Pod)


def group(uid: str, version: int, phase: str = "Pending") -> PodGroup:
    return msgspec.convert(made(uid, version) | {"status": {"phase": phase}}, PodGroup)


class Known(JobCache):
    """A cache with one job, which notes whom it wakes."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        super().__init__(lambda key, _: self.woken.append(key))
        self.job_event("ADDED", JOB)
        self.woken.clear()


def test_of_pods_of_jobs_what_no_plan_depends_on_is_not_stored() -> None:
    whole = pod("p1", 1)
    evicted = Condition(type="DisruptionTarget", status="True", message="preempted")
    conditions = (Condition(type="Ready", status="True"), evicted, Condition(type="PodScheduled", status="True"))
    status = PodStatus(phase="Running", pod_ip="10.0.0.1", container_statuses=(ContainerStatus(name="main"),))
    slim = slimming_of_jobs()(
        msgspec.structs.replace(
            whole,
            spec=PodSpec(node_name="n1", priority=3),
            status=msgspec.structs.replace(status, conditions=conditions),
        )
    )
    assert slim.metadata == whole.metadata
    assert slim.spec == PodSpec(node_name="n1")
    assert slim.status == msgspec.structs.replace(status, conditions=(evicted,))


def going(uid: str, node: str) -> Pod:
    metadata = made(uid, 2)["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}}, Pod)


def node_change(ready: str, change: ChangeType = ChangeType.MODIFIED) -> Change[Node]:
    conditions = [{"type": "Ready", "status": ready, "reason": "NodeStatusUnknown"}]
    manifest = {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}, "status": {"conditions": conditions}}
    return Change(change, with_labels_and_readiness(msgspec.convert(manifest, Node)))


def test_a_job_with_terminating_pods_is_reconciled_when_their_node_is_no_longer_ready_and_when_it_is_again() -> None:
    cache = Known()
    cache.pod_changes([Change(ChangeType.ADDED, slimming_of_jobs()(going("p1", "n1")))])
    cache.woken.clear()
    cache.node_changes([node_change("True", ChangeType.ADDED)])
    assert (cache.woken, cache.observed("ns/j").not_ready) == ([], {})
    cache.node_changes([node_change("Unknown")])
    assert (cache.woken, cache.observed("ns/j").not_ready) == (["ns/j"], {"n1": "NotReady: NodeStatusUnknown"})
    cache.node_changes([node_change("Unknown")])
    assert cache.woken == ["ns/j"]
    cache.node_changes([node_change("Unknown", ChangeType.DELETED)])
    assert (cache.woken, cache.observed("ns/j").not_ready) == (["ns/j", "ns/j"], {})


def test_nodes_do_not_concern_jobs_whose_pods_do_not_terminate() -> None:
    cache = Known()
    cache.pod_changes([Change(ChangeType.ADDED, slimming_of_jobs()(pod("p1", 1)))])
    cache.woken.clear()
    cache.node_changes([node_change("False")])
    assert cache.woken == []


def test_an_older_object_missing_in_a_list_is_deleted() -> None:
    cache = Known()
    cache.pod_made("u1", pod("p1", 10))
    cache.pod_group_made("u1", group("g1", 11))
    cache.listed("pods", 9)
    assert cache.pods_of("u1")
    cache.listed("pods", 12)
    cache.listed("podgroups", 12)
    assert cache.pods_of("u1") == ()
    assert cache.observed("ns/j").pod_group is None
    assert cache.woken == ["ns/j", "ns/j"]


def test_a_late_create_response_does_not_restore_a_pod_missing_in_the_list() -> None:
    cache = Known()
    cache.listed("pods", 12)
    cache.pod_made("u1", pod("p1", 10))
    assert cache.pods_of("u1") == ()
    assert cache.woken == ["ns/j"]
    cache.pod_made("u1", pod("p2", 13))
    assert [item.metadata.uid for item in cache.pods_of("u1")] == ["p2"]


def test_a_watched_object_is_removed_only_by_the_watch() -> None:
    cache = Known()
    cache.pod_made("u1", pod("p1", 10))
    cache.pod_changes([Change(ChangeType.ADDED, pod("p1", 10))])
    cache.listed("pods", 12)
    assert [item.metadata.uid for item in cache.pods_of("u1")] == ["p1"]
    cache.pod_changes([Change(ChangeType.DELETED, pod("p1", 14))])
    cache.pod_made("u1", pod("p1", 10))
    assert cache.pods_of("u1") == ()


def test_a_newer_response_for_a_group_is_stored_and_older_events_are_not() -> None:
    cache = Known()
    cache.pod_group_made("u1", group("g1", 10))
    cache.pod_group_changed("u1", group("g1", 12, "Running"))
    cache.pod_group_changes([Change(ChangeType.MODIFIED, group("g1", 11))])
    seen = cache.observed("ns/j").pod_group
    assert seen is not None
    assert seen.status.phase == "Running"
    cache.pod_group_changes([Change(ChangeType.MODIFIED, group("g1", 13, "Inqueue"))])
    seen = cache.observed("ns/j").pod_group
    assert seen is not None
    assert seen.status.phase == "Inqueue"


def test_a_deleted_job_is_removed_completely() -> None:
    cache = Known()
    command = {
        "apiVersion": "bus.volcanopy.io/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c", "namespace": "ns", "uid": "c1"},
        "action": "AbortJob",
        "target": {key: OWNER[key] for key in ("apiVersion", "kind", "name", "uid")},
    }
    cache.command_event("ADDED", command)
    cache.pod_changes([Change(ChangeType.ADDED, pod("p1", 10))])
    cache.applied_now("u1", "Service/j", "d")
    cache.job_event("DELETED", JOB)
    cache.command_event("DELETED", command)
    cache.pod_changes([Change(ChangeType.DELETED, pod("p1", 11))])
    cache.applied_now("u1", "Service/j", "d")
    cache.pod_made("u1", pod("p1", 10))
    assert not [name for name in ("jobs", "applied", "_keys", "_pods", "_commands") if getattr(cache, name)]
    assert ("u1", "j-a-0", "p1") not in cache.writes


async def test_a_pod_deleted_during_a_watch_outage_is_detected() -> None:
    """Made by us, deleted by others, and the history in which all that stood is gone by the time we watch again."""
    async with faulty_server() as server, Client(connect(server)) as client:
        server.watches.append(WatchPlan(events=1, ending="silence"))
        pods = Reflector(client, PODS, "ns", stall=0.5, watch_timeout=(5, 5))
        cache = Known()
        cache_told = asyncio.Event()

        def listed() -> None:
            cache.listed("pods", int(pods.resource_version))
            cache_told.set()

        pods.on_listed = listed
        following = asyncio.create_task(pods.run(cache.pod_changes))
        await pods.synced.wait()
        cache_told.clear()
        server.put("pods", "ns", "other", spec={})
        answer = server.put("pods", "ns", "j-a-0", metadata={"ownerReferences": [OWNER]}, spec={})
        cache.pod_made("u1", msgspec.convert(answer, Pod))
        assert cache.pods_of("u1")
        server.remove("pods", "ns", "j-a-0")
        server.compact()
        async with asyncio.timeout(60):
            await cache_told.wait()
        assert cache.pods_of("u1") == ()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def in_phase(phase: str, version: int, *, deleted: bool = False, owner: str = "u1", name: str = "j-a-0") -> Pod:
    manifest = made("p1", version, name) | {"status": {"phase": phase}}
    manifest["metadata"]["ownerReferences"] = [{**OWNER, "uid": owner}]
    if deleted:
        manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert(manifest, Pod)


def watched(cache: JobCache, *pods: Pod, kind: ChangeType = ChangeType.MODIFIED) -> None:
    cache.pod_changes([Change(kind, item) for item in pods])


def test_a_pod_that_succeeds_and_is_deleted_in_one_batch_is_counted_once() -> None:
    cache = Known()
    watched(cache, in_phase("Running", 10), in_phase("Succeeded", 11))
    watched(cache, in_phase("Succeeded", 12), kind=ChangeType.DELETED)
    (removed,) = cache.observed("ns/j").removed
    assert removed.status.phase == "Succeeded"
    cache.counted("u1", (removed,))
    assert cache.observed("ns/j").removed == ()


def test_a_bound_pod_wakes_nobody_and_one_that_runs_or_is_evicted_does() -> None:
    cache = Known()
    cache.pod_made("u1", pod("p1", 10))
    watched(cache, pod("p1", 10), kind=ChangeType.ADDED)
    bound = msgspec.structs.replace(pod("p1", 11), spec=PodSpec(node_name="n1"))
    scheduled = PodStatus(conditions=(Condition(type="PodScheduled", status="True"),))
    watched(cache, msgspec.structs.replace(bound, status=scheduled))
    assert cache.woken == []
    assert cache.pods_of("u1")[0].spec.node_name == "n1"
    watched(cache, in_phase("Running", 12))
    assert cache.woken == ["ns/j"]
    target = Condition(type="DisruptionTarget", status="True", last_transition_time=datetime(2031, 1, 1, tzinfo=UTC))
    evicted = in_phase("Running", 13)
    watched(cache, msgspec.structs.replace(evicted, status=PodStatus(phase="Running", conditions=(target,))))
    assert cache.woken == ["ns/j", "ns/j"]


def test_what_the_watch_shows_of_a_pod_that_is_being_created_wakes_nobody_unless_it_has_started() -> None:
    cache = Known()
    cache.creating.update({("u1", "j-a-0"), ("u1", "j-a-1")})
    watched(cache, pod("p1", 10), kind=ChangeType.ADDED)
    assert cache.woken == []
    watched(cache, in_phase("Failed", 11, name="j-a-1"), kind=ChangeType.ADDED)
    assert cache.woken == ["ns/j"]


@pytest.mark.parametrize(
    ("before", "after", "urgency"),
    [
        ({"phase": "Running"}, {"phase": "Running"}, None),
        ({"phase": "Running"}, {"phase": "Running", "running": 1}, None),
        ({"phase": "Inqueue"}, {"phase": "Inqueue", "alternative": {"name": "x"}}, Urgency.SOON),
        ({}, {"phase": "Running"}, Urgency.STATUS),
        ({"phase": "Pending"}, {"phase": "Running"}, Urgency.STATUS),
        ({"phase": "Pending"}, {"phase": "Inqueue"}, Urgency.NOW),
        ({"phase": "Running"}, {"phase": "Unknown"}, Urgency.NOW),
    ],
)
def test_a_podgroup_makes_a_plan_necessary_that_may_depend_on_its_change(
    before: Json, after: Json, urgency: Urgency | None
) -> None:
    woken: list[Urgency | None] = []
    cache = JobCache(lambda _, urgency: woken.append(urgency))
    cache.job_event("ADDED", {**JOB, "spec": {"tasks": [{"name": "a"}]}})
    cache.pod_made("u1", pod("p1", 10))
    for version, status in ((11, before), (12, after)):
        woken.clear()
        changed = msgspec.convert(made("g1", version) | {"status": status}, PodGroup)
        cache.pod_group_changes([Change(ChangeType.MODIFIED, changed)])
    assert woken == ([] if urgency is None else [urgency])


def test_a_podgroup_that_starts_without_all_pods_of_its_job_wakes_it_at_once() -> None:
    woken: list[Urgency] = []
    cache = JobCache(lambda _, urgency: woken.append(urgency))
    cache.job_event("ADDED", {**JOB, "spec": {"tasks": [{"name": "a", "replicas": 2}]}})
    cache.pod_made("u1", pod("p1", 10))
    cache.pod_group_made("u1", group("g1", 11))
    woken.clear()
    cache.pod_group_changes([Change(ChangeType.MODIFIED, group("g1", 12, "Running"))])
    assert woken == [Urgency.NOW]


def test_what_the_watch_shows_of_a_podgroup_that_is_being_created_wakes_nobody_unless_it_has_a_phase() -> None:
    cache = Known()
    cache.creating.add(("u1", "j-a-0"))
    cache.pod_group_changes([Change(ChangeType.ADDED, group("g1", 10, ""))])
    assert cache.woken == []
    cache = Known()
    cache.creating.add(("u1", "j-a-0"))
    cache.pod_group_changes([Change(ChangeType.ADDED, group("g1", 10, "Inqueue"))])
    assert cache.woken == ["ns/j"]


def test_a_phase_that_only_the_answer_to_a_write_shows_wakes_the_job() -> None:
    cache = Known()
    cache.pod_group_made("u1", group("g1", 10, ""))
    cache.pod_group_changed("u1", group("g1", 11, "Inqueue"))
    assert cache.woken == ["ns/j"]
    cache.pod_group_changes([Change(ChangeType.ADDED, group("g1", 11, "Inqueue"))])  # a list after a gap of the watch
    assert cache.woken == ["ns/j"]


def test_a_program_that_ends_well_because_of_its_eviction_has_not_succeeded() -> None:
    cache = Known()
    watched(cache, in_phase("Running", 10), in_phase("Running", 11, deleted=True))
    watched(cache, in_phase("Succeeded", 12, deleted=True))
    watched(cache, in_phase("Succeeded", 13, deleted=True), kind=ChangeType.DELETED)
    assert cache.observed("ns/j").removed == ()


def test_a_controller_that_becomes_the_leader_knows_which_of_the_latest_4096_removed_pods_had_succeeded() -> None:
    cache = JobCache(lambda key, _: None)
    of_large = [(f"large-{number}", "u0") for number in range(3000)]
    of_small = [("small", f"u{number}") for number in range(1, 2000)]
    for name, owner in (*of_large, *of_small):
        for version, kind in ((10, ChangeType.MODIFIED), (11, ChangeType.DELETED)):
            watched(cache, in_phase("Succeeded", version, name=name, owner=owner), kind=kind)
    for number, removed in ((0, 0), (1, 1), (1999, 1)):
        cache.job_event("ADDED", {"metadata": {**JOB["metadata"], "uid": f"u{number}", "name": f"j{number}"}})
        assert len(cache.observed(f"ns/j{number}").removed) == removed
