"""Placement of one job: its pending tasks in order until it is ready, at once or not at all."""

import numpy as np

from volcanopy.scheduler.actions.allocate.gang_repack import Repacking
from volcanopy.scheduler.actions.allocate.job_queues import PendingJob, Placing, run_ends
from volcanopy.scheduler.actions.allocate.topology_search import place_by_topology
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import QueueView, TaskView


def place_job(session: Session, queue: QueueView, pending: PendingJob, is_last: bool) -> bool:
    """Place a job's tasks until it is ready; return whether the job is to be considered again for its other tasks.

    The last job may place all its further tasks at once.
    """
    job = pending.job
    if pending.is_single:
        task = TaskView(session.ledger, pending.tasks[0])
        if session.limits is not None and session.exceeds_limit(task, job):  # many such jobs may wait
            return False
        if _bind_single(session, queue, pending, task):
            return True
    if session.snapshot.jobs.structured[job.row]:
        pending.tasks, pending.at = place_by_topology(session, queue, job, pending.tasks, is_last), 0
        return bool(pending.tasks)

    def reject(task: TaskView, placed: int) -> None:
        session.reject_nodes(job, task, placed, pending.placement_key(session) if placed else None)

    with session.statement() as statement:
        many = is_last and session.gangs.is_ready(job)
        Placing(session, queue, statement, session.placement, many, reject).place(pending)
        if session.gangs.is_ready(job):
            session.commit(statement)
            return True
        if len(statement) and session.gangs.is_pipelined(job):
            session.reserve(job, statement)
            return False
        statement.rollback()
        repacks = not pending.is_uniform or session.hooks.couples_nodes(TaskView(session.ledger, pending.tasks[0]))
        repacking = Repacking(session, queue, job, statement, session.placement)
        left = repacking.place(pending.tasks) if repacks else pending.tasks
        if len(left) == len(pending.tasks):
            return False
        session.commit(statement)
        session.rejections.clear(job.row)
        pending.tasks, pending.at = left, 0
        pending.ends = run_ends(session, np.array(left, dtype=np.intp)) if left else []
    return True


def _bind_single(session: Session, queue: QueueView, pending: PendingJob, task: TaskView) -> bool:
    """Bind the only task of a job to idle resources; return False, without a rejection, if that is not possible."""
    if pending.at or session.quotas.allocatable(queue, task, 1) is not None:
        return False
    chosen = session.placement.choose(task)
    if chosen is None or not chosen[1] or not session.bind(task.row, chosen[0]):
        return False
    pending.at = 1
    return True
