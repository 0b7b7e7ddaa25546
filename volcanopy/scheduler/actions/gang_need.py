"""The members that a gang lacks: which of its pending tasks must get a node so that it starts.

1. The minima of its roles, each from the pending tasks of the role.
2. The minimum of the whole.

Tasks that request nothing come first in both: they take no resources from others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.task_status import Status


@dataclass(frozen=True)
class GangNeed:
    """Pending tasks of a job, by what the gang needs them for."""

    idle: list[int]
    """The tasks without requests that the gang needs."""
    members: list[int]
    """The tasks with requests that the gang needs, those for the minima of roles first."""
    others: list[int]
    """The tasks with requests that it does not need."""


def gang_need(session: Session, job: JobView, tasks: Iterable[int]) -> GangNeed:
    """Return which of these pending tasks with requests, and which of the job's tasks without, its minimum needs.

    Without a plugin for gangs a job needs none.
    """
    rows = list(tasks)
    if not session.gangs.starts_whole:
        return GangNeed([], [], rows)
    idle = idle_tasks(session, job)
    chosen = job.needed([*idle, *rows])
    needed, without_requests = set(chosen), set(idle)
    return GangNeed(
        [row for row in chosen if row in without_requests],
        [row for row in chosen if row not in without_requests],
        [row for row in rows if row not in needed],
    )


def idle_tasks(session: Session, job: JobView) -> list[int]:
    """Return the job's pending tasks that request nothing and have no scheduling gate, in order."""
    if not job.best_effort_pending:
        return []
    table, shapes = session.snapshot.tasks, session.snapshot.shapes
    rows = job.tasks(Status.PENDING)
    return session.ordered(rows[shapes.best_effort[table.shape[rows]] & ~table.gated[rows]]).tolist()
