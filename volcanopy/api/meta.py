"""What every object carries: its metadata, its owners, its conditions."""

from typing import Any

from pydantic import Field

from volcanopy.api.model import Bool, Int64, Model, Time


class OwnerReference(Model):
    """An object that another one belongs to; when it goes, what belongs to it goes too."""

    api_version: str
    """API group and version of the owner."""
    kind: str
    """Kind of the owner."""
    name: str
    """Name of the owner."""
    uid: str
    """Identity of the owner: a later object of the same name is another one."""
    controller: Bool | None = None
    """Whether the owner is the one that manages this object."""
    block_owner_deletion: Bool | None = None
    """Whether a foreground deletion of the owner waits for this object."""


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
    """One thing that holds of an object, or does not, since when and why."""

    type: str = Field(max_length=316)
    """What this condition speaks about."""
    status: str = Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})
    """Whether it holds."""
    reason: str = Field(default="", max_length=1024)
    """One word for why."""
    message: str = Field(default="", max_length=32768)
    """One sentence for why."""
    last_transition_time: Time | None = None
    """Since when it has held, or has not."""


class LabelSelectorRequirement(Model):
    """One expression of a label selector."""

    key: str
    """The label that is looked at."""
    operator: str = Field(json_schema_extra={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]})
    """How the label's value is compared."""
    values: list[str] = Field(default_factory=list)
    """What the value is compared with, for In and NotIn."""


class LabelSelector(Model):
    """Labels that an object must carry, all of them."""

    match_labels: dict[str, str] | None = None
    """Labels with exactly these values."""
    match_expressions: list[LabelSelectorRequirement] = Field(default_factory=list)
    """Requirements on labels."""
