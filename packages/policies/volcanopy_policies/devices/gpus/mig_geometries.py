"""Into which instances a GPU card in MIG mode can be divided: the geometries of its model.

The form is that of ``knownMigGeometries`` in the ConfigMap of Volcano's device plugin, and so are the defaults: the instances
must be those into which the device plugin divides a card.
"""

from collections.abc import Sequence

from pydantic import Field, field_validator

from volcanopy.scheduler.policy.plugin import Arguments
from volcanopy_policies.devices.cards.instances import WHOLE, Instance, InstanceTable, instance_table

_NOT_IN_GROUP = "-[],:;"
"""What separates the name of a group from the rest in the annotation of a pod."""


class MigProfile(Arguments):
    """Equal instances."""

    name: str
    """The name of the profile: ``1g.10gb``."""
    memory: int = Field(gt=0)
    """The memory of each instance, in MB."""
    count: int = Field(gt=0)
    """The number of instances."""


class MigGroup(Arguments):
    """The instances into which a card is divided at one time."""

    group: str = Field(min_length=1)
    geometries: tuple[MigProfile, ...] = Field(min_length=1)

    @field_validator("group")
    @classmethod
    def _can_be_written(cls, value: str) -> str:
        if any(character in value for character in _NOT_IN_GROUP):
            raise ValueError(
                f"a group must not contain any of {' '.join(_NOT_IN_GROUP)}, which separate it in annotations: "
                f"rename {value}, here and for the device plugin"
            )
        return value


class MigGeometries(Arguments):
    """The groups that some models of cards allow."""

    models: tuple[str, ...] = Field(min_length=1)
    """Parts of the names of models."""
    allowed: tuple[MigGroup, ...] = Field(alias="allowedGeometries", min_length=1)

    @field_validator("allowed")
    @classmethod
    def _differ(cls, value: tuple[MigGroup, ...]) -> tuple[MigGroup, ...]:
        names = [each.group for each in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two groups have the name {name}: give each a name of its own")
        return value


def _known(models: str, *groups: str) -> MigGeometries:
    """Geometries written as ``1g.5gb 5120x7 + 2g.10gb 10240x3``, one text for each group."""
    allowed = []
    for number, text in enumerate(groups, start=1):
        profiles = []
        for part in text.split(" + "):
            name, amounts = part.split()
            memory, count = amounts.split("x")
            profiles.append(MigProfile(name=name, memory=int(memory), count=int(count)))
        allowed.append(MigGroup(group=f"group{number}", geometries=tuple(profiles)))
    return MigGeometries(models=tuple(models.split()), allowed=tuple(allowed))


KNOWN = (
    _known("A30", "1g.6gb 6144x4", "2g.12gb 12288x2", "4g.24gb 24576x1"),
    _known(
        "A100-SXM4-40GB A100-40GB-PCIe A100-PCIE-40GB",
        "1g.5gb 5120x7",
        "2g.10gb 10240x3 + 1g.5gb 5120x1",
        "3g.20gb 20480x2",
        "7g.40gb 40960x1",
    ),
    _known(
        "A100-SXM4-80GB A100-80GB-PCIe A100-PCIE-80GB",
        "1g.10gb 9728x7",
        "2g.20gb 19968x3 + 1g.10gb 9728x1",
        "3g.40gb 40192x2",
        "7g.80gb 80896x1",
    ),
)
"""The geometries that Volcano's device plugin is published with."""


def mig_instances(
    known: Sequence[MigGeometries], types: Sequence[str], in_mig_mode: Sequence[bool], factor: int
) -> InstanceTable:
    """Return the instances of cards of these types; a card in MIG mode whose model is not known has none.

    The first geometries count that name a part of the type, as in Volcano.
    """
    models = [_instances(each.allowed) for each in known]
    numbers: dict[str, int] = {}
    for kind, divided in zip(types, in_mig_mode, strict=True):
        if divided and kind not in numbers:
            matching = (row for row, each in enumerate(known, start=1) if any(model in kind for model in each.models))
            numbers[kind] = next(matching, len(known) + 1)
    of_cards = [numbers[kind] if divided else WHOLE for kind, divided in zip(types, in_mig_mode, strict=True)]
    return instance_table([*models, ()], of_cards, factor)


def _instances(groups: Sequence[MigGroup]) -> list[Instance]:
    """The instances in the order in which they are selected: group by group, the smallest of each first."""
    result = []
    for number, group in enumerate(groups):
        position, own = 0, []
        for profile in group.geometries:
            for _ in range(profile.count):
                own.append(Instance(f"{group.group}-{position}", number, profile.memory))
                position += 1
        result += sorted(own, key=lambda instance: instance.memory)
    return result
