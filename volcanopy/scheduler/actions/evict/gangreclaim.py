"""gangreclaim: a queue takes back from other queues what is its own, in whole bundles and for whole gangs."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_candidates import Offered, in_bundles, offering
from volcanopy.scheduler.actions.evict.gang_eviction import ARGUMENTS, GangArguments, Turns
from volcanopy.scheduler.actions.evict.reclaim import across_queues
from volcanopy.scheduler.actions.evict.starving_jobs import starving
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.framework.plugin import Arguments
from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.session.session import Session

REASON = "gangreclaim"


class GangReclaim:
    """For gangs that lack members, evict bundles of running tasks of other queues, in one domain of the network."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    model: ClassVar[type[Arguments]] = GangArguments

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Take back what can be taken back."""
        place_nominated(session)
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


def _elsewhere(turns: Turns, queue: QueueView, offered: Offered) -> Rule:
    """Victims are running tasks of other queues that let their room be taken back, of jobs that may be taken as gangs."""
    session = turns.session
    rule = across_queues(session, turns.worth, queue)
    returns = (rule,) if "reclaim" in session.config.actions else ()
    return replace(in_bundles(session, rule, offered, across=True), reason=REASON, returns=returns)
