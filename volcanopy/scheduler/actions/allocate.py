"""allocate: place the pending tasks of admitted jobs, a gang at once or not at all."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.actions.nominated import settle
from volcanopy.scheduler.plugin import Denial
from volcanopy.scheduler.resources import Ints, Rows
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.statement import Statement
from volcanopy.scheduler.views import JobView, QueueView, TaskView


@dataclass
class Worksheet:
    """What is left to place of a job: its pending tasks in order, and where runs of equal tasks end."""

    job: JobView
    tasks: Rows
    ends: Ints
    at: int = 0

    @property
    def left(self) -> int:
        """How many tasks have not been looked at yet."""
        return len(self.tasks) - self.at

    @property
    def run(self) -> int:
        """How many tasks from here on are equal."""
        return int(self.ends[np.searchsorted(self.ends, self.at, side="right")]) - self.at


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
        lines = self._lines(session)
        queues = [(session.queue_key(queue), queue) for queue in map(session.cluster.queue, lines)]
        heapq.heapify(queues)
        while queues:
            _, queue = heapq.heappop(queues)
            line = lines[queue.row]
            denial = session.hooks.overused(queue)
            if denial is not None:
                for _, sheet in line:
                    session.refuse(sheet.job, denial)
                continue
            _, sheet = heapq.heappop(line)
            if _take_turn(session, queue, sheet, alone=not line and not queues) and sheet.left:
                heapq.heappush(line, (session.job_key(sheet.job), sheet))
            if line:
                heapq.heappush(queues, (session.queue_key(queue), queue))

    @staticmethod
    def _lines(session: Session) -> dict[int, list[tuple[Any, Worksheet]]]:
        """The jobs to place, by queue, each queue's as a heap."""
        pending = session.pending_tasks()
        table = session.snapshot.tasks
        gated = "enqueue" in session.config.actions
        lines: dict[int, list[tuple[Any, Worksheet]]] = {}
        for job in session.waiting_jobs():
            if job.phase == "Pending":
                if gated:
                    continue
                session.ledger.phase[job.row] = "Inqueue"
            tasks = pending.get(job.row)
            invalid = session.hooks.job_valid(job)
            if invalid is not None:
                session.refuse(job, Denial("gang", invalid.message))
                continue
            if tasks is None:
                continue
            differs = np.zeros(len(tasks), dtype=np.bool_)
            for column in (table.shape, table.role, table.nominated):
                differs[1:] |= column[tasks[1:]] != column[tasks[:-1]]
            ends = np.append(np.flatnonzero(differs), len(tasks))
            lines.setdefault(job.queue.row, []).append((session.job_key(job), Worksheet(job, tasks, ends)))
        for line in lines.values():
            heapq.heapify(line)
        return lines


def _take_turn(session: Session, queue: QueueView, sheet: Worksheet, alone: bool) -> bool:
    """Place a job's tasks until it is ready; whether the job is to have another turn.

    A job that is ``alone`` has every further turn too: it may take them at once.
    """
    job = sheet.job
    with session.statement() as statement:
        _place(session, queue, sheet, statement, alone)
        if session.hooks.job_ready(job):
            session.commit(statement)
            return True
        vote = session.hooks.job_pipelined(job)
        if len(statement) and vote.value >= 0:
            session.keep(job, statement)
    return False


def _place(session: Session, queue: QueueView, sheet: Worksheet, statement: Statement, alone: bool) -> None:
    job, hooks = sheet.job, session.hooks
    failed: set[int] = set()
    was_ready = hooks.job_ready(job)
    fitted = 0
    while sheet.left:
        task = TaskView(session.ledger, int(sheet.tasks[sheet.at]))
        run = sheet.run
        if task.role in failed and session.snapshot.roles.names[task.role]:
            sheet.at += run
            continue
        wanted = run if alone and was_ready else min(run, max(1, hooks.shortfall(job)))
        allowed = _allowed(session, queue, task, wanted, fitted)
        if not allowed:
            sheet.at += run
            continue
        placed = _place_some(session, sheet, statement, task, allowed)
        if placed:
            fitted += placed
            sheet.at += placed
            if hooks.job_ready(job) and not (alone and was_ready):
                return
            continue
        session.refuse_nodes(job, task, fitted)
        failed.add(task.role)
        sheet.at += run
        if not _may_do_without(job, failed):
            return


def _place_some(session: Session, sheet: Worksheet, statement: Statement, task: TaskView, allowed: int) -> int:
    """Place up to ``allowed`` of the run of equal tasks that begins here; how many found a place."""
    nodes = session.placement.choose_run(task, allowed)
    if len(nodes):
        statement.allocate_run(sheet.tasks[sheet.at : sheet.at + len(nodes)], nodes)
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


def _allowed(session: Session, queue: QueueView, task: TaskView, wanted: int, fitted: int) -> int:
    """How many of ``wanted`` equal tasks the queue may take; why not more is noted when it is none."""
    allocatable = session.hooks.allocatable
    denial = allocatable(queue, task, wanted)
    if denial is None:
        return wanted
    least, most = 0, wanted
    while most - least > 1:
        middle = (least + most) // 2
        if allocatable(queue, task, middle) is None:
            least = middle
        else:
            most = middle
    if not least and task.job is not None:
        session.refuse(task.job, denial, fitted)
    return least


def _may_do_without(job: JobView, failed: set[int]) -> bool:
    """Whether a job can still become ready when tasks of the failed roles find no place."""
    if job.min_available == job.count():
        return False
    roles = job.roles
    if job.min_available < sum(role.minimum for role in roles):
        rest = sum(role.pending for role in roles if role.row not in failed)
        return job.ready_count + rest >= job.min_available
    return not any(role.row in failed and role.minimum > 0 and role.holding < role.minimum for role in roles)
