"""gangreclaim: a queue takes back from other queues what is its own, in whole bundles and for whole gangs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from volcanopy.scheduler.actions.gangpreempt import among, offering
from volcanopy.scheduler.actions.gangs import ARGUMENTS, GangArguments, Turns
from volcanopy.scheduler.actions.nominated import settle
from volcanopy.scheduler.actions.reclaim import across_queues
from volcanopy.scheduler.actions.starving import starving
from volcanopy.scheduler.actions.victims import Rule
from volcanopy.scheduler.plugin import Arguments, Taking
from volcanopy.scheduler.resources import Rows
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.views import QueueView, TaskView

REASON = "gangreclaim"


class GangReclaim:
    """For gangs that lack members, evict bundles of running tasks of other queues, in one domain of the network."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    model: ClassVar[type[Arguments]] = GangArguments

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Take back what can be taken back."""
        settle(session)
        found = starving(session)
        if not found.queues:
            return
        turns = Turns(session, GangArguments.model_validate(arguments))
        offered = offering(session)
        for queue, jobs in found.queues:
            rule, claim = _elsewhere(turns, queue, offered), partial(session.hooks.preemptive, queue)
            for job in jobs:
                if session.hooks.overused(queue) is None:
                    turns.take(job, found.tasks[job.row], rule, claim)
                else:
                    turns.note(job, f"{REASON} is not for it: queue {queue.name} holds what it deserves")


def _elsewhere(turns: Turns, queue: QueueView, offered: Callable[[int], bool]) -> Rule:
    """Victims are running tasks of other queues that let their room be taken back, of jobs that may be taken as gangs."""
    session = turns.session
    rule = across_queues(session, turns.worth, queue)

    def prey(task: TaskView) -> Rows:
        return among(rule.prey(task), session, offered)

    def is_prey(task: TaskView, other: TaskView) -> bool:
        theirs = other.job
        return theirs is not None and rule.is_prey(task, other) and offered(theirs.row)

    def consent(task: TaskView, candidates: Sequence[TaskView]) -> list[TaskView]:
        return session.hooks.unified_evictable(Taking(task, across=True), candidates)

    return replace(rule, reason=REASON, prey=prey, is_prey=is_prey, consent=consent)
