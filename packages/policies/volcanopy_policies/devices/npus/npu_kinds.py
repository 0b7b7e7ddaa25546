"""The kinds of NPUs that HAMi shares: names of their resources, and the sizes into which a card is divided.

The keys are those of ``vnpus`` in the ConfigMap of HAMi's device plugin (``device-config.yaml``), so that the list can be copied.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pydantic import Field, field_validator, model_validator

from volcanopy.api import names
from volcanopy.scheduler.policy.keys_without_effect import effective
from volcanopy.scheduler.policy.plugin import Arguments
from volcanopy_policies.devices.cards.card_selection import CardSizes

KEYS_WITHOUT_EFFECT: Mapping[str, str] = {
    "chipName": "the device plugin reads it",
    "aiCore": "the device plugin reads it",
    "aiCPU": "the device plugin reads it",
    "memoryFactor": "the device plugin reads it",
    "runtimeClassName": "HAMi's webhook reads it",
    "overwriteEnv": "HAMi's webhook reads it",
}
"""In entries of ``deviceshare.vnpus`` and their templates; without a warning, since the list is that of the device plugin."""


class _CopiedEntry(Arguments):
    """An entry of a list that is copied from the ConfigMap of the device plugin, with keys for that alone."""

    @model_validator(mode="before")
    @classmethod
    def _effective(cls, value: Any) -> Any:
        return effective(value, KEYS_WITHOUT_EFFECT) if isinstance(value, dict) else value


class NpuTemplate(_CopiedEntry):
    """One size into which the device plugin divides a card."""

    name: str = Field(min_length=1)
    memory: int = Field(gt=0)
    """In MB."""


class NpuKind(_CopiedEntry):
    """One kind of NPU."""

    word: str = Field(min_length=1, alias="commonWord")
    """Part of the names of annotations, and the type in them."""
    resource: str = Field(alias="resourceName")
    """Resource: number of cards, or of parts of cards."""
    memory_resource: str = Field(alias="resourceMemoryName")
    """Resource: memory of each card in MB."""
    cores_resource: str = Field("", alias="resourceCoreName")
    """Resource: percent of the cores of each card; by default that of the number with `-core`."""
    whole: int = Field(gt=0, alias="memoryAllocatable")
    """The memory of a whole card that pods can use, in MB."""
    capacity: int = Field(gt=0, alias="memoryCapacity")
    """The memory of a card by its data sheet, in MB."""
    templates: tuple[NpuTemplate, ...] = ()
    """The sizes of parts of a card."""

    @field_validator("resource", "memory_resource", "cores_resource")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value and not value.startswith(names.NPU_PREFIX):
            raise ValueError(f"must begin with {names.NPU_PREFIX}")
        return value

    @model_validator(mode="after")
    def _parts_are_marked(self) -> "NpuKind":
        for name, suffix in ((self.memory_resource, names.NPU_MEMORY_SUFFIX), (self.cores, names.NPU_CORES_SUFFIX)):
            if not name.endswith(suffix):
                raise ValueError(f"{self.word}: {name} must end with {suffix}: other names are amounts of nodes")
        return self

    @property
    def cores(self) -> str:
        """The resource for a percentage of the cores of each card."""
        return self.cores_resource or f"{self.resource}{names.NPU_CORES_SUFFIX}"

    @property
    def registered(self) -> str:
        """The annotation of nodes with their cards."""
        return f"{names.HAMI_PREFIX}node-register-{self.word}"

    @property
    def to_allocate(self) -> str:
        """The annotation of bound pods with the cards that the device plugin has not handed out yet."""
        return f"{names.HAMI_PREFIX}{self.word}-devices-to-allocate"

    @property
    def allocated(self) -> str:
        """The annotation of bound pods with all their cards."""
        return f"{names.HAMI_PREFIX}{self.word}{names.NPU_ALLOCATED_SUFFIX}"

    @property
    def for_runtime(self) -> str:
        """The annotation of bound pods that the container runtime reads."""
        return f"huawei.com/{self.word}"

    @cached_property
    def ascending(self) -> tuple[NpuTemplate, ...]:
        """The templates, the smallest first."""
        return tuple(sorted(self.templates, key=lambda template: template.memory))

    @cached_property
    def sizes(self) -> CardSizes:
        """The amounts of memory that pods get."""
        return CardSizes(tuple(template.memory for template in self.ascending), self.whole, self.capacity)

    def template(self, memory: int) -> str:
        """Return the name of the template with at least this memory, empty for a whole card."""
        return next((template.name for template in self.ascending if memory <= template.memory), "")


class NpuKinds(Arguments):
    """The kinds of NPUs in the cluster; a list stands for ``configs``."""

    by_software: bool = Field(False, alias="hamiVnpuCore")
    """Whether nodes divide cards by software (`hami-core`) unless their annotation `hami-vnpu-core` states otherwise."""
    kinds: tuple[NpuKind, ...] = Field(alias="configs")
    """Each kind."""

    @model_validator(mode="before")
    @classmethod
    def _of_list(cls, value: Any) -> Any:
        return {"configs": value} if isinstance(value, list | tuple) else value

    @field_validator("kinds")
    @classmethod
    def _differ(cls, value: tuple[NpuKind, ...]) -> tuple[NpuKind, ...]:
        known = [kind.word for kind in value]
        for word in known:
            if known.count(word) > 1:
                raise ValueError(f"the commonWord {word} is there twice")
        return value


DEFAULT = NpuKinds.model_validate(
    [
        {
            "commonWord": "Ascend310P",
            "resourceName": "huawei.com/Ascend310P",
            "resourceMemoryName": "huawei.com/Ascend310P-memory",
            "memoryAllocatable": 21527,
            "memoryCapacity": 24576,
            "templates": [
                {"name": "vir01", "memory": 3072},
                {"name": "vir02", "memory": 6144},
                {"name": "vir04", "memory": 12288},
            ],
        }
    ]
)
"""What Volcano knows without such a ConfigMap."""
