"""Placement of tasks on the nodes with resources for them, before any other task.

These are nominated tasks, for which evictions freed resources, and replacements of moved pods, for which they are reserved.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.moved_pods import MovedPod
from volcanopy.scheduler.model.snapshot import NONE


def place_nominated(session: Session) -> None:
    """Allocate or pipeline nominated tasks on their nodes.

    A job that its nominations do not make ready or pipelined gets nothing here: they are void, and allocate places it.
    """
    if not len(session.ledger.unsettled_tasks):
        return
    table = session.snapshot.tasks
    moved = {pod.task: pod for pod in session.snapshot.moves.pods if pod.task != NONE}
    rows = session.pending()
    reserved = table.nominated[rows] != NONE
    if moved:
        reserved |= np.isin(rows, list(moved))
    rows = rows[reserved]
    if not len(rows):
        return
    tasks = session.by_job(rows)
    jobs = [JobView(session.ledger, row) for row in session.job_rows.tolist() if row in tasks]
    jobs.sort(key=lambda job: (session.queue_key(job.queue), session.job_key(job)))
    for job in jobs:
        if job.phase == "Pending" and ("enqueue" in session.config.actions or not session.admit_without_enqueue(job)):
            continue
        if not session.gangs.invalid_jobs(session.ledger.single(job.row)):
            _place(session, job, tasks[job.row].tolist(), moved)


def _place(session: Session, job: JobView, tasks: Iterable[int], moved: Mapping[int, MovedPod]) -> None:
    gangs, placement = session.gangs, session.placement
    with session.statement() as statement:
        for row in tasks:
            task = TaskView(session.ledger, row)
            node, mark = task.nominated, statement.checkpoint()
            if row in moved:
                node = moved[row].node
                statement.hold(job.row, node, -moved[row].request)
            rejection = session.quotas.allocatable(job.queue, task, 1)
            if rejection is not None and rejection.gate != "share":  # shares change with demand; a nomination stays
                statement.rollback(mark)
                continue
            chosen = placement.choose_on(task, node)
            if chosen is not None and chosen[1]:
                statement.allocate(row, node)
            elif chosen is not None or placement.may_fit_later(task, node):
                statement.pipeline(row, node)
            else:
                statement.rollback(mark)
        if not len(statement):
            return
        if gangs.is_ready(job):
            session.commit(statement)
        elif gangs.is_pipelined(job):
            session.reserve(job, statement)
