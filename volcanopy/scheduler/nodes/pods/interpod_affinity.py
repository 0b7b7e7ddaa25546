"""Inter-pod affinity and anti-affinity: filters by the required terms, scores by the preferred ones.

The terms of existing pods count as well: required anti-affinity filters, preferred terms score. They are looked up by
the selectors that the task matches, so that a task which none of them selects costs nothing.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.domain_limits import DomainLimit
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.selectors import Term
from volcanopy.scheduler.model.snapshot import ShapeTable
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts, Tally
from volcanopy.scheduler.nodes.traits.node_affinity import Domains, domains
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes

_Part = tuple[Tally, Domains, int]  # Pods, the domains by which they are counted, and their weight.


def _terms_by_selector(shapes: ShapeTable, kind: str) -> dict[int, list[tuple[int, Term]]]:
    """Return the terms of this kind of all shapes, each with its shape, by the number of the selector."""
    result: dict[int, list[tuple[int, Term]]] = {}
    for shape in shapes.with_terms:
        for term in getattr(shapes.terms[shape], kind):
            result.setdefault(term.selector, []).append((shape, term))
    return result


class InterPodAffinity:
    """Inter-pod affinity in one session."""

    def __init__(self, cluster: Cluster, pod_counts: PodCounts) -> None:
        self._pod_counts = pod_counts
        self._traits = cluster.traits
        self._shapes = cluster.snapshot.shapes

    def affinity_filter(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Return the filter of node rows that violate the task's required affinity; None without such terms."""
        terms = task.terms.affinity if task.terms else ()
        if not terms:
            return None
        tally = self._pod_counts.of_selectors({term.selector for term in terms}, terminating=True)
        topologies = [domains(key, self._traits) for key in dict.fromkeys(term.topology_key for term in terms)]
        matches_itself = all(term.selector in task.matched for term in terms)

        def rejected(rows: Rows) -> Mask:
            sums = [tally.per_domain(topology) for topology in topologies]
            mask = np.zeros(len(rows), dtype=np.bool_)
            # The first pod with affinity to itself is allowed everywhere in the topology: no pod matches its terms yet.
            first = matches_itself and not any(counts.any() for counts in sums)
            for topology, counts in zip(topologies, sums, strict=True):
                numbers = topology.numbers[rows]
                mask |= numbers == 0 if first else counts[numbers] == 0
            return mask

        return rejected

    def anti_affinity_limits(self, task: TaskView) -> list[DomainLimit]:
        """Return the limits by the task's required anti-affinity."""
        terms = task.terms.anti_affinity if task.terms else ()
        return [tally.limit(topology, task.shape) for tally, topology, _ in map(self._part, dict.fromkeys(terms))]

    def existing_anti_affinity_limits(self, task: TaskView) -> list[DomainLimit]:
        """Return the limits by the required anti-affinity to the task of pods on nodes."""
        return [tally.limit(topology, task.shape) for tally, topology, _ in self._of_existing(task, "anti_affinity")]

    def score(self, task: TaskView) -> Callable[[Rows], Ints] | None:
        """Return the score of node rows by the preferred terms of the task and of existing pods; None without any."""
        parts = [self._part(term, term.weight) for term in task.terms.preferred] if task.terms else []
        parts += self._of_existing(task, "preferred")
        if not parts:
            return None

        def sums(rows: Rows) -> Ints:
            total = np.zeros(len(rows), dtype=np.int64)
            for tally, topology, weight in parts:
                total += weight * tally.per_domain(topology)[topology.numbers[rows]]
            return total

        return sums

    def _of_existing(self, task: TaskView, kind: Literal["anti_affinity", "preferred"]) -> list[_Part]:
        """Return the existing pods with terms of this kind that match the task, by topology; each counts 1 by required ones."""
        shapes, weights = self._shapes, dict[str, dict[int, int]]()
        terms = cached_by_shapes(self._traits, f"{kind} terms", shapes, lambda: _terms_by_selector(shapes, kind))
        for selector in task.matched & terms.keys():
            for shape, term in terms[selector]:
                if shape in self._pod_counts.placeable_shapes:
                    by_shape = weights.setdefault(term.topology_key, {})
                    by_shape[shape] = 1 if kind == "anti_affinity" else by_shape.get(shape, 0) + term.weight
        return [
            (self._pod_counts.tally(by_shape, terminating=True), domains(key, self._traits), 1)
            for key, by_shape in sorted(weights.items())
        ]

    def _part(self, term: Term, weight: int = 1) -> _Part:
        tally = self._pod_counts.of_selectors((term.selector,), terminating=True)
        return tally, domains(term.topology_key, self._traits), weight
