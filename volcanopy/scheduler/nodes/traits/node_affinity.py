"""Node selectors and node affinity, evaluated for all nodes at once.

Each requirement is evaluated once per distinct value of its label; the results are mapped to the nodes by the column of
value numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Ints, Mask, Rows, frozen
from volcanopy.scheduler.model.selectors import holds
from volcanopy.scheduler.nodes.traits.trait_cache import cached

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_VALUES = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}
"""By operator: how many values a requirement must have."""


@dataclass(frozen=True, eq=False)
class Domains:
    """The nodes grouped by the value of a label."""

    numbers: Rows
    """(N,): the number of each node's domain, from 1; 0 for nodes without the label."""
    size: int
    """The number of domains plus one."""

    @cached_property
    def populated(self) -> Rows:
        """The numbers of the domains with at least one node."""
        result = np.flatnonzero(np.bincount(self.numbers, minlength=self.size))
        return result[result > 0]


def domains(key: str, traits: NodeTraits) -> Domains:
    """Return the topology domains of a label key."""

    def make() -> Domains:
        codes, values = traits.label(key)
        numbers = frozen(codes.astype(np.intp) + 1)
        return Domains(numbers, len(values) + 1)

    return cached(traits, "topology domains", key, make)


def required_labels(spec: core.PodSpec) -> tuple[Mapping[str, str], core.NodeSelector | None]:
    """Return the node selector and the required node affinity of a pod."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return spec.node_selector, affinity.required if affinity else None


def eligible(spec: core.PodSpec, traits: NodeTraits) -> Mask | None:
    """Return the (N,) mask of the nodes that match node selector and required affinity; None for all."""
    selector, affinity = required_labels(spec)
    if not selector and affinity is None:
        return None

    def make() -> Mask:
        mask = all_of(
            (core.Requirement(key=key, operator="In", values=(value,)) for key, value in selector.items()), traits
        )
        if affinity is not None:
            mask &= any_term(affinity.node_selector_terms, traits)
        return frozen(mask)

    return cached(traits, "required node labels", _ENCODE((selector, affinity)), make)


def preference(spec: core.PodSpec, traits: NodeTraits) -> Ints | None:
    """Return (N,) the summed weights of the preferred node affinity terms that each node matches; None without terms."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or not affinity.preferred:
        return None

    def make() -> Ints:
        weights = np.zeros(len(traits.objects), dtype=np.int64)
        for term in affinity.preferred:
            weights += term.weight * any_term((term.preference,), traits)
        return frozen(weights)

    return cached(traits, "preferred node labels", affinity.preferred, make)


def any_term(terms: tuple[core.NodeSelectorTerm, ...], traits: NodeTraits) -> Mask:
    """Return the (N,) mask of the nodes that match at least one term; an empty term matches no node."""
    chosen = np.zeros(len(traits.objects), dtype=np.bool_)
    for term in terms:
        if not term.match_expressions and not term.match_fields:
            continue
        mask = all_of(term.match_expressions, traits)
        for requirement in term.match_fields:
            mask &= _matches_field(requirement, traits)
        chosen |= mask
    return chosen


def all_of(requirements: Iterable[core.Requirement], traits: NodeTraits) -> Mask:
    """Return the (N,) mask of the nodes that match all of these requirements."""
    mask = np.ones(len(traits.objects), dtype=np.bool_)
    for requirement in requirements:
        mask &= _matches(requirement, traits)
    return mask


def _matches(requirement: core.Requirement, traits: NodeTraits) -> Mask:
    """Return the mask of the nodes that match a requirement; an invalid one matches no node."""
    codes, numbers = traits.label(requirement.key)
    matching = np.zeros(len(numbers) + 1, dtype=np.bool_)  # the last is for nodes without the label: code -1
    values = requirement.values
    if requirement.operator in {"In", "NotIn"} and values:  # quick, as they may be about each node by its name
        matching[[numbers[value] for value in values if value in numbers]] = True
        return (matching if requirement.operator == "In" else ~matching)[codes]
    if len(values) == _VALUES.get(requirement.operator):
        matching[:] = [*(holds(requirement, {requirement.key: value}) for value in numbers), holds(requirement, {})]
    return matching[codes]


def _matches_field(requirement: core.Requirement, traits: NodeTraits) -> Mask:
    """Return the mask for ``matchFields``: only ``metadata.name`` is supported, In or NotIn with one value."""
    if (
        requirement.key != "metadata.name"
        or len(requirement.values) != 1
        or requirement.operator not in {"In", "NotIn"}
    ):
        return np.zeros(len(traits.objects), dtype=np.bool_)
    mask = np.arange(len(traits.objects)) == traits.rows.get(requirement.values[0], -1)
    return mask if requirement.operator == "In" else ~mask
