"""gangreclaim: place gangs of a queue within its fair share, evicting bundles of other queues, in one hypernode.

- May ask: as in reclaim.
- Candidates: as in reclaim, of jobs whose pod group does not forbid it; whole gangs too.
- Order: as in reclaim; of equal cost in the closest hypernode.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_eviction import ARGUMENTS, GangArguments
from volcanopy.scheduler.actions.evict.waiting_jobs import evict_for_waiting_jobs
from volcanopy.scheduler.framework.plugin import Arguments
from volcanopy.scheduler.session.session import Session


class GangReclaim:
    """For gangs that lack members, evict bundles of running tasks of other queues, in one hypernode."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    model: ClassVar[type[Arguments]] = GangArguments

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Evict for the jobs that lack tasks, queue by queue."""
        evict_for_waiting_jobs(session, self.name, GangArguments.model_validate(arguments))
