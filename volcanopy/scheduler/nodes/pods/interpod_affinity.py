"""Inter-pod affinity and anti-affinity: filters by the required terms, scores by the preferred ones.

The terms of existing pods count as well: required anti-affinity filters, preferred terms score. They are looked up by
the selectors that the task matches, so that a task which none of them selects costs nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.selectors import Term, Terms
from volcanopy.scheduler.model.snapshot import ShapeTable
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts, Tally
from volcanopy.scheduler.nodes.traits.node_affinity import Domains, domains
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes

_Part = tuple[Tally, Domains, int]  # Pods, the domains by which they are counted, and their weight.


@dataclass
class TermsBySelector:
    """The terms of all shapes about other pods: by selector the shape, the topology key and the weight of each term."""

    anti_affinity: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    preferred: dict[int, list[tuple[int, str, int]]] = field(default_factory=dict)


def _terms_by_selector(shapes: ShapeTable) -> TermsBySelector:
    result = TermsBySelector()
    for shape in shapes.with_terms:
        terms = shapes.terms[shape] or Terms()
        for term in terms.anti_affinity:
            result.anti_affinity.setdefault(term.selector, []).append((shape, term.topology_key))
        for term in terms.preferred:
            result.preferred.setdefault(term.selector, []).append((shape, term.topology_key, term.weight))
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

    def anti_affinity_filter(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Return the filter of node rows that violate the task's required anti-affinity; None without such terms."""
        terms = task.terms.anti_affinity if task.terms else ()
        if not terms:
            return None
        return _any_pod([self._part(term) for term in dict.fromkeys(terms)])

    def existing_anti_affinity_filter(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Return the filter of node rows whose pods have required anti-affinity to the task; None without such pods."""
        shapes_by_topology: dict[str, set[int]] = {}
        anti_affinity = self._terms.anti_affinity
        for selector in task.matched & anti_affinity.keys():
            for shape, topology in anti_affinity[selector]:
                if self._pod_counts.has_tasks(shape):
                    shapes_by_topology.setdefault(topology, set()).add(shape)
        if not shapes_by_topology:
            return None
        return _any_pod(
            [
                (self._pod_counts.tally(dict.fromkeys(shapes, 1), True), domains(topology, self._traits), 1)
                for topology, shapes in sorted(shapes_by_topology.items())
            ]
        )

    def score(self, task: TaskView) -> Callable[[Rows], Ints] | None:
        """Return the score of node rows by the preferred terms of the task and of existing pods; None without any."""
        parts = [self._part(term, term.weight) for term in task.terms.preferred] if task.terms else []
        weights: dict[str, dict[int, int]] = {}
        preferred = self._terms.preferred
        for selector in task.matched & preferred.keys():
            for shape, topology, weight in preferred[selector]:
                if self._pod_counts.has_tasks(shape):
                    by_shape = weights.setdefault(topology, {})
                    by_shape[shape] = by_shape.get(shape, 0) + weight
        parts += [
            (self._pod_counts.tally(by_shape, True), domains(key, self._traits), 1)
            for key, by_shape in sorted(weights.items())
        ]
        return _summed(parts) if parts else None

    @property
    def _terms(self) -> TermsBySelector:
        return cached_by_shapes(self._traits, "terms of shapes", self._shapes, lambda: _terms_by_selector(self._shapes))

    def _part(self, term: Term, weight: int = 1) -> _Part:
        tally = self._pod_counts.of_selectors((term.selector,), terminating=True)
        return tally, domains(term.topology_key, self._traits), weight


def _summed(parts: Sequence[_Part]) -> Callable[[Rows], Ints]:
    """Return the function of the weighted numbers of pods in the domains of node rows."""

    def sums(rows: Rows) -> Ints:
        total = np.zeros(len(rows), dtype=np.int64)
        for tally, topology, weight in parts:
            total += weight * tally.per_domain(topology)[topology.numbers[rows]]
        return total

    return sums


def _any_pod(parts: Sequence[_Part]) -> Callable[[Rows], Mask]:
    sums = _summed(parts)
    return lambda rows: sums(rows) > 0
