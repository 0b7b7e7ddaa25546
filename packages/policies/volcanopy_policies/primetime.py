"""primetime: an order of jobs in prime time, the busy hours of working days, and another one outside.

Batch systems such as PBS Professional have such orders: small jobs in the hours in which people wait for results, large ones at
night and at weekends.
"""

from datetime import timedelta
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.run_times import expected_or
from volcanopy.scheduler.policy.durations import Duration, seconds
from volcanopy.scheduler.policy.hours_of_day import TimeZone, hours, time_zone
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Order

JobOrder = Literal["smallest", "largest", "shortest", "longest", "none"]
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class PrimetimeArguments(Arguments):
    """When prime time is, and the orders of jobs in it and outside."""

    hours: str = "08:00-18:00"
    """Hours of the day, over midnight if the end is not later than the start."""
    days: tuple[Day, ...] = DAYS[:5]
    """The days on which prime time starts."""
    time_zone: TimeZone = Field("UTC", alias="timeZone")
    """Where the hours are meant."""
    prime: JobOrder = Field("smallest", alias="primeOrder")
    """The order in prime time: `smallest` or `largest` by size, `shortest` or `longest` by run time, or `none`."""
    non_prime: JobOrder = Field("largest", alias="nonPrimeOrder")
    """The order outside prime time."""
    longest: Duration = Field(
        "168h",
        alias="longestWait",
        description="Jobs that have waited longer precede others, the oldest first; 0s for never.",
    )
    assumed: Duration = Field(
        defaults.ASSUMED_RUN_TIME,
        alias="assumedRuntime",
        description="The run time of jobs without a walltime or an estimate.",
    )

    @field_validator("hours")
    @classmethod
    def _are_hours(cls, text: str) -> str:
        hours(text)
        return text


class Primetime(Plugin[PrimetimeArguments], Order):
    """Order the waiting jobs of a queue by size or run time, in prime time and outside each in its own order.

    The size of a job is its dominant share: the largest share of a resource of the cluster that its pods request, at least its
    minimal resources. Jobs of equal size, or run time, are ordered by the next plugins, then by age.
    """

    name: ClassVar[str] = "primetime"
    arguments: ClassVar[type[Arguments]] = PrimetimeArguments

    def open(self) -> None:
        """Select the order of this session."""
        self._now = self.cluster.now.timestamp()
        self._longest, self._assumed = seconds(self.args.longest), seconds(self.args.assumed)
        self._order = self.args.prime if self._is_prime_time() else self.args.non_prime
        self._total = np.maximum(self.cluster.total.values, 1)

    def _is_prime_time(self) -> bool:
        window, at = hours(self.args.hours), self.cluster.now.astimezone(time_zone(self.args.time_zone))
        if not window.contain(at.time()):
            return False
        began = at if at.time() >= window.start else at - timedelta(days=1)
        return DAYS[began.weekday()] in self.args.days

    def jobs(self, jobs: Rows) -> Floats:
        """The smallest key first; before all the jobs that have waited too long, by age."""
        keys = self._keys(jobs)
        if self._longest:
            created = self.cluster.snapshot.jobs.created[jobs]
            keys = np.where((created > 0) & (self._now - created > self._longest), -np.inf, keys)
        return keys

    def _keys(self, jobs: Rows) -> Floats:
        """(J,): the size in shares of the cluster or the run time in seconds, negative if the largest is first."""
        table = self.cluster.snapshot.jobs
        if self._order == "none":
            return np.zeros(len(jobs))
        if self._order in {"smallest", "largest"}:
            requested = table.allocated.values[:, jobs] + table.pending.values[:, jobs]
            keys: Floats = (np.maximum(requested, table.min_resources.values[:, jobs]).T / self._total).max(axis=1)
        else:
            keys = expected_or(self._assumed, table.walltime[jobs], table.estimate[jobs])
        return -keys if self._order in {"largest", "longest"} else keys
