"""Full models of HyperNode (``topology.volcanopy.io/v1alpha1``) and NumaTopology (``nodeinfo.volcanopy.io/v1alpha1``).

A HyperNode is a network performance domain, such as a rack or a row. Members of HyperNodes of the lowest tier are nodes,
members of higher tiers are HyperNodes. Each node and HyperNode is a member of at most one HyperNode.

An agent on each node writes a NumaTopology with the name of the node; the plugin ``numaaware`` reads it.
"""

from typing import Annotated, Literal

from pydantic import Field

from volcanopy.api.model import (
    ATOMIC,
    PATH_PATTERN,
    Condition,
    Int32,
    Int64,
    LabelSelector,
    Model,
    ObjectMeta,
    Rule,
    keyed,
)


class ExactMatch(Model):
    """Member with an exact name."""

    name: str = Field(min_length=1, max_length=253, pattern=PATH_PATTERN)
    """Name of the node or HyperNode."""


class RegexMatch(Model):
    """Nodes whose names match a regular expression."""

    pattern: str = Field(min_length=1, max_length=1024)
    """Regular expression that matches any part of the name. Use ^ and $ to match whole names."""


class MemberSelector(Model):
    """Selector of members: by name, by a regular expression, or by labels."""

    exact_match: ExactMatch | None = None
    """Member with an exact name."""
    regex_match: RegexMatch | None = None
    """Nodes whose names match a regular expression."""
    label_match: LabelSelector | None = None
    """Nodes with matching labels."""

    rules = (
        Rule(
            "[has(self.exactMatch), has(self.regexMatch), has(self.labelMatch)].filter(given, given).size() == 1",
            "exactly one of exactMatch, regexMatch and labelMatch must be set",
        ),
    )


class Member(Model):
    """Member of a HyperNode."""

    type: Literal["Node", "HyperNode"]
    """Type of the member: Node or HyperNode."""
    selector: MemberSelector
    """Selector of the nodes or the HyperNode."""

    rules = (
        Rule(
            "self.type != 'HyperNode' || has(self.selector.exactMatch)",
            "members of type HyperNode must be selected by exactMatch",
        ),
    )


class HyperNodeSpec(Model):
    """Specification of a HyperNode."""

    tier: Int32 = Field(ge=0)
    """Tier in the network topology. Nodes that share a HyperNode of a lower tier are closer to each other. Must be greater
    than the tiers of member HyperNodes."""
    tier_name: str = Field(default="", max_length=253)
    """Name of the tier. Jobs can use it instead of the number."""
    members: list[Member] = Field(min_length=1, max_length=1024, json_schema_extra=ATOMIC)
    """Members: nodes, or HyperNodes of lower tiers."""


class HyperNodeStatus(Model):
    """Observed status of a HyperNode."""

    conditions: list[Condition] = Field(default_factory=list, json_schema_extra=keyed("type"))
    """Conditions of the HyperNode."""
    node_count: Int64 = Field(default=0, ge=0)
    """Number of nodes of the HyperNode."""


class HyperNode(Model):
    """A network performance domain: nodes or HyperNodes that are close to each other."""

    api_version: Literal["topology.volcanopy.io/v1alpha1"] = "topology.volcanopy.io/v1alpha1"
    kind: Literal["HyperNode"] = "HyperNode"
    metadata: ObjectMeta
    spec: HyperNodeSpec
    """Specification of the HyperNode."""
    status: HyperNodeStatus = Field(default_factory=HyperNodeStatus)
    """Observed status of the HyperNode."""

    rules = (
        Rule(
            "!self.spec.members.exists(m, m.type == 'HyperNode' && has(m.selector.exactMatch) && "
            "m.selector.exactMatch.name == self.metadata.name)",
            "must not contain the HyperNode itself",
            ".spec.members",
        ),
    )


CpuList = Annotated[str, Field(max_length=4096)]


class ResourceInfo(Model):
    """Allocatable units of a resource on a node."""

    allocatable: CpuList = ""
    """Units that are not allocated, as a list of numbers and ranges such as `0-3,8`."""
    capacity: Int32 = Field(default=0, ge=0)
    """Total number of units."""


class CpuInfo(Model):
    """Location of a CPU."""

    numa: Int32 = Field(default=0, ge=0)
    """NUMA node of the CPU."""
    socket: Int32 = Field(default=0, ge=0)
    """Socket of the CPU."""
    core: Int32 = Field(default=0, ge=0)
    """Core of the CPU."""


class ContainerAllocation(Model):
    """Allocations of a container."""

    name: str = Field(default="", max_length=253)
    """Name of the container."""
    allocations: dict[str, CpuList] = Field(default_factory=dict)
    """Allocations by resource: for `cpu` a list of numbers and ranges, for other resources a quantity."""


class PodAllocation(Model):
    """Allocations of a pod."""

    uid: str = Field(default="", max_length=253)
    """UID of the pod."""
    name: str = Field(default="", max_length=253)
    """Name of the pod."""
    namespace: str = Field(default="", max_length=253)
    """Namespace of the pod."""
    container_allocations: list[ContainerAllocation] = Field(
        default_factory=list, max_length=1024, json_schema_extra=ATOMIC
    )
    """Allocations of the containers of the pod."""


class NumaTopologySpec(Model):
    """CPU topology of a node."""

    policies: dict[Literal["CPUManagerPolicy", "TopologyManagerPolicy"], str] = Field(default_factory=dict)
    """Policies of the kubelet: CPUManagerPolicy and TopologyManagerPolicy."""
    res_reserved: dict[str, str] = Field(default_factory=dict)
    """Resources reserved for the system by the kubelet."""
    numares: dict[str, ResourceInfo] = Field(default_factory=dict)
    """Capacity and allocatable units by resource."""
    cpu_detail: dict[str, CpuInfo] = Field(default_factory=dict)
    """Location of each CPU, by its number."""
    pod_allocations: list[PodAllocation] = Field(default_factory=list, max_length=1024, json_schema_extra=ATOMIC)
    """Allocations by pod."""


class NumaTopology(Model):
    """CPU topology of the node with the same name, and the CPUs allocated to its pods."""

    api_version: Literal["nodeinfo.volcanopy.io/v1alpha1"] = "nodeinfo.volcanopy.io/v1alpha1"
    kind: Literal["NumaTopology"] = "NumaTopology"
    metadata: ObjectMeta
    spec: NumaTopologySpec = Field(default_factory=NumaTopologySpec)
    """CPU topology of the node."""
