"""Which tasks a measure of their node shows."""

import numpy as np

from volcanopy.scheduler.model.resources import Floats, Mask
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status


def shown(snapshot: Snapshot, at: Floats) -> Mask:
    """(T,): the tasks that show in a measure of their node, made at (N,) times: those that had run there for its interval."""
    tasks, since = snapshot.tasks, at - snapshot.measures.measured.interval.total_seconds()
    ran: Mask = (tasks.status == Status.RUNNING) & (tasks.node != NONE) & (tasks.started > 0)
    return ran & (tasks.started <= np.append(since, -np.inf)[tasks.node])
