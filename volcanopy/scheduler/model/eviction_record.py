"""The record of evictions in the status of a pod group.

By it no pod is reclaimed twice within a cooldown: the condition ``Evicted`` has the time of the last eviction,
``evictedSince`` that of the first one. Evictions that are :data:`COOLDOWN` or more apart have records of their own.

By it no job is the victim again and again while others could be: when victims are compared, pods that started again count with
the time of their evicted runs as well, and with one :data:`COOLDOWN` for each record. ``evictedSeconds`` is the sum. Neither
the time in which a job waits counts, nor further evictions within the cooldown: otherwise the jobs that are evicted for a
dense stream of others would take turns as victims, and none of them would come to its end.
"""

from datetime import datetime, timedelta

import numpy as np
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.model.resources import Floats, Ints, Rows
from volcanopy.scheduler.model.snapshot import Snapshot, TaskTable

EVICTED = "Evicted"
"""The type of the condition: pods of the group were evicted for another job."""
COOLDOWN = timedelta(minutes=30)
"""How long after an eviction the pods of a group that started since are not reclaimed; they count as running longer by it."""
MOST_SECONDS = 10**8
"""The most that is recorded of the time of evicted pods, about three years."""


def with_eviction(
    status: core.PodGroupStatus, reason: str, message: str, seconds: int, now: datetime
) -> core.PodGroupStatus:
    """Return the status of a group of which pods are evicted now, which count with these seconds of running time."""
    at, last = now.replace(microsecond=0), _last(status)
    continues = last is not None and at < last + COOLDOWN
    condition = core.Condition(type=EVICTED, status="True", reason=reason, message=message, last_transition_time=at)
    return replace(
        status,
        conditions=(*(known for known in status.conditions if known.type != EVICTED), condition),
        evicted_since=(status.evicted_since or last) if continues else at,
        evicted_seconds=min(seconds if continues else seconds + int(COOLDOWN.total_seconds()), MOST_SECONDS),
    )


def running_seconds(snapshot: Snapshot, rows: Rows) -> Ints:
    """(M,): the time with which each of these tasks counts as a victim: that of its run and of the evicted runs before it.

    A run begins when the pod starts, or when it was created if the start is not known.
    """
    table = snapshot.tasks
    began = run_began(table, rows)
    seconds = np.maximum(snapshot.now.timestamp() - began, 0.0)
    for job in np.unique(table.job[rows]).tolist():
        status = snapshot.jobs.groups[job].status
        if status.evicted_seconds and (last := _last(status)) is not None:
            again = (table.job[rows] == job) & (began >= (status.evicted_since or last).timestamp())
            seconds[again] += status.evicted_seconds
    return seconds.astype(np.int64)


def run_began(table: TaskTable, rows: Rows) -> Floats:
    """(M,): when the run of each of these tasks began, in seconds."""
    return np.where(table.started[rows] > 0, table.started[rows], table.created[rows])


def protected_since(status: core.PodGroupStatus, now: datetime) -> datetime | None:
    """Return the moment since which pods of a group must have started so as not to be reclaimed; None without a cooldown.

    A pod that was evicted within the cooldown has started again after this moment, however many evictions followed. Pods
    that have run since before the first eviction are not protected.
    """
    last = _last(status)
    if last is None or last <= now - COOLDOWN:
        return None
    return max(status.evicted_since or last, now - COOLDOWN)


def _last(status: core.PodGroupStatus) -> datetime | None:
    """Return the time of the last eviction."""
    known = (condition for condition in status.conditions if condition.type == EVICTED and condition.status == "True")
    return next((condition.last_transition_time for condition in known), None)
