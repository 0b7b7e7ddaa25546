"""DaemonSets: a pod on every node that its node selector, affinity and tolerations admit.

The pods are bound by the scheduler, to which each names its node. An update replaces the pods `maxUnavailable` at a time.
"""

from collections.abc import Sequence
from typing import Any, Final

from volcanopy.api import core
from volcanopy.api.decoding import convert
from volcanopy.kube.client.kinds import Json
from volcanopy.local.workloads.plan import (
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
    share_of,
    template_hash,
)
from volcanopy.scheduler.invariants.node_rules import admits

_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
"""Taints of nodes that every pod of a DaemonSet tolerates."""


def reconcile(daemon_set: Json, pods: Sequence[Json], nodes: Sequence[Json]) -> list[Effect]:
    """Create the pods of nodes that lack one; delete those that ended, are surplus, or are replaced by an update."""
    metadata, spec = daemon_set["metadata"], daemon_set["spec"]
    revision = template_hash(spec["template"])
    eligible = [str(node["metadata"]["name"]) for node in nodes if _runs_on(daemon_set, node)]
    node_pods = [pod for pod in owned(daemon_set, pods) if _node_of(pod)]
    active = {_node_of(pod): pod for pod in node_pods if is_active(pod)}
    occupied = {_node_of(pod) for pod in node_pods if not has_ended(pod)}
    misplaced = [pod for pod in active.values() if _node_of(pod) not in eligible]
    surplus = [pod for pod in node_pods if is_active(pod) and active[_node_of(pod)] is not pod]
    ended = [pod for pod in node_pods if has_ended(pod) and "deletionTimestamp" not in pod["metadata"]]
    current = {name: pod for name, pod in active.items() if name in eligible}
    old = [pod for pod in current.values() if revision_of(pod) != revision]
    effects: list[Effect] = []
    if "deletionTimestamp" not in metadata:
        effects += [
            ObjectDeletion("Pod", pod)
            for pod in (*misplaced, *surplus, *ended, *_replaced(spec, current, old, eligible))
        ]
        effects += [
            ObjectCreation("Pod", _pod(daemon_set, name, revision)) for name in eligible if name not in occupied
        ]
    ready = sum(map(is_ready, current.values()))
    status = {
        "observedGeneration": metadata.get("generation", 1),
        "desiredNumberScheduled": len(eligible),
        "currentNumberScheduled": len(current),
        "numberMisscheduled": len(misplaced),
        "updatedNumberScheduled": len(current) - len(old),
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": len(eligible) - ready,
    }
    return effects + changed(daemon_set, status)


def _replaced(spec: Json, current: dict[str, Json], old: Sequence[Json], eligible: Sequence[str]) -> list[Json]:
    """The old pods that an update deletes now: those that are not ready, and others while enough pods are ready."""
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    allowed = share_of((strategy.get("rollingUpdate") or {}).get("maxUnavailable") or 1, len(eligible), up=True)
    unready = [pod for pod in old if not is_ready(pod)]
    spare = allowed - (len(eligible) - sum(map(is_ready, current.values())))
    return [*unready, *[pod for pod in old if is_ready(pod)][: max(spare, 0)]]


def _runs_on(daemon_set: Json, node: Json) -> bool:
    pod = from_template(daemon_set, daemon_set["spec"]["template"], name="p")
    pod["spec"]["tolerations"] = _tolerations(pod["spec"])
    name = pod["spec"].get("nodeName")
    if name and name != node["metadata"]["name"]:
        return False
    return admits(convert(node, core.Node), convert(pod, core.Pod))


def _pod(daemon_set: Json, node: str, revision: str) -> Json:
    labels = {REVISION: revision}
    pod = from_template(
        daemon_set, daemon_set["spec"]["template"], labels=labels, generateName=f"{daemon_set['metadata']['name']}-"
    )
    spec = pod["spec"]
    spec["tolerations"] = _tolerations(spec)
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.setdefault("affinity", {})
    # As upstream: the node replaces the required terms, which `reconcile` has evaluated.
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]},
    }
    return pod


def _tolerations(spec: Json) -> list[Json]:
    tolerations: list[Any] = list(spec.get("tolerations") or ())
    taints = [*_TOLERATED, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else ())]
    return tolerations + [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect} for name, effect in taints
    ]


def _node_of(pod: Json) -> str:
    """The node that a pod runs on, or that its affinity names."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    values = [
        value
        for term in affinity.get("nodeSelectorTerms") or ()
        for field in term.get("matchFields") or ()
        for value in field.get("values") or ()
    ]
    return str(values[0]) if values else ""
