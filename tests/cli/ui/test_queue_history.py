"""Queues over hours and days from Prometheus' HTTP API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import test_utils, web

from volcanopy.api.model import Json
from volcanopy.cli.ui.queue_history import HistoryError, history

NOW = datetime(2030, 1, 2, tzinfo=UTC)
END = int(NOW.timestamp())
STEP = 72
"""Seconds between two of 300 points of six hours."""


@asynccontextmanager
async def prometheus(answer: Json | str, status: int = 200) -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers every range query alike; yields its URL and the queries."""
    queries: list[dict[str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        if isinstance(answer, str):
            return web.Response(text=answer, status=status)
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_get("/api/v1/query_range", handle)
    async with test_utils.TestServer(app) as server:
        yield str(server.make_url("/")), queries


def matrix(**queues: list[tuple[int, str]]) -> Json:
    result = [
        {"metric": {"queue_name": name}, "values": [list(point) for point in points]} for name, points in queues.items()
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


async def test_amounts_have_one_value_for_each_time_since_the_first() -> None:
    points = matrix(red=[(END - 2 * STEP, "1000"), (END, "3000")], blue=[(END - STEP, "500")])
    async with prometheus(points) as (url, _):
        document = await history(url, "cpu", timedelta(hours=6), NOW)
    assert document["times"] == [END - 2 * STEP, END - STEP, END]
    assert document["queues"]["red"] == {
        "allocated": [1000, 0, 3000],
        "fairShare": [1000, 0, 3000],
        "capability": [1000, None, 3000],
    }
    assert document["queues"]["blue"]["allocated"] == [0, 500, 0]


@pytest.mark.parametrize(
    ("resource", "metric"),
    [
        ("cpu", "1000 * volcanopy_queue_allocated_cpu_cores"),
        ("memory", "volcanopy_queue_allocated_memory_bytes"),
        ("nvidia.com/gpu", 'volcanopy_queue_allocated_scalar_resources{resource="nvidia.com/gpu"}'),
        ('a"}', 'volcanopy_queue_allocated_scalar_resources{resource="a\\"}"}'),
    ],
)
async def test_the_metric_of_a_resource_is_read_with_its_name_quoted(resource: str, metric: str) -> None:
    async with prometheus(matrix()) as (url, queries):
        assert (await history(url, resource, timedelta(hours=6), NOW))["times"] == []
    assert f"max by (queue_name) ({metric})" in {query["query"] for query in queries}


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ({"status": "error", "error": "query timed out"}, 422, "Prometheus rejects the query: query timed out"),
        ("<html>", 200, "this is not the answer of a Prometheus server"),
        ({"status": "success", "data": {}}, 200, "this is not the answer of a Prometheus server"),
    ],
)
async def test_a_failure_is_one_sentence(answer: Json | str, status: int, message: str) -> None:
    async with prometheus(answer, status) as (url, _):
        with pytest.raises(HistoryError) as error:
            await history(url, "cpu", timedelta(hours=6), NOW)
    assert str(error.value) == message


async def test_a_server_that_is_gone_is_one_sentence() -> None:
    async with prometheus(matrix()) as (url, _):
        pass
    with pytest.raises(HistoryError, match="Prometheus does not answer"):
        await history(url, "cpu", timedelta(hours=6), NOW)
