"""Limits of queues as capacity, proportion and drf apply them: requests that exceed a limit or the guarantees of others."""

import operator
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import Amounts, QuotaMessage
from volcanopy.scheduler.model.once import once_while
from volcanopy.scheduler.model.queue_shares import Bounds, Levels
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.plugin import Rejection


def exceeds(amounts: Ints, limit: list[int], request: Ints, pods: int) -> bool:
    """Return whether (R,) amounts exceed a limit in a resource of the request other than ``pods``, a row number."""
    units = amounts.tolist()  # there are few resources: lists are faster than arrays
    return any(map(operator.gt, units, limit)) and bool(exceeded(units, limit, request.tolist(), pods))


def exceeded(amounts: Iterable[int], limit: Iterable[int], request: Iterable[int], pods: int) -> list[int]:
    """Return the resources of a request other than ``pods``, a row number, in which amounts exceed a limit."""
    columns = enumerate(zip(request, amounts, limit, strict=True))
    return [dim for dim, (own, units, most) in columns if own > 0 and units > most and dim != pods]


class Bound(NamedTuple):
    """What a queue may be allocated: (R,) amounts each."""

    queue: int
    allocated: Ints  # A view: it changes with the session.
    most: list[int]
    stated: Ints  # What messages name.


def first_exceeded(bounds: Iterable[Bound], request: Ints, pods: int) -> Bound | None:
    """Return the first of some bounds that a request exceeds in a resource other than ``pods``; None if it exceeds none."""
    for bound in bounds:
        if exceeds(bound.allocated + request, bound.most, request, pods):
            return bound
    return None


class Limiter:
    """A part of the engine that limits what queues are allocated."""

    def limit_rejection(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Return why ``count`` more tasks equal to this one cannot be allocated to the queue; None if they can."""
        raise NotImplementedError


class Commitments:
    """Committed amounts: the allocated or reserved amounts of queues, whichever is more, with those of their children.

    What is reserved for an idle queue is not available to the others, however many of them share the rest.
    """

    def __init__(self, cluster: Cluster, reserved: Ints, limit: Ints, *, in_tree: bool) -> None:
        """``limit`` (R, Q) is that of each queue. Pods are not counted."""
        queues, total, pods = cluster.snapshot.queues, cluster.snapshot.total, cluster.axis.index["pods"]
        self._ledger, self._reserved, self._limit = cluster.ledger, reserved, limit.copy()
        self._whole: Ints = np.where(total > 0, total, UNLIMITED)
        self._limit[pods], self._whole[pods] = UNLIMITED, UNLIMITED
        self._above = np.full(len(queues), NONE, dtype=np.int32)
        self._below: dict[int, Rows] = {}
        if in_tree:
            self._below = {parent: rows for parent, rows in reversed(Levels(queues).groups) if parent != NONE}
            for parent, rows in self._below.items():
                self._above[rows] = parent
        self._tops: Rows = np.flatnonzero(self._above == NONE)

    def excess(self, queue: int, requested: Ints) -> Ints | None:
        """(R,): by how much this (R,) request of a queue exceeds what is not reserved for others; None if it does not."""
        allocated, committed = self._ledger.queue_allocated, self._committed()
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

    @once_while("_ledger.moves")
    def _committed(self) -> Ints:
        """(R, Q): the larger of what is allocated and what is reserved."""
        allocated = self._ledger.queue_allocated
        committed = np.maximum(allocated, self._reserved)
        for parent in self._below:  # the deepest first
            below = allocated[:, parent] + self._of_children(committed, parent)
            committed[:, parent] = np.maximum(below, self._reserved[:, parent])
        return committed

    def _of_children(self, committed: Ints, row: int) -> Ints:
        children = self._below.get(row)
        return np.zeros(len(committed), dtype=np.int64) if children is None else committed[:, children].sum(axis=1)


class QueueQuota:
    """The limits of all queues in one session."""

    def __init__(self, cluster: Cluster, bounds: Bounds, limit: Ints, reserved: Ints | None, *, in_tree: bool) -> None:
        """``limit`` (R, Q) is that of each queue, ``reserved`` (R, Q) what no other queue may use, None for nothing."""
        self._cluster, self._bounds, self.limit = cluster, bounds, limit
        self._pods = cluster.axis.index["pods"]
        self._commitments: Commitments | None = None
        self._in_tree = in_tree
        if reserved is not None:
            self._reserved = reserved
            self._commitments = Commitments(cluster, reserved, limit, in_tree=in_tree)

    def excess(self, row: int, request: Ints) -> Ints | None:
        """(R,): by how much a request of a queue exceeds what is not reserved for others; None if it does not."""
        return None if self._commitments is None else self._commitments.excess(row, request)

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
        queues, most, now = self._cluster.snapshot.queues, tuple(limit.tolist()), tuple(allocated.tolist())
        requested, total, free = tuple(requested), self._total, Amounts()
        guaranteed = self._guaranteed(row, limit) if kind == "capability" and self._commitments is not None else ()
        if not guaranteed and kind == "capability" and self._is_of_cluster(row, requested, now, most):
            kind, now, most = "cluster", self._used(), total
        # The request exceeds the total of the cluster in a resource other than the count of pods, or is open.
        beside = map(operator.add, now, requested) if requested else ()
        if guaranteed or not requested or exceeded(beside, total, requested, self._pods):
            free = tuple([max(whole - used, 0) for whole, used in zip(total, self._used(), strict=True)])
        amounts = requested, now, most, tuple(reserved), parts
        message = QuotaMessage(kind, queues.names[row], self._cluster.axis.names, *amounts, guaranteed=guaranteed)
        message = message._replace(free=free, capability=tuple(self.limit[:, row].tolist()), cluster=total)
        return message.of_borrower(self._bounds.borrowed(queues, row))

    @cached_property
    def _total(self) -> Amounts:
        return tuple(self._cluster.snapshot.total.tolist())

    @once_while("_cluster.ledger.moves")
    def _used(self) -> Amounts:
        """(R,): what is allocated to all queues together."""
        return tuple(self._cluster.ledger.queue_allocated.sum(axis=1).tolist())

    def _is_of_cluster(self, row: int, requested: Amounts, allocated: Amounts, limit: Amounts) -> bool:
        """Return whether an exceeded limit of a queue is what others leave of the cluster, who use all that is reserved."""
        after = map(operator.add, allocated, requested)
        if not requested or not (dims := exceeded(after, limit, requested, self._pods)):
            return False
        total, used, own = self._total, self._used(), self._bounds.limit[:, row].tolist()
        return all(limit[dim] < min(own[dim], total[dim]) and used[dim] + requested[dim] > total[dim] for dim in dims)

    def _guaranteed(self, row: int, limit: Ints) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return other queues with what is guaranteed to them and not used, where it lowers this (R,) limit of a queue.

        They are those beside the queue and its ancestors.
        """
        queues, ledger = self._cluster.snapshot.queues, self._cluster.ledger
        line = queues.lines[row].tolist()
        above = line[1] if self._in_tree and len(line) > 1 else NONE
        whole = self._cluster.snapshot.total if above == NONE else self.limit[:, above]
        lowered = limit < np.minimum(self._bounds.limit[:, row], whole)
        if not lowered.any():
            return ()
        allocated = ledger.tree_allocated if self._in_tree else ledger.queue_allocated
        unused = np.where(lowered[:, None], np.maximum(self._reserved - allocated, 0), 0)
        unused[self._pods] = 0
        parents = {int(queues.above[queue]) for queue in line}
        guaranteed = (
            (queues.names[queue], tuple(unused[:, queue].tolist()))
            for queue in np.flatnonzero(unused.any(axis=0)).tolist()
            if queue not in line and (not self._in_tree or int(queues.above[queue]) in parents)
        )
        return tuple(sorted(guaranteed))
