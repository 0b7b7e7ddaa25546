"""sla: jobs are admitted when their longest waiting time is over."""

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api import names
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.durations import above_zero
from volcanopy.scheduler.policy.plugin import ABSTAIN, PERMIT, Arguments, Plugin, Vote

_KEYS = (names.SLA_WAITING_TIME, "sla-waiting-time")


class SlaArguments(Arguments):
    """The longest waiting time of jobs."""

    waiting: Annotated[str, above_zero("1h30m", "")] = Field("", alias="sla-waiting-time")
    """The longest waiting time; unlimited if not given. An annotation of a job overrides it."""


class Sla(Plugin[SlaArguments], roles.Gate, roles.Order):
    """Admit a job whose longest waiting time is over, and reserve resources for it at once.

    The time is that of the job's annotation ``volcanopy.io/sla-waiting-time``, else that of the plugin's argument.
    """

    name: ClassVar[str] = "sla"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.ENQUEUE, roles.Moment.RESERVE})
    arguments: ClassVar[type[Arguments]] = SlaArguments

    def open(self) -> None:
        """Read the argument."""
        self._for_all = pod_fields.duration(self.args.waiting)

    def jobs(self, jobs: Rows) -> Floats:
        """Jobs by the end of their longest waiting time, those without one last."""
        return np.array([self._deadline(self.cluster.job(row)) for row in jobs.tolist()], dtype=np.float64)

    def _deadline(self, job: JobView) -> float:
        """Return the end of the longest waiting time in seconds, infinite without one."""
        annotations = job.group.metadata.annotations
        text = next((annotations[key] for key in _KEYS if key in annotations), "")
        waiting = pod_fields.duration(text) or self._for_all
        return math.inf if waiting is None else job.created + waiting.total_seconds()

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Permit the job if its longest waiting time is over."""
        return PERMIT if self.cluster.now.timestamp() >= self._deadline(job) else ABSTAIN
