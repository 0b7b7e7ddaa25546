"""Statuses of tasks in a session, and named sets of statuses."""

from enum import IntEnum

import numpy as np

from volcanopy.scheduler.model.resources import Mask, frozen


class Status(IntEnum):
    """The status of a task. ALLOCATED and PIPELINED exist only within a session."""

    __array_ufunc__ = np.ndarray.__array_ufunc__  # the default: numpy looks for it at each comparison with an array
    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9
    ABSENT = 10


COUNT = len(Status)


def _set(*statuses: Status) -> Mask:
    return frozen(np.isin(np.arange(COUNT), statuses))


HOLDING = _set(Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)
"""Has resources of a node: what Volcano calls the allocated statuses."""

PLACED = _set(Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING)
"""Has resources of a node, or waits for those of pods that terminate there."""

READY = _set(Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.SUCCEEDED)
"""Counts towards the minimum of its gang."""

VALID = _set(Status.PENDING, Status.PIPELINED, *(Status(code) for code in np.flatnonzero(READY).tolist()))
"""Is there for its gang, or can still be."""

EVICTABLE = _set(Status.BOUND, Status.RUNNING)
"""May be a victim of preemption."""

SCHEDULED = _set(Status.RUNNING, Status.BOUND, Status.FAILED, Status.SUCCEEDED)
"""Has been given a node, as the API server knows it."""

ON_NODE = _set(Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.RELEASING)
"""Uses resources of its node now."""
