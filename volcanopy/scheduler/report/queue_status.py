"""The books of the queues: what each of the tree holds, is due, keeps, borrows and waits for when a session ends.

All amounts are of a queue together with the queues below it. Nothing is gone through queue by queue or task by task:
what did not change is a column that is there already.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.model import observed_queue_status
from volcanopy.scheduler.model.plan import SetQueue
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.resources import UNLIMITED, Axis, Floats, Ints, Mask
from volcanopy.scheduler.model.snapshot import QueueTable
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session


@dataclass(frozen=True, eq=False)
class Books:
    """(R, Q) amounts; without a plugin that says what queues are due, ``deserved``, ``limit`` and ``borrowed`` are None."""

    axis: Axis
    queues: QueueTable
    allocated: Ints
    """What pods hold."""
    deserved: Ints | None
    """What the queue is due now."""
    limit: Ints | None
    """The most that the queue may hold now; UNLIMITED where there is no such limit."""
    guaranteed: Ints
    """What is kept for the queue, whether it uses it or not."""
    borrowed: Ints | None
    """What is held above what is due."""
    waiting: Ints
    """What pods ask for that have no place, and admitted or waiting jobs for pods that are not made yet."""
    share: Floats | None
    """(Q,): the largest ratio of what is held to what is due; 1 where something is held and nothing is due."""

    def effects(self) -> list[SetQueue]:
        """What is to be written: the queues whose statuses tell something else, in the order of their names."""
        nothing = np.zeros_like(self.allocated)
        now = [self.allocated, self.deserved, self.guaranteed, self.borrowed, self.waiting]
        amounts = np.stack([nothing if one is None else _countable(one) for one in now])
        shares = self._hundredths()
        queues = self.queues
        changed = (amounts != queues.reported).any(axis=(0, 1)) | (shares != queues.reported_share)
        rows = [row for row in np.flatnonzero(changed).tolist() if queues.objects[row] is not None]
        made = []
        for row in sorted(rows, key=queues.names.__getitem__):
            held, deserved, guaranteed, borrowed, waiting = [self._texts(column) for column in amounts[:, :, row]]
            told = observed_queue_status.told(int(shares[row]))
            made.append(SetQueue(queues.names[row], held, deserved, guaranteed, borrowed, waiting, told))
        return made

    def _hundredths(self) -> Ints:
        if self.share is None or self.deserved is None:
            return np.full(len(self.queues), observed_queue_status.NO_SHARE, dtype=np.int64)
        concerned = self.allocated.any(axis=0) | self.deserved.any(axis=0)
        shares = np.minimum(np.rint(self.share * 100), observed_queue_status.MOST).astype(np.int64)
        return np.where(concerned, shares, observed_queue_status.NO_SHARE)

    def _texts(self, amounts: Ints) -> Mapping[str, str]:
        named = zip(self.axis.names, amounts.tolist(), strict=True)
        return quantity.texts({name: units for name, units in named if units})


def books(session: Session) -> Books:
    """The books as the session leaves them."""
    queues, ledger = session.snapshot.queues, session.ledger
    held = queues.rolled_up(ledger.queue_allocated - _pipelined(session))
    claims: QueueShares | None = session.hooks.queue_shares()
    guaranteed = queues.covering(summable(queues.guarantee.values if claims is None else claims.kept))
    waiting = queues.rolled_up(summable(_waiting(session)))
    axis = session.snapshot.axis
    if claims is None:
        return Books(axis, queues, held, None, None, guaranteed, None, waiting, None)
    deserved = claims.deserved
    counts = deserved > 0
    # Who is due cpus without a word about pods has not borrowed the places of its pods.
    counts[[place for place in range(len(axis)) if place != axis.index["pods"]]] = True
    borrowed = np.where(counts, np.maximum(held - deserved, 0), 0)
    return Books(axis, queues, held, deserved, claims.limit, guaranteed, borrowed, waiting, share(held, deserved))


def share(held: Ints, deserved: Ints) -> Floats:
    """(Q,): the largest ratio of (R, Q) what is held to what is due, of what is due at all; 1 where that is nothing."""
    due: Mask = deserved > 0
    ratios = np.divide(held, deserved, out=np.zeros(held.shape, dtype=np.float64), where=due)
    owed_nothing = ~due.any(axis=0)
    return np.where(owed_nothing, held.any(axis=0), ratios.max(axis=0, initial=0.0)).astype(np.float64)


def summable(values: Ints) -> Ints:
    """The same (R, M) amounts, cut down where all of them together are more than can be counted."""
    if not values.size or (values.sum(axis=1, dtype=np.float64) < UNLIMITED).all():
        return values
    cut: Ints = np.minimum(values, UNLIMITED // values.shape[1])
    return cut


def _countable(amounts: Ints) -> Ints:
    """What can be written: an amount without end is not told, nor is what no longer fits the numbers."""
    told: Ints = np.where((amounts >= UNLIMITED) | (amounts < 0), 0, amounts)
    return told


def _waiting(session: Session) -> Ints:
    """(R, Q): what the jobs of each queue ask for and have not been given."""
    snapshot, ledger = session.snapshot, session.ledger
    jobs, tasks = snapshot.jobs, snapshot.tasks
    sums = np.zeros_like(ledger.queue_allocated)
    rows = session.job_rows
    phase = ledger.phase[rows]
    coming = (phase == "Pending") | (phase == "Inqueue")
    asks = coming | (jobs.counts[Status.PENDING, rows] > 0)
    rows, coming = rows[asks], coming[asks]
    if not len(rows):
        return sums
    pending = jobs.pending.values[:, rows]
    unborn = coming & jobs.has_min_resources[rows]
    there = jobs.allocated.values[:, rows] + pending
    more = np.where(unborn, np.maximum(summable(jobs.min_resources.values[:, rows]) - there, 0), 0)
    asked = pending - snapshot.gated[:, rows] + more
    np.add.at(sums.T, jobs.queue[rows], asked.T)
    moved = np.unique(ledger.moved[:])
    now = ledger.status[moved]
    placed = moved[(tasks.status[moved] == Status.PENDING) & (now != Status.PENDING) & (now != Status.PIPELINED)]
    given = snapshot.shapes.request.values.T[tasks.shape[placed]]
    np.subtract.at(sums.T, jobs.queue[tasks.job[placed]], given)
    return sums


def _pipelined(session: Session) -> Ints:
    """(R, Q): what tasks ask for that have a place only on room that is being freed."""
    table, jobs = session.snapshot.tasks, session.snapshot.jobs
    sums = np.zeros_like(session.ledger.queue_allocated)
    for row in np.flatnonzero(session.ledger.status == Status.PIPELINED).tolist():
        sums[:, jobs.queue[table.job[row]]] += session.ledger.request(row)
    return sums
