"""The order of writes: one at a time per object, in the order of the decisions; some are delayed and merged.

:class:`KeyLocks` serialises the writes of one object. :class:`DelayedWrites` delays writes: a newer write for the same key
replaces the one that waits, so ten changes within a second become one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from typing import Any

Write = Callable[[], Coroutine[Any, Any, None]]
Spawn = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


class KeyLocks:
    """Turns, by key: who asks first is served first, and nobody overtakes."""

    def __init__(self) -> None:
        self._last: dict[Hashable, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def lock(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for everybody who asked for this key before, and hold up everybody after."""
        before = self._last.get(key)
        done = self._last[key] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                # Shielded: it belongs to him who is at it, and our being cancelled must not cancel it.
                await asyncio.shield(before)
            yield
        finally:
            done.set_result(None)
            if self._last.get(key) is done:
                del self._last[key]

    def __len__(self) -> int:
        """The keys with a turn going on."""
        return len(self._last)


class DelayedWrites:
    """Writes that wait, one a key; ``spawn`` starts the task of a write whose time has come."""

    def __init__(self, spawn: Spawn) -> None:
        self.flushing = False
        """Whether this is the end: nothing waits any more, and nothing new is put off."""
        self._spawn = spawn
        self._waiting: dict[Hashable, tuple[Write, asyncio.TimerHandle]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    def put(self, key: Hashable, delay: float, write: Write) -> None:
        """Do this after ``delay`` seconds instead of what waits under the key; what is due earlier stays due earlier."""
        if self.flushing:
            return
        due = asyncio.get_running_loop().time() + delay
        waiting = self._waiting.get(key)
        if waiting is not None:
            due = min(due, waiting[1].when())
            waiting[1].cancel()
        self._waiting[key] = (write, asyncio.get_running_loop().call_at(due, self._start, key))

    def now(self, key: Hashable, write: Write) -> asyncio.Task[None]:
        """Do this at once, instead of what waits under the key."""
        self.cancel(key)
        return self._run(write)

    def cancel(self, key: Hashable) -> None:
        """Drop what waits under the key."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting[1].cancel()

    def __len__(self) -> int:
        """The writes that wait."""
        return len(self._waiting)

    def __contains__(self, key: Hashable) -> bool:
        """Whether something waits under the key."""
        return key in self._waiting

    async def flush(self) -> None:
        """The end: do at once what waits, put nothing off any more; return when all is done."""
        self.flushing = True
        for key in list(self._waiting):
            self._start(key)
        while self._running:
            await asyncio.wait(self._running)

    def close(self) -> None:
        """The end, at once: what waits is dropped."""
        self.flushing = True
        for key in list(self._waiting):
            self.cancel(key)

    def _start(self, key: Hashable) -> None:
        write, handle = self._waiting.pop(key)
        handle.cancel()
        self._run(write)

    def _run(self, write: Write) -> asyncio.Task[None]:
        task = self._spawn(write())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task
