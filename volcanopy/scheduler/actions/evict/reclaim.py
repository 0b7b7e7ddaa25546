"""reclaim: place tasks of a queue within its fair share on resources of other queues.

- May ask: jobs with pending tasks, also above their minimum, as long as their queue stays within its fair share.
- Candidates: running tasks of other queues that are reclaimable, as far as the plugins allow.
- Order: the queues by their rank as victims, then the lowest priority, single tasks before whole gangs, least lost work.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_eviction import GangArguments
from volcanopy.scheduler.actions.evict.waiting_jobs import evict_for_waiting_jobs
from volcanopy.scheduler.session.session import Session


class Reclaim:
    """For jobs that lack tasks, evict running tasks of other queues, as far as the plugins allow."""

    name: ClassVar[str] = "reclaim"
    arguments: ClassVar[tuple[str, ...]] = ("predicateErrorCacheEnable",)

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Evict for the jobs that lack tasks, queue by queue."""
        evict_for_waiting_jobs(session, self.name, GangArguments.model_validate({}))
