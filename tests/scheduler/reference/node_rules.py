"""Single rules of the reference node filters: selectors, taints, ports, affinity and spread constraints."""

from collections.abc import Iterable, Mapping

from volcanopy.api import core


def labels_match(selector: core.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a label selector; none matches nothing."""
    if selector is None:
        return False
    requested = [
        core.Requirement(key=key, operator="In", values=(value,)) for key, value in selector.match_labels.items()
    ]
    return all(requirement_holds(item, labels) for item in (*requested, *selector.match_expressions))


def requirement_holds(requirement: core.Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy one requirement."""
    there = requirement.key in labels
    value = labels.get(requirement.key, "")
    if requirement.operator == "In":
        return there and value in requirement.values
    if requirement.operator == "NotIn":
        return not (there and value in requirement.values)
    if requirement.operator == "Exists":
        return there
    if requirement.operator == "DoesNotExist":
        return not there
    if not there or not value.lstrip("-").isdigit():
        return False
    return (
        int(value) > int(requirement.values[0])
        if requirement.operator == "Gt"
        else int(value) < int(requirement.values[0])
    )


def node_term(term: core.NodeSelectorTerm, node: core.Node) -> bool:
    """Whether a node satisfies a term of node affinity; an empty one is satisfied by none."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(
        requirement_holds(match_expression, node.metadata.labels) for match_expression in term.match_expressions
    ) and all(requirement_holds(match_field, fields) for match_field in term.match_fields)


def node_affinity(pod: core.Pod, node: core.Node) -> bool:
    """Whether a node matches the node selector and required node affinity of the pod."""
    if any(node.metadata.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    requested = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if requested is None or requested.required is None:
        return True
    return any(node_term(term, node) for term in requested.required.node_selector_terms)


def preferred_nodes(pod: core.Pod) -> tuple[core.PreferredNodeTerm, ...]:
    """The pod's preferred node affinity."""
    liked = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return liked.preferred if liked else ()


def tolerated(pod: core.Pod, taint: core.Taint) -> bool:
    """Whether one of the pod's tolerations covers a taint."""
    for toleration in pod.spec.tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists" or toleration.value == taint.value:
            return True
    return False


def untolerated(pod: core.Pod, node: core.Node) -> core.Taint | None:
    """Return the first untolerated taint of the node."""
    for taint in node.spec.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not tolerated(pod, taint):
            return taint
    return None


def host_ports(pod: core.Pod) -> Iterable[tuple[str, str, int]]:
    """Address, protocol and number of the pod's host ports; only init containers that keep running have any."""
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            if port.host_port:
                yield port.host_ip or "0.0.0.0", port.protocol, port.host_port


def ports_conflict(pod: core.Pod, other: core.Pod) -> bool:
    """Whether two pods request the same host port."""
    for ip, protocol, number in host_ports(pod):
        for other_ip, other_protocol, other_number in host_ports(other):
            same_address = ip == other_ip or "0.0.0.0" in (ip, other_ip)
            if same_address and protocol == other_protocol and number == other_number:
                return True
    return False


def affinity(pod: core.Pod) -> tuple[core.PodAffinityTerm, ...]:
    """The pod's required affinity terms."""
    near = pod.spec.affinity.pod_affinity if pod.spec.affinity else None
    return near.required if near else ()


def anti_affinity(pod: core.Pod) -> tuple[core.PodAffinityTerm, ...]:
    """The pod's required anti-affinity terms."""
    away = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return away.required if away else ()


def preferred_pods(pod: core.Pod) -> list[tuple[int, core.PodAffinityTerm]]:
    """The pod's preferences about other pods, those against them with a negative weight."""
    near = pod.spec.affinity.pod_affinity if pod.spec.affinity else None
    away = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    liked = [(item.weight, item.pod_affinity_term) for item in near.preferred] if near else []
    return liked + ([(-item.weight, item.pod_affinity_term) for item in away.preferred] if away else [])


def term_matches(
    term: core.PodAffinityTerm, owner: core.Pod, other: core.Pod, namespaces: Mapping[str, core.Namespace]
) -> bool:
    """Whether a term of ``owner`` matches the other pod."""
    own, labels, namespace = owner.metadata.labels, other.metadata.labels, other.metadata.namespace
    if not labels_match(term.label_selector, labels):
        return False
    if any(key in own and labels.get(key) != own[key] for key in term.match_label_keys):
        return False
    if any(key in own and labels.get(key) == own[key] for key in term.mismatch_label_keys):
        return False
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner.metadata.namespace
    known = namespaces.get(namespace)
    return namespace in term.namespaces or labels_match(term.namespace_selector, known.metadata.labels if known else {})


def spread_matches(constraint: core.TopologySpreadConstraint, owner: core.Pod, other: core.Pod) -> bool:
    """Whether a spread constraint of ``owner`` matches the other pod."""
    own, labels = owner.metadata.labels, other.metadata.labels
    return (
        owner.metadata.namespace == other.metadata.namespace
        and labels_match(constraint.label_selector, labels)
        and all(labels.get(key) == own[key] for key in constraint.match_label_keys if key in own)
    )


def count_spread(constraint: core.TopologySpreadConstraint, owner: core.Pod, others: Iterable[core.Pod]) -> int:
    """How many of the pods a spread constraint counts; one with an empty selector counts none."""
    selector = constraint.label_selector
    if selector is not None and not (
        selector.match_labels or selector.match_expressions or constraint.match_label_keys
    ):
        return 0
    return sum(spread_matches(constraint, owner, other) for other in others)


def image_size(name: str, node: core.Node) -> int | None:
    """The bytes of an image on a node, None if it is not there."""
    return next((image.size_bytes for image in node.status.images if name in image.names), None)
