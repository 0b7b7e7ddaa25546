"""A whole cluster in one process: the embedded API server, simulated nodes, and all services, on one event loop.

:class:`Machinery` is everything but the API server, so that it runs on a real one as well; :class:`LocalCluster` puts
an embedded API server under it.
"""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection, Credentials
from volcanopy.kube.client.kinds import Json
from volcanopy.local.apiserver.http.status_errors import bad_request
from volcanopy.local.apiserver.server import ApiServer, Tls
from volcanopy.local.manifests import Creator
from volcanopy.local.simulated import container_logs, nodes
from volcanopy.local.simulated.claim_controller import Supplies
from volcanopy.local.simulated.kubelet import Kubelet
from volcanopy.local.simulated.pod_stages import Stages
from volcanopy.services.admission import admission_service as admission
from volcanopy.services.admission.admission_service import AdmissionSettings
from volcanopy.services.controllers import controller_service
from volcanopy.services.controllers.controller_service import JobControllerSettings
from volcanopy.services.process.certificates import issue, make_authority
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler import scheduler_service as scheduler

log = logging.getLogger(__name__)

READY_WITHIN = 30.0
STOPPED_WITHIN = 8.0
"""Seconds that a part is given to stop before it is cut off."""

Entry = Callable[[asyncio.Event, asyncio.Event], Awaitable[None]]
"""A part of the machinery: runs until the first event is set, and sets the second when it is ready."""


class ClusterError(Exception):
    """A part of the cluster has ended by itself, or did not come up; says which and why."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What runs, and with which settings; None leaves a part out."""

    scheduler: SchedulerSettings | None = field(default_factory=SchedulerSettings)
    controller: JobControllerSettings | None = field(default_factory=JobControllerSettings)
    admission: AdmissionSettings | None = field(default_factory=AdmissionSettings)
    stages: Stages = field(default_factory=Stages)
    adopt_all: bool = True
    """Whether every node of the cluster is simulated, however it was made."""
    supplies: bool = False
    """Whether volumes are bound and made, and claims made from templates, as kube-controller-manager does."""


class Machinery:
    """The kubelet and the services at work on a cluster whose API server has our kinds (``async with``)."""

    def __init__(self, connection: Connection, parts: Parts | None = None) -> None:
        self.connection = connection
        self.parts = parts or Parts()
        self.client = Client(connection)
        self.kubelet = Kubelet(self.client, stages=self.parts.stages, adopt_all=self.parts.adopt_all)
        self._running: list[tuple[str, asyncio.Task[None], asyncio.Event]] = []
        self._fault: asyncio.Future[ClusterError] = asyncio.get_running_loop().create_future()
        self._stopping = False

    async def __aenter__(self) -> Self:
        try:
            await self._start("kubelet", self.kubelet.run)
            async with asyncio.TaskGroup() as tasks:
                for name, entry in self._services():
                    tasks.create_task(self._start(name, entry))
        except BaseException as raised:
            await self.stop()
            if isinstance(raised, BaseExceptionGroup):
                raise first(raised) from None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _services(self) -> list[tuple[str, Entry]]:
        found: list[tuple[str, Entry]] = []
        parts, connection = self.parts, self.connection
        if parts.supplies:
            found.append(("supplies", Supplies(self.client).run))
        if (told := parts.admission) is not None:
            found.append(("admission", lambda stop, ready: admission.run(connection, told, stop, ready)))
        if (asked := parts.scheduler) is not None:
            found.append(("scheduler", lambda stop, ready: scheduler.run(connection, asked, stop, ready)))
        if (given := parts.controller) is not None:
            found.append(("controller", lambda stop, ready: controller_service.run(connection, given, stop, ready)))
        return found

    async def _start(self, name: str, entry: Entry) -> None:
        """Start a part and wait until it is ready."""
        stop, ready = asyncio.Event(), asyncio.Event()

        async def part() -> None:
            await entry(stop, ready)

        task = asyncio.create_task(part(), name=name)
        task.add_done_callback(self._ended)
        self._running.append((name, task, stop))
        waiting = asyncio.create_task(ready.wait())
        try:
            done, _ = await asyncio.wait((task, waiting), timeout=READY_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if task in done:
            raise self._fault.result()
        if not done:
            raise ClusterError(f"the {name} was not ready after {READY_WITHIN:.0f} s")

    def _ended(self, task: asyncio.Task[None]) -> None:
        raised = None if task.cancelled() else task.exception()
        if self._fault.done() or (self._stopping and raised is None):
            return
        why = "it stopped by itself" if raised is None else str(first(raised)) or type(first(raised)).__name__
        fault = ClusterError(f"the {task.get_name()} has ended: {why}")
        fault.__cause__ = raised
        self._fault.set_result(fault)

    async def fault(self) -> ClusterError:
        """Wait until a part ends by itself; gives what is to be said about it."""
        return await asyncio.shield(self._fault)

    async def stop(self) -> None:
        """Stop what runs, in reverse order."""
        self._stopping = True
        while self._running:
            name, task, stop = self._running.pop()
            stop.set()
            done, _ = await asyncio.wait((task,), timeout=STOPPED_WITHIN)
            if not done:
                log.warning("the %s did not stop within %.0f s and is cut off", name, STOPPED_WITHIN)
                task.cancel()
                await asyncio.wait((task,))
        await self.client.close()


class LocalCluster:
    """An embedded cluster: made with ``async with``, gone afterwards (``persist`` names a file that keeps its objects).

    ``count`` nodes are simulated, besides those among ``objects``, which are created before anything else happens.
    With ``tls`` the API server speaks HTTPS and wants a token, else plain HTTP on the loopback interface. Raises
    OSError if the port is taken, JournalError if the file is damaged, RefusedError, ClusterError.
    """

    def __init__(
        self,
        count: int = 3,
        *,
        objects: Sequence[Json] = (),
        room: Mapping[str, str] | None = None,
        port: int = 0,
        tls: bool = False,
        persist: Path | None = None,
        parts: Parts | None = None,
    ) -> None:
        self._nodes = nodes.manifests(count, room)
        self._objects, self._port, self._tls, self._persist = objects, port, tls, persist
        self._parts = replace(parts or Parts(), supplies=True)
        self._stack = contextlib.AsyncExitStack()
        self.server: ApiServer
        self.machinery: Machinery

    async def __aenter__(self) -> Self:
        try:
            self.server = await ApiServer.start(
                port=self._port,
                tls=self_signed() if self._tls else None,
                persist=self._persist,
                log_source=self._log,
            )
            self._stack.push_async_callback(self.server.stop)
            connection = connection_to(self.server)
            async with Client(connection) as client:
                creator = Creator(client)
                await creator.install_definitions()
                await creator.create([*self._objects, *self._nodes])
            self.machinery = await self._stack.enter_async_context(Machinery(connection, self._parts))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The API server's address."""
        return self.server.url

    @property
    def client(self) -> Client:
        """A client of the cluster, open as long as the cluster is."""
        return self.machinery.client

    @property
    def kubelet(self) -> Kubelet:
        """The simulated kubelet: nodes can be added, removed and failed there."""
        return self.machinery.kubelet

    def kubeconfig(self) -> str:
        """A kubeconfig for the cluster's administrator (YAML)."""
        return self.server.kubeconfig()

    async def fault(self) -> ClusterError:
        """Wait until a part of the cluster ends by itself."""
        return await self.machinery.fault()

    # Logs

    def _log(self, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> bytes | AsyncIterator[bytes]:
        try:
            found = container_logs.lines(
                pod, container, self._parts.stages, previous=query.get("previous") in {"true", "1"}
            )
        except container_logs.NoLogError as fault:
            raise bad_request(str(fault)) from None
        if query.get("follow") in {"true", "1"} and container_logs.is_running(pod, container):
            return self._follow(pod, container, query, len(found))
        return container_logs.text(found, query, time.time())

    async def _follow(
        self, pod: Mapping[str, Any], container: str, query: Mapping[str, str], told: int
    ) -> AsyncIterator[bytes]:
        """The log until the container's present run ends, or its pod is gone."""
        metadata, run = pod["metadata"], container_logs.run_number(pod, container)
        yield container_logs.text(container_logs.lines(pod, container, self._parts.stages), query, time.time())
        bucket = self.server.context.store.bucket("pods")
        while True:
            changed = self.kubelet.next_change(f"{metadata['namespace']}/{metadata['name']}")
            entry = bucket.get(metadata["namespace"], metadata["name"])
            if entry is None or entry.uid != metadata["uid"]:
                return
            now: Mapping[str, Any] = entry.body
            if not container_logs.is_running(now, container) or container_logs.run_number(now, container) != run:
                again = container_logs.run_number(now, container) != run
                found = container_logs.lines(now, container, self._parts.stages, previous=again)
                rest = {key: value for key, value in query.items() if key == "timestamps"}
                yield container_logs.text(found[told:], rest, time.time())
                return
            await changed.wait()


def self_signed(hosts: Sequence[str] = ("localhost", "127.0.0.1")) -> Tls:
    """Return a certificate for these host names and addresses, signed by a new CA."""
    now = datetime.now(UTC)
    certificate = issue(make_authority(now, name="volcanopy embedded cluster"), hosts, now)
    return Tls(certificate.context(), certificate.authority.decode())


def connection_to(server: ApiServer) -> Connection:
    """The administrator's connection to an embedded API server."""
    credentials = Credentials({"Authorization": f"Bearer {server.token}"})
    trust = ssl.create_default_context(cadata=server.ca_pem) if server.ca_pem else None
    return Connection(server.url, credentials, trust)


def first(raised: BaseException) -> BaseException:
    """The first exception of a group, however deep; another exception is itself."""
    while isinstance(raised, BaseExceptionGroup):
        raised = raised.exceptions[0]
    return raised
