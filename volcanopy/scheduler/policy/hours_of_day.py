"""Hours of the day in a time zone, as arguments of plugins."""

import re
from dataclasses import dataclass
from datetime import UTC, time, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

_HOURS = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")


@dataclass(frozen=True)
class Hours:
    """A window of every day, from ``start`` until ``end``; over midnight if that is no later, the whole day if it is the same."""

    start: time
    end: time

    def contain(self, at: time) -> bool:
        """Whether the window is open at a time of the day."""
        if self.start < self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end


def hours(text: object) -> Hours:
    """Read ``HH:MM-HH:MM``; raises ValueError."""
    form = _HOURS.fullmatch(str(text).strip())
    if form is None:
        raise ValueError("must be hours of the day such as 22:00-06:00")
    numbers = [int(number) for number in form.groups()]
    if max(numbers[0], numbers[2]) > 23 or max(numbers[1], numbers[3]) > 59:
        raise ValueError("must be hours of the day, each from 00:00 to 23:59")
    return Hours(time(numbers[0], numbers[1]), time(numbers[2], numbers[3]))


def time_zone(name: str) -> tzinfo:
    """Return the time zone of this name; raises ValueError."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be a time zone that this system knows, such as Europe/Berlin or UTC") from None


def _check_time_zone(name: str) -> str:
    time_zone(name)
    return name


TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
"""An argument such as Europe/Berlin."""
