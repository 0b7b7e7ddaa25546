"""Inter-pod affinity: near these pods, away from those, in a topology.

Required terms refuse nodes, and so do the required anti-affinity terms of pods that are there already. Preferred terms
score, those of the pods that are there as well. What other pods say is looked up by the selectors that the asking task
matches, so tasks that nobody talks about pay nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.filters.pods.pod_counts import PodCounts, Tally
from volcanopy.scheduler.filters.traits.node_affinity import Domains, domains
from volcanopy.scheduler.filters.traits.trait_cache import kept_of_shapes
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import ShapeTable, Term, Terms


@dataclass
class Said:
    """What shapes say about other pods: by selector, the shape, the topology and the weight of each term."""

    against: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    preferred: dict[int, list[tuple[int, str, int]]] = field(default_factory=dict)


def _said(shapes: ShapeTable) -> Said:
    text = Said()
    for shape in shapes.with_terms:
        terms = shapes.terms[shape] or Terms()
        for term in terms.anti_affinity:
            text.against.setdefault(term.selector, []).append((shape, term.topology_key))
        for term in terms.preferred:
            text.preferred.setdefault(term.selector, []).append((shape, term.topology_key, term.weight))
    return text


class InterPod:
    """Inter-pod affinity in one session."""

    def __init__(self, cluster: Cluster, pod_counts: PodCounts) -> None:
        self._pod_counts = pod_counts
        self._traits = cluster.traits
        self._shapes = cluster.snapshot.shapes

    def near(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Says of node rows whether the task's required affinity refuses them; None without such terms."""
        terms = task.terms.affinity if task.terms else ()
        if not terms:
            return None
        tally = self._matching_all(terms)
        topologies = self._topologies(terms)
        is_own = all(term.selector in task.matched for term in terms)

        def refused(rows: Rows) -> Mask:
            sums = [tally.over(topology) for topology in topologies]
            refused = np.zeros(len(rows), dtype=np.bool_)
            # The first pod of a group that is to be near itself has nobody to be near to yet.
            first = is_own and not any(one.any() for one in sums)
            for topology, counts in zip(topologies, sums, strict=True):
                places = topology.places[rows]
                refused |= places == 0 if first else counts[places] == 0
            return refused

        return refused

    def away(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Says of node rows whether the task's required anti-affinity refuses them; None without such terms."""
        terms = task.terms.anti_affinity if task.terms else ()
        if not terms:
            return None
        return _any_there(
            [
                (self._pod_counts.of_selector(term.selector, leaving=True), domains(term.topology_key, self._traits))
                for term in dict.fromkeys(terms)
            ]
        )

    def kept_away(self, task: TaskView) -> Callable[[Rows], Mask] | None:
        """Says of node rows whether the anti-affinity of pods there refuses the task; None if no pod has such terms."""
        shapes_by_topology: dict[str, set[int]] = {}
        against = self._said.against
        for selector in task.matched & against.keys():
            for shape, topology in against[selector]:
                if self._pod_counts.living(shape):
                    shapes_by_topology.setdefault(topology, set()).add(shape)
        if not shapes_by_topology:
            return None
        return _any_there(
            [
                (self._of_shapes(frozenset(shapes)), domains(topology, self._traits))
                for topology, shapes in sorted(shapes_by_topology.items())
            ]
        )

    def preference(self, task: TaskView) -> Callable[[Rows], Ints] | None:
        """Says how strongly pods attract the task to (or repel it from) each of the node rows; None if none can."""
        parts: list[tuple[Tally, Domains, int]] = []
        if task.terms is not None:
            parts += [
                (
                    self._pod_counts.of_selector(term.selector, leaving=True),
                    self._domains(term.topology_key),
                    term.weight,
                )
                for term in task.terms.preferred
            ]
        weights: dict[str, dict[int, int]] = {}
        preferred = self._said.preferred
        for selector in task.matched & preferred.keys():
            for shape, topology, weight in preferred[selector]:
                if self._pod_counts.living(shape):
                    by_shape = weights.setdefault(topology, {})
                    by_shape[shape] = by_shape.get(shape, 0) + weight
        parts += [(self._weighed(by_shape), self._domains(key), 1) for key, by_shape in sorted(weights.items())]
        if not parts:
            return None

        def score(rows: Rows) -> Ints:
            total = np.zeros(len(rows), dtype=np.int64)
            for tally, topology, weight in parts:
                total += weight * tally.over(topology)[topology.places[rows]]
            return total

        return score

    @property
    def _said(self) -> Said:
        return kept_of_shapes(self._traits, "terms of shapes", self._shapes, lambda: _said(self._shapes))

    def _domains(self, key: str) -> Domains:
        return domains(key, self._traits)

    def _topologies(self, terms: tuple[Term, ...]) -> list[Domains]:
        return [self._domains(key) for key in dict.fromkeys(term.topology_key for term in terms)]

    def _matching_all(self, terms: tuple[Term, ...]) -> Tally:
        numbers = tuple(sorted({term.selector for term in terms}))
        if len(numbers) == 1:
            return self._pod_counts.of_selector(numbers[0], leaving=True)
        masks = self._pod_counts.snapshot.tasks.selectors

        def values() -> Mask:
            together: Mask = np.logical_and.reduce([masks[number] for number in numbers])
            return together

        return self._pod_counts.tally(("all selectors", numbers), values, leaving=True)

    def _of_shapes(self, shapes: frozenset[int]) -> Tally:
        def values() -> Mask | Ints:
            flags = np.zeros(len(self._shapes.specs), dtype=np.bool_)
            flags[list(shapes)] = True
            return self._pod_counts.by_shape(flags)

        return self._pod_counts.tally(("shapes", shapes), values, leaving=True)

    def _weighed(self, weights: dict[int, int]) -> Tally:
        def values() -> Mask | Ints:
            column = np.zeros(len(self._shapes.specs), dtype=np.int64)
            column[list(weights)] = list(weights.values())
            return self._pod_counts.by_shape(column)

        return self._pod_counts.tally(("weighed shapes", frozenset(weights.items())), values, leaving=True)


def _any_there(parts: list[tuple[Tally, Domains]]) -> Callable[[Rows], Mask]:
    def refused(rows: Rows) -> Mask:
        mask = np.zeros(len(rows), dtype=np.bool_)
        for tally, topology in parts:
            mask |= tally.over(topology)[topology.places[rows]] > 0
        return mask

    return refused
