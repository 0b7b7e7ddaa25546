"""gangpreempt: within a queue, whole bundles of less important jobs make room for a gang."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_candidates import Offered, in_bundles, offering
from volcanopy.scheduler.actions.evict.gang_eviction import ARGUMENTS, GangArguments, Turns
from volcanopy.scheduler.actions.evict.preempt import between_jobs
from volcanopy.scheduler.actions.evict.starving_jobs import starving
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.framework.plugin import Arguments
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.session.session import Session

REASON = "gangpreempt"


class GangPreempt:
    """For gangs that lack members, evict bundles of jobs of lower priority of their queue, in one domain of the network."""

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    model: ClassVar[type[Arguments]] = GangArguments

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Make room where it can be made."""
        place_nominated(session)
        found = starving(session)
        if not found.queues:
            return
        turns = Turns(session, GangArguments.model_validate(arguments))
        offered = offering(session)
        for _, jobs in found.queues:
            for job in jobs:
                turns.take(job, found.tasks[job.row], _below(turns, job, offered), lambda _: True)


def _below(turns: Turns, job: JobView, offered: Offered) -> Rule:
    """Victims are tasks of less important jobs of the same queue that may be taken as gangs."""
    session = turns.session
    rule = between_jobs(session, turns.worth)
    returns = (rule,) if "preempt" in session.config.actions else ()
    whom = f"less important jobs of queue {job.queue.name}"
    return replace(in_bundles(session, rule, offered, across=False), reason=REASON, among=whom, returns=returns)
