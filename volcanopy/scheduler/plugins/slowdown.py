"""slowdown: the job with the largest expected slowdown comes first.

The slowdown of a job is the time from its submission to its end divided by its run time. Expected is that of a start now:
``(waited + run time) / run time``, with the run time that the user declares, else one that was learnt. So short jobs come
early, and the longer a job waits, the longer the jobs that it precedes. Batch systems call this order XFactor.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.framework.durations import Duration, seconds
from volcanopy.scheduler.framework.plugin import Arguments, Plugin
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.run_times import shortest

BOUND = 10.0
"""Seconds: run times are at least counted as so long, as usual for a bounded slowdown."""


class SlowdownArguments(Arguments):
    """The bound of waiting times, and the run time of jobs that have none."""

    longest: Duration = Field(
        "168h",
        alias="longestWait",
        description="Jobs that have waited longer precede others, the oldest first; 0s for never.",
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
        self._longest, self._assumed = seconds(self.args.longest), seconds(self.args.assumed)

    def job_order(self, jobs: Rows) -> Floats:
        """The largest expected slowdown first; before them the jobs that have waited too long, by age."""
        table = self.cluster.snapshot.jobs
        waited = np.where(table.created[jobs] > 0, np.maximum(self._now - table.created[jobs], 0.0), 0.0)
        run_time = shortest(table.walltime[jobs], table.estimate[jobs])
        run_time = np.maximum(np.where(run_time > 0, run_time, self._assumed), BOUND)
        slowdown = (waited + run_time) / run_time
        if self._longest:
            slowdown = np.where(waited > self._longest, np.inf, slowdown)
        keys: Floats = -slowdown
        return keys
