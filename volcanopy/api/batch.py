"""BatchJob: several kinds of pods that run together to an end (``batch.volcanopy.io/v1alpha1``).

The defaults that a schema can give stand here as field defaults. What depends on another field (a task's
``minAvailable`` is its replicas, a job's the sum over its tasks) is a property (``needed``), so that it holds
whether or not an admission webhook wrote it into the object.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from volcanopy.api.lifecycle import Action, Event, Policies
from volcanopy.api.meta import Condition, ObjectMeta
from volcanopy.api.model import Bool, Duration, Int32, Int64, Label, Model, Rule, Subdomain, Time
from volcanopy.api.scheduling import NetworkTopology


class Phase(StrEnum):
    """Where a job stands in its life."""

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


def _fixed(*names: str) -> tuple[Rule, ...]:
    """Rules that these fields stay as they were made."""
    return tuple(
        Rule(
            f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})",
            f"{name} of a job that exists cannot change: make a new job",
            f".{name}",
        )
        for name in names
    )


PodTemplate = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-volcanopy-definition": "io.k8s.api.core.v1.PodTemplateSpec"})
]
ClaimSpec = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-volcanopy-definition": "io.k8s.api.core.v1.PersistentVolumeClaimSpec"}),
]


class VolumeSpec(Model):
    """A volume that every container of the job mounts."""

    mount_path: str = Field(min_length=1, max_length=4096, pattern="^[^:]+$")
    """Where it is mounted in each container."""
    volume_claim_name: str = Field(default="", max_length=253)
    """An existing claim to mount."""
    volume_claim: ClaimSpec | None = None
    """A claim that is made for the job and goes with it."""

    rules = (
        Rule(
            "has(self.volumeClaimName) && self.volumeClaimName != '' ? !has(self.volumeClaim) : has(self.volumeClaim)",
            "give either volumeClaimName (an existing claim) or volumeClaim (one to be made)",
        ),
    )


class DependsOn(Model):
    """Which tasks must have got going before this one starts."""

    name: list[Label] = Field(
        default_factory=list, max_length=128, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Names of the tasks that this one waits for."""
    iteration: Literal["any", "all"] = "all"
    """Whether one of them is enough, or all are needed."""


class PartitionPolicy(Model):
    """How the pods of a task divide into equal groups that start and fail together."""

    total_partitions: Int32 = Field(ge=1)
    """How many groups there are."""
    partition_size: Int32 = Field(ge=1)
    """How many pods a group has."""
    min_partitions: Int32 = Field(default=0, ge=0)
    """How many groups are needed to start; 0 leaves it to minAvailable."""
    network_topology: NetworkTopology | None = None
    """How close together the pods of a group must run."""

    rules = (
        Rule(
            "self.minPartitions <= self.totalPartitions",
            "minPartitions cannot be more than totalPartitions",
            ".minPartitions",
        ),
    )


class TaskSpec(Model):
    """One kind of pod of a job, and how many of it."""

    name: Label
    """Name of the task, unique within the job; a pod is called <job>-<task>-<index>."""
    replicas: Int32 = Field(default=1, ge=0, le=1_000_000)
    """How many pods."""
    min_available: Int32 | None = Field(default=None, ge=0)
    """How many of them must run for the job to run; all of them if not given."""
    template: PodTemplate
    """The pod to make."""
    policies: Policies = Field(default_factory=list)
    """What to do when something happens to a pod of this task; comes before the job's policies."""
    topology_policy: Literal["", "none", "best-effort", "restricted", "single-numa-node"] = ""
    """How the cpus of a pod must lie to each other on a node."""
    max_retry: Int32 = Field(default=3, ge=0, json_schema_extra={"x-volcanopy-no-default": True})
    """How often the containers of this task may restart, taken together, before the task counts as failed; 3 if not given."""
    depends_on: DependsOn | None = None
    """Tasks that must have got going before this one starts."""
    partition_policy: PartitionPolicy | None = None
    """Division of the pods into groups that start and fail together."""

    rules = (
        Rule(
            "!has(self.minAvailable) || self.minAvailable <= self.replicas",
            "minAvailable cannot be more than replicas",
            ".minAvailable",
        ),
        Rule(
            "!has(self.partitionPolicy) || self.replicas =="
            " self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize",
            "replicas must be totalPartitions times partitionSize",
            ".replicas",
        ),
        Rule(
            "!has(self.partitionPolicy) || !has(self.minAvailable) || self.partitionPolicy.minPartitions == 0 ||"
            " self.minAvailable == self.partitionPolicy.minPartitions * self.partitionPolicy.partitionSize",
            "minAvailable must be minPartitions times partitionSize; it may be left out",
            ".minAvailable",
        ),
        Rule(
            "!has(self.dependsOn) || !has(self.dependsOn.name) || !(self.name in self.dependsOn.name)",
            "a task cannot wait for itself",
            ".dependsOn",
        ),
        *_fixed("template", "policies", "topologyPolicy", "maxRetry", "dependsOn", "partitionPolicy"),
    )

    @property
    def needed(self) -> int:
        """How many pods of this task must run for the job to run."""
        if self.min_available is not None:
            return self.min_available
        if self.partition_policy and self.partition_policy.min_partitions:
            return self.partition_policy.min_partitions * self.partition_policy.partition_size
        return self.replicas


class BatchJobSpec(Model):
    """What is to run."""

    tasks: list[TaskSpec] = Field(
        min_length=1,
        max_length=128,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """The kinds of pods that the job is made of."""
    min_available: Int32 = Field(default=0, ge=0, json_schema_extra={"x-volcanopy-no-default": True})
    """How many pods must be able to run at once before any is started; not given or 0, what the tasks need together."""
    min_success: Int32 | None = Field(default=None, ge=1)
    """How many pods must succeed for the job to be complete; the others are then stopped."""
    queue: Subdomain = Field(default="default", json_schema_extra={"x-volcanopy-no-default": True})
    """The queue that the job waits in and is accounted to; chosen by admission, or `default`, if not given."""
    priority_class_name: str = Field(default="", max_length=253)
    """PriorityClass of the job, and of its pods where their template names none."""
    scheduler_name: str = Field(default="volcanopy", max_length=63)
    """Scheduler of the pods whose template names none."""
    policies: Policies = Field(default_factory=list)
    """What to do when something happens to a pod, a task or the job."""
    plugins: dict[str, list[str]] = Field(default_factory=dict, max_length=32)
    """What prepares the pods for each other: plugin names (env, svc, ssh, ...) with their arguments."""
    max_retry: Int32 = Field(default=3, ge=0)
    """How many restarts end the job as failed: at the first with 1, at the third with 3."""
    ttl_seconds_after_finished: Int32 | None = Field(default=None, ge=0)
    """How many seconds after its end the job is deleted; never if not given."""
    volumes: list[VolumeSpec] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["mountPath"]},
    )
    """Volumes that every container of every pod mounts."""
    network_topology: NetworkTopology | None = None
    """How close together the pods of the job must run."""
    running_estimate: Duration | None = None
    """How long the job is expected to run, such as 30m; said for people and for schedulers that plan ahead."""

    rules = (
        Rule(
            "!has(self.minAvailable) || self.minAvailable <= self.tasks.map(t, t.replicas).sum()",
            "minAvailable cannot be more than the replicas of all tasks together",
            ".minAvailable",
        ),
        Rule(
            "!has(self.minSuccess) || self.minSuccess <= self.tasks.map(t, t.replicas).sum()",
            "minSuccess cannot be more than the replicas of all tasks together",
            ".minSuccess",
        ),
        Rule(
            "[self.tasks.map(t, t.name)].all(names, self.tasks.all(t,"
            " !has(t.dependsOn) || !has(t.dependsOn.name) || t.dependsOn.name.all(d, d in names)))",
            "dependsOn names a task that the job does not have",
            ".tasks",
        ),
        Rule(
            "self.tasks.size() == oldSelf.tasks.size() && self.tasks.all(t, oldSelf.tasks.exists(o, o.name == t.name))",
            "tasks cannot be added, removed or renamed in a job that exists: make a new job",
            ".tasks",
        ),
        *_fixed("queue", "schedulerName", "minSuccess", "policies", "plugins", "maxRetry", "ttlSecondsAfterFinished"),
        *_fixed("volumes", "networkTopology", "runningEstimate"),
    )

    @property
    def replicas(self) -> int:
        """How many pods the job has."""
        return sum(task.replicas for task in self.tasks)

    @property
    def needed(self) -> int:
        """How many pods must be able to run at once before any is started."""
        return self.min_available or sum(task.needed for task in self.tasks)

    def task(self, name: str) -> TaskSpec | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)


class JobState(Model):
    """Where the job stands, and why."""

    phase: Phase | None = None
    """Where the job stands in its life."""
    reason: str = ""
    """One word for why."""
    message: str = ""
    """One sentence for why."""
    last_transition_time: Time | None = None
    """Since when the job has been in this phase."""


class TaskCounts(Model):
    """Pods of a task."""

    phase: dict[str, Int32] = Field(default_factory=dict)
    """Number of pods by pod phase; pods on their way out are not counted."""


class Restart(Model):
    """Pods that are being replaced: those of an earlier try than `before`, of the job, a task, a partition or one."""

    before: Int32
    """Pods made when the retry count was lower than this are replaced."""
    task: str = ""
    """Task of the pods; empty means the whole job."""
    partition: str = ""
    """Partition of the pods; empty means the whole task."""
    pod: str = ""
    """Name of the one pod."""


class DelayedAction(Model):
    """An action of a policy with a timeout, waiting for its time."""

    action: Action
    """What will be done."""
    event: Event
    """Why."""
    due: Time
    """When."""
    task: str = ""
    """Task that it happened to."""
    partition: str = ""
    """Partition that it happened to."""
    pod: str = ""
    """Name of the pod that it happened to."""
    uid: str = ""
    """Identity of that pod."""


class BatchJobStatus(Model):
    """What has become of the job; written by the job controller."""

    state: JobState = JobState()
    """Where the job stands, and why."""
    conditions: list[Condition] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """One for each phase that the job has been in, the latest last; True for the one that it is in now."""
    observed_generation: Int64 = 0
    """The generation of the spec that this status speaks of."""
    min_available: Int32 = 0
    """How many pods must be able to run at once."""
    pending: Int32 = 0
    """Number of pods that have not started."""
    running: Int32 = 0
    """Number of running pods."""
    succeeded: Int32 = 0
    """Number of pods that have ended well."""
    failed: Int32 = 0
    """Number of pods that have failed."""
    terminating: Int32 = 0
    """Number of pods on their way out."""
    unknown: Int32 = 0
    """Number of pods that cannot be heard of."""
    task_status_count: dict[str, TaskCounts] = Field(default_factory=dict)
    """Pods by task and pod phase."""
    version: Int32 = 0
    """How often the pods of the job have been stopped as a whole."""
    retry_count: Int32 = 0
    """How often the job, or a part of it, has been restarted."""
    running_duration: Duration | None = None
    """How long the job ran, once it is finished."""
    controlled_resources: dict[str, str] = Field(default_factory=dict)
    """What was made for the job besides its pods."""
    pod_group_unknown: Bool = False
    """Whether the job's PodGroup was in phase Unknown when last looked at."""
    restarts: list[Restart] = Field(default_factory=list)
    """Pods that are being replaced."""
    delayed: list[DelayedAction] = Field(default_factory=list)
    """Actions that wait for their time."""
    last_command: str = ""
    """Identity of the last Command that was carried out."""


class BatchJob(Model):
    """Pods of one or several kinds that are started together, belong together, and run to an end."""

    api_version: Literal["batch.volcanopy.io/v1alpha1"] = "batch.volcanopy.io/v1alpha1"
    kind: Literal["BatchJob"] = "BatchJob"
    metadata: ObjectMeta
    spec: BatchJobSpec
    """What is to run."""
    status: BatchJobStatus = BatchJobStatus()
    """What has become of it."""

    rules = (
        Rule(
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "the name of a job may hold lower case letters, digits and '-' only: its pods are addressed by it",
        ),
        Rule(
            "self.spec.tasks.all(t, t.replicas == 0 ||"
            " size(self.metadata.name) + size(t.name) + 2 + (t.replicas > 100000 ? 6 : t.replicas > 10000 ? 5 :"
            " t.replicas > 1000 ? 4 : t.replicas > 100 ? 3 : t.replicas > 10 ? 2 : 1) <= 63)",
            "pod names, <job>-<task>-<index>, can have at most 63 characters: shorten the name of the job or task",
        ),
    )
