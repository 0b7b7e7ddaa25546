"""The order of tasks as victims: sorted once for an action, so that the search for each job only selects from it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.resources import Index, Ints, Rows

VictimKeys = Callable[[Rows], Ints]
"""(K, M): keys that order M tasks as victims before their priorities do."""


@dataclass(frozen=True, eq=False)
class VictimOrder:
    """All tasks that could be evicted, the cheapest first."""

    by_cost: Rows
    by_node: Rows
    """The same node by node."""
    by_job: Rows
    """The same job by job, and those of a job node by node."""
    ranks: Ints
    """(T,): the position of each by cost."""
    classes: Ints
    """(T,): the class of each: tasks of one class are equally important."""

    @classmethod
    def of(cls, by_cost: Rows, classes: Ints, nodes: Index, jobs: Index) -> "VictimOrder":
        """Return the order of rows that are sorted by cost; ``nodes`` and ``jobs`` (T,) are those of all tasks."""
        ranks = np.zeros(len(classes), dtype=np.int64)
        ranks[by_cost] = np.arange(len(by_cost))
        by_node = by_cost[np.argsort(nodes[by_cost], kind="stable")]
        return cls(by_cost, by_node, by_node[np.argsort(jobs[by_node], kind="stable")], ranks, classes)

    def first(self, rows: Rows) -> Rows:
        """Return these rows by cost."""
        if defaults.SORTED_PART * len(rows) < len(self.by_cost):
            return rows[np.argsort(self.ranks[rows])]
        return self._among(rows, self.by_cost)

    def node_by_node(self, rows: Rows, nodes: Index) -> Rows:
        """Return these rows node by node, those of a node by cost."""
        if defaults.SORTED_PART * len(rows) < len(self.by_cost):
            return rows[np.lexsort((self.ranks[rows], nodes[rows]))]
        return self._among(rows, self.by_node)

    def job_by_job(self, rows: Rows, nodes: Index, jobs: Index) -> Rows:
        """Return these rows job by job, those of a job node by node, those of a node by cost."""
        if defaults.SORTED_PART * len(rows) < len(self.by_cost):
            return rows[np.lexsort((self.ranks[rows], nodes[rows], jobs[rows]))]
        return self._among(rows, self.by_job)

    def _among(self, rows: Rows, ordered: Rows) -> Rows:
        is_chosen = np.zeros(len(self.ranks), dtype=np.bool_)
        is_chosen[rows] = True
        chosen: Rows = ordered[is_chosen[ordered]]
        return chosen
