"""How metrics are declared: each with its name, its labels and what it means, from which the reference is written.

Most are prometheus_client's own. Beside them there are gauges that are *seen*: their values are read from what exists
when somebody asks for them, so that nothing has to be kept up to date, and a series ends with what it was about.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

PREFIX = "volcanopy_"

Labels = tuple[str, ...]
"""The values of labels, in their order."""
Source = Callable[[], Iterable[tuple[Labels, float]]]
"""Gives the values of a gauge as they are now."""
T = TypeVar("T")


class Instrument(NamedTuple):
    """What the reference says of a metric."""

    name: str
    """As it is served, prefix included."""
    type: str
    labels: tuple[str, ...]
    meaning: str


class Seen(Collector):
    """A gauge whose values are read when they are asked for; those of several sources with equal labels add up."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str]) -> None:
        self._name, self._meaning, self._labels = name, meaning, list(labels)
        self._sources: list[Source] = []
        self._followed: list[tuple[weakref.ref[object], Callable[[object], Iterable[tuple[Labels, float]]]]] = []

    @contextmanager
    def read_from(self, source: Source) -> Iterator[None]:
        """Read from this source for as long as the block lasts."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    def follow(self, thing: T, values: Callable[[T], Iterable[tuple[Labels, float]]]) -> None:
        """Read from this thing for as long as it exists; ``values`` must not hold on to it."""
        self._followed.append((weakref.ref(thing), values))  # type: ignore[arg-type]

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The gauge without its values."""
        yield GaugeMetricFamily(self._name, self._meaning, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauge as it stands."""
        family = GaugeMetricFamily(self._name, self._meaning, labels=self._labels)
        sums: dict[Labels, float] = {}
        for values in self._read():
            for labels, value in values:
                sums[labels] = sums.get(labels, 0.0) + value
        for labels, value in sorted(sums.items()):
            family.add_metric(labels, value)
        yield family

    def _read(self) -> Iterator[Iterable[tuple[Labels, float]]]:
        for source in list(self._sources):
            yield source()
        alive = []
        for reference, values in self._followed:
            thing = reference()
            if thing is not None:
                alive.append((reference, values))
                yield values(thing)
        self._followed = alive


class Declared:
    """A registry, and the reference of what is in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.instruments: list[Instrument] = []

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """A number that only grows; its name ends with ``_total``."""
        self._note(name, "counter", labels, meaning)
        return Counter(PREFIX + name, meaning, labels, registry=self.registry)

    def count(self, name: str, meaning: str, *labels: str) -> Gauge:
        """The same under a name that others have given it and that does not end so: served as a gauge."""
        self._note(name, "counter, served as gauge", labels, meaning)
        return Gauge(PREFIX + name, meaning, labels, registry=self.registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        """A number that goes up and down."""
        self._note(name, "gauge", labels, meaning)
        return Gauge(PREFIX + name, meaning, labels, registry=self.registry)

    def seen(self, name: str, meaning: str, *labels: str) -> Seen:
        """A gauge that is read when it is asked for."""
        self._note(name, "gauge", labels, meaning)
        made = Seen(PREFIX + name, meaning, labels)
        self.registry.register(made)
        return made

    def histogram(self, name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
        """How often a value was at most so large."""
        self._note(name, "histogram", labels, meaning)
        return Histogram(PREFIX + name, meaning, labels, registry=self.registry, buckets=tuple(buckets))

    def _note(self, name: str, kind: str, labels: tuple[str, ...], meaning: str) -> None:
        self.instruments.append(Instrument(PREFIX + name, kind, labels, meaning))


def spread(first: float, last: float, count: int) -> list[float]:
    """``count`` buckets from ``first`` to ``last``, each larger than the one before by the same factor."""
    factor = (last / first) ** (1 / (count - 1))
    return [float(f"{first * factor**step:.3g}") for step in range(count)]


def reference(instruments: Iterable[Instrument]) -> str:
    """A table of metrics in Markdown, by name."""
    lines = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for one in sorted(instruments):
        labels = ", ".join(f"`{label}`" for label in one.labels) or "-"
        lines.append(f"| `{one.name}` | {one.type} | {labels} | {one.meaning} |")
    return "\n".join(lines)
