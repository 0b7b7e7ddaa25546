"""reclaim: a queue takes back from other queues what is its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.eviction_cost import Worth
from volcanopy.scheduler.actions.evict.gang_candidates import in_bundles, offering
from volcanopy.scheduler.actions.evict.reclaim_protection import Seen
from volcanopy.scheduler.actions.evict.starving_jobs import starving
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session

REASON = "reclaim"


class Reclaim:
    """For jobs that lack tasks, evict running tasks of other queues, as far as the plugins say that they must give."""

    name: ClassVar[str] = "reclaim"
    arguments: ClassVar[tuple[str, ...]] = ("predicateErrorCacheEnable",)

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Take back what can be taken back."""
        place_nominated(session)
        found = starving(session)
        if not found.queues:
            return
        worth, offered = Worth(session), offering(session)
        for queue, jobs in found.queues:
            if session.hooks.overused(queue) is None:
                rule = across_queues(session, worth, queue)
                if "gangreclaim" in session.config.actions:
                    rule = replace(rule, returns=(in_bundles(session, rule, offered, across=True),))
                for job in jobs:
                    found.turn(job, found.tasks[job.row], rule, worth)


def across_queues(session: Session, worth: Worth, queue: QueueView) -> Rule:
    """Victims are running tasks of other queues that let their room be taken back.

    Those are spared that look more important than who takes it, where the lines of their queues meet.
    """
    queues, status = session.snapshot.queues, session.ledger.status
    seen = Seen.by(session, queue)
    views = {queue.row: seen}  # also of the victims' queues, of which it is asked whether they could take the room back

    def prey(task: TaskView) -> Rows:
        rows = worth.rows[status[worth.rows] == Status.RUNNING]
        owners = worth.queue[rows]
        others: Rows = rows[(owners != queue.row) & queues.reclaimable[owners]]
        return others if seen is None else others[seen.no_higher(task, others)]

    def is_prey(task: TaskView, other: TaskView) -> bool:
        mine, theirs = task.job, other.job
        if mine is None or theirs is None or mine.queue.row == theirs.queue.row:
            return False
        if seen is not None:
            if mine.queue.row not in views:
                views[mine.queue.row] = Seen.by(session, mine.queue)
            view = views[mine.queue.row]
            if view is not None and not view.no_higher(task, session.ledger.single(other.row)).all():
                return False
        return other.preemptable and theirs.queue.reclaimable

    def may_take(task: TaskView) -> bool:
        job = task.job
        return (
            job is not None
            and session.hooks.overused(job.queue) is None
            and session.hooks.preemptive(job.queue, [task])
        )

    ranks, standing = worth.queue_ranks(queue), None if seen is None else seen.standing(worth.rows)
    return Rule(REASON, "other queues", prey, is_prey, session.hooks.reclaimable, may_take, ranks, standing=standing)
