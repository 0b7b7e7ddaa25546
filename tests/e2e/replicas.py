"""Replicas of services as processes, and recorders of their Leases, pods and requests."""

import asyncio
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals
from typing import Any

import aiohttp

from tests.controlplane.processes import free_port
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import LEASES

LEASE = {"scheduler": "volcanopy-scheduler", "controller": "volcanopy-controller"}


class Replica:
    """A process of ours: ``command`` is the subcommand, ``flags`` are given to it besides the kubeconfig and the port."""

    def __init__(self, command: str, kubeconfig: Path, log: Path, *flags: str) -> None:
        self.command, self.log = command, log
        self._kubeconfig, self._flags = kubeconfig, flags
        self._process: asyncio.subprocess.Process | None = None
        self.port = free_port()

    async def start(self) -> None:
        arguments = ["--kubeconfig", str(self._kubeconfig), "--bind-address", "127.0.0.1", *self._flags]
        command = [sys.executable, "-m", "volcanopy", self.command, *arguments, "--health-port", str(self.port)]
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    def send(self, number: Signals) -> None:
        # It may have ended this moment.
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def over(self) -> int:
        """Wait until its present life is over; gives the status."""
        return await self.process.wait()

    def pause(self) -> None:
        self.send(SIGSTOP)

    def resume(self) -> None:
        self.send(SIGCONT)

    async def end(self, number: Signals = SIGKILL, within: float = 120.0) -> int:
        """Send a signal if it runs, and wait for its end: its exit status."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
        async with asyncio.timeout(within):
            return await self._process.wait()

    def said(self) -> list[Json]:
        """Its log so far."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def identities(self) -> list[str]:
        """Who it has been as a candidate, one for each of its lives."""
        return [str(line["identity"]) for line in self.said() if line.get("event") == "waiting for leadership"]

    async def ask(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.status, await answer.text()

    async def ready(self, within: float = 150.0) -> None:
        """Until it says that it is ready."""
        async with asyncio.timeout(within):
            while True:
                with suppress(aiohttp.ClientError, OSError):
                    if (await self.ask("/readyz"))[0] == 200:
                        return
                # Nobody tells when a process has begun to listen.
                await asyncio.sleep(0.25)


@dataclass
class Leases:
    """Who holds the Leases, as the API server tells it."""

    holders: dict[str, str] = field(default_factory=dict)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self, client: Client, namespace: str) -> None:
        async for batch in Reflector(client, LEASES, namespace).batches():
            async with self.news:
                for change in batch:
                    spec = change.object.get("spec") or {}
                    self.holders[change.object["metadata"]["name"]] = spec.get("holderIdentity") or ""
                self.news.notify_all()

    async def holder(self, command: str, *but: str, within: float = 120.0) -> str:
        """Wait until the Lease of a service is held, by somebody else than these."""
        async with asyncio.timeout(within), self.news:
            await self.news.wait_for(lambda: self.holders.get(LEASE[command], "") not in {"", *but})
            return self.holders[LEASE[command]]


class PodRecorder:
    """Sees every change of every pod: who was made under which name, where each was bound, and when."""

    def __init__(self) -> None:
        self.made: defaultdict[str, set[str]] = defaultdict(set)
        self.bound: defaultdict[str, set[str]] = defaultdict(set)
        self.at: dict[str, list[float]] = {"controller": [], "scheduler": []}
        """When pods were made, and when they were bound."""
        self.news = asyncio.Condition()

    async def follow(self, client: Client, namespace: str) -> None:
        async for batch in Reflector(client, PODS, namespace).batches():
            async with self.news:
                for change in batch:
                    self._see(change)
                self.news.notify_all()

    def _see(self, change: Change[Any]) -> None:
        pod = change.object
        if change.type is not ChangeType.DELETED and pod.metadata.uid not in self.made[pod.metadata.key]:
            self.made[pod.metadata.key].add(pod.metadata.uid)
            self.at["controller"].append(time.monotonic())
        if pod.spec.node_name and pod.spec.node_name not in self.bound[pod.metadata.uid]:
            self.bound[pod.metadata.uid].add(pod.spec.node_name)
            self.at["scheduler"].append(time.monotonic())

    async def until(self, holds: Callable[[], bool], within: float) -> None:
        async with asyncio.timeout(within), self.news:
            await self.news.wait_for(holds)

    async def act(self, command: str, goal: int, within: float = 120.0) -> None:
        """Until a service has made or bound so many pods."""
        await self.until(lambda: len(self.at[command]) >= goal, within)

    def assert_no_duplicates(self, names: set[str]) -> None:
        """Each of these pods was made once and bound once, and no other was."""
        assert set(self.made) == names
        assert {name: uids for name, uids in self.made.items() if len(uids) != 1} == {}, "a pod was made twice"
        assert {uid: nodes for uid, nodes in self.bound.items() if len(nodes) > 1} == {}, "a pod was bound twice"
        assert sum(bool(nodes) for nodes in self.bound.values()) == len(names)


class RecordingProxy:
    """Stands between one process and the API server (plain HTTP), and hears what it wants to change."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port = int(port)
        self.requests: list[tuple[str, str]] = []
        """Methods and paths, but for reading and for the Lease."""
        self.on_request: Callable[[str, str], object] = lambda method, path: None
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["RecordingProxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(self._host, self._port)
        await asyncio.gather(
            self._pass(reader, onward, self._record_requests), self._pass(there, writer, lambda _: None)
        )

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, on_chunk: Callable[[bytes], object]
    ) -> None:
        with suppress(OSError):
            while chunk := await source.read(1 << 16):
                on_chunk(chunk)
                sink.write(chunk)
                await sink.drain()
        with suppress(OSError):
            sink.close()

    def _record_requests(self, chunk: bytes) -> None:
        for method, path in re.findall(rb"(?:^|\n|\})(POST|PUT|PATCH|DELETE) (/\S+) HTTP/1.1\r\n", chunk):
            if b"/leases" not in path:
                self.requests.append((method.decode(), path.decode()))
                self.on_request(*self.requests[-1])


async def start_and_wait_until_ready(*replicas: Replica) -> None:
    """Start these, and wait until all are ready."""
    for replica in replicas:
        await replica.start()
    for replica in replicas:
        await replica.ready()


@asynccontextmanager
async def background_tasks(*works: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def terminated_on_exit(*replicas: Replica) -> AsyncIterator[None]:
    """Whatever happens, no process is left."""
    try:
        yield
    finally:
        for replica in replicas:
            if replica._process is not None and replica._process.returncode is None:
                with suppress(ProcessLookupError):
                    replica.resume()
        ends = (replica.end(SIGTERM) for replica in replicas)
        await asyncio.gather(*ends, return_exceptions=True)
        await asyncio.gather(*(replica.end() for replica in replicas))
