"""Durations and ages: ``30s`` of an option as seconds, and seconds as kubectl prints them (``45s``, ``3m20s``, ``2d4h``)."""

import re
from datetime import datetime

from volcanopy.cli.errors import CommandError
from volcanopy.kube.client.kinds import Json

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(option: str, text: str) -> float:
    """The seconds of a duration; one without a unit is in seconds. Raises Stop for what is none."""
    if text.isdecimal():
        return float(text)
    parts = list(_PARTS.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise CommandError(f"{option}: {text!r} is no duration, such as 30s, 5m or 1h30m", 2)
    return sum(float(part[1]) * _SECONDS[part[2]] for part in parts)


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
