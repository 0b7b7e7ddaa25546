"""Deployments: a ReplicaSet for every version of the template, and the change from one to the next.

1. The ReplicaSet of the present template is found by its hash, or created.
2. RollingUpdate: it grows while all together stay within replicas + maxSurge; the others shrink while available pods stay at
   replicas - maxUnavailable or more. Recreate: the others shrink to nothing first.
3. ReplicaSets without replicas beyond `revisionHistoryLimit` are deleted.
"""

from collections.abc import Sequence

from volcanopy.kube.client.kinds import Json
from volcanopy.local.conditions import with_transition_times
from volcanopy.local.workloads.plan import (
    REPLICA_FAILURE,
    Effect,
    ObjectCreation,
    ObjectDeletion,
    Update,
    changed,
    owned,
    owner_reference,
    share_of,
    template_hash,
)

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAXIMUM = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    {
        *(REVISION, _DESIRED, _MAXIMUM, "deployment.kubernetes.io/revision-history"),
        *("deprecated.deployment.rollback.to", "kubectl.kubernetes.io/last-applied-configuration"),
    }
)
"""Annotations of a Deployment that its ReplicaSets do not get."""


def reconcile(deployment: Json, replica_sets: Sequence[Json], now: str) -> list[Effect]:
    """The next step of a deployment; `now` is the time of changed conditions."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    sets = owned(deployment, replica_sets)
    if "deletionTimestamp" in metadata:
        return []
    suffix = template_hash(spec["template"])
    current = next((item for item in sets if item["metadata"]["labels"].get(HASH_LABEL) == suffix), None)
    older_sets = [item for item in sets if item is not current]
    revision = max((_revision(item) for item in older_sets), default=0) + 1
    effects: list[Effect] = []
    if current is None:
        effects.append(
            ObjectCreation("ReplicaSet", _replica_set(deployment, suffix, _first_size(spec, older_sets), revision))
        )
    else:
        expected = _annotations(deployment, max(revision, _revision(current)))
        if not expected.items() <= (current["metadata"].get("annotations") or {}).items():
            effects.append(Update("ReplicaSet", current, {"metadata": {"annotations": expected}}))
        if not spec.get("paused"):
            effects += _scaled(spec, current, older_sets)
        elif len(sets) == 1 and _size(current) != spec["replicas"]:
            effects.append(_resized(current, spec["replicas"]))
    number = revision if current is None else max(_revision(current), revision)
    if (metadata.get("annotations") or {}).get(REVISION) != str(number):
        effects.append(Update("Deployment", deployment, _revision_patch(number)))
    effects += _expired(spec, older_sets)
    return effects + changed(deployment, _status(deployment, current, sets, now))


def _scaled(spec: Json, current: Json, older_sets: Sequence[Json]) -> list[Effect]:
    replicas = int(spec["replicas"])
    remaining = [item for item in older_sets if _size(item) > 0 or _counted(item, "replicas") > 0]
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        if remaining:
            return [_resized(item, 0) for item in remaining if _size(item) > 0]
        return [_resized(current, replicas)] if _size(current) != replicas else []
    surge, unavailable = _margins(spec)
    effects: list[Effect] = []
    total = _size(current) + sum(map(_size, older_sets))
    size = min(replicas, _size(current) + max(replicas + surge - total, 0)) if _size(current) < replicas else replicas
    if size != _size(current):
        effects.append(_resized(current, size))
    # Only pods that are available now may stand in for those that are removed.
    available = _counted(current, "availableReplicas") + sum(_counted(item, "availableReplicas") for item in older_sets)
    spare = available - (replicas - unavailable)
    for item in sorted(remaining, key=_revision):
        unready = _size(item) - _counted(item, "availableReplicas")
        count = min(_size(item), max(spare, 0) + max(unready, 0))
        spare -= max(count - max(unready, 0), 0)
        if count > 0:
            effects.append(_resized(item, _size(item) - count))
    return effects


def _first_size(spec: Json, older_sets: Sequence[Json]) -> int:
    """The size of a new ReplicaSet: what the surge allows beside the others."""
    replicas, present = int(spec["replicas"]), sum(map(_size, older_sets))
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        return 0 if present else replicas
    return max(min(replicas, replicas + _margins(spec)[0] - present), 0)


def _margins(spec: Json) -> tuple[int, int]:
    """maxSurge and maxUnavailable in pods; one of them is at least 1."""
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    replicas = int(spec["replicas"])
    surge = share_of(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = share_of(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    return surge, unavailable if surge or unavailable else 1


def _replica_set(deployment: Json, suffix: str, replicas: int, revision: int) -> Json:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: suffix}
    selector = spec.get("selector") or {}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{suffix}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": _annotations(deployment, revision),
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def _annotations(deployment: Json, revision: int) -> Json:
    """The annotations of the ReplicaSet of the present template: those of the Deployment, and the numbers of a rollout."""
    spec, annotations = deployment["spec"], deployment["metadata"].get("annotations") or {}
    surge = 0 if (spec.get("strategy") or {}).get("type") == "Recreate" else _margins(spec)[0]
    return {
        **{key: value for key, value in annotations.items() if key not in _NOT_COPIED},
        REVISION: str(revision),
        _DESIRED: str(spec["replicas"]),
        _MAXIMUM: str(int(spec["replicas"]) + surge),
    }


def _expired(spec: Json, older_sets: Sequence[Json]) -> list[Effect]:
    empty = [item for item in older_sets if _size(item) == 0 and _counted(item, "replicas") == 0]
    surplus = len(empty) - int(spec.get("revisionHistoryLimit", 10))
    return [ObjectDeletion("ReplicaSet", item) for item in sorted(empty, key=_revision)[: max(surplus, 0)]]


def _status(deployment: Json, current: Json | None, sets: Sequence[Json], now: str) -> Json:
    spec = deployment["spec"]
    replicas, total = int(spec["replicas"]), sum(_counted(item, "replicas") for item in sets)
    available = sum(_counted(item, "availableReplicas") for item in sets)
    updated = _counted(current, "replicas") if current is not None else 0
    enough = available >= replicas - _margins(spec)[1]
    complete = updated == replicas == total and available >= replicas
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
            "reason": "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
            "message": f"{updated} of {replicas} replicas are updated, {available} available.",
        },
    ]
    # That of the ReplicaSet of the present template, else of any other.
    conditions += [
        {key: condition[key] for key in ("type", "status", "reason", "message")}
        for item in sorted(sets, key=lambda item: item is not current)
        for condition in (item.get("status") or {}).get("conditions") or ()
        if condition["type"] == REPLICA_FAILURE
    ][:1]
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


def _revision(replica_set: Json) -> int:
    return int((replica_set["metadata"].get("annotations") or {}).get(REVISION, "0"))


def _revision_patch(revision: int) -> Json:
    return {"metadata": {"annotations": {REVISION: str(revision)}}}


def _resized(replica_set: Json, replicas: int) -> Effect:
    return Update("ReplicaSet", replica_set, {"spec": {"replicas": replicas}})
