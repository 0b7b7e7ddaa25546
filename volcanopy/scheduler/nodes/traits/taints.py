"""Taints, tolerations and cordons, evaluated for all nodes at once: once per distinct node spec."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Index, Ints, Mask, frozen
from volcanopy.scheduler.model.selectors import holds
from volcanopy.scheduler.nodes.traits.trait_cache import cached

CORDON = core.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that stands for a cordoned node."""
_CONDITIONS = "node.kubernetes.io/"
"""The beginning of the taints that Kubernetes sets for conditions of nodes."""
FILTERED_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True)
class NodeSpecs:
    """The distinct node specs (taints and cordon), and (N,) the number of each node's spec."""

    specs: tuple[core.NodeSpec, ...]
    codes: Index

    def mask(self, answers: Iterable[bool]) -> Mask:
        """(N,): the answer of each node's spec, from those of all specs."""
        return np.array([*answers], dtype=np.bool_)[self.codes]


def node_specs(traits: NodeTraits) -> NodeSpecs:
    """Return the distinct node specs."""

    def make() -> NodeSpecs:
        numbers: dict[core.NodeSpec, int] = {}
        codes = np.empty(len(traits.objects), dtype=np.int32)
        for row, node in enumerate(traits.objects):
            codes[row] = numbers.setdefault(node.spec, len(numbers))
        return NodeSpecs(tuple(numbers), frozen(codes))

    return cached(traits, "node specs", None, make)


def tolerates(toleration: core.Toleration, taint: core.Taint) -> bool:
    """Return whether a toleration tolerates a taint; an empty key or effect matches every one."""
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    if toleration.operator in {"Gt", "Lt"}:  # Gt: the taint has the greater number
        bound = core.Requirement(key=taint.key, operator=toleration.operator, values=(toleration.value,))
        return holds(bound, {taint.key: taint.value})
    return toleration.operator == "Exists"


def tolerated(tolerations: Iterable[core.Toleration], taint: core.Taint) -> bool:
    """Return whether one of the tolerations tolerates a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: tuple[core.Toleration, ...], spec: core.NodeSpec) -> core.Taint | None:
    """Return the first untolerated NoSchedule or NoExecute taint of a node."""
    return next(
        (taint for taint in spec.taints if taint.effect in FILTERED_EFFECTS and not tolerated(tolerations, taint)), None
    )


def untolerated_taints(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> list[tuple[core.Taint, Mask]]:
    """Return the untolerated taints, each with the (N,) mask of the nodes on which it is the first one."""
    known = node_specs(traits)
    first = [untolerated(tolerations, spec) for spec in known.specs]
    by_name = {(taint.key, taint.value): taint for taint in first if taint is not None}
    names = [None if taint is None else (taint.key, taint.value) for taint in first]
    return [(taint, known.mask(each == name for each in names)) for name, taint in by_name.items()]


def tolerated_nodes(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> Mask:
    """Return the (N,) mask of the nodes without untolerated NoSchedule or NoExecute taints."""
    known = node_specs(traits)
    return known.mask(untolerated(tolerations, spec) is None for spec in known.specs)


def cordoned(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> Mask | None:
    """Return the (N,) mask of the cordoned nodes, None if there are none or the pod tolerates the cordon."""
    known = node_specs(traits)
    if tolerated(tolerations, CORDON) or not any(spec.unschedulable for spec in known.specs):
        return None
    return known.mask(spec.unschedulable for spec in known.specs)


def out_of_service(traits: NodeTraits) -> Mask:
    """Return the (N,) mask of the nodes that are cordoned or not ready, which may return."""
    known = node_specs(traits)
    return known.mask(
        spec.unschedulable or any(taint.key.startswith(_CONDITIONS) for taint in spec.taints) for spec in known.specs
    )


def untolerated_preferences(tolerations: tuple[core.Toleration, ...], traits: NodeTraits) -> Ints:
    """Return (N,) the number of untolerated PreferNoSchedule taints of each node."""

    def make() -> Ints:
        known = node_specs(traits)
        counts = [
            sum(taint.effect == "PreferNoSchedule" and not tolerated(tolerations, taint) for taint in spec.taints)
            for spec in known.specs
        ]
        return frozen(np.array(counts, dtype=np.int64)[known.codes])

    return cached(traits, "untolerated preferences", tolerations, make)
