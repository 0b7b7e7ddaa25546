"""Label selectors: evaluated, and numbered so that what they match is kept as a column; the terms of pods that use them.

A pod affinity or spread term matches the labels of other pods. Each distinct selector gets a number; which tasks match
it is kept up to date as pods come and go, so that a cycle counts matches with one array operation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from volcanopy.api import core

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def matches(selector: core.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector; none at all matches nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        holds(requirement, labels) for requirement in selector.match_expressions
    )


def holds(requirement: core.Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy one requirement (In, NotIn, Exists, DoesNotExist, and Gt, Lt for nodes)."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def admits(selector: core.NodeSelector | None, node: core.Node) -> bool:
    """Whether a node satisfies one of a node selector's terms; no selector is satisfied by every node."""
    if selector is None:
        return True
    field = {"metadata.name": node.metadata.name}
    return any(
        bool(term.match_expressions or term.match_fields)
        and all(holds(requirement, node.metadata.labels) for requirement in term.match_expressions)
        and all(holds(requirement, field) for requirement in term.match_fields)
        for term in selector.node_selector_terms
    )


def _compares(requirement: core.Requirement, value: str | None) -> bool:
    have, bound = _integer(value or ""), _integer(next(iter(requirement.values), ""))
    if have is None or bound is None:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


def _integer(text: str) -> int | None:
    """Return a label value as a 64-bit integer, None if it is not one."""
    number = int(text) if _INTEGER.fullmatch(text) else 2**63
    return number if -(2**63) <= number < 2**63 else None


class PodSelector(msgspec.Struct, frozen=True):
    """Which pods a term of another pod is about: namespaces (by name or by their labels) and labels."""

    namespaces: tuple[str, ...]
    namespace_selector: core.LabelSelector | None
    labels: core.LabelSelector | None

    def key(self) -> bytes:
        """A key that is equal for equal selectors."""
        return _ENCODE(self)

    def matches(self, pod: core.Pod, namespaces: Mapping[str, core.Namespace]) -> bool:
        """Whether a pod is meant."""
        if not matches(self.labels, pod.metadata.labels):
            return False
        if pod.metadata.namespace in self.namespaces:
            return True
        if self.namespace_selector is None:
            return False
        namespace = namespaces.get(pod.metadata.namespace)
        return matches(self.namespace_selector, namespace.metadata.labels if namespace else {})


_Label = tuple[str, str] | str
"""A label with its value, or its key alone."""
_Namespace = str | tuple[_Label]
"""The name of a namespace, or one of its labels."""
_ALL_NAMESPACES = ""


class SelectorIndex:
    """Numbered selectors by what a pod must have that they match: its namespace or a label of it, and one of its own labels.

    Terms of one user then cost nothing for pods of others, and those with labels of their own little for each other. What only
    names labels that a pod must not have is compared with each pod of its namespaces, most of which it matches.
    """

    def __init__(self, numbered: Iterable[tuple[int, PodSelector]] = ()) -> None:
        self._numbers: dict[tuple[_Namespace, _Label | None], list[int]] = {}
        self._namespaces: set[_Namespace] = set()
        for number, selector in numbered:
            self.add(number, selector)

    def add(self, number: int, selector: PodSelector) -> None:
        """Add a selector."""
        if selector.labels is None:
            return  # it matches nothing
        for namespace in set(_namespaces(selector)):
            self._namespaces.add(namespace)
            for label in _needed(selector.labels):
                self._numbers.setdefault((namespace, label), []).append(number)

    def candidates(self, pod: core.Pod, namespaces: Mapping[str, core.Namespace]) -> Iterator[int]:
        """Yield the selectors that may match a pod; the others do not."""
        name = pod.metadata.namespace
        labels = namespaces[name].metadata.labels if name in namespaces else {}
        of_labels: Iterable[_Namespace] = ((label,) for item in labels.items() for label in (item, item[0]))
        for namespace in self._namespaces.intersection((name, _ALL_NAMESPACES, *of_labels)):
            yield from self._numbers.get((namespace, None), ())
            for key, value in pod.metadata.labels.items():
                yield from self._numbers.get((namespace, (key, value)), ())
                yield from self._numbers.get((namespace, key), ())


def _namespaces(selector: PodSelector) -> Iterable[_Namespace]:
    """Return entries of which a namespace that the selector matches has exactly one."""
    if selector.namespace_selector is None:
        return selector.namespaces
    if selector.namespaces:  # the name of a namespace and its labels may both match
        return (_ALL_NAMESPACES,)
    return (_ALL_NAMESPACES if label is None else (label,) for label in _needed(selector.namespace_selector))


def _needed(selector: core.LabelSelector) -> Iterable[_Label | None]:
    """Return labels of which each pod has exactly one that the selector matches; None stands for any pod."""
    if selector.match_labels:
        return (next(iter(selector.match_labels.items())),)
    sets = [
        {(item.key, value) for value in item.values} for item in selector.match_expressions if item.operator == "In"
    ]
    if sets:
        return min(sets, key=len)
    return (next((item.key for item in selector.match_expressions if item.operator in _NEED_THE_KEY), None),)


_NEED_THE_KEY = frozenset({"Exists", "Gt", "Lt"})


def of_term(term: core.PodAffinityTerm, pod: core.Pod) -> PodSelector:
    """The pods that an affinity term of this pod is about."""
    own_namespace = not term.namespaces and term.namespace_selector is None
    return PodSelector(
        namespaces=(pod.metadata.namespace,) if own_namespace else tuple(sorted(term.namespaces)),
        namespace_selector=term.namespace_selector,
        labels=_with_own_labels(term.label_selector, pod, term.match_label_keys, term.mismatch_label_keys),
    )


def of_spread(constraint: core.TopologySpreadConstraint, pod: core.Pod) -> PodSelector:
    """The pods that a topology spread constraint of this pod counts."""
    labels = _with_own_labels(constraint.label_selector, pod, constraint.match_label_keys, ())
    return PodSelector(namespaces=(pod.metadata.namespace,), namespace_selector=None, labels=labels)


def _with_own_labels(
    selector: core.LabelSelector | None, pod: core.Pod, same: tuple[str, ...], other: tuple[str, ...]
) -> core.LabelSelector | None:
    if selector is None or not (same or other):
        return selector
    own = pod.metadata.labels
    extra = [core.Requirement(key=key, operator="In", values=(own[key],)) for key in same if key in own]
    extra += [core.Requirement(key=key, operator="NotIn", values=(own[key],)) for key in other if key in own]
    return msgspec.structs.replace(selector, match_expressions=(*selector.match_expressions, *extra))


@dataclass(frozen=True)
class Term:
    """One pod (anti-)affinity term: the number of its selector, its topology key, its weight (0 if required)."""

    selector: int
    topology_key: str
    weight: int = 0


@dataclass(frozen=True)
class Spread:
    """One topology spread constraint, its selector by number."""

    selector: int
    topology_key: str
    max_skew: int
    required: bool
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True)
class Terms:
    """All terms of a shape about other pods."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()
    """Preferences; those against are of negative weight."""
    spread: tuple[Spread, ...] = ()
