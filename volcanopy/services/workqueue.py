"""Keys that want attention: each is worked on by one at a time, and however often it is added meanwhile, once more."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 60.0


@dataclass
class _Later:
    at: float
    handle: asyncio.TimerHandle


@dataclass
class WorkQueue:
    """A queue of keys for several workers on one event loop. All times are seconds of that loop's clock."""

    _ready: dict[str, None] = field(default_factory=dict)
    _active: set[str] = field(default_factory=set)
    _dirty: set[str] = field(default_factory=set)
    _later: dict[str, _Later] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)
    _some: asyncio.Event = field(default_factory=asyncio.Event)

    def __len__(self) -> int:
        return len(self._ready) + len(self._active)

    def add(self, key: str, after: float = 0.0) -> None:
        """Have this key worked on, now or in so many seconds; the soonest of several wishes counts."""
        if after > 0:
            self._add_later(key, after)
            return
        if waiting := self._later.pop(key, None):
            waiting.handle.cancel()
        if key in self._active:
            self._dirty.add(key)
        else:
            self._ready[key] = None
            self._some.set()

    def _add_later(self, key: str, after: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + after
        waiting = self._later.get(key)
        if waiting is not None:
            if waiting.at <= at:
                return
            waiting.handle.cancel()
        self._later[key] = _Later(at, loop.call_at(at, self.add, key))

    async def get(self) -> str:
        """The next key. It must be given back with :meth:`done`."""
        while not self._ready:
            self._some.clear()
            await self._some.wait()
        key = next(iter(self._ready))
        del self._ready[key]
        self._active.add(key)
        return key

    def done(self, key: str) -> None:
        """The key has been worked on; if it was added meanwhile, it is ready again."""
        self._active.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def succeeded(self, key: str) -> None:
        """The next failure of this key is a first one."""
        self._pauses.pop(key, None)

    def failed(self, key: str, jitter: Callable[[], float]) -> float:
        """Have the key worked on again after a pause that grows with each failure; returns it. ``jitter`` is 0 to 1."""
        pause = min(self._pauses.get(key, FIRST_PAUSE / 2) * 2, LONGEST_PAUSE)
        self._pauses[key] = pause
        pause *= 0.5 + jitter() / 2
        self.add(key, pause)
        return pause

    def forget(self, key: str) -> None:
        """The key will not come again by itself."""
        self._pauses.pop(key, None)
        if waiting := self._later.pop(key, None):
            waiting.handle.cancel()
