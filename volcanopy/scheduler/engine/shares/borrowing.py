"""Commitments of queues: what is allocated to each or reserved for it, whichever is more."""

import numpy as np

from volcanopy.scheduler.model.queue_shares import Levels
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable


class Commitments:
    """Committed amounts: the allocated or reserved amounts of queues, whichever is more, with those of their children.

    What is reserved for an idle queue is not available to the others, however many of them share the rest.
    """

    def __init__(self, queues: QueueTable, reserved: Ints, limit: Ints, total: Ints, *, in_tree: bool) -> None:
        """``limit`` (R, Q) is that of each queue, ``total`` (R,) that of the cluster. Pods are not counted."""
        pods = queues.capability.axis.index["pods"]
        self._reserved, self._limit = reserved, limit.copy()
        self._whole: Ints = np.where(total > 0, total, UNLIMITED)
        self._limit[pods], self._whole[pods] = UNLIMITED, UNLIMITED
        self._above = np.full(len(queues), NONE, dtype=np.int32)
        self._below: dict[int, Rows] = {}
        if in_tree:
            self._below = {parent: rows for parent, rows in reversed(Levels(queues).groups) if parent != NONE}
            for parent, rows in self._below.items():
                self._above[rows] = parent
        self._tops: Rows = np.flatnonzero(self._above == NONE)
        self._known: tuple[int, Ints] | None = None

    def excess(self, queue: int, allocated: Ints, requested: Ints, version: int) -> Ints | None:
        """(R,): by how much this (R,) request of a queue exceeds what is not reserved for others; None if it does not.

        ``allocated`` (R, Q) is that of the queues' own jobs; it is the same for equal ``version``.
        """
        if self._known is None or self._known[0] != version:
            self._known = (version, self._committed(allocated))
        committed = self._known[1]
        row, more = queue, requested
        before = allocated[:, queue] + self._of_children(committed, queue)
        while row != NONE:
            after = np.maximum(before + more, self._reserved[:, row])
            more = after - committed[:, row]
            if not more.any():
                return None
            over = np.where(more > 0, after - self._limit[:, row], 0)
            if row != queue and (over > 0).any():
                return np.maximum(over, 0)
            row = int(self._above[row])
            before = allocated[:, row] + self._of_children(committed, row)
        over = np.where(more > 0, committed[:, self._tops].sum(axis=1) + more - self._whole, 0)
        return np.maximum(over, 0) if (over > 0).any() else None

    def _committed(self, allocated: Ints) -> Ints:
        committed = np.maximum(allocated, self._reserved)
        for parent in self._below:  # the deepest first
            below = allocated[:, parent] + self._of_children(committed, parent)
            committed[:, parent] = np.maximum(below, self._reserved[:, parent])
        return committed

    def _of_children(self, committed: Ints, row: int) -> Ints:
        children = self._below.get(row)
        return np.zeros(len(committed), dtype=np.int64) if children is None else committed[:, children].sum(axis=1)
