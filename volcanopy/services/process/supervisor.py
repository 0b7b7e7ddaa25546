"""Supervision of the parts of a process: what has ended is started again, what cannot go on ends the process.

A part is work that runs for ever, such as a watch or a writer. The supervisor sees at once that it has ended, by an error or
silently, and starts it again after a short pause. A part that ends too often ends the process: it gives back the Lease
and another process, or the next start, does the work. :class:`Watchdog` does the same when the event loop stands still.
"""

import asyncio
import faulthandler
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

import structlog

from volcanopy.kube import machine
from volcanopy.kube.client.backoff import Backoff
from volcanopy.kube.client.errors import NotLeading
from volcanopy.kube.leader.elector import LostLeadership
from volcanopy.kube.metrics import registry

log = structlog.get_logger(__name__)

MOST_RESTARTS = 5
WITHIN = 60.0
"""A part that ends more often than MOST_RESTARTS times in so many seconds ends the process."""
PERIOD = 1.0
"""Seconds between two looks at the checks."""

Work = Callable[[], Coroutine[Any, Any, Any]]


class PartFailedError(RuntimeError):
    """A part of the process cannot go on; the process ends, and another continues."""


@dataclass
class _Part:
    name: str
    work: Work
    task: asyncio.Task[Any] | None = None
    ends: deque[float] = field(default_factory=deque)
    backoff: Backoff = field(default_factory=lambda: Backoff(machine.new_random(), 0.1, 5.0))
    due: float = 0.0


class Supervisor:
    """Runs parts and restarts those that end. ``clock`` is injected by tests."""

    def __init__(self, *, period: float = PERIOD, clock: Callable[[], float] = machine.monotonic) -> None:
        self._parts: dict[str, _Part] = {}
        self._checks: dict[str, Callable[[], str]] = {}
        self._period, self._clock = period, clock
        self._changed = asyncio.Event()

    def add(self, name: str, work: Work) -> None:
        """Run this work from now on."""
        part = self._parts[name] = _Part(name, work)
        self._start(part)
        self._changed.set()

    def check(self, name: str, problem: Callable[[], str]) -> None:
        """End the process when this check has a problem: something stalls that cannot be restarted by itself."""
        self._checks[name] = problem

    def problem(self) -> str:
        """Return the parts that do not run at this moment, for the health endpoint."""
        down = [part.name for part in self._parts.values() if part.task is None or part.task.done()]
        return f"not running: {', '.join(down)}" if down else ""

    async def run(self) -> NoReturn:
        """Supervise until cancelled. Raises PartFailedError, LostLeadership."""
        try:
            while True:
                self._look()
                running = [part.task for part in self._parts.values() if part.task is not None]
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait((*running, changed), timeout=self._period, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                self._changed.clear()
        finally:
            await self._stop()

    def _look(self) -> None:
        now = self._clock()
        for part in self._parts.values():
            if part.task is not None and part.task.done():
                self._ended(part, part.task, now)
            if part.task is None and now >= part.due:
                self._start(part)
        for name, problem in self._checks.items():
            if why := problem():
                raise PartFailedError(f"{name}: {why}; the process ends")

    def _ended(self, part: _Part, task: asyncio.Task[Any], now: float) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LostLeadership | NotLeading):
            raise error
        part.task = None
        part.ends.append(now)
        while part.ends[0] < now - WITHIN:
            part.ends.popleft()
        registry.PART_RESTARTS.labels(part.name).inc()
        if len(part.ends) > MOST_RESTARTS:
            raise PartFailedError(
                f"{part.name} ended {len(part.ends)} times in {WITHIN:.0f} s; the process ends"
            ) from error
        if len(part.ends) == 1:
            part.backoff.reset()
        part.due = now + part.backoff.next()
        log.error("part ended, starting it again", part=part.name, error=repr(error), exc_info=error)

    def _start(self, part: _Part) -> None:
        part.task = asyncio.create_task(part.work(), name=part.name)

    async def _stop(self) -> None:
        running = [part.task for part in self._parts.values() if part.task is not None]
        for task in running:
            task.cancel()
        for part, outcome in zip(
            self._parts.values(), await asyncio.gather(*running, return_exceptions=True), strict=False
        ):
            # Several parts may notice at once that the process does not lead: the first ends it.
            if isinstance(outcome, Exception) and not isinstance(outcome, LostLeadership | NotLeading):
                log.error("part failed while it was stopped", part=part.name, error=repr(outcome))


class Pulse:
    """A number that an event loop increases each second: if it stands still, so does the loop."""

    def __init__(self, period: float = PERIOD) -> None:
        self.beats, self._period = 0, period

    async def run(self) -> NoReturn:
        """Beat until cancelled."""
        while True:
            self.beats += 1
            await asyncio.sleep(self._period)


class Watchdog:
    """A thread that ends the process when the event loop stands still.

    ``beats`` reads the :class:`Pulse` of the loop. The watchdog counts its own seconds without an increase, so
    a process that was suspended as a whole is not ended. ``farewell`` is called before the end, to give back the Lease.
    """

    def __init__(
        self,
        beats: Callable[[], int],
        limit: float,
        farewell: Callable[[], object] = lambda: None,
        *,
        end: Callable[[int], object] = os._exit,
        period: float = PERIOD,
    ) -> None:
        self._beats, self._limit, self._farewell, self._end, self._period = beats, limit, farewell, end, period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _run(self) -> None:
        last, standing = -1, 0
        while not self._stop.wait(self._period):
            now = self._beats()
            standing = standing + 1 if now == last else 0
            last = now
            if standing * self._period >= self._limit:
                log.critical("event loop stands still, the process ends", seconds=self._limit)
                faulthandler.dump_traceback(sys.stderr, all_threads=True)
                try:
                    self._farewell()
                finally:
                    self._end(70)
                return
