"""Keys with due times behind one timer, and workers that process due keys."""

import asyncio
import heapq
import math
from collections.abc import Awaitable, Callable

import structlog

from volcanopy.kube import machine
from volcanopy.kube.client.errors import Conflict, KubeError
from volcanopy.kube.writes.round_robin import RoundRobin, namespace_of

log = structlog.get_logger(__name__)


class TimerQueue:
    """Keys with their due times (seconds of ``clock``); each key is contained once."""

    def __init__(self, clock: Callable[[], float] = machine.epoch) -> None:
        self._clock = clock
        self._when: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._sooner = asyncio.Event()

    def __len__(self) -> int:
        return len(self._when)

    def put(self, key: str, when: float) -> None:
        """Set the due time of a key; infinity removes the key."""
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
        """Remove the key."""
        self._when.pop(key, None)

    async def due(self) -> list[str]:
        """Wait until keys are due; remove and return them."""
        while True:
            self._sooner.clear()
            if due := self._take(self._clock()):
                return due
            pause = self._heap[0][0] - self._clock() if self._heap else None
            try:
                # Timers are limited to some weeks.
                async with asyncio.timeout(None if pause is None else min(pause, 86_400.0)):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    def _take(self, now: float) -> list[str]:
        due = []
        while self._heap and self._heap[0][0] <= now:
            when, key = heapq.heappop(self._heap)
            if self._when.get(key) == when:
                del self._when[key]
                due.append(key)
        return due


Act = Callable[[str], Awaitable[float]]
"""Processes a due key; returns its next due time, infinity for never."""


class TimedWorkers:
    """Workers that process due keys in parallel, each key by one worker at a time, round robin by namespace.

    Processing that fails is retried with exponential back-off.
    """

    def __init__(self, what: str, act: Act, workers: int, clock: Callable[[], float] = machine.epoch) -> None:
        self._what, self._act, self._workers, self._clock = what, act, workers, clock
        self._agenda = TimerQueue(clock)
        self._due: RoundRobin[str, None] = RoundRobin()
        self._some = asyncio.Event()
        self._busy: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def put(self, key: str, when: float = 0.0) -> None:
        """Set the due time of a key; it is due at once if the time is past."""
        if key in self._busy:
            self._busy[key] = min(self._busy[key], when)
        else:
            self._agenda.put(key, when)

    def drop(self, key: str) -> None:
        """Remove the key."""
        self._agenda.drop(key)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Process keys until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())
            while True:
                for key in await self._agenda.due():
                    # Busy from here on, or a put meanwhile would add the key to the queue twice.
                    self._busy[key] = math.inf
                    self._due.add(namespace_of(key), key, None)
                self._some.set()

    async def _work(self) -> None:
        while True:
            while not self._due:
                self._some.clear()
                await self._some.wait()
            key, _ = self._due.take()
            try:
                again = await self._act(key)
                self._failures.pop(key, None)
            except KubeError as fault:
                again = self._again(key)
                report = log.debug if isinstance(fault, Conflict) else log.warning
                report("request failed, retrying", kind=self._what, key=key, error=str(fault))
            except Exception:
                # Whatever it is, it is about this object, and everything else must go on.
                again = self._again(key)
                log.exception("object cannot be processed, retrying", kind=self._what, key=key)
            self._agenda.put(key, min(again, self._busy.pop(key)))

    def _again(self, key: str) -> float:
        """Count a failure; return when the key is processed again."""
        failures = self._failures[key] = min(self._failures.get(key, 0) + 1, 32)
        return self._clock() + min(0.25 * 2.0**failures, 30.0)
