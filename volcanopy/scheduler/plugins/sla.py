"""sla: who has waited long enough is let in."""

import math
from datetime import timedelta
from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from volcanopy.scheduler.framework.plugin import ABSTAIN, PERMIT, Arguments, Plugin, Vote
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Floats, Rows

_KEYS = ("volcanopy.io/sla-waiting-time", "sla-waiting-time")


class SlaArguments(Arguments):
    """How long any job may have to wait; none if not given."""

    waiting: str = Field("", alias="sla-waiting-time")
    """How long any job may wait; without limit if not given. A job may say otherwise in an annotation."""

    @field_validator("waiting")
    @classmethod
    def _is_a_duration(cls, text: str) -> str:
        if text and pod_fields.duration(text) is None:
            raise ValueError("must be a duration above zero such as 1h30m")
        return text


class Sla(Plugin[SlaArguments]):
    """A job that has waited as long as it may is admitted, and what room it found is kept for it until it fits.

    How long that is the job's annotation ``volcanopy.io/sla-waiting-time`` says, else the plugin's argument.
    """

    name: ClassVar[str] = "sla"
    arguments: ClassVar[type[Arguments]] = SlaArguments

    def open(self) -> None:
        """Read how long is long."""
        self._for_all = pod_fields.duration(self.args.waiting)

    def job_order(self, jobs: Rows) -> Floats:
        """Jobs with a longest waiting time before the others, by the moment at which it is over."""
        return np.array([self._deadline(self.cluster.job(row)) for row in jobs.tolist()], dtype=np.float64)

    def _deadline(self, job: JobView) -> float:
        """In seconds; infinite for jobs without a longest waiting time."""
        waiting = self._waiting(job)
        return math.inf if waiting is None else job.created + waiting.total_seconds()

    def job_enqueueable(self, job: JobView) -> Vote:
        """Let in who has waited long enough."""
        return self._vote(job)

    def job_pipelined(self, job: JobView) -> Vote:
        """Keep the room of who has waited long enough."""
        return self._vote(job)

    def _vote(self, job: JobView) -> Vote:
        waiting = self._waiting(job)
        if waiting is None:
            return ABSTAIN
        is_up = self.cluster.now.timestamp() >= job.created + waiting.total_seconds()
        return PERMIT if is_up else ABSTAIN

    def _waiting(self, job: JobView) -> timedelta | None:
        notes = job.group.metadata.annotations
        said = next((notes[key] for key in _KEYS if key in notes), "")
        return pod_fields.duration(said) or self._for_all
