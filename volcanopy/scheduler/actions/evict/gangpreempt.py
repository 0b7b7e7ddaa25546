"""gangpreempt: within a queue, evict bundles of lower-priority jobs for a gang, in one hypernode.

- May ask: as in preempt.
- Candidates: tasks of jobs of lower priority of the queue whose pod group does not forbid it; whole gangs too.
- Order: as in preempt; of equal cost in the closest hypernode.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_eviction import ARGUMENTS, GangArguments
from volcanopy.scheduler.actions.evict.waiting_jobs import evict_for_waiting_jobs
from volcanopy.scheduler.framework.plugin import Arguments
from volcanopy.scheduler.session.session import Session


class GangPreempt:
    """For gangs that lack members, evict bundles of lower-priority jobs of their queue, in one hypernode."""

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    model: ClassVar[type[Arguments]] = GangArguments

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Evict for the jobs that lack tasks, queue by queue."""
        evict_for_waiting_jobs(session, self.name, GangArguments.model_validate(arguments))
