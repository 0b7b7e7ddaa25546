"""Read model of NumaTopology; the full model is in :mod:`volcanopy.api.nodeinfo`."""

from msgspec import field

from volcanopy.api.read_model import Labels, Meta, Quantities, ReadModel


class ResourceInfo(ReadModel, frozen=True, kw_only=True, gc=False):
    """Allocatable units of a resource, as a list of numbers and ranges."""

    allocatable: str = ""
    capacity: int = 0


class CpuInfo(ReadModel, frozen=True, kw_only=True, gc=False):
    """Location of a CPU."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class ContainerAllocation(ReadModel, frozen=True, kw_only=True, gc=False):
    """Allocations of a container: for ``cpu`` a list of numbers and ranges."""

    name: str = ""
    allocations: Labels = field(default_factory=dict)


class PodAllocation(ReadModel, frozen=True, kw_only=True, gc=False):
    """Allocations of a pod."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    container_allocations: tuple[ContainerAllocation, ...] = ()


class NumaTopologySpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """CPU topology of a node."""

    policies: Labels = field(default_factory=dict)
    res_reserved: Quantities = field(default_factory=dict)
    numares: dict[str, ResourceInfo] = field(default_factory=dict)
    cpu_detail: dict[str, CpuInfo] = field(default_factory=dict)
    pod_allocations: tuple[PodAllocation, ...] = ()


class NumaTopology(ReadModel, frozen=True, kw_only=True, gc=False):
    """CPU topology of the node with the same name."""

    metadata: Meta
    spec: NumaTopologySpec = NumaTopologySpec()
