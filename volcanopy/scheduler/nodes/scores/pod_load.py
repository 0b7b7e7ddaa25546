"""Which pods a measure of their node shows, and how much load others are taken to bring."""

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.model.resources import Floats, Mask
from volcanopy.scheduler.model.snapshot import NONE, ShapeTable, Snapshot
from volcanopy.scheduler.model.task_status import Status

DIMS = ("cpu", "memory")  # What load is measured of.


def shown(snapshot: Snapshot, at: Floats) -> Mask:
    """(T,): the tasks that show in a measure of their node, made at (N,) times: those that had run there for its interval."""
    tasks, since = snapshot.tasks, at - snapshot.measures.measured.interval.total_seconds()
    ran: Mask = (tasks.status == Status.RUNNING) & (tasks.node != NONE) & (tasks.started > 0)
    return ran & (tasks.started <= np.append(since, -np.inf)[tasks.node])


def estimates(
    shapes: ShapeTable,
    limits: Floats,
    request_ratio: float,
    burst_ratio: float,
    best_effort: tuple[int, int],
    factor: float = 1.0,
) -> Floats:
    """(2, S): cpu in milli-cores and memory in bytes that a task of each shape will use, in whole units, so that sums are exact.

    A part of the request and a part of what the limit allows beyond it, times the factor, and no more than the limit;
    ``best_effort`` for tasks that request nothing.
    """
    request = np.stack([shapes.request[name] for name in DIMS]).astype(np.float64)
    limit = np.maximum(limits, request)
    used = np.floor(np.minimum((request * request_ratio + (limit - request) * burst_ratio) * factor, limit))
    for place, units in enumerate(best_effort):
        used[place, shapes.best_effort] = np.floor(units * factor)
    return used


def limits_by_shape(shapes: ShapeTable) -> Floats:
    """(2, S): the limits of cpu and memory of each shape, 0 where there is none."""
    limits = np.zeros((len(DIMS), len(shapes.specs)), dtype=np.float64)
    for number, spec in enumerate(shapes.specs):
        for container in spec.containers:
            own = quantity.amounts(container.resources.limits)
            limits[:, number] += [own.get(name, 0) for name in DIMS]
    return limits
