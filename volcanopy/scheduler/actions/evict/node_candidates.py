"""The nodes on which evictions could place a task, by a lower bound of the cost of the victims there; what free amounts allow."""

import heapq
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import Candidates, Cost
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Rows

Victims = tuple[Cost, list[Bundle]]  # Bundles with their cost, which ends with the score and the row of the node.


class NodeHeap:
    """Nodes by lower bounds of their cost, each with the row of the node as the last part."""

    def __init__(self, bounds: Floats) -> None:
        """``bounds`` are sorted. Few of them are used: each is added when the one before is removed."""
        self.costs: list[Cost] = []
        """A heap."""
        self._bounds = map(tuple, map(np.ndarray.tolist, bounds.T))
        self._last = next(self._bounds, None)
        self.push(self._last)

    def push(self, cost: Cost | None) -> None:
        """Add a node."""
        if cost is not None:
            heapq.heappush(self.costs, cost)

    def pop(self) -> int:
        """Remove the node of the least bound."""
        cost = heapq.heappop(self.costs)
        if cost is self._last:
            self._last = next(self._bounds, None)
            self.push(self._last)
        return int(cost[-1])


@dataclass
class NodeCandidates:
    """The candidates for tasks of one shape by node, and the nodes by a lower bound of their cost."""

    scores: Floats  # (N,): the score of each node for the task.
    ordered: Rows  # The candidates, node by node, those of a node by cost.
    ends: Rows  # (N,): where those of each node end.
    nodes: Rows  # The nodes on which evictions could place the task, in order.
    heap: NodeHeap

    def on(self, node: int) -> Rows:
        """Return the candidates on a node, the cheapest first."""
        return self.ordered[self.ends[node - 1] if node else 0 : self.ends[node]]


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
    rows = candidates.by_node
    rows = rows[ledger.evictable(rows) & candidates.is_evictable[rows] & within[ledger.node[rows]]]
    if task.best_effort:
        rows = rows[session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[rows]]]
    counts = np.bincount(ledger.node[rows], minlength=len(within))
    ends, nodes = counts.cumsum(), np.flatnonzero(counts)
    if not len(rows):
        return NodeCandidates(scores.copy(), rows, ends, nodes, NodeHeap(np.empty((0, 0))))
    starts = (ends - counts)[nodes]
    costs = candidates.least_cost.take(rows, axis=1)
    least = costs.take(starts, axis=1)
    varying = (costs != costs[:, :1]).any(axis=1)  # equal numbers would take as long as others
    least[varying] = np.minimum.reduceat(costs[varying], starts, axis=1)
    dims = np.flatnonzero(task.request.values)
    freed = np.add.reduceat(session.snapshot.requests(rows)[dims], starts, axis=1)
    enough = (freed + ledger.future[np.ix_(dims, nodes)] >= task.request.values[dims, None]).all(axis=0)
    keys = np.concatenate([least, -scores[nodes][None]])
    varying = (keys != keys[:, :1]).any(axis=1)
    order = np.lexsort(keys[varying][::-1]) if varying.any() else np.arange(len(nodes))  # of equal ones as they are
    order = order[(enough & ~infeasible[nodes])[order]]
    bounds = np.concatenate([keys, nodes[None]]).take(order, axis=1)
    return NodeCandidates(scores.copy(), rows, ends, bounds[-1].astype(np.intp), NodeHeap(bounds))
