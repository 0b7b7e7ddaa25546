"""What is to be done when: any number of keys with their times, and one timer for all of them."""

import asyncio
import heapq
import logging
import math
import time
from collections.abc import Awaitable, Callable

from volcanopy.kube.client.errors import KubeError

log = logging.getLogger(__name__)


class Agenda:
    """Keys, each with the moment (seconds of ``clock``) at which it is due; each key stands in it once."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._when: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._sooner = asyncio.Event()

    def __len__(self) -> int:
        return len(self._when)

    def put(self, key: str, when: float) -> None:
        """Have the key come up at this moment, and not when it was to come up before. An infinite moment never comes."""
        if self._when.get(key) == when:
            return
        if when == math.inf:
            self._when.pop(key, None)
            return
        self._when[key] = when
        heapq.heappush(self._heap, (when, key))
        if self._heap[0][1] == key:
            self._sooner.set()
        if len(self._heap) > 4 * len(self._when) + 64:
            self._heap = [(moment, name) for name, moment in self._when.items()]
            heapq.heapify(self._heap)

    def drop(self, key: str) -> None:
        """Forget the key."""
        self._when.pop(key, None)

    async def due(self) -> list[str]:
        """Wait until something is due; gives everything that is, and forgets it."""
        while True:
            self._sooner.clear()
            if found := self._take(self._clock()):
                return found
            pause = self._heap[0][0] - self._clock() if self._heap else None
            try:
                # A timer cannot be set for longer than some weeks.
                async with asyncio.timeout(None if pause is None else min(pause, 86_400.0)):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    def _take(self, now: float) -> list[str]:
        found = []
        while self._heap and self._heap[0][0] <= now:
            when, key = heapq.heappop(self._heap)
            if self._when.get(key) == when:
                del self._when[key]
                found.append(key)
        return found


Act = Callable[[str], Awaitable[float]]
"""Does what is due for a key; returns when it is due again (never: infinity)."""


class Crew:
    """Does what an agenda says: several keys at once, none by two at once.

    An act that fails for reasons of the network or the server is tried again, later each time.
    """

    def __init__(self, what: str, act: Act, workers: int, clock: Callable[[], float] = time.time) -> None:
        self._what, self._act, self._workers, self._clock = what, act, workers, clock
        self._agenda = Agenda(clock)
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._busy: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def put(self, key: str, when: float = 0.0) -> None:
        """Have something done for the key at this moment (at once, if it is past), instead of when it was due before."""
        if key in self._busy:
            self._busy[key] = min(self._busy[key], when)
        else:
            self._agenda.put(key, when)

    def drop(self, key: str) -> None:
        """Nothing is to be done for the key any more."""
        self._agenda.drop(key)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())
            while True:
                for key in await self._agenda.due():
                    # Busy from here on, or what is put meanwhile would bring the key into the queue twice.
                    self._busy[key] = math.inf
                    self._queue.put_nowait(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                again = await self._act(key)
                self._failures.pop(key, None)
            except KubeError as fault:
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                again = self._clock() + min(0.25 * 2.0**failures, 30.0)
                log.warning("%s %s: %s; tried again", self._what, key, fault)
            self._agenda.put(key, min(again, self._busy.pop(key)))
