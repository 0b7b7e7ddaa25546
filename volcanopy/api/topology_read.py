"""Read model of HyperNode; the full model is in :mod:`volcanopy.api.topology`."""

from volcanopy.api.read_model import Condition, LabelSelector, Meta, ReadModel


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

    metadata: Meta
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
