"""A scheduler that is killed at any moment, again and again, while gangs come in."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from embedded_apiserver.store.object_store import Bucket, Event
from tests.kube.cluster import Cluster, running_cluster
from tests.kube.flaky_client import Fault, FlakyClient, Script, lost, refused
from volcanopy.api import core
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler import scheduler_service as service
from volcanopy.services.scheduler.writers.status_writer import Timing

ROOT = Path(__file__).parents[2]
GANGS, SIZE, NODES, CPU = 20, 5, 6, 20


class Observer:
    """Sees every change of every pod, and what must never be: a pod with a second node, a node with too many pods."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        self.wrong: list[str] = []
        self.news = asyncio.Event()

    def see(self, changes: list[Change[core.Pod]]) -> None:
        for change in changes:
            pod, uid = change.object, change.object.metadata.uid
            if change.type is ChangeType.DELETED:
                self.nodes.pop(uid, None)
                continue
            before = self.nodes.get(uid, "")
            if before and pod.spec.node_name != before:
                self.wrong.append(f"{pod.metadata.name} moved from {before} to {pod.spec.node_name}")
            if pod.spec.node_name:
                self.nodes[uid] = pod.spec.node_name
        for node, count in Counter(self.nodes.values()).items():
            if count > CPU:
                self.wrong.append(f"{node} holds {count} of {CPU}")
        self.news.set()

    async def bound(self, count: int, deadline: float = 120.0) -> None:
        """Until so many pods have a node."""
        async with asyncio.timeout(deadline):
            while len(self.nodes) < count:
                self.news.clear()
                await self.news.wait()


class Trap:
    """Kills a process in the middle of its work: at the moment when the server carries out its n-th bind."""

    def __init__(self, cluster: Cluster) -> None:
        self._pid = self._left = 0
        cluster.server.context.store.listeners.append(self._look)

    def set(self, pid: int, binds: int) -> None:
        self._pid, self._left = pid, binds

    def _look(self, bucket: Bucket, event: Event) -> None:
        # The one change that a waiting pod sees in this test: its node.
        if bucket.name != "pods" or event.type != "MODIFIED" or not event.entry.body["spec"].get("nodeName"):
            return
        self._left -= 1
        if self._left == 0:
            os.kill(self._pid, signal.SIGKILL)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        for number in range(NODES):
            await running.node(f"n{number}", cpu=str(CPU))
        yield running


@pytest.fixture
async def observer(cluster: Cluster) -> AsyncIterator[Observer]:
    seen = Observer()
    task = asyncio.create_task(Reflector(cluster.client, PODS).run(seen.see))
    yield seen
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def submit_gangs(cluster: Cluster) -> None:
    for number in range(GANGS):
        await cluster.gang(f"g{number}", SIZE, phase="")


async def assert_no_leftovers(cluster: Cluster, observer: Observer) -> None:
    assert observer.wrong == []
    where = await cluster.where()
    assert len(where) == GANGS * SIZE
    assert Counter(name.rpartition("-")[0] for name in where) == {f"g{number}": SIZE for number in range(GANGS)}


@pytest.mark.slow("starts the scheduler process again and again")
async def test_a_repeatedly_killed_scheduler_binds_every_gang_once(cluster: Cluster, observer: Observer) -> None:
    """SIGKILL, each time after a random number of further binds, so that gangs are left half bound."""
    rng = Random(20)
    trap = Trap(cluster)
    submitting = asyncio.create_task(submit_gangs(cluster))
    kills = 0
    while len(observer.nodes) < GANGS * SIZE:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.services.scheduler_process", cluster.server.url, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        trap.set(process.pid, rng.randint(5, 25))
        ended, done = asyncio.create_task(process.wait()), asyncio.create_task(observer.bound(GANGS * SIZE))
        await asyncio.wait((ended, done), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            assert ended.result() == -signal.SIGKILL
            kills += 1
            done.cancel()
        else:
            done.result()
            process.kill()
            await ended
    await submitting
    assert kills >= 4
    await assert_no_leftovers(cluster, observer)


@pytest.mark.parametrize("seed", range(4))
async def test_every_gang_is_bound_once_despite_request_faults(
    cluster: Cluster, observer: Observer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A third of all binds are rejected or lost; the process is disconnected now and then as well."""
    rng = Random(seed)

    def draw(verb: str) -> Fault | None:
        if verb != "bind" or rng.random() > 0.3:
            return None
        return rng.choice((refused(500, "etcd is away"), lost(done=True), lost(done=False)))

    class Unlucky(FlakyClient):
        script = Script(draw=draw)

    monkeypatch.setattr(service, "Client", Unlucky)
    submitting = asyncio.create_task(submit_gangs(cluster))
    quick = Timing(settle=0.05, message_delay=0.2, repeat_delay=1.0)
    while len(observer.nodes) < GANGS * SIZE:
        running = asyncio.create_task(
            service.run(cluster.connection, SchedulerSettings(heartbeat=0.5), asyncio.Event(), timing=quick)
        )
        await observer.bound(min(GANGS * SIZE, len(observer.nodes) + rng.randint(20, 80)))
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    await submitting
    await assert_no_leftovers(cluster, observer)


async def test_a_half_bound_gang_is_completed_and_reported_by_the_next_process(cluster: Cluster) -> None:
    """The former process had admitted the gang, bound two of five members, and died."""
    await cluster.gang("a", 5)
    await cluster.client.bind("default", "a-0", "n0")
    await cluster.client.bind("default", "a-3", "n1")
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(cluster.connection, SchedulerSettings(), stop))

    async def all_run() -> bool:
        return len(await cluster.where()) == 5

    async def reported() -> bool:
        return (await cluster.get_group("a")).status.phase == "Running"

    await cluster.until(all_run)
    await cluster.until(reported, POD_GROUPS)
    stop.set()
    await running
    where = await cluster.where()
    assert (where["a-0"], where["a-3"]) == ("n0", "n1")
