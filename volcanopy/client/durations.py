"""Durations and ages: ``30s`` of an option as seconds, seconds as kubectl prints them (``3m20s``, ``2d4h``), and the clock."""

import os
import re
from datetime import UTC, datetime

from volcanopy.client.errors import CommandError

CLOCK = "_VOLCANOPY_NOW"
"""Environment variable with a time in RFC 3339 that replaces the clock, for tests that compare output."""
WEEK = 7 * 86400.0
"""Timeout in seconds for a negative ``--timeout``, as with kubectl."""
_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_UTC_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_LONGEST = 10_000 * 86400.0
"""Seconds of the longest duration of an option."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
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
"""For durations up to so many seconds: the unit and its letter, the finer unit (0 for none) and its letter."""


def current_time() -> datetime:
    """Return the time that ages are computed for: the clock, or the time in ``CLOCK``."""
    fixed = os.environ.get(CLOCK)
    return datetime.fromisoformat(fixed) if fixed else datetime.now(UTC)


def seconds(option: str, text: str) -> float:
    """Return the seconds of a duration, in seconds if it has no unit; raises CommandError for invalid text."""
    if _NUMBER.fullmatch(text):
        result = float(text)
    else:
        parts = list(_PARTS.finditer(text))
        if not parts or "".join(part[0] for part in parts) != text:
            raise CommandError(
                f"{option}: {text!r} is not a duration: use a number with a unit, such as 30s, 5m or 1h30m", 2
            )
        result = sum(float(part[1]) * _SECONDS[part[2]] for part in parts)
    if result > _LONGEST:
        raise CommandError(f"{option}: {text!r} is too long: use at most 10000d", 2)
    return result


def positive_seconds(option: str, text: str, *, minimum: float = 0) -> float:
    """Return the seconds of a duration that is more than 0, and at least ``minimum``. Raises CommandError."""
    result = seconds(option, text)
    if not result or result < minimum:
        least = f"at least {minimum:g}s" if minimum else "more than 0"
        raise CommandError(f"{option}: {text!r} is invalid: use {least}, such as 30s", 2)
    return result


def whole_seconds(option: str, text: str, *, minimum: int = 0) -> int:
    """Return a duration as whole seconds. Raises CommandError."""
    result = seconds(option, text)
    if result != int(result) or result < minimum:
        raise CommandError(f"{option}: {text!r} is invalid: use whole seconds, at least {minimum}", 2)
    return int(result)


def timeout_seconds(text: str) -> float:
    """Return the seconds of ``--timeout``; a negative duration means a week. Raises CommandError."""
    return WEEK if text.startswith("-") else seconds("--timeout", text)


def local_time(time: datetime) -> str:
    """Return a time for people: in the time zone of the machine, with its name."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return f"{aware.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def local_times(sentence: str) -> str:
    """Return a sentence of the API for people: its times in UTC as local times."""
    return _UTC_TIME.sub(lambda match: local_time(datetime.fromisoformat(match[0])), sentence)


def span(length: float) -> str:
    """Return a number of seconds as kubectl prints it."""
    whole = max(0, int(length))
    for limit, unit, letter, finer, finer_letter in _STEPS:
        if whole < limit:
            rest = whole % unit // finer if finer else 0
            return f"{whole // unit}{letter}" + (f"{rest}{finer_letter}" if rest else "")
    return f"{whole // _YEAR}y"


def since(time: datetime | str | None, now: datetime) -> str:
    """Return the duration since a time of an object, such as its ``creationTimestamp``."""
    if not time:
        return "<unknown>"
    return span((now - (datetime.fromisoformat(time) if isinstance(time, str) else time)).total_seconds())
