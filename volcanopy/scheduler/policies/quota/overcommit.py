"""overcommit: limit the requests of admitted jobs to a multiple of the cluster.

A job that a reservation keeps from starting counts against other such jobs only: jobs that can start now use what is idle
meanwhile. There are few such jobs: the first of each queue, and those that were admitted before it had to wait.
"""

from functools import cached_property
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.shares.admission_votes import AdmissionVotes
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.task_status import HOLDING
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
        """(R,): the requests of admitted jobs."""
        return self._requested_by_admitted[1].sum(axis=1)

    @cached_property
    def _startable(self) -> Ints:
        """(R,): the requests of the admitted jobs that do not wait for a reservation."""
        rows, requested = self._requested_by_admitted
        return requested[:, ~self.cluster.queries.behind_reservations()[rows]].sum(axis=1)

    @cached_property
    def _requested_by_admitted(self) -> tuple[Rows, Ints]:
        """(M,) rows, (R, M): the minimum of admitted jobs, the rest of it of started ones, without the requests of gated pods.

        Admitted jobs whose minimum fits on no set of nodes reserve nothing.
        """
        jobs = self.cluster.snapshot.jobs
        rows = jobs.starting_rows
        phase = jobs.phase[rows]
        rows = rows[(phase == "Inqueue") | ((phase == "Running") & jobs.lacking[rows])]
        least = jobs.min_resources.values[:, rows]
        if not len(rows):
            return rows, least
        runs = jobs.phase[rows] == "Running"
        inqueue = ~runs & ~self.cluster.queries.unplaceable()[rows]
        started = runs & (jobs.counts[:, rows][HOLDING].sum(axis=0) >= jobs.min_available[rows])
        rest = np.maximum(least - jobs.allocated.values[:, rows], 0)
        requested = np.where(inqueue[None, :], least, np.where(started[None, :], rest, 0))
        ungated: Ints = np.maximum(requested - self.cluster.snapshot.gated[:, rows], 0)
        return rows, ungated
