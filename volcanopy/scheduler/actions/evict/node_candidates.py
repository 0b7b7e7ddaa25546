"""The nodes on which evictions could place a task, by a lower bound of the cost of the victims there; what free amounts allow."""

import heapq

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import Candidates, Cost
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Rows

Victims = tuple[Cost, list[Bundle]]  # Bundles with their cost, which ends with the score and the row of the node.


class NodeCandidates:
    """The candidates for tasks of one shape by node, and the nodes by lower bounds of their cost."""

    def __init__(self, scores: Floats, ordered: Rows, ends: Rows, bounds: Floats) -> None:
        """``bounds``: the parts of costs, sorted; the last part is the row of the node. Few of them are used."""
        self.scores = scores  # (N,): the score of each node for the task.
        self.ordered, self._ends = ordered, ends  # The candidates, node by node, those of a node by cost.
        self.heap: list[Cost] = []  # Each of the bounds is added when the one before is removed.
        self._bounds = map(tuple, map(np.ndarray.tolist, bounds.T))
        self._add_next()

    def on(self, node: int) -> Rows:
        """Return the candidates on a node, the cheapest first."""
        return self.ordered[self._ends[node - 1] if node else 0 : self._ends[node]]

    def pop(self) -> int:
        """Remove the node of the least bound from the heap."""
        cost = heapq.heappop(self.heap)
        if cost is self._last:
            self._add_next()
        return int(cost[-1])

    def _add_next(self) -> None:
        self._last: Cost | None = next(self._bounds, None)
        if self._last is not None:
            heapq.heappush(self.heap, self._last)


class ShapeState:
    """What a search knows about tasks of one shape in one hypernode."""

    def __init__(self, session: Session, task: TaskView) -> None:
        request = task.request.values
        self.needed: Ints = np.where(request > 0, request, -UNLIMITED)
        """(R,): the request, below any amount where nothing is requested."""
        self.is_coupled = session.hooks.couples_nodes(task)  # Whether placements elsewhere change the answer of a node.
        self.full_since: int | None = None
        """The number of changes in the ledger up to which no node had free resources."""
        self.is_infeasible = False  # Whether no evictions could place such a task.
        self.candidates: NodeCandidates | None = None
        self.rejected = set[Bundle]()  # The gangs that the plugins do not allow to evict for such a task.

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
    return tuple(np.minimum.reduce(candidates.least_cost.take(rows, axis=1), axis=1).tolist())


def node_candidates(session: Session, candidates: Candidates, task: TaskView, placement: Placement) -> NodeCandidates:
    """Return the candidates on the nodes of a placement, without infeasible nodes and those where they free too little."""
    scores, request = placement.scores(task), task.request.values
    mask, amounts = candidates.remaining()
    enough = placement.is_in_reach & ~session.placement.infeasible_nodes(task)
    enough &= (amounts + session.ledger.future >= request[:, None])[request > 0].all(axis=0)
    if task.best_effort:
        mask = mask & session.snapshot.shapes.best_effort[session.snapshot.tasks.shape]
    is_listed = mask[candidates.by_node] & placement.is_in_reach[session.ledger.node[candidates.by_node]]
    rows, ends = candidates.by_node[is_listed], np.append(0, is_listed.cumsum())[candidates.ends]
    counts = np.diff(ends, prepend=0)
    nodes = np.flatnonzero(counts)
    starts = (ends - counts)[nodes]
    keys = np.empty((len(candidates.least_cost) + 1, len(nodes)))
    keys[:-1] = candidates.least_cost[:, rows[:1]]
    for part in np.flatnonzero(candidates.varies):  # most are equal for all
        keys[part] = np.minimum.reduceat(candidates.least_cost[part][rows], starts)
    keys[-1] = -scores[nodes]
    order = np.lexsort(keys[[*np.flatnonzero(candidates.varies), -1]][::-1])
    bounds = np.stack([*keys, nodes]).take(order[enough[nodes[order]]], axis=1)
    return NodeCandidates(scores.copy(), rows, ends, bounds)
