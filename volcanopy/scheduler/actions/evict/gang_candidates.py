"""Candidates of gangpreempt and gangreclaim: jobs that may be evicted in bundles, and the rules restricted to them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from volcanopy.api import names
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.framework.plugin import GangPreemptor
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.session.session import Session

AllowsBundles = Callable[[int], bool]
"""Whether a job, given by its row, may be evicted in bundles."""


def allowed_jobs(session: Session) -> AllowsBundles:
    """Return the predicate of jobs that may be evicted in bundles: all whose pod group is not marked otherwise."""

    @cache
    def allowed(job: int) -> bool:
        group = session.snapshot.jobs.groups[job]
        return pod_fields.flag(group.metadata, names.PREEMPTABLE, absent=True)

    return allowed


def bundle_rule(session: Session, rule: Rule, allowed: AllowsBundles, *, across_queues: bool) -> Rule:
    """Return the rule for evictions in bundles: only of allowed jobs, and as plugins answer for gangs.

    Within a queue (not ``across_queues``) only jobs of a lower priority have candidates.
    """
    priority, owner = session.snapshot.jobs.priority, session.snapshot.tasks.job

    def candidates(task: TaskView) -> Rows:
        rows = rule.candidates(task)
        if not across_queues:
            rows = rows[priority[owner[rows]] < priority[owner[task.row]]]
        jobs = np.unique(owner[rows])
        jobs = jobs[np.fromiter((allowed(int(job)) for job in jobs), np.bool_, len(jobs))]
        return rows[np.isin(owner[rows], jobs)]

    def is_candidate(task: TaskView, other: TaskView) -> bool:
        theirs = other.job
        if theirs is None or not rule.is_candidate(task, other) or not allowed(theirs.row):
            return False
        return across_queues or bool(priority[theirs.row] < priority[owner[task.row]])

    def evictable(task: TaskView, victims: Sequence[TaskView]) -> list[TaskView]:
        return session.hooks.unified_evictable(GangPreemptor(task, across_queues=across_queues), victims)

    return replace(rule, candidates=candidates, is_candidate=is_candidate, evictable=evictable)
