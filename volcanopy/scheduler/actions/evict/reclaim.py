"""reclaim: place tasks of a queue within its deserved share on resources of other queues."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.gang_candidates import allowed_jobs, bundle_rule
from volcanopy.scheduler.actions.evict.starving_jobs import starving_jobs
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.ledger.cross_queue_priority import Outlook, outlook
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session

REASON = "reclaim"


class Reclaim:
    """For jobs that lack tasks, evict running tasks of other queues, as far as the plugins allow."""

    name: ClassVar[str] = "reclaim"
    arguments: ClassVar[tuple[str, ...]] = ("predicateErrorCacheEnable",)

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Evict for the starving jobs, queue by queue."""
        place_nominated(session)
        starving = starving_jobs(session)
        if not starving.queues:
            return
        costs, allowed = EvictionCosts(session), allowed_jobs(session)
        for queue, jobs in starving.queues:
            if session.hooks.overused(queue) is None:
                rule = other_queues_rule(session, costs, queue)
                if "gangreclaim" in session.config.actions:
                    rule = replace(rule, counter_rules=(bundle_rule(session, rule, allowed, across_queues=True),))
                for job in jobs:
                    starving.evict_for(job, starving.tasks[job.row], rule, costs)


@dataclass(frozen=True, eq=False)
class _SeenPriorities:
    """The priorities of running jobs as seen from the queue of a reclaimer: where their lines of parents meet.

    See :mod:`volcanopy.scheduler.ledger.cross_queue_priority`.
    """

    session: Session
    outlook: Outlook

    @classmethod
    def by(cls, session: Session, queue: QueueView) -> "_SeenPriorities | None":
        """Return the priorities seen from this queue; None where no queue shows priorities to others."""
        seen = outlook(session.snapshot.queues, queue.row)
        return None if seen is None else cls(session, seen)

    def not_higher(self, reclaimer: TaskView, rows: Rows) -> Mask:
        """(M,): which of these tasks of other queues have no higher seen priority than the job of the reclaimer."""
        tasks, jobs = self.session.snapshot.tasks, self.session.snapshot.jobs
        owners = tasks.job[rows]
        queues = jobs.queue[owners].astype(np.intp)
        theirs = self.outlook.of_theirs(queues, jobs.priority[owners])
        mine = self.outlook.of_mine(queues, int(jobs.priority[tasks.job[reclaimer.row]]))
        return np.asarray(theirs <= mine)

    def victim_order(self, rows: Rows) -> Ints:
        """(T,): the order of these tasks as victims: the nearest queues first, of these the lowest seen priority."""
        tasks, jobs = self.session.snapshot.tasks, self.session.snapshot.jobs
        owners = tasks.job[rows]
        queues = jobs.queue[owners].astype(np.intp)
        keys = np.stack([-self.outlook.nearness[queues], self.outlook.of_theirs(queues, jobs.priority[owners])])
        order = np.zeros(len(tasks), dtype=np.int64)
        if len(rows):
            order[rows] = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        return order


def other_queues_rule(session: Session, costs: EvictionCosts, queue: QueueView) -> Rule:
    """Return the rule of a reclaiming queue: victims are running tasks of other queues that are reclaimable.

    Tasks with a higher seen priority than the reclaimer are no candidates.
    """
    queues, status = session.snapshot.queues, session.ledger.status
    own_view = _SeenPriorities.by(session, queue)
    views = {queue.row: own_view}  # also those of the victims' queues, for rules by which victims could reclaim back

    def candidates(task: TaskView) -> Rows:
        rows = costs.rows[status[costs.rows] == Status.RUNNING]
        owners = costs.queue[rows]
        others: Rows = rows[(owners != queue.row) & queues.reclaimable[owners]]
        return others if own_view is None else others[own_view.not_higher(task, others)]

    def is_candidate(task: TaskView, other: TaskView) -> bool:
        mine, theirs = task.job, other.job
        if mine is None or theirs is None or mine.queue.row == theirs.queue.row:
            return False
        if own_view is not None:
            if mine.queue.row not in views:
                views[mine.queue.row] = _SeenPriorities.by(session, mine.queue)
            view = views[mine.queue.row]
            if view is not None and not view.not_higher(task, session.ledger.single(other.row)).all():
                return False
        return other.preemptable and theirs.queue.reclaimable

    def is_eligible(task: TaskView) -> bool:
        job, hooks = task.job, session.hooks
        return job is not None and hooks.overused(job.queue) is None and hooks.preemptive(job.queue, [task])

    return Rule(
        REASON,
        "other queues",
        candidates,
        is_candidate,
        session.hooks.reclaimable,
        is_eligible,
        costs.queue_ranks(queue),
        victim_order=None if own_view is None else own_view.victim_order(costs.rows),
    )
