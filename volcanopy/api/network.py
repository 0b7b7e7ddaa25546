"""The slice that the scheduler reads of HyperNodes: the parts of the network and what they hold."""

from volcanopy.api.core import LabelSelector, Meta, Slice


class ExactMatch(Slice, frozen=True, kw_only=True, gc=False):
    """The one of this name."""

    name: str = ""


class RegexMatch(Slice, frozen=True, kw_only=True, gc=False):
    """Those whose names match a pattern."""

    pattern: str = ""


class MemberSelector(Slice, frozen=True, kw_only=True, gc=False):
    """Which nodes or HyperNodes are held."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(Slice, frozen=True, kw_only=True, gc=False):
    """Something that a HyperNode holds: nodes or HyperNodes, as ``type`` says."""

    type: str = "Node"
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Slice, frozen=True, kw_only=True, gc=False):
    """A part of the network."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNode(Slice, frozen=True, kw_only=True, gc=False):
    """A part of the network inside which nodes are close to each other."""

    metadata: Meta
    spec: HyperNodeSpec = HyperNodeSpec()
