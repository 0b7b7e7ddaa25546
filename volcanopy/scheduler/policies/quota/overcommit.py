"""overcommit: limit the requests of admitted jobs to a multiple of the cluster.

A job that a reservation keeps from starting counts against other such jobs only: jobs that can start now use what is idle
meanwhile. There are few such jobs: the first of each queue, and those that were admitted before it had to wait.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.shares import queue_demand
from volcanopy.scheduler.engine.shares.admission_votes import AdmissionVotes
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.plugin import PERMIT, Arguments, Plugin, Vote, reject


class OvercommitArguments(Arguments):
    """The factor."""

    factor: float = Field(1.2, alias="overcommit-factor", ge=1)
    """The limit on the requests of admitted jobs, as a multiple of the cluster's total."""


class Overcommit(Plugin[OvercommitArguments], roles.Gate):
    """Admit jobs while the requests of admitted jobs stay below the cluster's total times a factor."""

    name: ClassVar[str] = "overcommit"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.ENQUEUE})
    arguments: ClassVar[type[Arguments]] = OvercommitArguments

    def open(self) -> None:
        """No vote is known yet."""
        self._votes = AdmissionVotes(self.cluster, self._vote)

    @cached_property
    def _limit(self) -> Ints:
        """(R,): what may be requested."""
        return (self.cluster.snapshot.total * self.args.factor).astype(np.int64)

    @cached_property
    def _used(self) -> Ints:
        """(R,): allocated to pods when the session began."""
        return self.cluster.snapshot.nodes.used.values.sum(axis=1)

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Whether the job's minimum still fits."""
        key = job.minimum_key
        return PERMIT if key is None else self._votes.of(job, key)

    def _vote(self, job: JobView, behind: bool) -> Vote:
        """Return the vote on a job if it waits for a reservation, or if not."""
        least = job.min_resources
        requested = self._requested if behind else self._startable
        reserved: Ints = requested + self.cluster.ledger.queue_inqueue.sum(axis=1)
        left = (self._limit - self._used - reserved).tolist()
        if least is None or not any(0 < more > rest for more, rest in zip(least.values.tolist(), left, strict=True)):
            return PERMIT
        quota = QuotaMessage.overcommit(self.cluster.axis.names, least.values, self._used, reserved, self._limit)
        return reject(Gate.OVERCOMMIT, quota, yields=not behind)

    @cached_property
    def _requested(self) -> Ints:
        """(R,): what admitted jobs lack of their minimum."""
        return queue_demand.lacking(self.cluster).sum(axis=1)

    @cached_property
    def _startable(self) -> Ints:
        """(R,): as :attr:`_requested`, of the jobs that do not wait for a reservation."""
        behind = self.cluster.queries.behind_reservations()
        return self._requested - queue_demand.lacking(self.cluster, behind).sum(axis=1)
