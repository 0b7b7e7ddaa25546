"""CronBatchJob: a job that is made at the times of a schedule (``batch.volcanopy.io/v1alpha1``)."""

from typing import Literal

from pydantic import Field

from volcanopy.api.flow import FreshJobSpec
from volcanopy.api.meta import ObjectMeta
from volcanopy.api.model import Int32, Model, Rule, Subdomain, Time


class TemplateMeta(Model):
    """Labels and annotations of what is made."""

    labels: dict[str, str] | None = None
    """Labels."""
    annotations: dict[str, str] | None = None
    """Annotations."""


class JobTemplateSpec(Model):
    """A job that is made again and again."""

    metadata: TemplateMeta | None = None
    """Labels and annotations of the jobs."""
    spec: FreshJobSpec
    """What each of them runs."""


class JobReference(Model):
    """A job that belongs to a cron job."""

    name: Subdomain
    """Its name."""
    uid: str
    """Its identity."""


class CronBatchJobSpec(Model):
    """What is to run, and when."""

    schedule: str = Field(min_length=1, max_length=253)
    """When, as five fields (minute, hour, day of month, month, day of week), a name such as @daily, or @every 90m."""
    time_zone: str | None = Field(default=None, max_length=64)
    """Time zone of the schedule, such as Europe/Berlin; UTC if not given."""
    starting_deadline_seconds: int | None = Field(default=None, ge=0)
    """How late a job may start that missed its time; without limit if not given."""
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    """When the last job still runs: start the next beside it, leave it out, or put it in its place."""
    suspend: bool = False
    """Whether no further jobs are started; those that run are left alone."""
    job_template: JobTemplateSpec
    """The job."""
    successful_jobs_history_limit: Int32 = Field(default=3, ge=0)
    """How many complete jobs are kept."""
    failed_jobs_history_limit: Int32 = Field(default=1, ge=0)
    """How many jobs that failed, or were stopped, are kept."""

    rules = (
        Rule(
            "!self.schedule.contains('TZ=')",
            "give the time zone in timeZone, not in the schedule",
            ".schedule",
        ),
    )


class CronBatchJobStatus(Model):
    """What has become of it; written by its controller."""

    active: list[JobReference] = Field(default_factory=list, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """Jobs that have not come to their end."""
    last_schedule_time: Time | None = None
    """The time of the schedule that was served last."""
    last_successful_time: Time | None = None
    """When one of its jobs was complete last."""
    next_schedule_time: Time | None = None
    """When the next job is due."""
    message: str = ""
    """What keeps it from making jobs, if anything does."""


class CronBatchJob(Model):
    """A job that is made at the times of a schedule."""

    api_version: Literal["batch.volcanopy.io/v1alpha1"] = "batch.volcanopy.io/v1alpha1"
    kind: Literal["CronBatchJob"] = "CronBatchJob"
    metadata: ObjectMeta
    spec: CronBatchJobSpec
    """What is to run, and when."""
    status: CronBatchJobStatus = CronBatchJobStatus()
    """What has become of it."""

    rules = (
        Rule(
            "size(self.metadata.name) <= 52",
            "the name of a cron job can have at most 52 characters: the names of its jobs add 9",
        ),
    )
