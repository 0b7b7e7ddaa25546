"""The page of a cluster with 10,000 jobs on 5,000 nodes, in a browser: complete, and fast enough to be used.

``python -m tests.cli.ui.test_large_cluster`` prints for each page the time to interactive, the time of the browser's main
thread and of the server, and the memory.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from tests.cli.ui.chromium import browser, needs_browser
from volcanopy.api import core, names
from volcanopy.api.batch_read import BatchJob, BatchJobSpec, BatchJobStatus, JobState, TaskSpec
from volcanopy.cli.ui.cluster_view import ClusterView
from volcanopy.cli.ui.server import Page, UiSettings
from volcanopy.cli.ui.viewers import SharedViewer, Viewer
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection

NODES, JOBS, QUEUES = 5000, 10000, 50
NOW = datetime(2026, 3, 1, tzinfo=UTC)
PAGES = {"": "Cluster", "queues": "QUEUE", "jobs": "of 10000 jobs", "nodes": "Hatched: reserved", "decisions": "Latest"}


def fill(view: ClusterView) -> None:
    """Put the objects into the caches of a view: every second job runs a pod of 2 cpu on each of two nodes."""
    queues = [f"queue-{number}" for number in range(QUEUES)]
    for name in queues:
        amounts = core.QueueStatus(state="Open", allocated={"cpu": "200"}, fair_share={"cpu": "800"})
        insert(view._queues[0], core.Queue(metadata=_meta(name, ""), status=amounts))
    for number in range(NODES):
        node = core.NodeStatus(allocatable={"cpu": "8", "memory": "32Gi", "pods": "110"})
        insert(view._nodes, core.Node(metadata=_meta(f"node-{number:04}", ""), status=node))
    pods: list[core.Pod] = []
    for number in range(JOBS):
        name, runs = f"job-{number:05}", number % 2 == 0
        phase = "Running" if runs else "Pending"
        state = JobState(phase=phase, message="" if runs else "0/5000 nodes are available: 5000 Insufficient cpu")
        spec = BatchJobSpec(queue=queues[number % QUEUES], tasks=(TaskSpec(name="worker", replicas=2),))
        counts = BatchJobStatus(state=state, running=2 if runs else 0, pending=0 if runs else 2)
        insert(view._jobs[0], BatchJob(metadata=_meta(name), spec=spec, status=counts))
        reason = core.Explanation(gate="nodes", message=state.message, numbers={"position": str(number // QUEUES + 1)})
        group = core.PodGroup(
            metadata=_meta(f"{name}-{name}"),
            spec=core.PodGroupSpec(queue=spec.queue),
            status=core.PodGroupStatus(phase=phase, explanation=None if runs else reason),
        )
        insert(view._groups[0], group)
        pods += [_pod(name, index, number) for index in range(2) if runs]
    for pod in pods:
        insert(view._pods, pod)
    view._take_pods([Change(ChangeType.ADDED, pod) for pod in pods])


def _meta(name: str, namespace: str = "default", **labels: str) -> core.Meta:
    return core.Meta(name=name, namespace=namespace, uid=name, creation_timestamp=NOW, labels=labels)


def _pod(job: str, index: int, number: int) -> core.Pod:
    container = core.Container(resources=core.ResourceRequirements(requests={"cpu": "2", "memory": "4Gi"}))
    return core.Pod(
        metadata=_meta(f"{job}-worker-{index}", **{names.JOB_NAME: job}),
        spec=core.PodSpec(node_name=f"node-{(number + index) % NODES:04}", containers=(container,)),
        status=core.PodStatus(phase="Running"),
    )


def insert(watch: Any, item: Any) -> None:
    watch.objects[item.metadata.key] = item


@asynccontextmanager
async def served(*, filled: bool = True) -> AsyncIterator[tuple[str, ClusterView]]:
    """Serve the page of the large cluster, or of an empty one; there is no API server behind it."""
    async with Client(Connection("http://127.0.0.1:1")) as client:
        view = ClusterView(client, None, lambda: NOW)
        if filled:
            fill(view)
        runner = web.AppRunner(
            Page(SharedViewer(Viewer(client, view, None)), UiSettings(port=0)).app,
            access_log=None,
            shutdown_timeout=0.1,
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/", view
        finally:
            await runner.cleanup()


async def opened(tab: Any, url: str, name: str) -> None:
    await tab.goto(f"{url}#/{name}")
    await tab.locator("main [data-ready]").wait_for(timeout=120_000)


@needs_browser
@pytest.mark.slow("draws 5,000 nodes in a browser")
async def test_every_page_shows_ten_thousand_jobs_and_five_thousand_nodes() -> None:
    async with served() as (url, view), browser() as tab:
        for name, text in PAGES.items():
            await opened(tab, url, name)
            assert text in await tab.inner_text("main"), name
            assert not await tab.evaluate("document.documentElement.scrollWidth > innerWidth"), name
        await opened(tab, url, "jobs")
        assert await tab.locator("tbody tr").count() == 100
        await tab.get_by_label("Filter").fill("job-09999")
        await tab.get_by_text("1 of 10000 jobs").wait_for()
        job = view.jobs[0][1]
        view._take([Change(ChangeType.MODIFIED, job)])
        await tab.get_by_label("Filter").fill("job-00001")
        await tab.get_by_role("cell", name="1", exact=True).first.wait_for()


@needs_browser
async def test_what_cannot_be_read_is_not_shown_as_missing() -> None:
    async with served(filled=False) as (url, view), browser() as tab:
        view._nodes.fault = 'nodes is forbidden: User "ada" cannot list resource "nodes" in API group ""'
        await opened(tab, url, "nodes")
        await tab.get_by_text("not known: nodes cannot be read").wait_for()
        await tab.get_by_role("alert").filter(has_text="you may not list nodes").wait_for()
        assert await tab.locator("#live").inner_text() == "live"
        await opened(tab, url, "")
        assert "? nodes" in await tab.inner_text("main")
        await opened(tab, url, "jobs")
        await tab.get_by_text("There are no jobs").wait_for()


async def measured() -> None:
    """Print the measures of each page."""
    async with served() as (url, _):
        for name in PAGES:
            async with browser() as tab:
                session = await tab.context.new_cdp_session(tab)
                await session.send("Performance.enable")
                begin, used = time.perf_counter(), time.process_time()
                await opened(tab, url, name)
                wall, server = time.perf_counter() - begin, time.process_time() - used
                metrics = {
                    each["name"]: each["value"] for each in (await session.send("Performance.getMetrics"))["metrics"]
                }
                print(
                    f"{name or 'overview':10} interactive after {wall:5.2f} s, main thread {metrics['TaskDuration']:5.2f} s, "
                    f"server and driver {server:5.2f} s, JavaScript heap {metrics['JSHeapUsedSize'] / 2**20:5.1f} MiB",
                    flush=True,
                )


if __name__ == "__main__":
    asyncio.run(measured())
