"""ReplicaSets: as many pods of a template as `spec.replicas` specifies."""

from collections.abc import Sequence

from volcanopy.kube.client.kinds import Json
from volcanopy_local.workloads.plan import (
    Effect,
    ObjectCreation,
    ObjectDeletion,
    changed,
    from_template,
    is_active,
    is_ready,
    owned,
)


def reconcile(replica_set: Json, pods: Sequence[Json]) -> list[Effect]:
    """Create missing pods, delete surplus ones (unscheduled, unready and newest first), count."""
    metadata, spec = replica_set["metadata"], replica_set["spec"]
    active = [pod for pod in owned(replica_set, pods) if is_active(pod)]
    replicas = int(spec.get("replicas", 1))
    effects: list[Effect] = []
    if "deletionTimestamp" not in metadata:
        missing = range(replicas - len(active))
        effects += [
            ObjectCreation("Pod", from_template(replica_set, spec["template"], generateName=f"{metadata['name']}-"))
            for _ in missing
        ]
        # The newest of those that are least useful are deleted first; times of creation are whole seconds.
        newest_first = sorted(active, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
        surplus = sorted(newest_first, key=_usefulness)[: max(len(active) - replicas, 0)]
        effects += [ObjectDeletion("Pod", pod) for pod in surplus]
    ready = sum(map(is_ready, active))
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": metadata.get("generation", 1),
    }
    return effects + changed(replica_set, status)


def _usefulness(pod: Json) -> tuple[bool, bool]:
    return bool(pod["spec"].get("nodeName")), is_ready(pod)
