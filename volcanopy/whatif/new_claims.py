"""Claims of new jobs and pods, as the API server and the controllers of claims complete them.

1. A volume claim that names no class gets the default class: the newest one, of equals the first by name.
2. If its class provisions volumes at once, it is bound to a new volume, of the topologies that the class allows.
3. Each pod gets claims from the templates that it has or names.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from volcanopy.api.builtin import storage
from volcanopy.api.model import Json
from volcanopy.whatif import kinds
from volcanopy.whatif.cluster import Cluster

IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def create_claim(cluster: Cluster, manifest: Json) -> None:
    """Insert a volume claim, with the volume that is provisioned for it at once. Raises ManifestError."""
    for body in completed(cluster, manifest):
        cluster.put_manifest(body)


def completed(cluster: Cluster, manifest: Json) -> list[Json]:
    """Return a volume claim, after the volume that is provisioned for it at once, if one is. Raises ManifestError."""
    metadata = manifest["metadata"]
    try:
        claim = kinds.read(manifest, kinds.BY_MODEL[storage.PersistentVolumeClaim])
    except kinds.ManifestError as error:
        raise kinds.ManifestError(f'PersistentVolumeClaim "{metadata["name"]}": {error}') from None
    spec = dict(manifest.get("spec") or {})
    if spec.get("storageClassName") is None:
        spec["storageClassName"] = _default_class(cluster)
    storage_class = cluster.of_kind("StorageClass").get(spec["storageClassName"])
    status: Json = {"phase": "Pending"}
    volumes: list[Json] = []
    if storage_class is not None and storage_class.provisions and not storage_class.waits:
        spec["volumeName"], status = f"pvc-{metadata['uid']}", {"phase": "Bound"}
        volume: Json = {
            "capacity": dict(claim.spec.resources.requests),
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": claim.spec.volume_mode,
            "storageClassName": spec["storageClassName"],
            "claimRef": {key: metadata[key] for key in ("name", "namespace", "uid")},
        }
        terms = [{"matchExpressions": list(_expressions(term))} for term in storage_class.allowed_topologies]
        if terms:
            volume["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": spec["volumeName"]}}
        volumes.append(body | {"spec": volume, "status": status})
    return [*volumes, manifest | {"spec": spec, "status": status}]


def create_claims_of_pod(cluster: Cluster, pod: Json) -> None:
    """Insert the claims that are made from the templates of a pod, which is in the cluster. Raises ManifestError."""
    spec, metadata = pod["spec"], pod["metadata"]
    for volume in spec.get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if isinstance(template, dict):
            create_claim(cluster, _of_pod(metadata, "v1", "PersistentVolumeClaim", volume["name"], template))
    statuses = []
    for claim in spec.get("resourceClaims") or ():
        key = f"{metadata['namespace']}/{claim.get('resourceClaimTemplateName')}"
        template = cluster.objects.get(("ResourceClaimTemplate", key))
        if template is not None:
            body = _of_pod(metadata, template["apiVersion"], "ResourceClaim", claim["name"], template.get("spec"))
            cluster.put_manifest(body)
            statuses.append({"name": claim["name"], "resourceClaimName": body["metadata"]["name"]})
    if statuses:
        cluster.put_manifest(pod | {"status": pod.get("status", {}) | {"resourceClaimStatuses": statuses}})


def _of_pod(pod: Json, api_version: str, kind: str, name: str, template: Any) -> Json:
    """Return a claim that is made from a template for the pod with this metadata."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"], "controller": True}
    metadata = {"name": f"{pod['name']}-{name}", "namespace": pod["namespace"], "uid": f"{pod['uid']}-{name}"}
    spec = template.get("spec") if isinstance(template, dict) else None
    metadata |= {"ownerReferences": [owner]}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def _default_class(cluster: Cluster) -> str:
    """Return the name of the default class, empty without any."""
    classes: dict[str, storage.StorageClass] = cluster.of_kind("StorageClass")
    defaults = [item.metadata for item in classes.values() if item.metadata.annotations.get(IS_DEFAULT) == "true"]
    earliest = datetime.min.replace(tzinfo=UTC)
    newest = max((item.creation_timestamp or earliest for item in defaults), default=earliest)
    return next((item.name for item in defaults if (item.creation_timestamp or earliest) == newest), "")


def _expressions(term: storage.TopologyTerm) -> Iterator[Json]:
    for requirement in term.match_label_expressions:
        yield {"key": requirement.key, "operator": "In", "values": list(requirement.values)}
