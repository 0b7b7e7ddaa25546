"""More nodes, of existing kinds or made for the pods of a job, and nodes that become schedulable or get labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from volcanopy.api import core, names, topology_read
from volcanopy.api.model import Json
from volcanopy.api.quantity import amounts, counted, text, texts
from volcanopy.whatif.changes import Create, Edit, Step, Steps
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.remedies.candidate import Candidate, Part, Question, single
from volcanopy.whatif.target import Target, minimum_of, pod_specs, queue_of, requests_of

_MOST = 16
"""The most kinds of pods that are handled."""
_GIVEN = ("kubernetes.io", "k8s.io")
_NAME = "metadata.name"
_NEW = "new"
"""The value of a label that only has to exist."""


@dataclass(frozen=True)
class NodeNeed:
    """What equal pods require of a node. ``node`` is its name if only that node will do, ``pods`` the number of pods."""

    request: Mapping[str, int]
    labels: Mapping[str, str]
    node: str
    pods: int


def node_needs(cluster: Cluster, target: Target) -> list[NodeNeed]:
    """Return the needs of the waiting pods of a job, those of smaller pods first.

    Pods that contradict themselves are left out: no node can have the labels that they require.
    """
    counts: dict[tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...], str], int] = {}
    for spec, request in zip(pod_specs(cluster, target), requests_of(cluster, target), strict=True):
        required = required_labels(spec)
        if required is not None:
            labels, node = required
            key = (tuple(sorted(request.items())), tuple(sorted(labels.items())), node)
            counts[key] = counts.get(key, 0) + 1
    needs = [NodeNeed(dict(request), dict(labels), node, pods) for (request, labels, node), pods in counts.items()]
    needs.sort(key=lambda need: (sorted(need.request.items()), sorted(need.labels.items())))
    return needs[:_MOST]


def is_given(label: str) -> bool:
    """Whether a label is one that the kubelet or a cloud provider sets, and not an administrator."""
    return label.partition("/")[0].endswith(_GIVEN) and "/" in label


def required_labels(spec: Json) -> tuple[dict[str, str], str] | None:
    """Return labels, and the name if it matters, of a node that a pod of this spec can use; None if there is none."""
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    selected = dict(spec.get("nodeSelector") or {})
    for term in terms or [{}]:
        labels = _of_term(term, selected)
        if labels is not None:
            domains = {key: labels.get(key, _NEW) for key in _domains(spec) if not key.endswith("/hostname")}
            name = labels.pop(_NAME, "")
            return domains | labels, name
    return None


def _of_term(term: Json, selected: Mapping[str, str]) -> dict[str, str] | None:
    labels = dict(selected)
    for requirement in (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())):
        key, values = requirement["key"], requirement.get("values") or []
        match requirement.get("operator"):
            case "In" if values:
                value = labels.get(key, values[0])
                if value not in values:
                    return None
            case "Exists":
                value = labels.get(key, _NEW)
            case "Gt" if values:
                value = labels.get(key, str(int(values[0]) + 1))
            case "Lt" if values:
                value = labels.get(key, str(int(values[0]) - 1))
            case "NotIn" | "DoesNotExist":
                if key in labels and (not values or labels[key] in values):
                    return None
                continue
            case _:
                return None
        labels[key] = value
    return labels


def _domains(spec: Json) -> Iterator[str]:
    """Yield the labels of nodes by which required affinity and spread group the nodes."""
    affinity = spec.get("affinity") or {}
    terms: Sequence[Json] = list(
        chain.from_iterable(
            (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
            for kind in ("podAffinity", "podAntiAffinity")
        )
    )
    spreads = [
        item
        for item in spec.get("topologySpreadConstraints") or ()
        if item.get("whenUnsatisfiable") != "ScheduleAnyway"
    ]
    for item in (*terms, *spreads):
        if key := item.get("topologyKey"):
            yield str(key)


_KINDS = 4
"""The most kinds of nodes that are tried."""
_NODES = 512
"""The most nodes that are added beyond one for each pod that must start."""
_LABELLED = 512
"""The most nodes that get labels."""
_PODS = 110
"""The pods of a node in a cluster without nodes: the default of the kubelet."""
_HOSTNAME = "kubernetes.io/hostname"
_CONDITIONS = "node.kubernetes.io/"
"""The prefix of the taints by which Kubernetes reports the condition of a node."""


def more_nodes(question: Question) -> Sequence[Candidate]:
    """Return a candidate for each kind of node: those that a pod of the job fits first, smaller ones before larger."""
    cluster = question.cluster
    most = _most(minimum_of(cluster, question.target))
    return [Candidate("nodes", (_nodes_like(cluster, node, most),)) for node in _kinds(question)[:_KINDS]]


def _most(pods: int) -> int:
    """Return the most nodes that are added for so many pods: more than one for each, as others use and reserve some."""
    return max(pods, min(max(2 * pods, 8), _NODES))


def _kinds(question: Question) -> list[core.Node]:
    """Return one node of each kind, in the order in which they are tried."""
    requests = requests_of(question.cluster, question.target)
    largest = {name: max(request.get(name, 0) for request in requests) for request in requests for name in request}

    def order(node: core.Node) -> tuple[bool, list[int], str]:
        sizes = amounts(node.status.allocatable or node.status.capacity)
        fits = all(sizes.get(name, 0) >= units for name, units in largest.items())
        return not fits, [sizes.get(name, 0) for name in sorted(largest)], node.metadata.name

    return sorted(question.cluster.once(_templates), key=order)


def _templates(cluster: Cluster) -> list[core.Node]:
    """Return the first node of each kind."""
    templates: dict[str, core.Node] = {}
    for name, kind in cluster.once(node_kinds).items():
        templates.setdefault(kind, cluster.objects["Node", name])
    return list(templates.values())


def node_kinds(cluster: Cluster) -> dict[str, str]:
    """Return texts of the nodes by name, equal for nodes that differ in name and condition only."""
    return {name: _kind(node) for name, node in cluster.of_kind("Node").items()}


def _kind(node: core.Node) -> str:
    labels = {key: value for key, value in node.metadata.labels.items() if key != _HOSTNAME}
    taints = [taint for taint in node.spec.taints if not taint.key.startswith(_CONDITIONS)]
    return repr((sorted(labels.items()), taints, sorted(node.status.allocatable.items())))


def _nodes_like(cluster: Cluster, node: core.Node, most: int) -> Part:
    name = node.metadata.name

    def steps(count: int) -> Steps:
        return _added(
            cluster, name, [_copy(cluster.body("Node", name), f"{name}-new-{n}") for n in range(1, count + 1)]
        )

    return Part(most, steps, lambda count: f'{counted(count, "more node")} like "{name}"')


def new_nodes(question: Question) -> Sequence[Candidate]:
    """Return a candidate of nodes that are made for the pods of the job: a part for each kind of pods.

    Such a node is like an existing one, with what this lacks of the pod's request and of the labels that the pod requires.
    """
    return _made_nodes(question, min(_kinds(question), key=_is_tainted, default=None))


def plain_nodes(question: Question) -> Sequence[Candidate]:
    """Return a candidate of nodes like none of the existing ones, whose labels may keep the pods away."""
    return _made_nodes(question, None) if question.cluster.of_kind("Node") else []


def _made_nodes(question: Question, template: core.Node | None) -> Sequence[Candidate]:
    needs = node_needs(question.cluster, question.target)
    parts = [_new_nodes(question.cluster, template, need, number) for number, need in enumerate(needs)]
    return [Candidate("nodes", tuple(parts))] if parts else []


def _is_tainted(node: core.Node) -> bool:
    return any(
        taint.effect != "PreferNoSchedule" and not taint.key.startswith(_CONDITIONS) for taint in node.spec.taints
    )


def _new_nodes(cluster: Cluster, template: core.Node | None, need: NodeNeed, number: int) -> Part:
    like = template.metadata.name if template is not None else ""
    body = cluster.body("Node", like) if template is not None else _empty_node()
    sizes = amounts(body["status"].get("allocatable") or body["status"].get("capacity") or {})
    labels = body["metadata"].get("labels") or {}
    sized = {name: units for name, units in need.request.items() if units > sizes.get(name, 0)}
    labelled = {key: value for key, value in need.labels.items() if labels.get(key) != value}

    def steps(count: int) -> Steps:
        copies = []
        for place in range(1, count + 1):
            copy = _copy(body, need.node or f"{like or 'node'}-new-{number}-{place}")
            copy["metadata"]["labels"] |= need.labels
            resources = texts(sizes | sized)
            copies.append(copy | {"status": copy["status"] | {"allocatable": resources, "capacity": resources}})
        return _added(cluster, like, copies)

    def sentence(count: int) -> str:
        if need.node:
            head = f'a node with the name "{need.node}"' + (f' like "{like}"' if like else "")
        else:
            head = f'{counted(count, "more node")} like "{like}"' if like else counted(count, "node")
        return head + _attributes(sized, {name: sizes.get(name, 0) for name in sized}, labelled)

    return Part(1 if need.node else _most(need.pods), steps, sentence)


def _empty_node() -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node", "labels": {_HOSTNAME: "node"}},
        "spec": {},
        "status": {"allocatable": {"pods": str(_PODS)}},
    }


def _attributes(sized: Mapping[str, int], before: Mapping[str, int], labels: Mapping[str, str]) -> str:
    """Return the resources and labels of a new node as the end of a sentence."""
    resources = [
        f"{text(name, units)} {name}" + (f" instead of {text(name, before[name])}" if before[name] else "")
        for name, units in sorted(sized.items())
    ]
    label = [f"label {key}={value}" for key, value in sorted(labels.items())]
    return f" with {' and '.join([*resources, *label])}" if resources or label else ""


def _added(cluster: Cluster, like: str, copies: Sequence[Json]) -> Steps:
    """Return the steps that add copies of a node with what belongs to it: devices, topology, hypernodes."""
    joined = [_joining(key, like, copies) for key, item in cluster.of_kind("HyperNode").items() if _lists(item, like)]
    attached = [
        Create(_attached(cluster.body(kind, key), like, copy["metadata"]["name"]))
        for kind in ("ResourceSlice", "CSINode", "NumaTopology")
        for key, item in (cluster.of_kind(kind).items() if like else ())
        if (item.spec.node_name if kind == "ResourceSlice" else item.metadata.name) == like
        for copy in copies
    ]
    return (*(Create(copy) for copy in copies), *attached, *joined)


def _attached(body: Json, like: str, node: str) -> Json:
    """Return a copy of an object of a node, such as its devices, for another node."""
    name = body["metadata"]["name"]
    metadata = {"name": node if name == like else f"{name}-{node}", "uid": f"whatif-{name}-{node}"}
    spec = dict(body.get("spec") or {})
    if body["kind"] == "ResourceSlice":
        spec |= {"nodeName": node, "pool": (spec.get("pool") or {}) | {"name": node}}
    spec.pop("podAllocations", None)
    return {**body, "metadata": metadata, "spec": spec}


def _copy(body: Json, name: str) -> Json:
    metadata, spec = body["metadata"], body.get("spec") or {}
    labels = {key: name if key == _HOSTNAME else value for key, value in (metadata.get("labels") or {}).items()}
    fields = {key: value for key, value in metadata.items() if key in {"annotations", "creationTimestamp"}}
    taints = [taint for taint in spec.get("taints") or () if not taint.get("key", "").startswith(_CONDITIONS)]
    return {
        **{key: value for key, value in body.items() if key in {"apiVersion", "kind", "status"}},
        "metadata": {**fields, "name": name, "uid": f"whatif-{name}", "labels": labels},
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
        preferences = [taint for taint in body["spec"].get("taints") or () if taint.get("effect") == "PreferNoSchedule"]
        return body | {"spec": body["spec"] | {"taints": preferences}}

    def sentence(kind: str, key: str) -> str:
        if kind == "uncordon":
            return f'uncordon node "{key}"'
        taints = [taint for taint in nodes[key].spec.taints if taint.effect != "PreferNoSchedule"]
        if all(taint.key.startswith(_CONDITIONS) for taint in taints):
            return f'recovery of node "{key}" from {", ".join(taint.key for taint in taints)}'
        return f'remove the taints of node "{key}"'

    cordoned = [key for key, node in nodes.items() if node.spec.unschedulable]
    tainted = [
        key
        for key, node in nodes.items()
        if any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints) and not node.spec.unschedulable
    ]
    return [
        Candidate(kind, tuple(single((Edit("Node", key, change),), sentence(kind, key)) for key in keys))
        for kind, keys, change in (("uncordon", cordoned, uncordoned), ("taints", tainted, untainted))
        if keys
    ]


def labelled_nodes(question: Question) -> Sequence[Candidate]:
    """Return a candidate that gives nodes the labels that pods require; the largest nodes come last.

    Labels that a node has with another value, and those that the kubelet or a cloud provider sets, stay as they are.
    """
    parts: list[Part] = []
    needs = [need for need in node_needs(question.cluster, question.target) if need.labels]
    nodes = sorted(question.cluster.of_kind("Node").values(), key=_size) if needs else []
    for need in needs:
        keys = {key for key in need.labels if is_given(key)}
        for node in nodes[-_LABELLED:]:
            labels = node.metadata.labels
            missing = {key: value for key, value in need.labels.items() if labels.get(key) != value}
            if missing and not missing.keys() & (keys | labels.keys()):
                parts.append(_labelled(node.metadata.name, missing))
    return [Candidate("label", tuple(parts))] if parts else []


def _size(node: core.Node) -> tuple[int, ...]:
    sizes = amounts(node.status.allocatable)
    return (not node.spec.unschedulable and not _is_tainted(node), sizes.get("cpu", 0), sizes.get("memory", 0))


def _labelled(node: str, missing: Mapping[str, str]) -> Part:
    def labelled(body: Json) -> Json:
        metadata = body["metadata"]
        return body | {"metadata": metadata | {"labels": {**(metadata.get("labels") or {}), **missing}}}

    label_texts = " ".join(f"{key}={value}" for key, value in sorted(missing.items()))
    return single((Edit("Node", node, labelled),), f'label node "{node}" {label_texts}')


def node_groups(question: Question) -> Sequence[Candidate]:
    """Return a candidate that lets the pods of the queue run in node groups, where these decide.

    Where no node is in one, the first nodes get into one that is named like the queue.
    """
    cluster, queue = question.cluster, queue_of(question.cluster, question.target)
    if "nodegroup" not in question.config.plugins or queue not in cluster.state.queues:
        return []
    nodes = sorted(cluster.of_kind("Node").values(), key=_size)
    groups = {node.metadata.labels.get(names.NODE_GROUP, "") for node in nodes} - {""}
    parts = [] if groups else [_labelled(node.metadata.name, {names.NODE_GROUP: queue}) for node in nodes[-_LABELLED:]]
    parts += [
        single(
            (Edit("Queue", queue, partial(_in_group, group)),),
            f'add node group "{group}" to the affinity of queue "{queue}"',
        )
        for group in sorted(groups or {queue}, reverse=True)
    ]
    return [Candidate("group", tuple(parts))]


def _in_group(group: str, body: Json) -> Json:
    required, spec = "requiredDuringSchedulingIgnoredDuringExecution", body.get("spec") or {}
    affinity = spec.get("affinity") or {}
    near, away = affinity.get("nodeGroupAffinity") or {}, affinity.get("nodeGroupAntiAffinity") or {}
    near = near | {required: [*(near.get(required) or ()), group]}
    away = away | {required: [name for name in away.get(required) or () if name != group]}
    affinity = affinity | {"nodeGroupAffinity": near, "nodeGroupAntiAffinity": away}
    return body | {"spec": spec | {"affinity": affinity}}
