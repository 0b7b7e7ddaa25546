"""Read models of pods, nodes, priority classes and namespaces, and of what :mod:`volcanopy.api.scheduling` defines in full."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import field

from volcanopy.api import names
from volcanopy.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from volcanopy.api.alternatives_read import Alternative, AlternativeTask, SelectedAlternative
from volcanopy.api.container_states import ContainerStatus, ResourceRequirements
from volcanopy.api.read_model import (
    Condition,
    Labels,
    LabelSelector,
    Meta,
    OwnerReference,
    PodMove,
    Quantities,
    ReadModel,
    Requirement,
)

__all__ = [
    "Affinity",
    "Alternative",
    "AlternativeTask",
    "Condition",
    "ContainerStatus",
    "LabelSelector",
    "Labels",
    "Meta",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "OwnerReference",
    "PodAffinity",
    "PodAffinityTerm",
    "PodMove",
    "PreferredNodeTerm",
    "Quantities",
    "ReadModel",
    "Requirement",
    "ResourceRequirements",
    "SelectedAlternative",
    "Toleration",
    "TopologySpreadConstraint",
    "WeightedPodAffinityTerm",
]


class ContainerPort(ReadModel, frozen=True, kw_only=True, gc=False):
    """Port of a container. Only host ports matter to scheduling."""

    host_port: int = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = "TCP"


class Container(ReadModel, frozen=True, kw_only=True, gc=False):
    """A container; an init container with restart policy ``Always`` is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class SchedulingGate(ReadModel, frozen=True, kw_only=True, gc=False):
    """Scheduling gate of a pod."""

    name: str


class ClaimSource(ReadModel, frozen=True, kw_only=True, gc=False):
    """Reference to a PersistentVolumeClaim."""

    claim_name: str = ""
    read_only: bool = False


class Volume(ReadModel, frozen=True, kw_only=True, gc=False):
    """Volume of a pod. Only volumes that may restrict the choice of nodes are read."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None

    @property
    def claims(self) -> bool:
        """Whether the volume is backed by a claim, existing or ephemeral."""
        return self.persistent_volume_claim is not None or self.ephemeral is not None

    @property
    def is_disk(self) -> bool:
        """Whether the volume is a disk that two pods on a node must not both write."""
        disks = (self.gce_persistent_disk, self.aws_elastic_block_store, self.iscsi, self.rbd)
        return any(disk is not None for disk in disks)


class PodResourceClaim(ReadModel, frozen=True, kw_only=True, gc=False):
    """Reference to a ResourceClaim or its template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    node_selector: Labels = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Quantities = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class PodClaimStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """ResourceClaim generated for a pod from a template. Without a name, none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    pod_ip: str = field(name="podIP", default="")
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()


class Pod(ReadModel, frozen=True, kw_only=True, gc=False):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(ReadModel, frozen=True, kw_only=True, gc=False):
    """Taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class Image(ReadModel, frozen=True, kw_only=True, gc=False):
    """Container image present on a node."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Status of a node. Capacity and allocatable are resource lists."""

    capacity: Quantities = field(default_factory=dict)
    allocatable: Quantities = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    images: tuple[Image, ...] = ()


class Node(ReadModel, frozen=True, kw_only=True, gc=False):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PriorityClass(ReadModel, frozen=True, kw_only=True, gc=False):
    """A named priority."""

    metadata: Meta
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class Namespace(ReadModel, frozen=True, kw_only=True, gc=False):
    """A namespace."""

    metadata: Meta


class Guarantee(ReadModel, frozen=True, kw_only=True, gc=False):
    """Resources guaranteed to a queue."""

    resource: Quantities = field(default_factory=dict)


class QueueLimit(ReadModel, frozen=True, kw_only=True, gc=False):
    """Limits of users and groups in a queue and its descendants."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: Quantities = field(default_factory=dict)
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None


class Subjects(ReadModel, frozen=True, kw_only=True, gc=False):
    """Users, groups, service accounts and namespaces."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class QueueSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a queue."""

    weight: int = 1
    capability: Quantities = field(default_factory=dict)
    deserved: Quantities = field(default_factory=dict)
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    priority: int = 0
    parent: str = ""
    affinity: dict[str, Any] | None = None
    dequeue_strategy: str = "traverse"
    job_order: str = "configured"
    borrowing_limit: Quantities = field(default_factory=dict)
    lending_limit: Quantities = field(default_factory=dict)
    stop_policy: str = "None"
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None
    limits: tuple[QueueLimit, ...] = ()
    type: str = ""
    submitters: Subjects | None = None
    administrators: Subjects | None = None


class QueueUser(ReadModel, frozen=True, kw_only=True, gc=False):
    """Share of a user in a queue with jobOrder fair or usage."""

    name: str
    allocated: Quantities = field(default_factory=dict)
    share: str = "0"
    fair_share: str = "0"
    credit: str = "0"
    usage: dict[str, str] = field(default_factory=dict)


class QueueStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a queue."""

    state: str = ""
    allocated: Quantities = field(default_factory=dict)
    fair_share: Quantities = field(default_factory=dict)
    guaranteed: Quantities = field(default_factory=dict)
    borrowed: Quantities = field(default_factory=dict)
    waiting: Quantities = field(default_factory=dict)
    share: str = ""
    credit: dict[str, str] = field(default_factory=dict)
    usage: dict[str, str] = field(default_factory=dict)
    credit_time: datetime | None = None
    users: tuple[QueueUser, ...] = ()
    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0
    jobs: int = 0


class Queue(ReadModel, frozen=True, kw_only=True, gc=False):
    """A queue."""

    api_version: str = names.SCHEDULING_V1BETA1
    metadata: Meta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class NetworkTopology(ReadModel, frozen=True, kw_only=True, gc=False):
    """Network topology constraint."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ReadModel, frozen=True, kw_only=True, gc=False):
    """Division of the pods of a PodGroup into sub-groups."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a PodGroup."""

    min_member: int = 0
    min_task_member: dict[str, int] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()
    alternatives: tuple[Alternative, ...] = ()


class Explanation(ReadModel, frozen=True, kw_only=True, gc=False):
    """Reason why a PodGroup is unschedulable, in structured form."""

    gate: str = ""
    message: str = ""
    unblocked_by: str = ""
    numbers: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    amounts: dict[str, Quantities] = field(default_factory=dict)
    blocked_by: tuple[str, ...] = ()


def position_of(numbers: Mapping[str, str]) -> int:
    """Return the position in the queue from the numbers of an explanation, from 1; 0 if there is none."""
    position = numbers.get("position", "")
    return int(position) if position.isdecimal() else 0


class EstimatedStart(ReadModel, frozen=True, kw_only=True, gc=False):
    """Estimated start of a waiting job."""

    time: datetime | None = None
    basis: str = ""
    message: str = ""


class PodGroupStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a PodGroup."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    explanation: Explanation | None = None
    estimated_start: EstimatedStart | None = None
    moves: tuple[PodMove, ...] = ()
    moved_at: datetime | None = None
    evicted_since: datetime | None = None
    evicted_seconds: int = 0
    alternative: SelectedAlternative | None = None
    admitted_at: datetime | None = None


class PodGroup(ReadModel, frozen=True, kw_only=True, gc=False):
    """A group of pods that are scheduled together."""

    api_version: str = names.SCHEDULING_V1BETA1
    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def selected(self) -> Alternative | None:
        """The alternative that it was admitted with, until the controller has merged it into the spec; else None."""
        alternatives, chosen = self.spec.alternatives, self.status.alternative
        if not alternatives or chosen is None:
            return None
        return next((each for each in alternatives if each.name == chosen.name), None)

    @property
    def min_resources(self) -> Quantities | None:
        """What its minimum of pods requests, with the selected alternative."""
        selected = self.selected
        return self.spec.min_resources if selected is None else selected.min_resources
