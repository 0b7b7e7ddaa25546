"""Measures of nodes: an open table of named series, such as the load of cpu, power or the traffic of a network card.

A measure has a mean, and if its source gives them a deviation, a peak and a prediction. ``cpu`` and ``memory`` of nodes are
percentages; the unit of every other measure is that of its source. Values come from the sources of the scheduler's
configuration, and from annotations of nodes (:data:`volcanopy.api.names.MEASURE_PREFIX`).

Unknown is NaN: what was not measured, and what is older than the table allows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
import numpy as np

from volcanopy.api import core, names
from volcanopy.scheduler.model.resources import Floats, Mask, frozen


class Reading(NamedTuple):
    """One value of a measure. ``at``: seconds since 1970; a value without a time does not age."""

    mean: float
    at: float = math.inf
    deviation: float = math.nan
    peak: float = math.nan
    prediction: float = math.nan


Readings = Mapping[str, Mapping[str, Reading]]
"""By measure and by node."""


class Measured(NamedTuple):
    """What sources returned, the interval of their queries, and the age above which a value is unknown."""

    nodes: Readings
    interval: timedelta = timedelta(seconds=30)
    """What began to run less than this before a measurement does not show in it."""
    max_age: timedelta = timedelta(minutes=5)


NOTHING = Measured({})


class Series(NamedTuple):
    """The readings of a measure as columns of the same length: one value for each node, NaN where it is unknown."""

    mean: Floats
    at: Floats
    """Seconds since 1970, infinity without a time."""
    deviation: Floats
    peak: Floats
    prediction: Floats

    @property
    def known(self) -> Mask:
        """Whether there is a value."""
        return ~np.isnan(self.mean)

    def not_older_than(self, moment: float) -> "Series":
        """Return the series in which older values are unknown."""
        fresh = self.at >= moment
        return self if fresh.all() else Series(*(np.where(fresh, column, np.nan) for column in self))


@dataclass(frozen=True, eq=False)
class MeasureTable:
    """All measures of the nodes of a snapshot as columns, and what sources returned."""

    nodes: Mapping[str, Series] = field(default_factory=dict)
    measured: Measured = NOTHING


def of_load(loads: Mapping[str, tuple[float, float, datetime]]) -> dict[str, dict[str, Reading]]:
    """Return the measures ``cpu`` and ``memory`` of nodes, from percent of cpu, percent of memory and time by node."""
    return {
        "cpu": {node: Reading(cpu, at.timestamp()) for node, (cpu, _, at) in loads.items()},
        "memory": {node: Reading(memory, at.timestamp()) for node, (_, memory, at) in loads.items()},
    }


def table(measured: Measured | None, nodes: Sequence[core.Node]) -> MeasureTable:
    """Return the table for these nodes: what sources returned, and what annotations of nodes contain besides."""
    given = NOTHING if measured is None else measured
    own = _annotated(nodes)
    series = {}
    for name in sorted(own.keys() | given.nodes.keys()):
        values = {**own.get(name, {}), **given.nodes.get(name, {})}
        series[name] = columns([values.get(node.metadata.name) for node in nodes])
    return MeasureTable(series, given)


def _annotated(nodes: Iterable[core.Node]) -> dict[str, dict[str, Reading]]:
    known: dict[str, dict[str, Reading]] = {}
    for node in nodes:
        for key in node.metadata.annotations:
            if key.startswith(names.MEASURE_PREFIX):
                name = key.removeprefix(names.MEASURE_PREFIX)
                value = annotated(node.metadata.annotations, name)
                if value is not None:
                    known.setdefault(name, {})[node.metadata.name] = value
    return known


def columns(readings: Sequence[Reading | None]) -> Series:
    """Return a series with these values."""
    unknown = Reading(math.nan, *(math.nan,) * 4)
    values = np.array([unknown if each is None else each for each in readings], dtype=np.float64).reshape(-1, 5)
    return Series(*(frozen(np.ascontiguousarray(column)) for column in values.T))


# Annotations


class Annotation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an annotation with more than the mean; ``measured`` is a time as in Kubernetes."""

    mean: float
    deviation: float | None = None
    peak: float | None = None
    prediction: float | None = None
    measured: datetime | None = None


def annotated(annotations: Mapping[str, str], name: str) -> Reading | None:
    """Return the measure that an annotation contains: a number or an :class:`Annotation`. None without one, or for other text."""
    text = annotations.get(names.MEASURE_PREFIX + name)
    if text is None:
        return None
    try:
        value = msgspec.json.decode(text, type=float | Annotation)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    if isinstance(value, float):
        return Reading(value)
    at = math.inf if value.measured is None else value.measured.timestamp()
    rest = (math.nan if each is None else each for each in (value.deviation, value.peak, value.prediction))
    return Reading(value.mean, at, *rest)


def annotation(value: Reading) -> str:
    """Return the annotation that contains a value without its time."""
    deviation, peak, prediction = (None if math.isnan(each) else each for each in value[2:])
    return msgspec.json.encode(Annotation(value.mean, deviation, peak, prediction)).decode()
