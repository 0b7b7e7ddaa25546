"""Cron schedules: their times, also across clock changes, and the errors of invalid ones."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from volcanopy.api.cron import Schedule, ScheduleError

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(schedule: Schedule, since: datetime, number: int) -> list[str]:
    """The next times, as the schedule's time zone writes them."""
    result = []
    for _ in range(number):
        since = schedule.after(since, ORIGIN)
        result.append(schedule.text(since))
    return result


def test_a_time_in_a_skipped_hour_runs_right_after_it() -> None:
    result = times(Schedule("30 2 * * *", "Europe/Berlin"), at("2026-03-28T12:00"), 2)
    assert result == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]


def test_a_time_in_a_repeated_hour_runs_once() -> None:
    result = times(Schedule("30 2 * * *", "Europe/Berlin"), at("2026-10-24T12:00"), 2)
    assert result == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


def test_a_half_hourly_schedule_runs_in_both_repeated_hours() -> None:
    result = times(Schedule("*/30 * * * *", "Europe/Berlin"), at("2026-10-25T00:10"), 3)
    assert result == ["2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00"]


@pytest.mark.parametrize("text", ["*/30 * * * *", "30 2 * * *", "0 */2 * * *", "@every 50m", "15 1-4 * * 0"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", None])
@pytest.mark.parametrize("start", ["2026-03-28T20:00", "2026-10-24T20:00", "2026-04-04T10:00"])
def test_the_latest_time_is_the_last_of_the_missed_times(text: str, zone: str | None, start: str) -> None:
    schedule, since = Schedule(text, zone), at(start)
    coming, moment = [], since
    while moment < since + timedelta(hours=12):
        moment = schedule.after(moment, ORIGIN)
        coming.append(moment)
    for minutes in range(1, 720, 41):
        until = since + timedelta(minutes=minutes)
        expected = [time for time in coming if time <= until]
        assert schedule.latest(since, until, ORIGIN) == (expected[-1] if expected else None)
        assert schedule.count(since, until, ORIGIN, 1000) == len(expected)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 */10 * 1", [5, 11, 12, 19]),
        ("0 0 5/10 * 1", [5, 12, 15, 19]),
        ("0 0 */1 * 1", [5, 12, 19, 26]),
        ("0 0 1 * */2", [3, 4, 6, 8]),
        ("0 0 * * 1/2", [2, 5, 7, 9]),
        ("0 0 * * 2,MON/2", [2, 5, 6, 7]),
    ],
)
def test_steps_of_days_are_those_of_kubernetes(text: str, days: list[int]) -> None:
    """A month that begins with a Thursday."""
    assert times(Schedule(text), at("2026-01-01T12:00"), 4) == [f"2026-01-{day:02}T00:00:00Z" for day in days]


def test_an_interval_counts_from_the_beginning() -> None:
    schedule = Schedule("@every 90m")
    assert schedule.after(ORIGIN + timedelta(minutes=100), ORIGIN) == ORIGIN + timedelta(minutes=180)
    assert schedule.latest(ORIGIN, ORIGIN + timedelta(minutes=89), ORIGIN) is None


@pytest.mark.parametrize(
    ("text", "zone", "message"),
    [
        ("x", None, 'Invalid value: "x": must have five fields: minute, hour, day of month, month, day of week'),
        ("61 * * * *", None, 'Invalid value: "61 * * * *": invalid minute'),
        ("@often", None, 'Invalid value: "@often": must be one of @annually'),
        ("@every 1ms", None, 'Invalid value: "@every 1ms": must be at least @every 1s'),
        ("@every soon", None, "must be a duration such as 90s, 10m or 1h30m"),
        ("* * * * *", "Local", 'Invalid value: "Local": must be the name of a time zone'),
        ("* * * * *", "localtime", 'Invalid value: "localtime": must be the name of a time zone'),
        ("* * * * *", "posixrules", 'Invalid value: "posixrules": must be the name of a time zone'),
        ("* * * * *", "right/UTC", 'Invalid value: "right/UTC": must be the name of a time zone'),
        ("* * * * *", "../etc/passwd", 'Invalid value: "../etc/passwd": must be the name of a time zone'),
    ],
)
def test_an_invalid_schedule_raises_an_error(text: str, zone: str | None, message: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(message)):
        Schedule(text, zone)
