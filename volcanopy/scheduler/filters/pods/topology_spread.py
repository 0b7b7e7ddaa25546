"""Topology spread: like pods evenly over the domains of a topology.

A required constraint refuses the domains that would be too far ahead of the emptiest; an optional one scores. Pods on
nodes that could not take the task, or lack one of the topologies, are not counted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.filters.pods.pod_counts import PodCounts, Tally
from volcanopy.scheduler.filters.traits import node_affinity, taints
from volcanopy.scheduler.filters.traits.node_affinity import Domains
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import Spread

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class _Constraint:
    """One constraint of a task, made ready for counting."""

    spread: Spread
    tally: Tally | None
    """None where the selector is empty: kube-scheduler then counts nobody."""
    topology: Domains
    counted: Domains
    """The topology with only the nodes whose pods count."""
    own: int
    """1 if the task itself is of those that are spread."""

    def sums(self) -> Ints:
        """The pods in each domain."""
        if self.tally is None:
            return np.zeros(self.topology.size, dtype=np.int64)
        return self.tally.over(self.counted)


class Spreading:
    """Topology spread in one session."""

    def __init__(self, cluster: Cluster, pod_counts: PodCounts) -> None:
        self._pod_counts = pod_counts
        self._traits = cluster.traits

    def unlabelled(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Says of node rows whether they lack the label of a required constraint; None without such constraints."""
        constraints = self._constraints(task, required=True)
        if not constraints:
            return None
        missing = ~_all_labels(constraints)
        return lambda rows: missing[rows]

    def skewed(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Says of node rows whether the task there would break a required constraint; None without such constraints."""
        constraints = self._constraints(task, required=True)
        if not constraints:
            return None

        def refused(rows: Rows) -> Mask:
            mask = np.zeros(len(rows), dtype=np.bool_)
            for one in constraints:
                sums = one.sums()
                result = one.counted.populated
                enough = len(result) >= one.spread.min_domains
                least = int(sums[result].min()) if enough and len(result) else 0
                places = one.topology.places[rows]
                mask |= (places != 0) & (sums[places] + one.own - least > one.spread.max_skew)
            return mask

        return refused

    def evenness(self, task: TaskView) -> Callable[[Rows], Floats] | None:
        """Scores node rows, 0 to 100 among themselves, by the optional constraints; None without such constraints."""
        constraints = self._constraints(task, required=False)
        if not constraints:
            return None
        labelled = _all_labels(constraints)

        def score(rows: Rows) -> Floats:
            asked = labelled[rows]
            answer = np.zeros(len(rows), dtype=np.float64)
            chosen = rows[asked]
            if len(chosen):
                answer[asked] = _normalised(_raw(constraints, chosen))
            return answer

        return score

    def _constraints(self, task: TaskView, required: bool) -> list[_Constraint]:
        if task.terms is None:
            return []
        # The two lists are of one length and order: the terms are read off the spec's constraints.
        pairs = zip(task.terms.spread, task.spec.topology_spread_constraints, strict=True)
        chosen = [(spread, text) for spread, text in pairs if spread.required == required]
        if not chosen:
            return []
        topologies = [node_affinity.domains(spread.topology_key, self._traits) for spread, _ in chosen]
        labelled: Mask = np.logical_and.reduce([topology.places != 0 for topology in topologies])
        return [
            _Constraint(
                spread=spread,
                tally=None if _is_empty(text) else self._pod_counts.of_selector(spread.selector, leaving=False),
                topology=topology,
                counted=self._counted(task.spec, spread, topology, labelled),
                own=int(spread.selector in task.matched),
            )
            for (spread, text), topology in zip(chosen, topologies, strict=True)
        ]

    def _counted(self, spec: core.PodSpec, spread: Spread, topology: Domains, labelled: Mask) -> Domains:
        mask = labelled
        if spread.honor_affinity:
            eligible = node_affinity.eligible(spec, self._traits)
            mask = mask if eligible is None else mask & eligible
        if spread.honor_taints:
            mask = mask & taints.free_of(spec.tolerations, self._traits)
        return Domains(np.where(mask, topology.places, 0), topology.size)


def _is_empty(constraint: core.TopologySpreadConstraint) -> bool:
    selector = constraint.label_selector
    return (
        selector is not None
        and not selector.match_labels
        and not selector.match_expressions
        and not constraint.match_label_keys
    )


def _all_labels(constraints: list[_Constraint]) -> Mask:
    mask: Mask = np.logical_and.reduce([one.topology.places != 0 for one in constraints])
    return mask


def _raw(constraints: list[_Constraint], rows: Rows) -> Floats:
    """The lower the better: pods in the node's domains, weighed by how many domains there are, rounded half up."""
    total = np.zeros(len(rows), dtype=np.float64)
    for one in constraints:
        places = one.topology.places[rows]
        if one.spread.topology_key == HOSTNAME:
            size = len(rows)
            counts = np.zeros(len(rows), dtype=np.int64) if one.tally is None else one.tally.counts[rows]
        else:
            size = int(np.count_nonzero(np.bincount(places)))
            counts = one.sums()[places]
        total += counts * math.log(size + 2) + float(one.spread.max_skew - 1)
    whole = np.floor(total)
    rounded: Floats = whole + (total - whole >= 0.5)
    return rounded


def _normalised(raw: Floats) -> Floats:
    most, least = raw.max(), raw.min()
    if most == 0:
        return np.full(len(raw), 100.0)
    scaled: Floats = np.floor(100.0 * (most + least - raw) / most)
    return scaled
