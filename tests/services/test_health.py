"""Health and readiness of processes: standby, working, stuck, and with stale watches."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import aiohttp
import pytest

from tests.kube.cluster import Cluster, running_cluster
from tests.loop_time import loop_time
from tests.services.test_scheduler import with_actions
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.leader.elector import LeaseDurations
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.policy.plugin import Arguments, NoArguments
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.services.controllers import controller_service
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process.health import Health, Heartbeat, MetricsAccess, serving, stale_watches, unsynced
from volcanopy.services.process.settings import Election, SchedulerSettings
from volcanopy.services.scheduler import scheduler_service


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Silent:
    """A watch, or none that works."""

    faulty_since: float | None
    fault: str


async def ask(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(address + path) as answer:
        return answer.status, await answer.text()


async def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 -- a process is looked at from outside, as a kubelet does
            await asyncio.sleep(0.02)


# The checks


def test_a_stopped_heartbeat_is_detected_after_its_limit() -> None:
    clock = Clock()
    pulse = Heartbeat("cycle", 60, clock)
    clock.now += 1000
    assert pulse.problem() == ""
    pulse.beat()
    clock.now += 60
    assert pulse.problem() == ""
    clock.now += 15
    assert pulse.problem() == "no successful cycle for 75 s (limit 60 s)"
    pulse.beat()
    assert pulse.problem() == ""


def test_the_watch_that_is_stale_for_longest_is_named() -> None:
    clock = Clock()
    watches = [Silent(None, ""), Silent(900.0, "pods: no answer"), Silent(800.0, "nodes: no answer")]
    check = stale_watches(lambda: watches, clock)
    assert check() == ""
    clock.now += 150
    assert check() == "watch stale for 350 s (limit 300 s): nodes: no answer"
    watches[2].faulty_since = None
    assert check() == ""
    assert stale_watches(list, clock)() == ""


def test_kinds_not_synced_yet_are_named() -> None:
    pods, nodes = asyncio.Event(), asyncio.Event()
    check = unsynced(lambda: [("pods", pods), ("nodes", nodes)])
    assert check() == "not listed yet: pods, nodes"
    pods.set()
    nodes.set()
    assert check() == ""


# The server


async def test_problems_are_reported_with_the_right_status_code() -> None:
    health = Health()
    problems = {"cycles": "", "caches": "not listed yet: pods"}
    health.live["cycles"] = lambda: problems["cycles"]
    health.ready["caches"] = lambda: problems["caches"]
    health.facts["leader"] = lambda: "somebody"
    async with serving(health, "127.0.0.1", 0) as (address, _):
        assert await ask(address, "/livez") == (200, "ok")
        assert await ask(address, "/healthz") == (200, "ok")
        message = "[+]cycles ok\n[-]caches failed: not listed yet: pods\nleader: somebody\nreadyz check failed\n"
        assert await ask(address, "/readyz") == (503, message)
        problems["caches"] = ""
        assert await ask(address, "/readyz") == (200, "ok")
        message = "[+]cycles ok\n[+]caches ok\nleader: somebody\nreadyz check passed\n"
        assert await ask(address, "/readyz?verbose") == (200, message)
        problems["cycles"] = "stuck"
        message = "[-]cycles failed: stuck\nleader: somebody\nlivez check failed\n"
        assert await ask(address, "/livez") == (503, message)
        assert (await ask(address, "/readyz"))[0] == 503
        assert (await ask(address, "/nothing"))[0] == 404


async def test_metrics_are_served_in_the_prometheus_format() -> None:
    async with serving(Health(), "127.0.0.1", 0) as (address, _), aiohttp.ClientSession() as session:
        async with session.get(f"{address}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            assert "# TYPE volcanopy_leader gauge" in await answer.text()
        accepting = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with session.get(f"{address}/metrics", headers=accepting) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert (await answer.text()).endswith("# EOF\n")


async def test_metrics_have_a_listener_of_their_own_and_need_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    access = MetricsAccess(0, token)
    async with serving(Health(), "127.0.0.1", 0, access) as (address, metrics), aiohttp.ClientSession() as session:

        async def code(value: str | None) -> int:
            headers = {} if value is None else {"Authorization": value}
            async with session.get(f"{metrics}/metrics", headers=headers) as answer:
                return answer.status

        assert (await ask(address, "/metrics"))[0] == 404
        assert (await ask(metrics, "/livez"))[0] == 404
        assert [await code(value) for value in (None, "Bearer", "Bearer wrong", "Basic first")] == [401] * 4
        assert await code("Bearer first") == 200
        token.write_text("second")
        assert [await code("Bearer first"), await code("Bearer second")] == [401, 200]
        token.write_text("")
        assert await code("Bearer ") == 401


async def test_a_missing_token_is_named(tmp_path: Path) -> None:
    access = MetricsAccess(None, tmp_path / "token")
    with pytest.raises(OSError, match=r"--metrics-token: cannot read .*token: No such file"):
        async with serving(Health(), "127.0.0.1", 0, access):
            pytest.fail("it served")


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"127\.0\.0\.1:{port}, set another --bind-address or --health-port"):
            async with serving(Health(), "127.0.0.1", port):
                pytest.fail("it served")


# The services


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        yield running


def elected(name: str, stuck_after: float = 120.0) -> SchedulerSettings:
    terms = LeaseDurations(duration=9, renew=8, retry=0.5)  # a stopped leader releases its lease at once
    election = Election(name=name, namespace="kube-system", terms=terms)
    return SchedulerSettings(election=election, stuck_after=stuck_after)


@asynccontextmanager
async def start_scheduler(
    cluster: Cluster,
    settings: SchedulerSettings,
    registry: Registry | None = None,
    ready: asyncio.Event | None = None,
) -> AsyncIterator[tuple[Health, asyncio.Event]]:
    health, stop = Health(), asyncio.Event()
    running = scheduler_service.run(cluster.connection, settings, stop, ready, registry=registry, health=health)
    task = asyncio.create_task(running)
    try:
        await until(lambda: bool(health.live) or task.done())
        yield health, stop
    finally:
        stop.set()
        await task


def is_ready(health: Health) -> bool:
    return not any(health.prepared().values())


async def test_a_standby_is_ready_and_schedules_soon_after_its_election(cluster: Cluster) -> None:
    await cluster.node("n1", cpu="10")
    async with start_scheduler(cluster, elected("s")) as (leading, stop):
        await until(lambda: is_ready(leading) and leading.facts["leader"]().startswith("this process"))
        async with start_scheduler(cluster, elected("s")) as (following, _):
            await until(lambda: is_ready(following) and following.facts["leader"]() not in {"", "unknown"})
            leader = leading.facts["leader"]().removeprefix("this process, ")
            assert following.facts["leader"]() == leader
            await cluster.gang("a", 2)
            await cluster.until(lambda: placed(cluster, 2))
            stop.set()
            await until(lambda: following.facts["leader"]().startswith("this process"))
            await cluster.gang("b", 3)
            async with loop_time() as elapsed:
                await cluster.until(lambda: placed(cluster, 5))
                assert elapsed() < 5.0


async def placed(cluster: Cluster, count: int) -> bool:
    return len(await cluster.where()) == count


async def test_a_stuck_scheduler_is_unhealthy_and_stops_in_time(cluster: Cluster) -> None:
    """An action never comes to its end: the lease is given back, the process does not wait for the thread."""
    started, never = threading.Event(), threading.Event()

    class Endless:
        name: ClassVar[str] = "enqueue"
        arguments: ClassVar[type[Arguments]] = NoArguments

        def __call__(self, session: Session, arguments: NoArguments) -> None:
            started.set()
            never.wait(60)

    registry = with_actions(Endless())
    try:
        async with loop_time() as elapsed:
            async with start_scheduler(cluster, elected("stuck", stuck_after=0.5), registry) as (health, stop):
                await until(started.is_set)
                await until(lambda: bool(health.alive()["cycles"]))
                assert "no successful cycle for" in health.alive()["cycles"]
                assert health.alive()["watches"] == ""
                began = elapsed()
                stop.set()
                async with start_scheduler(cluster, elected("stuck")) as (other, _):
                    await until(lambda: other.facts["leader"]().startswith("this process"))
                    assert elapsed() - began < 5
            assert elapsed() - began < 10
    finally:
        never.set()


async def test_a_scheduler_without_a_server_becomes_unhealthy(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volcanopy.services.process.health.STALE_AFTER", 0.5)
    ready = asyncio.Event()
    async with start_scheduler(cluster, SchedulerSettings(), ready=ready) as (health, _):
        await ready.wait()
        assert is_ready(health)
        await cluster.server.stop()
        await until(lambda: bool(health.alive()["watches"]))
        assert "watch stale for" in health.alive()["watches"]
        assert health.alive()["cycles"] == ""


async def test_a_scheduler_that_is_not_synced_is_live_but_not_ready() -> None:
    health, stop = Health(), asyncio.Event()
    task = asyncio.create_task(
        scheduler_service.run(Connection("http://127.0.0.1:9"), SchedulerSettings(), stop, health=health)
    )
    await until(lambda: "pods" in health.prepared().get("caches", ""))
    assert not any(health.alive().values())
    stop.set()
    await task


async def test_a_controller_reports_what_it_waits_for_and_the_leader(cluster: Cluster) -> None:
    """Without the custom kinds the process is live and ready to watch them, and does not lead yet."""
    health, stop = Health(), asyncio.Event()
    election = Election(name="c", namespace="kube-system")
    settings = JobControllerSettings(election=election)
    task = asyncio.create_task(controller_service.run(cluster.connection, settings, stop, health=health))
    await until(lambda: bool(health.live) and is_ready(health))
    assert health.facts["leader"]() == "unknown"
    assert not any(health.alive().values())
    stop.set()
    await task
