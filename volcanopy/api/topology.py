"""Full model of HyperNode (``topology.volcanopy.io/v1alpha1``).

A HyperNode is a network performance domain, such as a rack or a row. Members of HyperNodes of the lowest tier are nodes,
members of higher tiers are HyperNodes. Each node and HyperNode is a member of at most one HyperNode.
"""

from typing import Literal

from pydantic import Field

from volcanopy.api.meta import Condition, LabelSelector, ObjectMeta
from volcanopy.api.model import PATH_PATTERN, Int32, Int64, Model, Rule


class ExactMatch(Model):
    """Member with an exact name."""

    name: str = Field(min_length=1, max_length=253, pattern=PATH_PATTERN)
    """Name of the node or HyperNode."""


class RegexMatch(Model):
    """Nodes whose names match a regular expression."""

    pattern: str = Field(min_length=1, max_length=1024)
    """Regular expression that matches any part of the name. Use ^ and $ to match whole names."""


class MemberSelector(Model):
    """Selector of members: by name, by a regular expression, or by labels."""

    exact_match: ExactMatch | None = None
    """Member with an exact name."""
    regex_match: RegexMatch | None = None
    """Nodes whose names match a regular expression."""
    label_match: LabelSelector | None = None
    """Nodes with matching labels."""

    rules = (
        Rule(
            "[has(self.exactMatch), has(self.regexMatch), has(self.labelMatch)].filter(given, given).size() == 1",
            "exactly one of exactMatch, regexMatch and labelMatch must be set",
        ),
    )


class Member(Model):
    """Member of a HyperNode."""

    type: Literal["Node", "HyperNode"]
    """Type of the member: Node or HyperNode."""
    selector: MemberSelector
    """Selector of the nodes or the HyperNode."""

    rules = (
        Rule(
            "self.type != 'HyperNode' || has(self.selector.exactMatch)",
            "members of type HyperNode must be selected by exactMatch",
        ),
    )


class HyperNodeSpec(Model):
    """Specification of a HyperNode."""

    tier: Int32 = Field(ge=0)
    """Tier in the network topology. Nodes that share a HyperNode of a lower tier are closer to each other. Must be greater
    than the tiers of member HyperNodes."""
    tier_name: str = Field(default="", max_length=253)
    """Name of the tier. Jobs can use it instead of the number."""
    members: list[Member] = Field(min_length=1, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """Members: nodes, or HyperNodes of lower tiers."""


class HyperNodeStatus(Model):
    """Observed status of a HyperNode."""

    conditions: list[Condition] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions of the HyperNode."""
    node_count: Int64 = Field(default=0, ge=0)
    """Number of nodes of the HyperNode."""


class HyperNode(Model):
    """A network performance domain: nodes or HyperNodes that are close to each other."""

    api_version: Literal["topology.volcanopy.io/v1alpha1"] = "topology.volcanopy.io/v1alpha1"
    kind: Literal["HyperNode"] = "HyperNode"
    metadata: ObjectMeta
    spec: HyperNodeSpec
    """Specification of the HyperNode."""
    status: HyperNodeStatus = HyperNodeStatus()
    """Observed status of the HyperNode."""

    rules = (
        Rule(
            "!self.spec.members.exists(m, m.type == 'HyperNode' && has(m.selector.exactMatch) && "
            "m.selector.exactMatch.name == self.metadata.name)",
            "must not contain the HyperNode itself",
            ".spec.members",
        ),
    )
