"""Taints, tolerations and cordons, evaluated for all nodes at once.

Many nodes, few kinds: a pod's tolerations are held against each distinct list of taints once.
"""

from dataclasses import dataclass

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.filters.traits.trait_cache import kept
from volcanopy.scheduler.model.resources import Ints, Mask, frozen
from volcanopy.scheduler.model.snapshot import Index, NodeTraits

CORDON = core.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that a cordoned node is taken to bear."""
_KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True)
class Kinds:
    """The distinct node specs (taints and cordon), and the number of each node's."""

    specs: tuple[core.NodeSpec, ...]
    codes: Index


def kinds(traits: NodeTraits) -> Kinds:
    """What kinds of nodes there are, by taints and cordon."""

    def make() -> Kinds:
        numbers: dict[core.NodeSpec, int] = {}
        codes = np.empty(len(traits.objects), dtype=np.int32)
        for row, node in enumerate(traits.objects):
            codes[row] = numbers.setdefault(node.spec, len(numbers))
        frozen(codes)
        return Kinds(tuple(numbers), codes)

    return kept(traits, "node kinds", None, make)


def tolerates(toleration: core.Toleration, taint: core.Taint) -> bool:
    """Whether a toleration covers a taint; an empty key covers every key, an empty effect every effect."""
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(tolerations: tuple[core.Toleration, ...], taint: core.Taint) -> bool:
    """Whether one of the tolerations covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: tuple[core.Toleration, ...], spec: core.NodeSpec) -> core.Taint | None:
    """The first taint of a node that keeps the pod off."""
    return next(
        (taint for taint in spec.taints if taint.effect in _KEEPS_OFF and not tolerated(tolerations, taint)), None
    )


def kept_off(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> list[tuple[core.Taint, Mask]]:
    """The taints that keep a pod off nodes: each with the (N,) mask of the nodes on which it is the first to."""
    known = kinds(traits)
    first = [untolerated(tolerations, spec) for spec in known.specs]
    result = {(taint.key, taint.value): taint for taint in first if taint is not None}
    answer = []
    for name, taint in result.items():
        verdicts = np.array([one is not None and (one.key, one.value) == name for one in first], dtype=np.bool_)
        answer.append((taint, verdicts[known.codes]))
    return answer


def free_of(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> Mask:
    """The (N,) mask of the nodes without a taint that keeps the pod off."""
    known = kinds(traits)
    verdicts = np.array([untolerated(tolerations, spec) is None for spec in known.specs], dtype=np.bool_)
    mask: Mask = verdicts[known.codes]
    return mask


def cordoned(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> Mask | None:
    """The (N,) mask of the nodes that are cordoned off for the pod, None if there is none."""
    known = kinds(traits)
    if tolerated(tolerations, CORDON) or not any(spec.unschedulable for spec in known.specs):
        return None
    mask: Mask = np.array([spec.unschedulable for spec in known.specs], dtype=np.bool_)[known.codes]
    return mask


def disliked(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> Ints:
    """(N,): how many PreferNoSchedule taints of each node the pod does not tolerate."""

    def make() -> Ints:
        known = kinds(traits)
        counts = [
            sum(taint.effect == "PreferNoSchedule" and not tolerated(tolerations, taint) for taint in spec.taints)
            for spec in known.specs
        ]
        column: Ints = np.array(counts, dtype=np.int64)[known.codes]
        frozen(column)
        return column

    return kept(traits, "disliked taints", tolerations, make)
