"""Borrowing and lending: what a queue may hold above what is due to it, and what of that it never lends.

Both limits are relative to what a queue is due: what its ``deserved`` says. Where that does not name a resource, policies
that divide by weight reckon with the queue's share by weight when all queues ask for as much as they may, others with
what it is guaranteed. A borrowing limit becomes a ceiling, ``due + borrowing limit``; a lending limit becomes a
guarantee, ``due - lending limit``. So everything that knows of capabilities and guarantees knows of these as well.
"""

from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.fairshare.weighted_shares import Levels
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable


@dataclass(frozen=True, eq=False)
class Bounds:
    """(R, Q): between what and what queues move, where borrowing and lending limits are reckoned in."""

    kept: Ints
    """What is kept for each queue, whether it uses it or not: its guarantee, and what it does not lend."""
    ceiling: Ints
    """The most that each queue may ever hold: its capability, and what it may borrow; UNLIMITED without."""
    due: Ints | None = None
    """What the limits are relative to; None where no queue has any."""

    def borrowed(self, queues: QueueTable, row: int) -> tuple[Ints, Ints] | None:
        """(R,): what a queue is due and what it may borrow, where its borrowing limit is what binds; None if it has none."""
        if self.due is None or queues.terms.lending is None:
            return None
        borrowing = queues.terms.lending.borrowing[:, row]
        due = self.due[:, row]
        binds = (borrowing < UNLIMITED) & (self.ceiling[:, row] == due + np.minimum(borrowing, UNLIMITED - due))
        return (due, np.where(binds, borrowing, UNLIMITED)) if binds.any() else None


class Commitments:
    """What is spoken for: what queues hold or keep, whichever is more, each queue with those below it.

    What is kept for an idle queue is not there for the others, however many of them share what is left.
    """

    def __init__(self, queues: QueueTable, kept: Ints, limit: Ints, total: Ints, *, in_tree: bool) -> None:
        """``limit`` (R, Q) is the most that each queue can have, ``total`` (R,) what there is. Pods are not counted."""
        pods = queues.capability.axis.index["pods"]
        self._kept, self._limit = kept, limit.copy()
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

    def excess(self, queue: int, held: Ints, asked: Ints, version: int) -> Ints | None:
        """(R,): by how much a queue that takes this much more would take what is kept for others; None if it would not.

        ``held`` (R, Q) is what the queues' own jobs hold; it is the same for equal ``version``.
        """
        if self._known is None or self._known[0] != version:
            self._known = (version, self._committed(held))
        committed = self._known[1]
        row, more = queue, asked
        before = held[:, queue] + self._of_children(committed, queue)
        while row != NONE:
            after = np.maximum(before + more, self._kept[:, row])
            more = after - committed[:, row]
            if not more.any():
                return None
            over = np.where(more > 0, after - self._limit[:, row], 0)
            if row != queue and (over > 0).any():
                return np.maximum(over, 0)
            row = int(self._above[row])
            before = held[:, row] + self._of_children(committed, row)
        over = np.where(more > 0, committed[:, self._tops].sum(axis=1) + more - self._whole, 0)
        return np.maximum(over, 0) if (over > 0).any() else None

    def _committed(self, held: Ints) -> Ints:
        committed = np.maximum(held, self._kept)
        for parent in self._below:  # the lowest first
            below = held[:, parent] + self._of_children(committed, parent)
            committed[:, parent] = np.maximum(below, self._kept[:, parent])
        return committed

    def _of_children(self, committed: Ints, row: int) -> Ints:
        children = self._below.get(row)
        return np.zeros(len(committed), dtype=np.int64) if children is None else committed[:, children].sum(axis=1)


def capability(queues: QueueTable) -> Ints:
    """(R, Q): the most that each queue may hold; what is not given, and cpu or memory of zero, is no limit."""
    unlimited = ~queues.capability_set
    unlimited[:2] |= queues.capability.values[:2] <= 0
    limit: Ints = np.where(unlimited, UNLIMITED, queues.capability.values)
    return limit


def bounds(total: Ints, queues: QueueTable, *, by_weight: bool, in_tree: bool, alone: bool = False) -> Bounds:
    """The bounds of queues in a cluster of an (R,) total.

    ``by_weight``: what ``deserved`` does not name follows from weights. ``in_tree``: what is not lent is kept by all
    queues above as well, since it would be lent from there otherwise. ``alone``: without guarantees and capabilities.
    """
    limits = queues.terms.lending
    guarantee, ceiling = queues.guarantee.values, capability(queues)
    if alone:
        guarantee, ceiling = np.zeros_like(guarantee), np.full_like(ceiling, UNLIMITED)
    if limits is None:
        return Bounds(guarantee, ceiling)
    due = np.maximum(queues.deserved.values, guarantee)
    if by_weight:
        due = np.where(queues.deserved_set, due, by_weights(total, queues, guarantee, ceiling))
    ceiling = np.minimum(ceiling, due + np.minimum(limits.borrowing, UNLIMITED - due))
    lends = limits.lending < UNLIMITED
    kept = np.where(lends, np.maximum(guarantee, due - limits.lending), guarantee)
    kept = np.minimum(kept, np.maximum(ceiling, guarantee))
    return Bounds(_covering(queues, kept, lends) if in_tree else kept, ceiling, due)


def by_weights(total: Ints, queues: QueueTable, guarantee: Ints, ceiling: Ints) -> Ints:
    """(R, Q): the share of each queue when all ask for as much as they may."""
    levels = Levels(queues)
    everyone: Mask = np.array([queue is not None for queue in queues.objects], dtype=np.bool_) & ~levels.parents
    asked = np.where(everyone, total[:, None], 0)
    return levels.fill(total, asked, guarantee, levels.limits(total, guarantee, ceiling), everyone)[0]


def _covering(queues: QueueTable, kept: Ints, lends: Mask) -> Ints:
    """What is kept, each queue keeping what those below it do not lend."""
    covered, concerned = kept.copy(), lends.copy()
    depth = sorted(range(len(queues)), key=lambda row: -len(queues.lines[row]))
    sums = np.zeros_like(kept)
    for row in depth:
        covered[:, row] = np.where(concerned[:, row], np.maximum(kept[:, row], sums[:, row]), kept[:, row])
        above = int(queues.above[row])
        if above != NONE:
            sums[:, above] += covered[:, row]
            concerned[:, above] |= concerned[:, row]
    return covered
