"""Spans of time as people read them: ``45s``, ``3m20s``, ``2d4h``; the precision falls as the span grows."""

from datetime import datetime

from volcanopy.kube.client.kinds import Json

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_STEPS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Up to how many seconds: the unit and its letter, the finer unit (0 for none) and its letter."""


def span(seconds: float) -> str:
    """A length of time, as kubectl writes it."""
    whole = max(0, int(seconds))
    for limit, unit, letter, finer, mark in _STEPS:
        if whole < limit:
            rest = whole % unit // finer if finer else 0
            return f"{whole // unit}{letter}" + (f"{rest}{mark}" if rest else "")
    return f"{whole // _YEAR}y"


def since(time: str | None, now: datetime) -> str:
    """How long ago a time of an object was, such as its ``creationTimestamp``."""
    return span((now - datetime.fromisoformat(time)).total_seconds()) if time else "<unknown>"


def age(body: Json, now: datetime) -> str:
    """How old an object is."""
    return since(body["metadata"].get("creationTimestamp"), now)
