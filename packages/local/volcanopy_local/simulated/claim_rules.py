"""Rules of the claim controller: matching volumes, patches of a binding, claims from templates."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from volcanopy.api.builtin import storage
from volcanopy.api.decoding import convert
from volcanopy.kube.client.kinds import Json
from volcanopy.scheduler.model.claim_tables import size
from volcanopy.scheduler.nodes.volumes import volume_matching
from volcanopy.services.scheduler.writers.claim_writer import BOUND_BY_CONTROLLER

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def has_ended(pod: Json) -> bool:
    """Return whether a pod has ended."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def claims_anything(pod: Json) -> bool:
    """Return whether a pod has ephemeral volumes or resource claims."""
    spec = pod["spec"]
    return bool(spec.get("resourceClaims")) or any("ephemeral" in volume for volume in spec.get("volumes") or ())


# Volumes


def _readable(volumes: Iterable[Json]) -> Iterator[tuple[Json, storage.PersistentVolume]]:
    """Yield the volumes with their read models; one without a required field, which a real server rejects, matches no claim."""
    for volume in volumes:
        with contextlib.suppress(msgspec.ValidationError):
            yield volume, convert(volume, storage.PersistentVolume)


def reserved_for(claim: Json, volumes: Iterable[Json]) -> Json | None:
    """Return the volume whose claimRef is this claim."""
    target = convert(claim, storage.PersistentVolumeClaim)
    for volume, read in _readable(volumes):
        if volume_matching.is_for(read, target) and volume_matching.is_large_enough(read, target):
            return volume
    return None


def smallest_match(claim: Json, volumes: Iterable[Json]) -> Json | None:
    """Return the smallest available volume that matches a claim."""
    target = convert(claim, storage.PersistentVolumeClaim)
    matches = []
    for volume, read in _readable(volumes):
        is_open = read.spec.claim_ref is None and read.status.phase == "Available"
        same = read.spec.storage_class_name == target.spec.storage_class_name
        if is_open and same and volume_matching.suits(read, target):
            matches.append((size(read), read.metadata.name, volume))
    return min(matches, key=lambda match: match[:2])[2] if matches else None


def new_volume(claim: Json, storage_class: Json) -> Json:
    """Return the volume that a provisioner creates for a claim, usable from every node."""
    name, spec = f"pvc-{claim['metadata']['uid']}", claim["spec"]
    requests = (spec.get("resources") or {}).get("requests") or {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: storage_class["provisioner"]}},
        "spec": {
            "capacity": {"storage": requests.get("storage", "0")},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "storageClassName": storage_class["metadata"]["name"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "claimRef": _reference(claim),
            "csi": {"driver": storage_class["provisioner"], "volumeHandle": name},
        },
    }


def _reference(claim: Json) -> Json:
    meta = claim["metadata"]
    reference = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}


def claimed_by(volume: Json, claim: Json) -> Json:
    """Return the patch that binds a volume to a claim, for this version of the volume."""
    meta: Json = {"resourceVersion": volume["metadata"]["resourceVersion"]}
    if not (volume["spec"].get("claimRef") or {}).get("uid"):
        meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return {"metadata": meta, "spec": {"claimRef": _reference(claim)}}


def bound_to(claim: Json, volume: Json) -> Json:
    """Return the patch that binds a claim to a volume."""
    notes = {BIND_COMPLETED: "yes"}
    if not claim["spec"].get("volumeName"):
        notes[BOUND_BY_CONTROLLER] = "yes"
    meta = {"uid": claim["metadata"]["uid"], "annotations": notes}
    return {"metadata": meta, "spec": {"volumeName": volume["metadata"]["name"]}}


def bound_status(volume: Json) -> Json:
    """Return the status of a bound claim."""
    spec = volume["spec"]
    return {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}


# Pods


def _owner(pod: Json) -> Json:
    meta = pod["metadata"]
    reference = {"name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": "v1", "kind": "Pod", **reference, "controller": True, "blockOwnerDeletion": True}


def ephemeral_claims(pod: Json) -> Iterator[Json]:
    """Yield the claims of a pod's ephemeral volumes."""
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            meta: dict[str, Any] = {**(template.get("metadata") or {})}
            meta |= {"name": f"{pod['metadata']['name']}-{volume['name']}", "ownerReferences": [_owner(pod)]}
            yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": template["spec"]}


def pending_templates(pod: Json) -> Iterator[tuple[str, str]]:
    """Yield claim name and template of each ResourceClaim that a pod lacks."""
    claim_names = {entry["name"] for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        if claim.get("resourceClaimTemplateName") and claim["name"] not in claim_names:
            yield claim["name"], claim["resourceClaimTemplateName"]


def from_template(pod: Json, name: str, template: Json) -> Json:
    """Return the ResourceClaim of a pod from a template."""
    spec = template["spec"]
    meta: dict[str, Any] = {**(spec.get("metadata") or {}), "ownerReferences": [_owner(pod)]}
    meta["name"] = f"{pod['metadata']['name']}-{name}-{pod['metadata']['uid'][:5]}"
    meta["annotations"] = {**(meta.get("annotations") or {}), "resource.kubernetes.io/pod-claim-name": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec["spec"]}


def device_claims(pod: Json) -> Iterator[str]:
    """Yield the keys of the ResourceClaims that a pod uses."""
    namespace = pod["metadata"]["namespace"]
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    for entry in (*statuses, *(pod["spec"].get("resourceClaims") or ())):
        if entry.get("resourceClaimName"):
            yield f"{namespace}/{entry['resourceClaimName']}"
