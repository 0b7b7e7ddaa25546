"""Node selectors and node affinity, evaluated for all nodes at once.

Each requirement is decided once per distinct value of the label; the column of value numbers spreads the verdicts over
the nodes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.filters.traits.trait_cache import kept
from volcanopy.scheduler.model.resources import Ints, Mask, Rows, frozen
from volcanopy.scheduler.model.snapshot import NodeTraits

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, eq=False)
class Domains:
    """The nodes grouped by the value of a label."""

    places: Rows
    """(N,): the number of each node's group, counted from 1; 0 for nodes in none."""
    size: int
    """One more than the number of groups that the label knows."""

    @cached_property
    def populated(self) -> Rows:
        """The groups that have a node."""
        result = np.flatnonzero(np.bincount(self.places, minlength=self.size))
        return result[result > 0]


def domains(key: str, traits: NodeTraits) -> Domains:
    """The topology domains that a label's values make."""

    def make() -> Domains:
        codes, numbers = traits.label(key)
        places = codes.astype(np.intp) + 1
        frozen(places)
        return Domains(places, len(numbers) + 1)

    return kept(traits, "topology domains", key, make)


def needed(spec: core.PodSpec) -> tuple[Mapping[str, str], core.NodeSelector | None]:
    """What a pod needs of a node's labels: its node selector and its required node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return spec.node_selector, affinity.required if affinity else None


def eligible(spec: core.PodSpec, traits: NodeTraits) -> Mask | None:
    """The (N,) mask of the nodes whose labels the pod's node selector and required affinity want; None for all."""
    selector, affinity = needed(spec)
    if not selector and affinity is None:
        return None

    def make() -> Mask:
        mask = np.ones(len(traits.objects), dtype=np.bool_)
        for key, value in selector.items():
            mask &= _holds(core.Requirement(key=key, operator="In", values=(value,)), traits)
        if affinity is not None:
            mask &= any_term(affinity.node_selector_terms, traits)
        frozen(mask)
        return mask

    return kept(traits, "required node labels", _ENCODE((selector, affinity)), make)


def preference(spec: core.PodSpec, traits: NodeTraits) -> Ints | None:
    """(N,): the summed weights of the preferred node affinity terms that each node satisfies; None without terms."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or not affinity.preferred:
        return None

    def make() -> Ints:
        weights = np.zeros(len(traits.objects), dtype=np.int64)
        for term in affinity.preferred:
            weights += term.weight * any_term((term.preference,), traits)
        frozen(weights)
        return weights

    return kept(traits, "preferred node labels", affinity.preferred, make)


def any_term(terms: tuple[core.NodeSelectorTerm, ...], traits: NodeTraits) -> Mask:
    """The (N,) mask of the nodes that satisfy one of the terms; an empty term is satisfied by none."""
    chosen = np.zeros(len(traits.objects), dtype=np.bool_)
    for term in terms:
        if not term.match_expressions and not term.match_fields:
            continue
        mask = np.ones(len(traits.objects), dtype=np.bool_)
        for requirement in term.match_expressions:
            mask &= _holds(requirement, traits)
        for requirement in term.match_fields:
            mask &= _field_holds(requirement, traits)
        chosen |= mask
    return chosen


def _holds(requirement: core.Requirement, traits: NodeTraits) -> Mask:
    """The nodes that satisfy one requirement; one that Kubernetes would not accept is satisfied by none."""
    codes, numbers = traits.label(requirement.key)
    verdicts = np.zeros(len(numbers) + 1, dtype=np.bool_)  # the last is for nodes without the label: code -1
    values = requirement.values
    match requirement.operator:
        case "In":
            verdicts[[numbers[value] for value in values if value in numbers]] = True
        case "NotIn" if values:
            verdicts[:] = True
            verdicts[[numbers[value] for value in values if value in numbers]] = False
        case "Exists" if not values:
            verdicts[:-1] = True
        case "DoesNotExist" if not values:
            verdicts[-1] = True
        case "Gt" | "Lt" if len(values) == 1 and (bound := integer(values[0])) is not None:
            for value, number in numbers.items():
                have = integer(value)
                if have is not None:
                    verdicts[number] = have > bound if requirement.operator == "Gt" else have < bound
    mask: Mask = verdicts[codes]
    return mask


def _field_holds(requirement: core.Requirement, traits: NodeTraits) -> Mask:
    """``matchFields``: Kubernetes knows the one field ``metadata.name``, In or NotIn one value."""
    mask = np.zeros(len(traits.objects), dtype=np.bool_)
    if (
        requirement.key != "metadata.name"
        or len(requirement.values) != 1
        or requirement.operator not in {"In", "NotIn"}
    ):
        return mask
    names: dict[str, int] = kept(
        traits, "names", None, lambda: {node.metadata.name: row for row, node in enumerate(traits.objects)}
    )
    row = names.get(requirement.values[0])
    if row is not None:
        mask[row] = True
    return mask if requirement.operator == "In" else ~mask


def integer(text: str) -> int | None:
    """A label's value as a 64-bit integer, None if it is not one."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
