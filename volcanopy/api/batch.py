"""Full model of BatchJob (``batch.volcanopy.io/v1alpha1``).

Defaults that a schema can express are field defaults. Defaults that depend on other fields (``minAvailable`` of a task is
its replicas, of a job the sum over its tasks) are computed by the property ``needed`` and never written into objects.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from volcanopy.api.alternatives import Alternative, SelectedAlternative
from volcanopy.api.lifecycle import Action, Event, Policies
from volcanopy.api.model import (
    ATOMIC,
    NO_DEFAULT,
    Bool,
    Condition,
    Duration,
    Int32,
    Int64,
    Label,
    Message,
    Model,
    ObjectMeta,
    Rule,
    Subdomain,
    Time,
    keyed,
)
from volcanopy.api.scheduling import EstimatedStart, NetworkTopology

Indexes = Annotated[str, Field(pattern=r"^\d{1,7}(-\d{1,7})?(,\d{1,7}(-\d{1,7})?)*$")]
"""Ascending indexes of pods, such as ``0-3,7``."""


class Phase(StrEnum):
    """Phase of a job."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


PodTemplate = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-volcanopy-definition": "io.k8s.api.core.v1.PodTemplateSpec"})
]


class PodReplacementPolicy(StrEnum):
    """When pods are created anew in place of pods that are being deleted or have failed, as for a Job of Kubernetes."""

    TERMINATING_OR_FAILED = "TerminatingOrFailed"
    FAILED = "Failed"


ClaimSpec = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-volcanopy-definition": "io.k8s.api.core.v1.PersistentVolumeClaimSpec"}),
]


class VolumeSpec(Model):
    """Volume that is mounted into every container of a job."""

    mount_path: str = Field(min_length=1, max_length=4096, pattern="^[^:]+$")
    """Path within the containers at which the volume is mounted."""
    volume_claim_name: str = Field(default="", max_length=253)
    """Name of an existing PersistentVolumeClaim. Mutually exclusive with volumeClaim."""
    volume_claim: ClaimSpec | None = None
    """Specification of a PersistentVolumeClaim that is created and deleted with the job."""

    rules = (
        Rule(
            "has(self.volumeClaimName) && self.volumeClaimName != '' ? !has(self.volumeClaim) : has(self.volumeClaim)",
            "exactly one of volumeClaimName and volumeClaim must be set",
        ),
    )


class DependsOn(Model):
    """Tasks that must be ready before a task starts."""

    name: list[Label] = Field(default_factory=list, max_length=128, json_schema_extra=ATOMIC)
    """Names of the tasks."""
    iteration: Literal["any", "all"] = "all"
    """Whether any or all of the tasks must be ready. Defaults to all."""


class PartitionPolicy(Model):
    """Division of the pods of a task into partitions of equal size that start and fail together."""

    total_partitions: Int32 = Field(ge=1)
    """Number of partitions."""
    partition_size: Int32 = Field(ge=1)
    """Number of pods in a partition."""
    min_partitions: Int32 = Field(default=0, ge=0)
    """Minimum number of partitions that must be placed for the job to start. If 0, minAvailable applies."""
    network_topology: NetworkTopology | None = None
    """Network topology constraint of the pods of each partition."""

    rules = (
        Rule(
            "self.minPartitions <= self.totalPartitions", "must not be greater than totalPartitions", ".minPartitions"
        ),
    )


class TaskSpec(Model):
    """A task of a job: a number of pods with the same template."""

    name: Label
    """Name of the task, unique within the job. Pods are named <job>-<task>-<index>."""
    replicas: Int32 = Field(default=1, ge=0, le=1_000_000)
    """Number of pods. Defaults to 1."""
    min_available: Int32 | None = Field(default=None, ge=0)
    """Minimum number of pods of the task that must run for the job to run. Defaults to replicas."""
    parallelism: Int32 | None = Field(default=None, ge=1)
    """Maximum number of pods of the task that exist at the same time and have not ended. The others are created, by index,
    when pods end. Unlimited if not given."""
    template: PodTemplate
    """Template of the pods."""
    policies: Policies = Field(default_factory=list)
    """Lifecycle policies of the task. They take precedence over the policies of the job."""
    topology_policy: Literal["", "none", "best-effort", "restricted", "single-numa-node"] = ""
    """NUMA topology policy of the pods."""
    max_retry: Int32 = Field(default=3, ge=0, json_schema_extra=NO_DEFAULT)
    """Maximum number of container restarts of the task, over all pods, before the task fails. Defaults to 3."""
    depends_on: DependsOn | None = None
    """Tasks that must be ready before the task starts."""
    partition_policy: PartitionPolicy | None = None
    """Division of the pods into partitions that start and fail together."""

    @property
    def needed(self) -> int:
        """Minimum number of pods of the task that must run for the job to run."""
        if self.min_available is not None:
            return self.min_available
        if self.partition_policy and self.partition_policy.min_partitions:
            return self.partition_policy.min_partitions * self.partition_policy.partition_size
        return self.replicas


class BatchJobSpec(Model):
    """Specification of a job."""

    tasks: list[TaskSpec] = Field(min_length=1, max_length=128, json_schema_extra=keyed("name"))
    """Tasks of the job."""
    min_available: Int32 = Field(default=0, ge=0, json_schema_extra=NO_DEFAULT)
    """Minimum number of pods that must be placed together for the job to start. Defaults to the sum of minAvailable of the
    tasks; 0 is the same as no value."""
    min_success: Int32 | None = Field(default=None, ge=1)
    """Number of pods that must succeed for the job to complete. The remaining pods are then stopped."""
    suspend: Bool = Field(default=False, json_schema_extra=NO_DEFAULT)
    """Whether the job is suspended: its pods are deleted, and created again when it is no longer suspended."""
    queue: Subdomain = Field(default="default", json_schema_extra=NO_DEFAULT)
    """Name of the queue that the job is submitted to. Set by admission if not given; otherwise defaults to `default`."""
    priority_class_name: str = Field(default="", max_length=253)
    """Name of the PriorityClass of the job, and of its pods if their template has none."""
    scheduler_name: str = Field(default="volcanopy", max_length=63)
    """Name of the scheduler of pods whose template has none. Defaults to volcanopy."""
    policies: Policies = Field(default_factory=list)
    """Lifecycle policies of the job."""
    plugins: dict[str, list[str]] = Field(default_factory=dict, max_length=32)
    """Job plugins (env, svc, ssh, ...) by name, with their arguments."""
    max_retry: Int32 = Field(default=3, ge=0)
    """Maximum number of restarts. The job fails when the number is reached. Defaults to 3."""
    pod_replacement_policy: PodReplacementPolicy = Field(
        default=PodReplacementPolicy.FAILED, json_schema_extra=NO_DEFAULT
    )
    """When a pod that is being deleted is replaced: Failed when it is gone, TerminatingOrFailed while it terminates, by a pod
    named <job>-<task>-<index>-r<number>. Defaults to Failed."""
    ttl_seconds_after_finished: Int32 | None = Field(default=None, ge=0)
    """Seconds after which a finished job is deleted. Finished jobs are not deleted if not given."""
    active_deadline_seconds: Int32 | None = Field(default=None, ge=1)
    """Maximum running time (walltime) in seconds, from the first time that minAvailable pods of the job run. Restarts and
    waiting after evictions count; resuming a suspended job starts the time again. The job then fails with reason
    DeadlineExceeded, and its pods are deleted with their termination grace period. An event DeadlineApproaching precedes: a
    tenth of the time before, at most 5 minutes. Unlimited if not given."""
    volumes: list[VolumeSpec] = Field(default_factory=list, max_length=64, json_schema_extra=keyed("mountPath"))
    """Volumes that are mounted into every container of the job."""
    network_topology: NetworkTopology | None = None
    """Network topology constraint of the pods of the job."""
    running_estimate: Duration | None = None
    """Expected running time of the job, such as 30m. An estimate for start times and reservations, never enforced."""
    alternatives: list[Alternative] = Field(default_factory=list, max_length=8, json_schema_extra=keyed("name"))
    """Alternative requests of the job, such as with GPUs and without. When the job is admitted, the scheduler selects the one
    with which it is expected to finish first, the first in the list of equal ones."""

    @property
    def replicas(self) -> int:
        """Total number of pods of the job."""
        return sum(task.replicas for task in self.tasks)

    @property
    def needed(self) -> int:
        """Minimum number of pods that must be placed together."""
        return self.min_available or sum(task.needed for task in self.tasks)

    @property
    def replaces_terminating(self) -> bool:
        """Whether pods are replaced while they terminate."""
        return self.pod_replacement_policy is PodReplacementPolicy.TERMINATING_OR_FAILED

    def task(self, name: str) -> TaskSpec | None:
        """Return the task with this name, if there is one."""
        return next((task for task in self.tasks if task.name == name), None)


class JobState(Model):
    """Phase of a job, with the reason for it."""

    phase: Phase | None = None
    """Phase of the job."""
    reason: str = ""
    """Machine-readable reason of the phase."""
    message: Message = ""
    """Human-readable message about the phase."""
    last_transition_time: Time | None = None
    """Time of the last transition to this phase."""


class TaskCounts(Model):
    """Number of pods of a task by pod phase."""

    phase: dict[str, Int32] = Field(default_factory=dict)
    """Number of pods by pod phase, without terminating pods."""


class Restart(Model):
    """Pods that are being replaced by a restart."""

    before: Int32
    """Retry count of the restart. Pods created at a lower retry count are replaced."""
    task: str = ""
    """Task of the pods. If empty, the whole job is restarted."""
    partition: str = ""
    """Partition of the pods. If empty, the whole task is restarted."""
    pod: str = ""
    """Name of the pod, if a single pod is restarted."""


class DelayedAction(Model):
    """Action of a policy with a timeout that is not due yet."""

    action: Action
    """Action to take."""
    event: Event
    """Event that caused the action."""
    due: Time
    """Time at which the action is due."""
    task: str = ""
    """Task of the event."""
    partition: str = ""
    """Partition of the event."""
    pod: str = ""
    """Name of the pod of the event."""
    uid: str = ""
    """UID of the pod of the event."""


class Eviction(Model):
    """Pods of a job that were evicted together."""

    time: Time
    """Time of the eviction."""
    by: str = Field(default="", max_length=1024)
    """What evicted the pods and for which job, such as `preempt: preempted by job "a" in queue "q"`."""
    pods: Int32 = 1
    """Number of evicted pods."""


class BatchJobStatus(Model):
    """Observed status of a job, set by the job controller."""

    state: JobState = Field(default_factory=JobState)
    """Phase of the job, with the reason for it."""
    conditions: list[Condition] = Field(default_factory=list, json_schema_extra=keyed("type"))
    """Conditions of the job: one for each phase it has been in, with status True for the current phase, DeadlineApproaching
    shortly before activeDeadlineSeconds expire, and NodeNotReady while pods terminate on nodes that are not ready."""
    observed_generation: Int64 = 0
    """Generation of the spec that the status was computed from."""
    min_available: Int32 = 0
    """Minimum number of pods that must be placed together."""
    pending: Int32 = 0
    """Number of pending pods."""
    running: Int32 = 0
    """Number of running pods."""
    succeeded: Int32 = 0
    """Number of succeeded pods."""
    failed: Int32 = 0
    """Number of failed pods."""
    terminating: Int32 = 0
    """Number of terminating pods."""
    unknown: Int32 = 0
    """Number of pods in phase Unknown."""
    task_status_count: dict[str, TaskCounts] = Field(default_factory=dict)
    """Number of pods by task and pod phase."""
    completed_indexes: dict[str, Indexes] = Field(default_factory=dict)
    """Indexes of pods that had succeeded before they were deleted, by task, such as 0-3,7. They are not created again."""
    version: Int32 = 0
    """Number of times that all pods of the job were stopped."""
    retry_count: Int32 = 0
    """Number of restarts of the job or a part of it."""
    alternative: SelectedAlternative | None = None
    """Alternative that the job runs with, until it restarts."""
    admitted_time: Time | None = None
    """Time at which the job was first admitted to its queue."""
    start_time: Time | None = None
    """Time at which minAvailable pods ran first, since the job was created or last resumed."""
    running_duration: Duration | None = None
    """Total running time of the job."""
    estimated_start: EstimatedStart | None = None
    """Estimated start of a job that waits, computed from the expected ends of other jobs."""
    resource_seconds: dict[str, str] = Field(default_factory=dict)
    """Requested amounts of the pods multiplied by their running time in seconds up to usageTime, by resource: cpu and the
    extended resources."""
    usage_time: Time | None = None
    """Time up to which resourceSeconds are counted."""
    evictions: list[Eviction] = Field(default_factory=list, max_length=32, json_schema_extra=ATOMIC)
    """Last evictions of pods of the job."""
    controlled_resources: dict[str, str] = Field(default_factory=dict)
    """Objects created for the job besides its pods."""
    pod_group_unknown: Bool = False
    """Whether the PodGroup of the job was last observed in phase Unknown."""
    restarts: list[Restart] = Field(default_factory=list)
    """Restarts in progress."""
    delayed: list[DelayedAction] = Field(default_factory=list)
    """Actions that are not due yet."""
    last_command: str = ""
    """UID of the last Command that was executed."""
    quick_restarts: Int32 = 0
    """Number of consecutive restarts by policies after less than ten minutes. The pause before a restart grows with it."""
    restart_at: Time | None = None
    """Time before which no pods are created again, because of the pause before a restart."""


class BatchJob(Model):
    """A batch job: one or more tasks whose pods are scheduled together and run to completion."""

    api_version: Literal["batch.volcanopy.io/v1alpha1"] = "batch.volcanopy.io/v1alpha1"
    kind: Literal["BatchJob"] = "BatchJob"
    metadata: ObjectMeta
    spec: BatchJobSpec
    """Specification of the job."""
    status: BatchJobStatus = Field(default_factory=BatchJobStatus)
    """Observed status of the job."""
