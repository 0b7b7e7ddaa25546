"""The lines in which jobs wait for room, one for each queue, and what is left to place of each job.

Many jobs may wait. What is asked of all of them before the first takes its turn is asked of many at once.
"""

import heapq
import operator
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from volcanopy.scheduler.framework.plugin import Rejection
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.messages import Words
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.session.session import Session


@dataclass(eq=False, slots=True)
class Worksheet:
    """What is left to place of a job: its pending tasks in order, and where runs of equal tasks end."""

    job: JobView
    tasks: list[int]
    ends: list[int]
    at: int = 0
    lone: bool = False
    """Whether it is one task that asks for nothing but room, and whose place makes the job ready for sure."""

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


Place = tuple[Any, Worksheet]
"""A job's key and its worksheet. No two jobs have one key."""


class Line:
    """The jobs of one queue, the next first. Most have one turn: they are sorted once, and a heap holds who comes again."""

    def __init__(self, places: list[Place]) -> None:
        self._first = sorted(places, key=operator.itemgetter(0), reverse=True)
        self._again: list[Place] = []

    def __len__(self) -> int:
        return len(self._first) + len(self._again)

    def __bool__(self) -> bool:
        return bool(self._first or self._again)

    def __iter__(self) -> Iterator[Place]:
        """In order."""
        return iter(sorted([*self._first, *self._again], key=operator.itemgetter(0)))

    def pop(self) -> Worksheet:
        """Take out whose turn it is."""
        if self._again and (not self._first or self._again[0] < self._first[-1]):
            return heapq.heappop(self._again)[1]
        return self._first.pop()[1]

    def push(self, key: Any, sheet: Worksheet) -> None:
        """Let a job have another turn."""
        heapq.heappush(self._again, (key, sheet))


def lines(session: Session) -> dict[int, Line]:
    """The jobs with tasks to place, by queue."""
    pending = session.pending_tasks()
    gated = "enqueue" in session.config.actions
    waiting = session.waiting_jobs()
    if session.limits is not None and not gated:  # who begins first leaves less for the others
        waiting.sort(key=lambda job: (session.queue_key(job.queue), session.job_key(job)))
    waiting = [job for job in waiting if job.phase != "Pending" or (not gated and session.begins(job))]
    rows = np.array([job.row for job in waiting], dtype=np.intp)
    ready = []
    for job, surely in zip(waiting, session.hooks.surely_valid(rows).tolist(), strict=True):
        invalid = None if surely else session.hooks.job_valid(job)
        if invalid is not None:
            session.refuse(job, Rejection("gang", Words(invalid.message, invalid.numbers, unblock=invalid.unblock)))
        elif job.row in pending:
            ready.append(job)
    rows = np.array([job.row for job in ready], dtype=np.intp)
    jobs = session.snapshot.jobs
    columns = zip(
        ready,
        session.keys_of(rows),
        _lone(session, rows, pending),
        jobs.structured[rows].tolist(),
        jobs.queue[rows].tolist(),
        strict=True,
    )
    places: dict[int, list[Place]] = {}
    for job, key, lone, structured, queue in columns:
        tasks = pending[job.row]
        sheet = Worksheet(job, tasks.tolist(), [] if structured else ends(session, tasks), lone=lone)
        places.setdefault(queue, []).append((key, sheet))
    return {queue: Line(line) for queue, line in places.items()}


def _lone(session: Session, jobs: Rows, pending: dict[int, Rows]) -> list[bool]:
    """Which of these jobs are one task that asks for nothing but room, and whose place makes them ready for sure."""
    table, claiming = session.snapshot.tasks, session.snapshot.shapes.claiming
    lone = session.hooks.ready_after_one(jobs) & ~session.snapshot.jobs.structured[jobs]
    if "bind_annotations" not in session.hooks.unanswered:
        return [False] * len(jobs)
    tasks = [pending[job] for job in jobs.tolist()]
    lone &= np.array([len(each) == 1 for each in tasks], dtype=np.bool_)
    first = np.array([each[0] for each in tasks], dtype=np.intp)
    lone &= table.nominated[first] == NONE
    if claiming:
        lone &= ~np.isin(table.shape[first], list(claiming))
    flags: list[bool] = lone.tolist()
    return flags


def ends(session: Session, tasks: Rows) -> list[int]:
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
