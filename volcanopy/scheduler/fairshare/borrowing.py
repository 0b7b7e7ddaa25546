"""Borrowing and lending limits of queues, as limits and guarantees.

Both are relative to the deserved share of a queue: its ``deserved`` field. For resources that this does not name, policies
by weight use the share by weight when all queues request as much as they may, others the guarantee. A borrowing limit
becomes the limit ``deserved + borrowing limit``; a lending limit becomes the guarantee ``deserved - lending limit``.
"""

from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.fairshare.weighted_shares import Levels
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable


@dataclass(frozen=True, eq=False)
class Bounds:
    """(R, Q): lower and upper bounds of the allocation of queues, including borrowing and lending limits."""

    reserved: Ints
    """Reserved for each queue, used or not: its guarantee, and what it does not lend."""
    limit: Ints
    """The limit of each queue: its capability, and deserved plus borrowing limit; UNLIMITED without."""
    deserved: Ints | None = None
    """The deserved shares that the limits are relative to; None where no queue has such limits."""

    def borrowed(self, queues: QueueTable, row: int) -> tuple[Ints, Ints] | None:
        """(R,): the deserved share and the borrowing limit of a queue, UNLIMITED where that does not bind; None without."""
        if self.deserved is None or queues.terms.lending is None:
            return None
        borrowing = queues.terms.lending.borrowing[:, row]
        deserved = self.deserved[:, row]
        binds = (borrowing < UNLIMITED) & (self.limit[:, row] == deserved + np.minimum(borrowing, UNLIMITED - deserved))
        return (deserved, np.where(binds, borrowing, UNLIMITED)) if binds.any() else None


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


def capability(queues: QueueTable) -> Ints:
    """(R, Q): the capability of each queue; UNLIMITED where it is not given, or is zero for cpu or memory."""
    unlimited = ~queues.capability_set
    unlimited[:2] |= queues.capability.values[:2] <= 0
    limit: Ints = np.where(unlimited, UNLIMITED, queues.capability.values)
    return limit


def bounds(total: Ints, queues: QueueTable, *, by_weight: bool, in_tree: bool, alone: bool = False) -> Bounds:
    """The bounds of queues in a cluster of an (R,) total.

    ``by_weight``: shares that ``deserved`` does not name follow from weights. ``in_tree``: what a queue does not lend is
    reserved in its ancestors as well. ``alone``: without guarantees and capabilities.
    """
    limits = queues.terms.lending
    guarantee, limit = queues.guarantee.values, capability(queues)
    if alone:
        guarantee, limit = np.zeros_like(guarantee), np.full_like(limit, UNLIMITED)
    if limits is None:
        return Bounds(guarantee, limit)
    deserved = np.maximum(queues.deserved.values, guarantee)
    if by_weight:
        deserved = np.where(queues.deserved_set, deserved, by_weights(total, queues, guarantee, limit))
    limit = np.minimum(limit, deserved + np.minimum(limits.borrowing, UNLIMITED - deserved))
    lends = limits.lending < UNLIMITED
    reserved = np.where(lends, np.maximum(guarantee, deserved - limits.lending), guarantee)
    reserved = np.minimum(reserved, np.maximum(limit, guarantee))
    return Bounds(_covering(queues, reserved, lends) if in_tree else reserved, limit, deserved)


def by_weights(total: Ints, queues: QueueTable, guarantee: Ints, limit: Ints) -> Ints:
    """(R, Q): the share of each queue when all request as much as they may."""
    levels = Levels(queues)
    leaves: Mask = np.array([queue is not None for queue in queues.objects], dtype=np.bool_) & ~levels.parents
    requested = np.where(leaves, total[:, None], 0)
    return levels.fill(total, requested, guarantee, levels.limits(total, guarantee, limit), leaves)[0]


def _covering(queues: QueueTable, reserved: Ints, lends: Mask) -> Ints:
    """Return the reserved amounts, those of each queue covering what its children do not lend."""
    covered, affected = reserved.copy(), lends.copy()
    depth = sorted(range(len(queues)), key=lambda row: -len(queues.lines[row]))
    sums = np.zeros_like(reserved)
    for row in depth:
        covered[:, row] = np.where(affected[:, row], np.maximum(reserved[:, row], sums[:, row]), reserved[:, row])
        above = int(queues.above[row])
        if above != NONE:
            sums[:, above] += covered[:, row]
            affected[:, above] |= affected[:, row]
    return covered
