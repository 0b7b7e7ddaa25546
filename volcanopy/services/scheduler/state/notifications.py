"""Notifications of changes: one signal for any change of the cluster state, and events for changes of single objects."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress

from volcanopy.kube import machine


class ChangeSignal:
    """Set when a scheduling cycle may have something to do; ``since`` is the time of the first change since then.

    A *minor* change can hardly make a pod start, such as a pod of an incomplete gang: it may wait for others. ``minor_since``
    is the time of the first of those.
    """

    def __init__(self, clock: Callable[[], float] = machine.monotonic) -> None:
        self.since: float | None = None
        self.minor_since: float | None = None
        self._clock = clock
        self._event, self._any = asyncio.Event(), asyncio.Event()

    def set(self, *, minor: bool = False) -> None:
        """Signal a change."""
        if minor:
            if self.minor_since is None:
                self.minor_since = self._clock()
        elif self.since is None:
            self.since = self._clock()
            self._event.set()
        self._any.set()

    def clear(self) -> None:
        """Start to handle all changes so far."""
        self.since = self.minor_since = None
        self._event.clear()
        self._any.clear()

    async def wait(self, limit: float = 0.0) -> None:
        """Wait for a change, or return at once after one; after a minor one wait up to ``limit`` seconds for others."""
        await self._any.wait()
        if self.since is None and self.minor_since is not None:
            left = self.minor_since + limit - self._clock()
            if left > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._event.wait()


class ChangeWaiters:
    """Events that are set when an object changes, by the object's key."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, dict[asyncio.Event, None]] = {}

    @contextmanager
    def changes_of(self, keys: Iterable[Hashable]) -> Iterator[asyncio.Event]:
        """An event that is set at each change of one of these objects during the block; clear it to wait again."""
        event, keys = asyncio.Event(), tuple(keys)
        for key in keys:
            self._waiting.setdefault(key, {})[event] = None
        try:
            yield event
        finally:
            for key in keys:
                waiting = self._waiting[key]
                waiting.pop(event, None)
                if not waiting:
                    del self._waiting[key]

    def notify(self, key: Hashable) -> None:
        """Set the events of this object."""
        for event in self._waiting.get(key, ()):
            event.set()
