"""Full model of NumaTopology (``nodeinfo.volcanopy.io/v1alpha1``).

An agent on each node writes an object with the name of the node; the plugin ``numaaware`` reads it.
"""

from typing import Annotated, Literal

from pydantic import Field

from volcanopy.api.meta import ObjectMeta
from volcanopy.api.model import Int32, Model

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
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
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
    pod_allocations: list[PodAllocation] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Allocations by pod."""


class NumaTopology(Model):
    """CPU topology of the node with the same name, and the CPUs allocated to its pods."""

    api_version: Literal["nodeinfo.volcanopy.io/v1alpha1"] = "nodeinfo.volcanopy.io/v1alpha1"
    kind: Literal["NumaTopology"] = "NumaTopology"
    metadata: ObjectMeta
    spec: NumaTopologySpec = NumaTopologySpec()
    """CPU topology of the node."""
