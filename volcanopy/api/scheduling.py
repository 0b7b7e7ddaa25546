"""Full models of PodGroup and Queue (``scheduling.volcanopy.io/v1beta1``)."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from volcanopy.api.alternatives import PodGroupAlternative, SelectedAlternative
from volcanopy.api.gates import GATES
from volcanopy.api.model import (
    ATOMIC,
    NO_DEFAULT,
    Bool,
    Condition,
    Int32,
    LabelSelector,
    Model,
    ObjectMeta,
    ResourceList,
    Rule,
    Subdomain,
    Time,
    keyed,
)

ServiceAccountName = Annotated[
    str, Field(max_length=317, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$")
]
"""A service account as ``namespace/name``, or ``namespace/*`` for all service accounts of a namespace."""


Credit = Annotated[str, Field(max_length=32, pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
"""A number of seconds with an optional fraction, as text."""

Usage = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")]
"""An amount of a resource multiplied by seconds, with an optional fraction, as text."""

Fraction = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")]
"""A part of a whole, as text."""


class NetworkTopology(Model):
    """Network topology constraint of pods that run together."""

    mode: Literal["hard", "soft"] = "hard"
    """Whether the constraint is required (hard) or preferred (soft). Defaults to hard."""
    highest_tier_allowed: Int32 | None = Field(default=None, ge=0)
    """Highest network tier that the pods may span, as a number. Mutually exclusive with highestTierName."""
    highest_tier_name: str = Field(default="", max_length=253)
    """Highest network tier that the pods may span, by name. Mutually exclusive with highestTierAllowed."""

    rules = (
        Rule(
            "!(has(self.highestTierAllowed) && has(self.highestTierName) && self.highestTierName != '')",
            "highestTierAllowed and highestTierName are mutually exclusive: remove one of them",
        ),
    )


class SubGroupPolicy(Model):
    """Division of the pods of a PodGroup into sub-groups that are scheduled as gangs."""

    name: str = Field(default="", max_length=253)
    """Name of the policy."""
    network_topology: NetworkTopology | None = None
    """Network topology constraint of the pods of each sub-group."""
    sub_group_size: Int32 = Field(default=1, ge=1)
    """Number of pods in a sub-group. Defaults to 1."""
    min_sub_groups: Int32 = Field(default=0, ge=0)
    """Minimum number of sub-groups that must be placed for the PodGroup to start. Defaults to 0."""
    label_selector: LabelSelector | None = None
    """Label selector of the pods that the policy applies to. Defaults to all pods of the PodGroup."""
    match_label_keys: list[str] = Field(default_factory=list, max_length=16, json_schema_extra=ATOMIC)
    """Label keys of the pods. Pods with equal values of these labels form one sub-group."""


class PodGroupSpec(Model):
    """Specification of a PodGroup."""

    min_member: Int32 = Field(default=0, ge=0)
    """Minimum number of pods that must be placed together. Defaults to 0."""
    min_task_member: dict[str, Int32] = Field(default_factory=dict)
    """Minimum number of pods by task that must be placed together."""
    queue: Subdomain = Field(default="default", json_schema_extra=NO_DEFAULT)
    """Name of the queue that the PodGroup is submitted to. Set by admission if not given; otherwise defaults to `default`."""
    priority_class_name: str = Field(default="", max_length=253)
    """Name of the PriorityClass of the PodGroup."""
    min_resources: ResourceList | None = None
    """Total resource requests of the minimum number of pods."""
    network_topology: NetworkTopology | None = None
    """Network topology constraint of the pods."""
    sub_group_policy: list[SubGroupPolicy] = Field(default_factory=list, max_length=128, json_schema_extra=ATOMIC)
    """Division of the pods into sub-groups that are scheduled as gangs."""
    alternatives: list[PodGroupAlternative] = Field(default_factory=list, max_length=8, json_schema_extra=keyed("name"))
    """Alternatives, of which the scheduler selects one when it admits the PodGroup."""


class PodGroupPhase(StrEnum):
    """Phase of a PodGroup."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class PodGroupCondition(Condition):
    """Condition of a PodGroup."""

    transition_id: str = Field(default="", max_length=253, alias="transitionID")
    """ID of the scheduling session that set the condition."""


class Explanation(Model):
    """Reason why a PodGroup is unschedulable, in structured form. The Unschedulable condition contains the message."""

    gate: str = Field(
        default="", max_length=63, description=f"First gate that the PodGroup does not pass: {', '.join(GATES)}."
    )
    message: str = Field(default="", max_length=32768)
    """Human-readable message."""
    unblocked_by: str = Field(default="", max_length=32768)
    """Smallest change after which the PodGroup passes the gate, as computed by the scheduler. `volcanopy explain` verifies it by
    simulation."""
    numbers: dict[str, str] = Field(default_factory=dict)
    """Numbers and names in the message, by key, such as `position`: the position in the queue."""
    nodes: dict[str, Int32] = Field(default_factory=dict)
    """Number of nodes rejected, by reason."""
    amounts: dict[str, ResourceList] = Field(default_factory=dict)
    """Amounts by resource: requested, allocated, reserved, tentative, limit, available, fairShare, borrowingLimit."""
    blocked_by: list[str] = Field(default_factory=list, max_length=64, json_schema_extra=ATOMIC)
    """Jobs (`job namespace/name`) and queues (`queue name`) that block the PodGroup."""


class PodMove(Model):
    """A pod that was evicted to run on another node, where its request is reserved until it runs there."""

    pod: str = Field(max_length=253)
    """Name of the pod."""
    node: str = Field(max_length=253)
    """Name of the other node."""
    requests: ResourceList = Field(default_factory=dict)
    """Reserved resources."""


class EstimatedStart(Model):
    """Estimated start of a waiting job."""

    time: Time | None = None
    """Estimated time of the start. Not set if it is unknown."""
    basis: str = Field(default="", max_length=63)
    """Least certain of the run times that the estimate is based on: walltime (activeDeadlineSeconds), estimate
    (runningEstimate), learnt (from earlier jobs) or overdue (a job has run longer than estimated, so that its
    estimate was doubled); now if the job waits for the end of no other job."""
    message: str = Field(default="", max_length=1024)
    """Reason why the time is unknown."""


class PodGroupStatus(Model):
    """Observed status of a PodGroup, set by the scheduler."""

    phase: PodGroupPhase | None = None
    """Phase of the PodGroup."""
    conditions: list[PodGroupCondition] = Field(default_factory=list, json_schema_extra=keyed("type"))
    """Conditions of the PodGroup: Unschedulable, Scheduled."""
    running: Int32 = Field(default=0, ge=0)
    """Number of running pods."""
    succeeded: Int32 = Field(default=0, ge=0)
    """Number of succeeded pods."""
    failed: Int32 = Field(default=0, ge=0)
    """Number of failed pods."""
    explanation: Explanation | None = None
    """Reason why the PodGroup is unschedulable. Not set when it is scheduled."""
    estimated_start: EstimatedStart | None = None
    """Estimated start of a waiting PodGroup, computed from the expected ends of jobs, at most once a minute."""
    moves: list[PodMove] = Field(default_factory=list, max_length=256, json_schema_extra=ATOMIC)
    """Pods that are moved to other nodes, so that another gang starts."""
    moved_at: Time | None = None
    """Time when pods were last moved."""
    evicted_since: Time | None = None
    """Time of the first eviction of pods for another job. The condition Evicted records the last one."""
    evicted_seconds: Int32 = Field(default=0, ge=0)
    """Running time of evicted runs, and 30 minutes for each series of evictions. It is added when victims are compared."""
    alternative: SelectedAlternative | None = None
    """Alternative that the scheduler selected."""
    admitted_at: Time | None = None
    """Time of the last admission (phase Inqueue)."""
    ready_resources: ResourceList | None = None
    """Requests of the pods with nodes when the required pods last had nodes. A gang that runs below its minimum comes first while
    it needs no more than this."""


class PodGroup(Model):
    """A group of pods that are scheduled together (gang scheduling)."""

    api_version: Literal["scheduling.volcanopy.io/v1beta1"] = "scheduling.volcanopy.io/v1beta1"
    kind: Literal["PodGroup"] = "PodGroup"
    metadata: ObjectMeta
    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    """Specification of the PodGroup."""
    status: PodGroupStatus = Field(default_factory=PodGroupStatus)
    """Phase of the PodGroup."""


class Guarantee(Model):
    """Resources guaranteed to a queue."""

    resource: ResourceList = Field(default_factory=dict)
    """Guaranteed amounts by resource."""


class GroupAffinity(Model):
    """Required and preferred node groups of a queue."""

    required_during_scheduling_ignored_during_execution: list[str] = Field(default_factory=list)
    """Names of required node groups."""
    preferred_during_scheduling_ignored_during_execution: list[str] = Field(default_factory=list)
    """Names of preferred node groups."""


class QueueAffinity(Model):
    """Node group affinity of a queue."""

    node_group_affinity: GroupAffinity | None = None
    """Node groups that the pods of the queue run on."""
    node_group_anti_affinity: GroupAffinity | None = None
    """Node groups that the pods of the queue do not run on."""


class Subjects(Model):
    """Users, groups, service accounts and namespaces. A request matches if it matches an entry of any list."""

    users: list[str] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Names of users. `*` matches every user."""
    groups: list[str] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Names of user groups."""
    service_accounts: list[ServiceAccountName] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Service accounts as namespace/name. namespace/* matches all service accounts of a namespace."""
    namespaces: list[Subdomain] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Names of namespaces. An entry matches jobs created in the namespace and its service accounts."""


class QueueLimit(Model):
    """Limits of users and groups in a queue and its descendants.

    A user is subject to the first entry that names the user, otherwise to the first entry that names `*`. In addition, a
    user is subject to the first entry that names one of the user's groups; all members of the group share its limits.
    """

    users: list[str] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Names of users that the limits apply to individually. `*` matches every user that no entry names."""
    groups: list[str] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Names of user groups that the limits apply to. The members of a group share the limits."""
    resources: ResourceList | None = None
    """Maximum resources allocated to their pods. Resources that are not named are unlimited."""
    max_running_jobs: Int32 | None = Field(default=None, ge=0)
    """Maximum number of their jobs that are admitted at the same time. Unlimited if not given."""
    max_queued_jobs: Int32 | None = Field(default=None, ge=0)
    """Maximum number of their jobs that wait for admission. Unlimited if not given."""

    rules = (
        Rule(
            "(has(self.users) && size(self.users) > 0) || (has(self.groups) && size(self.groups) > 0)",
            "at least one of users and groups must be set",
        ),
    )


class StopPolicy(StrEnum):
    """Stop policy of a queue."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueueSpec(Model):
    """Specification of a queue."""

    weight: Int32 = Field(default=1, ge=1, le=65535)
    """Weight of the queue relative to its siblings. Defaults to 1."""
    capability: ResourceList | None = None
    """Maximum resources allocated to the queue. Resources that are not named are unlimited."""
    deserved: ResourceList | None = None
    """Deserved resources of the queue. Lent to other queues while unused, reclaimed when needed."""
    guarantee: Guarantee | None = None
    """Resources guaranteed to the queue, never lent to other queues."""
    borrowing_limit: ResourceList | None = None
    """Maximum resources allocated to the queue above its fair share. Resources that are not named are unlimited."""
    lending_limit: ResourceList | None = None
    """Maximum part of the fair share that is lent to other queues. Resources that are not named are lent without limit."""
    max_running_jobs: Int32 | None = Field(default=None, ge=0)
    """Maximum number of jobs admitted at the same time in the queue and its descendants. Unlimited if not given."""
    max_queued_jobs: Int32 | None = Field(default=None, ge=0)
    """Maximum number of jobs waiting for admission in the queue and its descendants. Unlimited if not given."""
    limits: list[QueueLimit] = Field(default_factory=list, max_length=256, json_schema_extra=ATOMIC)
    """Limits of users and groups in the queue and its descendants."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """Stop policy: None, Hold (no job is admitted in the queue and its descendants) or HoldAndDrain (running jobs are also
    evicted and wait again). Defaults to None."""
    reclaimable: Bool = True
    """Whether other queues may reclaim resources allocated above the fair share. Defaults to true."""
    parent: str = Field(default="", max_length=253, json_schema_extra={"pattern": r"^$|^[a-z0-9][-a-z0-9.]*$"})
    """Name of the parent queue. Defaults to `root`."""
    priority: Int32 = Field(default=0, ge=0)
    """Priority of the queue. Queues with a higher priority are scheduled first. Defaults to 0."""
    type: str = Field(default="", max_length=253)
    """Type of the queue, for information only."""
    affinity: QueueAffinity | None = None
    """Node group affinity of the pods of the queue."""
    dequeue_strategy: Literal["fifo", "traverse"] = "traverse"
    """Order of admission: fifo (a job that cannot start blocks the jobs behind it) or traverse (it is skipped). Defaults to
    traverse."""
    job_order: Literal["configured", "fifo", "priority", "fair", "usage"] = "configured"
    """Order of the jobs in the queue: configured (by the plugins of the scheduler configuration), fifo (oldest first), priority
    (highest first), fair (users share the queue equally) or usage (users with the smallest past usage first). Defaults to
    configured."""
    submitters: Subjects | None = None
    """Subjects that may submit jobs. Inherited from the nearest ancestor that sets it; if none does, every user may submit."""
    administrators: Subjects | None = None
    """Subjects that may change and delete the queue and its descendants, in addition to the administrators of its ancestors.
    If none is set, every user may."""


class QueueUser(Model):
    """Share of a user in a queue with jobOrder fair or usage."""

    name: str = Field(max_length=1024)
    """Name of the user. Empty for jobs without a known submitter."""
    allocated: ResourceList | None = None
    """Resources allocated to the pods of the user's jobs in the queue."""
    share: Fraction = "0"
    """Dominant share of the user's jobs: highest part of the cluster allocated to them over all resources, such as `0.25`."""
    fair_share: Fraction = "0"
    """Part of the cluster that would be allocated to the user if users shared the queue equally."""
    credit: Credit = "0"
    """What the user was allocated below the fair share, less what was allocated above it, in seconds of the whole cluster.
    Halves every day. Jobs are ordered by it with jobOrder fair."""
    usage: dict[str, Usage] = Field(default_factory=dict)
    """By resource, what the user was allocated in the queue multiplied by seconds, at creditTime. Halves every day. Jobs are
    ordered by it with jobOrder usage."""


class QueueState(StrEnum):
    """State of a queue."""

    OPEN = "Open"
    CLOSING = "Closing"
    CLOSED = "Closed"
    UNKNOWN = "Unknown"


class QueueStatus(Model):
    """Observed status of a queue, set by the scheduler and the queue controller."""

    state: QueueState | None = None
    """State of the queue. An open queue accepts new jobs."""
    allocated: ResourceList | None = None
    """Resources allocated to the pods of the queue and its descendants."""
    fair_share: ResourceList | None = None
    """Fair share of the queue, computed by the scheduler from `spec.deserved` or from weights, guarantees and requests."""
    guaranteed: ResourceList | None = None
    """Resources guaranteed to the queue and its descendants."""
    borrowed: ResourceList | None = None
    """Resources allocated above the fair share."""
    waiting: ResourceList | None = None
    """Resources requested by pods of the queue and its descendants that are not scheduled."""
    share: str = Field(default="", max_length=32)
    """Dominant share: highest ratio of allocated to fair share over all resources, such as `0.5`."""
    credit: dict[str, Credit] = Field(default_factory=dict)
    """By resource, what the queue was allocated below its fair share while its jobs waited, less what it was allocated
    above it at the expense of its siblings: in seconds of the whole cluster, such as `42.5`, negative above the share.
    Halves every day. Queues with credit are scheduled earlier, so that shares hold over time."""
    usage: dict[str, Usage] = Field(default_factory=dict)
    """By resource, what the queue and its descendants were allocated multiplied by seconds, such as core-seconds of `cpu`.
    Halves every day. `volcanopy usage --decayed` shows it beside the shares."""
    credit_time: Time | None = None
    """Time at which credit and usage were computed."""
    users: list[QueueUser] = Field(
        default_factory=list,
        max_length=256,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    """Shares of the users of a queue with jobOrder fair or usage."""
    pending: Int32 = Field(default=0, ge=0)
    """Number of PodGroups in phase Pending."""
    inqueue: Int32 = Field(default=0, ge=0)
    """Number of PodGroups in phase Inqueue."""
    running: Int32 = Field(default=0, ge=0)
    """Number of PodGroups in phase Running."""
    unknown: Int32 = Field(default=0, ge=0)
    """Number of PodGroups in phase Unknown."""
    completed: Int32 = Field(default=0, ge=0)
    """Number of PodGroups in phase Completed."""
    jobs: Int32 = Field(default=0, ge=0)
    """Number of BatchJobs that are neither finished nor suspended."""


class Queue(Model):
    """A queue that jobs are submitted to, with the resources that its jobs share."""

    api_version: Literal["scheduling.volcanopy.io/v1beta1"] = "scheduling.volcanopy.io/v1beta1"
    kind: Literal["Queue"] = "Queue"
    metadata: ObjectMeta
    spec: QueueSpec = Field(default_factory=QueueSpec)
    """Specification of the queue."""
    status: QueueStatus = Field(default_factory=QueueStatus)
    """Observed status of the queue."""

    rules = (
        Rule(
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "must not be its own parent",
            ".spec",
        ),
        Rule(
            "self.metadata.name != 'root' || !has(self.spec) || !has(self.spec.stopPolicy) || self.spec.stopPolicy == 'None'",
            "the root queue must not be stopped: stop its child queues",
            ".spec.stopPolicy",
        ),
    )
