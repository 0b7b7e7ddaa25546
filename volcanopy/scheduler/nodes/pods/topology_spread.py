"""Pod topology spread constraints: filters by the DoNotSchedule constraints, scores by the ScheduleAnyway ones.

A required constraint filters domains whose skew would exceed ``maxSkew``. Pods on nodes that are not eligible for the
task, or lack one of the topology keys, are not counted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.domain_limits import DomainLimit
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.selectors import Spread
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts, Tally
from volcanopy.scheduler.nodes.traits import node_affinity, taints
from volcanopy.scheduler.nodes.traits.node_affinity import Domains

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class _Constraint:
    """One constraint of a task, with its tally and topology."""

    spread: Spread
    tally: Tally | None  # None for an empty selector: kube-scheduler then counts no pod.
    topology: Domains
    counted: Domains  # The topology restricted to the nodes whose pods count.
    own: int  # 1 if the task matches the selector itself, else 0.

    def sums(self) -> Ints:
        """Return the number of pods by number of the domain."""
        if self.tally is None:
            return np.zeros(self.topology.size, dtype=np.int64)
        return self.tally.per_domain(self.counted)


class PodTopologySpread:
    """Topology spread in one session."""

    def __init__(self, cluster: Cluster, pod_counts: PodCounts) -> None:
        self._pod_counts = pod_counts
        self._traits = cluster.traits

    def skew_limits(self, task: TaskView) -> list[DomainLimit]:
        """Return the limits by the task's required constraints."""
        limits = []
        for constraint in self._constraints(task, required=True):
            domains, counted, spread = constraint.topology.numbers, constraint.counted, constraint.spread
            added = np.where(counted.numbers, 0 if constraint.tally is None else constraint.own, 0)
            among = counted.populated if len(counted.populated) >= max(spread.min_domains, 1) else None
            limits.append(DomainLimit(domains, constraint.sums, added, spread.max_skew - constraint.own, among))
        return limits

    def score(self, task: TaskView) -> Callable[[Rows], Floats] | None:
        """Return the score of node rows, normalized to 0..100, by the preferred constraints; None without any."""
        constraints = self._constraints(task, required=False)
        if not constraints:
            return None
        labelled: Mask = np.logical_and.reduce([constraint.topology.numbers != 0 for constraint in constraints])

        def scores(rows: Rows) -> Floats:
            scored = labelled[rows]
            result = np.zeros(len(rows), dtype=np.float64)
            chosen = rows[scored]
            if len(chosen):
                result[scored] = _normalised(_raw(constraints, chosen))
            return result

        return scores

    def _constraints(self, task: TaskView, required: bool) -> list[_Constraint]:
        if task.terms is None:
            return []
        # Both lists have the same order: the terms are read from the constraints of the spec.
        pairs = zip(task.terms.spread, task.spec.topology_spread_constraints, strict=True)
        chosen = [(spread, text) for spread, text in pairs if spread.required == required]
        if not chosen:
            return []
        topologies = [node_affinity.domains(spread.topology_key, self._traits) for spread, _ in chosen]
        labelled: Mask = np.logical_and.reduce([topology.numbers != 0 for topology in topologies])
        of_pods, nothing = self._pod_counts.of_selectors, core.LabelSelector()
        return [
            _Constraint(
                spread=spread,
                tally=of_pods((spread.selector,), terminating=False)
                if text.label_selector != nothing or text.match_label_keys
                else None,
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
            mask = mask & taints.tolerated_nodes(spec.tolerations, self._traits)
        return Domains(np.where(mask, topology.numbers, 0), topology.size)


def _raw(constraints: list[_Constraint], rows: Rows) -> Floats:
    """Return the raw scores, lower is better: pods in the node's domains, weighted by the number of domains, rounded."""
    total = np.zeros(len(rows), dtype=np.float64)
    for constraint in constraints:
        numbers, tally = constraint.topology.numbers[rows], constraint.tally
        if constraint.spread.topology_key == HOSTNAME:
            size = len(rows)
            counts = np.zeros(len(rows), dtype=np.int64) if tally is None else tally.counts[rows]
        else:
            size = int(np.count_nonzero(np.bincount(numbers)))
            counts = constraint.sums()[numbers]
        total += counts * math.log(size + 2) + float(constraint.spread.max_skew - 1)
    whole = np.floor(total)
    return whole + (total - whole >= 0.5)


def _normalised(raw: Floats) -> Floats:
    most, least = raw.max(), raw.min()
    if most == 0:
        return np.full(len(raw), 100.0)
    return np.floor(100.0 * (most + least - raw) / most)
