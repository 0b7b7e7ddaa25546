"""Read model of HyperNode; the full model is in :mod:`volcanopy.api.topology`."""

from volcanopy.api.read_model import Condition, LabelSelector, Meta, ReadModel


class ExactMatch(ReadModel, frozen=True, kw_only=True, gc=False):
    """The one of this name."""

    name: str = ""


class RegexMatch(ReadModel, frozen=True, kw_only=True, gc=False):
    """Those whose names match a pattern."""

    pattern: str = ""


class MemberSelector(ReadModel, frozen=True, kw_only=True, gc=False):
    """Which nodes or HyperNodes are held."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(ReadModel, frozen=True, kw_only=True, gc=False):
    """Something that a HyperNode holds: nodes or HyperNodes, as ``type`` says."""

    type: str = "Node"
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """A part of the network."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a HyperNode."""

    conditions: tuple[Condition, ...] = ()
    node_count: int = 0


class HyperNode(ReadModel, frozen=True, kw_only=True, gc=False):
    """A part of the network inside which nodes are close to each other."""

    metadata: Meta
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
