"""HyperNode: the network as the scheduler sees it (``topology.volcanopy.io/v1alpha1``).

A HyperNode is a part of the network inside which traffic passes few switches: a rack, a row, a hall. HyperNodes of the
lowest tier hold nodes, those above hold HyperNodes; together they are a forest in which everything has one place.
"""

from typing import Literal

from pydantic import Field

from volcanopy.api.meta import Condition, LabelSelector, ObjectMeta
from volcanopy.api.model import PATH_PATTERN, Int32, Int64, Model, Rule


class ExactMatch(Model):
    """The one of this name."""

    name: str = Field(min_length=1, max_length=253, pattern=PATH_PATTERN)
    """Name of the node or HyperNode."""


class RegexMatch(Model):
    """Those whose names match a pattern."""

    pattern: str = Field(min_length=1, max_length=1024)
    """Regular expression that the name must contain; anchor it with ^ and $ to match whole names."""


class MemberSelector(Model):
    """What a HyperNode holds: by name, by a pattern of names, or by labels."""

    exact_match: ExactMatch | None = None
    """The one of this name."""
    regex_match: RegexMatch | None = None
    """The nodes whose names match."""
    label_match: LabelSelector | None = None
    """The nodes with these labels."""

    rules = (
        Rule(
            "[has(self.exactMatch), has(self.regexMatch), has(self.labelMatch)].filter(given, given).size() == 1",
            "a member is selected in exactly one way: give one of exactMatch, regexMatch and labelMatch",
        ),
    )


class Member(Model):
    """Something that a HyperNode holds."""

    type: Literal["Node", "HyperNode"]
    """Whether nodes or HyperNodes are meant."""
    selector: MemberSelector
    """Which of them."""

    rules = (
        Rule(
            "self.type != 'HyperNode' || has(self.selector.exactMatch)",
            "a HyperNode holds other HyperNodes by name: use exactMatch",
        ),
    )


class HyperNodeSpec(Model):
    """A part of the network."""

    tier: Int32 = Field(ge=0)
    """How far up in the network it is: what is close together has a low tier, and a member's is lower than its holder's."""
    tier_name: str = Field(default="", max_length=253)
    """A word for the tier, which jobs can use in place of its number."""
    members: list[Member] = Field(min_length=1, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """What it holds: nodes, or HyperNodes of lower tiers."""


class HyperNodeStatus(Model):
    """What a HyperNode holds by now."""

    conditions: list[Condition] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """What holds of it."""
    node_count: Int64 = Field(default=0, ge=0)
    """Number of its nodes."""


class HyperNode(Model):
    """A part of the network inside which nodes are close to each other."""

    api_version: Literal["topology.volcanopy.io/v1alpha1"] = "topology.volcanopy.io/v1alpha1"
    kind: Literal["HyperNode"] = "HyperNode"
    metadata: ObjectMeta
    spec: HyperNodeSpec
    """What it is and holds."""
    status: HyperNodeStatus = HyperNodeStatus()
    """What it holds by now."""

    rules = (
        Rule(
            "!self.spec.members.exists(one, one.type == 'HyperNode' && has(one.selector.exactMatch) && "
            "one.selector.exactMatch.name == self.metadata.name)",
            "a HyperNode cannot hold itself",
            ".spec.members",
        ),
    )
