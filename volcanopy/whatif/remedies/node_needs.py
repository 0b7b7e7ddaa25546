"""What the pods of a job require of a node: resources, labels, or one node by its name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from volcanopy.api.model import Json
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.target import Target, pod_specs, requests_of

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
