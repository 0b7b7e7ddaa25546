"""gang: the members of a job's minimum are placed together or not at all."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, READY, Status
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Order, Purpose, Victims


class Gang(Plugin[NoArguments], Victims, Order):
    """The order of jobs by their minimum, and its protection; the engine starts jobs with their minimum (engine.gangs)."""

    name: ClassVar[str] = "gang"

    def jobs(self, jobs: Rows) -> Mask:
        """Jobs that cannot start yet before those that are ready."""
        ledger = self.cluster.ledger
        counts = ledger.job_counts[:, jobs]
        runs = counts[HOLDING].any(axis=0) | (counts[Status.SUCCEEDED] == 0)
        return runs & (counts[READY].sum(axis=0) >= self.cluster.snapshot.jobs.min_available[jobs])

    def allows(self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose) -> Sequence[TaskView]:
        """Members above the minimum of their job; for a gang all candidates, since gangs are evicted whole, as bundles."""
        if purpose.is_for_gang:
            return candidates
        snapshot, victims = self.cluster.snapshot, []
        owners = snapshot.tasks.job[[candidate.row for candidate in candidates]].tolist()
        surplus = snapshot.jobs.surplus(self.cluster.ledger.job_counts, set(owners))
        for candidate, job in zip(candidates, owners, strict=True):
            if job != NONE and surplus[job] > 0:
                surplus[job] -= 1
                victims.append(candidate)
        return victims
