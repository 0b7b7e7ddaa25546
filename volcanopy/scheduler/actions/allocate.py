"""allocate: place the pending tasks of admitted jobs, a gang at once or not at all."""

import heapq
import operator
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.actions.domains import take_turn
from volcanopy.scheduler.actions.limits import how_many
from volcanopy.scheduler.actions.nominated import settle
from volcanopy.scheduler.actions.retry import pack
from volcanopy.scheduler.plugin import Denial
from volcanopy.scheduler.resources import Rows
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.statement import Statement
from volcanopy.scheduler.views import JobView, QueueView, TaskView
from volcanopy.scheduler.words import Words


@dataclass
class Worksheet:
    """What is left to place of a job: its pending tasks in order, and where runs of equal tasks end."""

    job: JobView
    tasks: list[int]
    ends: list[int]
    at: int = 0

    @property
    def left(self) -> int:
        """How many tasks have not been looked at yet."""
        return len(self.tasks) - self.at

    @property
    def run(self) -> int:
        """How many tasks from here on are equal."""
        return self.ends[bisect_right(self.ends, self.at)] - self.at

    def way(self, session: Session) -> tuple[object, ...]:
        """Equal for jobs whose tasks up to here are alike."""
        starts = [0, *(end for end in self.ends if end <= self.at)]
        table, likeness = session.snapshot.tasks, session.hooks.likeness
        tasks = [self.tasks[start] for start in starts]
        kinds = [(likeness(TaskView(session.ledger, task)), int(table.nominated[task])) for task in tasks]
        return (*zip(kinds, starts, strict=True), self.at)


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
        in_a_tree = any(plugin.hierarchy for tier in session.config.tiers for plugin in tier)
        while queues:
            _, queue = heapq.heappop(queues)
            if in_a_tree and queues and (key := session.queue_key(queue)) > queues[0][0]:
                heapq.heappush(queues, (key, queue))  # the turns of its relatives have put it further back
                continue
            line = lines[queue.row]
            denial = session.hooks.overused(queue)
            if denial is not None:
                for _, sheet in sorted(line):
                    session.refuse(sheet.job, denial)
                continue
            _, sheet = heapq.heappop(line)
            begun = _take_turn(session, queue, sheet, alone=not line and not queues)
            if not begun and line and queue.in_turn:
                for _, other in line:
                    reason = f"queue {queue.name} serves in turn: {sheet.job.key} comes first"
                    session.refuse(other.job, Denial("queue", reason))
                continue
            if begun and sheet.left:
                heapq.heappush(line, (session.job_key(sheet.job), sheet))
            if line:
                key = session.queue_key(queue) if queues else ()  # whose turn it is among one is no question
                heapq.heappush(queues, (key, queue))

    @staticmethod
    def _lines(session: Session) -> dict[int, list[tuple[Any, Worksheet]]]:
        """The jobs to place, by queue, each queue's as a heap."""
        pending = session.pending_tasks()
        queue_of = session.snapshot.jobs.queue
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
                session.refuse(job, Denial("gang", Words(invalid.message, invalid.numbers, unblock=invalid.unblock)))
                continue
            if tasks is None:
                continue
            ends = [] if session.snapshot.jobs.structured[job.row] else _ends(session, tasks)
            sheet = Worksheet(job, tasks.tolist(), ends)
            lines.setdefault(int(queue_of[job.row]), []).append((session.job_key(job), sheet))
        for line in lines.values():
            heapq.heapify(line)
        return lines


def _ends(session: Session, tasks: Rows) -> list[int]:
    """Where runs of tasks end that are equal in all that is asked about them."""
    if len(tasks) == 1:
        return [1]
    table = session.snapshot.tasks
    differs = np.zeros(len(tasks) - 1, dtype=np.bool_)
    for column in (table.shape, table.role, table.nominated):
        differs |= column[tasks[1:]] != column[tasks[:-1]]
    if not session.hooks.by_shape:
        alike = [session.hooks.likeness(TaskView(session.ledger, task)) for task in tasks.tolist()]
        differs |= np.fromiter(map(operator.ne, alike[1:], alike), np.bool_, len(differs))
    return [*(np.flatnonzero(differs) + 1).tolist(), len(tasks)]


def _take_turn(session: Session, queue: QueueView, sheet: Worksheet, alone: bool) -> bool:
    """Place a job's tasks until it is ready; whether the job is to have another turn.

    A job that is ``alone`` has every further turn too: it may take them at once.
    """
    job = sheet.job
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
        sheet.tasks, sheet.ends, sheet.at = left, _ends(session, np.array(left, dtype=np.intp)) if left else [], 0
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
