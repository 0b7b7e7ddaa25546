"""Placement of one job: its pending tasks in order until it is ready, at once or not at all."""

import numpy as np

from volcanopy.scheduler.actions.allocate.gang_repack import Repacking
from volcanopy.scheduler.actions.allocate.job_queues import PendingJob, allowed_count, can_start_without, run_ends
from volcanopy.scheduler.actions.allocate.topology_search import place_by_topology
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import QueueView, TaskView


def place_job(session: Session, queue: QueueView, pending: PendingJob, is_last: bool) -> bool:
    """Place a job's tasks until it is ready; return whether the job is to be considered again for its other tasks.

    The last job may place all its further tasks at once.
    """
    job = pending.job
    if pending.is_single:
        if session.limits is not None and _exceeds_limit(session, pending):
            return False
        if _bind_single(session, queue, pending):
            return True
    if session.snapshot.jobs.structured[job.row]:
        pending.tasks, pending.at = place_by_topology(session, queue, job, pending.tasks, is_last), 0
        return bool(pending.tasks)
    with session.statement() as statement:
        if _place_tasks(session, queue, pending, statement, is_last) or session.gangs.is_ready(job):
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


def _exceeds_limit(session: Session, pending: PendingJob) -> bool:
    """Reject a job of one task that a limit of its user or group does not allow: many such jobs may wait."""
    task = TaskView(session.ledger, pending.tasks[0])
    rejection = None if session.limits is None else session.limits.exceeded(task, 1)
    if rejection is not None:
        session.reject(pending.job, rejection)
    return rejection is not None


def _bind_single(session: Session, queue: QueueView, pending: PendingJob) -> bool:
    """Bind the only task of a job to idle resources; return False, without a rejection, if that is not possible."""
    task = TaskView(session.ledger, pending.tasks[0])
    if pending.at or session.quotas.allocatable(queue, task, 1) is not None:
        return False
    chosen = session.placement.choose(task)
    if chosen is None or not chosen[1]:
        return False
    if not session.bind(task.row, chosen[0]):
        return False
    pending.at = 1
    return True


def _place_tasks(session: Session, queue: QueueView, pending: PendingJob, statement: Statement, is_last: bool) -> bool:
    """Place tasks until the job is ready; return True once it certainly is."""
    job, gangs = pending.job, session.gangs
    failed: set[int] = set()
    was_ready = gangs.is_ready(job)
    count = 0
    while pending.left:
        task = TaskView(session.ledger, pending.tasks[pending.at])
        run = pending.run
        if failed and task.role in failed and session.snapshot.roles.names[task.role]:
            pending.at += run
            continue
        needed = run if run == 1 or (is_last and was_ready) else min(run, max(1, gangs.shortfall(job)))
        allowed = allowed_count(session, queue, task, needed, count)
        if not allowed:
            pending.at += run
            continue
        placed = _place_run(session, pending, statement, task, allowed)
        if placed:
            count += placed
            pending.at += placed
            if gangs.is_ready(job) and not (is_last and was_ready):
                return True
            continue
        session.reject_nodes(job, task, count, pending.placement_key(session) if count else None)
        failed.add(task.role)
        pending.at += run
        if not can_start_without(job, failed):
            return False
    return False


def _place_run(session: Session, pending: PendingJob, statement: Statement, task: TaskView, allowed: int) -> int:
    """Place up to ``allowed`` of the run of equal tasks that begins here; return how many were placed."""
    nodes = session.placement.choose_run(task, allowed)
    if len(nodes):
        statement.allocate_run(np.array(pending.tasks[pending.at : pending.at + len(nodes)]), nodes)
        return len(nodes)
    chosen = session.placement.choose(task)
    if chosen is None:
        return 0
    node, is_free = chosen
    if is_free:
        statement.allocate(task.row, node)
    else:
        statement.pipeline(task.row, node)
    return 1
