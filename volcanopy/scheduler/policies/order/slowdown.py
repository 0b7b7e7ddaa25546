"""slowdown: a job is due when it has waited for some times its run time, and at the latest after a bound; the first due first.

So short jobs come early, and the longer a job waits, the longer the jobs that it precedes. The bound follows from the work that
waits: a job waits for a rush to end, and not for all that come after it.
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.cached_property import cached_property
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
        description="The longest time until a waiting job is due; 0s for no bound. Jobs that run for a thousandth of it precede "
        "others. auto is one and a half times the time in which the cluster does the work of all waiting jobs, at most 168h: "
        "with the run times of earlier runs, or else the declared ones divided by the measured excess.",
    )
    assumed: Duration = Field(
        defaults.ASSUMED_RUN_TIME,
        alias="assumedRuntime",
        description="The run time of jobs without a walltime or an estimate.",
    )


class Slowdown(Plugin[SlowdownArguments], Order):
    """Order the waiting jobs of a queue by the times at which they are due: without any run times by their ages."""

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
        waits = (jobs.in_phase("Pending") | (jobs.counts[Status.PENDING] > 0)) & ~snapshot.too_large
        rows = rows[(waits | (jobs.past_run_time > 0))[rows]]
        parts, declared, past = self._parts(rows), self._declared(rows), jobs.past_run_time[rows]
        both = (declared > 0) & (past > 0)
        size, number = parts[:, both].max(axis=0, initial=0.0), np.count_nonzero(both) + defaults.PRIOR_JOBS
        excess = defaults.DECLARED_EXCESS
        if (work := float(size @ past[both])) > 0:
            excess += (float(size @ declared[both]) / work - excess) * (1 - defaults.PRIOR_JOBS / number)
        real = np.where(past > 0, past, np.where(declared > 0, declared / max(excess, 1.0), self._assumed))
        return float((parts @ np.where(waits[rows], real, 0.0)).max(initial=0.0))

    def _parts(self, jobs: Rows) -> Floats:
        """(R, M): the part of each resource of the cluster that each job requests."""
        table, total = self.cluster.snapshot.jobs, self.cluster.snapshot.total[:, None]
        requested = np.maximum(table.min_resources.values[:, jobs], table.pending.values[:, jobs])
        return np.divide(requested, total, out=np.zeros(requested.shape), where=total > 0)

    def _declared(self, jobs: Rows) -> Floats:
        """(M,): the run time that is declared of each job in seconds, 0 if none is."""
        table = self.cluster.snapshot.jobs
        return shortest(table.walltime[jobs], np.where(table.learnt[jobs], 0.0, table.estimate[jobs]))

    def jobs(self, jobs: Rows) -> Floats:
        """The first due first; what takes little of the longest wait is due as if it had waited as long."""
        table = self.cluster.snapshot.jobs
        created, times = table.created[jobs], expected_or(self._assumed, table.walltime[jobs], table.estimate[jobs])
        since = np.where(created > 0, np.minimum(created, self._now), self._now)
        times = np.maximum(times, defaults.LEAST_RUN_TIME)
        due: Floats = since + np.minimum(defaults.WAIT_OF_RUN_TIMES * times, self._longest)
        if self._longest < np.inf:
            due = np.minimum(due, self._now - self._longest + times / defaults.PRECEDING_PART)
        return due
