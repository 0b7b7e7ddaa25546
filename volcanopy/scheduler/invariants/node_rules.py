"""Which pods a node admits by its labels and taints, read from the objects, one pod and one node at a time."""

from collections.abc import Mapping

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.invariants.plan_outcome import Moves

_CORDON = core.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def not_admitted(moves: Moves) -> list[str]:
    """Return the pods that the plan binds or nominates to nodes whose labels or taints do not admit them."""
    snapshot = moves.snapshot
    rows = np.concatenate((moves.bound, moves.nominated))
    placed = [*zip(rows.tolist(), moves.node[rows].tolist(), strict=True)]
    placed += zip(moves.moved.tolist(), moves.moved_to.tolist(), strict=True)
    return [
        f"pod {moves.key(row)} is placed on node {snapshot.nodes.names[node]}, which does not admit it"
        for row, node in placed
        if not admits(snapshot.nodes.traits.objects[node], snapshot.tasks.pods[row])
    ]


def admits(node: core.Node, pod: core.Pod) -> bool:
    """Return whether the cordon, taints and labels of a node allow a pod."""
    taints = (*node.spec.taints, *((_CORDON,) if node.spec.unschedulable else ()))
    if any(taint.effect in {"NoSchedule", "NoExecute"} and not _is_tolerated(taint, pod) for taint in taints):
        return False
    if any(node.metadata.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return affinity is None or selects(affinity.required, node)


def selects(selector: core.NodeSelector | None, node: core.Node) -> bool:
    """Return whether a node satisfies all of one term; no selector selects every node, an empty term none."""
    if selector is None:
        return True
    fields = {"metadata.name": node.metadata.name}
    for term in selector.node_selector_terms:
        results = [_holds(each, node.metadata.labels) for each in term.match_expressions]
        results += [_holds(each, fields) for each in term.match_fields]
        if results and all(results):
            return True
    return False


def matches(selector: core.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy a selector; an empty one matches everything, none at all nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_holds(requirement, labels) for requirement in selector.match_expressions)


def _is_tolerated(taint: core.Taint, pod: core.Pod) -> bool:
    for toleration in pod.spec.tolerations:
        same_key = not toleration.key or toleration.key == taint.key
        same_effect = not toleration.effect or toleration.effect == taint.effect
        any_value = toleration.operator == "Exists"
        equal = toleration.operator in {"", "Equal"} and toleration.value == taint.value
        compared = core.Requirement(key=taint.key, operator=toleration.operator, values=(toleration.value,))
        exceeds = toleration.operator in {"Gt", "Lt"} and _holds(compared, {taint.key: taint.value})
        if same_key and same_effect and (any_value or equal or exceeds):
            return True
    return False


def _holds(requirement: core.Requirement, labels: Mapping[str, str]) -> bool:
    present, value = requirement.key in labels, labels.get(requirement.key, "")
    if requirement.operator == "In":
        return present and value in requirement.values
    if requirement.operator == "NotIn":
        return not present or value not in requirement.values
    if requirement.operator == "Exists":
        return present
    if requirement.operator == "DoesNotExist":
        return not present
    if requirement.operator not in {"Gt", "Lt"} or not requirement.values:
        return False
    try:
        number, bound = int(value), int(requirement.values[0])
    except ValueError:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound
