"""Gangs of other APIs: which PodGroup of volcanopy they get, who joins it, and what their own status says."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from volcanopy.api.core import Condition, Meta, PodGroup, PodGroupSpec, PodGroupStatus
from volcanopy.api.gang_apis import COSCHEDULING, GANG_APIS, KAI, KUBERNETES, GangApi, GangGroup
from volcanopy.api.model import Json
from volcanopy.cli.framework.options import GangApiName
from volcanopy.jobcontroller.gang_podgroups import GangEffect, GangObserved, PatchGangStatus, reconcile_gang
from volcanopy.jobcontroller.plan import CreatePodGroup, DeletePodGroup, RecordEvent, UpdatePodGroup
from volcanopy.jobcontroller.workload_podgroups import JoinGroup, WorkloadPod, gang_of, slim

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPECS: dict[str, Json] = {
    "kubernetes": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    "coscheduling": {"minMember": 2},
    "kai": {"minMember": 2},
}
APIS = pytest.mark.parametrize("api", GANG_APIS.values(), ids=GANG_APIS)


def pod(name: str, api: GangApi = KUBERNETES, cpu: str = "1", phase: str = "Pending", group: str = "") -> WorkloadPod:
    """A pod that names the PodGroup "train" of an API, as its users write it; ``group``: it has joined this one."""
    metadata: Json = {"name": name, "namespace": "team", "uid": f"u-{name}", "resourceVersion": "7"}
    spec: Json = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    metadata["creationTimestamp"] = f"2026-01-01T00:00:{len(name):02}Z"
    metadata["labels"] = {"app": "x"} | ({api.label: "train"} if api.label else {})
    metadata["annotations"] = {api.annotation: "train"} if api.annotation else {}
    metadata["ownerReferences"] = [{"kind": "StatefulSet", "name": "workers", "uid": "u-set", "controller": True}]
    if group:
        metadata["annotations"]["scheduling.k8s.io/group-name"] = group
    if api.in_spec:
        spec["schedulingGroup"] = {"podGroupName": "train"}
    return slim(msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, WorkloadPod))


def gang(api: GangApi = KUBERNETES, status: Json | None = None, meta: Json | None = None, **spec: Any) -> GangGroup:
    """The PodGroup "train" of an API, of two pods."""
    metadata = {"name": "train", "namespace": "team", "uid": "u-train", **(meta or {})}
    return msgspec.convert({"metadata": metadata, "spec": SPECS[api.name] | spec, "status": status or {}}, GangGroup)


def group(phase: str = "Pending", *conditions: Condition) -> PodGroup:
    """Volcanopy's PodGroup of the gang."""
    spec = PodGroupSpec(min_member=2, min_resources={"cpu": "2"})
    meta = Meta(name="podgroup-u-train", namespace="team", uid="u-own")
    return PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase=phase, conditions=conditions))


def decided(api: GangApi, *pods: WorkloadPod, **seen: Any) -> tuple[GangEffect, ...]:
    """The effects of a reconcile."""
    version = seen.pop("version", api.versions[-1])
    return reconcile_gang(GangObserved(api, version, "train", pods=pods, **seen), NOW)


def only(effects: tuple[GangEffect, ...], kind: type[Any]) -> Any:
    """The single effect of a type."""
    [effect] = [effect for effect in effects if isinstance(effect, kind)]
    return effect


def test_the_command_line_offers_every_gang_api() -> None:
    assert [name.value for name in GangApiName] == list(GANG_APIS)


@APIS
def test_pods_that_name_a_pod_group_get_a_pod_group_of_volcanopy_and_join_it(api: GangApi) -> None:
    effects = decided(api, pod("a", api), pod("bb", api, cpu="3"), gang=gang(api))
    made = only(effects, CreatePodGroup).manifest
    assert made["metadata"]["name"] == "podgroup-u-train"
    [owner] = made["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": f"{api.group}/{api.versions[-1]}",
        "kind": "PodGroup",
        "name": "train",
        "uid": "u-train",
        "controller": True,
    }
    assert (made["spec"]["minMember"], made["spec"]["minResources"]["cpu"]) == (2, "4")
    joined = [effect for effect in effects if isinstance(effect, JoinGroup)]
    assert [(effect.pod, effect.group) for effect in joined] == [("a", "podgroup-u-train"), ("bb", "podgroup-u-train")]


@APIS
def test_pods_that_do_not_exist_yet_count_as_the_newest(api: GangApi) -> None:
    made = only(decided(api, pod("a", api, cpu="3"), gang=gang(api)), CreatePodGroup).manifest
    assert made["spec"]["minResources"]["cpu"] == "6"


def test_a_pod_waits_for_the_pod_group_that_it_names() -> None:
    [event] = decided(KUBERNETES, pod("a"))
    assert event == RecordEvent(
        "Warning",
        "PodGroupNotFound",
        'PodGroup "train" of scheduling.k8s.io not found: the pods that name it wait for it',
    )
    assert decided(KUBERNETES, pod("a", phase="Succeeded")) == ()


def test_pods_of_a_pod_group_without_a_gang_start_one_by_one() -> None:
    basic = gang(schedulingPolicy={"basic": {}})
    assert only(decided(KUBERNETES, pod("a"), gang=basic), CreatePodGroup).manifest["spec"]["minMember"] == 1


def test_pods_with_another_pod_group_keep_it() -> None:
    assert gang_of(pod("a", group="podgroup-u-set"), (KUBERNETES,)) is None  # that of its owner
    effects = decided(KUBERNETES, pod("a", group="mine"), pod("bb"), gang=gang())
    assert only(effects, JoinGroup).pod == "bb"


def test_a_pod_names_the_pod_group_of_the_first_api_that_is_switched_on() -> None:
    both = msgspec.structs.replace(pod("a"), metadata=pod("a", COSCHEDULING).metadata)
    assert gang_of(both, (KUBERNETES, COSCHEDULING)) == (KUBERNETES, "train")
    assert gang_of(both, (COSCHEDULING,)) == (COSCHEDULING, "train")
    assert gang_of(both, (KAI,)) is None


@pytest.mark.parametrize(
    ("api", "meta", "spec", "queue"),
    [
        (KUBERNETES, {"annotations": {"scheduling.volcanopy.io/queue-name": "research"}}, {}, "research"),
        (KUBERNETES, {"labels": {"kueue.x-k8s.io/queue-name": "research"}}, {}, "research"),
        (KAI, {"labels": {"kai.scheduler/queue": "research", "runai/queue": "old"}}, {}, "research"),
        (KAI, {"labels": {"runai/queue": "old"}}, {}, "old"),
        (KAI, {"labels": {"kai.scheduler/queue": "label"}}, {"queue": "field"}, "field"),
        (COSCHEDULING, {"labels": {"kai.scheduler/queue": "research"}}, {}, None),
    ],
)
def test_the_pod_group_names_the_queue_in_a_field_annotation_or_label(
    api: GangApi, meta: Json, spec: Json, queue: str | None
) -> None:
    labels = (*api.queue_labels, "kueue.x-k8s.io/queue-name")
    effects = decided(api, pod("a", api), gang=gang(api, meta=meta, **spec), queue_labels=labels)
    assert only(effects, CreatePodGroup).manifest["spec"].get("queue") == queue


def test_priority_class_minimum_resources_and_topology_come_from_the_pod_group() -> None:
    zone = {"topology": [{"key": "topology.kubernetes.io/zone"}]}
    named = gang(schedulingConstraints=zone, priorityClassName="high")
    spec = only(decided(KUBERNETES, pod("a"), gang=named), CreatePodGroup).manifest["spec"]
    assert spec["priorityClassName"] == "high"
    assert spec["networkTopology"] == {"mode": "hard", "highestTierName": "topology.kubernetes.io/zone"}
    least = gang(COSCHEDULING, minResources={"cpu": "8"})
    spec = only(decided(COSCHEDULING, pod("a", COSCHEDULING), gang=least), CreatePodGroup).manifest["spec"]
    assert spec["minResources"] == {"cpu": "8"}


def test_a_changed_minimum_is_followed() -> None:
    effects = decided(COSCHEDULING, pod("a", COSCHEDULING), gang=gang(COSCHEDULING, minMember=5), group=group())
    assert only(effects, UpdatePodGroup).patch["spec"]["minMember"] == 5


def test_a_gang_without_pods_reserves_nothing() -> None:
    assert only(decided(KUBERNETES, gang=gang(), group=group()), DeletePodGroup).uid == "u-own"
    over = pod("a", phase="Succeeded", group="podgroup-u-train")
    assert decided(KUBERNETES, over, gang=gang(), group=group()) == ()


# Status

UNSCHEDULABLE = Condition(
    type="Unschedulable", status="True", reason="NotEnoughResources", message="2 Insufficient cpu"
)


def condition(own: PodGroup, before: Json | None = None, version: str = "v1alpha2") -> Json | None:
    """The condition that is written to a PodGroup of Kubernetes, None if nothing is."""
    status = {} if before is None else {"conditions": [before]}
    effects = decided(KUBERNETES, gang=gang(status=status), group=own, version=version)
    patches = [effect.status for effect in effects if isinstance(effect, PatchGangStatus)]
    return patches[0]["conditions"][-1] if patches else None


def test_a_pod_group_of_kubernetes_gets_the_condition_of_kube_scheduler() -> None:
    assert condition(group()) is None
    waiting = condition(group("Inqueue", UNSCHEDULABLE))
    assert waiting == {
        "type": "PodGroupScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "2 Insufficient cpu",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    scheduled = condition(group("Running"), waiting)
    assert scheduled is not None
    assert (scheduled["status"], scheduled["reason"]) == ("True", "Scheduled")
    assert KUBERNETES.versions[0] == "v1beta1"
    types = {version: condition(group("Running"), version=version) for version in KUBERNETES.versions}
    assert {version: it and it["type"] for version, it in types.items()} == {
        "v1beta1": "PodGroupInitiallyScheduled",
        "v1alpha3": "PodGroupInitiallyScheduled",
        "v1alpha2": "PodGroupScheduled",
    }


def test_the_condition_is_written_only_when_it_changes_and_stays_true() -> None:
    waiting = {
        "type": "PodGroupScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "2 Insufficient cpu",
    }
    waiting["lastTransitionTime"] = "2025-12-31T00:00:00Z"
    assert condition(group("Inqueue", UNSCHEDULABLE), waiting) is None
    other = msgspec.structs.replace(UNSCHEDULABLE, message="1 Insufficient cpu")
    changed = condition(group("Inqueue", other), waiting)
    assert changed == waiting | {"message": "1 Insufficient cpu"}
    scheduled = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""}
    assert condition(group("Pending", UNSCHEDULABLE), scheduled) is None


def test_conditions_of_others_are_kept() -> None:
    other = {"type": "DisruptionTarget", "status": "True"}
    effects = decided(KUBERNETES, gang=gang(status={"conditions": [other]}), group=group("Running"))
    assert [entry["type"] for entry in only(effects, PatchGangStatus).status["conditions"]] == [
        "DisruptionTarget",
        "PodGroupScheduled",
    ]


@pytest.mark.parametrize(
    ("phases", "phase", "counts"),
    [
        ((), "Pending", {}),
        (("Pending",), "Pending", {}),
        (("Pending", "Pending"), "Scheduling", {}),
        (("Running", "Pending"), "Scheduling", {"running": 1}),
        (("Running", "Running", "Pending"), "Running", {"running": 2}),
        (("Running", "Succeeded"), "Running", {"running": 1, "succeeded": 1}),
        (("Running", "Failed"), "Failed", {"running": 1, "failed": 1}),
        (("Succeeded", "Succeeded", "Failed"), "Finished", {"succeeded": 2, "failed": 1}),
    ],
)
def test_a_pod_group_of_the_coscheduling_plugin_gets_phase_and_counts(
    phases: tuple[str, ...], phase: str, counts: Json
) -> None:
    pods = [pod(f"p{number}", COSCHEDULING, phase=each) for number, each in enumerate(phases)]
    status = only(decided(COSCHEDULING, *pods, gang=gang(COSCHEDULING)), PatchGangStatus).status
    started = {} if phase == "Pending" else {"scheduleStartTime": "2026-01-01T00:00:00Z", "occupiedBy": "team/workers"}
    assert status == {"phase": phase} | counts | started
    again = decided(COSCHEDULING, *pods, gang=gang(COSCHEDULING, status=status))
    assert not any(isinstance(effect, PatchGangStatus) for effect in again)


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_a_final_phase_stays(phase: str) -> None:
    running = pod("a", COSCHEDULING, phase="Running", group="podgroup-u-train")
    effects = decided(COSCHEDULING, running, gang=gang(COSCHEDULING, status={"phase": phase}), group=group())
    assert not any(isinstance(effect, PatchGangStatus) for effect in effects)


def test_a_pod_that_fails_before_the_gang_is_complete_leaves_it_pending() -> None:
    """The controller of scheduler-plugins decides so as well."""
    failed = pod("a", COSCHEDULING, phase="Failed")
    assert only(decided(COSCHEDULING, failed, gang=gang(COSCHEDULING)), PatchGangStatus).status["phase"] == "Pending"
