"""What it costs to evict a task: whose it is, how important it is, what work is lost, whether its gang breaks."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.resources import Floats, Ints, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE, READY, Status
from volcanopy.scheduler.session.session import Session

_READY = np.flatnonzero(READY)
_GIVEN = (int(Status.BINDING), int(Status.PIPELINED))
"""What members are whom a session has given a place, now or when its room is free."""


class Worth:
    """The prices of all tasks that could be evicted, as of the beginning of an action."""

    def __init__(self, session: Session) -> None:
        self._session = session
        table = session.snapshot.tasks
        rows = np.flatnonzero(EVICTABLE[session.ledger.status] & table.preemptable & (table.job >= 0))
        member = np.zeros(len(session.snapshot.jobs), dtype=np.bool_)
        member[session.job_rows] = True
        self.rows: Rows = rows[member[table.job[rows]]]
        """The tasks that may be evicted at all: they have a node, belong to a job of the session, and are preemptable."""
        self.queue: NDArray[np.int32] = session.snapshot.jobs.queue[table.job]
        """(T,): the queue of each task (of no meaning for tasks without a job)."""
        self._by_queue: dict[int, Rows] = {}
        last_first = session.ordered(self.rows)[::-1]
        self._rank: Ints = np.zeros(len(table), dtype=np.int64)
        self._rank[last_first] = np.arange(len(last_first))

    def of_queue(self, queue: int) -> Rows:
        """The tasks of a queue that may be evicted."""
        known = self._by_queue.get(queue)
        if known is None:
            known = self._by_queue[queue] = self.rows[self.queue[self.rows] == queue]
        return known

    def queue_ranks(self, reclaimer: QueueView) -> Ints:
        """(Q,): the order in which queues give when ``reclaimer`` takes back, the first to give 0."""
        session = self._session
        queues = [session.cluster.queue(int(row)) for row in np.unique(self.queue[self.rows])]
        queues.sort(key=session.queue_key, reverse=True)
        queues.sort(key=lambda queue: session.hooks.victim_queue_order(queue, reclaimer))
        ranks = np.zeros(len(session.snapshot.queues), dtype=np.int64)
        for rank, queue in enumerate(queues):
            ranks[queue.row] = rank
        return ranks

    def work(self, rows: Rows) -> Floats:
        """The seconds that each task has been running."""
        table = self._session.snapshot.tasks
        began = np.where(table.started[rows] > 0, table.started[rows], table.created[rows])
        work: Floats = np.maximum(self._session.snapshot.now.timestamp() - began, 0.0)
        return work

    def cheapest_first(self, rows: Rows, ranks: Ints | None, standing: Ints | None = None) -> tuple[Rows, Ints]:
        """The rows, the cheapest first, each with the number of its class: tasks of one class are equally important.

        Compared are the (T,) standing of tasks, if there is one, then the queue's rank (where queues are ranked), the
        priorities of job and task, the work that is lost, whether the gang breaks; then younger jobs and the last tasks of
        a job come first.
        """
        snapshot = self._session.snapshot
        jobs = snapshot.tasks.job[rows]
        whose = np.zeros(len(rows), dtype=np.int64) if ranks is None else ranks[self.queue[rows]]
        important = np.stack([whose, snapshot.jobs.priority[jobs], snapshot.tasks.priority[rows]])
        if standing is not None:
            important = np.concatenate([standing[None, rows], important])
        classes = _ranked(important)
        work, younger, rank = self.work(rows), -snapshot.jobs.created[jobs], self._rank[rows]
        order = np.lexsort((rank, younger, work, classes))
        breaks = np.empty(len(rows), dtype=np.bool_)
        breaks[order] = self._breaks(jobs[order])
        order = np.lexsort((rank, younger, breaks, work, classes))
        return rows[order], classes[order]

    def _breaks(self, jobs: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of the tasks, given by their jobs in order, would leave a gang below its minimum."""
        ledger, minimum = self._session.ledger, self._session.snapshot.jobs.min_available
        ready = ledger.job_counts[_READY].sum(axis=0)
        by_job = np.argsort(jobs, kind="stable")
        ordered = jobs[by_job]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(jobs) else np.empty(0, np.intp)
        nth = np.arange(len(jobs)) - np.repeat(starts, np.diff(np.append(starts, len(jobs))))
        breaks = np.empty(len(jobs), dtype=np.bool_)
        breaks[by_job] = nth >= (ready - minimum)[ordered]
        return breaks

    def broken(self, rows: Iterable[int]) -> int:
        """How many gangs have less than their minimum now because these tasks leave."""
        table, jobs, ledger = self._session.snapshot.tasks, self._session.snapshot.jobs, self._session.ledger
        found = 0
        leaving: dict[int, int] = {}
        for row in rows:
            job = int(table.job[row])
            leaving[job] = leaving.get(job, 0) + 1
        for job, count in leaving.items():
            ready = int(ledger.job_counts[_READY, job].sum())
            found += ready < int(jobs.min_available[job]) <= ready + count
        return found


def _ranked(columns: Ints) -> Ints:
    """(M,): the rank of each of M columns of numbers, compared from the first number on; equal ones have the same."""
    order = np.lexsort(columns[::-1])
    ranks = np.zeros(len(order), dtype=np.int64)
    ranks[order[1:]] = (columns[:, order[1:]] != columns[:, order[:-1]]).any(axis=0).cumsum()
    return ranks


def breaks_new_gang(session: Session, rows: Sequence[int]) -> bool:
    """Whether, without these tasks of one job, a gang lacks members to which this session has given others a place.

    It would start, or be made room for, and be broken at once.
    """
    job, counts = int(session.snapshot.tasks.job[rows[0]]), session.ledger.job_counts
    before = session.snapshot.jobs.counts
    if not any(counts[status, job] > before[status, job] for status in _GIVEN):
        return False
    leaving = sum(bool(READY[session.ledger.status[row]]) for row in rows)
    places = counts[_READY, job].sum() + counts[Status.PIPELINED, job]
    return bool(places - leaving < session.snapshot.jobs.min_available[job])
