"""The cost of an eviction: queue and priority of the victim, lost work, and whether its gang breaks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.resources import Floats, Ints, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE, READY, Status
from volcanopy.scheduler.session.session import Session

_READY = np.flatnonzero(READY)
_PLACED = (int(Status.BINDING), int(Status.PIPELINED))
"""The statuses of tasks that a session has placed."""


class EvictionCosts:
    """The costs of all tasks that could be evicted, as of the beginning of an action."""

    def __init__(self, session: Session) -> None:
        self._session = session
        table = session.snapshot.tasks
        rows = np.flatnonzero(EVICTABLE[session.ledger.status] & table.preemptable & (table.job >= 0))
        member = np.zeros(len(session.snapshot.jobs), dtype=np.bool_)
        member[session.job_rows] = True
        self.rows: Rows = rows[member[table.job[rows]]]
        """The preemptable tasks with a node, of jobs that take part in the session."""
        self.queue: NDArray[np.int32] = session.snapshot.jobs.queue[table.job]
        """(T,): the queue of each task; undefined for tasks without a job."""
        self._by_queue: dict[int, Rows] = {}
        last_first = session.ordered(self.rows)[::-1]
        self._rank: Ints = np.zeros(len(table), dtype=np.int64)
        self._rank[last_first] = np.arange(len(last_first))

    def of_queue(self, queue: int) -> Rows:
        """Return those of ``rows`` in a queue."""
        known = self._by_queue.get(queue)
        if known is None:
            known = self._by_queue[queue] = self.rows[self.queue[self.rows] == queue]
        return known

    def queue_ranks(self, reclaimer: QueueView) -> Ints:
        """(Q,): the order of queues as victims of a reclaiming queue, from 0."""
        session = self._session
        queues = [session.cluster.queue(int(row)) for row in np.unique(self.queue[self.rows])]
        queues.sort(key=session.queue_key, reverse=True)
        queues.sort(key=lambda queue: session.hooks.victim_queue_order(queue, reclaimer))
        queue_ranks = np.zeros(len(session.snapshot.queues), dtype=np.int64)
        for rank, queue in enumerate(queues):
            queue_ranks[queue.row] = rank
        return queue_ranks

    def lost_work(self, rows: Rows) -> Floats:
        """Return the seconds that each task has been running."""
        work: Floats = np.maximum(self._session.snapshot.now.timestamp() - self.began(rows), 0.0)
        return work

    def began(self, rows: Rows) -> Floats:
        """Return when each task started, in seconds; when it was created if that is not known."""
        table = self._session.snapshot.tasks
        began: Floats = np.where(table.started[rows] > 0, table.started[rows], table.created[rows])
        return began

    def cheapest_first(self, rows: Rows, keys: Ints | None) -> tuple[Rows, Ints]:
        """Return the rows by cost, each with the number of its class: tasks of one class are equally important.

        Compared are the columns of ``keys`` (K, M), if given, the priorities of job and task, and lost work; of equals,
        tasks of younger jobs and the last tasks of a job come first.
        """
        snapshot = self._session.snapshot
        jobs = snapshot.tasks.job[rows]
        importance = np.stack([snapshot.jobs.priority[jobs], snapshot.tasks.priority[rows]]).astype(np.int64)
        if keys is not None:
            importance = np.concatenate([keys, importance])
        classes = _ranked(importance)
        order = np.lexsort((self._rank[rows], -snapshot.jobs.created[jobs], self.lost_work(rows), classes))
        return rows[order], classes[order]


def positions_in_job(jobs: NDArray[Any]) -> Ints:
    """(M,): the position of each task among those of its job, from 0, for (M,) jobs of tasks."""
    order = np.argsort(jobs, kind="stable")
    ordered = jobs[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(jobs) else np.empty(0, np.intp)
    positions = np.empty(len(jobs), dtype=np.int64)
    positions[order] = np.arange(len(jobs)) - np.repeat(starts, np.diff(np.append(starts, len(jobs))))
    return positions


def _ranked(columns: Ints) -> Ints:
    """(M,): the rank of each of M columns of numbers in lexicographic order; equal columns have equal ranks."""
    order = np.lexsort(columns[::-1])
    queue_ranks = np.zeros(len(order), dtype=np.int64)
    queue_ranks[order[1:]] = (columns[:, order[1:]] != columns[:, order[:-1]]).any(axis=0).cumsum()
    return queue_ranks


def breaks_new_gang(session: Session, rows: Sequence[int]) -> bool:
    """Return whether the eviction of these tasks of one job breaks a gang of which this session placed members."""
    job, counts = int(session.snapshot.tasks.job[rows[0]]), session.ledger.job_counts
    before = session.snapshot.jobs.counts
    if not any(counts[status, job] > before[status, job] for status in _PLACED):
        return False
    evicted = sum(bool(READY[session.ledger.status[row]]) for row in rows)
    placed = counts[_READY, job].sum() + counts[Status.PIPELINED, job]
    return bool(placed - evicted < session.snapshot.jobs.min_available[job])
