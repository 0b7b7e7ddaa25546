"""Metadata, owner references, conditions and label selectors of the full models."""

from typing import Any

from pydantic import Field

from volcanopy.api.model import Bool, Int64, Model, Time


class OwnerReference(Model):
    """Reference to an owner. The object is deleted when its owners are deleted."""

    api_version: str
    """API group and version of the owner."""
    kind: str
    """Kind of the owner."""
    name: str
    """Name of the owner."""
    uid: str
    """UID of the owner."""
    controller: Bool | None = None
    """Whether the owner is the managing controller of the object."""
    block_owner_deletion: Bool | None = None
    """Whether a foreground deletion of the owner waits for the deletion of the object."""


class ObjectMeta(Model):
    """Standard metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] = Field(default_factory=list)
    finalizers: list[str] = Field(default_factory=list)
    managed_fields: list[dict[str, Any]] = Field(default_factory=list)
    self_link: str = ""


class Condition(Model):
    """Condition of an object."""

    type: str = Field(max_length=316)
    """Type of the condition."""
    status: str = Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})
    """Status of the condition."""
    reason: str = Field(default="", max_length=1024)
    """Machine-readable reason of the last transition."""
    message: str = Field(default="", max_length=32768)
    """Human-readable message about the last transition."""
    last_transition_time: Time | None = None
    """Time of the last transition."""


class LabelSelectorRequirement(Model):
    """Requirement of a label selector."""

    key: str
    """Label key."""
    operator: str = Field(json_schema_extra={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]})
    """Operator that relates the key to the values."""
    values: list[str] = Field(default_factory=list)
    """Values for the operators In and NotIn."""


class LabelSelector(Model):
    """Label selector. All requirements must match."""

    match_labels: dict[str, str] | None = None
    """Required labels and their values."""
    match_expressions: list[LabelSelectorRequirement] = Field(default_factory=list)
    """Requirements on labels."""
