"""Draining: what runs in queues whose stopPolicy is HoldAndDrain leaves, gang by gang, before anything else is decided.

This is no action that a configuration would have to name: a queue is drained whatever the scheduler is configured to do.
What plugins protect from leaving (pods that the cluster needs, pods of a disruption budget) stays, and so does what says
of itself that it is not preemptable.
"""

from collections.abc import Sequence

import numpy as np

from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import EVICTABLE
from volcanopy.scheduler.session.session import Session

REASON = "drain"


def drain(session: Session) -> None:
    """Evict what may leave of all queues that are drained: gangs that are broken already first, then the last in line."""
    stops = session.snapshot.queues.terms.stops
    if stops is None or not stops.drained.any():
        return
    table, jobs = session.snapshot.tasks, session.snapshot.jobs
    leaves = np.zeros(len(jobs) + 1, dtype=np.bool_)  # the last entry serves tasks without a job
    leaves[session.job_rows] = stops.drained[jobs.queue[session.job_rows]]
    rows = np.flatnonzero(EVICTABLE[session.ledger.status] & table.preemptable & leaves[table.job])
    tasks = session.by_job(rows)
    gangs = sorted((JobView(session.ledger, row) for row in tasks), key=session.job_key, reverse=True)
    for gang in sorted(gangs, key=lambda job: job.is_ready):
        queue = session.snapshot.queues.names[int(stops.drained_by[gang.queue.row])]
        with session.statement() as statement:
            for victim in _going(session, gang, tasks[gang.row]):
                statement.evict(victim.row, REASON)
            session.commit(statement, cause=f"{REASON}: queue {queue} is drained")


def _going(session: Session, gang: JobView, rows: Rows) -> Sequence[TaskView]:
    """Who leaves of a gang: all whom nothing protects, or if not all of these may go at once, those that it can spare."""
    free = [one for one in (TaskView(session.ledger, row) for row in rows.tolist()) if session.hooks.evictable([one])]
    going = session.hooks.evictable(free)
    if len(going) == len(free) or not gang.is_ready:
        return going
    spare = max(gang.ready_count - gang.min_available, 0)
    return session.hooks.evictable(free[len(free) - spare :])
