"""Read models of :mod:`volcanopy.api.topology`, written by ``make golden`` from the full models."""

from volcanopy.api.read_model import Condition, LabelSelector, Meta, ReadModel


class ExactMatch(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""


class RegexMatch(ReadModel, frozen=True, kw_only=True, gc=False):
    pattern: str = ""


class MemberSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(ReadModel, frozen=True, kw_only=True, gc=False):
    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    conditions: tuple[Condition, ...] = ()
    node_count: int = 0


class HyperNode(ReadModel, frozen=True, kw_only=True, gc=False):
    api_version: str = "topology.volcanopy.io/v1alpha1"
    metadata: Meta
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()


class ResourceInfo(ReadModel, frozen=True, kw_only=True, gc=False):
    allocatable: str = ""
    capacity: int = 0


class CpuInfo(ReadModel, frozen=True, kw_only=True, gc=False):
    numa: int = 0
    socket: int = 0
    core: int = 0


class ContainerAllocation(ReadModel, frozen=True, kw_only=True, gc=False):
    name: str = ""
    allocations: dict[str, str] = {}


class PodAllocation(ReadModel, frozen=True, kw_only=True, gc=False):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    container_allocations: tuple[ContainerAllocation, ...] = ()


class NumaTopologySpec(ReadModel, frozen=True, kw_only=True, gc=False):
    policies: dict[str, str] = {}
    res_reserved: dict[str, str] = {}
    numares: dict[str, ResourceInfo] = {}
    cpu_detail: dict[str, CpuInfo] = {}
    pod_allocations: tuple[PodAllocation, ...] = ()


class NumaTopology(ReadModel, frozen=True, kw_only=True, gc=False):
    api_version: str = "nodeinfo.volcanopy.io/v1alpha1"
    metadata: Meta
    spec: NumaTopologySpec = NumaTopologySpec()
