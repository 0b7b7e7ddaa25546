"""priority: jobs and tasks of higher priority come first and may preempt those of lower priority."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Order, Purpose, Victims


class Priority(Plugin[NoArguments], Victims, Order):
    """Jobs and tasks of higher priority first."""

    name: ClassVar[str] = "priority"

    def jobs(self, jobs: Rows) -> Ints:
        """Higher priority first."""
        return -self.cluster.snapshot.jobs.priority[jobs]

    def tasks(self, tasks: Rows) -> Ints:
        """Higher priority first."""
        return -self.cluster.snapshot.tasks.priority[tasks]

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Tasks of jobs of lower priority; within the job, tasks of lower priority. Between queues all candidates of gangs."""
        if purpose.is_between_queues:
            return candidates if purpose.is_for_gang else None
        own = preemptor.job
        if own is None:
            return []
        snapshot, rows = self.cluster.snapshot, [candidate.row for candidate in candidates]
        priority, of_job, owners = preemptor.priority, own.priority, snapshot.tasks.job[rows]
        priorities = zip(snapshot.tasks.priority[rows].tolist(), snapshot.jobs.priority[owners].tolist(), strict=True)
        return [
            candidate
            for candidate, job, (within, between) in zip(candidates, owners.tolist(), priorities, strict=True)
            if job != NONE and (within < priority if job == own.row else between < of_job)
        ]
