"""The watches of the kinds that users write, by kopf, in a thread with an event loop of its own.

1. The thread starts kopf's tasks and waits for the first one that ends: kopf raises what ends a watch.
2. It reports that to the main event loop before it cleans up, because kopf's other tasks may ignore their cancellation.
3. It cleans up for at most a second, and waits for no thread of kopf.

kopf posts nothing and writes nothing here: handlers only pass events on. It takes 0.15 s of processor time to import, so only
the thread of the running controller does.
"""

import asyncio
import contextlib
import importlib.metadata
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import uvloop
from yarl import URL

from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.user_kinds import Edge, EdgeError, Receive

if TYPE_CHECKING:
    import aiohttp

FLOOR = (1, 45)
"""The first version of kopf whose watches report their errors; before, they end in silence."""
CLEANUP = 1.0
"""Seconds in which the tasks of kopf may end."""

Spawn = Callable[[], Coroutine[Any, Any, Collection["asyncio.Task[Any]"]]]
"""Starts the tasks of an operator."""


def kopf_edge(connection: Connection) -> Edge:
    """Return the edge that watches with kopf. Raises ThirdPartyError when the installed kopf cannot be supervised."""
    check_version(importlib.metadata.version("kopf"))
    return partial(follow, connection)


def check_version(version: str) -> None:
    """Raise ThirdPartyError if this version of kopf is older than the first one that can be supervised."""
    if tuple(int(number) for number in version.split(".")[:2]) < FLOOR:
        floor = ".".join(map(str, FLOOR))
        raise ThirdPartyError(f"kopf {version} is too old: its watches end in silence; install kopf>={floor},<2")


async def follow(connection: Connection, kinds: Sequence[Kind[Json]], receive: Receive) -> None:
    """List and watch kinds with kopf until it fails. Raises EdgeError, whose cause is kopf's error."""
    loop = asyncio.get_running_loop()

    def deliver(kind: Kind[Json], event: str | None, manifest: Json) -> None:
        loop.call_soon_threadsafe(receive, kind, event, manifest)

    async def spawn() -> Collection[asyncio.Task[Any]]:
        from volcanopy.services.controllers.kopf_operator import spawn_tasks  # noqa: PLC0415 - see above

        return await spawn_tasks(connection, session.open, kinds, deliver)

    session = KopfSession(connection)
    await run_operator(spawn, session.close)


async def run_operator(spawn: Spawn, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the tasks of an operator in a thread until one of them ends; raises EdgeError then. ``close`` is its clean-up."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[BaseException | None] = loop.create_future()
    cleaned = asyncio.Event()
    operator = _Operator(spawn, close, _on(loop, ended.set_result), _on(loop, cleaned.set))
    operator.start()
    try:
        error = await asyncio.shield(ended)
        raise EdgeError(f"kopf ended: {error!r}") from error
    finally:
        operator.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cleaned.wait(), 2 * CLEANUP)


def _on(loop: asyncio.AbstractEventLoop, function: Callable[..., object]) -> Callable[..., None]:
    """Return a function for another thread that calls this one on the loop, if that still runs."""

    def call(*arguments: object) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(function, *arguments)

    return call


class _Operator(threading.Thread):
    """The thread; ``report`` is called with the error of the first task that ends, ``cleaned`` at the end."""

    def __init__(
        self,
        spawn: Spawn,
        close: Callable[[], Coroutine[Any, Any, None]],
        report: Callable[..., None],
        cleaned: Callable[..., None],
    ) -> None:
        super().__init__(name="kopf", daemon=True)
        self._spawn, self._close, self._report, self._cleaned = spawn, close, report, cleaned
        self._loop = uvloop.new_event_loop()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End the thread soon."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)

    def run(self) -> None:
        """Run the tasks until one of them ends."""
        error: BaseException | None = None
        try:
            asyncio.set_event_loop(self._loop)
            error = self._loop.run_until_complete(self._first_end())
        except BaseException as failure:  # whatever it is, the main loop gets it
            error = failure
        self._report(error)
        try:
            self._loop.set_exception_handler(lambda _loop, _context: None)
            self._loop.run_until_complete(self._clean())
        finally:
            self._loop.close()  # without waiting for the threads of its executor
            self._cleaned()

    async def _first_end(self) -> BaseException | None:
        stopped = asyncio.create_task(self._stopping.wait())
        done, _ = await asyncio.wait({*await self._spawn(), stopped}, return_when=asyncio.FIRST_COMPLETED)
        errors = [task.exception() for task in done if not task.cancelled()]
        return next((error for error in errors if error is not None), None)

    async def _clean(self) -> None:
        """Cancel all tasks twice: those of kopf wait for others after the first time."""
        for _ in range(2):
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=CLEANUP / 2)
        await self._close()
        await self._loop.shutdown_asyncgens()


class KopfSession:
    """Our connection as a session of kopf: TLS, proxy, and credentials that renew themselves."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._credentials = connection.credentials.for_another_loop()
        self._origin = str(URL(connection.url).origin())
        self._opened: list[aiohttp.ClientSession] = []

    def open(self) -> "aiohttp.ClientSession":
        """Return a new session."""
        from volcanopy.kube.client.streams import http_proxy, open_session  # noqa: PLC0415 - with aiohttp

        connection = self._connection
        session = open_session(connection, 0, proxy=http_proxy(connection), middlewares=(self._authenticate,))
        self._opened.append(session)
        return session

    async def close(self) -> None:
        """Close all sessions."""
        for session in self._opened:
            await session.close()
        self._opened.clear()
        await asyncio.sleep(0)  # in which the transports close

    async def _authenticate(
        self, request: "aiohttp.ClientRequest", handler: "aiohttp.ClientHandlerType"
    ) -> "aiohttp.ClientResponse":
        if str(request.url.origin()) != self._origin:
            return await handler(request)  # a redirection: no other server gets the credentials
        request.server_hostname = self._connection.server_name
        refreshed = False
        while True:
            headers = await self._credentials.headers()
            for name in set(headers):
                request.headers.popall(name, None)
            request.headers.extend(headers)
            response = await handler(request)
            if response.status != 401 or refreshed or not await self._credentials.refresh(headers):
                return response
            refreshed = True
            response.close()
