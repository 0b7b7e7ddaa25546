"""Limits of queues as capacity, proportion and drf apply them: requests that exceed a limit or the guarantees of others."""

import operator
from collections.abc import Iterable

from volcanopy.scheduler.fairshare.borrowing import Commitments
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.queue_shares import Bounds
from volcanopy.scheduler.model.resources import Ints


def exceeds(amounts: Ints, limit: Ints, request: Ints, pods: int) -> bool:
    """Return whether (R,) amounts exceed a limit in a resource of the request other than ``pods``, a row number."""
    # There are few resources: lists are faster than arrays.
    if not any(map(operator.gt, amounts.tolist(), limit.tolist())):
        return False
    columns = zip(request.tolist(), amounts.tolist(), limit.tolist(), strict=True)
    return any(own > 0 and units > most and dim != pods for dim, (own, units, most) in enumerate(columns))


class QueueQuota:
    """The limits of all queues in one session."""

    def __init__(self, cluster: Cluster, bounds: Bounds, limit: Ints, reserved: Ints | None, *, in_tree: bool) -> None:
        """``limit`` (R, Q) is that of each queue, ``reserved`` (R, Q) what no other queue may use, None for nothing."""
        snapshot = cluster.snapshot
        self._cluster, self._bounds, self.limit = cluster, bounds, limit
        self._pods = cluster.axis.index["pods"]
        self._commitments: Commitments | None = None
        if reserved is not None:
            self._commitments = Commitments(snapshot.queues, reserved, limit, snapshot.total, in_tree=in_tree)

    def exceeds_limit(self, row: int, allocated: Ints, request: Ints) -> bool:
        """Return whether a queue with these (R,) allocated amounts exceeds its limit with a request."""
        return exceeds(allocated + request, self.limit[:, row], request, self._pods)

    def excess(self, row: int, request: Ints) -> Ints | None:
        """(R,): by how much a request of a queue exceeds what is not reserved for others; None if it does not."""
        if self._commitments is None:
            return None
        ledger = self._cluster.ledger
        return self._commitments.excess(row, ledger.queue_allocated, request, ledger.moves)

    def message(
        self,
        kind: str,
        row: int,
        allocated: Ints,
        requested: Iterable[int],
        limit: Ints,
        reserved: Iterable[int] = (),
        parts: int = 1,
    ) -> QuotaMessage:
        """Return the message about a limit of a queue; the arguments are those of :class:`QuotaMessage`."""
        snapshot = self._cluster.snapshot
        amounts = (tuple(requested), tuple(allocated.tolist()), tuple(limit.tolist()), tuple(reserved))
        message = QuotaMessage(kind, snapshot.queues.names[row], self._cluster.axis.names, *amounts, parts)
        message = message.of_borrower(self._bounds.borrowed(snapshot.queues, row))
        capability, total = self.limit[:, row].tolist(), snapshot.total.tolist()
        return message._replace(capability=tuple(capability), cluster=tuple(total))
