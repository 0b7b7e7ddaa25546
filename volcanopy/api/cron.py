"""Full model of CronBatchJob (``batch.volcanopy.io/v1alpha1``)."""

from typing import Literal

from pydantic import Field

from volcanopy.api.flow import FreshJobSpec
from volcanopy.api.meta import ObjectMeta
from volcanopy.api.model import Int32, Model, Rule, Subdomain, Time


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
    spec: FreshJobSpec
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

    rules = (
        Rule(
            "!self.schedule.contains('TZ=')",
            "must not contain a time zone: use timeZone",
            ".schedule",
        ),
    )


class CronBatchJobStatus(Model):
    """Observed status of a cron job, set by the cron controller."""

    active: list[JobReference] = Field(default_factory=list, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """Jobs that are not finished."""
    last_schedule_time: Time | None = None
    """Last scheduled time for which a job was created."""
    last_successful_time: Time | None = None
    """Time of the last completion of a job."""
    next_schedule_time: Time | None = None
    """Next scheduled time."""
    message: str = ""
    """Human-readable reason why no jobs are created, if there is one."""


class CronBatchJob(Model):
    """A job that is created on a schedule."""

    api_version: Literal["batch.volcanopy.io/v1alpha1"] = "batch.volcanopy.io/v1alpha1"
    kind: Literal["CronBatchJob"] = "CronBatchJob"
    metadata: ObjectMeta
    spec: CronBatchJobSpec
    """Specification of the cron job."""
    status: CronBatchJobStatus = CronBatchJobStatus()
    """Observed status of the cron job."""

    rules = (
        Rule(
            "size(self.metadata.name) <= 52",
            "the name of a cron job must have at most 52 characters",
        ),
    )
