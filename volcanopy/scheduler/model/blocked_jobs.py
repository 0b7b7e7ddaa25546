"""Jobs that cannot start whatever is free: nothing is reserved for them, and they use up no limit."""

from datetime import datetime, timedelta

import numpy as np

from volcanopy.scheduler.model.job_tables import JobTable
from volcanopy.scheduler.model.resources import Floats, Ints, Mask
from volcanopy.scheduler.model.task_status import HOLDING, VALID, Status

CREATION_TIME = timedelta(minutes=1)
"""How long after the admission of a job, or the creation of its last pod, the pods that it lacks are expected to be created."""


def blocked_jobs(jobs: JobTable, gated: Ints, newest: Floats, now: datetime) -> Mask:
    """(J,): the jobs without pods on nodes whose minimum needs pods that are gated, rejected or gone.

    ``gated`` (J,) are the pending pods with scheduling gates, or that wait for the next attempt to bind them. Pods are
    rejected by the API server. Pods of an admitted job that do not exist :data:`CREATION_TIME` after the admission and after its
    ``newest`` (J,) pending pod was created, in seconds since the epoch, are gone: very many pods take longer to create.
    """
    blocked = np.zeros(len(jobs), dtype=np.bool_)
    rows = jobs.unsettled_rows
    counts = jobs.counts[:, rows]
    rows = rows[jobs.grouped[rows] & ~counts[HOLDING].any(axis=0) & (counts[Status.RELEASING] == 0)]
    created, minimum = jobs.counts[:, rows][VALID].sum(axis=0), jobs.min_available[rows]
    last = np.maximum(jobs.admitted[rows], newest[rows])
    overdue = now.timestamp() - last >= CREATION_TIME.total_seconds()
    missing = jobs.pods_rejected[rows] | (jobs.in_phase("Inqueue")[rows] & overdue)
    missing |= (gated[rows] > 0) & (created >= minimum)
    blocked[rows] = missing & (created - gated[rows] < minimum)
    return blocked
