"""What a workload controller does next: writes as data, and the facts about pods that they follow from. Pure."""

import copy
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from volcanopy.kube.client.kinds import Json


@dataclass(frozen=True)
class ObjectCreation:
    """Create an object of this kind; one that exists already is left alone."""

    kind: str
    body: Json


@dataclass(frozen=True)
class ObjectDeletion:
    """Delete the object with this uid."""

    kind: str
    body: Json


@dataclass(frozen=True)
class Update:
    """Merge a patch into an object."""

    kind: str
    body: Json
    patch: Json


@dataclass(frozen=True)
class SetStatus:
    """Replace fields of the status of the workload."""

    status: Json


Effect = ObjectCreation | ObjectDeletion | Update | SetStatus


def owner_reference(owner: Json) -> Json:
    """The controller reference to an object."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(owner: Json, objects: Iterable[Json]) -> list[Json]:
    """The objects whose controller is the owner, by name."""
    uid = owner["metadata"]["uid"]
    matching = [item for item in objects if controller_uid(item) == uid]
    return sorted(matching, key=lambda item: str(item["metadata"]["name"]))


def controller_uid(item: Json) -> str:
    """The uid of the object's controller, empty without one."""
    references: Sequence[Json] = item["metadata"].get("ownerReferences") or ()
    return next((str(reference["uid"]) for reference in references if reference.get("controller")), "")


def from_template(owner: Json, template: Json, *, labels: Json | None = None, **metadata: Any) -> Json:
    """A pod of a template with the owner's namespace, and with its own name or generateName in `metadata`."""
    body = copy.deepcopy({"metadata": template.get("metadata") or {}, "spec": template["spec"]})
    meta: Json = body["metadata"]
    meta |= metadata | {"namespace": owner["metadata"]["namespace"], "ownerReferences": [owner_reference(owner)]}
    if labels:
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
    return body


def is_active(pod: Json) -> bool:
    """Whether the pod counts as a replica: neither ended nor being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and not has_ended(pod)


def has_ended(pod: Json) -> bool:
    """Whether the phase of the pod is final."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def is_ready(pod: Json) -> bool:
    """Whether the pod's condition Ready is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def template_hash(template: Json) -> str:
    """A short name for the content of a pod template, in which null and absent fields are the same."""
    return hashlib.sha256(msgspec.json.encode(_without_nulls(template), order="sorted")).hexdigest()[:10]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def changed(workload: Json, status: Json) -> list[Effect]:
    """The status as an effect, if a field of it differs."""
    before = workload.get("status") or {}
    return [SetStatus(status)] if any(before.get(key) != value for key, value in status.items()) else []


REVISION = "controller-revision-hash"
"""The label of pods with the hash of the template that they were made from."""


def revision_of(pod: Json) -> str:
    """The hash of the template that a pod was made from."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION, ""))
