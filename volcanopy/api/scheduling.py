"""PodGroup and Queue: what the scheduler works with (``scheduling.volcanopy.io/v1beta1``)."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from volcanopy.api.gates import GATES
from volcanopy.api.meta import Condition, LabelSelector, ObjectMeta
from volcanopy.api.model import Bool, Int32, Model, ResourceList, Rule, Subdomain

ServiceAccountName = Annotated[
    str, Field(max_length=317, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$")
]
"""A service account as ``namespace/name``, or ``namespace/*`` for all of a namespace."""


class NetworkTopology(Model):
    """How close together pods must run in the network."""

    mode: Literal["hard", "soft"] = "hard"
    """Whether closeness is demanded (hard) or preferred (soft)."""
    highest_tier_allowed: Int32 | None = Field(default=None, ge=0)
    """The highest tier of the network that the pods may span, as a number."""
    highest_tier_name: str = Field(default="", max_length=253)
    """The highest tier of the network that the pods may span, by name."""

    rules = (
        Rule(
            "!(has(self.highestTierAllowed) && has(self.highestTierName) && self.highestTierName != '')",
            "the highest tier is given by number or by name: leave out highestTierAllowed or highestTierName",
        ),
    )


class SubGroupPolicy(Model):
    """How pods of a group divide into sub-groups that are gangs themselves."""

    name: str = Field(default="", max_length=253)
    """Name of this division."""
    network_topology: NetworkTopology | None = None
    """How close together the pods of a sub-group must run."""
    sub_group_size: Int32 = Field(default=1, ge=1)
    """How many pods a sub-group has."""
    min_sub_groups: Int32 = Field(default=0, ge=0)
    """How many sub-groups are needed to start."""
    label_selector: LabelSelector | None = None
    """Which pods this division is about; all if not given."""
    match_label_keys: list[str] = Field(
        default_factory=list, max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Pods with the same values of these labels form one sub-group."""


class PodGroupSpec(Model):
    """What a gang needs to start."""

    min_member: Int32 = Field(default=0, ge=0)
    """How many pods must be able to run at once before any is started."""
    min_task_member: dict[str, Int32] = Field(default_factory=dict)
    """How many of them each task must contribute."""
    queue: Subdomain = Field(default="default", json_schema_extra={"x-volcanopy-no-default": True})
    """The queue that the group waits in and is accounted to; chosen by admission, or `default`, if not given."""
    priority_class_name: str = Field(default="", max_length=253)
    """PriorityClass of the group."""
    min_resources: ResourceList | None = None
    """What the pods that are needed to start ask for together."""
    network_topology: NetworkTopology | None = None
    """How close together the pods must run."""
    sub_group_policy: list[SubGroupPolicy] = Field(
        default_factory=list, max_length=128, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """How the pods divide into sub-groups that are gangs themselves."""


class PodGroupPhase(StrEnum):
    """Where a gang stands: waiting for admission, admitted, running, in doubt, over."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class PodGroupCondition(Condition):
    """One thing that holds of a gang, or does not, since when and why."""

    transition_id: str = Field(default="", max_length=253, alias="transitionID")
    """The scheduling session that found it so."""


class Explanation(Model):
    """Why a gang waits, for programs; the condition `Unschedulable` says it in a sentence."""

    gate: str = Field(
        default="", max_length=63, description=f"The first gate that the gang does not pass: {', '.join(GATES)}."
    )
    message: str = Field(default="", max_length=32768)
    """The sentence for people."""
    unblock: str = Field(default="", max_length=32768)
    """The least that would let the gang start."""
    numbers: dict[str, str] = Field(default_factory=dict)
    """What the sentence rests on, by name."""
    nodes: dict[str, Int32] = Field(default_factory=dict)
    """How many nodes refuse, by reason."""
    amounts: dict[str, ResourceList] = Field(default_factory=dict)
    """Quantities by resource of what is wanted, held, free, and the limit."""
    ahead: list[str] = Field(
        default_factory=list, max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Whom the gang waits for: `job namespace/name` or `queue name`."""


class PodGroupStatus(Model):
    """Where a gang stands; written by the scheduler."""

    phase: PodGroupPhase | None = None
    """Where the gang stands."""
    conditions: list[PodGroupCondition] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Unschedulable (and why), Scheduled."""
    running: Int32 = Field(default=0, ge=0)
    """Number of running pods."""
    succeeded: Int32 = Field(default=0, ge=0)
    """Number of pods that have ended well."""
    failed: Int32 = Field(default=0, ge=0)
    """Number of pods that have failed."""
    explanation: Explanation | None = None
    """Why the gang waits; absent when it does not."""


class PodGroup(Model):
    """Pods that are started together or not at all."""

    api_version: Literal["scheduling.volcanopy.io/v1beta1"] = "scheduling.volcanopy.io/v1beta1"
    kind: Literal["PodGroup"] = "PodGroup"
    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    """What the gang needs to start."""
    status: PodGroupStatus = PodGroupStatus()
    """Where the gang stands."""


class Guarantee(Model):
    """What a queue keeps for itself, even when it is idle."""

    resource: ResourceList = Field(default_factory=dict)
    """Amounts by resource."""


class GroupAffinity(Model):
    """Node groups that a queue must use or avoid, and those that it would rather."""

    required_during_scheduling_ignored_during_execution: list[str] = Field(default_factory=list)
    """Names of node groups, as a demand."""
    preferred_during_scheduling_ignored_during_execution: list[str] = Field(default_factory=list)
    """Names of node groups, as a wish."""


class QueueAffinity(Model):
    """Which groups of nodes the pods of a queue run on."""

    node_group_affinity: GroupAffinity | None = None
    """Groups to run on."""
    node_group_anti_affinity: GroupAffinity | None = None
    """Groups to stay away from."""


class Subjects(Model):
    """People and programs: everyone whom one of the lists names."""

    users: list[str] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Names of users, as the API server knows them; `*` is everybody."""
    groups: list[str] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Names of groups of users."""
    service_accounts: list[ServiceAccountName] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Service accounts, each as namespace/name; namespace/* is all of a namespace."""
    namespaces: list[Subdomain] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Namespaces: whoever may make a job in one of them, and the service accounts that live there."""


class QueueLimit(Model):
    """The most that some of a queue's users, or a group of them together, may have in it and in the queues below it.

    A user's limits are those of the first entry that names the user, or else of the first that names `*`. A group's are
    those of the first entry that names one of the user's groups, in the order of the entries; all of its members share
    them. Where a user's and a group's limits both apply, both are kept.
    """

    users: list[str] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Names of users, each of whom has these limits alone; `*` is every user whom no entry names."""
    groups: list[str] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Names of groups of users, whose members have these limits together."""
    resources: ResourceList | None = None
    """The most that their pods may hold; without limit where a resource is not named."""
    max_running_jobs: Int32 | None = Field(default=None, ge=0)
    """How many of their jobs may be admitted at once."""
    max_queued_jobs: Int32 | None = Field(default=None, ge=0)
    """How many of their jobs may wait at once."""

    rules = (
        Rule(
            "(has(self.users) && size(self.users) > 0) || (has(self.groups) && size(self.groups) > 0)",
            "a limit is somebody's: name users or groups",
        ),
    )


class StopPolicy(StrEnum):
    """Whether a queue is stopped for a while, and what becomes of the jobs that run in it."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueueSpec(Model):
    """A queue's claim on the cluster."""

    weight: Int32 = Field(default=1, ge=1, le=65535)
    """Share of the cluster relative to the other queues."""
    capability: ResourceList | None = None
    """The most that the queue may ever hold; without limit where a resource is not named."""
    deserved: ResourceList | None = None
    """What the queue is due: lent to others while it is idle, taken back when it is not."""
    guarantee: Guarantee | None = None
    """What the queue keeps for itself even when it is idle."""
    borrowing_limit: ResourceList | None = None
    """The most that the queue may hold above what it deserves; without limit where a resource is not named."""
    lending_limit: ResourceList | None = None
    """The most of what it deserves that others may use while it is idle; all of it where a resource is not named."""
    max_running_jobs: Int32 | None = Field(default=None, ge=0)
    """How many jobs may be admitted at once in this queue and those below it; without limit if not given."""
    max_queued_jobs: Int32 | None = Field(default=None, ge=0)
    """How many jobs may wait at once in this queue and those below it; without limit if not given."""
    limits: list[QueueLimit] = Field(
        default_factory=list, max_length=256, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """What users and groups may have in this queue and those below it, at most."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """Hold: nothing new is admitted here and below. HoldAndDrain: what runs is evicted as well, and waits again."""
    reclaimable: Bool = True
    """Whether other queues may take back what this one holds above its share."""
    parent: str = Field(default="", max_length=253, json_schema_extra={"pattern": r"^$|^[a-z0-9][-a-z0-9.]*$"})
    """The queue that this one is a part of; `root` if not given."""
    priority: Int32 = Field(default=0, ge=0)
    """Queues of a higher priority are served first."""
    priority_offset: Int32 = Field(default=0, ge=-1000000000, le=1000000000)
    """What is added to the priority of the queue's jobs where they are compared with those of other queues."""
    priority_fence: Bool = True
    """Whether the jobs' own priorities stay inside: outside, all of them have the queue's offset as their priority."""
    type: str = Field(default="", max_length=253)
    """A word for what the queue is used for; without effect on scheduling."""
    affinity: QueueAffinity | None = None
    """Which groups of nodes the pods of the queue run on."""
    dequeue_strategy: Literal["fifo", "traverse"] = "traverse"
    """Whether a job that cannot start holds back those behind it (fifo) or not (traverse)."""
    submitters: Subjects | None = None
    """Who may submit jobs; those of the nearest queue above that says so if not given, everybody if none does."""
    administrators: Subjects | None = None
    """Who may change and delete this queue and those below it, beside those who may so further up; all if none is named."""


class QueueState(StrEnum):
    """Whether a queue takes new jobs."""

    OPEN = "Open"
    CLOSING = "Closing"
    CLOSED = "Closed"
    UNKNOWN = "Unknown"


class QueueStatus(Model):
    """What a queue holds; written by the scheduler and the queue controller."""

    state: QueueState | None = None
    """Whether the queue takes new jobs."""
    allocated: ResourceList | None = None
    """What the pods of the queue and of its children hold."""
    deserved: ResourceList | None = None
    """What the queue is due now, as the scheduler has worked it out."""
    guaranteed: ResourceList | None = None
    """What is kept for the queue and its children, whether they use it or not."""
    borrowed: ResourceList | None = None
    """What the queue holds above what it is due."""
    waiting: ResourceList | None = None
    """What jobs of the queue and of its children ask for and have not been given."""
    share: str = Field(default="", max_length=32)
    """How much of what it is due the queue holds, of the resource where that is most: `0.5` is half."""
    pending: Int32 = Field(default=0, ge=0)
    """Number of pod groups that wait for admission."""
    inqueue: Int32 = Field(default=0, ge=0)
    """Number of pod groups that are admitted and do not run yet."""
    running: Int32 = Field(default=0, ge=0)
    """Number of pod groups that run."""
    unknown: Int32 = Field(default=0, ge=0)
    """Number of pod groups of which some pods run and others have no place."""
    completed: Int32 = Field(default=0, ge=0)
    """Number of pod groups that are over."""
    jobs: Int32 = Field(default=0, ge=0)
    """Number of BatchJobs that have not come to their end and are not suspended."""


class Queue(Model):
    """A line that jobs wait in, with a claim on the cluster that its jobs share."""

    api_version: Literal["scheduling.volcanopy.io/v1beta1"] = "scheduling.volcanopy.io/v1beta1"
    kind: Literal["Queue"] = "Queue"
    metadata: ObjectMeta
    spec: QueueSpec = QueueSpec()
    """The queue's claim on the cluster."""
    status: QueueStatus = QueueStatus()
    """What the queue holds."""

    rules = (
        Rule(
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a queue cannot be its own parent",
            ".spec",
        ),
        Rule(
            "self.metadata.name != 'root' || !has(self.spec) || !has(self.spec.stopPolicy) || self.spec.stopPolicy == 'None'",
            "the root queue cannot be stopped: stop the queues below it",
            ".spec.stopPolicy",
        ),
    )
