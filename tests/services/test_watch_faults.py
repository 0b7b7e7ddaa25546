"""The controllers go on within seconds after every fault of a watch or a list."""

import asyncio
from collections.abc import Callable

import pytest

from tests.services.service_cluster import CRDS, Cluster, controller
from tests.services.spoiling_proxy import HTML, SpoilingProxy, error_event
from volcanopy.kube.client.connection import Connection

NOTICED = 60.0
"""Seconds within which a dead or stalled watch is noticed and replaced: a fifth of the shortest watch, after which each is replaced."""
Spoil = Callable[[SpoilingProxy], object]

FAULTS: dict[str, Spoil] = {
    "ERROR 500 in the stream": lambda proxy: proxy.inject("batchjobs", error_event(500, "InternalError")),
    "ERROR 504 in the stream": lambda proxy: proxy.inject("batchjobs", error_event(504, "Timeout")),
    "ERROR 403 in the stream": lambda proxy: proxy.inject("batchjobs", error_event(403, "Forbidden")),
    "ERROR 410 in the stream": lambda proxy: proxy.inject("batchjobs", error_event(410, "Expired")),
    "a broken byte": lambda proxy: proxy.inject("batchjobs", b'{"type":"MODIFIED","object":{"kind\xff":1}}\n'),
    "a page in the stream": lambda proxy: proxy.inject("batchjobs", HTML),
    "half an event": lambda proxy: (proxy.inject("batchjobs", b'{"type":"MOD'), proxy.inject("batchjobs", b"")),
    "a watch answered with 404": lambda proxy: _closed(proxy, "watch", 404, b"{}"),
    "a watch answered with a page": lambda proxy: _closed(proxy, "watch", 200, HTML),
    "a list answered with 404": lambda proxy: _relisted(proxy, 404, b"{}"),
    "a list answered with a page": lambda proxy: _relisted(proxy, 200, HTML),
    "a list answered with 500": lambda proxy: _relisted(proxy, 500, b"{}"),
}


def _closed(proxy: SpoilingProxy, how: str, code: int, body: bytes) -> None:
    proxy.answer("batchjobs", how, code, body)
    proxy.inject("batchjobs", b"")


def _relisted(proxy: SpoilingProxy, code: int, body: bytes) -> None:
    proxy.answer("batchjobs", "list", code, body)
    proxy.inject("batchjobs", error_event(410, "Expired"))


@pytest.mark.parametrize("fault", FAULTS)
async def test_jobs_are_taken_up_after_a_fault(cluster: Cluster, fault: str) -> None:
    direct = cluster.connection
    async with SpoilingProxy.open(direct) as proxy:
        cluster.connection = Connection(proxy.url)
        async with controller(cluster):
            await cluster.submit("before")
            await cluster.until(lambda: cluster.phase("before") == "Completed")
            FAULTS[fault](proxy)
            await cluster.submit("after")
            await cluster.until(lambda: cluster.phase("after") == "Completed", NOTICED)
            await cluster.submit("later")
            await cluster.until(lambda: cluster.phase("later") == "Completed", NOTICED)


async def test_jobs_are_taken_up_after_another_kind_has_been_deleted(embedded: Cluster) -> None:
    async with controller(embedded):
        await embedded.submit("before")
        await embedded.until(lambda: embedded.phase("before") == "Completed")
        await embedded.client.delete(CRDS, None, "jobtemplates.flow.volcanopy.io")
        await asyncio.sleep(0)
        await embedded.submit("after")
        await embedded.until(lambda: embedded.phase("after") == "Completed", NOTICED)


async def test_a_job_that_was_deleted_while_the_watch_was_broken_is_forgotten(cluster: Cluster) -> None:
    """Only a comparison with what was known before can tell."""
    direct = cluster.connection
    cluster.plays = False
    async with SpoilingProxy.open(direct) as proxy:
        cluster.connection = Connection(proxy.url)
        async with controller(cluster):
            await cluster.submit("gone")
            await cluster.until(lambda: "gone" in cluster.groups)
            proxy.answer("batchjobs", "list", 500, b"{}")
            proxy.inject("batchjobs", error_event(410, "Expired"))
            from volcanopy.kube.client.raw_kinds import JOBS

            await cluster.client.delete(JOBS, cluster.namespace, "gone")
            await cluster.until(lambda: "gone" not in cluster.groups)
            cluster.plays = True
            await cluster.submit("gone")
            await cluster.until(lambda: cluster.phase("gone") == "Completed", NOTICED)
