"""capacity: queues have fixed fair shares, borrow idle resources of others and reclaim their own."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.engine.shares import queue_demand
from volcanopy.scheduler.engine.shares.credit import Due
from volcanopy.scheduler.engine.shares.queue_demand import OrderedAmounts
from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.queue_shares import Levels, Shares, bounds, divided
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Mask, dominant_share
from volcanopy.scheduler.model.snapshot import QueueTable
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Order, Quota


class CapacityArguments(Arguments):
    """How many levels of ancestors reclaim considers, and whether devices are counted."""

    level: int | None = Field(None, alias="ancestorReclaimLevel", ge=0)
    """How many levels of ancestors of a victim's queue must be above their fair share; all if not given."""
    dynamic_resources: bool = Field(True, alias="capacity.DynamicResourceAllocationEnable")
    """Whether device claims count towards the capability."""
    consumable: bool = Field(False, alias="capacity.DRAConsumableCapacityEnable")
    """Whether what claims request of a capacity of devices counts towards `<capacity>.deviceclass/<class>` too."""


class Capacity(Plugin[CapacityArguments], Quota, Order):
    """Each queue is allocated at most its capability, has its guarantee reserved, and reclaims up to its fair share.

    With ``enableHierarchy`` queues form a tree: only its leaves take jobs, and the allocation of a leaf also counts for
    its ancestors. A capability may also limit the claimed devices of a class, ``deviceclass/<class>``, and what claims
    request of a capacity of those devices, ``<capacity>.deviceclass/<class>``.
    """

    name: ClassVar[str] = "capacity"
    arguments: ClassVar[type[Arguments]] = CapacityArguments

    def open(self) -> None:
        """Compute the limits and the fair shares."""
        snapshot = self.cluster.snapshot
        queues, whole = snapshot.queues, np.where(snapshot.total > 0, snapshot.total, UNLIMITED)
        self._whole: Ints = whole
        self._bounds = bounds(snapshot.total, queues, by_weight=False, in_tree=self.hierarchy)
        self._reserved: Ints = self._bounds.reserved
        if self.hierarchy:
            fair_share = queues.deserved.values
            levels = Levels(queues)
            capability = levels.inherited(self._bounds.limit)
            self._limit = levels.limits(whole, self._reserved, capability)
            # Admission is not limited by the cluster, which may be scaled up.
            self._admission_limit = levels.limits(np.full_like(whole, UNLIMITED), self._reserved, capability)
        else:
            self._limit = self._admission_limit = queue_demand.within_guarantees(snapshot.total, queues, self._bounds)
            bounded = np.where((snapshot.total > 0)[:, None] | queues.capability_set, self._limit, UNLIMITED)
            fair_share = np.minimum(queues.deserved.values, bounded)
        self._fair_share: Ints = np.maximum(fair_share, self._reserved)
        self._has_fair_share: Mask = queues.deserved_set | (self._reserved > 0)
        if self.hierarchy and self.args.level is None:
            self._fair_share, self._has_fair_share = _inherited_shares(
                queues, whole, self._fair_share, self._has_fair_share, self._requested(), self._reserved
            )
        self._due = Due(snapshot, self._fair_share)
        self._amounts = OrderedAmounts(self.cluster, tree=self.hierarchy)

    def _requested(self) -> Ints:
        """(R, Q): what queues and their descendants request."""
        ledger, queues = self.cluster.ledger, self.cluster.snapshot.queues
        waiting = queue_demand.requested_by_waiting(self.cluster, self._limit)
        return queues.rolled_up(ledger.queue_allocated + ledger.queue_pending + waiting)

    def shares(self) -> Shares:
        """Fixed shares, of which children inherit what their siblings leave."""
        queues = self.cluster.snapshot.queues
        return Shares(
            self._fair_share,
            self._limit,
            self._reserved,
            self.hierarchy,
            self._due.protected,
            paid_back=self._due.paid_back,
            named=self._has_fair_share,
            reported=np.minimum(queues.covering(self._fair_share), self._whole[:, None]),
            bounds=self._bounds,
            admission=self._admission_limit,
            leaves_only=self.hierarchy,
            any_resource=True,
            levels=self.args.level,
            device_limits=self.args.dynamic_resources,
            device_capacities=self.args.consumable,
        )

    def queue(self, queue: QueueView) -> tuple[int, bool, tuple[tuple[float, ...], ...]]:
        """Higher priority first, leaves before parents, then the smaller ratio of allocated to fair share from the root down.

        A queue without a fair share comes after one with an equal ratio.
        """
        queues = self.cluster.snapshot.queues
        path = tuple(
            self._amounts.rank(row, self._rank)
            for row in reversed(queues.line_lists[queue.row] if self.hierarchy else [queue.row])
            if queues.names[row] != "root"
        )
        return (-queue.priority, self.hierarchy and queue.is_parent, path)

    def _rank(self, row: int, allocated: Ints) -> tuple[float, bool]:
        named = self._fair_share[:, row] > 0
        if not named.any():
            return (1.0, True)
        corrected: Floats = allocated - self._due.order[:, row]
        return (dominant_share(corrected[named], self._fair_share[named, row]), False)


def _inherited_shares(
    queues: QueueTable, total: Ints, own: Ints, named: Mask, requested: Ints, guaranteed: Ints
) -> tuple[Ints, Mask]:
    """Return the (R, Q) shares with what queues inherit, and for which resources queues have a share.

    What the children of a queue leave of its share is for those of them that request more. From the root down, for each resource
    of which a queue has a share:

    1. Each child keeps of its own share what it requests, and its guarantee.
    2. The rest is divided by weight among the children that request more, at most what they request.
    3. A child's share is the larger of its own and what 1 and 2 give it.

    Where the cluster is smaller than the shares, the rest in 2 is that of what other queues at each level do not keep.

    ``own`` are the shares of the queues themselves, of the resources ``named``; ``requested`` includes descendants.
    """
    shares, has_share = own.copy(), named.copy()
    available = np.repeat(total[:, None], len(queues), axis=1)
    for row, children in queues.families:
        kept = np.maximum(np.minimum(own[:, children], requested[:, children]), guaranteed[:, children])
        more = np.maximum(requested[:, children] - kept, 0)
        covered = np.where(has_share[:, row], np.minimum(shares[:, row], available[:, row]), available[:, row])
        rest = covered - kept.sum(axis=1)
        available[:, children] = rest[:, None] + kept
        for dim in () if queues.names[row] == "root" else np.flatnonzero(has_share[:, row]).tolist():
            weights, none = queues.weight[children], np.zeros_like(more[dim])
            given = kept[dim] + divided(max(int(rest[dim]), 0), weights, none, more[dim])
            shares[dim, children] = np.maximum(own[dim, children], given)
            has_share[dim, children] = True
    return shares, has_share
