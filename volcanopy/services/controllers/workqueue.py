"""A work queue: each key is processed by one worker at a time, and once more if it was added meanwhile.

Keys are handed out round robin by namespace, so that the objects of one user do not delay those of others. A worker
processes a key in steps of bounded size, and returns what remains with :meth:`WorkQueue.again`. One heavy key is in progress
at a time: the others wait in the queue and occupy no worker. While there is other work, heavy keys take a quarter of the time:
the next one waits for three times as long as the last one took, in which the API server passes its writes on to watches.
"""

import asyncio
import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from volcanopy.kube import machine
from volcanopy.kube.metrics import registry
from volcanopy.kube.writes.round_robin import RoundRobin, namespace_of

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 60.0
HEAVY_PAUSE, LONGEST_HEAVY_PAUSE = 3.0, 5.0
"""The pause after a heavy key, by the time that it was in progress, and the longest in seconds. A pod of 1.3 MB is created in one
write of four: then it is bound, runs and ends, and each change takes as long in the watches of all pods."""
_RESOLUTION = 0.001
"""Seconds; a timer may be early by a rounding error, and would be set again and again."""


@dataclass
class WorkQueue:
    """A queue of keys for several workers on one event loop. Times are seconds of the loop's clock."""

    name: str = "keys"
    """The label in the metrics."""
    is_heavy: Callable[[str], bool] = lambda _: False
    """Whether the work on a key costs the API server many times that on a usual one."""
    _ready: RoundRobin[str, float] = field(default_factory=RoundRobin)
    """Keys that are ready, with the time since when (monotonic seconds)."""
    _heavy: RoundRobin[str, float] = field(default_factory=RoundRobin)
    """Likewise the heavy ones."""
    _heavy_active: str | None = None
    """The heavy key in progress; empty during the pause after one."""
    _heavy_since: float = 0.0
    """The time at which it was handed out."""
    _active: dict[str, float] = field(default_factory=dict)
    """Keys in progress, with the time of their last progress."""
    _dirty: set[str] = field(default_factory=set)
    _later: dict[str, float] = field(default_factory=dict)
    """When keys are added later."""
    _heap: list[tuple[float, str]] = field(default_factory=list)
    """The same by time, with times that do not count any more, behind one timer: there may be very many keys."""
    _timer: asyncio.TimerHandle | None = None
    _pauses: dict[str, float] = field(default_factory=dict)
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _closed: bool = False
    _rest: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        registry.QUEUE_DEPTH.follow(self, lambda queue: [((queue.name,), float(len(queue)))])

    def __len__(self) -> int:
        return len(self._ready) + len(self._heavy) + len(self._active)

    def longest(self) -> tuple[str, float]:
        """Return the key that has been in progress for longest without progress, with the seconds; ("", 0) if none is."""
        if not self._active:
            return "", 0.0
        key = min(self._active, key=self._active.__getitem__)
        return key, asyncio.get_running_loop().time() - self._active[key]

    def progress(self, key: str) -> None:
        """Note that a part of the work on a key in progress is done."""
        if key in self._active:
            self._active[key] = asyncio.get_running_loop().time()

    def prune(self, exists: Callable[[str], bool]) -> None:
        """Drop the ready keys of deleted objects, for a queue without workers."""
        for ready in (self._ready, self._heavy):
            for namespace, key in ready:
                if not exists(key):
                    ready.discard(namespace, key)

    async def drain(self) -> None:
        """Hand out no more keys; return when those in progress are done."""
        self._closed = True
        while self._active:
            self._rest.clear()
            await self._rest.wait()

    def add(self, key: str, after: float = 0.0) -> None:
        """Add a key, now or after so many seconds; the earliest of several additions counts."""
        if after > 0:
            self._add_later(key, after)
            return
        self._later.pop(key, None)
        self._enqueue(key)

    def again(self, key: str) -> None:
        """Add a key that is in progress, behind the others that are ready; a delayed addition of it remains."""
        self._enqueue(key)

    def _enqueue(self, key: str) -> None:
        if key in self._active:
            self._dirty.add(key)
        else:
            (self._heavy if self.is_heavy(key) else self._ready).add(namespace_of(key), key, machine.monotonic())
            self._some.set()

    def _add_later(self, key: str, after: float) -> None:
        at = asyncio.get_running_loop().time() + after
        if self._later.get(key, math.inf) <= at:
            return
        self._later[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 4 * len(self._later) + 64:
            self._heap = [(moment, name) for name, moment in self._later.items()]
            heapq.heapify(self._heap)
        if self._heap[0] == (at, key):
            self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer to the first time at which a key is added."""
        if self._timer is not None:
            self._timer.cancel()
        at = self._heap[0][0] if self._heap else None
        self._timer = None if at is None else asyncio.get_running_loop().call_at(at, self._add_due)

    def _add_due(self) -> None:
        now = asyncio.get_running_loop().time() + _RESOLUTION
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._later.get(key) == at:
                self.add(key)
        self._set_timer()

    async def get(self) -> str:
        """Wait for the next key, which must be returned with :meth:`done`."""
        while self._closed or (ready := self._next()) is None:
            self._some.clear()
            await self._some.wait()
        key, since = ready.take()
        # An object that has changed since is perhaps in both.
        if ready is self._heavy:
            self._heavy_active, self._heavy_since = key, asyncio.get_running_loop().time()
            self._ready.discard(namespace_of(key), key)
        else:
            self._heavy.discard(namespace_of(key), key)
        registry.QUEUE_SECONDS.labels(self.name).observe(machine.monotonic() - since)
        self._active[key] = asyncio.get_running_loop().time()
        return key

    def _next(self) -> RoundRobin[str, float] | None:
        """Return where the next key is; None if no key may be handed out."""
        return self._heavy if self._heavy and self._heavy_active is None else self._ready or None

    def done(self, key: str) -> None:
        """Return a processed key; it is ready again if it was added meanwhile."""
        self._active.pop(key, None)
        if key == self._heavy_active:
            loop = asyncio.get_running_loop()
            pause = min(HEAVY_PAUSE * (loop.time() - self._heavy_since), LONGEST_HEAVY_PAUSE)
            self._heavy_active = ""
            loop.call_later(pause if self._active or self._ready else 0.0, self._end_pause)
        self._rest.set()
        if key in self._dirty:
            self._dirty.discard(key)
            self._enqueue(key)

    def _end_pause(self) -> None:
        self._heavy_active = None
        self._some.set()

    def succeeded(self, key: str) -> None:
        """Reset the back-off of a key."""
        self._pauses.pop(key, None)

    def failed(self, key: str, jitter: Callable[[], float], longest: float = LONGEST_PAUSE) -> float:
        """Add a failed key after a pause that grows with each failure; returns the pause. ``jitter`` is 0 to 1."""
        pause = min(self._pauses.get(key, FIRST_PAUSE / 2) * 2, longest)
        self._pauses[key] = pause
        pause *= 0.5 + jitter() / 2
        self.add(key, pause)
        return pause

    def forget(self, key: str) -> None:
        """Drop the back-off and the delayed addition of a key."""
        self._pauses.pop(key, None)
        self._later.pop(key, None)
