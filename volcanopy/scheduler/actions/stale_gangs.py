"""stalegangeviction: evict the rest of gangs that run below their minimum and whose other members find no node.

Such a gang uses resources and makes no progress: its pods wait for each other. Evicted whole it is placed whole again, here
or elsewhere, or leaves its resources to others until it can start.
"""

from datetime import timedelta

import numpy as np

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.durations import Duration, seconds
from volcanopy.scheduler.policy.plugin import Arguments
from volcanopy.scheduler.policy.registry import action

REASON = "stalegangeviction"


class StaleGangArguments(Arguments):
    """When a gang is stale."""

    after: Duration = "1m"
    """The time that a gang may run below its minimum."""


@action(REASON, StaleGangArguments)
def evict_stale_gangs(session: Session, arguments: StaleGangArguments) -> None:
    """Evict the running pods of gangs that have run below their minimum for some time, whole gangs only."""
    waiting = [job for job in session.waiting_jobs() if _lacks_running_members(session, job)]
    invalid = session.gangs.invalid_jobs(np.array([job.row for job in waiting], dtype=np.intp))
    waiting.sort(key=lambda job: job.key)
    for job in waiting:
        if job.row not in invalid and _is_over(session, job, arguments.after):
            _evict(session, job, arguments.after)


def _lacks_running_members(session: Session, job: JobView) -> bool:
    """Return whether a gang runs without its minimum, and nothing of it is about to start or to end."""
    if not job.count(Status.RUNNING) or job.count(Status.BINDING, Status.RELEASING) or session.gangs.will_start(job):
        return False
    if any(moved.job == job.row for moved in session.snapshot.moves.pods):
        return False
    return not session.gangs.is_ready(job)


def _is_over(session: Session, job: JobView, after: str) -> bool:
    """Return whether the pod group has been unschedulable for this time."""
    condition = pod_fields.condition(job.group, "Unschedulable")
    if condition is None or condition.last_transition_time is None:
        return False
    return session.snapshot.now >= condition.last_transition_time + timedelta(seconds=seconds(after))


def _evict(session: Session, job: JobView, after: str) -> None:
    """Evict all running pods of a gang, unless one of them is protected."""
    rows: Rows = job.tasks(Status.BOUND, Status.RUNNING)
    tasks = [TaskView(session.ledger, row) for row in rows.tolist()]
    if not session.snapshot.tasks.preemptable[rows].all() or len(session.hooks.evictable(tasks)) < len(tasks):
        return
    cause = f"{REASON}: gang ran with {job.ready_count}/{job.min_available} required pods for more than {after}"
    with session.statement() as statement:
        statement.evict_all(rows, REASON)
        session.commit(statement, cause=cause)
