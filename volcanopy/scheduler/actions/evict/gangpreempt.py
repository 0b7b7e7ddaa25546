"""gangpreempt: within a queue, evict bundles of lower-priority jobs for a gang."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_candidates import AllowsBundles, allowed_jobs, bundle_rule
from volcanopy.scheduler.actions.evict.gang_eviction import ARGUMENTS, GangArguments, GangEviction
from volcanopy.scheduler.actions.evict.preempt import other_jobs_rule
from volcanopy.scheduler.actions.evict.starving_jobs import starving_jobs
from volcanopy.scheduler.actions.evict.victim_search import Rule
from volcanopy.scheduler.actions.nominated_nodes import place_nominated
from volcanopy.scheduler.framework.plugin import Arguments
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.session.session import Session

REASON = "gangpreempt"


class GangPreempt:
    """For gangs that lack members, evict bundles of lower-priority jobs of their queue, in one hypernode."""

    name: ClassVar[str] = "gangpreempt"
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
        for _, jobs in starving.queues:
            for job in jobs:
                rule = _lower_priority_rule(eviction, job, allowed)
                eviction.evict_for(job, starving.tasks[job.row], rule, lambda _: True)


def _lower_priority_rule(eviction: GangEviction, job: JobView, allowed: AllowsBundles) -> Rule:
    """Return the rule whose victims are tasks of allowed jobs of lower priority in the same queue."""
    session = eviction.session
    rule = other_jobs_rule(session, eviction.costs)
    counter_rules = (rule,) if "preempt" in session.config.actions else ()
    victims_of = f'lower-priority jobs of queue "{job.queue.name}"'
    rule = bundle_rule(session, rule, allowed, across_queues=False)
    return replace(rule, reason=REASON, victims_of=victims_of, counter_rules=counter_rules)
