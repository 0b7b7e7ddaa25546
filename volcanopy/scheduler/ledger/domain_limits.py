"""Limits on the pods in domains of nodes, by which tasks of one kind exclude each other from nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.model.resources import Ints, Mask, Rows


@dataclass(frozen=True, eq=False)
class DomainLimit:
    """A node is rejected where its domain has more pods than ``most``, beyond the fewest of any domain of ``among``."""

    domains: Rows
    """(N,): the number of each node's domain; 0 for nodes in none, which are not rejected."""
    counts: Callable[[], Ints]
    """Returns the pods in each domain as the session stands, 0 for number 0."""
    added: Rows
    """(N,): by how many a task that is placed on a node increases the count of the node's domain; 0 in none."""
    most: int = 0
    among: Rows | None = None
    """The numbers of the domains of which the fewest pods do not count; None if all pods count."""

    def exceeded(self, counts: Ints, rows: Rows) -> Mask:
        """Return which of these nodes are rejected with these pods in the domains."""
        fewest = 0 if self.among is None else np.minimum.reduce(counts[self.among])
        result: Mask = counts[self.domains[rows]] > self.most + fewest
        return result


def limited(limits: Sequence[DomainLimit], rows: Rows) -> Mask:
    """Return which of these nodes any of the limits rejects, as the session stands."""
    return np.logical_or.reduce([limit.exceeded(limit.counts(), rows) for limit in limits])


class RunLimits:
    """Limits while nodes among ``rows`` are chosen for a run of equal tasks, those chosen so far counted."""

    def __init__(self, limits: Sequence[DomainLimit], rows: Rows) -> None:
        self._rows, self._limits = rows, [(limit, limit.counts().copy()) for limit in limits]
        self._masks = [limit.exceeded(counts, rows) for limit, counts in self._limits]

    @property
    def rejected(self) -> Mask:
        """Which of the nodes any of the limits rejects."""
        return self._masks[0] if len(self._masks) == 1 else np.logical_or.reduce(self._masks)

    def add(self, node: int) -> None:
        """Count a task that is placed on a node."""
        for number, (limit, counts) in enumerate(self._limits):
            if added := limit.added[node]:
                counts[limit.domains[node]] += added
                self._masks[number] = limit.exceeded(counts, self._rows)
