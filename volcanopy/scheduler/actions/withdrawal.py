"""Withdrawal of admissions: an admitted job without pods on nodes gives way to a later one of higher priority.

1. Candidates are admitted jobs of the same queue, of lower priority and behind the job in the order of the queue, all of whose
   pods are pending without a nomination: nothing was started, evicted or moved for them.
2. If the job is admitted without all of them, the fewest are withdrawn with which it is, from the last in order.
3. They wait for admission again, each in its turn.
"""

from collections.abc import Callable, Hashable

import numpy as np

from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session


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
        least, most = 0, len(jobs)
        if not most or not self._admitted_without(jobs, is_admitted):
            self._failed.add(key)
            return []
        while most - least > 1:
            middle = (least + most) // 2
            if self._admitted_without(jobs[:middle], is_admitted):
                most = middle
            else:
                least = middle
        self._withdraw(jobs[:most])
        return jobs[:most]

    def _admitted_without(self, jobs: list[JobView], is_admitted: Callable[[], bool]) -> bool:
        self._withdraw(jobs)
        answer = is_admitted()
        ledger, lacking = self._session.ledger, self._session.cluster.queries.lacking
        for other in jobs:
            ledger.admit(other.row)
            ledger.reserve(other.queue.row, lacking[:, other.row])
        return answer

    def _withdraw(self, jobs: list[JobView]) -> None:
        """Count these jobs as not admitted, and what is reserved for them as free for others."""
        ledger, lacking = self._session.ledger, self._session.cluster.queries.lacking
        for job in jobs:
            ledger.withdraw(job.row)
            ledger.reserve(job.queue.row, -lacking[:, job.row])

    def _candidates(self, job: JobView) -> list[JobView]:
        """Return the admitted jobs that give way to a job, the last in order first."""
        session, table = self._session, self._session.snapshot.jobs
        rows = np.flatnonzero(table.in_phase("Inqueue") & (table.queue == job.queue.row))
        rows = rows[(table.priority[rows] < job.priority) & (session.ledger.phase[rows] == "Inqueue")]
        counts = session.ledger.job_counts[:, rows]
        rows = rows[counts.sum(axis=0) == counts[Status.PENDING]]
        rows = session.cluster.taking_part(rows[~np.isin(rows, self._with_nodes())])
        if not len(rows):
            return []
        key = session.job_key(job)
        behind = [entry for entry in zip(session.keys_of(rows), rows.tolist(), strict=True) if entry[0] > key]
        return [session.cluster.job(row) for _, row in sorted(behind, reverse=True)]

    def _with_nodes(self) -> Rows:
        """The jobs with nominated pods, or with moved pods."""
        snapshot = self._session.snapshot
        nominated = snapshot.tasks.job[snapshot.tasks.nominated != NONE]
        return np.append(nominated, np.array(snapshot.moves.jobs, dtype=nominated.dtype))
