"""The load of a node as its agent reports it."""

from datetime import datetime

from msgspec import field

from volcanopy.api.read_model import ReadModel


class NodeLoad(ReadModel, frozen=True, kw_only=True, gc=False, omit_defaults=False):
    """The load of a node in the annotation of its NumaTopology: percent of cpu and memory, means over ten minutes, and when.

    ``deviation`` and ``peak`` have the keys ``cpu`` and ``memory``.
    """

    cpu: float
    memory: float
    measured: datetime
    deviation: dict[str, float] = field(default_factory=dict)
    peak: dict[str, float] = field(default_factory=dict)
