"""Withdrawal of admissions of jobs without pods on nodes: for later jobs of higher priority, and beyond maxRunningJobs.

An admitted job gives way to a later one of higher priority:

1. Candidates are admitted jobs of the same queue, of lower priority and behind the job in the order of the queue, all of whose
   pods are pending without a nomination: nothing was started, evicted or moved for them.
2. If the job is admitted without all of them, the fewest are withdrawn with which it is, from the last in order.
3. They wait for admission again, each in its turn.

Jobs that are blocked (:meth:`~volcanopy.scheduler.model.job_tables.JobTable.blocked`) do not count for maxRunningJobs. When they
can start, more jobs than that may be admitted: then the admissions of the last ones are withdrawn.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable

import numpy as np

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status


class Withdrawal:
    """The admissions that are withdrawn in a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._failed: set[Hashable] = set()
        """The equal jobs that withdrawals do not help."""

    def withdraw_for(self, job: JobView, is_admitted: Callable[[], bool]) -> list[JobView]:
        """Withdraw as few admissions as let the job be admitted, and return their jobs; none if that is not possible."""
        submitter, namespace = int(self._session.snapshot.jobs.submitter[job.row]), job.key.partition("/")[0]
        key = job.queue.row, job.minimum_key, job.priority, submitter, namespace
        if key in self._failed:
            return []
        jobs = self._candidates(job)
        if not jobs or not self._admitted_without(jobs, is_admitted):
            self._failed.add(key)
            return []
        fewer = range(1, len(jobs))
        count = 1 + bisect_left(fewer, True, key=lambda number: self._admitted_without(jobs[:number], is_admitted))
        self._withdraw(jobs[:count])
        return jobs[:count]

    def withdraw_excess(self) -> None:
        """Withdraw the last admissions of each subject of a limit that has more jobs than its maxRunningJobs."""
        pools = self._session.ledger.pools
        if pools is None:
            return
        for pool, cap in enumerate(pools.caps):
            excess = 0 if cap.jobs is None else pools.admitted[pool] - cap.jobs
            if excess > 0:
                rows = self._without_nodes(pools.admitted_in(pool))
                rows = rows[self._session.snapshot.queues.is_open[self._session.snapshot.jobs.queue[rows]]]
                self._withdraw(self._from_last(rows)[:excess])

    def _admitted_without(self, jobs: list[JobView], is_admitted: Callable[[], bool]) -> bool:
        self._withdraw(jobs)
        answer = is_admitted()
        self._withdraw(jobs, undo=True)
        return answer

    def _withdraw(self, jobs: list[JobView], *, undo: bool = False) -> None:
        """Count these jobs as not admitted, and what is reserved for them as free for others; or no longer."""
        ledger, lacking = self._session.ledger, self._session.cluster.queries.lacking()
        for job in jobs:
            ledger.admit(job.row, is_admitted=undo)
            ledger.reserve(job.queue.row, lacking[:, job.row] if undo else -lacking[:, job.row])

    def _candidates(self, job: JobView) -> list[JobView]:
        """Return the admitted jobs that give way to a job, the last in order first."""
        session, table = self._session, self._session.snapshot.jobs
        lower = (table.queue == job.queue.row) & (table.priority < job.priority)
        rows = (table.in_phase("Inqueue") & lower).nonzero()[0]
        if not len(rows) or not len(rows := self._without_nodes(rows)):
            return []
        key = session.job_key(job)
        return [other for other in self._from_last(rows) if session.job_key(other) > key]

    def _from_last(self, rows: Rows) -> list[JobView]:
        """Return these jobs, the last in order first."""
        keys = self._session.keys_of(rows)
        ordered = sorted(zip(keys, rows.tolist(), strict=True), reverse=True)
        return [self._session.cluster.job(row) for _, row in ordered]

    def _without_nodes(self, rows: Rows) -> Rows:
        """Return the admitted ones of these jobs of which nothing was started, evicted or moved."""
        ledger = self._session.ledger
        rows = rows[ledger.phase[rows] == "Inqueue"]
        counts = ledger.job_counts[:, rows]
        rows = rows[counts.sum(axis=0) == counts[Status.PENDING]]
        snapshot = self._session.snapshot
        nominated = snapshot.tasks.job[snapshot.tasks.nominated != NONE]
        with_nodes = np.append(nominated, np.array(snapshot.moves.jobs, dtype=nominated.dtype))
        return self._session.cluster.taking_part(rows[~np.isin(rows, with_nodes)])
