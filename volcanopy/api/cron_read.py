"""Read models of :mod:`volcanopy.api.cron`, written by ``make golden`` from the full models."""

from datetime import datetime

from volcanopy.api.batch_read import BatchJobSpec
from volcanopy.api.read_model import Meta, ReadModel


class TemplateMeta(ReadModel, frozen=True, kw_only=True, gc=False):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class JobTemplateSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    metadata: TemplateMeta | None = None
    spec: BatchJobSpec = BatchJobSpec()


class JobReference(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    uid: str = ""


class CronBatchJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    schedule: str = ""
    time_zone: str = ""
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class CronBatchJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    active: tuple[JobReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None
    next_schedule_time: datetime | None = None
    message: str = ""


class CronBatchJob(ReadModel, frozen=True, kw_only=True, gc=False):
    api_version: str = "batch.volcanopy.io/v1alpha1"
    metadata: Meta
    spec: CronBatchJobSpec = CronBatchJobSpec()
    status: CronBatchJobStatus = CronBatchJobStatus()
