"""The statuses of queues at the end of a session: allocated amounts, fair shares, guaranteed, borrowed and waiting amounts.

All amounts are of a queue together with its descendants. They are computed for all queues at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.shares.credit import queue_credit
from volcanopy.scheduler.engine.shares.usage import queue_usage, usage_texts
from volcanopy.scheduler.engine.shares.user_shares import Accounts, user_statuses, users_differ
from volcanopy.scheduler.model import observed_queue_status
from volcanopy.scheduler.model.plan import SetQueue
from volcanopy.scheduler.model.queue_policy import orders_by_user
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Index, Ints, Mask, Rows, sums_by, within_sum
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.observer import QueueAmounts


@dataclass(frozen=True, eq=False)
class QueueStatuses(QueueAmounts):
    """The amounts, and what else the statuses of queues have."""

    credit: Floats
    """(R, Q): the credit at ``now``, in seconds of the whole cluster."""
    usage: Floats
    """(R, Q): the usage at ``now``, in units of the resource by seconds."""
    now: datetime
    users: Mapping[int, tuple[core.QueueUser, ...]]
    """By queue row: the shares of users where the order of jobs depends on users."""

    def effects(self) -> list[SetQueue]:
        """Return the changed queue statuses, ordered by name."""
        zero = np.zeros_like(self.allocated)
        tables = [self.allocated, self.fair_share, self.guaranteed, self.borrowed, self.waiting]
        amounts = np.array([zero if table is None else table for table in tables])
        amounts[(amounts >= UNLIMITED) | (amounts < 0)] = 0  # unlimited and negative amounts are not reported
        shares = self._hundredths()
        queues, observed = self.queues, self.queues.observed
        changed = np.logical_or.reduce(amounts != observed.reported, axis=(0, 1)) | (shares != observed.reported_share)
        for row, users in self.users.items():
            changed[row] |= users_differ(queues.objects[row], users)
        rows = [row for row in changed.nonzero()[0].tolist() if queues.objects[row] is not None]
        effects = []
        for row in sorted(rows, key=queues.names.__getitem__):
            texts = [self._texts(units) if any(units) else {} for units in amounts[:, :, row].tolist()]
            allocated, fair_share, guaranteed, borrowed, waiting = texts
            share = observed_queue_status.share_text(int(shares[row]))
            credit, users = self._credits(self.credit[:, row]), self.users.get(row, ())
            usage = usage_texts(self.axis, self.usage[:, row])
            amounts_of_queue = (allocated, fair_share, guaranteed, borrowed, waiting)
            effects.append(SetQueue(queues.names[row], *amounts_of_queue, share, credit, usage, self.now, users))
        return effects

    def _hundredths(self) -> Ints:
        if self.share is None or self.fair_share is None:
            return np.full(len(self.queues), observed_queue_status.NO_SHARE, dtype=np.int64)
        used = self.allocated.any(axis=0) | self.fair_share.any(axis=0)
        shares = np.minimum(np.rint(self.share * 100), observed_queue_status.MOST).astype(np.int64)
        return np.where(used, shares, observed_queue_status.NO_SHARE)

    def _credits(self, credit: Floats) -> Mapping[str, str]:
        units_by_name = zip(self.axis.names, credit.tolist(), strict=True)
        return {
            name: text for name, units in units_by_name if units and (text := observed_queue_status.credit_text(units))
        }

    def _texts(self, amounts: Sequence[int]) -> Mapping[str, str]:
        named = zip(self.axis.names, amounts, strict=True)
        return quantity.texts({name: units for name, units in named if units})


def queue_statuses(session: Session) -> QueueStatuses:
    """Return the statuses of all queues at the end of a session."""
    queues, ledger, axis = session.snapshot.queues, session.ledger, session.snapshot.axis
    of_job, past = session.snapshot.jobs.queue, (queue_credit(session.snapshot), queue_usage(session.snapshot))
    pipelined = _pipelined(session, of_job, len(queues))
    allocated = (
        ledger.tree_allocated.copy() if pipelined is None else queues.rolled_up(ledger.queue_allocated - pipelined)
    )
    now, users = session.snapshot.now, _users(session)
    shares = session.quotas.reported()
    reserved = queues.guarantee.values if shares is None else shares.reserved
    guaranteed = queues.lasting("guaranteed", (reserved,), lambda: queues.covering(within_sum(reserved)))
    waiting = queues.rolled_up(within_sum(_waiting(session, of_job, len(queues))))
    if shares is None:
        return QueueStatuses(axis, queues, allocated, None, None, guaranteed, None, waiting, None, *past, now, users)
    for row, held in shares.devices.items():
        for name, units in held.items():
            allocated[axis.index[name], row] = units
    fair_share = shares.fair_share
    borrowed = np.maximum(allocated - fair_share, 0)
    pods = axis.index["pods"]
    borrowed[pods] *= fair_share[pods] > 0  # a fair share without a number of pods does not limit the pods
    share = allocated_share(allocated, fair_share)
    return QueueStatuses(
        axis, queues, allocated, fair_share, shares.limit, guaranteed, borrowed, waiting, share, *past, now, users
    )


def _users(session: Session) -> Mapping[int, tuple[core.QueueUser, ...]]:
    """Return the shares of users, by the row of the queue, where the order of jobs depends on users."""
    orders = session.snapshot.queues.terms.orders
    if orders is None or not (mask := orders_by_user(orders)).any():
        return {}
    accounts = Accounts(session.snapshot, mask)
    count = len(accounts.users)
    allocated, pipelined = accounts.sums(session.ledger.job_allocated), _pipelined(session, accounts.of, count)
    allocated = allocated if pipelined is None else allocated - pipelined
    waiting = _waiting(session, accounts.of, count)
    return {
        row: user_statuses(session.snapshot, row, accounts, allocated, waiting) for row in np.flatnonzero(mask).tolist()
    }


def allocated_share(allocated: Ints, fair_share: Ints) -> Floats:
    """(Q,): the largest ratio of (R, Q) allocated amounts to fair shares, of resources that have one.

    Where no resource has a fair share it is 1 if anything is allocated, else 0.
    """
    has_share: Mask = fair_share > 0
    ratios = np.divide(allocated, fair_share, out=np.zeros(allocated.shape, dtype=np.float64), where=has_share)
    without = ~has_share.any(axis=0)
    return np.where(without, allocated.any(axis=0), ratios.max(axis=0, initial=0.0)).astype(np.float64)


def _waiting(session: Session, owner: Index | Rows, count: int) -> Ints:
    """(R, count): the requests of pods without a node, and the rest of the minimal resources of waiting jobs.

    They are added up by the (J,) ``owner`` of jobs: its queue, or its user. Jobs without one are in no sum.
    """
    snapshot, ledger = session.snapshot, session.ledger
    jobs, tasks = snapshot.jobs, snapshot.tasks
    sums = np.zeros((len(snapshot.axis), count), dtype=np.int64)
    rows = session.unsettled_jobs()
    rows = rows[owner[rows] != NONE]
    starting = ledger.unadmitted[rows] | (ledger.phase[rows] == "Inqueue")
    waits = starting | (jobs.counts[Status.PENDING.value, rows] > 0)
    rows, starting = rows[waits], starting[waits]
    if not len(rows):
        return sums
    pending = jobs.pending.values[:, rows]
    requested = jobs.allocated.values[:, rows] + pending
    rest = np.maximum(jobs.min_resources.values[:, rows] - requested, 0)
    more = np.where(starting & jobs.has_min_resources[rows], rest, 0)
    sums += sums_by(owner[rows], pending - snapshot.gated[:, rows] + more, count)
    if not len(ledger.moved):
        return sums
    moved = np.unique(ledger.moved)
    now = ledger.status[moved]
    placed = moved[(tasks.status[moved] == Status.PENDING) & (now != Status.PENDING) & (now != Status.PIPELINED)]
    placed = placed[owner[tasks.job[placed]] != NONE]
    return sums - sums_by(owner[tasks.job[placed]], snapshot.requests(placed), count)


def _pipelined(session: Session, owner: Index | Rows, count: int) -> Ints | None:
    """(R, count): the requests of tasks placed on resources that are being freed, by the (J,) owner of jobs; None if none is."""
    table, ledger = session.snapshot.tasks, session.ledger
    moved = ledger.moved.since(0)
    rows = np.unique(moved[ledger.status[moved] == Status.PIPELINED.value]) if len(moved) else moved
    if not len(rows):
        return None
    rows = rows[owner[table.job[rows]] != NONE]
    return sums_by(owner[table.job[rows]], session.snapshot.requests(rows), count)
