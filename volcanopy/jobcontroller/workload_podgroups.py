"""PodGroups of pods that belong to no job: pods of Deployments, StatefulSets and other workloads, and single pods.

Pods with the same controller share a PodGroup, a pod without one has its own. The name contains the UID of the owner, which
owns the PodGroup. A pod that names a PodGroup keeps it.

The newest pod determines requests and annotations of the PodGroup, so that a rollout changes it with its first pod. The
minimum number of pods comes from the owner.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from volcanopy.api import names
from volcanopy.api.core import Labels, Meta, OwnerReference, PodGroup, Quantities, ReadModel, ResourceRequirements
from volcanopy.api.gang_apis import GANG_APIS, GangApi
from volcanopy.api.model import Json
from volcanopy.jobcontroller.job_podgroup import pod_usage, spec_changes, written
from volcanopy.jobcontroller.jobset_podgroups import UID_LABEL, JobSetGang
from volcanopy.jobcontroller.observed import age
from volcanopy.jobcontroller.plan import CreatePodGroup, DeletePodGroup, RecordEvent, UpdatePodGroup

_INHERITED = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.SLA_WAITING_TIME)
_BUDGETS = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)
_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_ORIGIN = (names.SUBMITTED_BY, names.SUBMITTER_GROUPS)
"""Submitter of a pod, set by admission. On a workload it is not trusted."""
_POD_ANNOTATIONS = frozenset(
    {
        *_INHERITED,
        *_BUDGETS,
        *_ORIGIN,
        names.GROUP_NAME,
        names.POD_GROUP_NAME,
        names.POD_QUEUE_NAME,
        names.NETWORK_TOPOLOGY_MODE,
        names.NETWORK_TOPOLOGY_HIGHEST_TIER,
        *(api.annotation for api in GANG_APIS.values()),
    }
)
_POD_LABELS = frozenset({*_LABELS, UID_LABEL, *(api.label for api in GANG_APIS.values())})
_OWNER_ANNOTATIONS = frozenset({names.GROUP_MIN_MEMBER, names.POD_QUEUE_NAME})
ALL = "all"
"""Value of the annotation for the size of the gang: all pods that the workload runs at once."""
_OVER = frozenset({"Succeeded", "Failed"})


class ContainerAmounts(ReadModel, frozen=True, kw_only=True, gc=False):
    """Resources of a container."""

    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class SchedulingGroup(ReadModel, frozen=True, kw_only=True, gc=False):
    """The PodGroup of Kubernetes' API that a pod belongs to."""

    pod_group_name: str = ""


class WorkloadPodSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Resources of a pod, and the PodGroup of Kubernetes' API that it names."""

    priority_class_name: str = ""
    containers: tuple[ContainerAmounts, ...] = ()
    init_containers: tuple[ContainerAmounts, ...] = ()
    overhead: Quantities = msgspec.field(default_factory=dict)
    resources: ResourceRequirements | None = None
    scheduling_group: SchedulingGroup | None = None


class WorkloadPodStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Phase of a pod."""

    phase: str = ""


class WorkloadPod(ReadModel, frozen=True, kw_only=True, gc=False):
    """The fields of a pod that determine its PodGroup."""

    metadata: Meta
    spec: WorkloadPodSpec = WorkloadPodSpec()
    status: WorkloadPodStatus = WorkloadPodStatus()

    @property
    def group(self) -> str:
        """The PodGroup that the pod names; empty if it names none."""
        return self.metadata.annotations.get(names.GROUP_NAME) or self.metadata.annotations.get(
            names.POD_GROUP_NAME, ""
        )

    @property
    def lives(self) -> bool:
        """Whether the pod has not ended and is not on its way out."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in _OVER


@dataclass(frozen=True)
class Owner:
    """Annotations of a workload; its replicas, and the pods that it runs at once, None if it does not state them.

    ``gang`` is that of the JobSet of a Job.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    replicas: int | None = None
    at_once: int | None = None
    completions: int | None = None
    succeeded: int = 0
    gang: JobSetGang | None = None

    @property
    def group(self) -> str:
        """The PodGroup of the gang that the pods join, empty if they get that of the workload itself."""
        return self.gang.name if self.gang is not None and not self.gang.problem else ""


@dataclass(frozen=True)
class GroupObserved:
    """The pods of one owner, and their PodGroup if it exists. ``owner`` is None where it is gone; it takes all with it."""

    pods: tuple[WorkloadPod, ...] = ()
    owner: Owner | None = None
    group: PodGroup | None = None


@dataclass(frozen=True)
class JoinGroup:
    """Annotate a pod with its PodGroup; rejected if the pod has changed since it was read."""

    pod: str
    version: str
    group: str

    def __str__(self) -> str:
        return f"pod {self.pod} joins {self.group}"


GroupEffect = CreatePodGroup | UpdatePodGroup | DeletePodGroup | JoinGroup | RecordEvent


def owner_of(pod: WorkloadPod) -> OwnerReference:
    """The object that a pod's group is made for: its controller, or the pod itself."""
    return pod.metadata.controller or OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )


def group_name(owner: str) -> str:
    """The name of the PodGroup of an owner, by the owner's uid."""
    return names.workload_group(owner)


def is_ours(pod: WorkloadPod) -> bool:
    """Whether the pod has the group that we give it, that of its owner or of its JobSet, or none yet."""
    return pod.group in {"", group_name(owner_of(pod).uid), group_name(pod.metadata.labels.get(UID_LABEL, ""))}


def gang_of(pod: WorkloadPod, apis: Iterable[GangApi]) -> tuple[GangApi, str] | None:
    """Return the gang API and the name of the PodGroup that the pod names there; None if it names none.

    A pod that has the PodGroup of its owner keeps it.
    """
    if pod.group and is_ours(pod):
        return None
    meta, in_spec = pod.metadata, pod.spec.scheduling_group
    for api in apis:
        name = in_spec.pod_group_name if api.in_spec and in_spec is not None else ""
        name = name or meta.labels.get(api.label, "") or meta.annotations.get(api.annotation, "")
        if name:
            return api, name
    return None


def slim(pod: WorkloadPod) -> WorkloadPod:
    """Return a pod with only the annotations and labels that determine its PodGroup."""
    meta = pod.metadata
    notes = {key: value for key, value in meta.annotations.items() if key in _POD_ANNOTATIONS}
    labels = {key: value for key, value in meta.labels.items() if key in _POD_LABELS}
    if len(notes) == len(meta.annotations) and len(labels) == len(meta.labels):
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, annotations=notes, labels=labels))


def group_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a workload that determine its PodGroup."""
    return {
        key: value
        for key, value in annotations.items()
        if (_is_own(key) and key not in _ORIGIN) or key in _OWNER_ANNOTATIONS
    }


def reconcile_group(seen: GroupObserved) -> tuple[GroupEffect, ...]:
    """What to do for the pods of one owner."""
    group, owner = seen.group, seen.owner
    if owner is None or (group is not None and group.metadata.deletion_timestamp is not None):
        return ()
    living = [pod for pod in seen.pods if pod.lives]
    if not living:
        idle = owner.replicas == 0 and not seen.pods
        return (DeletePodGroup(group.metadata.name, group.metadata.uid),) if group is not None and idle else ()
    if owner.completions and owner.at_once is not None:  # succeeded pods count for the minimum as long as they exist
        successes = max(owner.succeeded - sum(pod.status.phase == "Succeeded" for pod in seen.pods), 0)
        owner = replace(owner, at_once=min(owner.at_once, max(owner.completions - successes, 1)))
    newest = max(living, key=lambda pod: age(pod.metadata))
    events: list[RecordEvent] = []
    if owner.gang is not None and owner.group:
        desired = with_submitter(owner.gang.manifest, newest)
    else:
        desired = pod_group(newest, owner, events)
        if owner.gang is not None:
            events.append(RecordEvent("Warning", "InvalidAnnotation", owner.gang.problem))
    return effects_of(desired, group, living, events)


def effects_of(
    desired: Json, group: PodGroup | None, living: Sequence[WorkloadPod], events: Sequence[RecordEvent]
) -> tuple[GroupEffect, ...]:
    """Return what makes a PodGroup as desired, with its events, and the pods without a group its members."""
    effects: list[GroupEffect] = []
    name = desired["metadata"]["name"]
    if not any(pod.group in {"", name} for pod in living):
        return ()  # their JobSet is no gang any more, or gone
    if group is None:
        effects = [*events, CreatePodGroup(desired)]
    elif patch := changes(desired, group):
        effects = [*events, UpdatePodGroup(group.metadata.name, patch)]
    effects += [JoinGroup(pod.metadata.name, pod.metadata.resource_version, name) for pod in living if not pod.group]
    return tuple(effects)


def pod_group(pod: WorkloadPod, owner: Owner, events: list[RecordEvent]) -> Json:
    """Return the manifest of the PodGroup of a pod and its siblings; invalid annotations are added to ``events``."""
    bare = pod.metadata.controller is None
    notes, own = pod.metadata.annotations, group_annotations(owner.annotations)
    member = 1 if bare else _min_member(own, owner.at_once, events)
    usage = {name: units * member for name, units in usage_of(pod).items()}
    spec: Json = {"minMember": member, "minResources": written({name: n for name, n in usage.items() if n})}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if queue := notes.get(names.POD_QUEUE_NAME) or own.get(names.POD_QUEUE_NAME):
        spec["queue"] = queue
    if topology := _topology(notes, events):
        spec["networkTopology"] = topology
    return {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "PodGroup",
        "metadata": {
            "name": group_name(owner_of(pod).uid),
            "namespace": pod.metadata.namespace,
            "labels": {key: pod.metadata.labels[key] for key in _LABELS if key in pod.metadata.labels},
            "annotations": _notes(notes, own),
            "ownerReferences": [
                _reference(reference) for reference in (pod.metadata.owner_references if not bare else ())
            ]
            or [_reference(owner_of(pod))],
        },
        "spec": spec,
    }


def with_submitter(manifest: Json, pod: WorkloadPod) -> Json:
    """Return the manifest of a PodGroup with the submitter of a pod."""
    origin = {key: pod.metadata.annotations[key] for key in _ORIGIN if key in pod.metadata.annotations}
    metadata = manifest["metadata"]
    return manifest | {"metadata": metadata | {"annotations": metadata["annotations"] | origin}}


def usage_of(pod: WorkloadPod) -> dict[str, int]:
    """Return the usage that a ResourceQuota counts for the pod, in base units."""
    return pod_usage(msgspec.to_builtins(pod.spec))


def _min_member(own: Mapping[str, str], at_once: int | None, events: list[RecordEvent]) -> int:
    """Return how many pods start together: at most those that exist at once, for a new ReplicaSet in a rollout too."""
    text = own.get(names.GROUP_MIN_MEMBER)
    if text is None:
        return 1
    if text == ALL and at_once is not None:
        return max(at_once, 1)
    if not (text.isascii() and text.isdecimal() and int(text) < 2**31):
        events.append(
            RecordEvent(
                "Warning",
                "InvalidAnnotation",
                f'annotation {names.GROUP_MIN_MEMBER} of the workload: Invalid value: "{text}": must be an integer, '
                'or "all" for a workload with spec.replicas or spec.parallelism; using 1',
            )
        )
        return 1
    return int(text) if at_once is None else min(int(text), max(at_once, 1))


def _topology(notes: Mapping[str, str], events: list[RecordEvent]) -> Json | None:
    mode, tier = notes.get(names.NETWORK_TOPOLOGY_MODE), notes.get(names.NETWORK_TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    made: Json = {"mode": "hard"}
    if mode is not None and mode.lower() in {"hard", "soft"}:
        made["mode"] = mode.lower()
    elif mode is not None:
        message = f'annotation {names.NETWORK_TOPOLOGY_MODE}: Invalid value: "{mode}": must be hard or soft, using hard'
        events.append(RecordEvent("Warning", "InvalidAnnotation", message))
    if tier is not None and tier.isascii() and tier.isdecimal() and int(tier) < 2**31:
        made["highestTierAllowed"] = int(tier)
    elif tier is not None:
        message = (
            f'annotation {names.NETWORK_TOPOLOGY_HIGHEST_TIER}: Invalid value: "{tier}": must be a tier number, ignored'
        )
        events.append(RecordEvent("Warning", "InvalidAnnotation", message))
    return made


def _notes(of_pod: Mapping[str, str], of_owner: Mapping[str, str]) -> Labels:
    """Return the annotations of the group: those of the owner, overridden by those of the pod."""
    made = {key: value for key, value in of_owner.items() if _is_own(key)}
    made |= {key: of_pod[key] for key in (*_INHERITED, *_ORIGIN) if key in of_pod}
    if budget := next((key for key in _BUDGETS if key in of_pod), ""):
        made = {key: value for key, value in made.items() if key not in _BUDGETS} | {budget: of_pod[budget]}
    return made


def changes(desired: Json, group: PodGroup) -> Json:
    """Return the merge patch from a PodGroup to the desired one; empty if nothing differs.

    The queue is unchanged if neither pod nor owner names one. Annotations with volcanopy's prefix are updated, except the
    submitter.
    """
    keys = ("minMember", "priorityClassName", "networkTopology", "minResources", "queue")
    patch = spec_changes(desired["spec"], group, keys if desired["spec"].get("queue") else keys[:-1])
    meta = {
        "annotations": _differences(
            _without_origin(desired["metadata"]["annotations"]),
            {key: value for key, value in _without_origin(group.metadata.annotations).items() if _is_own(key)},
        ),
        "labels": _differences(
            desired["metadata"]["labels"],
            {key: value for key, value in group.metadata.labels.items() if key in _LABELS},
        ),
    }
    changed = {key: value for key, value in meta.items() if value}
    return ({"spec": patch} if patch else {}) | ({"metadata": changed} if changed else {})


def _is_own(key: str) -> bool:
    return key.startswith(names.OWN_PREFIX)


def _without_origin(notes: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in notes.items() if key not in _ORIGIN}


def _differences(desired: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, Any]:
    gone: dict[str, Any] = dict.fromkeys(sorted(existing.keys() - desired.keys()))
    return gone | {key: value for key, value in desired.items() if existing.get(key) != value}


def _reference(owner: OwnerReference) -> Json:
    made: Json = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return made | ({"controller": True} if owner.controller else {})


def changes_group(before: WorkloadPod, after: WorkloadPod) -> bool:
    """Return whether a change of a pod may change its PodGroup."""
    return before.metadata.labels != after.metadata.labels or _own_annotations(before) != _own_annotations(after)


def _own_annotations(pod: WorkloadPod) -> dict[str, str]:
    names_group = {names.GROUP_NAME, names.POD_GROUP_NAME}
    return {key: value for key, value in pod.metadata.annotations.items() if key not in names_group}
