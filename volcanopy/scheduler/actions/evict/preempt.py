"""preempt: within a queue, the less important make room for the more important."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import Worth
from volcanopy.scheduler.actions.evict.gang_candidates import in_bundles, offering
from volcanopy.scheduler.actions.evict.starving_jobs import Starving, starving
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session

REASON = "preempt"


class Preempt:
    """For jobs that lack tasks, evict tasks of other jobs of their queue, and then of their own, as the plugins allow.

    Every node is looked at and every eviction is tried out first, so what the file may say about dry runs has no effect.
    """

    name: ClassVar[str] = "preempt"
    arguments: ClassVar[tuple[str, ...]] = (
        "predicateErrorCacheEnable",
        "enableTopologyAwarePreemption",
        "topologyAwarePreemptWorkerNum",
        "minCandidateNodesPercentage",
        "minCandidateNodesAbsolute",
        "maxCandidateNodesAbsolute",
    )

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Make room where it can be made."""
        place_nominated(session)
        found = starving(session)
        if not found.queues:
            return
        worth = Worth(session)
        for _, jobs in found.queues:
            rule = between_jobs(session, worth)
            if "gangpreempt" in session.config.actions:
                rule = replace(rule, returns=(in_bundles(session, rule, offering(session), across=False),))
            for job in jobs:
                found.turn(job, found.tasks[job.row], rule, worth)
            for job in jobs:
                _within(session, found, job, worth)


def _within(session: Session, found: Starving, job: JobView, worth: Worth) -> None:
    """Let more important tasks of a job have the room of its less important ones, one by one."""
    rule = within_job(session, worth)
    for row in found.tasks[job.row].tolist():
        if session.ledger.status[row] == Status.PENDING and not found.turn(
            job, np.array([row], dtype=np.intp), rule, worth
        ):
            return


def between_jobs(session: Session, worth: Worth) -> Rule:
    """Victims are tasks of other jobs of the same queue."""

    def prey(task: TaskView) -> Rows:
        own = session.snapshot.tasks.job[task.row]
        rows = worth.of_queue(int(session.snapshot.jobs.queue[own]))
        return _alike(session, task, rows[session.snapshot.tasks.job[rows] != own])

    def is_prey(task: TaskView, other: TaskView) -> bool:
        mine, theirs = task.job, other.job
        apart = mine is not None and theirs is not None and mine.row != theirs.row
        return apart and other.preemptable and (other.best_effort or not task.best_effort)

    return Rule(REASON, "other jobs", prey, is_prey, session.hooks.preemptable, lambda _: True)


def within_job(session: Session, worth: Worth) -> Rule:
    """Victims are less important tasks of the same job: that one of its equals runs in its place helps no job."""
    priority = session.snapshot.tasks.priority

    def prey(task: TaskView) -> Rows:
        own = session.snapshot.tasks.job[task.row]
        rows = worth.of_queue(int(session.snapshot.jobs.queue[own]))
        rows = rows[(session.snapshot.tasks.job[rows] == own) & (priority[rows] < priority[task.row])]
        return _alike(session, task, rows)

    def is_prey(task: TaskView, other: TaskView) -> bool:
        less = bool(priority[other.row] < priority[task.row])
        return less and other.preemptable and (other.best_effort or not task.best_effort)

    return Rule(REASON, "the job itself", prey, is_prey, session.hooks.preemptable, lambda _: True)


def _alike(session: Session, task: TaskView, rows: Rows) -> Rows:
    """A task that requests nothing displaces only such as request nothing either."""
    if not task.best_effort:
        return rows
    return rows[session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[rows]]]
