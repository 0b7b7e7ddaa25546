"""Room that was freed for someone is theirs: who has a nominated node is placed there before anyone else is looked at."""

from collections.abc import Iterable

import numpy as np

from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session


def settle(session: Session) -> None:
    """Give nominated tasks their room, or keep it for them while it is still being freed; once in a session.

    A job whose nominated tasks cannot all stand where they were promised gets nothing here: it takes its turn with the
    others, and the promise is void.
    """
    if session.settled:
        return
    session.settled = True
    table = session.snapshot.tasks
    rows = np.flatnonzero((table.nominated != NONE) & (session.ledger.status == Status.PENDING) & ~table.gated)
    if not len(rows):
        return
    tasks = session.by_job(rows)
    jobs = [JobView(session.ledger, row) for row in session.job_rows.tolist() if row in tasks]
    jobs.sort(key=lambda job: (session.queue_key(job.queue), session.job_key(job)))
    for job in jobs:
        if job.phase == "Pending" and ("enqueue" in session.config.actions or not session.begins(job)):
            continue
        if session.hooks.job_valid(job) is None:
            _settle(session, job, tasks[job.row].tolist())


def _settle(session: Session, job: JobView, tasks: Iterable[int]) -> None:
    hooks, placement = session.hooks, session.placement
    with session.statement() as statement:
        for row in tasks:
            task = TaskView(session.ledger, row)
            denial = hooks.allocatable(job.queue, task, 1)
            if denial is not None and denial.gate != "share":  # shares shift with who asks; what was promised stays
                continue
            chosen = placement.choose_on(task, task.nominated)
            if chosen is not None and chosen[1]:
                statement.allocate(row, task.nominated)
            elif chosen is not None or placement.may_fit_later(task, task.nominated):
                statement.pipeline(row, task.nominated)
        if not len(statement):
            return
        if hooks.job_ready(job):
            session.commit(statement)
        elif hooks.job_pipelined(job).value >= 0:
            session.keep(job, statement)
