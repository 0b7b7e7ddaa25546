"""Two schedulers and two controllers; leaders are killed, told to stop, and paused while gangs run.

Nothing is lost, nothing is done twice, and the next one takes over.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from embedded_apiserver.server import ApiServer
from tests.e2e.leader_failures import JOBS, cluster_without_services, gang, run_gangs
from tests.e2e.replicas import (
    Leases,
    PodRecorder,
    RecordingProxy,
    Replica,
    background_tasks,
    start_and_wait_until_ready,
    terminated_on_exit,
)
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy_local.cluster import connection_to

BRIEF = ("--lease-duration", "7", "--renew-deadline", "6", "--retry-period", "0.5")


@asynccontextmanager
async def embedded_server(tmp_path: Path) -> AsyncIterator[tuple[Connection, Path, ApiServer]]:
    server = await ApiServer.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig())
    connection = connection_to(server)
    try:
        async with Client(connection) as client:
            await Creator(client).install_definitions()
        yield connection, kubeconfig, server
    finally:
        await server.stop()


def replicas_of(command: str, kubeconfigs: Sequence[Path], tmp_path: Path, *flags: str) -> list[Replica]:
    return [
        Replica(command, kubeconfig, tmp_path / f"{command}-{number}.log", *flags)
        for number, kubeconfig in enumerate(kubeconfigs)
    ]


@pytest.mark.slow("ends four leaders and waits for a Lease each time")
async def test_gangs_complete_after_every_leader_has_ended(tmp_path: Path) -> None:
    """Killed, and the next ones told to stop."""
    async with embedded_server(tmp_path) as (connection, kubeconfig, _):
        schedulers = replicas_of("scheduler", [kubeconfig] * 2, tmp_path, *BRIEF)
        controllers = replicas_of("controller", [kubeconfig] * 2, tmp_path, *BRIEF)
        async with terminated_on_exit(*schedulers, *controllers):
            endings = await run_gangs(connection, "crashes", schedulers, controllers, ends=(SIGKILL, SIGTERM))
    for ending in endings.values():
        # Not after the seven seconds of the Lease: it was given back.
        assert max(ending.takeovers.get(SIGTERM, [0.0])) < 5


# Paused


def kubeconfig_for(server: ApiServer, url: str, file: Path) -> Path:
    file.write_text(server.kubeconfig().replace(server.url, url))
    return file


class LeaderPause:
    """The leader of one service is paused in the middle of its work, when it has sent ``after`` requests to a path."""

    def __init__(self, command: str, path: str, replicas: Sequence[Replica], proxies: Sequence[RecordingProxy]) -> None:
        self.command, self._path, self._replicas, self._proxies = command, path, replicas, proxies
        self.paused = asyncio.Event()
        self._before = ""
        self._leader, self._proxy = replicas[0], proxies[0]

    async def set(self, leases: Leases, after: int) -> None:
        self._before = await leases.holder(self.command)
        (self._leader,) = [replica for replica in self._replicas if self._before in replica.identities]
        self._proxy = self._proxies[self._replicas.index(self._leader)]

        def pause_leader(method: str, path: str) -> None:
            sent = sum(item.partition("?")[0].endswith(self._path) for _, item in self._proxy.requests)
            if not self.paused.is_set() and sent >= after:
                self._leader.pause()
                self.paused.set()

        self._proxy.on_request = pause_leader

    async def succeeded(self, leases: Leases) -> None:
        """Until another leads."""
        async with asyncio.timeout(90):
            await self.paused.wait()
        await leases.holder(self.command, self._before)

    async def assert_no_changes_after_continuing(self) -> None:
        self._proxy.on_request = lambda method, path: None
        count = len(self._proxy.requests)
        self._leader.resume()
        async with asyncio.timeout(60):
            assert await self._leader.process.wait() == 1
        # What had been handed to the event loop's transports in the very turn in which the process was stopped cannot be
        # called back any more; of the dozens that waited for an answer or a slot, none has left.
        assert len(self._proxy.requests[count:]) <= 3, self._proxy.requests[count:]
        assert "lost: not renewed within 6 s" in self._leader.log.read_text()


@pytest.mark.slow("waits until two Leases have expired")
async def test_paused_leaders_change_nothing_when_they_continue(
    tmp_path: Path,
) -> None:
    """Each has dozens of requests to send yet, and wakes when another leads: they are not sent, and it ends."""
    size = 120
    recorder, leases = PodRecorder(), Leases()
    async with (
        embedded_server(tmp_path) as (connection, _, server),
        cluster_without_services(connection, "paused", nodes=16) as client,
        AsyncExitStack() as stack,
        background_tasks(recorder.follow(client, "paused"), leases.follow(client, "kube-system")),
    ):
        proxies = [await stack.enter_async_context(RecordingProxy(server.url).listening()) for _ in range(4)]
        configs = [kubeconfig_for(server, proxy.url, tmp_path / f"config-{at}") for at, proxy in enumerate(proxies)]
        controllers = replicas_of("controller", configs[:2], tmp_path, *BRIEF)
        schedulers = replicas_of("scheduler", configs[2:], tmp_path, *BRIEF)
        making = LeaderPause("controller", "/pods", controllers, proxies[:2])
        binding = LeaderPause("scheduler", "/binding", schedulers, proxies[2:])
        async with terminated_on_exit(*controllers, *schedulers):
            await start_and_wait_until_ready(*controllers, *schedulers)
            for item in (making, binding):
                await item.set(leases, after=20)
            await client.create(JOBS, "paused", gang(0, size, "forever"))
            await making.succeeded(leases)
            await binding.succeeded(leases)
            await recorder.until(lambda: sum(map(bool, recorder.bound.values())) == size, within=120)
            await making.assert_no_changes_after_continuing()
            await binding.assert_no_changes_after_continuing()
    recorder.assert_no_duplicates({f"paused/gang-00-worker-{index}" for index in range(size)})
