"""Read models of HyperNode and NumaTopology; the full models are in :mod:`volcanopy.api.topology`."""

from datetime import datetime

from msgspec import field

from volcanopy.api import names
from volcanopy.api.read_model import Condition, Labels, LabelSelector, Meta, Quantities, ReadModel


class ExactMatch(ReadModel, frozen=True, kw_only=True, gc=False):
    """Member with an exact name."""

    name: str = ""


class RegexMatch(ReadModel, frozen=True, kw_only=True, gc=False):
    """Nodes whose names match a regular expression."""

    pattern: str = ""


class MemberSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """Selector of members."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(ReadModel, frozen=True, kw_only=True, gc=False):
    """Member of a HyperNode, of type ``Node`` or ``HyperNode``."""

    type: str = "Node"
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a HyperNode."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a HyperNode."""

    conditions: tuple[Condition, ...] = ()
    node_count: int = 0


class HyperNode(ReadModel, frozen=True, kw_only=True, gc=False):
    """A network performance domain."""

    api_version: str = names.TOPOLOGY_V1ALPHA1
    metadata: Meta
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()


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

    api_version: str = names.NODEINFO_V1ALPHA1
    metadata: Meta
    spec: NumaTopologySpec = NumaTopologySpec()


class NodeLoad(ReadModel, frozen=True, kw_only=True, gc=False, omit_defaults=False):
    """The load of a node in the annotation of its NumaTopology: percent of cpu and memory, means over ten minutes, and when.

    ``deviation`` and ``peak`` have the keys ``cpu`` and ``memory``.
    """

    cpu: float
    memory: float
    measured: datetime
    deviation: dict[str, float] = field(default_factory=dict)
    peak: dict[str, float] = field(default_factory=dict)
