"""Who waits for news: the scheduler for anything new at all, others for a change of one of some objects and nothing else."""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager


class ChangeSignal:
    """Rings when there is something new to decide upon; ``since`` is the clock's time of the first unanswered ring."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.since: float | None = None
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There is something new."""
        if self.since is None:
            self.since = self._clock()
            self._rung.set()

    def answer(self) -> None:
        """All that was rung for so far is being looked at."""
        self.since = None
        self._rung.clear()

    async def wait(self) -> None:
        """Until it rings, or at once if it has rung."""
        await self._rung.wait()


class ChangeWaiters:
    """Events by the key of what they are about."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, set[asyncio.Event]] = {}

    @contextmanager
    def about(self, keys: Iterable[Hashable]) -> Iterator[asyncio.Event]:
        """An event that is set at every change of one of these, for as long as the block lasts; clear it to wait anew."""
        event, keys = asyncio.Event(), tuple(keys)
        for key in keys:
            self._waiting.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            for key in keys:
                waiting = self._waiting[key]
                waiting.discard(event)
                if not waiting:
                    del self._waiting[key]

    def tell(self, key: Hashable) -> None:
        """Something about this has changed."""
        for event in self._waiting.get(key, ()):
            event.set()

    def __len__(self) -> int:
        return len(self._waiting)
