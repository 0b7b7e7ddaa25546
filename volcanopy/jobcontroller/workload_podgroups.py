"""PodGroups for pods that are no job's: those of a Deployment, a StatefulSet, any other workload, and pods of their own.

Pods with the same controller share a PodGroup, a pod without one has its own; its name follows from the uid of that
owner, and it goes with it. A pod that names a PodGroup already is left alone: it brings its own.

The newest pod speaks for all: what it asks for, and what its annotations say, is what the pods to come will ask for, so a
rollout changes the group as soon as its first pod is there. How many pods must start at once the owner says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanopy.api import names
from volcanopy.api.core import Labels, Meta, OwnerReference, PodGroup, Quantities, ReadModel, ResourceRequirements
from volcanopy.api.model import Json
from volcanopy.jobcontroller.job_podgroup import exact, pod_usage, written
from volcanopy.jobcontroller.plan import RecordEvent

_HANDED_DOWN = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.SLA_WAITING_TIME)
_BUDGETS = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)
_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_ORIGIN = (names.SUBMITTED_BY, names.SUBMITTER_GROUPS)
"""Who asked for a pod, as admission has written it there. On a workload anybody could have written it."""
_SAID_BY_PODS = frozenset(
    {
        *_HANDED_DOWN,
        *_BUDGETS,
        *_ORIGIN,
        names.GROUP_NAME,
        names.POD_GROUP_NAME,
        names.POD_QUEUE_NAME,
        names.NETWORK_TOPOLOGY_MODE,
        names.NETWORK_TOPOLOGY_HIGHEST_TIER,
    }
)
_SAID_BY_OWNERS = frozenset({names.GROUP_MIN_MEMBER, names.POD_QUEUE_NAME})
_OVER = frozenset({"Succeeded", "Failed"})


class Part(ReadModel, frozen=True, kw_only=True, gc=False):
    """A container, as far as what it asks for goes."""

    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class LoosePodSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a pod asks for."""

    priority_class_name: str = ""
    containers: tuple[Part, ...] = ()
    init_containers: tuple[Part, ...] = ()
    overhead: Quantities = msgspec.field(default_factory=dict)
    resources: ResourceRequirements | None = None


class LoosePodStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """What became of a pod."""

    phase: str = ""


class LoosePod(ReadModel, frozen=True, kw_only=True, gc=False):
    """The part of a pod that its PodGroup follows from."""

    metadata: Meta
    spec: LoosePodSpec = LoosePodSpec()
    status: LoosePodStatus = LoosePodStatus()

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
    """What a workload says of its pods. ``replicas`` is None where nobody counts them."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    replicas: int | None = None


@dataclass(frozen=True)
class GroupObserved:
    """The pods of one owner, and their PodGroup if it exists. ``owner`` is None where it is gone; it takes all with it."""

    pods: tuple[LoosePod, ...] = ()
    owner: Owner | None = None
    group: PodGroup | None = None


@dataclass(frozen=True)
class MakeGroup:
    """Make a PodGroup; that it exists already is fine, if it is the owner's."""

    manifest: Json

    def __str__(self) -> str:
        return f"create podgroup {self.manifest['metadata']['name']}"


@dataclass(frozen=True)
class PatchGroup:
    """Change a PodGroup by a merge patch."""

    name: str
    patch: Json

    def __str__(self) -> str:
        parts = [*self.patch.get("spec", {}), *(key for key in self.patch.get("metadata", {}))]
        return f"update podgroup {self.name}: {', '.join(sorted(parts))}"


@dataclass(frozen=True)
class RemoveGroup:
    """Delete a PodGroup, if it is still the one with this uid."""

    name: str
    uid: str

    def __str__(self) -> str:
        return f"delete podgroup {self.name}"


@dataclass(frozen=True)
class JoinGroup:
    """Write into a pod which PodGroup it is of; refused if the pod has changed since it was looked at."""

    pod: str
    version: str
    group: str

    def __str__(self) -> str:
        return f"pod {self.pod} joins {self.group}"


GroupEffect = MakeGroup | PatchGroup | RemoveGroup | JoinGroup | RecordEvent


def owner_of(pod: LoosePod) -> OwnerReference:
    """The object that a pod's group is made for: its controller, or the pod itself."""
    return pod.metadata.controller or OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )


def group_name(owner: str) -> str:
    """The name of the PodGroup of an owner, by the owner's uid."""
    return f"podgroup-{owner}"


def is_ours(pod: LoosePod) -> bool:
    """Whether the pod has the group that we give it, or none yet."""
    return pod.group in {"", group_name(owner_of(pod).uid)}


def slim(pod: LoosePod) -> LoosePod:
    """A pod without annotations and labels that say nothing here."""
    meta = pod.metadata
    notes = {key: value for key, value in meta.annotations.items() if key in _SAID_BY_PODS}
    labels = {key: value for key, value in meta.labels.items() if key in _LABELS}
    if len(notes) == len(meta.annotations) and len(labels) == len(meta.labels):
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, annotations=notes, labels=labels))


def said_by_owner(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a workload that its PodGroup follows from."""
    return {
        key: value
        for key, value in annotations.items()
        if (_is_own(key) and key not in _ORIGIN) or key in _SAID_BY_OWNERS
    }


def reconcile_group(seen: GroupObserved) -> tuple[GroupEffect, ...]:
    """What to do for the pods of one owner."""
    group, owner = seen.group, seen.owner
    if owner is None or (group is not None and group.metadata.deletion_timestamp is not None):
        return ()
    living = [pod for pod in seen.pods if pod.lives]
    if not living:
        idle = owner.replicas == 0 and not seen.pods
        return (RemoveGroup(group.metadata.name, group.metadata.uid),) if group is not None and idle else ()
    newest = max(living, key=_age)
    told: list[RecordEvent] = []
    wanted = pod_group(newest, owner, told)
    effects: list[GroupEffect] = []
    if group is None:
        effects = [*told, MakeGroup(wanted)]
    elif patch := changes(wanted, group):
        effects = [*told, PatchGroup(group.metadata.name, patch)]
    name = wanted["metadata"]["name"]
    effects += [JoinGroup(pod.metadata.name, pod.metadata.resource_version, name) for pod in living if not pod.group]
    return tuple(effects)


def pod_group(pod: LoosePod, owner: Owner, told: list[RecordEvent]) -> Json:
    """The manifest of the PodGroup that a pod's like belong to; what is wrong with annotations is ``told``."""
    bare = pod.metadata.controller is None
    notes, said = pod.metadata.annotations, said_by_owner(owner.annotations)
    member = 1 if bare else _min_member(said, told)
    usage = {name: units * member for name, units in pod_usage(msgspec.to_builtins(pod.spec)).items()}
    spec: Json = {"minMember": member, "minResources": written({name: n for name, n in usage.items() if n})}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if queue := notes.get(names.POD_QUEUE_NAME) or said.get(names.POD_QUEUE_NAME):
        spec["queue"] = queue
    if topology := _topology(notes, told):
        spec["networkTopology"] = topology
    return {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "PodGroup",
        "metadata": {
            "name": group_name(owner_of(pod).uid),
            "namespace": pod.metadata.namespace,
            "labels": {key: pod.metadata.labels[key] for key in _LABELS if key in pod.metadata.labels},
            "annotations": _notes(notes, said),
            "ownerReferences": [_reference(one) for one in (pod.metadata.owner_references if not bare else ())]
            or [_reference(owner_of(pod))],
        },
        "spec": spec,
    }


def _min_member(said: Mapping[str, str], told: list[RecordEvent]) -> int:
    text = said.get(names.GROUP_MIN_MEMBER)
    if text is None:
        return 1
    if not (text.isascii() and text.isdecimal() and int(text) < 2**31):
        told.append(
            RecordEvent(
                "Warning",
                "InvalidAnnotation",
                f"{names.GROUP_MIN_MEMBER} is {text!r} on the workload of this pod, which is no number of pods: 1 is taken",
            )
        )
        return 1
    return int(text)


def _topology(notes: Mapping[str, str], told: list[RecordEvent]) -> Json | None:
    mode, tier = notes.get(names.NETWORK_TOPOLOGY_MODE), notes.get(names.NETWORK_TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    made: Json = {"mode": "hard"}
    if mode is not None and mode.lower() in {"hard", "soft"}:
        made["mode"] = mode.lower()
    elif mode is not None:
        says = f"{names.NETWORK_TOPOLOGY_MODE} is {mode!r}, not hard or soft: hard is taken"
        told.append(RecordEvent("Warning", "InvalidAnnotation", says))
    if tier is not None and tier.isascii() and tier.isdecimal() and int(tier) < 2**31:
        made["highestTierAllowed"] = int(tier)
    elif tier is not None:
        says = f"{names.NETWORK_TOPOLOGY_HIGHEST_TIER} is {tier!r}, which is no tier's number: any tier is taken"
        told.append(RecordEvent("Warning", "InvalidAnnotation", says))
    return made


def _notes(of_pod: Mapping[str, str], of_owner: Mapping[str, str]) -> Labels:
    """The group's annotations: what the owner says, and what the pod says otherwise."""
    made = {key: value for key, value in of_owner.items() if _is_own(key)}
    made |= {key: of_pod[key] for key in (*_HANDED_DOWN, *_ORIGIN) if key in of_pod}
    if budget := next((key for key in _BUDGETS if key in of_pod), ""):
        made = {key: value for key, value in made.items() if key not in _BUDGETS} | {budget: of_pod[budget]}
    return made


def changes(wanted: Json, group: PodGroup) -> Json:
    """The merge patch that brings a PodGroup to what is wanted; empty if nothing differs.

    A queue that neither pod nor owner names is not ours to choose. Of the annotations, those with our own prefix follow, but
    for who asked for it: that stays.
    """
    want = msgspec.convert({"metadata": {}, "spec": wanted["spec"]}, PodGroup).spec
    have, spec = group.spec, wanted["spec"]
    patch: Json = {}
    for key, after, before in (
        ("minMember", want.min_member, have.min_member),
        ("priorityClassName", want.priority_class_name, have.priority_class_name),
        ("networkTopology", want.network_topology, have.network_topology),
        ("queue", want.queue or have.queue, have.queue),
    ):
        if after != before:
            patch[key] = spec.get(key)
    if isinstance(patch.get("networkTopology"), dict):
        patch["networkTopology"] = {"highestTierAllowed": None} | patch["networkTopology"]
    if exact(want.min_resources) != exact(have.min_resources):
        patch["minResources"] = dict.fromkeys(have.min_resources or {}) | spec["minResources"]
    meta = {
        "annotations": _differences(
            _without_origin(wanted["metadata"]["annotations"]),
            {key: value for key, value in _without_origin(group.metadata.annotations).items() if _is_own(key)},
        ),
        "labels": _differences(
            wanted["metadata"]["labels"],
            {key: value for key, value in group.metadata.labels.items() if key in _LABELS},
        ),
    }
    changed = {key: value for key, value in meta.items() if value}
    return ({"spec": patch} if patch else {}) | ({"metadata": changed} if changed else {})


def _is_own(key: str) -> bool:
    return key.startswith(names.OWN_PREFIX)


def _without_origin(notes: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in notes.items() if key not in _ORIGIN}


def _differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, Any]:
    gone: dict[str, Any] = dict.fromkeys(sorted(found.keys() - wanted.keys()))
    return gone | {key: value for key, value in wanted.items() if found.get(key) != value}


def _reference(owner: OwnerReference) -> Json:
    made: Json = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return made | ({"controller": True} if owner.controller else {})


def _age(pod: LoosePod) -> tuple[float, str]:
    made = pod.metadata.creation_timestamp
    return (made.timestamp() if made else 0.0, pod.metadata.name)


def speaks_anew(before: LoosePod, after: LoosePod) -> bool:
    """Whether a pod says something else now, but for the group that it names."""
    return before.metadata.labels != after.metadata.labels or _words(before) != _words(after)


def _words(pod: LoosePod) -> dict[str, str]:
    names_group = {names.GROUP_NAME, names.POD_GROUP_NAME}
    return {key: value for key, value in pod.metadata.annotations.items() if key not in names_group}
