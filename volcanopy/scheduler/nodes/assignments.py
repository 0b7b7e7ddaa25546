"""Cards and cpus assigned to the tasks that a session places, kept current with the ledger.

The ledger knows the node of a task, but not its cards or cpus. These are chosen at the first query after the placement
and released when the ledger no longer has the task there. The choice is remembered, so that the same placement made
again gets the same assignment.

Two amounts are distinguished: what is free *now*, and what is free *later*, once terminating pods are gone. An allocated
task takes from both, a pipelined one only from the latter.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status

G = TypeVar("G")
Placed = tuple[int, int, bool, G | None]
"""A task, its node, whether it is pipelined, and what it was assigned when it was there before."""

_PLACED = frozenset({Status.ALLOCATED, Status.BINDING, Status.PIPELINED})


def pending_tasks(snapshot: Snapshot, shapes: Iterable[int]) -> Rows:
    """Return the pending tasks of these shapes."""
    of_shape = np.zeros(len(snapshot.shapes.specs), dtype=np.bool_)
    of_shape[list(shapes)] = True
    rows: Rows = snapshot.tasks.pending
    return rows[of_shape[snapshot.tasks.shape[rows]]]


class Assigner(Protocol[G]):
    """Chooses and counts the cards or cpus of all nodes."""

    def assign(self, placed: Sequence[Placed[G]], assigned: dict[int, G]) -> None:
        """Choose and count the assignments of tasks in the order in which they were placed, and add them to ``assigned``."""
        for task, node, pipelined, previous in placed:
            chosen = self.choose(task, node, pipelined, previous)
            if chosen is not None:
                assigned[task] = chosen
                self.count(node, chosen, pipelined, +1)

    def choose(self, task: int, node: int, pipelined: bool, previous: G | None) -> G | None:
        """Return the assignment of a task on a node, preferably ``previous``; None if not enough is free."""

    def count(self, node: int, assigned: G, pipelined: bool, sign: int) -> None:
        """Count an assignment as taken, or (-1) as free."""

    def count_eviction(self, task: int, sign: int) -> None:
        """Count a running task as evicted by this session, or (-1) as not evicted any more."""


class NodeAssignments(Generic[G]):
    """The assignments of the tasks of one session."""

    def __init__(self, cluster: Cluster, tasks: Rows, assigner: Assigner[G]) -> None:
        """``tasks``: the pending tasks that get an assignment with their node."""
        self._ledger = cluster.ledger
        self._assigner = assigner
        self._waiting = frozenset(tasks.tolist())
        self._places: dict[int, int] = {}
        """By task with a node: twice the row of its node, plus 1 if it is pipelined."""
        self._evicted: set[int] = set()
        self._assigned: dict[int, G] = {}
        self._previous: dict[tuple[int, int], G] = {}
        self._synced = 0

    def get(self, task: int) -> G | None:
        """Return the assignment of a task as of the last :meth:`sync`."""
        return self._assigned.get(task)

    def sync(self) -> None:
        """Follow the changes of the ledger."""
        ledger = self._ledger
        moves = ledger.moves
        if self._synced == moves:
            return
        rows = list(dict.fromkeys(reversed(ledger.moved_since(self._synced).tolist())))[::-1]  # by their last changes
        self._synced = moves
        self._follow_evictions(rows, ledger.evictions)
        status, node, changes = ledger.status, ledger.node, list[tuple[int, int]]()
        for row in rows:
            if row in self._waiting:
                now = int(status[row])  # numpy compares its own numbers with those of an enumeration slowly
                place = 2 * int(node[row]) + (now == Status.PIPELINED) if now in _PLACED else NONE
                if place != self._places.get(row, NONE):
                    changes.append((row, place))
        for row, _ in changes:
            if row in self._places:
                self._release(row, self._places.pop(row))
        changes = [(row, place) for row, place in changes if place != NONE]
        self._places.update(changes)
        placed = [(row, place // 2, bool(place % 2), self._previous.get((row, place))) for row, place in changes]
        self._assigner.assign(placed, self._assigned)

    def _follow_evictions(self, rows: Sequence[int], evictions: Mapping[int, str]) -> None:
        """Count those of these tasks that are evicted now or not any more."""
        for row in rows:
            if row in self._evicted and row not in evictions:
                self._evicted.remove(row)
                self._assigner.count_eviction(row, -1)
        for row in rows:
            if row in evictions and row not in self._evicted:
                self._evicted.add(row)
                self._assigner.count_eviction(row, +1)

    def _release(self, task: int, place: int) -> None:
        assigned = self._assigned.pop(task, None)
        if assigned is not None:
            node, pipelined = divmod(place, 2)
            self._assigner.count(node, assigned, bool(pipelined), -1)
            self._previous[task, place] = assigned
