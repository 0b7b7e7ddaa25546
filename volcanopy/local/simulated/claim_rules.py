"""The rules behind claims on an embedded cluster, as functions of objects: which volume, which claims, what they look like."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from volcanopy.api import storage
from volcanopy.kube.apply.claim_writer import BOUND_BY_CONTROLLER, PROTECTION
from volcanopy.kube.client.kinds import Json
from volcanopy.scheduler.filters.volumes import volume_matching
from volcanopy.scheduler.model.claim_tables import size

__all__ = ["PROTECTION"]

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def is_over(pod: Json) -> bool:
    """Whether a pod has run to its end."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def claims_anything(pod: Json) -> bool:
    """Whether a pod has claims made for it, or uses claims on devices."""
    spec = pod["spec"]
    return bool(spec.get("resourceClaims")) or any("ephemeral" in one for one in spec.get("volumes") or ())


# Volumes


def set_apart(claim: Json, volumes: Iterable[Json]) -> Json | None:
    """The volume that names this claim as the one that it is for."""
    wanted = msgspec.convert(claim, storage.PersistentVolumeClaim)
    for volume in volumes:
        read = msgspec.convert(volume, storage.PersistentVolume)
        if volume_matching.is_for(read, wanted) and volume_matching.is_large_enough(read, wanted):
            return volume
    return None


def best(claim: Json, volumes: Iterable[Json]) -> Json | None:
    """The smallest open volume that suits a claim."""
    wanted = msgspec.convert(claim, storage.PersistentVolumeClaim)
    found = []
    for volume in volumes:
        read = msgspec.convert(volume, storage.PersistentVolume)
        is_open = read.spec.claim_ref is None and read.status.phase == "Available"
        same = read.spec.storage_class_name == wanted.spec.storage_class_name
        if is_open and same and volume_matching.suits(read, wanted):
            found.append((size(read), read.metadata.name, volume))
    return min(found, key=lambda one: one[:2])[2] if found else None


def new_volume(claim: Json, made_by: Json) -> Json:
    """The volume that a provisioner makes for a claim: it can be used from every node."""
    name = f"pvc-{claim['metadata']['uid']}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: made_by["provisioner"]}},
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "storageClassName": made_by["metadata"]["name"],
            "persistentVolumeReclaimPolicy": made_by.get("reclaimPolicy", "Delete"),
            "claimRef": _reference(claim),
            "csi": {"driver": made_by["provisioner"], "volumeHandle": name},
        },
    }


def _reference(claim: Json) -> Json:
    meta = claim["metadata"]
    named = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **named}


def claimed_by(volume: Json, claim: Json) -> Json:
    """The patch that gives a volume to a claim, if nobody has written it in between."""
    meta: Json = {"resourceVersion": volume["metadata"]["resourceVersion"]}
    if not (volume["spec"].get("claimRef") or {}).get("uid"):
        meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return {"metadata": meta, "spec": {"claimRef": _reference(claim)}}


def bound_to(claim: Json, volume: Json) -> Json:
    """The patch that gives a claim its volume."""
    notes = {BIND_COMPLETED: "yes"}
    if not claim["spec"].get("volumeName"):
        notes[BOUND_BY_CONTROLLER] = "yes"
    meta = {"uid": claim["metadata"]["uid"], "annotations": notes}
    return {"metadata": meta, "spec": {"volumeName": volume["metadata"]["name"]}}


def bound_status(volume: Json) -> Json:
    """The status of a claim that has its volume."""
    spec = volume["spec"]
    return {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}


# Pods


def _owner(pod: Json) -> Json:
    meta = pod["metadata"]
    named = {"name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": "v1", "kind": "Pod", **named, "controller": True, "blockOwnerDeletion": True}


def ephemeral_claims(pod: Json) -> Iterator[Json]:
    """The claims of a pod's ephemeral volumes."""
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            meta: dict[str, Any] = {**(template.get("metadata") or {})}
            meta |= {"name": f"{pod['metadata']['name']}-{volume['name']}", "ownerReferences": [_owner(pod)]}
            yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": template["spec"]}


def wanted_templates(pod: Json) -> Iterator[tuple[str, str]]:
    """The templates from which claims are still to be made, by what the pod calls the claim."""
    known = {one["name"] for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        if claim.get("resourceClaimTemplateName") and claim["name"] not in known:
            yield claim["name"], claim["resourceClaimTemplateName"]


def from_template(pod: Json, name: str, template: Json) -> Json:
    """The claim that a pod has from a template."""
    said = template["spec"]
    meta: dict[str, Any] = {**(said.get("metadata") or {}), "ownerReferences": [_owner(pod)]}
    meta["name"] = f"{pod['metadata']['name']}-{name}-{pod['metadata']['uid'][:5]}"
    meta["annotations"] = {**(meta.get("annotations") or {}), "resource.kubernetes.io/pod-claim-name": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": said["spec"]}


def device_claims(pod: Json) -> Iterator[str]:
    """The keys of the claims on devices that a pod uses."""
    namespace = pod["metadata"]["namespace"]
    for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if one.get("resourceClaimName"):
            yield f"{namespace}/{one['resourceClaimName']}"
    for one in pod["spec"].get("resourceClaims") or ():
        if one.get("resourceClaimName"):
            yield f"{namespace}/{one['resourceClaimName']}"
