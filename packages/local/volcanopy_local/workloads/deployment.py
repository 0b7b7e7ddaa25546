"""Deployments: a ReplicaSet for the present template; those of earlier ones are scaled to nothing and deleted.

The pods of a new template replace the others at once, whatever the strategy: there are no rollouts in steps, and no revisions.
"""

from collections.abc import Sequence

from volcanopy.kube.client.kinds import Json
from volcanopy_local.conditions import with_transition_times
from volcanopy_local.workloads.plan import (
    Effect,
    ObjectCreation,
    ObjectDeletion,
    Update,
    changed,
    owned,
    owner_reference,
    template_hash,
)

HASH_LABEL = "pod-template-hash"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation of a Deployment that its ReplicaSets do not get."""


def reconcile(deployment: Json, replica_sets: Sequence[Json], now: str) -> list[Effect]:
    """The next step of a deployment; `now` is the time of changed conditions."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    sets = owned(deployment, replica_sets)
    if "deletionTimestamp" in metadata:
        return []
    suffix = template_hash(spec["template"])
    current = next((item for item in sets if item["metadata"]["labels"].get(HASH_LABEL) == suffix), None)
    effects: list[Effect] = []
    if current is None:
        effects.append(ObjectCreation("ReplicaSet", _replica_set(deployment, suffix)))
    else:
        if not (expected := _annotations(deployment)).items() <= (current["metadata"].get("annotations") or {}).items():
            effects.append(Update("ReplicaSet", current, {"metadata": {"annotations": expected}}))
        if _size(current) != int(spec["replicas"]):
            effects.append(_resized(current, int(spec["replicas"])))
    for item in sets:
        if item is not current and _size(item) > 0:
            effects.append(_resized(item, 0))
        elif item is not current and _counted(item, "replicas") == 0:
            effects.append(ObjectDeletion("ReplicaSet", item))
    return effects + changed(deployment, _status(deployment, current, sets, now))


def _replica_set(deployment: Json, suffix: str) -> Json:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: suffix}
    selector = spec.get("selector") or {}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{suffix}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": _annotations(deployment),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": int(spec["replicas"]),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def _annotations(deployment: Json) -> Json:
    """The annotations of the ReplicaSet of the present template."""
    annotations = deployment["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key != _LAST_APPLIED}


def _status(deployment: Json, current: Json | None, sets: Sequence[Json], now: str) -> Json:
    replicas, total = int(deployment["spec"]["replicas"]), sum(_counted(item, "replicas") for item in sets)
    available = sum(_counted(item, "availableReplicas") for item in sets)
    updated = _counted(current, "replicas") if current is not None else 0
    enough = available >= replicas
    conditions = [
        {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        },
        {
            "type": "Progressing",
            "status": "True",
            "reason": "NewReplicaSetAvailable" if enough and updated == replicas == total else "ReplicaSetUpdated",
            "message": f"{updated} of {replicas} replicas are updated, {available} available.",
        },
    ]
    before = (deployment.get("status") or {}).get("conditions") or ()
    return {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": sum(_counted(item, "readyReplicas") for item in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(max(total, replicas) - available, 0),
        "conditions": with_transition_times(conditions, before, now),
    }


def _size(replica_set: Json) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _counted(replica_set: Json, field: str) -> int:
    return int((replica_set.get("status") or {}).get(field) or 0)


def _resized(replica_set: Json, replicas: int) -> Effect:
    return Update("ReplicaSet", replica_set, {"spec": {"replicas": replicas}})
