"""demand: the queue whose allocation is smallest beside what it still requests comes first.

The orders are those of Tromino (demand-aware, and demand beside the dominant share, for Apache Mesos).
"""

from typing import ClassVar, Literal

import numpy as np

from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.resources import Floats, Ints
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Order


class DemandArguments(Arguments):
    """The order."""

    policy: Literal["demand", "demand-drf"] = "demand-drf"
    """`demand`: the largest demand first. `demand-drf`: the smallest difference of allocated share and demand first."""


class Demand(Plugin[DemandArguments], Order):
    """Order queues by their demand: the dominant share of the cluster that their pending pods request.

    A queue with much waiting work precedes one with little work, also if it has been allocated more. Weights and the field
    ``deserved`` of queues do not count in this order; limits and shares of other plugins stay in force. The plugin must be in a
    tier before `proportion`, `capacity` and `drf`, whose order counts for equal queues only.
    """

    name: ClassVar[str] = "demand"
    arguments: ClassVar[type[Arguments]] = DemandArguments

    def queue(self, queue: QueueView) -> float:
        """The dominant share of what is allocated, minus that of what is requested besides."""
        ledger = self.cluster.ledger
        allocated = self._dominant(ledger.queue_allocated[:, queue.row])
        at_start = self._dominant_at_start[queue.row]
        growth = allocated - at_start if allocated > at_start else 0.0
        demand = self._demand[queue.row] - growth
        return float(-demand if self.args.policy == "demand" else allocated - demand)

    def open(self) -> None:
        """Compute the shares that queues have and request when the session begins."""
        ledger = self.cluster.ledger
        self._total = np.maximum(self.cluster.total.values, 1)
        self._demand: Floats = self._dominant(ledger.queue_pending)
        self._dominant_at_start: Floats = self._dominant(ledger.queue_allocated)

    def _dominant(self, amounts: Ints) -> Floats:
        shares: Floats = (amounts.T / self._total).max(axis=-1)
        return shares
