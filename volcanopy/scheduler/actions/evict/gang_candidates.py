"""Who may be taken as a gang, and what that makes of a rule: for those who take room, and for those who foresee that it is
taken back."""

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

Offered = Callable[[int], bool]
"""Says of a job, by its row, whether it may be taken as a gang."""


def offering(session: Session) -> Offered:
    """Says of a job, by its row, whether it may be taken as a gang: unless its pod group says otherwise."""

    @cache
    def offered(job: int) -> bool:
        group = session.snapshot.jobs.groups[job]
        return pod_fields.flag(group.metadata, names.PREEMPTABLE, absent=True)

    return offered


def in_bundles(session: Session, rule: Rule, offered: Offered, *, across: bool) -> Rule:
    """The rule for those who take room in bundles: only of jobs that may be taken as gangs, and as plugins say of gangs.

    ``across`` says whether the room is that of other queues; within a queue only jobs of a lower priority give any.
    """
    priority, owner = session.snapshot.jobs.priority, session.snapshot.tasks.job

    def prey(task: TaskView) -> Rows:
        rows = rule.prey(task)
        if not across:
            rows = rows[priority[owner[rows]] < priority[owner[task.row]]]
        return _among(rows, session, offered)

    def is_prey(task: TaskView, other: TaskView) -> bool:
        theirs = other.job
        if theirs is None or not rule.is_prey(task, other) or not offered(theirs.row):
            return False
        return across or bool(priority[theirs.row] < priority[owner[task.row]])

    def consent(task: TaskView, candidates: Sequence[TaskView]) -> list[TaskView]:
        return session.hooks.unified_evictable(GangPreemptor(task, across_queues=across), candidates)

    return replace(rule, prey=prey, is_prey=is_prey, consent=consent)


def _among(rows: Rows, session: Session, offered: Offered) -> Rows:
    """Those of the tasks whose jobs may be taken as gangs."""
    owners = session.snapshot.tasks.job[rows]
    known = np.unique(owners)
    allowed = known[np.fromiter((offered(int(job)) for job in known), np.bool_, len(known))]
    return rows[np.isin(owners, allowed)]
