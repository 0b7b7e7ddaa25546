"""allocate: place the pending tasks of admitted jobs, a gang at once or not at all."""

import heapq
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.actions.allocate.gang_repack import pack
from volcanopy.scheduler.actions.allocate.job_queues import Worksheet, ends, lines
from volcanopy.scheduler.actions.allocate.queue_allowance import how_many
from volcanopy.scheduler.actions.allocate.topology_search import take_turn
from volcanopy.scheduler.actions.nominated import settle
from volcanopy.scheduler.framework.plugin import Rejection
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.session.session import Session


class Allocate:
    """Give tasks free room, or room that is being freed: queues in order, jobs of a queue in order, gangs whole.

    A job's turn lasts until it is ready; a job that is ready already gets one more task a turn, so that those which
    wait to start come first.
    """

    name: ClassVar[str] = "allocate"
    arguments: ClassVar[tuple[str, ...]] = ("predicateErrorCacheEnable",)

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Place what can be placed."""
        settle(session)
        waiting = lines(session)
        queues = [(session.queue_key(queue), queue) for queue in map(session.cluster.queue, waiting)]
        heapq.heapify(queues)
        in_a_tree = any(plugin.hierarchy for tier in session.config.tiers for plugin in tier)
        in_a_tree |= session.snapshot.queues.nested
        while queues:
            _, queue = heapq.heappop(queues)
            if in_a_tree and queues and (key := session.queue_key(queue)) > queues[0][0]:
                heapq.heappush(queues, (key, queue))  # the turns of its relatives have put it further back
                continue
            line = waiting[queue.row]
            denial = session.hooks.overused(queue)
            if denial is not None:
                for _, sheet in line:
                    session.refuse(sheet.job, denial)
                continue
            sheet = line.pop()
            begun = _take_turn(session, queue, sheet, alone=not line and not queues)
            if not begun:
                session.cluster.precedence.pass_over(sheet.job.row)
            if not begun and line and queue.in_turn and not session.holds_up_nobody(sheet.job):
                for _, other in line:
                    reason = f"queue {queue.name} serves in turn: {sheet.job.key} comes first"
                    session.refuse(other.job, Rejection("queue", reason))
                continue
            if begun and sheet.left:
                line.push(session.job_key(sheet.job), sheet)
            if line:
                key = session.queue_key(queue) if queues else ()  # whose turn it is among one is no question
                heapq.heappush(queues, (key, queue))


def _take_turn(session: Session, queue: QueueView, sheet: Worksheet, alone: bool) -> bool:
    """Place a job's tasks until it is ready; whether the job is to have another turn.

    A job that is ``alone`` has every further turn too: it may take them at once.
    """
    job = sheet.job
    if sheet.lone:
        if session.limits is not None and _is_denied(session, sheet):
            return False
        if _settle_one(session, queue, sheet):
            return True
    if session.snapshot.jobs.structured[job.row]:
        sheet.tasks, sheet.at = take_turn(session, queue, job, sheet.tasks, alone), 0
        return bool(sheet.tasks)
    with session.statement() as statement:
        if _place(session, queue, sheet, statement, alone) or session.hooks.job_ready(job):
            session.commit(statement)
            return True
        vote = session.hooks.job_pipelined(job)
        if len(statement) and vote.value >= 0:
            session.keep(job, statement)
            return False
        statement.rollback()
        left = pack(session, queue, job, sheet.tasks, statement)
        if len(left) == len(sheet.tasks):
            return False
        session.commit(statement)
        session.excuse(job)
        sheet.tasks, sheet.ends, sheet.at = left, ends(session, np.array(left, dtype=np.intp)) if left else [], 0
    return True


def _is_denied(session: Session, sheet: Worksheet) -> bool:
    """Whether a limit of its user or group keeps a job of one task out: many such jobs may wait, and are told at once."""
    denial = None if session.limits is None else session.limits.denied(TaskView(session.ledger, sheet.tasks[0]), 1)
    if denial is not None:
        session.refuse(sheet.job, denial)
    return denial is not None


def _settle_one(session: Session, queue: QueueView, sheet: Worksheet) -> bool:
    """Give the one task of a job the free room that there is; if there is none for it, all is left to the usual way."""
    task = TaskView(session.ledger, sheet.tasks[0])
    if sheet.at or session.hooks.allocatable(queue, task, 1) is not None:
        return False
    chosen = session.placement.choose(task)
    if chosen is None or not chosen[1]:
        return False
    session.bind(task.row, chosen[0])
    sheet.at = 1
    return True


def _place(session: Session, queue: QueueView, sheet: Worksheet, statement: Statement, alone: bool) -> bool:
    """Place tasks until the job is ready; whether that is certain already."""
    job, hooks = sheet.job, session.hooks
    failed: set[int] = set()
    was_ready = hooks.job_ready(job)
    fitted = 0
    while sheet.left:
        task = TaskView(session.ledger, sheet.tasks[sheet.at])
        run = sheet.run
        if failed and task.role in failed and session.snapshot.roles.names[task.role]:
            sheet.at += run
            continue
        wanted = run if run == 1 or (alone and was_ready) else min(run, max(1, hooks.shortfall(job)))
        allowed = how_many(session, queue, task, wanted, fitted)
        if not allowed:
            sheet.at += run
            continue
        placed = _place_some(session, sheet, statement, task, allowed)
        if placed:
            fitted += placed
            sheet.at += placed
            if hooks.job_ready(job) and not (alone and was_ready):
                return True
            continue
        session.refuse_nodes(job, task, fitted, sheet.way(session) if fitted else None)
        failed.add(task.role)
        sheet.at += run
        if not _may_do_without(job, failed):
            return False
    return False


def _place_some(session: Session, sheet: Worksheet, statement: Statement, task: TaskView, allowed: int) -> int:
    """Place up to ``allowed`` of the run of equal tasks that begins here; how many found a place."""
    nodes = session.placement.choose_run(task, allowed)
    if len(nodes):
        statement.allocate_run(np.array(sheet.tasks[sheet.at : sheet.at + len(nodes)]), nodes)
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


def _may_do_without(job: JobView, failed: set[int]) -> bool:
    """Whether a job can still become ready when tasks of the failed roles find no place."""
    if job.min_available == job.count():
        return False
    roles = job.roles
    if job.min_available < sum(role.minimum for role in roles):
        rest = sum(role.pending for role in roles if role.row not in failed)
        return job.ready_count + rest >= job.min_available
    return not any(role.row in failed and role.minimum > 0 and role.holding < role.minimum for role in roles)
