"""All sources of the scheduler's configuration as one: that of its type, and the queries of Prometheus for each measure."""

import asyncio
import math
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Self

from volcanopy.api import quantity
from volcanopy.kube.client.api_client import Client
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.measures import Reading
from volcanopy.scheduler.policy.metrics_source import MeasureQueries, Metrics
from volcanopy.services.scheduler.node_load_sources import (
    CustomMetrics,
    LoadError,
    MeasureSource,
    MetricsServer,
    NodeAgents,
    Prometheus,
    PrometheusServer,
    SourceReadings,
    node_of,
)


def source(settings: Metrics, client: Client, state: State) -> MeasureSource:
    """Return the configured sources as one; the state has the nodes and the reports of their agents."""
    sources: list[MeasureSource] = []
    match settings.type:
        case "prometheus":
            sources.append(Prometheus(settings.address, insecure=settings.insecure))
        case "prometheus_adaptor":
            sources.append(CustomMetrics(client))
        case "metrics-server":
            sources.append(MetricsServer(client, lambda: _capacities(state)))
        case "node-agent":
            sources.append(NodeAgents(client, state.numa.values))
    sources += [
        PrometheusMeasure(name, queries, settings.address, insecure=settings.insecure)
        for name, queries in sorted(settings.measures.items())
    ]
    return sources[0] if len(sources) == 1 else Sources(sources)


def _capacities(state: State) -> Mapping[str, Mapping[str, int]]:
    """Return the capacity of each node, in base units by resource."""
    nodes = [state.nodes.plain["objects"][row] for row in state.node_rows()]
    return {node.metadata.name: quantity.amounts(node.status.capacity or node.status.allocatable) for node in nodes}


class PrometheusMeasure(PrometheusServer):
    """One measure from Prometheus: a query for each of its statistics, whatever the number of nodes."""

    def __init__(self, name: str, queries: MeasureQueries, address: str, *, insecure: bool = False) -> None:
        super().__init__(address, insecure=insecure)
        self._name, self._queries = name, queries

    async def measure(self) -> SourceReadings:
        """Run the queries. Raises LoadError."""
        parts = self._queries.parts
        try:
            results = await asyncio.gather(*(self.query(query, node_of) for query in parts.values()))
        except LoadError as fault:
            raise LoadError(f"measure {self._name}: {fault}") from fault
        values: dict[str, dict[str, float]] = {}
        for part, result in zip(parts, results, strict=True):
            for node, (value, moment) in result.items():
                of_node = values.setdefault(node, {"mean": math.nan})
                of_node[part] = value
                of_node["at"] = min(moment.timestamp(), of_node.get("at", math.inf))
        return SourceReadings({self._name: {node: Reading(**each) for node, each in sorted(values.items())}})


class Sources:
    """Several sources as one: those that fail keep their last values."""

    def __init__(self, sources: Iterable[MeasureSource]) -> None:
        self._sources = tuple(sources)
        self._last: dict[int, SourceReadings] = {}
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for each in self._sources:
            await self._opened.enter_async_context(each)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def measure(self) -> SourceReadings:
        """Read all sources at once. Raises LoadError if all fail."""
        results = await asyncio.gather(*(_measured(each) for each in self._sources))
        problems = [result for result in results if isinstance(result, str)]
        if len(problems) == len(results):
            raise LoadError("; ".join(problems))
        self._last |= {place: result for place, result in enumerate(results) if isinstance(result, SourceReadings)}
        nodes: dict[str, dict[str, Reading]] = {}
        for place in sorted(self._last):
            for name, readings in self._last[place].nodes.items():
                _merge(nodes.setdefault(name, {}), readings)
        return SourceReadings(nodes, "; ".join(problems))


async def _measured(single: MeasureSource) -> SourceReadings | str:
    try:
        return await single.measure()
    except LoadError as fault:
        return str(fault)


def _merge(total: dict[str, Reading], readings: Mapping[str, Reading]) -> None:
    """Add readings: statistics that a later source has replace those of an earlier one, and the older time counts."""
    for target, reading in readings.items():
        known = total.get(target)
        if known is None:
            total[target] = reading
        else:
            changed = {
                part: value for part, value in reading._asdict().items() if part != "at" and not math.isnan(value)
            }
            total[target] = known._replace(at=min(known.at, reading.at), **changed)
