"""What the tasks that a session places are given of their nodes: cards, cpus; kept current from the ledger.

The ledger says who is where; it does not say on which card. That is chosen when a task is first seen on its node and
stays for as long as the ledger has it there: a placement that is taken back gives back what it was given, whoever took
it back. Nothing is remembered of what was taken back but the choice itself, so that the same placement made again
gets the same.

Two questions are kept apart: what is free *now*, and what is free *later*, when those that leave have left. A task on
free room takes of both; one that waits for room which is being freed takes of the latter alone.
"""

from typing import Generic, Protocol, TypeVar

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import COUNT, Status

G = TypeVar("G")

_PLACED = np.zeros(COUNT, dtype=np.bool_)
_PLACED[[Status.ALLOCATED, Status.BINDING, Status.PIPELINED]] = True


class Assigner(Protocol[G]):
    """What the nodes have to give."""

    def choose(self, task: int, node: int, waits: bool, before: G | None) -> G | None:
        """What a task gets of its node, if it can be what it got ``before``; None if there is not enough."""

    def count(self, node: int, given: G, waits: bool, sign: int) -> None:
        """Take from the stock of the node, or (-1) give back."""

    def leaves(self, task: int, sign: int) -> None:
        """A running task is evicted by this session, or (-1) stays after all."""


class NodeAssignments(Generic[G]):
    """What the tasks of one session hold."""

    def __init__(self, cluster: Cluster, tasks: Rows, stock: Assigner[G]) -> None:
        """``tasks`` are those that wait and will hold something once they have a node."""
        self._ledger, self._keys = cluster.ledger, cluster.snapshot.tasks.keys
        self._tasks, self._stock = tasks, stock
        self._places = np.full(len(tasks), NONE, dtype=np.int64)
        self._evicted: frozenset[int] = frozenset()
        self._given: dict[int, G] = {}
        self._before: dict[tuple[int, int], G] = {}
        self._seen = 0

    def of(self, task: int) -> G | None:
        """What a task was given where it is now."""
        self.renew()
        return self._given.get(task)

    def given(self, task: int) -> G | None:
        """What a task was given, as far as the ledger was looked at."""
        return self._given.get(task)

    def renew(self) -> None:
        """Take notice of what the ledger has moved since."""
        ledger = self._ledger
        changes = ledger.changes
        if self._seen == changes:
            return
        self._seen = changes
        evicted = frozenset(ledger.evictions)
        for row in sorted(self._evicted - evicted):
            self._stock.leaves(row, -1)
        for row in sorted(evicted - self._evicted):
            self._stock.leaves(row, +1)
        self._evicted = evicted
        status, node = ledger.status[self._tasks], ledger.node[self._tasks]
        here = _PLACED[status] & (node != NONE)
        places = np.where(here, 2 * node.astype(np.int64) + (status == Status.PIPELINED), NONE)
        moved = np.flatnonzero(places != self._places)
        for one in moved[self._places[moved] != NONE].tolist():
            self._give_back(int(self._tasks[one]), int(self._places[one]))
        for one in sorted(moved[here[moved]].tolist(), key=lambda one: str(self._keys[self._tasks[one]])):
            self._give(int(self._tasks[one]), int(places[one]))
        self._places = places

    def _give(self, task: int, place: int) -> None:
        node, waits = divmod(place, 2)
        given = self._stock.choose(task, node, bool(waits), self._before.get((task, place)))
        if given is not None:
            self._given[task] = given
            self._stock.count(node, given, bool(waits), +1)

    def _give_back(self, task: int, place: int) -> None:
        given = self._given.pop(task, None)
        if given is not None:
            node, waits = divmod(place, 2)
            self._stock.count(node, given, bool(waits), -1)
            self._before[task, place] = given
