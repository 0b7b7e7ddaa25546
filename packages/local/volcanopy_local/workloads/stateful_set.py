"""StatefulSets: pods with stable names and claims, created in order. A changed template replaces them all."""

import copy
from collections.abc import Sequence

from volcanopy.kube.client.kinds import Json
from volcanopy_local.workloads.plan import (
    REVISION,
    Effect,
    ObjectCreation,
    ObjectDeletion,
    changed,
    from_template,
    has_ended,
    is_active,
    is_ready,
    owned,
    revision_of,
    template_hash,
)


def reconcile(stateful_set: Json, pods: Sequence[Json]) -> list[Effect]:
    """The next step: with the policy OrderedReady one pod at a time, with Parallel all at once."""
    metadata, spec = stateful_set["metadata"], stateful_set["spec"]
    set_pods = {str(pod["metadata"]["name"]): pod for pod in owned(stateful_set, pods)}
    replicas, first = int(spec.get("replicas", 1)), int((spec.get("ordinals") or {}).get("start", 0))
    revision = f"{metadata['name']}-{template_hash(spec['template'])}"
    names = [f"{metadata['name']}-{first + number}" for number in range(replicas)]
    effects: list[Effect] = []
    if "deletionTimestamp" not in metadata:
        effects = _steps(stateful_set, set_pods, names, revision)
        if spec.get("podManagementPolicy") != "Parallel":
            effects = _first_step(effects)
    active = [pod for pod in set_pods.values() if is_active(pod)]
    updated = [pod for pod in active if revision_of(pod) == revision]
    before = (stateful_set.get("status") or {}).get("currentRevision") or revision
    complete = len(updated) == replicas == len(active)
    status = {
        "observedGeneration": metadata.get("generation", 1),
        "replicas": len(active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(map(is_ready, active)),
        "currentReplicas": len(updated) if complete else sum(revision_of(pod) == before for pod in active),
        "updatedReplicas": len(updated),
        "currentRevision": revision if complete else before,
        "updateRevision": revision,
    }
    return effects + changed(stateful_set, status)


def _steps(stateful_set: Json, set_pods: dict[str, Json], names: Sequence[str], revision: str) -> list[Effect]:
    """All that is left to do in order; a pod that is not ready ends the list for OrderedReady."""
    ordered = stateful_set["spec"].get("podManagementPolicy") != "Parallel"
    effects: list[Effect] = []
    for name in names:
        pod = set_pods.get(name)
        if pod is None:
            effects += _creation(stateful_set, name, revision)
        elif (has_ended(pod) and "deletionTimestamp" not in pod["metadata"]) or (
            is_active(pod) and revision_of(pod) != revision
        ):
            effects.append(ObjectDeletion("Pod", pod))
        if ordered and (pod is None or not is_ready(pod) or not is_active(pod)):
            return effects
    surplus = [pod for name, pod in set_pods.items() if name not in names and is_active(pod)]
    return effects + [ObjectDeletion("Pod", pod) for pod in sorted(surplus, key=_ordinal, reverse=True)]


def _first_step(effects: list[Effect]) -> list[Effect]:
    """The claims of the first pod and the pod itself, or one deletion."""
    for index, effect in enumerate(effects):
        if not (isinstance(effect, ObjectCreation) and effect.kind == "PersistentVolumeClaim"):
            return effects[: index + 1]
    return effects


def _creation(stateful_set: Json, name: str, revision: str) -> list[Effect]:
    spec, namespace = stateful_set["spec"], stateful_set["metadata"]["namespace"]
    labels = {
        REVISION: revision,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
    }
    pod = from_template(stateful_set, spec["template"], labels=labels, name=name)
    pod["spec"] |= {"hostname": name, "subdomain": spec.get("serviceName", "")}
    effects: list[Effect] = []
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for template in spec.get("volumeClaimTemplates") or ():
        claim = copy.deepcopy({key: template[key] for key in ("metadata", "spec") if key in template})
        volume = claim["metadata"]["name"]
        claim["metadata"] |= {"name": f"{volume}-{name}", "namespace": namespace}
        effects.append(ObjectCreation("PersistentVolumeClaim", claim))
        volumes[volume] = {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
    if volumes:
        pod["spec"]["volumes"] = list(volumes.values())
    return [*effects, ObjectCreation("Pod", pod)]


def _ordinal(pod: Json) -> int:
    return int(str(pod["metadata"]["name"]).rpartition("-")[2])
