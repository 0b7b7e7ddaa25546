"""The members that a gang lacks: which of its pending tasks must get a node so that it starts.

1. The minima of its roles, each from the pending tasks of the role.
2. The minimum of the whole.

Tasks that request nothing come first in both: they take no resources from others.
"""

from collections.abc import Iterable

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.task_status import Status


def gang_need(session: Session, job: JobView, tasks: Iterable[int]) -> tuple[list[int], list[int]]:
    """Return the pending tasks that the minimum of a job needs, and those of ``tasks``, which have requests, that it does not.

    The tasks without requests are first, then those for the minima of roles. Without a plugin for gangs a job needs none.
    """
    rows = list(tasks)
    if not session.gangs.starts_whole:
        return [], rows
    idle = idle_tasks(session, job)
    needed = job.needed([*idle, *rows])
    chosen, without_requests = set(needed), set(idle)
    idle_first = sorted(needed, key=lambda row: row not in without_requests)
    return idle_first, [row for row in rows if row not in chosen]


def idle_tasks(session: Session, job: JobView) -> list[int]:
    """Return the job's pending tasks that request nothing and have no scheduling gate, in order."""
    if not job.best_effort_pending:
        return []
    table, shapes = session.snapshot.tasks, session.snapshot.shapes
    rows = job.tasks(Status.PENDING)
    return session.ordered(rows[shapes.best_effort[table.shape[rows]] & ~table.gated[rows]]).tolist()
