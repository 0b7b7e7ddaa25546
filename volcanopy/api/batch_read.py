"""Read models of BatchJob, CronBatchJob and Command; the full models are in :mod:`volcanopy.api.batch`, ``cron`` and ``bus``."""

from datetime import datetime
from typing import Any

from msgspec import field

from volcanopy.api import core
from volcanopy.api.read_model import Condition, Labels, Meta, OwnerReference, ReadModel
from volcanopy.api.scheduling_read import NetworkTopology


class LifecyclePolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    """Action to take on events or an exit code."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str = ""


class DependsOn(ReadModel, frozen=True, kw_only=True, gc=False):
    """Tasks that must be ready before a task starts."""

    name: tuple[str, ...] = ()
    iteration: str = "all"


class PartitionPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    """Division of a task's pods into groups of equal size."""

    total_partitions: int = 1
    partition_size: int = 1
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class PodTemplate(ReadModel, frozen=True, kw_only=True, gc=False):
    """Template of a task's pods."""

    metadata: Meta = Meta()
    spec: core.PodSpec = core.PodSpec()


class TaskSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pods of one template within a job."""

    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    template: PodTemplate = PodTemplate()
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: str = ""
    max_retry: int = 3
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class VolumeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Volume mounted into every container of a job."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


class BatchJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a job."""

    tasks: tuple[TaskSpec, ...] = ()
    min_available: int = 0
    min_success: int | None = None
    queue: str = ""
    priority_class_name: str = ""
    scheduler_name: str = "volcanopy"
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    max_retry: int = 3
    ttl_seconds_after_finished: int | None = None
    volumes: tuple[VolumeSpec, ...] = ()
    network_topology: NetworkTopology | None = None
    running_estimate: str = ""


class JobState(ReadModel, frozen=True, kw_only=True, gc=False):
    """Phase of a job, with the reason for it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class TaskCounts(ReadModel, frozen=True, kw_only=True, gc=False):
    """Number of a task's pods by pod phase."""

    phase: dict[str, int] = field(default_factory=dict)


class Restart(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pods that are being replaced."""

    before: int = 0
    task: str = ""
    partition: str = ""
    pod: str = ""


class DelayedAction(ReadModel, frozen=True, kw_only=True, gc=False):
    """Action of a policy with a timeout that is not due yet."""

    action: str = ""
    event: str = ""
    due: datetime | None = None
    task: str = ""
    partition: str = ""
    pod: str = ""
    uid: str = ""


class BatchJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a job."""

    state: JobState = JobState()
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    min_available: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    task_status_count: dict[str, TaskCounts] = field(default_factory=dict)
    version: int = 0
    retry_count: int = 0
    running_duration: str = ""
    controlled_resources: Labels = field(default_factory=dict)
    pod_group_unknown: bool = False
    restarts: tuple[Restart, ...] = ()
    delayed: tuple[DelayedAction, ...] = ()
    last_command: str = ""


class BatchJob(ReadModel, frozen=True, kw_only=True, gc=False):
    """A job."""

    metadata: Meta
    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()


class QueuedJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Queue of a job."""

    queue: str = ""


class QueuedJobState(ReadModel, frozen=True, kw_only=True, gc=False):
    """Phase of a job."""

    phase: str = ""


class QueuedJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a job, without its counts."""

    state: QueuedJobState = QueuedJobState()


class QueuedJob(ReadModel, frozen=True, kw_only=True, gc=False):
    """Queue and phase of a job, for counting many jobs without keeping their pod templates in memory."""

    metadata: Meta
    spec: QueuedJobSpec = QueuedJobSpec()
    status: QueuedJobStatus = QueuedJobStatus()


class TemplateMeta(ReadModel, frozen=True, kw_only=True, gc=False):
    """Labels and annotations of the jobs that are created."""

    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)


class JobTemplateSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Template of a cron job's jobs."""

    metadata: TemplateMeta | None = None
    spec: BatchJobSpec = BatchJobSpec()


class CronBatchJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a cron job."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class JobReference(ReadModel, frozen=True, kw_only=True, gc=False):
    """Reference to a job of a cron job."""

    name: str = ""
    uid: str = ""


class CronBatchJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a cron job."""

    active: tuple[JobReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None
    next_schedule_time: datetime | None = None
    message: str = ""


class CronBatchJob(ReadModel, frozen=True, kw_only=True, gc=False):
    """A job that is created on a schedule."""

    metadata: Meta
    spec: CronBatchJobSpec = CronBatchJobSpec()
    status: CronBatchJobStatus = CronBatchJobStatus()


class Command(ReadModel, frozen=True, kw_only=True, gc=False):
    """A command for a job or queue."""

    metadata: Meta
    action: str = ""
    target: OwnerReference = OwnerReference()
    reason: str = ""
    message: str = ""
