"""preempt: within a queue, evict tasks of lower priority for jobs of higher priority.

- May ask: jobs that plugins call starving; by default those that lack members of their minimum.
- Candidates: tasks of other jobs of the queue, then tasks of lower priority of the job itself, as far as the plugins allow.
- Order: the lowest priority first, single tasks before whole gangs, then those that lose least work.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from volcanopy.scheduler.actions.evict.gang_eviction import GangArguments
from volcanopy.scheduler.actions.evict.waiting_jobs import evict_for_waiting_jobs
from volcanopy.scheduler.session.session import Session


class Preempt:
    """For jobs that lack tasks, evict tasks of other jobs of their queue, then of the job itself, as the plugins allow.

    All nodes are considered and every eviction is tried on the ledger first, so the arguments about dry runs and about the
    number of candidate nodes have no effect.
    """

    name: ClassVar[str] = "preempt"
    arguments: ClassVar[tuple[str, ...]] = (
        "predicateErrorCacheEnable",
        "enableTopologyAwarePreemption",
        "topologyAwarePreemptWorkerNum",
        "minCandidateNodesPercentage",
        "minCandidateNodesAbsolute",
        "maxCandidateNodesAbsolute",
    )

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Evict for the jobs that lack tasks, queue by queue."""
        evict_for_waiting_jobs(session, self.name, GangArguments.model_validate({}))
