"""Jobs that are not admitted and could run on what is idle, while admitted jobs wait for more.

Jobs that wait for many nodes can use up the limits of admission. No job would be admitted that could be backfilled.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Ints, Resources
from volcanopy.scheduler.model.run_times import shortest
from volcanopy.scheduler.model.snapshot import Snapshot


class RunnableJobs:
    """The jobs whose minimum fits into idle resources beside the minima of admitted jobs that no cycle has failed to place.

    Jobs whose run time is not known could run for ever where larger ones wait. With ``unlent`` they are among these only where
    reservations are lent to them: it returns the (R,) amounts that are not, or None if none is.
    """

    def __init__(
        self, snapshot: Snapshot, enqueued: Sequence[JobView], unlent: Callable[[], Ints | None] | None = None
    ) -> None:
        """``enqueued`` are the jobs that the session has admitted: it may grow."""
        jobs, nodes = snapshot.jobs, snapshot.nodes
        self._run_times = shortest(jobs.walltime, jobs.estimate)
        self._unlent = unlent
        self._idle: Ints = np.maximum(nodes.allocatable.values - nodes.used.values, 0).sum(axis=1)
        admitted = np.flatnonzero(jobs.in_phase("Inqueue") & ~snapshot.blocked)
        least = jobs.min_resources.values[:, admitted]
        untried = ~jobs.counts[:, admitted].any(axis=0) | ~jobs.unschedulable[admitted]
        starting = untried & (least <= self._idle[:, None]).all(axis=0)
        self._starting: Ints = least[:, starting].sum(axis=1)
        self._included: dict[tuple[bytes | None, bool], bool] = {}
        """By minimum, and whether the run time is known: until a job is admitted."""
        self._total: Ints = snapshot.total
        self._waiting: Ints = np.minimum(least, snapshot.total[:, None]).sum(axis=1)
        self._enqueued, self._counted = enqueued, 0

    @cached_property
    def _reserved(self) -> Ints | None:
        return np.zeros_like(self._idle) if self._unlent is None else self._unlent()

    def includes(self, job: JobView) -> bool:
        """Return whether a job could run."""
        for admitted in self._enqueued[self._counted :]:
            self._admit(admitted)
        self._counted = len(self._enqueued)
        key = job.minimum_key, bool(self._run_times[job.row])
        included = self._included.get(key)
        if included is None:
            if job.phase != "Pending":
                return False
            included = self._included[key] = self._fits(job.min_resources, key[1])
        return included and job.phase == "Pending"

    def _fits(self, minimum: Resources | None, known: bool) -> bool:
        """Return whether a minimum fits, of a job with a known run time or not."""
        reserved = 0 if known else self._reserved
        if reserved is None or minimum is None:
            return False
        least = minimum.values
        most = (defaults.MINIMA_OF_RUNNABLE_JOBS if known else defaults.MINIMA_WITHOUT_RUN_TIME) * self._total
        fits = (self._starting + least <= self._idle - reserved) & (self._waiting + least <= most)
        return bool(fits[least > 0].all())

    def _admit(self, job: JobView) -> None:
        """Count a job that was admitted."""
        self._included.clear()
        if job.min_resources is not None:
            least = job.min_resources.values
            self._waiting = self._waiting + least
            if (least <= self._idle).all():
                self._starting = self._starting + least
