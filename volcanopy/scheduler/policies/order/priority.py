"""priority: jobs and tasks of higher priority come first and may preempt those of lower priority."""

from collections.abc import Sequence
from typing import ClassVar

from volcanopy.scheduler.ledger.views import JobView, TaskView, with_jobs
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Purpose, Victims


class Priority(Plugin[NoArguments], Victims):
    """Jobs and tasks of higher priority first."""

    name: ClassVar[str] = "priority"

    def job_order(self, jobs: Rows) -> Ints:
        """Higher priority first."""
        keys: Ints = -self.cluster.snapshot.jobs.priority[jobs]
        return keys

    def task_order(self, tasks: Rows) -> Ints:
        """Higher priority first."""
        keys: Ints = -self.cluster.snapshot.tasks.priority[tasks]
        return keys

    def job_starving(self, job: JobView) -> bool:
        """While any of its tasks is neither placed nor pipelined."""
        return job.ready_count + job.waiting_count < job.count()

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Tasks of jobs of lower priority; within the job, tasks of lower priority. Between queues all candidates of gangs."""
        if purpose.is_between_queues:
            return candidates if purpose.is_for_gang else None
        own = preemptor.job
        if own is None:
            return []
        row, priority, within = own.row, own.priority, preemptor.priority
        return [
            candidate
            for candidate, job in with_jobs(candidates)
            if (candidate.priority < within if job.row == row else job.priority < priority)
        ]
