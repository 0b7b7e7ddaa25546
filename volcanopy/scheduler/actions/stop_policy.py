"""The stopPolicy of queues, which every configuration enforces before the configured actions.

1. Reject the waiting jobs of held queues; no other action considers them.
2. Evict what runs in drained queues (HoldAndDrain), gang by gang.

Pods that a plugin protects (critical pods, pods of a disruption budget) and pods that are not preemptable are not evicted.
"""

from collections.abc import Sequence

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.messages import stopped
from volcanopy.scheduler.model.queue_policy import Stops
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import EVICTABLE, Status
from volcanopy.scheduler.policy.plugin import Rejection

REASON = "drain"


def enforce(session: Session) -> None:
    """Reject the jobs of held queues and evict from drained ones, if any queue has a stop policy."""
    stops, names = session.snapshot.queues.terms.stops, session.snapshot.queues.names
    if stops is None:
        return
    queues, counts, rows = session.snapshot.jobs.queue, session.ledger.job_counts, session.job_rows
    waits = session.ledger.unadmitted[rows] | (counts[Status.PENDING, rows] > 0)
    for row in rows[waits & stops.held[queues[rows]]].tolist():
        queue, by = int(queues[row]), int(stops.held_by[queues[row]])
        drained = int(stops.drained_by[queue])
        reason = stopped(names[queue], names[by if drained < 0 else drained], drained >= 0)
        session.reject(JobView(session.ledger, row), Rejection(Gate.QUEUE, reason))
    if stops.drained.any():
        _drain(session, stops)


def _drain(session: Session, stops: Stops) -> None:
    """Evict from all drained queues: gangs below their minimum first, then in the reverse order of jobs."""
    table, jobs = session.snapshot.tasks, session.snapshot.jobs
    drained = session.job_rows[stops.drained[jobs.queue[session.job_rows]]]
    rows = np.flatnonzero(EVICTABLE[session.ledger.status] & table.preemptable & np.isin(table.job, drained))
    tasks = session.by_job(rows)
    gangs = sorted((JobView(session.ledger, row) for row in tasks), key=session.job_key, reverse=True)
    for gang in sorted(gangs, key=lambda job: job.is_ready):
        queue = session.snapshot.queues.names[int(stops.drained_by[gang.queue.row])]
        with session.statement() as statement:
            for victim in _victims(session, gang, tasks[gang.row]):
                statement.evict(victim.row, REASON)
            session.commit(statement, cause=f'{REASON}: queue "{queue}" is drained')


def _victims(session: Session, gang: JobView, rows: Rows) -> Sequence[TaskView]:
    """Return all unprotected pods of a gang or, if these may not be evicted together, those above its minimum."""
    tasks = [TaskView(session.ledger, row) for row in rows.tolist()]
    unprotected = [task for task in tasks if session.hooks.evictable([task])]
    victims = session.hooks.evictable(unprotected)
    if len(victims) == len(unprotected) or not gang.is_ready:
        return victims
    surplus = max(gang.ready_count - gang.min_available, 0)
    return session.hooks.evictable(unprotected[len(unprotected) - surplus :])
