"""The nodes on which evictions could place a task, by a lower bound of the cost of the victims there; what free amounts allow."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import Candidates, Cost
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Rows

Victims = tuple[Cost, list[Bundle]]  # Bundles with their cost, which ends with the score and the row of the node.


@dataclass
class NodeCandidates:
    """The candidates for tasks of one shape by node, and a heap of nodes by a lower bound of their cost."""

    scores: Floats  # (N,): the score of each node for the task.
    ordered: Rows  # The candidates, node by node, those of a node by cost.
    by_node: dict[int, tuple[int, int]]  # Where those of each node begin and end.
    heap: list[tuple[Cost, int]]

    def on(self, node: int) -> Rows:
        """Return the candidates on a node, the cheapest first."""
        start, end = self.by_node.get(node, (0, 0))
        return self.ordered[start:end]


@dataclass
class ShapeState:
    """What a search knows about tasks of one shape in one hypernode."""

    needed: Ints  # (R,): the request, below any amount where nothing is requested.
    is_coupled: bool  # Whether placements elsewhere change the answer of a node.
    full_since: int | None = None  # The number of changes in the ledger up to which no node had the free resources.
    is_infeasible: bool = False  # Whether no evictions could place such a task.
    candidates: NodeCandidates | None = None

    @classmethod
    def of(cls, session: Session, task: TaskView) -> "ShapeState":
        """Return the state at the beginning."""
        request = task.request.values
        return cls(np.where(request > 0, request, -UNLIMITED), session.hooks.couples_nodes(task))

    def has_amounts(self, ledger: Ledger, node: int) -> bool:
        """Return whether a node has the amounts of the request once evicted pods have terminated."""
        return bool((ledger.future[:, node] >= self.needed).all())

    def is_still_full(self, ledger: Ledger) -> bool:
        """Return whether no node had the free resources, and none of those that changed since has the amounts."""
        if self.full_since is None or self.is_coupled:
            return False
        changed = ledger.touched.since(self.full_since)
        self.full_since = len(ledger.touched)
        if not (ledger.future[:, changed] >= self.needed[:, None]).all(axis=0).any():
            return True
        self.full_since = None
        return False


def least_cost(candidates: Candidates, rows: Rows) -> Cost:
    """Return a lower bound of the cost of evicting any of these candidates."""
    return tuple(candidates.least_cost[:, rows].min(axis=1).tolist())


def node_candidates(session: Session, candidates: Candidates, task: TaskView, placement: Placement) -> NodeCandidates:
    """Return the candidates on the nodes of a placement, without infeasible nodes and those where they free too little."""
    ledger, within, scores = session.ledger, placement.is_in_reach, placement.scores(task)
    infeasible = session.placement.infeasible_nodes(task)
    rows = candidates.rows[ledger.evictable(candidates.rows) & ~candidates.is_bound[candidates.rows]]
    rows = rows[within[ledger.node[rows]]]
    if task.best_effort:
        rows = rows[session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[rows]]]
    if not len(rows):
        return NodeCandidates(scores.copy(), rows, {}, [])
    rows = rows[np.argsort(ledger.node[rows], kind="stable")]  # they are in order of cost
    starts = np.flatnonzero(np.diff(ledger.node[rows], prepend=-1))
    nodes = ledger.node[rows[starts]].astype(np.intp)
    bounds = [*starts.tolist(), len(rows)]
    by_node = dict(zip(nodes.tolist(), pairwise(bounds), strict=True))
    least = np.minimum.reduceat(candidates.least_cost[:, rows], starts, axis=1)
    dims, shapes = np.flatnonzero(task.request.values), session.snapshot.tasks.shape[rows]
    freed = np.add.reduceat(session.snapshot.shapes.request.values[dims][:, shapes], starts, axis=1)
    enough = (freed + ledger.future[np.ix_(dims, nodes)] >= task.request.values[dims, None]).all(axis=0)
    reachable = np.flatnonzero(enough & ~infeasible[nodes])
    columns = np.concatenate([least, [-scores[nodes], nodes]])[:, reachable]
    columns = columns[:, np.lexsort(columns[::-1])]
    heap = list(zip(map(tuple, columns.T.tolist()), columns[-1].astype(np.intp).tolist(), strict=True))
    return NodeCandidates(scores.copy(), rows, by_node, heap)  # a sorted list is a heap
