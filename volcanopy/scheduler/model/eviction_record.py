"""The record of evictions in the status of a pod group, by which no pod is reclaimed twice within a cooldown.

The condition ``Evicted`` has the time of the last eviction, ``evictedSince`` that of the first one. Evictions that are
:data:`COOLDOWN` or more apart have records of their own.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from volcanopy.api import core

EVICTED = "Evicted"
"""The type of the condition: pods of the group were evicted for another job."""
COOLDOWN = timedelta(minutes=30)
"""How long after an eviction the pods of a group that started since are not reclaimed."""


def with_eviction(status: core.PodGroupStatus, reason: str, message: str, now: datetime) -> core.PodGroupStatus:
    """Return the status of a group of which pods are evicted now."""
    at, last = now.replace(microsecond=0), _last(status)
    continues = last is not None and at < last + COOLDOWN
    condition = core.Condition(type=EVICTED, status="True", reason=reason, message=message, last_transition_time=at)
    return replace(
        status,
        conditions=(*(known for known in status.conditions if known.type != EVICTED), condition),
        evicted_since=(status.evicted_since or last) if continues else at,
    )


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
