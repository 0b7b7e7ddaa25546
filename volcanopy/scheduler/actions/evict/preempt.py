"""preempt: within a queue, evict tasks of lower priority for jobs of higher priority."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.gang_candidates import allowed_jobs, bundle_rule
from volcanopy.scheduler.actions.evict.starving_jobs import Starving, starving_jobs
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session

REASON = "preempt"


class Preempt:
    """For jobs that lack tasks, evict tasks of other jobs of their queue, then of the job itself, as the plugins allow.

    All nodes are considered and every eviction is tried on the ledger first, so the arguments about dry runs and about the
    number of candidate nodes have no effect.
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
        """Evict for the starving jobs, queue by queue."""
        place_nominated(session)
        starving = starving_jobs(session)
        if not starving.queues:
            return
        costs = EvictionCosts(session)
        for _, jobs in starving.queues:
            rule = other_jobs_rule(session, costs)
            if "gangpreempt" in session.config.actions:
                counter_rule = bundle_rule(session, rule, allowed_jobs(session), across_queues=False)
                rule = replace(rule, counter_rules=(counter_rule,))
            for job in jobs:
                starving.evict_for(job, starving.tasks[job.row], rule, costs)
            for job in jobs:
                _preempt_in_job(session, starving, job, costs)


def _preempt_in_job(session: Session, starving: Starving, job: JobView, costs: EvictionCosts) -> None:
    """Evict tasks of lower priority for tasks of higher priority of the same job, one by one."""
    rule = same_job_rule(session, costs)
    for row in starving.tasks[job.row].tolist():
        tasks = np.array([row], dtype=np.intp)
        if session.ledger.status[row] == Status.PENDING and not starving.evict_for(job, tasks, rule, costs):
            return


def other_jobs_rule(session: Session, costs: EvictionCosts) -> Rule:
    """Return the rule whose victims are tasks of other jobs of the same queue."""
    table = session.snapshot.tasks

    def candidates(task: TaskView) -> Rows:
        own = table.job[task.row]
        rows = costs.of_queue(int(session.snapshot.jobs.queue[own]))
        return _comparable(session, task, rows[table.job[rows] != own])

    def is_candidate(task: TaskView, other: TaskView) -> bool:
        own, job = task.job, other.job
        differ = own is not None and job is not None and own.row != job.row
        return differ and other.preemptable and (other.best_effort or not task.best_effort)

    return Rule(REASON, "other jobs", candidates, is_candidate, session.hooks.preemptable, lambda _: True)


def same_job_rule(session: Session, costs: EvictionCosts) -> Rule:
    """Return the rule whose victims are tasks of lower priority of the same job; equal priority would not help the job."""
    table = session.snapshot.tasks

    def candidates(task: TaskView) -> Rows:
        own = table.job[task.row]
        rows = costs.of_queue(int(session.snapshot.jobs.queue[own]))
        lower = table.priority[rows] < table.priority[task.row]
        return _comparable(session, task, rows[(table.job[rows] == own) & lower])

    def is_candidate(task: TaskView, other: TaskView) -> bool:
        lower = bool(table.priority[other.row] < table.priority[task.row])
        return lower and other.preemptable and (other.best_effort or not task.best_effort)

    return Rule(REASON, "the job itself", candidates, is_candidate, session.hooks.preemptable, lambda _: True)


def _comparable(session: Session, task: TaskView, rows: Rows) -> Rows:
    """Return the candidates; for a task without requests only those that have none either."""
    if not task.best_effort:
        return rows
    return rows[session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[rows]]]
