"""The nodes on which evictions could place a task, by a lower bound of the cost of the victims there."""

import heapq
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import Candidates
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle, Cost
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Mask, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE
from volcanopy.scheduler.session.session import Session

Victims = tuple[Cost, list[Bundle]]
"""Bundles with their cost, which ends with the score and the row of the node."""


@dataclass
class NodeCandidates:
    """The candidates for tasks of one shape by node, and a heap of nodes by a lower bound of their cost."""

    by_node: dict[int, Rows]
    scores: Floats
    """(N,): the score of each node for the task."""
    heap: list[tuple[Cost, int]] = field(default_factory=list)
    known: dict[int, tuple[int, Victims | None]] = field(default_factory=dict)
    """The victims on a node, with the number of changes made before they were computed."""
    kept: set[int] = field(default_factory=set)
    """The jobs whose gangs the plugins do not allow to break for such a task."""


def least_cost(candidates: Candidates, rows: Rows) -> Cost:
    """Return a lower bound of the cost of evicting any of these candidates: class, broken gangs, lost work."""
    columns = (candidates.classes, candidates.least_broken, candidates.least_work)
    return tuple(float(column[rows].min()) for column in columns)


def node_candidates(
    session: Session, candidates: Candidates, task: TaskView, within: Mask, infeasible: Mask, scores: Floats
) -> NodeCandidates:
    """Return the candidates on the nodes of a mask, without ``infeasible`` nodes and those where they free too little."""
    ledger, count = session.ledger, len(session.snapshot.nodes)
    rows = candidates.rows[EVICTABLE[ledger.status[candidates.rows]] & ~candidates.is_bound[candidates.rows]]
    rows = rows[within[ledger.node[rows]]]
    if task.best_effort:
        rows = rows[session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[rows]]]
    nodes = ledger.node[rows].astype(np.intp)
    by_node = np.argsort(nodes, kind="stable")
    parts = np.split(by_node, np.flatnonzero(np.diff(nodes[by_node])) + 1) if len(rows) else []
    result = NodeCandidates({int(nodes[part[0]]): rows[part] for part in parts}, scores.copy())
    fewest = _least_victims(session, task, rows, nodes, count)
    lowest, broken, work, size, single = (np.full(count, np.inf) for _ in range(5))
    breaks, least_work = candidates.least_broken[rows], candidates.least_work[rows]
    np.minimum.at(lowest, nodes, candidates.classes[rows])
    np.minimum.at(broken, nodes, breaks)
    np.minimum.at(work, nodes, least_work)
    np.minimum.at(size, nodes, candidates.least_count[rows])
    np.minimum.at(single, nodes, np.where(breaks, np.inf, least_work))
    several = np.isfinite(single) & (broken == 0) & np.isfinite(fewest)
    work[several] = np.maximum(work[several], fewest[several] * single[several])
    size = np.where(broken == 0, np.maximum(size, fewest), size)
    for node in np.flatnonzero(np.isfinite(lowest) & np.isfinite(fewest) & ~infeasible).tolist():
        least = (lowest[node], broken[node], work[node], size[node], -scores[node], float(node))
        result.heap.append((tuple(map(float, least)), node))
    heapq.heapify(result.heap)
    return result


def _least_victims(session: Session, task: TaskView, rows: Rows, nodes: Rows, count: int) -> Floats:
    """(N,): the least number of victims that could free enough; infinite where all candidates together cannot."""
    dims = np.flatnonzero(task.request.values)
    fewest: Floats = np.ones(count, dtype=np.float64)
    requests = session.snapshot.shapes.request.values[:, session.snapshot.tasks.shape[rows]]
    for dim in dims.tolist():
        missing = task.request.values[dim] - session.ledger.future[dim]
        largest, whole = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        np.maximum.at(largest, nodes, requests[dim])
        np.add.at(whole, nodes, requests[dim])
        needed = np.divide(missing, largest, out=np.full(count, np.inf), where=largest > 0)
        fewest = np.maximum(fewest, np.where(missing > 0, np.ceil(needed), 0.0))
        fewest[whole < missing] = np.inf
    return fewest
