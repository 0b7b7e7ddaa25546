"""Read model of NumaTopology; the full model is in :mod:`volcanopy.api.nodeinfo`."""

from msgspec import field

from volcanopy.api.read_model import Labels, Meta, Quantities, ReadModel


class ResourceInfo(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a node has of a resource: the free pieces as a list of numbers and ranges."""

    allocatable: str = ""
    capacity: int = 0


class CpuInfo(ReadModel, frozen=True, kw_only=True, gc=False):
    """Where a cpu is."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class ContainerAllocation(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a container has been given: of ``cpu`` a list of numbers and ranges."""

    name: str = ""
    allocations: Labels = field(default_factory=dict)


class PodAllocation(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a pod has been given."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    container_allocations: tuple[ContainerAllocation, ...] = ()


class NumaTopologySpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """The cpus of a node."""

    policies: Labels = field(default_factory=dict)
    res_reserved: Quantities = field(default_factory=dict)
    numares: dict[str, ResourceInfo] = field(default_factory=dict)
    cpu_detail: dict[str, CpuInfo] = field(default_factory=dict)
    pod_allocations: tuple[PodAllocation, ...] = ()


class NumaTopology(ReadModel, frozen=True, kw_only=True, gc=False):
    """The cpus of the node of the same name."""

    metadata: Meta
    spec: NumaTopologySpec = NumaTopologySpec()
