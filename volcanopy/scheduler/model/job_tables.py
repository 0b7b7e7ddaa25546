"""The tables of jobs and roles in a snapshot."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.queue_limits import Submitter
from volcanopy.scheduler.model.resources import Columns, Index, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import HOLDING, READY, VALID, Status

Objects = NDArray[np.object_]
_READY = np.flatnonzero(READY)[:, None]
CREATION_TIME = timedelta(minutes=1)
"""How long after the admission of a job, or the creation of its last pod, the pods that it lacks are expected to be created."""


@dataclass(frozen=True, eq=False)
class RoleTable:
    """K roles: the task templates of jobs, with the minimum of each."""

    names: Objects
    job: Index
    minimum: Ints
    counts: Ints
    """(statuses, K): tasks by status."""
    best_effort: Ints
    """(K,): the pending tasks that request nothing and have no scheduling gate."""


@dataclass(frozen=True, eq=False)
class JobTable:
    """J rows of jobs: pod groups and their tasks."""

    keys: Objects
    groups: Objects
    """(J,): the PodGroup, None for pods that name a group which does not exist."""
    queue: Index
    priority: Ints
    min_available: Ints
    created: NDArray[np.float64]
    admitted: NDArray[np.float64]
    """(J,): when the job was admitted last, in seconds; when it was created if that is not known."""
    phase: Objects
    counts: Ints
    """(statuses, J): tasks by status."""
    best_effort: Ints
    """(J,): the pending tasks that request nothing and have no scheduling gate."""
    allocated: Columns
    """The requests of tasks with a node."""
    pending: Columns
    """What the pending tasks request."""
    min_resources: Columns
    has_min_resources: Mask
    preemptable: Mask
    roles: Objects
    """(J,): the rows of each job's roles, a tuple each."""
    reported: Ints
    """(3, J): the running, succeeded and failed pods in the pod group's status."""
    unschedulable: Mask
    """(J,): whether the pod group has the condition Unschedulable."""
    pods_rejected: Mask
    """(J,): whether the API server rejects pods of the job, by the annotation of the pod group."""
    structured: Mask
    """(J,): whether the pod group has a network topology, or divides into sub-groups."""
    walltime: NDArray[np.float64]
    """(J,): the longest that the job runs, in seconds; 0 if not limited."""
    estimate: NDArray[np.float64]
    """(J,): how long the job is expected to run, in seconds; 0 if not known."""
    learnt: Mask
    """(J,): whether the estimate was learnt from other jobs."""
    past_run_time: NDArray[np.float64]
    """(J,): what was learnt from other jobs in seconds, whatever the user declares; 0 if nothing was."""
    submitter: Index
    """(J,): the number of the job's submitter."""
    grouped: Mask
    """(J,): whether the pod group exists."""
    has_minima: Mask
    """(J,): whether the pod group requires a number of tasks of a role."""
    unsettled: Mask
    """(J,): False for jobs that run, or have ended, with all their pods, as the status of their pod group states, and no job.

    In a session nothing has to be decided or reported of those, unless it changes their tasks.
    """
    lacking: Mask
    """(J,): False for jobs with all of their minimal resources allocated."""
    submitters: tuple[Submitter, ...]
    queue_allocated: Ints
    """(R, Q): allocated to the jobs of each queue."""
    queue_elastic: Ints
    """(R, Q): what the jobs with a pod group have above their minimal resources; all of it without any."""
    queue_jobs: Ints
    """(Q,): the number of jobs with a pod group in each queue."""

    def __len__(self) -> int:
        return len(self.keys)

    def blocked(self, gated: Ints, newest: NDArray[np.float64], now: datetime) -> Mask:
        """(J,): the jobs without pods on nodes whose minimum needs pods that are gated, rejected or gone.

        They cannot start whatever is free: nothing is reserved for them, and they use up no limit. ``gated`` (J,) are the
        pending pods with scheduling gates, or that wait for the next attempt to bind them. Pods are rejected by the API
        server. Pods of an admitted job that do not exist :data:`CREATION_TIME` after the admission and after its ``newest``
        (J,) pending pod was created, in seconds since the epoch, are gone: very many pods take longer to create.
        """
        blocked = np.zeros(len(self), dtype=np.bool_)
        rows = self.unsettled_rows
        counts = self.counts[:, rows]
        rows = rows[self.grouped[rows] & ~counts[HOLDING].any(axis=0) & (counts[Status.RELEASING] == 0)]
        created, minimum = self.counts[:, rows][VALID].sum(axis=0), self.min_available[rows]
        last = np.maximum(self.admitted[rows], newest[rows])
        overdue = now.timestamp() - last >= CREATION_TIME.total_seconds()
        missing = self.pods_rejected[rows] | (self.in_phase("Inqueue")[rows] & overdue)
        missing |= (gated[rows] > 0) & (created >= minimum)
        blocked[rows] = missing & (created - gated[rows] < minimum)
        return blocked

    @once
    def in_phase(self, phase: str) -> Mask:
        """(J,): the jobs in a phase; texts are compared once in a session."""
        mask = np.zeros(len(self), dtype=np.bool_)
        rows = self.unsettled_rows if phase not in {"Running", "Completed"} else slice(None)
        mask[rows] = self.phase[rows] == phase  # comparing texts takes long
        return mask

    def surplus(self, counts: Ints, jobs: Iterable[int]) -> dict[int, int]:
        """Return how many tasks each of these distinct jobs has above its minimum, by (statuses, J) counts."""
        rows = list(jobs)
        surplus = counts[_READY, rows].sum(axis=0) - self.min_available[rows]
        return dict(zip(rows, surplus.tolist(), strict=True))

    @cached_property
    def starting_rows(self) -> Rows:
        """The rows of the jobs that are unsettled or lack some of their minimal resources."""
        return (self.unsettled | self.lacking).nonzero()[0]

    @cached_property
    def unsettled_rows(self) -> Rows:
        """The rows of the unsettled jobs."""
        return self.unsettled.nonzero()[0]
