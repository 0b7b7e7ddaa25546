"""Reconciliation of a cron job: creation and deletion of its jobs, and its status.

The name of a job contains its scheduled time, so that no job is created twice even after a crash. The last scheduled time is
read from the existing jobs and the status.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, Phase
from volcanopy.api.cron import (
    SHORTEST,
    CronBatchJob,
    CronBatchJobStatus,
    JobReference,
    Schedule,
    ScheduleError,
    job_name,
)
from volcanopy.api.model import Json
from volcanopy.jobcontroller.naming import job_manifest
from volcanopy.jobcontroller.observed import age
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.jobcontroller.plan import CreateJob, DeleteJob, Plan, RecordEvent, UpdateStatus, status_json

MANY_MISSED = 100


class UpdateCronStatus(UpdateStatus):
    """Replace the status of a cron job."""

    def __str__(self) -> str:
        return f"status: {len(self.status.get('active', ()))} active, last {self.status.get('lastScheduleTime')}"


CronEffect = UpdateCronStatus | CreateJob | DeleteJob | RecordEvent
CronPlan = Plan[CronEffect]


@dataclass(frozen=True)
class _Due:
    """State of the schedule: the time that is due, the number of missed times, and the next time.

    ``expired`` is the time that the status announced, if no job was started for it before the starting deadline.
    """

    time: datetime | None = None
    missed: int = 0
    expired: datetime | None = None
    next: datetime | None = None
    schedule: Schedule | None = None
    wrong: str = ""


def reconcile_cron(cron: CronBatchJob, jobs: Mapping[str, BatchJob], now: datetime, trouble: str = "") -> CronPlan:
    """Return the plan for a cron job with these jobs, by name; ``trouble`` is the last error of the API server."""
    if cron.metadata.deletion_timestamp is not None:
        return CronPlan()
    made = sorted(jobs.values(), key=lambda job: age(job.metadata))
    active = [job for job in made if job.status.state.phase not in FINISHED]
    served = max(filter(None, (cron.status.last_schedule_time, *map(scheduled_time, made))), default=None)
    due = _due(cron, served, now)
    making: list[CronEffect] = []
    message, reason = due.wrong, "InvalidSchedule"
    replaced: list[BatchJob] = []
    if due.time is not None and due.schedule is not None:
        # The pods of a job that has finished may still run: for as long as they take to terminate.
        running = [job for job in made if job in active or job.status.terminating]
        if running and cron.spec.concurrency_policy == "Forbid":
            names_of = ", ".join(job.metadata.name for job in running)
            message, reason = (
                f"job scheduled for {due.schedule.text(due.time)} is waiting for {names_of} to finish (concurrencyPolicy Forbid)",
                "ForbidConcurrent",
            )
        else:
            replaced = active if cron.spec.concurrency_policy == "Replace" else []
            making = [CreateJob(_manifest(cron, due.time, due.schedule))]
            if due.missed > MANY_MISSED:
                last = due.schedule.text(due.time)
                warning = f"more than {MANY_MISSED} scheduled times missed: only the last ({last}) is started"
                making.append(RecordEvent("Warning", "TooManyMissedTimes", warning))
    if trouble:
        message, reason = trouble, "FailedCreate"
    # A time whose job cannot be created yet stays the next one.
    status = _status(cron, made, active, served, due.time or due.next, message)
    effects: list[CronEffect] = []
    if due.expired is not None and due.schedule is not None:
        seconds = cron.spec.starting_deadline_seconds
        warning = f"job scheduled for {due.schedule.text(due.expired)} not started: startingDeadlineSeconds {seconds} exceeded"
        effects.append(RecordEvent("Warning", "MissSchedule", warning))
    # A job that starts is written with the next plan: a status without an active job would be wrong in between.
    if status.write() != cron.status.write() and (message or not making):
        effects.append(UpdateCronStatus(status_json(status)))
        if message and message != cron.status.message:
            effects.append(RecordEvent("Warning", reason, message))
    effects += [DeleteJob(job.metadata.name, job.metadata.uid) for job in _unwanted(cron, made, replaced)]
    again = due.next if due.next is not None and not cron.spec.suspend else None
    return CronPlan((*effects, *making), again)


def scheduled_time(job: BatchJob) -> datetime | None:
    """Return the scheduled time of a job, if it has one."""
    text = (job.metadata.annotations or {}).get(names.SCHEDULED_TIME, "")
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def _due(cron: CronBatchJob, served: datetime | None, now: datetime) -> _Due:
    try:
        schedule = Schedule(cron.spec.schedule, cron.spec.time_zone)
    except ScheduleError as error:
        return _Due(wrong=f"spec.{error.field}: {error}")
    if cron.spec.suspend:
        return _Due(schedule=schedule)
    origin = cron.metadata.creation_timestamp or now
    since = max(origin, served) if served is not None else origin
    if cron.status.next_schedule_time is not None:  # earlier times are those of a schedule that was changed since
        since = max(since, cron.status.next_schedule_time - SHORTEST)
    deadline, announced, expired = cron.spec.starting_deadline_seconds, cron.status.next_schedule_time, None
    if deadline is not None and deadline < (now - since).total_seconds():  # the field allows times before the year 1
        since = now - timedelta(seconds=deadline)
        if announced is not None and announced <= since and (served is None or served < announced):
            expired = announced
    time = schedule.latest(since, now, origin)
    missed = schedule.count(since, now, origin, MANY_MISSED + 1) if time is not None else 0
    return _Due(time, missed, expired, schedule.after(now, origin), schedule)


def _status(
    cron: CronBatchJob,
    made: Iterable[BatchJob],
    active: Iterable[BatchJob],
    served: datetime | None,
    following: datetime | None,
    message: str,
) -> CronBatchJobStatus:
    ends = [job.status.state.last_transition_time for job in made if job.status.state.phase is Phase.COMPLETED]
    return CronBatchJobStatus(
        active=[JobReference(name=job.metadata.name, uid=job.metadata.uid) for job in active],
        last_schedule_time=served,
        last_successful_time=max(filter(None, (cron.status.last_successful_time, *ends)), default=None),
        next_schedule_time=None if cron.spec.suspend else following,
        message=message,
    )


def _unwanted(cron: CronBatchJob, made: Iterable[BatchJob], replaced: Iterable[BatchJob]) -> Iterator[BatchJob]:
    """Yield replaced jobs, and the oldest finished jobs beyond the history limits."""
    staying = [job for job in made if job.metadata.deletion_timestamp is None]
    yield from (job for job in replaced if job.metadata.deletion_timestamp is None)
    for phases, kept in (
        ({Phase.COMPLETED}, cron.spec.successful_jobs_history_limit),
        ({Phase.FAILED, Phase.TERMINATED}, cron.spec.failed_jobs_history_limit),
    ):
        over = [job for job in staying if job.status.state.phase in phases]
        yield from over[: max(len(over) - kept, 0)]


def _manifest(cron: CronBatchJob, time: datetime, schedule: Schedule) -> Json:
    template = cron.spec.job_template
    labels = dict((template.metadata.labels if template.metadata else None) or {})
    annotations = dict((template.metadata.annotations if template.metadata else None) or {})
    annotations |= {names.SCHEDULED_TIME: schedule.text(time)}
    return job_manifest(cron, job_name(cron, time), labels, annotations, template.spec.write_given())
