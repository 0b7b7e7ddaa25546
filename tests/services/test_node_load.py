"""The nodes' real load, asked of servers that answer as the real ones do."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.kube.cluster import CRDS, Cluster, running_cluster
from volcanopy.api import core
from volcanopy.api.config_file import ConfigError
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.measures import Reading, Readings, of_load
from volcanopy.scheduler.policy.config import parse
from volcanopy.scheduler.policy.metrics_source import MeasureQueries, Metrics
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler.config_file import ConfigFile
from volcanopy.services.scheduler.measure_sources import source
from volcanopy.services.scheduler.node_load import LoadFollower
from volcanopy.services.scheduler.node_load_sources import (
    CPU_QUERY,
    MEMORY_QUERY,
    CustomMetrics,
    LoadError,
    MetricsServer,
    Prometheus,
    SourceReadings,
)
from volcanopy.services.scheduler.scheduler_service import run
from volcanopy.services.scheduler.state.store import Store

MOMENT = 1_900_000_000.5
BASE = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: predicates\n  - name: usage\n'


class ReviewHandlers:
    """A server that answers as Prometheus does, and counts the questions."""

    def __init__(self) -> None:
        self.cpu: list[dict[str, Any]] = []
        self.memory: list[dict[str, Any]] = []
        self.others: dict[str, list[dict[str, Any]]] = {}
        self.broken: Callable[[], web.Response] | None = None
        self.asked = 0
        self.handled = asyncio.Event()
        """Set when it is asked again: what it answered first has been taken in."""
        self.url = ""

    def say(self, label: str, cpu: dict[str, str], memory: dict[str, str]) -> None:
        self.cpu = [{"metric": {label: name}, "value": [MOMENT, value]} for name, value in cpu.items()]
        self.memory = [{"metric": {label: name}, "value": [MOMENT + 1, value]} for name, value in memory.items()]

    async def query(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.asked > 2:
            self.handled.set()
        if self.broken is not None:
            return self.broken()
        query = request.query["query"]
        if query == "fails":
            return web.json_response({"status": "error", "error": "parse error"}, status=400)
        result = {CPU_QUERY: self.cpu, MEMORY_QUERY: self.memory, **self.others}[query]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


@pytest.fixture
async def prometheus() -> AsyncIterator[ReviewHandlers]:
    answers = ReviewHandlers()
    app = web.Application()
    app.router.add_get("/base/api/v1/query", answers.query)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    answers.url = f"http://{host}:{port}/base"
    yield answers
    await runner.cleanup()


async def measured(address: str) -> Readings:
    async with Prometheus(address) as source:
        return (await source.measure()).nodes


def shown(readings: Readings) -> dict[str, list[tuple[str, float, float]]]:
    """Return the mean and time of each reading, which can be compared."""
    return {name: [(key, each.mean, each.at) for key, each in of.items()] for name, of in readings.items()}


# Prometheus


@pytest.mark.parametrize(("label", "suffix"), [("instance", ":9100"), ("instance", ""), ("node", ""), ("nodename", "")])
async def test_prometheus_gives_the_load_of_all_nodes_in_two_responses(
    prometheus: ReviewHandlers, label: str, suffix: str
) -> None:
    prometheus.say(label, {f"n1{suffix}": "12.5", f"n2{suffix}": "99"}, {f"n1{suffix}": "40", f"n2{suffix}": "1e1"})
    moment = datetime.fromtimestamp(MOMENT, UTC)
    loads = await measured(f"{prometheus.url}/")
    assert shown(loads) == shown(of_load({"n1": (12.5, 40.0, moment), "n2": (99.0, 10.0, moment)}))
    assert prometheus.asked == 2


async def test_a_node_with_incomplete_or_invalid_load_is_omitted(prometheus: ReviewHandlers) -> None:
    prometheus.say("node", {"n1": "1", "n2": "NaN", "n3": "3"}, {"n1": "2", "n2": "2"})
    assert list((await measured(prometheus.url))["cpu"]) == ["n1"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda: web.json_response({"status": "error", "error": "query timed out"}, status=503), "query timed out"),
        (lambda: web.Response(text="<html>not here</html>", status=404), "returned no result (404)"),
        (lambda: web.json_response([1, 2]), "returned no result (200)"),
        (lambda: web.json_response({"status": "success", "data": {"result": [{"metric": {}}]}}), "no result (200)"),
    ],
)
async def test_an_invalid_response_gives_a_one_line_error(
    prometheus: ReviewHandlers, answer: Callable[[], web.Response], says: str
) -> None:
    prometheus.broken = answer
    with pytest.raises(LoadError, match=r".+") as refusal:
        await measured(prometheus.url)
    assert says in str(refusal.value)


async def test_an_unreachable_server_gives_a_one_line_error() -> None:
    with pytest.raises(LoadError, match=r"Prometheus at http://127\.0\.0\.1:1/api/v1/query does not answer"):
        await measured("http://127.0.0.1:1")


# Measures by query


async def test_each_measure_has_a_query_for_each_statistic(prometheus: ReviewHandlers) -> None:
    prometheus.say("node", {"n1": "12.5", "n2": "20"}, {"n1": "40", "n2": "50"})
    prometheus.others = {
        "watts": [{"metric": {"instance": "n1:9100"}, "value": [MOMENT, "310"]}],
        "spread": [{"metric": {"node": "n1"}, "value": [MOMENT - 5, "3"]}],
    }
    settings = Metrics.model_validate(
        {
            "type": "prometheus",
            "address": prometheus.url,
            "measures": {
                "power": {"query": "watts"},
                "cpu": {"deviation": "spread"},
                "broken": {"query": "fails"},
            },
        }
    )
    async with Client(Connection("http://127.0.0.1:1")) as client, source(settings, client, State()) as opened:
        answer = await opened.measure()
    assert shown({"power": answer.nodes["power"]}) == {"power": [("n1", 310.0, MOMENT)]}
    assert answer.nodes["cpu"]["n1"][:3] == (12.5, MOMENT - 5, 3.0)
    assert math.isnan(answer.nodes["cpu"]["n2"].deviation)
    assert answer.problem.startswith("measure broken: Prometheus at")
    assert answer.problem.endswith("rejects the query: parse error")


async def test_a_failing_source_among_others_keeps_its_last_values(prometheus: ReviewHandlers) -> None:
    prometheus.say("node", {"n1": "12.5"}, {"n1": "40"})
    prometheus.others = {"watts": [{"metric": {"node": "n1"}, "value": [MOMENT, "310"]}]}
    settings = Metrics(type="prometheus", address=prometheus.url, measures={"power": MeasureQueries(query="watts")})
    async with Client(Connection("http://127.0.0.1:1")) as client, source(settings, client, State()) as opened:
        assert not (await opened.measure()).problem
        del prometheus.others["watts"]
        answer = await opened.measure()
        assert answer.problem
        assert answer.nodes["power"]["n1"].mean == 310.0
        prometheus.broken = lambda: web.Response(status=500)
        with pytest.raises(LoadError, match="; measure power: "):
            await opened.measure()


# Following


class ScriptedSource:
    """A source that returns what the test puts in, and waits for it; a problem is raised."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[dict[str, tuple[float, float, datetime]] | str] = asyncio.Queue()
        self.asked = asyncio.Semaphore(0)
        self.opened = self.closed = 0

    async def __aenter__(self) -> Self:
        self.opened += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed += 1

    async def measure(self) -> SourceReadings:
        self.asked.release()
        said = await self.told.get()
        if isinstance(said, str):
            raise LoadError(said)
        return SourceReadings(of_load(said))


class Quick(LoadFollower):
    """Waits for nothing but the configuration."""

    pauses: list[float]

    async def _pause(self, seconds: float) -> None:
        self.pauses = [*getattr(self, "pauses", []), seconds]
        await super()._pause(0)


@asynccontextmanager
async def following(config: ConfigFile) -> AsyncIterator[tuple[Store, ScriptedSource, Quick]]:
    store, source = Store(), ScriptedSource()
    async with Client(Connection("http://127.0.0.1:1")) as client:
        follower = Quick(store, client, config, opener=lambda *_: source)
        task = asyncio.create_task(follower.run())
        try:
            yield store, source, follower
        finally:
            task.cancel()
            await asyncio.wait((task,))


def written(path: Path, text: str) -> ConfigFile:
    path.write_text(text)
    return ConfigFile(path, builtin())


PROMETHEUS = BASE + "metrics:\n  type: prometheus\n  address: http://127.0.0.1:1\n  interval: 15s\n"


async def test_measured_load_is_in_the_next_snapshot(tmp_path: Path) -> None:
    async with following(written(tmp_path / "conf", PROMETHEUS)) as (store, source, _):
        now = datetime.now(UTC)
        store.state.upsert(core.Node(metadata=core.Meta(name="n1")))
        await source.told.put({"n1": (50.0, 25.0, now)})
        await asyncio.wait_for(store.changed.wait(), 60)
        snapshot = store.snapshot(now)
        assert [snapshot.measure(name).mean.tolist() for name in ("cpu", "memory")] == [[50.0], [25.0]]
        assert snapshot.measures.measured.interval == timedelta(seconds=15)


async def test_a_failing_source_is_reported_once_backs_off_and_keeps_its_last_values(tmp_path: Path) -> None:
    async with following(written(tmp_path / "conf", PROMETHEUS)) as (store, source, follower):
        await source.told.put({"n1": (50.0, 25.0, datetime.now(UTC))})
        await asyncio.wait_for(store.changed.wait(), 60)
        store.changed.clear()
        with capture_logs() as logs:
            for said in (*["no answer"] * 4, "another fault"):
                await source.told.put(said)
            await source.told.put({"n1": (60.0, 25.0, datetime.now(UTC))})
            await asyncio.wait_for(store.changed.wait(), 60)
        assert [log["problem"] for log in logs if log["log_level"] == "warning"] == ["no answer", "another fault"]
        assert [log["event"] for log in logs if log["log_level"] == "info"] == ["measures available again"]
        failures = follower.pauses[1:6]
        assert all(low / 2 <= pause <= low for pause, low in zip(failures, (1, 2, 4, 8, 16), strict=True))
        assert follower.problem == ""
        assert store.state.measured is not None
        assert store.state.measured.nodes["cpu"]["n1"].mean == 60.0


async def test_a_changed_source_is_queried_immediately_and_a_removed_one_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    config = written(path, BASE)
    async with following(config) as (store, source, _):
        path.write_text(PROMETHEUS)
        assert config.reload()
        await asyncio.wait_for(source.asked.acquire(), 60)
        path.write_text(PROMETHEUS.replace("15s", "1m30s"))
        assert config.reload()
        await source.told.put({"n1": (1.0, 2.0, datetime.now(UTC))})
        await asyncio.wait_for(source.asked.acquire(), 60)
        assert (source.opened, source.closed) == (2, 1)
        path.write_text(BASE + "# no more\n")
        assert config.reload()
        store.changed.clear()
        await source.told.put("is not asked again")
        await asyncio.wait_for(store.changed.wait(), 60)
        assert (source.opened, source.closed) == (2, 2)
        assert store.state.measured is None


# The API server's metrics APIs


def definition(group: str, plural: str, kind: str, version: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        yield running


ROOMS = {"n1": {"cpu": 4000, "memory": 8 * 2**30}}


async def test_metrics_server_gives_amounts_and_samples_are_averaged(cluster: Cluster) -> None:
    await cluster.client.create(CRDS, None, definition("metrics.k8s.io", "nodes", "NodeMetrics", "v1beta1"))
    kind: Kind[dict[str, Any]] = MetricsServer.KIND.raw
    source = MetricsServer(cluster.client, lambda: ROOMS)
    start = datetime(2030, 1, 1, tzinfo=UTC)

    async def set_usage(cpu: str, memory: str, minutes: int) -> tuple[Reading, Reading]:
        moment = start + timedelta(minutes=minutes)
        said = {"timestamp": moment.isoformat(), "window": "20s", "usage": {"cpu": cpu, "memory": memory}}
        for name in ("n1", "stranger"):
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **said}
            if minutes:
                await cluster.client.patch(kind, None, name, said)
            else:
                await cluster.client.create(kind, None, body)
        return await load()

    async def load() -> tuple[Reading, Reading]:
        nodes = (await source.measure()).nodes
        assert [list(nodes[name]) for name in ("cpu", "memory")] == [["n1"], ["n1"]]
        return nodes["cpu"]["n1"], nodes["memory"]["n1"]

    def is_load(reading: Reading, mean: float, minutes: int, deviation: float, peak: float) -> bool:
        moment = (start + timedelta(minutes=minutes)).timestamp()
        return reading[:4] == (mean, moment, deviation, peak) and math.isnan(reading.prediction)

    cpu, memory = await set_usage("1", "2Gi", 0)
    assert is_load(cpu, 25.0, 0, 0.0, 25.0)
    assert is_load(memory, 25.0, 0, 0.0, 25.0)
    assert is_load((await load())[0], 25.0, 0, 0.0, 25.0)
    cpu, memory = await set_usage("3", "6Gi", 1)
    assert is_load(cpu, 50.0, 1, 25.0, 75.0)
    assert is_load(memory, 50.0, 1, 25.0, 75.0)
    cpu, memory = await set_usage("2", "2Gi", 11)
    assert is_load(cpu, 62.5, 11, 12.5, 75.0)
    assert is_load(memory, 50.0, 11, 25.0, 75.0)


async def test_a_missing_metrics_server_is_reported(cluster: Cluster) -> None:
    with pytest.raises(LoadError, match=r"does not serve metrics\.k8s\.io, install metrics-server"):
        await MetricsServer(cluster.client, lambda: ROOMS).measure()


async def custom_metrics(request: web.Request) -> web.Response:
    """Answers as an adapter of Prometheus does, of the older version."""
    values = {"node_cpu_usage_avg": "250m", "node_memory_usage_avg": "0.5"}
    if request.match_info["version"] != "v1beta1":
        status = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not here"}
        return web.json_response(status, status=404)
    item = {
        "describedObject": {"kind": "Node", "name": "n1", "apiVersion": "/v1"},
        "timestamp": "2030-01-01T00:00:00Z",
        "value": values[request.match_info["metric"]],
    }
    return web.json_response({"kind": "MetricValueList", "metadata": {}, "items": [item]})


async def test_custom_metrics_are_fractions_in_each_served_version() -> None:
    app = web.Application()
    app.router.add_get("/apis/custom.metrics.k8s.io/{version}/nodes/*/{metric}", custom_metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with Client(Connection(f"http://{host}:{port}")) as client:
            result = (await CustomMetrics(client).measure()).nodes
        assert shown(result) == shown(of_load({"n1": (25.0, 50.0, datetime(2030, 1, 1, tzinfo=UTC))}))
    finally:
        await runner.cleanup()


async def test_missing_custom_metrics_are_reported(cluster: Cluster) -> None:
    with pytest.raises(LoadError, match="does not serve the custom metric node_cpu_usage_avg of nodes"):
        await CustomMetrics(cluster.client).measure()


# The whole service


async def test_the_scheduler_avoids_a_busy_node_until_its_load_drops(
    cluster: Cluster, prometheus: ReviewHandlers, tmp_path: Path
) -> None:
    """n1 is above the limit of 80 %, so that the pod waits; when n1 is quiet the pod is bound."""
    settings = SchedulerSettings(config=tmp_path / "conf", dump_dir=tmp_path)
    metrics = {"type": "prometheus", "address": prometheus.url, "interval": "100ms"}
    (tmp_path / "conf").write_text(f"{BASE}metrics: {json.dumps(metrics)}\n")

    def set_usage(cpu: str) -> None:
        now = datetime.now(UTC).timestamp()
        prometheus.cpu = [{"metric": {"node": "n1"}, "value": [now, cpu]}]
        prometheus.memory = [{"metric": {"node": "n1"}, "value": [now, "10"]}]

    set_usage("95")
    await cluster.node("n1")
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run(cluster.connection, settings, stop, ready))
    try:
        await asyncio.wait_for(ready.wait(), 60)
        await asyncio.wait_for(prometheus.handled.wait(), 60)
        await cluster.gang("a", 1)

        async def refused() -> bool:
            return any("above the limit of real cpu load" in text for _, _, text in await cluster.events())

        await cluster.until(refused, Kind("", "v1", "Event", "events", True, dict))
        assert await cluster.where() == {}
        set_usage("20")

        async def bound() -> bool:
            return await cluster.where() == {"a-0": "n1"}

        await cluster.until(bound)
    finally:
        stop.set()
        await task


# Keys of the configuration


def test_the_metrics_block_is_read_in_volcano_format() -> None:
    text = """
metrics:
  type: prometheus
  address: https://prometheus:9090
  interval: 1m
  tls.insecureSkipVerify: "true"
"""
    metrics = parse(BASE + text, builtin()).metrics
    assert metrics is not None
    assert (metrics.type, metrics.address, metrics.interval) == (
        "prometheus",
        "https://prometheus:9090",
        timedelta(minutes=1),
    )
    assert metrics.insecure
    assert parse(BASE, builtin()).metrics is None
    assert Metrics(type="metrics-server").interval == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (
            {"type": "graphite"},
            "metrics.type: input should be 'prometheus', 'prometheus_adaptor', 'metrics-server' or 'node-agent'",
        ),
        ({"type": "prometheus"}, "metrics: address must be the URL of the Prometheus server"),
        ({"type": "prometheus", "address": "prometheus:9090"}, "not 'prometheus:9090'"),
        ({"type": "metrics-server", "address": "http://x"}, "the API server is asked, leave it out"),
        ({"type": "prometheus", "adress": "http://x"}, "metrics: unknown key 'adress', did you mean 'address'?"),
        ({"type": "metrics-server", "interval": "0s"}, "metrics.interval: must be a duration above zero such as 30s"),
        ({"type": "metrics-server", "interval": "soon"}, "metrics.interval: must be a duration such as 90s"),
        ({"type": "elasticsearch", "elasticsearch.index": "x"}, "type elasticsearch is not supported"),
        ([1], "metrics: must be a mapping"),
        ({"interval": "1m"}, "metrics: type is missing: give one of prometheus,"),
        ({"maxAge": "0s", "type": "node-agent"}, "metrics.maxAge: must be a duration above zero"),
        ({"measures": {"power": {"query": "watts"}}}, "metrics: address must be the URL of the Prometheus server"),
        ({"type": "node-agent", "measures": {"power": {"peak": "x"}}}, "metrics: measures.power.query is missing"),
        ({"measures": {"power": {}}}, "metrics.measures.power: must have a query, deviation, peak or prediction"),
        ({"measures": {"power": {"qery": "x"}}}, "metrics: unknown key 'measures.power.qery'"),
    ],
)
def test_an_invalid_metrics_block_gives_a_one_line_error(block: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=r".+") as refusal:
        parse(f"{BASE}metrics: {json.dumps(block)}\n", builtin())
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
