"""The order of writes: one at a time per object, in the order of the decisions; some are delayed and merged.

:class:`KeyLocks` serialises the writes of one object. :class:`DelayedWrites` delays writes: a newer write for the same key
replaces the one that waits, so ten changes within a second become one request.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from typing import Any

Write = Callable[[], Coroutine[Any, Any, None]]
Spawn = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


SPREAD = 0.04
"""Seconds for each waiting write by which a less urgent one is delayed: 25 a second."""


def spread(delay: float, longest: float, waiting: int) -> float:
    """Return the delay of a less urgent write when so many are waiting: it grows with their number, up to ``longest``.

    Most of them will have changed again by then. A status costs the API server as much as creating four pods.
    """
    return min(max(delay, SPREAD * waiting), max(delay, longest))


class KeyLocks:
    """One lock per key, granted in the order of the requests."""

    def __init__(self) -> None:
        self._last: dict[Hashable, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def lock(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of this key during the block."""
        before = self._last.get(key)
        done = self._last[key] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                # Shielded: cancelling this waiter must not cancel the holder.
                await asyncio.shield(before)
            yield
        finally:
            done.set_result(None)
            if self._last.get(key) is done:
                del self._last[key]

    def __len__(self) -> int:
        """The number of locked keys."""
        return len(self._last)


class DelayedWrites:
    """Delayed writes, one per key; ``spawn`` starts the task of a write that is due."""

    def __init__(self, spawn: Spawn) -> None:
        self.flushing = False
        """Whether the process ends: new writes are dropped."""
        self._spawn = spawn
        self._waiting: dict[Hashable, tuple[Write, float, asyncio.Handle]] = {}
        """By key: the write, when it is due, and its timer (which does not know that with every event loop)."""
        self._running: set[asyncio.Task[Any]] = set()

    def put(self, key: Hashable, delay: float, write: Write) -> None:
        """Write after ``delay`` seconds; replaces the write that waits for this key and keeps its time if it is earlier."""
        if self.flushing:
            return
        due = asyncio.get_running_loop().time() + delay
        waiting = self._waiting.get(key)
        if waiting is not None:
            due = min(due, waiting[1])
            waiting[2].cancel()
        self._waiting[key] = (write, due, asyncio.get_running_loop().call_at(due, self._start, key))

    def now(self, key: Hashable, write: Write) -> asyncio.Task[None]:
        """Write at once, instead of the write that waits for this key."""
        self.cancel(key)
        return self._run(write)

    def cancel(self, key: Hashable) -> None:
        """Drop the write that waits for this key."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting[2].cancel()

    def __len__(self) -> int:
        """The number of waiting writes."""
        return len(self._waiting)

    async def flush(self) -> None:
        """Start all waiting writes and wait for them; accept no more."""
        self.flushing = True
        for key in list(self._waiting):
            self._start(key)
        while self._running:
            await asyncio.wait(self._running)

    def close(self) -> None:
        """Drop all waiting writes; accept no more."""
        self.flushing = True
        for key in list(self._waiting):
            self.cancel(key)

    def _start(self, key: Hashable) -> None:
        write, _, handle = self._waiting.pop(key)
        handle.cancel()
        self._run(write)

    def _run(self, write: Write) -> asyncio.Task[None]:
        task = self._spawn(write())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task
