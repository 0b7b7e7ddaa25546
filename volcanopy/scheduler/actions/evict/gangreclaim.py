"""gangreclaim: place gangs of a queue within its deserved share, evicting bundles of other queues."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_candidates import AllowsBundles, allowed_jobs, bundle_rule
from volcanopy.scheduler.actions.evict.gang_eviction import ARGUMENTS, GangArguments, GangEviction
from volcanopy.scheduler.actions.evict.reclaim import other_queues_rule
from volcanopy.scheduler.actions.evict.starving_jobs import starving_jobs
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.framework.plugin import Arguments
from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.session.session import Session

REASON = "gangreclaim"


class GangReclaim:
    """For gangs that lack members, evict bundles of running tasks of other queues, in one hypernode."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    model: ClassVar[type[Arguments]] = GangArguments

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Evict for the starving jobs, queue by queue."""
        place_nominated(session)
        starving = starving_jobs(session)
        if not starving.queues:
            return
        eviction = GangEviction(session, GangArguments.model_validate(arguments))
        allowed = allowed_jobs(session)
        for queue, jobs in starving.queues:
            rule, is_eligible = _other_queues_rule(eviction, queue, allowed), partial(session.hooks.preemptive, queue)
            for job in jobs:
                if session.hooks.overused(queue) is None:
                    eviction.evict_for(job, starving.tasks[job.row], rule, is_eligible)
                else:
                    reason = f'queue "{queue.name}" is not under its deserved share'
                    session.rejections.note(job.row, f"{REASON}: not eligible to reclaim: {reason}")


def _other_queues_rule(eviction: GangEviction, queue: QueueView, allowed: AllowsBundles) -> Rule:
    """Return the rule whose victims are running tasks of allowed jobs in other queues that are reclaimable."""
    session = eviction.session
    rule = other_queues_rule(session, eviction.costs, queue)
    counter_rules = (rule,) if "reclaim" in session.config.actions else ()
    rule = bundle_rule(session, rule, allowed, across_queues=True)
    return replace(rule, reason=REASON, counter_rules=counter_rules)
