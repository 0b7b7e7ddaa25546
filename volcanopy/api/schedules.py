"""Schedules of cron jobs: five fields, a name such as ``@daily``, or ``@every 90m``, in a time zone.

Times are those of a clock on the wall: a run that falls into the hour that a change of the clock skips is made right
after it, and one that falls into an hour that comes twice is made once.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from volcanopy.api.model import parse_duration

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_SHORTEST = timedelta(seconds=1)
_CLOCK_CHANGE = timedelta(hours=3)
"""More than what any clock is put forward or back by."""


class ScheduleError(ValueError):
    """A schedule or a time zone that nobody can read; the text says which and why."""


class Schedule:
    """When something is due. Raises ScheduleError for what cannot be read."""

    def __init__(self, text: str, time_zone: str | None = None) -> None:
        self._zone = _zone(time_zone)
        self._every: timedelta | None = None
        self._fields = ""
        given = text.strip()
        if given.startswith(_EVERY):
            self._every = _interval(given)
            return
        self._fields = _NAMED.get(given, given).replace("?", "*")
        if given.startswith("@") and given not in _NAMED:
            known = ", ".join(sorted(_NAMED))
            raise ScheduleError(f"schedule {text!r}: there is no {given}; known are {known} and @every <duration>")
        if len(self._fields.split()) != 5:
            raise ScheduleError(
                f"schedule {text!r}: five fields are needed: minute, hour, day of month, month, day of week"
            )
        try:
            next(CronSim(self._fields, datetime(2024, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            wrong = str(error).removeprefix("Bad ")
            raise ScheduleError(f"schedule {text!r}: its {wrong} cannot be read") from None
        except StopIteration:
            raise ScheduleError(f"schedule {text!r}: no such day comes in fifty years") from None

    def after(self, moment: datetime, origin: datetime) -> datetime:
        """The first time after ``moment``. ``origin`` is when the schedule began, which ``@every`` counts from."""
        if self._every is not None:
            passed = (moment - origin) // self._every
            return origin + (max(passed, 0) + 1) * self._every if moment >= origin else origin + self._every
        found: datetime = next(CronSim(self._fields, moment.astimezone(self._zone)))
        return found.astimezone(UTC)

    def latest(self, since: datetime, until: datetime, origin: datetime) -> datetime | None:
        """The last time after ``since`` and not after ``until``; None if there is none."""
        if self._every is not None:
            passed = (until - origin) // self._every
            found = origin + passed * self._every
            return found if passed >= 1 and found > since else None
        # Backwards, the hours around a change of the clock are not told apart: each step back is gone forward again.
        bound = until.replace(microsecond=0) + _SHORTEST
        while bound > since:
            back: datetime = next(CronSim(self._fields, bound.astimezone(self._zone), reverse=True))
            bound = back.astimezone(UTC) - _CLOCK_CHANGE
            latest, moment = None, self.after(bound, origin)
            while moment <= until:
                latest, moment = moment, self.after(moment, origin)
            if latest is not None:
                return latest if latest > since else None
        return None

    def count(self, since: datetime, until: datetime, origin: datetime, limit: int) -> int:
        """How many times lie after ``since`` and not after ``until``; no more than ``limit`` are counted."""
        number, moment = 0, since
        while number < limit:
            moment = self.after(moment, origin)
            if moment > until:
                break
            number += 1
        return number

    def said(self, moment: datetime) -> str:
        """A time of the schedule as its time zone writes it (RFC 3339)."""
        return moment.astimezone(self._zone).isoformat(timespec="seconds").replace("+00:00", "Z")


def _interval(given: str) -> timedelta:
    try:
        every = parse_duration(given.removeprefix(_EVERY).strip())
    except ValueError as error:
        raise ScheduleError(f"schedule {given!r}: {error}") from None
    if not isinstance(every, timedelta) or every < _SHORTEST:
        raise ScheduleError(f"schedule {given!r}: the least is @every 1s")
    return every


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    if name == "Local":
        raise ScheduleError("time zone 'Local' is a different one on every machine: name one, such as Europe/Berlin")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(f"there is no time zone {name!r}: give one such as Europe/Berlin, or UTC") from None
