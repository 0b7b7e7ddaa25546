"""Optional settings of queues: borrowing and lending limits, stop policies and orders of jobs.

Each is None if no queue has it, so that nothing is computed for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from volcanopy.api import core
from volcanopy.api.subjects import SubjectLists, matches
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.queue_limits import Limits, Submitter, limits
from volcanopy.scheduler.model.resources import UNLIMITED, Axis, Ints, Mask, Rows, table_of

NO_QUEUE = -1
"""In a column of queues: there is none."""
_ROOT = "root"


@dataclass(frozen=True, eq=False)
class Lending:
    """(R, Q): the borrowing and lending limits of queues; UNLIMITED where not set."""

    borrowing: Ints
    lending: Ints


@dataclass(frozen=True, eq=False)
class Stops:
    """(Q,): the nearest held and the nearest drained queue, from each queue upwards; NO_QUEUE if there is none."""

    held_by: Rows
    drained_by: Rows

    @property
    def held(self) -> Mask:
        """(Q,): the queues that admit and start nothing. Drained queues are held as well."""
        return np.asarray(self.held_by != NO_QUEUE)

    @property
    def drained(self) -> Mask:
        """(Q,): the queues whose pods are evicted."""
        return np.asarray(self.drained_by != NO_QUEUE)


class JobOrder(IntEnum):
    """The order of the jobs in a queue."""

    CONFIGURED = 0
    """By the configured plugins."""
    FIFO = 1
    PRIORITY = 2
    FAIR = 3
    USAGE = 4


_ORDERS = {order.name.lower(): order for order in JobOrder if order}


def orders_by_user(orders: Rows) -> Mask:
    """(Q,): the queues whose order depends on users."""
    return np.asarray((orders == JobOrder.FAIR) | (orders == JobOrder.USAGE))


class Rights:
    """Who may protect pods from eviction in which queue: administrators of it or of an ancestor, and those permitted besides."""

    def __init__(self, queues: Sequence[core.Queue | None], lines: Sequence[Rows]) -> None:
        self._administrators = [None if queue is None else queue.spec.administrators for queue in queues]
        self._lines = lines

    def may_protect(self, queue: int, submitter: Submitter, permitted: SubjectLists | None = None) -> bool:
        """Whether pods of this submitter in the queue may be protected; an unknown submitter, without admission, may.

        Besides administrators these subjects are ``permitted``; None is everybody, in queues without administrators.
        """
        if not submitter.user or _SUPERUSERS in submitter.groups:
            return True
        administers = self._administers(queue, submitter)
        if permitted is None:
            return administers is not False
        return bool(administers) or matches(permitted, submitter.user, submitter.groups, "")

    @once
    def _administers(self, queue: int, submitter: Submitter) -> bool | None:
        """Return whether the submitter is an administrator; None if the queue and its ancestors have none."""
        listed = [self._administrators[row] for row in self._lines[queue].tolist()]
        subjects = [each for each in listed if each is not None]
        if not subjects:
            return None
        return any(matches(each, submitter.user, submitter.groups, "") for each in subjects)


_SUPERUSERS = "system:masters"


class Terms(NamedTuple):
    """All such settings; None where no queue has them."""

    lending: Lending | None
    stops: Stops | None
    limits: Limits | None
    orders: Rows | None
    """(Q,): the :class:`JobOrder` of each queue."""
    rights: Rights


def terms(axis: Axis, queues: Sequence[core.Queue | None], lines: Sequence[Rows]) -> Terms:
    """The settings of these queues; ``lines`` lead from each queue upwards."""
    return Terms(
        _lending(axis, queues),
        _stops(queues, lines),
        limits(axis, queues, lines),
        _orders(queues),
        Rights(queues, lines),
    )


def _lending(axis: Axis, queues: Sequence[core.Queue | None]) -> Lending | None:
    specs = [core.QueueSpec() if queue is None else queue.spec for queue in queues]
    if not any(spec.borrowing_limit or spec.lending_limit for spec in specs):
        return None
    borrowing, _ = table_of(axis, [spec.borrowing_limit for spec in specs], UNLIMITED)
    lending, _ = table_of(axis, [spec.lending_limit for spec in specs], UNLIMITED)
    return Lending(borrowing, lending)


def _stops(queues: Sequence[core.Queue | None], lines: Sequence[Rows]) -> Stops | None:
    """Return the stop policies of queues, which apply to descendants; the root queue is ignored."""
    holds = [_policy(queue) in {"Hold", "HoldAndDrain"} for queue in queues]
    if not any(holds):
        return None
    drains = [_policy(queue) == "HoldAndDrain" for queue in queues]

    def nearest(stopping: Sequence[bool]) -> Rows:
        result = [next((row for row in line.tolist() if stopping[row]), NO_QUEUE) for line in lines]
        return np.array(result, dtype=np.intp)

    return Stops(nearest(holds), nearest(drains))


def _orders(queues: Sequence[core.Queue | None]) -> Rows | None:
    """Return the order of jobs that each queue sets; None if no queue does."""
    orders = [_ORDERS.get("" if queue is None else queue.spec.job_order, JobOrder.CONFIGURED) for queue in queues]
    return np.array(orders, dtype=np.intp) if any(orders) else None


def _policy(queue: core.Queue | None) -> str:
    return "None" if queue is None or queue.metadata.name == _ROOT else queue.spec.stop_policy
