"""A world of candidates for one Lease, in which time passes at once: slow and lost calls, clocks that differ, pauses."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from volcanopy.kube.client.errors import NoAnswer
from volcanopy.kube.leader.elector import Elector, LeaseDurations, LostLeadership
from volcanopy.kube.leader.lease import LeaseChanged, ObservedLease, Record

T = TypeVar("T")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class _Leaping(selectors.SelectSelector):
    """Instead of waiting, lets the time be later."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        assert timeout is not None, "everybody waits for ever"
        self.loop.before_time_passes()
        self.loop.moment += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock advances only when all tasks wait."""

    def __init__(self) -> None:
        self.moment = 0.0
        self.before_time_passes: Callable[[], object] = lambda: None
        leaping = _Leaping()
        leaping.loop = self
        super().__init__(leaping)

    def time(self) -> float:
        return self.moment


def run_virtual(world: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(world)


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


@dataclass
class NetworkFaults:
    """What happens to calls on their way, until ``calm`` (seconds); then each takes a millisecond."""

    dice: Random = field(default_factory=lambda: Random(0))
    loss: float = 0.0
    slowest: float = 0.001
    calm: float = 0.0

    def delay(self) -> float:
        if virtual_loop().time() >= self.calm:
            return 0.001
        # Most calls are quick, a few are very slow.
        return self.slowest * self.dice.random() ** 4

    def lost(self) -> bool:
        return virtual_loop().time() < self.calm and self.dice.random() < self.loss


class Server:
    """Keeps the Lease. A call goes on when its caller has given up: it may arrive long afterwards."""

    def __init__(self, weather: NetworkFaults | None = None) -> None:
        self.weather = weather or NetworkFaults()
        self.held: ObservedLease | None = None
        self.away = False
        self.lose_answers = 0
        self.answer_takes = 0.0
        self.writes: list[tuple[float, Record]] = []
        self._versions = 0
        self._calls: set[asyncio.Task[Any]] = set()
        self._followers: list[Callable[[], object]] = []

    async def call(self, what: Callable[[], T]) -> T:
        doing = asyncio.create_task(self._carry(what))
        self._calls.add(doing)
        doing.add_done_callback(self._done)
        return await asyncio.shield(doing)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # the waiting task may have ended already

    async def _carry(self, what: Callable[[], T]) -> T:
        await asyncio.sleep(self.weather.delay())
        if self.away:
            raise NoAnswer("server", "refused", maybe_applied=False)
        if self.weather.lost():
            await asyncio.sleep(3600)
        answer = what()
        await asyncio.sleep(self.weather.delay() + self.answer_takes)
        if self.lose_answers or self.weather.lost():
            self.lose_answers = max(0, self.lose_answers - 1)
            raise NoAnswer("server", "reset", maybe_applied=True)
        return answer

    def write(self, record: Record, basis: ObservedLease | None) -> ObservedLease:
        version = None if self.held is None else self.held.object["version"]
        if version != (None if basis is None else basis.object["version"]):
            raise LeaseChanged("changed")
        self._versions += 1
        self.held = ObservedLease(record, {"version": self._versions})
        self.writes.append((virtual_loop().time(), record))
        for tell in self._followers:
            tell()
        return self.held

    def delete(self) -> None:
        self.held = None


class Machine:
    """A process with a clock of its own: ``rate`` and ``offset`` of it, and when it is stopped (from, to)."""

    def __init__(
        self,
        server: Server,
        name: str,
        rate: float = 1.0,
        offset: float = 0.0,
        pauses: tuple[tuple[float, float], ...] = (),
        terms: LeaseDurations | None = None,
        watches: bool = True,
    ) -> None:
        self.server, self.name, self.rate, self.offset, self.pauses = server, name, rate, offset, pauses
        self._terms, self._watches = terms, watches
        self._lives = 0
        self.led_at: list[float] = []
        self.losses: list[str] = []
        self.elector = self._new()

    def _new(self) -> Elector:
        self._lives += 1
        return Elector(
            self, f"{self.name}-{self._lives}", self._terms, clock=self.clock, sleep=self.sleep, now=self._now
        )

    def __str__(self) -> str:
        return "lease"

    def clock(self) -> float:
        return self.offset + self.rate * virtual_loop().time()

    def _now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.clock() * 7)

    async def sleep(self, seconds: float) -> None:
        # Never so little that nothing would change by it.
        await asyncio.sleep(max(seconds / self.rate, 1e-6))
        await self._awake()

    async def _awake(self) -> None:
        while (left := self.paused_for()) > 0:  # noqa: ASYNC110 -- the time is the point
            await asyncio.sleep(max(left, 1e-6))

    def paused_for(self) -> float:
        now = virtual_loop().time()
        return max((end - now for start, end in self.pauses if start <= now < end), default=0.0)

    # The lock, as this process reaches it

    async def read(self, deadline: float) -> ObservedLease | None:
        try:
            return await self.server.call(lambda: self.server.held)
        finally:
            await self._awake()

    async def write(self, record: Record, basis: ObservedLease | None, deadline: float) -> ObservedLease:
        try:
            return await self.server.call(lambda: self.server.write(record, basis))
        finally:
            await self._awake()

    async def follow(self, changed: Callable[[], object]) -> None:
        def tell() -> None:
            if not self.paused_for():
                changed()

        if self._watches:
            self.server._followers.append(tell)
        try:
            await asyncio.Event().wait()
        finally:
            if self._watches:
                self.server._followers.remove(tell)

    # Its life

    async def run(self) -> None:
        """Be a candidate, lead, lose it, start again."""
        while True:
            await self.elector.acquire()
            self.led_at.append(virtual_loop().time())
            try:
                await self.elector.hold()
            except LostLeadership as loss:
                self.losses.append(str(loss))
            await self.sleep(1.0)
            self.elector = self._new()
