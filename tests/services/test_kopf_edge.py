"""kopf as the edge of the controllers: supervised, and with the same result as a watch of our own."""

import asyncio
import importlib.metadata
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.kube.socks_proxy import socks_proxy
from tests.services.service_cluster import Cluster
from tests.simulation.reflector_edge import reflector_edge
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.kube.client.connection import Connection, Credentials, Headers, headers_of
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import FLOWS, JOBS, QUEUES
from volcanopy.services.controllers import kopf_edge, kopf_operator
from volcanopy.services.controllers.user_kinds import Edge, EdgeError, UserKinds

SOON = 120.0
"""Seconds, where a mistake means for ever."""


@pytest.mark.parametrize("version", ["1.38.0", "1.44.6", "0.9"])
def test_a_kopf_whose_watches_end_in_silence_is_rejected(version: str) -> None:
    with pytest.raises(ThirdPartyError, match=rf"kopf {version} is too old: .* install kopf>=1\.45,<2"):
        kopf_edge.check_version(version)


@pytest.mark.parametrize("version", ["1.45.0", "1.46.0rc1", importlib.metadata.version("kopf")])
def test_later_versions_of_kopf_are_accepted(version: str) -> None:
    kopf_edge.check_version(version)


def test_kopf_is_imported_by_nobody_who_does_not_run_the_controllers() -> None:
    code = "import sys, volcanopy.services.controllers.controller_service, volcanopy.cli.main; sys.exit('kopf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_kopf_does_not_end_and_its_error_is_reported() -> None:
    """Tasks of other kinds ignore their cancellation; the error of the first one is reported before."""
    released = asyncio.Event()

    async def fail() -> None:
        raise RuntimeError("ERROR event")

    async def ignore() -> None:
        while not released.is_set():
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    async def spawn() -> Collection[asyncio.Task[None]]:
        return [asyncio.create_task(ignore()), asyncio.create_task(fail())]

    async def close() -> None:
        released.set()

    async with asyncio.timeout(SOON):
        with pytest.raises(EdgeError, match="ERROR event"):
            await kopf_edge.run_operator(spawn, close)


async def test_an_operator_that_cannot_start_is_reported() -> None:
    async def spawn() -> Collection[asyncio.Task[None]]:
        raise ValueError("no kinds")

    async def close() -> None:
        return

    async with asyncio.timeout(SOON):
        with pytest.raises(EdgeError, match="no kinds"):
            await kopf_edge.run_operator(spawn, close)


async def test_kopf_starts_for_a_user_whom_the_machine_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def getuser() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr("getpass.getuser", getuser)
    session = kopf_edge.KopfSession(Connection("http://127.0.0.1:1"))
    tasks = await kopf_operator.spawn_tasks(Connection("http://127.0.0.1:1"), session.open, (), lambda *_: None)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await session.close()


class _Renewed(Credentials):
    """A token that the server accepts after one renewal."""

    def __init__(self) -> None:
        super().__init__({"Authorization": "Bearer old"})

    async def refresh(self, rejected: Headers) -> bool:
        self._headers = headers_of({"Authorization": "Bearer new"})
        return True


@asynccontextmanager
async def served(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """The URL of a server with this answer."""
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


async def test_rejected_credentials_are_renewed() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers.getall("Authorization") == ["Bearer new"] else 401)

    async with served(answer) as url:
        session = kopf_edge.KopfSession(Connection(url, _Renewed()))
        async with session.open().get(url) as response:
            assert response.status == 200
        await session.close()


async def test_the_session_of_kopf_goes_through_a_socks_proxy_that_resolves_the_name() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async with served(answer) as server, socks_proxy(server) as proxy:
        url = f"http://cluster.example:{proxy.server_port}"
        session = kopf_edge.KopfSession(Connection(url, proxy=f"socks5h://127.0.0.1:{proxy.port}"))
        async with session.open().get(url) as response:
            assert response.status == 200
        assert proxy.targets == [("cluster.example", proxy.server_port)]
        await session.close()


async def test_a_redirection_gives_no_credentials_to_another_server() -> None:
    async def other(request: web.Request) -> web.Response:
        return web.Response(text=request.headers.get("Authorization", "none"))

    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPFound(target)

    async with served(other) as target, served(redirect) as url:
        session = kopf_edge.KopfSession(Connection(url, Credentials({"Authorization": "Bearer secret"})))
        async with session.open().get(url) as response:
            assert await response.text() == "none"
        await session.close()


class _Record:
    """What controllers have been told by one edge, for each object."""

    def __init__(self, cluster: Cluster, edge: Edge) -> None:
        self.events: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.changed = asyncio.Event()
        self._namespace = cluster.namespace
        self.users = UserKinds(cluster.client, (JOBS, FLOWS, QUEUES), (JOBS, FLOWS, QUEUES), self._take, edge)

    def _take(self, event: str, manifest: Json) -> None:
        meta = manifest["metadata"]
        if self._namespace in {meta.get("namespace"), meta["name"]}:
            self.events[f"{manifest['kind']} {meta['name']}"].append((event, meta["resourceVersion"]))
            self.changed.set()

    async def until_deleted(self, count: int) -> None:
        while sum(events[-1][0] == "DELETED" for events in self.events.values()) < count:
            self.changed.clear()
            await self.changed.wait()


async def test_both_edges_deliver_the_same_sequence(cluster: Cluster) -> None:
    cluster.plays = False
    edges = kopf_edge.kopf_edge(cluster.connection), reflector_edge(cluster.connection)
    records = [_Record(cluster, edge) for edge in edges]
    await cluster.submit("before")
    running = [asyncio.create_task(record.users.run()) for record in records]
    try:
        async with asyncio.timeout(300):
            for record in records:
                await record.users.listed()
            client, namespace = cluster.client, cluster.namespace
            queue = {
                "apiVersion": QUEUES.api_version,
                "kind": QUEUES.kind,
                "metadata": {"name": namespace},
                "spec": {"weight": 1},
            }
            await client.create(QUEUES, None, queue)
            for name in ("a", "b"):
                await cluster.submit(name)
                for number in range(5):
                    labels = {"metadata": {"labels": {"number": str(number)}}}
                    await client.patch(JOBS, namespace, name, labels)
            for name in ("before", "a", "b"):
                await client.delete(JOBS, namespace, name)
            await cluster.submit("a")
            await client.delete(JOBS, namespace, "a")
            await client.delete(QUEUES, None, namespace)
            for record in records:
                await record.until_deleted(4)
                while len(record.events["BatchJob a"]) < 9:
                    record.changed.clear()
                    await record.changed.wait()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    kopf, reflector = (record.events for record in records)
    assert kopf == reflector
    assert [event for event, _ in kopf["BatchJob a"]] == ["ADDED", *["MODIFIED"] * 5, "DELETED", "ADDED", "DELETED"]
