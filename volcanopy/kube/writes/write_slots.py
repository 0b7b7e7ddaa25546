"""The writes of a process that are in flight: no more than the API server answers soon, round robin by namespace.

1. A write waits for a slot. Free ones are granted round robin: at most one waiting write of each other namespace comes first.
2. A write that takes longer than the fastest one by more than :data:`SLOW` halves the number of slots. Those that were begun
   before do not halve it again. A server that is far away, whose answers all take long, is not slow.
3. With each other write the number grows, by one after as many writes as there are slots.

So a server that is slow gets fewer writes at once: it answers as many in a second, and those of others wait less for them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from volcanopy.kube import machine
from volcanopy.kube.writes.round_robin import RoundRobin

SLOW = 0.25
"""Seconds beyond the fastest write from which on a server is slow: several times what one takes where it does nothing else."""
LEAST_SLOTS = 4
"""The number is not made less: enough that the server does not wait for this process."""


class WriteSlots:
    """Slots of writes: ``limit`` at the most."""

    def __init__(self, limit: int, clock: Callable[[], float] = machine.monotonic) -> None:
        self.limit, self._clock = limit, clock
        self._slots = float(limit)
        self._halved, self._least = -float("inf"), float("inf")
        self._in_flight = 0
        self._waiting: RoundRobin[asyncio.Future[None], None] = RoundRobin()

    @property
    def slots(self) -> int:
        """The number of slots at this moment."""
        return int(self._slots)

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Write during the block, once a slot is granted to the namespace."""
        await self._acquire(namespace)
        began = self._clock()
        try:
            yield
        finally:
            self._adapt(began)
            self._in_flight -= 1
            self._grant()

    async def _acquire(self, namespace: str) -> None:
        if self._in_flight < self.slots and not self._waiting:
            self._in_flight += 1
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.add(namespace, granted, None)
        try:
            await granted
        except BaseException:
            if granted.done() and not granted.cancelled():  # granted, and cancelled before it was noticed
                self._in_flight -= 1
                self._grant()
            self._waiting.discard(namespace, granted)
            raise

    def _grant(self) -> None:
        while self._waiting and self._in_flight < self.slots:
            granted, _ = self._waiting.take()
            if not granted.done():
                self._in_flight += 1
                granted.set_result(None)

    def _adapt(self, began: float) -> None:
        now = self._clock()
        self._least = min(self._least, now - began)
        if now - began <= self._least + SLOW:
            self._slots = min(self._slots + 1 / self._slots, self.limit)
        elif began >= self._halved:
            self._slots = max(self._slots / 2, min(LEAST_SLOTS, self.limit))
            self._halved = now
