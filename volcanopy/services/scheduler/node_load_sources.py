"""Sources of the measures ``cpu`` and ``memory`` of nodes: Prometheus, metrics APIs of the API server, and the agents of nodes.

They are means over ten minutes, in percent, with the time of the measurement. Nodes without data are left out.
"""

import asyncio
import json
import math
import ssl
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol, Self

import aiohttp
import msgspec
from msgspec import Struct

from volcanopy.api import core, names, quantity, topology_read
from volcanopy.api.decoding import decode
from volcanopy.api.node_load import NodeLoad
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.model.measures import Reading, Readings, of_load

NodeCapacities = Callable[[], Mapping[str, Mapping[str, int]]]
"""Returns the capacity of each node, in base units by resource."""
NodeReports = Callable[[], Iterable[topology_read.NumaTopology]]
"""Returns the objects that the agents of nodes write."""

PERIOD = timedelta(minutes=10)
"""The period of the mean."""
ANSWER_WITHIN = 20.0
"""Seconds that a source has to answer."""

_LABELS = ("node", "nodename", "kubernetes_node", "instance")
"""The labels that may name the node of a series, the best first."""
_BY = ", ".join(_LABELS)
CPU_QUERY = f'100 * (1 - avg by ({_BY}) (rate(node_cpu_seconds_total{{mode="idle"}}[10m])))'
MEMORY_QUERY = (
    f"100 * (1 - sum by ({_BY}) (avg_over_time(node_memory_MemAvailable_bytes[10m])) "
    f"/ sum by ({_BY}) (avg_over_time(node_memory_MemTotal_bytes[10m])))"
)
"""Both queries are over all nodes and read metrics of Prometheus' node exporter."""


class SourceReadings(NamedTuple):
    """The measures that a source returned, by name and by node; ``problem`` names what it could not read."""

    nodes: Readings
    problem: str = ""


class LoadError(Exception):
    """A source failed; the message names the source and the reason."""


class MeasureSource(Protocol):
    """A source, opened and closed with ``async with``."""

    async def __aenter__(self) -> Self:
        """Open the source."""

    async def __aexit__(self, *_: object) -> None:
        """Close the source."""

    async def measure(self) -> SourceReadings:
        """Read the measures. Raises LoadError."""


class PrometheusServer:
    """A Prometheus server, queried over its HTTP API; opened and closed with ``async with``."""

    def __init__(self, address: str, *, insecure: bool = False) -> None:
        self._url = f"{address.rstrip('/')}/api/v1/query"
        self._tls: ssl.SSLContext | bool = not insecure
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def query(self, query: str, key: Callable[[Mapping[str, Any]], str]) -> dict[str, tuple[float, datetime]]:
        """Return the value and time of each series by the key of its labels. Raises LoadError.

        Series with an empty key or without a finite value are left out.
        """
        assert self._session is not None, "a source is opened before it is asked"
        try:
            async with self._session.get(self._url, params={"query": query}, ssl=self._tls) as answer:
                text = await answer.text()
                status = answer.status
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            raise LoadError(f"Prometheus at {self._url} does not answer: {fault or type(fault).__name__}") from fault
        try:
            body = json.loads(text)
            if body["status"] != "success":
                raise LoadError(f"Prometheus at {self._url} rejects the query: {body.get('error', status)}")
            return dict(_series(body["data"]["result"], key))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LoadError(f"Prometheus at {self._url} returned no result ({status}): {text[:80]!r}") from None


def _of_both(cpu: Mapping[str, tuple[float, datetime]], memory: Mapping[str, tuple[float, datetime]]) -> SourceReadings:
    """Return the load of the nodes of which both values are known, at the earlier time."""
    nodes = sorted(cpu.keys() & memory.keys())
    return SourceReadings(
        of_load({node: (cpu[node][0], memory[node][0], min(cpu[node][1], memory[node][1])) for node in nodes})
    )


def _series(
    result: list[dict[str, Any]], key: Callable[[Mapping[str, Any]], str]
) -> Iterable[tuple[str, tuple[float, datetime]]]:
    for series in result:
        name = key(series["metric"])
        moment, text = series["value"]
        value = float(text)
        if name and math.isfinite(value):
            yield name, (value, datetime.fromtimestamp(float(moment), UTC))


def node_of(labels: Mapping[str, Any]) -> str:
    """Return the node that the labels of a series name, without a port; empty without one."""
    name = next((str(labels[label]) for label in _LABELS if labels.get(label)), "")
    return name.rpartition(":")[0] or name


class Prometheus(PrometheusServer):
    """The load of nodes from Prometheus, which scrapes the node exporter."""

    async def measure(self) -> SourceReadings:
        """Run two queries, whatever the number of nodes."""
        cpu, memory = await asyncio.gather(self.query(CPU_QUERY, node_of), self.query(MEMORY_QUERY, node_of))
        return _of_both(cpu, memory)


class _Described(Struct, rename="camel"):
    name: str = ""


class _Value(Struct, rename="camel"):
    described_object: _Described
    timestamp: datetime
    value: str


class _Values(Struct, rename="camel"):
    """A MetricValueList."""

    items: list[_Value] = []
    metadata: core.Meta = core.Meta()


class _OfApiServer:
    """A source behind the API server: there is nothing to open."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to close."""


class CustomMetrics(_OfApiServer):
    """The API ``custom.metrics.k8s.io``, as an adapter of Prometheus serves it: parts of 1 by node."""

    VERSIONS = ("v1beta2", "v1beta1")

    async def measure(self) -> SourceReadings:
        """Both metrics of all nodes."""
        cpu, memory = [await self._values(name) for name in ("node_cpu_usage_avg", "node_memory_usage_avg")]
        return _of_both(cpu, memory)

    async def _values(self, metric: str) -> dict[str, tuple[float, datetime]]:
        missing: KubeError | None = None
        for version in self.VERSIONS:
            kind = Kind("custom.metrics.k8s.io", version, "MetricValueList", "nodes", False, _Values)
            try:
                values = await self._client.get(kind, None, "*", subresource=metric, deadline=ANSWER_WITHIN)
                return {item.described_object.name: (_percent(item.value), item.timestamp) for item in values.items}
            except NotFound as fault:
                missing = fault
            except KubeError as fault:
                raise LoadError(f"the custom metric {metric} of nodes cannot be read: {fault}") from fault
        raise LoadError(f"the API server does not serve the custom metric {metric} of nodes: {missing}")


def _percent(text: str) -> float:
    try:
        return 100.0 * float(quantity.parse(text))
    except quantity.QuantityError as fault:
        raise LoadError(f"a custom metric of nodes is no number: {fault}") from None


class _Usage(Struct, rename="camel"):
    metadata: core.Meta
    timestamp: datetime
    usage: core.Quantities


class MetricsServer(_OfApiServer):
    """The API ``metrics.k8s.io``: what nodes use at the moment. Statistics are computed here, from several answers."""

    KIND: Kind[_Usage] = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False, _Usage)

    def __init__(self, client: Client, capacities: NodeCapacities) -> None:
        super().__init__(client)
        self._capacities = capacities
        self._seen: dict[str, deque[tuple[datetime, float, float]]] = {}

    async def measure(self) -> SourceReadings:
        """Mean, deviation and peak of what was seen of each node in the last ten minutes."""
        try:
            usages = await self._client.list(self.KIND, deadline=ANSWER_WITHIN)
        except NotFound as fault:
            raise LoadError(f"the API server does not serve metrics.k8s.io, install metrics-server: {fault}") from fault
        except KubeError as fault:
            raise LoadError(f"the load of nodes cannot be read from metrics.k8s.io: {fault}") from fault
        capacities = self._capacities()
        listed = {item.metadata.name: item for item in usages.items if item.metadata.name in capacities}
        self._seen = {name: self._seen.get(name, deque()) for name in listed}
        for name, item in listed.items():
            used = quantity.amounts(item.usage)
            seen = self._seen[name]
            if not seen or seen[-1][0] < item.timestamp:
                seen.append(
                    (item.timestamp, _part(used, capacities[name], "cpu"), _part(used, capacities[name], "memory"))
                )
            while seen[0][0] < item.timestamp - PERIOD:
                seen.popleft()
        samples = sorted(self._seen.items())
        cpu = {name: _statistics([used for _, used, _ in seen], seen[-1][0]) for name, seen in samples}
        memory = {name: _statistics([used for _, _, used in seen], seen[-1][0]) for name, seen in samples}
        return SourceReadings({"cpu": cpu, "memory": memory})


class NodeAgents(_OfApiServer):
    """The annotations that the agents of nodes write on their NumaTopologies, which the scheduler watches."""

    def __init__(self, client: Client, reports: NodeReports) -> None:
        super().__init__(client)
        self._reports = reports

    async def measure(self) -> SourceReadings:
        """Return the loads of the nodes with an agent."""
        loads: dict[str, dict[str, Reading]] = {"cpu": {}, "memory": {}}
        for report in self._reports():
            text = report.metadata.annotations.get(names.NODE_LOAD)
            if text is None:
                continue
            try:
                load = decode(text, NodeLoad)
            except msgspec.DecodeError as fault:
                name = report.metadata.name
                raise LoadError(f"annotation {names.NODE_LOAD} of NumaTopology {name} is no load: {fault}") from None
            at, unknown = load.measured.timestamp(), math.nan
            for measure, mean in (("cpu", load.cpu), ("memory", load.memory)):
                spread = load.deviation.get(measure, unknown), load.peak.get(measure, unknown)
                loads[measure][report.metadata.name] = Reading(mean, at, *spread)
        if not loads["cpu"]:
            raise LoadError("no NumaTopology has the load of its node: run volcanopy agent on the nodes")
        return SourceReadings(loads)


def _part(used: Mapping[str, int], capacity: Mapping[str, int], resource: str) -> float:
    return 100.0 * used.get(resource, 0) / capacity[resource] if capacity.get(resource) else 0.0


def _statistics(samples: list[float], at: datetime) -> Reading:
    return Reading(math.fsum(samples) / len(samples), at.timestamp(), statistics.pstdev(samples), max(samples))
