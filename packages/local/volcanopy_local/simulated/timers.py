"""Workers that process keys when they are due."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

import structlog

from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.errors import Conflict, KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.services.controllers.workqueue import WorkQueue

log = structlog.get_logger(__name__)

_LONGEST_PAUSE = 30.0
"""The most seconds between two attempts to process a key."""

Watches = Sequence[tuple[Reflector[Json], Callable[[list[Change[Json]]], object]]]
Act = Callable[[str], Awaitable[float]]
"""Processes a due key; returns its next due time in seconds of the epoch, infinity for never."""


class TimedWorkers:
    """Workers that process due keys in parallel, each key by one worker at a time, round robin by namespace.

    Processing that fails is retried with exponential back-off.
    """

    def __init__(self, what: str, act: Act, workers: int) -> None:
        self._what, self._act, self._workers = what, act, workers
        self._queue = WorkQueue(what)
        self._random = machine.new_random()

    def put(self, key: str) -> None:
        """Process a key now."""
        self._queue.add(key)

    def drop(self, key: str) -> None:
        """Process a key at no later time."""
        self._queue.forget(key)

    async def serve(self, watches: Watches, stop: asyncio.Event, ready: asyncio.Event | None) -> None:
        """Run watches, and process keys once all objects are listed, until ``stop`` is set; ``ready`` is set then."""
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(reflector.run(take), name=f"{self._what}: {reflector.kind.plural}")
                for reflector, take in watches
            ]
            for reflector, _ in watches:
                await reflector.synced.wait()
            working.append(tasks.create_task(self.run(), name=f"{self._what} workers"))
            if ready is not None:
                ready.set()
            await stop.wait()
            for task in working:
                task.cancel()

    async def run(self) -> None:
        """Process keys until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                due = await self._act(key)
                self._queue.succeeded(key)
                if due < math.inf:
                    self._queue.add(key, due - machine.epoch())
            except KubeError as fault:
                report = log.debug if isinstance(fault, Conflict) else log.warning
                report("request failed, retrying", kind=self._what, key=key, error=str(fault))
                self._queue.failed(key, self._random.random, _LONGEST_PAUSE)
            except Exception:
                # Whatever it is, it is about this object, and everything else must go on.
                log.exception("object cannot be processed, retrying", kind=self._what, key=key)
                self._queue.failed(key, self._random.random, _LONGEST_PAUSE)
            finally:
                self._queue.done(key)
