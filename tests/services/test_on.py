"""Operators that users write with ``volcanopy.on``: handlers get typed objects, and the examples do what they say."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest
from aiohttp import web

from tests.services.service_cluster import Cluster, controller
from volcanopy import on
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.core import Pod, Queue
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS, QUEUES
from volcanopy.services.controllers import kopf_edge

EXAMPLES = Path(__file__).parents[2] / "examples" / "operators"
SOON = 90.0
"""Seconds, where a mistake means for ever."""


class Calls:
    """What handlers were called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()

    def add(self, call: Any) -> None:
        """Called in any thread."""
        self._loop.call_soon_threadsafe(self._add, call)

    def _add(self, call: Any) -> None:
        self.calls.append(call)
        self._changed.set()

    async def until(self, holds: Callable[[list[Any]], bool]) -> None:
        async with asyncio.timeout(SOON):
            while not holds(self.calls):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def operator(cluster: Cluster, registry: kopf.OperatorRegistry) -> AsyncIterator[None]:
    """An operator of these handlers, in a thread."""
    session = kopf_edge.KopfSession(cluster.connection)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(aiohttp_session=session.open(), server=cluster.connection.url)

    async def spawn() -> Collection[asyncio.Task[Any]]:
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.process.ultimate_exiting_timeout = None
        return await kopf.spawn_tasks(registry=registry, settings=settings, clusterwide=True, standalone=True)

    running = asyncio.create_task(kopf_edge.run_operator(spawn, session.close))
    try:
        yield
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def example(cluster: Cluster, name: str, tmp_path: Path, **env: str) -> AsyncIterator[None]:
    """An example, run as its first line says."""
    command = ("-m", "kopf", "run", "--all-namespaces", "--standalone", str(EXAMPLES / name))
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), **env}
    process = await asyncio.create_subprocess_exec(sys.executable, *command, env=environment)
    try:
        yield
        assert process.returncode is None
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def queue(name: str, **spec: Any) -> Json:
    return {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}


async def test_handlers_get_typed_objects(embedded: Cluster) -> None:
    calls, registry = Calls(), kopf.OperatorRegistry()

    @on.job_phase("Completed", "Failed", registry=registry)
    async def ended(job: BatchJob, **_: Any) -> None:
        calls.add((job.metadata.name, job.status.state.phase, job.status.succeeded))

    @on.pod_failed(registry=registry)
    def failed(pod: Pod, **_: Any) -> None:
        calls.add((pod.metadata.name, pod.status.phase))

    @on.queue_changed("spec.weight", registry=registry)
    async def changed(queue: Queue, old: int, new: int, **_: Any) -> None:
        calls.add((queue.metadata.name, old, new, queue.spec.weight))

    @on.job_evicted(registry=registry)
    async def evicted(job: BatchJob, **_: Any) -> None:
        calls.add((job.metadata.name, [(eviction.by, eviction.pods) for eviction in job.status.evictions]))

    async with operator(embedded, registry), controller(embedded):
        await embedded.submit("good")
        await embedded.until(lambda: embedded.phase("good") == "Completed")
        await calls.until(lambda seen: ("good", "Completed", 1) in seen)
        embedded.ends = "Failed"
        await embedded.submit("bad")
        await calls.until(lambda seen: ("bad-a-0", "Failed") in seen and ("bad", "Failed", 0) in seen)
        await embedded.client.create(QUEUES, None, queue("team", weight=1))
        await calls.until(lambda seen: ("team", None, 1, 1) in seen)
        await embedded.client.patch(QUEUES, None, "team", {"spec": {"weight": 3}})
        await calls.until(lambda seen: ("team", 1, 3, 3) in seen)
        eviction = {"time": "2030-01-01T00:00:00Z", "by": "reclaim", "pods": 2}
        await embedded.client.patch_status(JOBS, embedded.namespace, "good", {"status": {"evictions": [eviction]}})
        await calls.until(lambda seen: ("good", [("reclaim", 2)]) in seen)
    assert calls.calls.count(("good", "Completed", 1)) == 1


async def test_the_example_notifies_of_a_failed_job(embedded: Cluster, tmp_path: Path) -> None:
    calls = Calls()

    async def post(request: web.Request) -> web.Response:
        calls.add((await request.json())["text"])
        return web.Response()

    app = web.Application()
    app.router.add_post("/", post)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    embedded.ends = "Failed"
    try:
        url = "http://{}:{}/".format(*runner.addresses[0][:2])
        async with example(embedded, "notify.py", tmp_path, WEBHOOK=url), controller(embedded):
            await embedded.submit("bad")
            await calls.until(lambda seen: any(f"job {embedded.namespace}/bad Failed" in text for text in seen))
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(("night", "cpus"), [("0-24", "32"), ("24-25", "8")])
async def test_the_example_scales_a_queue_by_the_time_of_day(
    embedded: Cluster, tmp_path: Path, night: str, cpus: str
) -> None:
    await embedded.client.create(QUEUES, None, queue("batch", weight=1))
    queues, changed = Reflector(embedded.client, QUEUES), asyncio.Event()
    async with example(embedded, "queue_hours.py", tmp_path, NIGHT=night), asyncio.timeout(SOON):
        following = asyncio.create_task(queues.run(lambda _: changed.set()))
        while queues.objects.get("batch", {}).get("spec", {}).get("capability") != {"cpu": cpus}:
            await changed.wait()
            changed.clear()
        following.cancel()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: on.job_phase("Done"), "job_phase: 'Done' is not a phase of a job: use Pending"),
        (on.job_phase, "job_phase: name at least one phase"),
        (lambda: on.job_phase("Failed", api="slurm"), "api 'slurm': use volcanopy or volcano"),
        (lambda: on.queue_changed("weight"), "queue_changed: field 'weight': begin with spec, status or metadata"),
        (lambda: on.queue_timer(0), "queue_timer: interval 0: give more than 0 seconds"),
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
