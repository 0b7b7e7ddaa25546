"""Full model of CronBatchJob (``batch.volcanopy.io/v1alpha1``), and its schedule.

A schedule has five fields, or is a name such as ``@daily`` or ``@every 90m``, in a time zone. At the start of daylight saving
time, a time in the skipped hour moves to the end of that hour; at its end, a time in the repeated hour occurs once.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import Field

from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.model import ATOMIC, Int32, Message, Model, ObjectMeta, Rule, Subdomain, Time, parse_duration


class TemplateMeta(Model):
    """Labels and annotations of the jobs that are created."""

    labels: dict[str, str] | None = None
    """Labels of the jobs."""
    annotations: dict[str, str] | None = None
    """Annotations of the jobs."""


class JobTemplateSpec(Model):
    """Template of the jobs of a cron job."""

    metadata: TemplateMeta | None = None
    """Labels and annotations of the jobs."""
    spec: BatchJobSpec
    """Specification of the jobs."""


class JobReference(Model):
    """Reference to a job of a cron job."""

    name: Subdomain
    """Name of the job."""
    uid: str
    """UID of the job."""


class CronBatchJobSpec(Model):
    """Specification of a cron job."""

    schedule: str = Field(min_length=1, max_length=253)
    """Schedule in cron format (minute, hour, day of month, month, day of week), a name such as @daily, or an interval such as
    @every 90m."""
    time_zone: str | None = Field(default=None, max_length=64)
    """Time zone of the schedule, such as Europe/Berlin. Defaults to UTC."""
    starting_deadline_seconds: int | None = Field(default=None, ge=0)
    """Deadline in seconds for starting a job that missed its scheduled time. No deadline if not given."""
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    """Policy if the previous job is still active: Allow (run both), Forbid (skip the new job) or Replace (delete the previous
    job). Defaults to Allow."""
    suspend: bool = False
    """Whether the creation of jobs is suspended. Active jobs are not affected. Defaults to false."""
    job_template: JobTemplateSpec
    """Template of the jobs."""
    successful_jobs_history_limit: Int32 = Field(default=3, ge=0)
    """Number of completed jobs to retain. Defaults to 3."""
    failed_jobs_history_limit: Int32 = Field(default=1, ge=0)
    """Number of failed and terminated jobs to retain. Defaults to 1."""

    rules = (Rule("!self.schedule.contains('TZ=')", "must not contain a time zone: use timeZone", ".schedule"),)


class CronBatchJobStatus(Model):
    """Observed status of a cron job, set by the cron controller."""

    active: list[JobReference] = Field(default_factory=list, json_schema_extra=ATOMIC)
    """Jobs that are not finished."""
    last_schedule_time: Time | None = None
    """Last scheduled time for which a job was created."""
    last_successful_time: Time | None = None
    """Time of the last completion of a job."""
    next_schedule_time: Time | None = None
    """Next scheduled time. It may have passed while the creation of its job waits."""
    message: Message = ""
    """Human-readable reason why no jobs are created, if there is one."""


class CronBatchJob(Model):
    """A job that is created on a schedule."""

    api_version: Literal["batch.volcanopy.io/v1alpha1"] = "batch.volcanopy.io/v1alpha1"
    kind: Literal["CronBatchJob"] = "CronBatchJob"
    metadata: ObjectMeta
    spec: CronBatchJobSpec
    """Specification of the cron job."""
    status: CronBatchJobStatus = Field(default_factory=CronBatchJobStatus)
    """Observed status of the cron job."""

    rules = (Rule("size(self.metadata.name) <= 52", "the name of a cron job must have at most 52 characters"),)


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
_STEP = re.compile(r"(?<![^,])(\*|\w+)/(?!1(?![^,]))")
"""The beginning of a step without an end of its range, but ``*/1``, which is every value."""
_MACHINE_ZONES = {"Local", "localtime", "posixrules"}
"""Names of time zones that depend on the machine. The folders posix and right (with leap seconds) exist on some machines only."""
SHORTEST = timedelta(seconds=1)
"""The shortest time between two scheduled times."""
_CLOCK_CHANGE = timedelta(hours=3)
"""Upper bound of the change of a clock at the start and end of daylight saving time."""


def job_name(cron: CronBatchJob, time: datetime) -> str:
    """``<cron job>-<minutes since 1970>``, or the seconds where the time is not a whole minute."""
    seconds = int(time.timestamp())
    return f"{cron.metadata.name}-{seconds if seconds % 60 else seconds // 60}"


def longest_job_name(cron: CronBatchJob) -> str:
    """Return a name as long as those of the jobs: times of ``@every`` need not be whole minutes."""
    seconds = 1 if cron.spec.schedule.startswith(_EVERY) else 0
    return job_name(cron, datetime(2100, 1, 1, 0, 0, seconds, tzinfo=UTC))


class ScheduleError(ValueError):
    """An invalid schedule or time zone; ``field`` is the field of the cron job's spec."""

    def __init__(self, message: str, field: str = "schedule") -> None:
        super().__init__(message)
        self.field = field


class Schedule:
    """A schedule. Raises ScheduleError if the schedule or the time zone is not valid."""

    def __init__(self, text: str, time_zone: str | None = None) -> None:
        self._zone = _zone(time_zone)
        self._every: timedelta | None = None
        self._fields = ""
        text_of_schedule = text.strip()
        if text_of_schedule.startswith(_EVERY):
            self._every = _interval(text_of_schedule)
            return
        self._fields = _NAMED.get(text_of_schedule, text_of_schedule).replace("?", "*")
        if text_of_schedule.startswith("@") and text_of_schedule not in _NAMED:
            nicknames = ", ".join(sorted(_NAMED))
            raise ScheduleError(f'Invalid value: "{text}": must be one of {nicknames} or @every <duration>')
        if len(self._fields.split()) != 5:
            raise ScheduleError(
                f'Invalid value: "{text}": must have five fields: minute, hour, day of month, month, day of week'
            )
        minute, hour, day, month, weekday = self._fields.split()
        # As in Kubernetes, a day with a step limits days beside a day of the week, and steps of these end with Saturday.
        self._fields = f"{minute} {hour} {_with_ranges(day, 1, 31)} {month} {_with_ranges(weekday, 0, 6)}"
        try:
            next(CronSim(self._fields, datetime(2024, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            wrong = str(error).removeprefix("Bad ")
            raise ScheduleError(f'Invalid value: "{text}": invalid {wrong}') from None
        except StopIteration:
            raise ScheduleError(f'Invalid value: "{text}": no matching day within 50 years') from None

    def after(self, moment: datetime, origin: datetime) -> datetime:
        """Return the first time after ``moment``. ``origin`` is the start of the schedule, from which ``@every`` counts."""
        if self._every is not None:
            passed = (moment - origin) // self._every
            return origin + (max(passed, 0) + 1) * self._every if moment >= origin else origin + self._every
        following: datetime = next(CronSim(self._fields, moment.astimezone(self._zone)))
        return following.astimezone(UTC)

    def latest(self, since: datetime, until: datetime, origin: datetime) -> datetime | None:
        """Return the last time after ``since`` and not after ``until``, if there is one."""
        if self._every is not None:
            passed = (until - origin) // self._every
            time = origin + passed * self._every
            return time if passed >= 1 and time > since else None
        # CronSim does not distinguish the hours around a change of the clock backwards: step back, then forward again.
        bound = until.replace(microsecond=0) + SHORTEST
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
        """Return the number of times after ``since`` and not after ``until``, at most ``limit``."""
        number, moment = 0, since
        while number < limit:
            moment = self.after(moment, origin)
            if moment > until:
                break
            number += 1
        return number

    def text(self, moment: datetime) -> str:
        """Return a time in the time zone of the schedule (RFC 3339)."""
        return moment.astimezone(self._zone).isoformat(timespec="seconds").replace("+00:00", "Z")


def _with_ranges(field: str, first: int, last: int) -> str:
    """Return a field with the ranges of its steps: ``*/2`` as ``1-31/2``."""
    return _STEP.sub(lambda step: f"{first if step[1] == '*' else step[1]}-{last}/", field)


def _interval(text: str) -> timedelta:
    try:
        every = parse_duration(text.removeprefix(_EVERY).strip())
    except ValueError as error:
        raise ScheduleError(f'Invalid value: "{text}": {error}') from None
    if not isinstance(every, timedelta) or every < SHORTEST:
        raise ScheduleError(f'Invalid value: "{text}": must be at least @every 1s')
    return every


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    if name in _MACHINE_ZONES or name.startswith(("posix/", "right/")):
        raise ScheduleError(
            f'Invalid value: "{name}": must be the name of a time zone, such as Europe/Berlin', "timeZone"
        )
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(
            f'Invalid value: "{name}": must be the name of a time zone, such as Europe/Berlin or UTC', "timeZone"
        ) from None
