"""slowdown: each waiting job is due when its slowdown has reached a value, and no later than a bound; the first due comes first.

The slowdown of a job is the time from its submission to its end divided by its run time, with the run time that the user
declares, else one that was learnt. So short jobs come early, and the longer a job waits, the longer the jobs that it precedes.
"""

from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.run_times import expected_or, shortest
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.durations import Duration, duration_or, seconds
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Order

_WEEK = 604_800.0


class SlowdownArguments(Arguments):
    """The bound of waiting times, and the run time of jobs that have none."""

    longest: Annotated[str, duration_or("auto")] = Field(
        "auto",
        alias="longestWait",
        description="The longest time until a waiting job is due, half of it for a job as large as the cluster; 0s for no bound. "
        "Jobs that run for a thousandth of it precede others. auto is one and a half times the time in which the cluster does "
        "the work of all waiting jobs, at most 168h; declared run times count a third there, learnt ones half.",
    )
    assumed: Duration = Field(
        defaults.ASSUMED_RUN_TIME,
        alias="assumedRuntime",
        description="The run time of jobs without a walltime or an estimate.",
    )


class Slowdown(Plugin[SlowdownArguments], Order):
    """Order the waiting jobs of a queue by the times at which they are due.

    Without any run times this is the order of their ages: only jobs with a run time are due earlier for their size.
    """

    name: ClassVar[str] = "slowdown"
    arguments: ClassVar[type[Arguments]] = SlowdownArguments

    def open(self) -> None:
        """Read the arguments."""
        self._now = self.cluster.now.timestamp()
        self._assumed = seconds(self.args.assumed)

    @cached_property
    def _longest(self) -> float:
        """The longest time in seconds until a waiting job is due; infinite without a bound."""
        if self.args.longest == "auto":
            return min(defaults.WAIT_OF_BACKLOGS * self._backlog(), _WEEK)
        return seconds(self.args.longest) or np.inf

    def _backlog(self) -> float:
        """Return the seconds that the cluster needs for the work of all waiting jobs: the longest of its resources."""
        snapshot, rows = self.cluster.snapshot, self.cluster.job_rows()
        jobs = snapshot.jobs
        rows = rows[(jobs.in_phase("Pending") | (jobs.counts[Status.PENDING] > 0))[rows] & ~snapshot.too_large[rows]]
        divisor = np.where(
            jobs.learnt[rows], defaults.LEARNT_DIVISOR, np.where(self._known(rows) > 0, defaults.DECLARED_EXCESS, 1.0)
        )
        work = self._parts(rows) @ (self._run_times(rows) / divisor)
        return float(work.max(initial=0.0))

    def _parts(self, jobs: Rows) -> Floats:
        """(R, M): the part of each resource of the cluster that each job requests."""
        table, total = self.cluster.snapshot.jobs, self.cluster.snapshot.total[:, None]
        requested = np.maximum(table.min_resources.values[:, jobs], table.pending.values[:, jobs])
        return np.divide(requested, total, out=np.zeros(requested.shape), where=total > 0)

    def _known(self, jobs: Rows) -> Floats:
        """(M,): the run time of each job in seconds, 0 if it is not known."""
        table = self.cluster.snapshot.jobs
        return shortest(table.walltime[jobs], table.estimate[jobs])

    def _run_times(self, jobs: Rows) -> Floats:
        """(M,): the run time of each job in seconds."""
        table = self.cluster.snapshot.jobs
        times = expected_or(self._assumed, table.walltime[jobs], table.estimate[jobs])
        return np.maximum(times, defaults.LEAST_RUN_TIME)

    def jobs(self, jobs: Rows) -> Floats:
        """The first due first; what takes little of the longest wait is due as if it had waited as long."""
        created, run_time = self.cluster.snapshot.jobs.created[jobs], self._run_times(jobs)
        since = np.where(created > 0, np.minimum(created, self._now), self._now)
        size = np.minimum(self._parts(jobs).max(axis=0, initial=0.0), 1.0) * (self._known(jobs) > 0)
        due: Floats = since + np.minimum(
            defaults.WAIT_OF_RUN_TIMES * run_time, self._longest * (1 - defaults.EARLIER_IF_LARGE * size)
        )
        if self._longest < np.inf:
            due = np.minimum(due, self._now - self._longest + run_time / defaults.PRECEDING_PART)
        return due
