"""overcommit: admit somewhat more than the cluster has, not everything."""

from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from volcanopy.api.gates import Gate
from volcanopy.scheduler.framework.plugin import PERMIT, Arguments, Plugin, Vote, reject
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.quota_message import QuotaMessage
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.model.task_status import HOLDING


class OvercommitArguments(Arguments):
    """By how much."""

    factor: float = Field(1.2, alias="overcommit-factor")
    """How many times the cluster's total jobs may ask for before no more are admitted."""

    @field_validator("factor")
    @classmethod
    def _at_least_one(cls, factor: float) -> float:
        if factor < 1:
            raise ValueError("must be at least 1")
        return factor


class Overcommit(Plugin[OvercommitArguments]):
    """Admit jobs while what they ask for stays below the cluster's total times a factor."""

    name: ClassVar[str] = "overcommit"
    arguments: ClassVar[type[Arguments]] = OvercommitArguments

    def open(self) -> None:
        """Reckon what may be asked for, and what is asked for already."""
        snapshot = self.cluster.snapshot
        self._limit: Ints = (snapshot.total * self.args.factor).astype(np.int64)
        self._used: Ints = snapshot.nodes.used.values.sum(axis=1)
        self._asked: Ints = self._asked_by_admitted().sum(axis=1)

    def job_enqueueable(self, job: JobView) -> Vote:
        """Whether the job's minimum still fits."""
        least = job.min_resources
        if least is None:
            return PERMIT
        reserved = self._asked + self.cluster.ledger.queue_inqueue.sum(axis=1)
        if not ((least.values > 0) & (reserved + least.values > self._limit - self._used)).any():
            return PERMIT
        quota = QuotaMessage.overcommit(self.cluster.axis.names, least.values, self._used, reserved, self._limit)
        return reject(Gate.OVERCOMMIT, quota, yields=True)

    def _asked_by_admitted(self) -> Ints:
        """(R, J): what admitted jobs may still ask for: the minimum of those in line, the rest of it of those that run.

        What scheduling gates hold back is not asked for.
        """
        jobs = self.cluster.snapshot.jobs
        least = jobs.min_resources.values
        inqueue = jobs.phase == "Inqueue"
        started = (jobs.phase == "Running") & (jobs.counts[HOLDING].sum(axis=0) >= jobs.min_available)
        rest = np.maximum(least - jobs.allocated.values, 0)
        asked = np.where(inqueue[None, :], least, np.where(started[None, :], rest, 0))
        ungated: Ints = np.maximum(asked - self.cluster.snapshot.gated, 0)
        return ungated
