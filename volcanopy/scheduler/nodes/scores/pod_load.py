"""How much load pods are taken to bring that have not been measured yet."""

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.model.snapshot import ShapeTable

DIMS = ("cpu", "memory")  # What load is measured of.


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
