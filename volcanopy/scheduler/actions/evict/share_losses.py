"""What queues lose of their fair shares when their tasks are evicted for another queue.

A queue falls below its fair share of a resource if it was allocated more than that at the beginning of the action and is
allocated less after the evictions. Resources of which it had no more than its share do not count: it lost them before, or
there is enough of them. In a tree the same applies to the queue and its ancestors that are not also ancestors of the
reclaiming queue.
"""

from collections.abc import Mapping

import numpy as np

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.resources import Floats, Ints, Rows
from volcanopy.scheduler.model.snapshot import Snapshot


class ShareLosses:
    """The fair shares of queues that have more, and what evictions leave of them."""

    def __init__(self, shares: QueueShares | None, ledger: Ledger, snapshot: Snapshot) -> None:
        """``shares``: None without a policy that computes any; then no queue loses any."""
        self._ledger, self._queues, self._total = ledger, snapshot.queues, snapshot.total
        self._kept: Ints | None = None
        self._fair_share = None if shares is None else shares.fair_share
        if shares is not None:
            above = ledger.tree_allocated > shares.fair_share
            above[snapshot.axis.index["pods"]] = False
            above[snapshot.total <= 0] = False
            self._kept = np.where(above, shares.fair_share, 0)
            """(R, Q): the fair share of what queues have more of, else 0."""

    def lacking(self, queue: int, jobs: Rows) -> Floats:
        """(M,): the largest fraction of the cluster that a queue lacks of its fair share without each of these jobs."""
        if self._fair_share is None:
            return np.zeros(len(jobs), dtype=np.float64)
        counted = (self._total > 0) & (self._fair_share[:, queue] > 0)
        missing = (self._fair_share - self._ledger.tree_allocated)[counted, queue, None]
        missing = missing + self._ledger.job_allocated[counted][:, jobs]
        return (missing / self._total[counted, None]).max(axis=0, initial=0.0)

    def losers(self, victim: int, reclaimer: int) -> list[int]:
        """Return the queues that lose what is evicted in one queue for another, and may fall below their shares."""
        if self._kept is None or victim == reclaimer:
            return []
        own = set(self._queues.lines[reclaimer].tolist())
        return [row for row in self._queues.lines[victim].tolist() if row not in own and self._kept[:, row].any()]

    def costs(self, lost: Mapping[int, Ints]) -> tuple[Ints, Floats]:
        """(C,) twice: how many queues fall below their shares, and the sum of the fractions of the cluster that they lack.

        ``lost``: for each queue the (C, R) amounts that it loses in C cases beside those that are evicted already.
        """
        count = len(next(iter(lost.values())))
        below, lacking = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.float64)
        if self._kept is None:
            return below, lacking
        for queue, amounts in lost.items():
            kept = self._kept[:, queue]
            dims = np.flatnonzero(kept)
            missing = np.maximum(kept[dims] - self._ledger.tree_allocated[dims, queue] + amounts[:, dims], 0)
            below += missing.any(axis=1)
            lacking += (missing / self._total[dims]).max(axis=1, initial=0.0)
        return below, lacking
