"""The Lease on a thread and a connection of its own, so that a busy event loop does not lose it.

A cycle's bookkeeping, a large list or a garbage collection may keep the main event loop for a second or more, and all
its requests share the time that the machine gives. The renewal needs a few milliseconds every other second. The main loop only
reads whether this process leads.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NoReturn, Self, TypeVar

from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.leader.elector import Elector

T = TypeVar("T")
_JOIN = 5.0


class LeaseThread:
    """A candidate for a Lease, during ``async with``, with the methods of an :class:`~volcanopy.kube.leader.elector.Elector`."""

    def __init__(self, connection: Connection, manager: str, elector: Callable[[Client], Elector]) -> None:
        """``elector`` makes the candidate; it is called on the thread with a client of its own."""
        self._connection = replace(connection, credentials=connection.credentials.for_another_loop())
        self._manager, self._make = manager, elector
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._elector: Elector | None = None
        self._error: BaseException | None = None

    async def __aenter__(self) -> Self:
        machine.switch_threads_often()
        self._thread.start()
        await asyncio.to_thread(self._ready.wait)
        if self._error is not None:
            raise self._error
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, _JOIN)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        # Two connections, so that the watch of the Lease does not delay a renewal.
        async with Client(self._connection, connections=2, field_manager=self._manager) as client:
            self._loop, self._stop, self._elector = asyncio.get_running_loop(), asyncio.Event(), self._make(client)
            self._ready.set()
            await self._stop.wait()

    @property
    def leader(self) -> str:
        """The holder of the Lease as last seen."""
        return "" if self._elector is None else self._elector.leader

    def may_act(self) -> bool:
        """Whether this process leads at this very moment."""
        return self._elector is not None and self._thread.is_alive() and self._elector.may_act()

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        await self._on_thread(self._candidate.acquire())

    async def hold(self) -> NoReturn:
        """Keep the leadership until cancelled. Raises LostLeadership."""
        await self._on_thread(self._candidate.hold())
        raise AssertionError("an elector never returns")

    async def release(self) -> None:
        """Stop acting and give back the Lease."""
        await self._on_thread(self._candidate.release())

    def release_now(self, seconds: float) -> None:
        """Give back the Lease from another thread, while the main loop stands still."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._candidate.release(), self._loop).result(seconds)

    @property
    def _candidate(self) -> Elector:
        assert self._elector is not None, "use it as a context manager"
        return self._elector

    async def _on_thread(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
