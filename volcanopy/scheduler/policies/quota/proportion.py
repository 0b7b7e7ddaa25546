"""proportion: queues share the cluster by weight."""

from typing import ClassVar

import numpy as np

from volcanopy.scheduler.engine.shares import queue_demand
from volcanopy.scheduler.engine.shares.credit import Due
from volcanopy.scheduler.engine.shares.queue_demand import OrderedAmounts
from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.queue_shares import Levels, Shares, bounds, fair_shares_by_weight
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, dominant_share
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Order, Quota


class Proportion(Plugin[NoArguments], Quota, Order):
    """The fair share of a queue is by weight: at most its capability and its request, at least its guarantee.

    Child queues divide the fair share of their parent, level by level.
    """

    name: ClassVar[str] = "proportion"

    def open(self) -> None:
        """Compute the fair shares."""
        snapshot = self.cluster.snapshot
        queues, jobs, ledger, total = snapshot.queues, snapshot.jobs, self.cluster.ledger, snapshot.total
        levels = self._levels = Levels(queues) if queues.nested else None
        self._lines = [[row] for row in range(len(queues))] if levels is None else levels.lines
        self._bounds = bounds(total, queues, by_weight=True, in_tree=queues.nested)
        reserved = self._bounds.reserved
        if levels is None:
            self._limit = queue_demand.within_guarantees(total, queues, self._bounds)
        else:
            self._limit = levels.limits(total, reserved, self._bounds.limit)
        active: Mask = (jobs.queue_jobs > 0) & queues.exists[:-1]
        requested = ledger.queue_allocated + ledger.queue_pending
        requested = requested + queue_demand.requested_by_waiting(self.cluster, self._limit)
        self._own: Ints | None = None
        if levels is None:
            self.fair_share = fair_shares_by_weight(
                total, queues.weight, requested, reserved, self._limit, active, queues.names
            )
        else:
            self.fair_share, self._own = levels.fill(total, requested, reserved, self._limit, active)
        self._due = Due(snapshot, self.fair_share)
        self._amounts = OrderedAmounts(self.cluster, tree=queues.nested)

    def shares(self) -> Shares:
        """Shares by weight of what is requested; in a tree also those of the own jobs of parents."""
        paid_back, levels = self._due.paid_back, self._levels
        return Shares(
            self.fair_share,
            self._limit,
            self._bounds.reserved,
            levels is not None,
            self._due.protected,
            paid_back=paid_back,
            own=self._own,
            own_paid_back=None if levels is None else np.where(levels.parents, 0, paid_back),
            reported=self.cluster.snapshot.queues.rolled_up(self.fair_share) if levels is None else None,
            bounds=self._bounds,
            admission=self._limit,
            lines=self._lines,
            passed_over=True,
        )

    def queue(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """Higher priority first, then the smaller ratio of allocated to fair share; in a tree compared from the root down."""
        return tuple(self._rank(row) for row in reversed(self._lines[queue.row]))

    def _rank(self, row: int) -> tuple[float, ...]:
        """Return the sort key of a queue among its siblings."""
        return (-int(self.cluster.snapshot.queues.priority[row]), self._amounts.rank(row, self._share))

    def _share(self, row: int, allocated: Ints) -> float:
        """Return the dominant share of (R,) amounts in the fair share of a queue."""
        fair_share = self.fair_share[:, row]
        corrected: Floats = allocated - self._due.order[:, row]
        return dominant_share(np.where(fair_share > 0, corrected, 0.0), fair_share)
