"""slowdown: the job with the largest expected slowdown comes first.

The slowdown of a job is the time from its submission to its end divided by its run time. Expected is that of a start now:
``(waited + run time) / run time``, with the run time that the user declares, else one that was learnt. So short jobs come
early, and the longer a job waits, the longer the jobs that it precedes. Batch systems call this order XFactor.
"""

from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.framework.durations import Duration, duration_or, seconds
from volcanopy.scheduler.framework.plugin import Arguments, Plugin
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.run_times import shortest
from volcanopy.scheduler.model.task_status import Status

BOUND = 10.0
"""Seconds: run times are at least counted as so long, as usual for a bounded slowdown."""
_BACKLOGS = 1.5
"""How many times the backlog a job waits by default before it precedes others."""
_EXCESS = 3.0
"""How many times the run time users are taken to declare: the mean of the workloads of the simulator, 1 to 5 times."""
_WEEK = 604_800.0


class SlowdownArguments(Arguments):
    """The bound of waiting times, and the run time of jobs that have none."""

    longest: Annotated[str, duration_or("auto")] = Field(
        "auto",
        alias="longestWait",
        description="Jobs that have waited longer precede others, the oldest first; 0s for never. auto is one and a half times "
        "the time in which the cluster does the work of all waiting jobs, at most 168h; declared run times count a third there.",
    )
    assumed: Duration = Field(
        "1h", alias="assumedRuntime", description="The run time of jobs without a walltime or an estimate."
    )


class Slowdown(Plugin[SlowdownArguments]):
    """Order the waiting jobs of a queue by their expected bounded slowdown, the largest first.

    Without any estimates this is the order of their ages.
    """

    name: ClassVar[str] = "slowdown"
    arguments: ClassVar[type[Arguments]] = SlowdownArguments

    def open(self) -> None:
        """Read the arguments."""
        self._now = self.cluster.now.timestamp()
        self._assumed = seconds(self.args.assumed)

    @cached_property
    def _longest(self) -> float:
        """Seconds after which a waiting job precedes others; infinite for never."""
        if self.args.longest == "auto":
            return min(_BACKLOGS * self._backlog(), _WEEK)
        return seconds(self.args.longest) or np.inf

    def _backlog(self) -> float:
        """Return the seconds that the cluster needs for the work of all waiting jobs: the longest of its resources."""
        snapshot, rows = self.cluster.snapshot, self.cluster.job_rows()
        jobs, total = snapshot.jobs, snapshot.total
        rows = rows[(jobs.in_phase("Pending") | (jobs.counts[Status.PENDING] > 0))[rows] & ~snapshot.too_large[rows]]
        requested = np.maximum(jobs.min_resources.values[:, rows], jobs.pending.values[:, rows])
        declared = ~jobs.learnt[rows] & (shortest(jobs.walltime[rows], jobs.estimate[rows]) > 0)
        work = requested @ (self._run_times(rows) / np.where(declared, _EXCESS, 1.0))
        return float(np.divide(work, total, out=np.zeros(len(total)), where=total > 0).max(initial=0.0))

    def _run_times(self, jobs: Rows) -> Floats:
        """(M,): the run time of each job in seconds."""
        table = self.cluster.snapshot.jobs
        known = shortest(table.walltime[jobs], table.estimate[jobs])
        return np.maximum(np.where(known > 0, known, self._assumed), BOUND)

    def job_order(self, jobs: Rows) -> Floats:
        """The largest expected slowdown first; before them the jobs that have waited too long, by age."""
        table = self.cluster.snapshot.jobs
        waited = np.where(table.created[jobs] > 0, np.maximum(self._now - table.created[jobs], 0.0), 0.0)
        run_time = self._run_times(jobs)
        keys: Floats = -np.where(waited > self._longest, np.inf, (waited + run_time) / run_time)
        return keys
