"""PodGroups for pods without a job: their owner, their requirements, and pods with their own group."""

from typing import Any

import msgspec
import pytest

from volcanopy.api import names
from volcanopy.api.core import PodGroup
from volcanopy.api.model import Json
from volcanopy.api.scheduling import PodGroup as WrittenPodGroup
from volcanopy.jobcontroller.plan import CreatePodGroup, RecordEvent, UpdatePodGroup
from volcanopy.jobcontroller.workload_podgroups import (
    GroupEffect,
    GroupObserved,
    Owner,
    WorkloadPod,
    changes_group,
    group_annotations,
    is_ours,
    reconcile_group,
    slim,
)

REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs-uid", "controller": True}
JOINED = {names.GROUP_NAME: "podgroup-rs-uid"}


def pod(name: str = "web-1-a", made: int = 0, owner: Json | None = REPLICA_SET, **more: Any) -> WorkloadPod:
    """A pod with these requests, annotations, labels, phase and priority."""
    metadata: Json = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": f"2026-03-02T08:00:{made:02}Z",
        "annotations": more.get("notes", {}),
        "labels": more.get("labels", {}),
        "ownerReferences": [owner] if owner else [],
    }
    if more.get("going"):
        metadata["deletionTimestamp"] = "2026-03-02T09:00:00Z"
    containers = [{"name": "main", "resources": {"requests": {"cpu": more.get("cpu", "500m"), "memory": "1Gi"}}}]
    spec = {"containers": containers, "priorityClassName": more.get("priority", "")}
    raw = {"metadata": metadata, "spec": spec, "status": {"phase": more.get("phase", "Pending")}}
    return msgspec.convert(raw, WorkloadPod)


def looked(
    *pods: WorkloadPod, notes: Json | None = None, replicas: int | None = None, group: PodGroup | None = None
) -> Any:
    """What is to be done for these pods."""
    return reconcile_group(GroupObserved(pods, Owner(notes or {}, replicas), group))


def made(effects: tuple[GroupEffect, ...]) -> Json:
    """The manifest of the PodGroup that is made."""
    (making,) = [effect for effect in effects if isinstance(effect, CreatePodGroup)]
    WrittenPodGroup.read(making.manifest, unknown="forbid")
    return making.manifest


def existing(manifest: Json, **metadata: Any) -> PodGroup:
    """A PodGroup as the server has it."""
    return msgspec.convert(manifest | {"metadata": manifest["metadata"] | {"uid": "pg-uid"} | metadata}, PodGroup)


def test_all_pods_of_a_replica_set_share_one_group() -> None:
    effects = looked(pod("web-1-a"), pod("web-1-b", made=1), pod("web-1-c", notes=JOINED))
    assert list(map(str, effects)) == [
        "create podgroup podgroup-rs-uid",
        "pod web-1-a joins podgroup-rs-uid",
        "pod web-1-b joins podgroup-rs-uid",
    ]
    manifest = made(effects)
    assert manifest["metadata"]["ownerReferences"] == [REPLICA_SET]
    assert manifest["spec"] == {
        "minMember": 1,
        "minResources": {
            "count/pods": "1",
            "cpu": "500m",
            "memory": "1Gi",
            "pods": "1",
            "requests.cpu": "500m",
            "requests.memory": "1Gi",
        },
    }


@pytest.mark.parametrize(("present", "member"), [(2, 4), (1, 3), (0, 2)])
def test_succeeded_pods_count_for_the_gang_of_a_job_of_kubernetes_as_long_as_they_exist(
    present: int, member: int
) -> None:
    ended = [pod(f"web-1-{number}", phase="Succeeded") for number in range(present)]
    owner = Owner({names.GROUP_MIN_MEMBER: "all"}, at_once=4, completions=4, succeeded=2)
    effects = reconcile_group(GroupObserved((*ended, pod("web-1-c"), pod("web-1-d")), owner, None))
    assert made(effects)["spec"]["minMember"] == member


def test_a_standalone_pod_has_its_own_group_owned_by_it() -> None:
    notes = {names.GROUP_MIN_MEMBER: "5"}
    manifest = made(looked(pod("lonely", owner=None, notes=notes), notes=notes))
    assert manifest["metadata"]["name"] == "podgroup-uid-lonely"
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "lonely", "uid": "uid-lonely", "controller": True}
    assert manifest["metadata"]["ownerReferences"] == [reference]
    assert manifest["spec"]["minMember"] == 1


@pytest.mark.parametrize(
    ("said", "member", "cpu"), [("4", 4, "2"), ("0", 0, None), ("x", 1, "500m"), ("-2", 1, "500m"), ("²", 1, "500m")]
)
def test_min_member_comes_from_the_workload(said: str, member: int, cpu: str | None) -> None:
    effects = looked(pod(), notes={names.GROUP_MIN_MEMBER: said})
    spec = made(effects)["spec"]
    assert spec["minMember"] == member
    assert spec["minResources"].get("cpu") == cpu
    warned = [effect.message for effect in effects if isinstance(effect, RecordEvent)]
    assert len(warned) == (said not in {"0", "4"})
    assert all(f'"{said}"' in message and "using 1" in message for message in warned)


@pytest.mark.parametrize(("at_once", "member"), [(3, 2), (1, 1), (0, 1), (None, 2)])
def test_a_gang_is_no_larger_than_what_the_workload_runs_at_once(at_once: int | None, member: int) -> None:
    """A rollout of a Deployment grows its new ReplicaSet pod by pod, and waits until each is ready."""
    effects = reconcile_group(GroupObserved((pod(),), Owner({names.GROUP_MIN_MEMBER: "2"}, at_once=at_once)))
    assert made(effects)["spec"]["minMember"] == member


@pytest.mark.parametrize(("at_once", "member"), [(3, 3), (0, 1), (None, 1)])
def test_a_gang_may_consist_of_all_pods_that_the_workload_runs_at_once(at_once: int | None, member: int) -> None:
    owner = Owner({names.GROUP_MIN_MEMBER: "all"}, at_once=at_once)
    effects = reconcile_group(GroupObserved((pod(),), owner))
    assert made(effects)["spec"]["minMember"] == member
    assert any(isinstance(effect, RecordEvent) for effect in effects) == (at_once is None)


@pytest.mark.parametrize(
    ("mode", "tier", "made_of_it"),
    [
        ("Soft", "2", {"mode": "soft", "highestTierAllowed": 2}),
        ("bogus", None, {"mode": "hard"}),
        (None, "x", {"mode": "hard"}),
        (None, "1", {"mode": "hard", "highestTierAllowed": 1}),
        (None, None, None),
    ],
)
def test_the_network_topology_comes_from_the_pods(mode: str | None, tier: str | None, made_of_it: Json | None) -> None:
    said = {names.NETWORK_TOPOLOGY_MODE: mode, names.NETWORK_TOPOLOGY_HIGHEST_TIER: tier}
    effects = looked(pod(notes={key: value for key, value in said.items() if value is not None}))
    assert made(effects)["spec"].get("networkTopology") == made_of_it
    assert any(isinstance(effect, RecordEvent) for effect in effects) == (mode == "bogus" or tier == "x")


def test_pod_annotations_set_queue_priority_and_hints_before_the_workload() -> None:
    notes = {
        names.POD_QUEUE_NAME: "research",
        names.PREEMPTABLE: "true",
        names.JDB_MIN_AVAILABLE: "2",
        names.JDB_MAX_UNAVAILABLE: "3",
        "volcano.sh/gpu-index": "1",
    }
    owner = {
        names.POD_QUEUE_NAME: "other",
        names.PREEMPTABLE: "false",
        names.JDB_MAX_UNAVAILABLE: "1",
        names.SLA_WAITING_TIME: "1h",
        "other.io/note": "x",
    }
    labels = {names.COOLDOWN_TIME: "600s", "app": "web"}
    manifest = made(looked(pod(notes=notes, labels=labels, priority="high"), notes=owner))
    assert manifest["spec"]["queue"] == "research"
    assert manifest["spec"]["priorityClassName"] == "high"
    assert manifest["metadata"]["labels"] == {names.COOLDOWN_TIME: "600s"}
    assert manifest["metadata"]["annotations"] == {
        names.PREEMPTABLE: "true",
        names.JDB_MIN_AVAILABLE: "2",
        names.SLA_WAITING_TIME: "1h",
    }
    assert made(looked(pod(), notes=owner))["spec"]["queue"] == "other"


@pytest.mark.parametrize("key", [names.GROUP_NAME, names.POD_GROUP_NAME])
def test_pods_with_their_own_group_are_ignored(key: str) -> None:
    assert not is_ours(pod(notes={key: "mine"}))
    assert is_ours(pod(notes={key: "podgroup-rs-uid"}))
    assert is_ours(pod())


def test_ended_pods_and_deleted_owners_are_ignored() -> None:
    assert looked(pod(phase="Succeeded"), pod(going=True)) == ()
    assert reconcile_group(GroupObserved((pod(),), None, None)) == ()


def test_a_group_without_replicas_and_pods_is_deleted() -> None:
    group = existing(made(looked(pod())))
    assert looked(pod(going=True), replicas=0, group=group) == ()
    assert looked(replicas=3, group=group) == ()
    assert looked(group=group) == ()
    assert list(map(str, looked(replicas=0, group=group))) == ["delete podgroup podgroup-rs-uid"]
    assert looked(replicas=0) == ()


def test_a_terminating_group_is_awaited() -> None:
    group = existing(made(looked(pod())), deletionTimestamp="2026-03-02T09:00:00Z")
    assert looked(pod(notes=JOINED), group=group) == ()


def change(before: Json, after: Json, pods: tuple[WorkloadPod, ...] = (), **group: Any) -> Json:
    """The patch after the annotations of the workload have changed."""
    known = existing(made(looked(pod(), notes=before)), **group)
    effects = looked(*(pods or (pod(notes=JOINED),)), notes=after, group=known)
    patches = [effect.patch for effect in effects if isinstance(effect, UpdatePodGroup)]
    return patches[0] if patches else {}


def test_workload_changes_take_effect() -> None:
    assert change({}, {}) == {}
    patch = change({}, {names.GROUP_MIN_MEMBER: "3"})
    assert patch["spec"]["minMember"] == 3
    assert patch["spec"]["minResources"]["cpu"] == "1500m"
    assert change({}, {names.PREEMPTABLE: "true"}) == {"metadata": {"annotations": {names.PREEMPTABLE: "true"}}}
    assert change({names.PREEMPTABLE: "true"}, {}) == {"metadata": {"annotations": {names.PREEMPTABLE: None}}}
    assert change({}, {names.POD_QUEUE_NAME: "q"}) == {"spec": {"queue": "q"}}
    assert change({names.POD_QUEUE_NAME: "q"}, {}) == {}


def test_a_rollout_takes_effect_with_its_first_pod() -> None:
    old = pod("old", made=9, notes=JOINED)
    new = pod("new", made=10, notes={names.NETWORK_TOPOLOGY_MODE: "soft"}, cpu="2", priority="high")
    patch = change({}, {}, (new, old))
    assert patch["spec"]["priorityClassName"] == "high"
    assert patch["spec"]["networkTopology"] == {"mode": "soft"}
    assert patch["spec"]["minResources"]["cpu"] == "2"


def test_a_limit_that_a_rollout_removes_is_set_to_null() -> None:
    limited = existing(made(looked(pod(notes={names.NETWORK_TOPOLOGY_HIGHEST_TIER: "1"}))))
    (effect,) = looked(pod(notes=JOINED | {names.NETWORK_TOPOLOGY_MODE: "soft"}), group=limited)
    assert isinstance(effect, UpdatePodGroup)
    assert effect.patch == {"spec": {"networkTopology": {"highestTierAllowed": None, "mode": "soft"}}}


def test_fields_of_other_writers_on_the_group_are_kept() -> None:
    metadata: Any = {"annotations": {"other.io/note": "x"}, "labels": {"team": "a"}}
    assert change({}, {}, **metadata) == {}


def test_the_submitter_comes_from_submitter_of_and_not_from_workloads() -> None:
    """Admission writes the submitter into pods; into a workload any user could write it."""
    by = {names.SUBMITTED_BY: "ann", names.SUBMITTER_GROUPS: "[]"}
    manifest = made(looked(pod(notes=by), notes={names.SUBMITTED_BY: "root"}))
    assert manifest["metadata"]["annotations"] == by
    assert change({}, {}, annotations=by) == {}
    assert made(looked(pod(), notes=by))["metadata"]["annotations"] == {}


def test_no_queue_is_set_by_default() -> None:
    """What admission, or a person, has chosen for the group stays."""
    manifest = made(looked(pod()))
    group = existing(manifest | {"spec": manifest["spec"] | {"queue": "chosen"}})
    assert looked(pod(notes=JOINED), group=group) == ()


def test_only_relevant_pod_fields_are_cached() -> None:
    kept = slim(pod(notes={"a": "b", names.PREEMPTABLE: "true"}, labels={"app": "web", names.PREEMPTABLE: "true"}))
    assert kept.metadata.annotations == {names.PREEMPTABLE: "true"}
    assert kept.metadata.labels == {names.PREEMPTABLE: "true"}
    assert group_annotations({"a": "b", names.GROUP_MIN_MEMBER: "2", names.POD_QUEUE_NAME: "q"}).keys() == {
        names.GROUP_MIN_MEMBER,
        names.POD_QUEUE_NAME,
    }


def test_the_group_annotation_of_a_pod_is_no_relevant_change() -> None:
    assert not changes_group(pod(), pod(notes=JOINED))
    assert not changes_group(pod(), pod(phase="Running"))
    assert changes_group(pod(), pod(notes={names.PREEMPTABLE: "true"}))
