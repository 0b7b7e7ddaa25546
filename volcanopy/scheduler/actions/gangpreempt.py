"""gangpreempt: within a queue, whole bundles of less important jobs make room for a gang."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from volcanopy.api import names
from volcanopy.scheduler import reading
from volcanopy.scheduler.actions.gangs import ARGUMENTS, GangArguments, Turns
from volcanopy.scheduler.actions.nominated import settle
from volcanopy.scheduler.actions.starving import starving
from volcanopy.scheduler.actions.victims import Rule
from volcanopy.scheduler.plugin import Arguments, Taking
from volcanopy.scheduler.resources import Rows
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.views import JobView, TaskView

REASON = "gangpreempt"


class GangPreempt:
    """For gangs that lack members, evict bundles of jobs of lower priority of their queue, in one domain of the network."""

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    model: ClassVar[type[Arguments]] = GangArguments

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Make room where it can be made."""
        settle(session)
        found = starving(session)
        if not found.queues:
            return
        turns = Turns(session, GangArguments.model_validate(arguments))
        offered = offering(session)
        for queue, jobs in found.queues:
            for job in jobs:
                turns.take(job, found.tasks[job.row], _below(turns, job, queue.row, offered), lambda _: True)


def _below(turns: Turns, job: JobView, queue: int, offered: Callable[[int], bool]) -> Rule:
    """Victims are tasks of less important jobs of the same queue that may be taken as gangs."""
    session = turns.session
    table, jobs = session.snapshot.tasks, session.snapshot.jobs

    def prey(_: TaskView) -> Rows:
        rows = turns.worth.of_queue(queue)
        return among(rows[jobs.priority[table.job[rows]] < job.priority], session, offered)

    def is_prey(task: TaskView, other: TaskView) -> bool:
        mine, theirs = task.job, other.job
        if mine is None or theirs is None or mine.queue.row != theirs.queue.row or not other.preemptable:
            return False
        return theirs.priority < mine.priority and offered(theirs.row)

    def consent(task: TaskView, candidates: Any) -> list[TaskView]:
        return session.hooks.unified_evictable(Taking(task, across=False), candidates)

    whom = f"less important jobs of queue {job.queue.name}"
    return Rule(REASON, whom, prey, is_prey, consent, lambda _: True)


def offering(session: Session) -> Callable[[int], bool]:
    """Says of a job, by its row, whether it may be taken as a gang: unless its pod group says otherwise."""

    @cache
    def offered(job: int) -> bool:
        group = session.snapshot.jobs.groups[job]
        return reading.flag(group.metadata, names.PREEMPTABLE, absent=True)

    return offered


def among(rows: Rows, session: Session, offered: Callable[[int], bool]) -> Rows:
    """Those of the tasks whose jobs may be taken as gangs."""
    owners = session.snapshot.tasks.job[rows]
    known = np.unique(owners)
    allowed = known[np.fromiter((offered(int(job)) for job in known), np.bool_, len(known))]
    return rows[np.isin(owners, allowed)]
