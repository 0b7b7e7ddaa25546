"""Jobs that are not admitted and could run on what is idle, while admitted jobs wait for more.

Jobs that wait for many nodes can use up the limits of admission. No job would be admitted that could be backfilled.
"""

from collections.abc import Callable, Sequence

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.model.run_times import shortest
from volcanopy.scheduler.model.snapshot import Snapshot


class RunnableJobs:
    """The jobs whose minimum fits into idle resources that are not reserved, beside the minima of admitted jobs that start there.

    Admitted jobs that fit there and did not start when they were tried count together: with a job they request at most a
    multiple of what is idle. So a few cycles after the last event no more jobs are admitted.
    """

    def __init__(self, snapshot: Snapshot, enqueued: Sequence[JobView], unlent: Callable[[float], Ints]) -> None:
        """``enqueued`` are the jobs that the session has admitted: it may grow.

        ``unlent`` returns the (R,) amounts that are reserved and not lent to a job with a run time in seconds, 0 if it is
        not known.
        """
        jobs, nodes = snapshot.jobs, snapshot.nodes
        self._run_times = shortest(jobs.walltime, jobs.estimate)
        self._unlent = unlent
        self._idle: Ints = np.maximum(nodes.allocatable.values - nodes.used.values, 0).sum(axis=1)
        admitted = (jobs.in_phase("Inqueue") & ~snapshot.blocked).nonzero()[0]
        admitted = admitted[(jobs.min_resources.values[:, admitted] <= self._idle[:, None]).all(axis=0)]
        least = jobs.min_resources.values[:, admitted]
        tried = jobs.counts[:, admitted].any(axis=0) & jobs.unschedulable[admitted]
        self._starting: Ints = least[:, ~tried].sum(axis=1)
        self._tried: Ints = least[:, tried].sum(axis=1)
        self._included: dict[tuple[bytes | None, float], bool] = {}  # By minimum and run time: until a job is admitted.
        self._enqueued, self._counted = enqueued, 0

    def includes(self, job: JobView) -> bool:
        """Return whether a job could run."""
        for admitted in self._enqueued[self._counted :]:
            self._admit(admitted)
        self._counted = len(self._enqueued)
        if job.phase != "Pending":
            return False
        key = job.minimum_key, float(self._run_times[job.row])
        included = self._included.get(key)
        if included is None:
            least = job.min_resources
            included = self._included[key] = least is not None and self._fits(least.values, key[1])
        return included

    def _fits(self, least: Ints, run_time: float) -> bool:
        """Return whether a minimum fits, of a job with a run time."""
        starting = self._starting + least
        most = defaults.TRIED_MULTIPLE * self._idle
        if not ((starting <= self._idle) & (self._tried + starting <= most))[least > 0].all():
            return False
        return bool((starting <= self._idle - self._unlent(run_time))[least > 0].all())

    def _admit(self, job: JobView) -> None:
        """Count a job that was admitted."""
        self._included.clear()
        if job.min_resources is not None and (job.min_resources.values <= self._idle).all():
            self._starting = self._starting + job.min_resources.values
