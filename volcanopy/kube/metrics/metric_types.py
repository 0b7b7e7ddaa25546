"""Declaration of metrics.

Most metrics are prometheus_client's own. A :class:`CallbackGauge` computes its values at each scrape from the objects it
follows, so nothing has to be kept up to date and a series ends with its object.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

PREFIX = "volcanopy_"

Labels = tuple[str, ...]
"""Label values, in the order of the label names."""
Source = Callable[[], Iterable[tuple[Labels, float]]]
"""Returns the current values of a gauge."""
T = TypeVar("T")


class Instrument(NamedTuple):
    """A row of the metrics reference."""

    name: str
    """As served, with the prefix."""
    type: str
    labels: tuple[str, ...]
    description: str


class CallbackGauge(Collector):
    """A gauge whose values are computed at each scrape; values of several sources with equal labels are added."""

    def __init__(self, name: str, description: str, labels: Sequence[str]) -> None:
        self._name, self._description, self._labels = name, description, list(labels)
        self._sources: list[Source] = []
        self._followed: list[tuple[weakref.ref[object], Callable[[object], Iterable[tuple[Labels, float]]]]] = []

    @contextmanager
    def read_from(self, source: Source) -> Iterator[None]:
        """Read from this source for the duration of the block."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    def follow(self, target: T, values: Callable[[T], Iterable[tuple[Labels, float]]]) -> None:
        """Read from an object for as long as it exists; ``values`` must not keep a reference to it."""
        self._followed.append((weakref.ref(target), values))  # type: ignore[arg-type]

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauge without values."""
        yield GaugeMetricFamily(self._name, self._description, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauge with its current values."""
        family = GaugeMetricFamily(self._name, self._description, labels=self._labels)
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
            target = reference()
            if target is not None:
                alive.append((reference, values))
                yield values(target)
        self._followed = alive


class MetricRegistry:
    """A Prometheus registry with the list of the metrics declared in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.instruments: list[Instrument] = []

    def counter(self, name: str, description: str, *labels: str) -> Counter:
        """Declare a counter; its name ends with ``_total``."""
        self._note(name, "counter", labels, description)
        return Counter(PREFIX + name, description, labels, registry=self.registry)

    def gauge(self, name: str, description: str, *labels: str) -> Gauge:
        """Declare a gauge that is set."""
        self._note(name, "gauge", labels, description)
        return Gauge(PREFIX + name, description, labels, registry=self.registry)

    def callback_gauge(self, name: str, description: str, *labels: str) -> CallbackGauge:
        """Declare a gauge that is computed at each scrape."""
        self._note(name, "gauge", labels, description)
        gauge = CallbackGauge(PREFIX + name, description, labels)
        self.registry.register(gauge)
        return gauge

    def histogram(self, name: str, description: str, buckets: Sequence[float], *labels: str) -> Histogram:
        """Declare a histogram."""
        self._note(name, "histogram", labels, description)
        return Histogram(PREFIX + name, description, labels, registry=self.registry, buckets=tuple(buckets))

    def _note(self, name: str, kind: str, labels: tuple[str, ...], description: str) -> None:
        self.instruments.append(Instrument(PREFIX + name, kind, labels, description))


def exponential_buckets(first: float, last: float, count: int) -> list[float]:
    """Return ``count`` bucket limits from ``first`` to ``last``, growing by a constant factor."""
    factor = (last / first) ** (1 / (count - 1))
    return [float(f"{first * factor**step:.3g}") for step in range(count)]
