"""Read models of pods, nodes, priority classes and namespaces, and those of PodGroups and queues under one name."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import field

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
from volcanopy.api.alternatives_read import PodGroupAlternative, PodGroupAlternativeTask, SelectedAlternative
from volcanopy.api.container_states import ContainerStatus, ResourceRequirements
from volcanopy.api.read_model import (
    Condition,
    Labels,
    LabelSelector,
    Meta,
    OwnerReference,
    Quantities,
    ReadModel,
    Requirement,
)
from volcanopy.api.scheduling_read import (
    EstimatedStart,
    Explanation,
    Guarantee,
    NetworkTopology,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodMove,
    Queue,
    QueueLimit,
    QueueSpec,
    QueueStatus,
    QueueUser,
    SubGroupPolicy,
    Subjects,
)


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

    @property
    def claims(self) -> bool:
        """Whether the volume is backed by a claim, existing or ephemeral."""
        return self.persistent_volume_claim is not None or self.ephemeral is not None


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

    @property
    def sidecars(self) -> frozenset[str]:
        """The names of the init containers that run beside the others: they do not decide whether the pod succeeds."""
        return frozenset(container.name for container in self.init_containers if container.restart_policy == "Always")

    @property
    def host_ports(self) -> list[ContainerPort]:
        """The ports of its node that a pod uses: those of containers and sidecars, as kube-scheduler counts them."""
        sidecars = (container for container in self.init_containers if container.restart_policy == "Always")
        return [port for container in (*self.containers, *sidecars) for port in container.ports if port.host_port]


class PodTemplate(ReadModel, frozen=True, kw_only=True, gc=False):
    """Template of pods."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()


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


MOST_WAITING_PODS = 256
"""Pods of a task without a node beyond the minimum of its job: more than a scheduler places until their successors exist."""
MAX_GRACE_SECONDS = 3600
"""The longest termination grace period of pods whose submitter may not protect them."""


class Pod(ReadModel, frozen=True, kw_only=True, gc=False):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is deleted and ends soon.

        A deletion may have any grace period, in which the containers run on: longer than that of the pod and an hour, it does
        not protect the pod. The pod counts as running, and its eviction shortens the period.
        """
        if self.metadata.deletion_timestamp is None:
            return False
        longest = max(MAX_GRACE_SECONDS, self.spec.termination_grace_period_seconds or 0)
        return (self.metadata.deletion_grace_period_seconds or 0) <= longest


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


def position_of(numbers: Mapping[str, str]) -> int:
    """Return the position in the queue from the numbers of an explanation, from 1; 0 if there is none."""
    position = numbers.get("position", "")
    return int(position) if position.isdecimal() else 0


def selected_alternative(group: PodGroup) -> PodGroupAlternative | None:
    """Return the alternative that a PodGroup was admitted with, until the controller has merged it into the spec; else None."""
    alternatives, selected = group.spec.alternatives, group.status.alternative
    if not alternatives or selected is None:
        return None
    return next((alternative for alternative in alternatives if alternative.name == selected.name), None)


def min_resources(group: PodGroup) -> Quantities | None:
    """Return what the minimum of pods of a PodGroup requests, with the selected alternative."""
    selected = selected_alternative(group)
    return group.spec.min_resources if selected is None else selected.min_resources
