"""More nodes of an existing kind, and nodes that become schedulable."""

from collections.abc import Sequence

from volcanopy.api import core, topology_read
from volcanopy.api.model import Json
from volcanopy.api.quantity import amounts, counted
from volcanopy.whatif.changes import Create, Edit, Step, Steps
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.remedies.candidate import Candidate, Part, Question, single
from volcanopy.whatif.target import minimum_of, requests_of

_KINDS = 4
"""The most kinds of nodes that are tried."""
_NODES = 512
"""The most nodes that are added."""
_HOSTNAME = "kubernetes.io/hostname"


def more_nodes(question: Question) -> Sequence[Candidate]:
    """Return a candidate for each kind of node: those that a pod of the job fits first, smaller ones before larger."""
    cluster = question.cluster
    requests = requests_of(cluster, question.target)
    largest = {name: max(request.get(name, 0) for request in requests) for request in requests for name in request}
    templates: dict[str, core.Node] = {}
    for node in cluster.of_kind("Node").values():
        templates.setdefault(_kind(node), node)

    def order(node: core.Node) -> tuple[bool, list[int], str]:
        sizes = amounts(node.status.allocatable or node.status.capacity)
        fits = all(sizes.get(name, 0) >= units for name, units in largest.items())
        return not fits, [sizes.get(name, 0) for name in sorted(largest)], node.metadata.name

    most = min(max(2 * minimum_of(cluster, question.target), 8), _NODES)
    return [
        Candidate("nodes", (_nodes_like(cluster, node, most),))
        for node in sorted(templates.values(), key=order)[:_KINDS]
    ]


def _kind(node: core.Node) -> str:
    labels = {key: value for key, value in node.metadata.labels.items() if key != _HOSTNAME}
    taints = [taint for taint in node.spec.taints if taint.key != "node.kubernetes.io/unschedulable"]
    return repr((sorted(labels.items()), taints, sorted(node.status.allocatable.items())))


def _nodes_like(cluster: Cluster, node: core.Node, most: int) -> Part:
    name = node.metadata.name

    def steps(count: int) -> Steps:
        copies = [_copy(cluster.body("Node", name), f"{name}-new-{number}") for number in range(1, count + 1)]
        joined = [
            _joining(key, name, copies) for key, item in cluster.of_kind("HyperNode").items() if _lists(item, name)
        ]
        return (*(Create(copy) for copy in copies), *joined)

    def text(count: int) -> str:
        return f'{counted(count, "more node")} like "{name}"'

    return Part(most, steps, text)


def _copy(body: Json, name: str) -> Json:
    metadata, spec = body["metadata"], body.get("spec") or {}
    labels = {key: name if key == _HOSTNAME else value for key, value in (metadata.get("labels") or {}).items()}
    kept = {key: value for key, value in metadata.items() if key in {"annotations", "creationTimestamp"}}
    taints = [taint for taint in spec.get("taints") or () if taint.get("key") != "node.kubernetes.io/unschedulable"]
    return {
        **{key: value for key, value in body.items() if key in {"apiVersion", "kind", "status"}},
        "metadata": {**kept, "name": name, "uid": f"whatif-{name}", "labels": labels},
        "spec": {"taints": taints} if taints else {},
    }


def _lists(item: topology_read.HyperNode, node: str) -> bool:
    return any(
        member.type == "Node" and member.selector.exact_match is not None and member.selector.exact_match.name == node
        for member in item.spec.members
    )


def _joining(key: str, node: str, copies: Sequence[Json]) -> Step:
    """Return the step that adds nodes to the hypernode that lists their template."""

    def edited(body: Json) -> Json:
        members = list(body["spec"].get("members") or ())
        like = next(
            item for item in members if ((item.get("selector") or {}).get("exactMatch") or {}).get("name") == node
        )
        members += [like | {"selector": {"exactMatch": {"name": copy["metadata"]["name"]}}} for copy in copies]
        return body | {"spec": body["spec"] | {"members": members}}

    return Edit("HyperNode", key, edited)


def schedulable_nodes(question: Question) -> Sequence[Candidate]:
    """Return a candidate that uncordons nodes, and one that removes their taints."""
    nodes = question.cluster.of_kind("Node")

    def uncordoned(body: Json) -> Json:
        spec = {key: value for key, value in body["spec"].items() if key != "unschedulable"}
        spec["taints"] = [
            item for item in spec.get("taints") or () if item["key"] != "node.kubernetes.io/unschedulable"
        ]
        return body | {"spec": spec}

    def untainted(body: Json) -> Json:
        kept = [taint for taint in body["spec"].get("taints") or () if taint.get("effect") == "PreferNoSchedule"]
        return body | {"spec": body["spec"] | {"taints": kept}}

    cordoned = [key for key, node in nodes.items() if node.spec.unschedulable]
    tainted = [
        key
        for key, node in nodes.items()
        if any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints) and not node.spec.unschedulable
    ]
    return [
        Candidate(kind, tuple(single((Edit("Node", key, change),), text.format(key)) for key in keys))
        for kind, keys, change, text in (
            ("uncordon", cordoned, uncordoned, 'uncordon node "{}"'),
            ("taints", tainted, untainted, 'remove the taints of node "{}"'),
        )
        if keys
    ]
