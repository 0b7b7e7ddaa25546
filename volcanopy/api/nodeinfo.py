"""NumaTopology: the cpus of a node and who has been given which (``nodeinfo.volcanopy.io/v1alpha1``).

An agent on each node writes an object of the node's name; the plugin ``numaaware`` reads it.
"""

from typing import Annotated, Literal

from pydantic import Field

from volcanopy.api.meta import ObjectMeta
from volcanopy.api.model import Int32, Model

CpuList = Annotated[str, Field(max_length=4096)]


class ResourceInfo(Model):
    """What a node has of a resource that is handed out by the piece."""

    allocatable: CpuList = ""
    """The pieces that nobody has been given, as a list of numbers and ranges: `0-3,8`."""
    capacity: Int32 = Field(default=0, ge=0)
    """How many pieces there are."""


class CpuInfo(Model):
    """Where a cpu is."""

    numa: Int32 = Field(default=0, ge=0)
    """The NUMA node that it belongs to."""
    socket: Int32 = Field(default=0, ge=0)
    """The socket that it is on."""
    core: Int32 = Field(default=0, ge=0)
    """The core whose thread it is."""


class ContainerAllocation(Model):
    """What a container has been given."""

    name: str = Field(default="", max_length=253)
    """Name of the container."""
    allocations: dict[str, CpuList] = Field(default_factory=dict)
    """Of `cpu` a list of numbers and ranges, of everything else a quantity."""


class PodAllocation(Model):
    """What a pod has been given."""

    uid: str = Field(default="", max_length=253)
    """Unique id of the pod."""
    name: str = Field(default="", max_length=253)
    """Name of the pod."""
    namespace: str = Field(default="", max_length=253)
    """Namespace of the pod."""
    container_allocations: list[ContainerAllocation] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """What each of its containers has been given."""


class NumaTopologySpec(Model):
    """The cpus of a node."""

    policies: dict[Literal["CPUManagerPolicy", "TopologyManagerPolicy"], str] = Field(default_factory=dict)
    """How the kubelet hands out cpus: its CPUManagerPolicy and its TopologyManagerPolicy."""
    res_reserved: dict[str, str] = Field(default_factory=dict)
    """How much of each resource the kubelet keeps for the system."""
    numares: dict[str, ResourceInfo] = Field(default_factory=dict)
    """What there is of each resource, and what of it is free."""
    cpu_detail: dict[str, CpuInfo] = Field(default_factory=dict)
    """Where each cpu is, by its number."""
    pod_allocations: list[PodAllocation] = Field(
        default_factory=list, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """What has been given to whom."""


class NumaTopology(Model):
    """The cpus of the node of the same name, and who has been given which."""

    api_version: Literal["nodeinfo.volcanopy.io/v1alpha1"] = "nodeinfo.volcanopy.io/v1alpha1"
    kind: Literal["NumaTopology"] = "NumaTopology"
    metadata: ObjectMeta
    spec: NumaTopologySpec = NumaTopologySpec()
    """The cpus of the node."""
