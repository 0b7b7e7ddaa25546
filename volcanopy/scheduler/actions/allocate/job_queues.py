"""The pending jobs of each queue in order, and what is left to place of each job.

Thousands of jobs may wait: what is needed of all of them in advance is computed for all at once.
"""

import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.actions.gang_need import gang_need
from volcanopy.scheduler.actions.withdrawal import Withdrawal
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.plugin import Rejection


@dataclass(eq=False, slots=True)
class PendingJob:
    """The pending tasks of a job in order, and where runs of equal tasks end."""

    job: JobView
    tasks: list[int]
    ends: Sequence[int]
    at: int = 0
    is_single: bool = False
    """Whether the job has one pending task, without claims or nomination, and no sub-groups or network topology."""

    @property
    def rest(self) -> list[int]:
        """The tasks that have not been considered yet."""
        return self.tasks[self.at :]

    @property
    def left(self) -> int:
        """The number of tasks that have not been considered yet."""
        return len(self.tasks) - self.at

    @property
    def run(self) -> int:
        """The number of equal tasks from here on."""
        return self.ends[bisect_right(self.ends, self.at)] - self.at

    @property
    def is_uniform(self) -> bool:
        """Whether all tasks are equal: then their order does not matter."""
        return len(self.ends) == 1

    def placement_key(self, session: Session) -> tuple[object, ...]:
        """Return a key that is equal for jobs whose tasks up to here are of equal shape."""
        starts = [0, *(end for end in self.ends if end <= self.at)]
        table, cache_key = session.snapshot.tasks, session.hooks.cache_key
        tasks = [self.tasks[start] for start in starts]
        shapes = [(cache_key(TaskView(session.ledger, task)), int(table.nominated[task])) for task in tasks]
        return (*zip(shapes, starts, strict=True), self.at)


T = TypeVar("T")
Entry = tuple[Any, T]  # A waiting job with its sort key, which is unique.


class JobQueue(Generic[T]):
    """The waiting jobs of one queue in order."""

    def __init__(self, entries: list[Entry[T]]) -> None:
        self._jobs = sorted(entries, key=operator.itemgetter(0))
        self._at = 0  # How many were removed.

    def __len__(self) -> int:
        return len(self._jobs) - self._at

    def __iter__(self) -> Iterator[Entry[T]]:
        """In order."""
        return islice(self._jobs, self._at, None)

    def pop(self) -> T:
        """Remove and return the first job."""
        self._at += 1
        return self._jobs[self._at - 1][1]

    def push(self, key: Any, job: T) -> None:
        """Put a job back."""
        insort(self._jobs, (key, job), lo=self._at, key=operator.itemgetter(0))


def job_queues(session: Session) -> dict[int, JobQueue[PendingJob]]:
    """Return the jobs with tasks to place, by queue; invalid jobs are rejected."""
    admits = "enqueue" not in session.config.actions
    Withdrawal(session).withdraw_excess()
    waiting = session.waiting_jobs()
    if not waiting:
        return {}
    tasks_of = session.pending_tasks()
    if session.limits is not None and admits:  # the first ones use up the limits
        waiting.sort(key=lambda job: (session.queue_key(job.queue), session.job_key(job)))
    unadmitted = session.ledger.unadmitted
    waiting = [job for job in waiting if not unadmitted[job.row] or (admits and session.admit_without_enqueue(job))]
    rows = np.array([job.row for job in waiting], dtype=np.intp)
    valid = []
    invalid_jobs = session.gangs.invalid_jobs(rows)
    for job in waiting:
        invalid = invalid_jobs.get(job.row)
        if invalid is not None:
            session.reject(job, Rejection(Gate.GANG, invalid.message))
        elif job.row in tasks_of:
            valid.append(job)
    rows = np.array([job.row for job in valid], dtype=np.intp)
    _order_by_need(session, rows, tasks_of)
    jobs = session.snapshot.jobs
    columns = zip(
        valid,
        session.keys_of(rows) if len(rows) > 1 else [()] * len(rows),  # a single one needs no order
        _are_single(session, rows, tasks_of),
        jobs.structured[rows].tolist(),
        jobs.queue[rows].tolist(),
        strict=True,
    )
    entries: dict[int, list[Entry[PendingJob]]] = {}
    for job, key, is_single, structured, queue in columns:
        tasks = tasks_of[job.row]
        pending = PendingJob(job, tasks.tolist(), [] if structured else run_ends(session, tasks), is_single=is_single)
        entries.setdefault(queue, []).append((key, pending))
    return {queue: JobQueue(jobs) for queue, jobs in entries.items()}


def _order_by_need(session: Session, jobs: Rows, tasks_of: dict[int, Rows]) -> None:
    """Put first what gangs with minima of roles, or with tasks that request nothing, need in order to start."""
    ledger = session.ledger
    table = session.snapshot.jobs
    for row in jobs[table.has_minima[jobs] | (ledger.job_best_effort[jobs] > 0)].tolist():
        if len(table.roles[row]) == 1 and not ledger.job_best_effort[row]:
            continue  # its tasks are needed in any order
        needed, others = gang_need(session, JobView(ledger, row), tasks_of[row].tolist())
        tasks_of[row] = np.array([*needed, *others], dtype=np.intp)


def _are_single(session: Session, jobs: Rows, tasks_of: dict[int, Rows]) -> list[bool]:
    """Return for each of these jobs whether it is :attr:`PendingJob.is_single`."""
    table, claiming = session.snapshot.tasks, session.snapshot.shapes.claiming
    if "annotate" not in session.hooks.unanswered:
        return [False] * len(jobs)
    tasks = [tasks_of[job] for job in jobs.tolist()]
    single: Mask = ~session.snapshot.jobs.structured[jobs]
    single &= np.array([len(each) == 1 for each in tasks], dtype=np.bool_)
    first = np.array([each[0] for each in tasks], dtype=np.intp)
    single &= table.nominated[first] == NONE
    if claiming:
        single &= ~np.isin(table.shape[first], list(claiming))
    return single.tolist()


def run_ends(session: Session, tasks: Rows) -> Sequence[int]:
    """Return the positions after the last task of each run of equal tasks."""
    if len(tasks) == 1:
        return (1,)
    differs, table = session.hooks.differ(tasks), session.snapshot.tasks
    for column in (table.role, table.nominated):
        differs |= column[tasks[1:]] != column[tasks[:-1]]
    return [*(differs.nonzero()[0] + 1).tolist(), len(tasks)]


def allowed_count(session: Session, queue: QueueView, task: TaskView, count: int, placed: int) -> int:
    """Return how many of ``count`` tasks equal to this one the queue may allocate; if none, record the rejection.

    ``placed`` tasks of the job were placed before.
    """
    allocatable = session.quotas.allocatable
    rejection = allocatable(queue, task, count)
    if rejection is None:
        return count
    single = allocatable(queue, task, 1) if count > 1 else rejection
    if single is not None:
        if task.job is not None:  # fewer may be rejected by another gate: the share instead of a limit
            session.reject(task.job, rejection if single.gate == rejection.gate else single, placed)
        return 0
    more = range(2, count)
    return 1 + bisect_left(more, True, key=lambda number: allocatable(queue, task, number) is not None)


def can_start_without(job: JobView, failed: set[int], part: SubJobView | None = None) -> bool:
    """Return whether a job, or this part of it, can become ready without further tasks of the failed roles."""
    if job.min_available == job.count() or (part is not None and part.min_available >= len(part)):
        return False
    if part is not None and not part.is_whole:
        return True
    roles = job.roles
    if job.min_available < sum(role.minimum for role in roles):
        rest = sum(role.pending for role in roles if role.row not in failed)
        return job.ready_count + rest >= job.min_available
    return not any(role.row in failed and role.minimum > 0 and role.holding < role.minimum for role in roles)


@dataclass(frozen=True)
class Placing:
    """Placement of pending tasks in their order, on the nodes of one placement."""

    session: Session
    queue: QueueView
    statement: Statement
    placement: Placement
    many: bool  # Whether as many are placed as find a node; else those with which the job or its part can start.
    reject: Callable[[TaskView, int], None]  # Records that no node takes a task after so many others were placed.
    part: SubJobView | None = None
    """The part of a job that is placed; None for a job without sub-groups and network topology."""

    def place(self, pending: PendingJob) -> int:
        """Place tasks, and return how many; ``pending`` is left at the first one that was not considered."""
        session, gangs, job, part = self.session, self.session.gangs, pending.job, self.part
        failed, placed = set[int](), 0
        while pending.left:
            task, run = TaskView(session.ledger, pending.tasks[pending.at]), pending.run
            if failed and task.role in failed and session.snapshot.roles.names[task.role]:
                pending.at += run
                continue
            needed = run if run == 1 or self.many else min(run, max(1, gangs.shortfall(job, part)))
            allowed = allowed_count(session, self.queue, task, needed, placed)
            more = self._place_run(task, pending.tasks[pending.at : pending.at + allowed]) if allowed else 0
            if more:
                placed += more
                pending.at += more
                if not self.many and gangs.is_ready(job, part):
                    break
                continue
            if part is not None and self.many and placed:
                break  # the next domain may take it
            if allowed:
                self.reject(task, placed)
                failed.add(task.role)
            pending.at += run
            if allowed and not can_start_without(job, failed, part):
                break
        return placed

    def _place_run(self, task: TaskView, tasks: list[int]) -> int:
        """Place equal tasks on free resources, up to the first one where some are being freed; return how many were placed.

        Those of a part, as long as the hypernode that it spans stays the same.
        """
        ledger, entry, table = self.session.ledger, self.placement.entry(task), self.session.snapshot.hypernodes
        spanned = NONE if self.part is None else self.part.spanned

        def choose(placed: int) -> tuple[Rows, bool] | None:
            view = TaskView(ledger, tasks[placed])
            nodes = self.placement.choose_run(view, len(tasks) - placed, entry)
            if not len(nodes):
                chosen = self.placement.choose(view, entry)
                return None if chosen is None else (ledger.single(chosen[0]), chosen[1])
            if spanned != NONE:
                outside = (~table.holds[spanned, table.of_node[nodes]]).nonzero()[0]
                nodes = nodes[: int(outside[0]) + 1] if len(outside) else nodes
            return nodes, True

        if self.part is None:
            return self.statement.place_run(tasks, choose)
        tasks = tasks[:1] if spanned == NONE else tasks
        return self.statement.place_run(tasks, lambda placed: None if placed else choose(placed))
