"""Read models of BatchJob, CronBatchJob, JobFlow and JobTemplate.

The full models are in :mod:`volcanopy.api.batch`, :mod:`volcanopy.api.cron` and :mod:`volcanopy.api.flow`.
"""

from datetime import datetime
from typing import Any

from msgspec import field

from volcanopy.api.alternatives_read import SelectedAlternative
from volcanopy.api.core import EstimatedStart, NetworkTopology, PodSpec
from volcanopy.api.read_model import Condition, Labels, Meta, ReadModel


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
    spec: PodSpec = PodSpec()


class TaskSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pods of one template within a job."""

    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    parallelism: int | None = None
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


class AlternativeTask(ReadModel, frozen=True, kw_only=True, gc=False):
    """Changes of a task in an alternative."""

    name: str = ""
    template: dict[str, Any] = field(default_factory=dict)


class Alternative(ReadModel, frozen=True, kw_only=True, gc=False):
    """One of the alternatives of a job."""

    name: str = ""
    running_estimate: str = ""
    tasks: tuple[AlternativeTask, ...] = ()


class BatchJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a job."""

    tasks: tuple[TaskSpec, ...] = ()
    min_available: int = 0
    min_success: int | None = None
    suspend: bool = False
    queue: str = ""
    priority_class_name: str = ""
    scheduler_name: str = "volcanopy"
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    max_retry: int = 3
    pod_replacement_policy: str = "Failed"
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    volumes: tuple[VolumeSpec, ...] = ()
    network_topology: NetworkTopology | None = None
    running_estimate: str = ""
    alternatives: tuple[Alternative, ...] = ()


class JobState(ReadModel, frozen=True, kw_only=True, gc=False):
    """Phase of a job or flow, with the reason for it."""

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


class Eviction(ReadModel, frozen=True, kw_only=True, gc=False):
    """Pods of a job that were evicted together."""

    time: datetime | None = None
    by: str = ""
    pods: int = 1


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
    completed_indexes: dict[str, str] = field(default_factory=dict)
    version: int = 0
    retry_count: int = 0
    alternative: SelectedAlternative | None = None
    admitted_time: datetime | None = None
    start_time: datetime | None = None
    running_duration: str = ""
    estimated_start: EstimatedStart | None = None
    resource_seconds: dict[str, str] = field(default_factory=dict)
    usage_time: datetime | None = None
    evictions: tuple[Eviction, ...] = ()
    controlled_resources: Labels = field(default_factory=dict)
    pod_group_unknown: bool = False
    restarts: tuple[Restart, ...] = ()
    delayed: tuple[DelayedAction, ...] = ()
    last_command: str = ""
    quick_restarts: int = 0
    restart_at: datetime | None = None


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


class FlowDependsOn(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs that a flow's job waits for, and the probes that they must pass."""

    targets: tuple[str, ...] = ()
    probe: dict[str, Any] | None = None


class Patch(ReadModel, frozen=True, kw_only=True, gc=False):
    """Changes to the job template."""

    job_spec: dict[str, Any] = field(default_factory=dict)


class FlowJob(ReadModel, frozen=True, kw_only=True, gc=False):
    """A job of a flow."""

    name: str = ""
    template: str = ""
    depends_on: FlowDependsOn | None = None
    patch: Patch | None = None
    max_retry: int = 0


class JobFlowSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs of a flow and the dependencies between them."""

    flows: tuple[FlowJob, ...] = ()
    job_retain_policy: str = "retain"
    failure_policy: str = "stop"


class RunningHistory(ReadModel, frozen=True, kw_only=True, gc=False):
    """Period that a job spent in one phase."""

    state: str = ""
    start_timestamp: datetime | None = None
    end_timestamp: datetime | None = None


class FlowJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of one job of a flow."""

    name: str = ""
    state: str = ""
    message: str = ""
    start_timestamp: datetime | None = None
    end_timestamp: datetime | None = None
    restart_count: int = 0
    attempt: int = 0
    running_duration: str = ""
    running_histories: tuple[RunningHistory, ...] = ()


class JobFlowStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a flow."""

    state: JobState = JobState()
    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    waiting_jobs: tuple[str, ...] = ()
    job_status_list: tuple[FlowJobStatus, ...] = ()
    observed_generation: int = 0


class JobFlow(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs that run in the order of their dependencies."""

    metadata: Meta
    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Jobs created from the template."""

    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of the jobs that flows create."""

    metadata: Meta
    spec: BatchJobSpec = BatchJobSpec()
    status: JobTemplateStatus = JobTemplateStatus()
