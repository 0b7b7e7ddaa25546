"""Watches of user-written kinds by kopf.

Only ``on.event`` handlers are registered, so kopf writes neither annotations nor finalizers into users' objects. It runs in
its own thread with its own event loop, because it takes over the signals of the main thread.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
import kopf
import structlog

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection, Headers
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json, Kind

log = structlog.get_logger(__name__)

Sink = Callable[[str | None, Json], None]
"""Called on the main loop with the type of an event (ADDED, MODIFIED, DELETED; None when listed) and the object."""


class _NoDifferences(kopf.DiffBaseStorage):
    """No comparison with the last handled state, which would copy every object at each event."""

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        return {}

    def fetch(self, *, body: Any) -> Any:
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        """Store nothing."""


class _NoProgress(kopf.StatusProgressStorage):
    """No progress of handlers."""

    def clear(self, *, essence: Any) -> Any:
        return essence


class KopfWatches:
    """The watches of several kinds."""

    def __init__(self, connection: Connection, kinds: Sequence[Kind[Json]], sink: Sink) -> None:
        self._connection, self._kinds, self._sink = connection, kinds, sink
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self.started = asyncio.Event()
        self._given: Headers | None = None

    async def run(self) -> None:
        """Run until cancelled. Raises the error that ended kopf, if any."""
        ended: asyncio.Future[None] = self._loop.create_future()
        thread = threading.Thread(target=self._thread, args=(ended,), name="kopf", daemon=True)
        thread.start()
        try:
            await ended
            raise RuntimeError("kopf has ended unexpectedly")
        finally:
            self._stop.set()
            await asyncio.shield(asyncio.to_thread(thread.join, 10.0))

    def _thread(self, ended: "asyncio.Future[None]") -> None:
        fault: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except BaseException as raised:
            fault = raised
        self._loop.call_soon_threadsafe(_finish, ended, fault)

    async def _serve(self) -> None:
        ready = asyncio.Event()

        async def report_start() -> None:
            await ready.wait()
            self._loop.call_soon_threadsafe(self.started.set)

        reporting = asyncio.create_task(report_start())
        await kopf.operator(
            registry=self._registry(),
            settings=_settings(),
            clusterwide=True,
            standalone=True,
            stop_flag=self._stop,
            ready_flag=ready,
        )
        reporting.cancel()

    async def _headers(self) -> Headers:
        """Return authentication headers. kopf calls this again when the server has rejected them."""
        credentials = self._connection.credentials
        if self._given is not None:
            await credentials.refresh(self._given)
        self._given = await credentials.headers()
        return self._given

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            # The credentials are renewed on the main loop.
            headers = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._headers(), self._loop))
            context = self._connection.ssl
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True),
                headers=headers,
                proxy=self._connection.proxy,
            )
            return kopf.AiohttpSession(server=self._connection.url, aiohttp_session=session)

        for kind in self._kinds:

            @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"watch-{kind.plural}")
            async def changed(event: Any, **_: Any) -> None:
                self._loop.call_soon_threadsafe(self._sink, event["type"], event["object"])

        return registry


async def wait_for_kinds(client: Client, kinds: Sequence[Kind[Any]]) -> None:
    """Wait until the server serves these kinds; logs each missing group once."""
    logged: set[str] = set()
    pause = 0.1
    for group in sorted({f"/apis/{kind.api_version}" for kind in kinds}):
        while True:
            try:
                await client.get_raw(group)
                break
            except KubeError as fault:
                if group not in logged:
                    log.warning("API group not served: install charts/volcanopy/crds", group=group, error=str(fault))
                    logged.add(group)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)


def _settings() -> kopf.OperatorSettings:
    # Otherwise each event logs two lines, and kopf warns that it does not handle signals.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.process.ultimate_exiting_timeout = None
    settings.queueing.idle_timeout = 1.0
    settings.queueing.exit_timeout = 0.5
    settings.persistence.diffbase_storage = _NoDifferences()
    settings.persistence.progress_storage = _NoProgress()
    return settings


def _finish(ended: "asyncio.Future[None]", fault: BaseException | None) -> None:
    if ended.done():
        return
    if fault is None or isinstance(fault, asyncio.CancelledError):
        ended.set_result(None)
    else:
        ended.set_exception(fault)
