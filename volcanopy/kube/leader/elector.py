"""Which of several equal processes acts: the one that holds the Lease, and only for as long as it is sure to.

**Taking it.** A process that sees somebody else's Lease takes it over when it has not changed for as long as it is
valid, by its own clock from when it saw the last change: the times in the Lease are for people, and no two machines'
clocks are compared. A Lease that was given back, or that does not exist, is taken at once.

**Holding it.** A leader renews every ``retry`` seconds. From the moment at which it *sent* the last renewal that
succeeded it may act for ``renew`` seconds (:meth:`Elector.may_act`); whoever takes over cannot have seen that renewal
earlier and waits ``duration`` seconds from then. So the former has stopped ``duration - renew`` seconds before the next
one begins, whatever was slow or lost on the way, as long as the two clocks do not differ in *speed* by more than
``duration / renew``. What is on its way to the server when the leader stops has those seconds to arrive.

**Being paused.** A process that was stopped, or a machine that slept, does not notice that time has passed until it looks
at its clock. That is why every write asks :meth:`Elector.may_act` when its bytes are about to leave (the client's
*fence*), and not only the loop that renews.

A leader that is not sure any more has :class:`LostLeadership` raised, and the process is to end: everything that it
expected of the cluster may be wrong by now, and a new process starts from what is there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol, TypeVar

from volcanopy.kube.client.errors import KubeError, describe
from volcanopy.kube.client.transport import Clock, Sleep
from volcanopy.kube.leader.lease import LeaseChanged, Lock, ObservedLease, Record

log = logging.getLogger(__name__)

T = TypeVar("T")
_AT_ONCE = 0.05
"""Seconds before a write that was overtaken is thought over."""


class LostLeadership(KubeError):
    """The Lease could not be renewed in time, or is somebody else's: this process must not act any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a Lease lasts; all in seconds.

    After a leader's sudden death the next one begins within ``duration + retry`` at most: it may see the last renewal
    ``retry`` late, when its watch does not work. 10 and 2 keep that below 15 with room for a slow answer. ``renew`` 6
    lets a leader live through an API server that is away for 4 seconds, and leaves the other 4 between two leaders.
    """

    duration: int = 10
    renew: float = 6.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew > self.retry > 0:
            raise ValueError(
                f"a lease of {self.duration} s, renewed within {self.renew} s, every {self.retry} s: "
                "the first must be longer than the second, and that longer than the third"
            )


class Leadership(Protocol):
    """What a service asks of whoever decides whether it leads."""

    @property
    def leader(self) -> str:
        """Who leads, as far as we know; empty if nobody does."""

    def may_act(self) -> bool:
        """Whether this process leads at this very moment."""

    async def acquire(self) -> None:
        """Wait until this process leads."""

    async def hold(self) -> NoReturn:
        """Keep leading until cancelled. Raises LostLeadership."""

    async def release(self) -> None:
        """Act no more, and let another process lead at once."""


class AlwaysLeader:
    """The leadership of a process that has no equals."""

    leader = ""

    def may_act(self) -> bool:
        """Always."""
        return True

    async def acquire(self) -> None:
        """At once."""

    async def hold(self) -> NoReturn:
        """For ever."""
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")

    async def release(self) -> None:
        """To nobody."""


def new_identity() -> str:
    """A name for this process that no other has, nor will have: a container that is started again keeps its host's name."""
    return f"{socket.gethostname()}_{os.urandom(4).hex()}"


def steady_clock() -> float:
    """Seconds that go on while the machine sleeps, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class Elector:
    """One candidate for a Lease. ``clock``, ``sleep`` and ``now`` (for the times in the Lease) are there for tests."""

    def __init__(
        self,
        lock: Lock,
        identity: str,
        terms: Terms | None = None,
        *,
        clock: Clock = steady_clock,
        sleep: Sleep = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.identity, self.terms = identity, terms or Terms()
        self._lock, self._clock, self._sleep, self._now = lock, clock, sleep, now
        self._held: ObservedLease | None = None
        """The Lease as we saw it last."""
        self._record: Record | None = None
        """What it said last; kept when it has been deleted, since its holder may not know that yet."""
        self._seen_at = 0.0
        """When we saw that for the first time."""
        self._until = float("-inf")
        self._fault = ""

    @property
    def leader(self) -> str:
        """Who holds the Lease, as far as we know."""
        return "" if self._record is None else self._record.holder

    def may_act(self) -> bool:
        """Whether this process leads at this very moment."""
        return self._clock() < self._until

    # Taking it

    async def acquire(self) -> None:
        """Wait until this process leads. Faults of the network and the server are waited out."""
        news = asyncio.Event()
        log.info("a candidate for %s: %s", self._lock, self.identity)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._lock.follow(news.set))
            while (pause := await self._try()) > 0:
                await self._pause(pause, news)
                news.clear()
            following.cancel()
        log.info("leading: %s is held by %s", self._lock, self.identity)

    async def _try(self) -> float:
        """Take the Lease if that is allowed: 0 when it is ours now, else the seconds after which to look again."""
        call = self.terms.renew / 2
        try:
            self._see(await self._within(call, self._lock.read(call)))
            if (left := self._not_before() - self._clock()) > 0:
                return min(left, self.terms.retry)
            sent, basis = self._clock(), self._held
            self._grant(sent, await self._within(call, self._lock.write(self._taken(), basis, call)))
        except LeaseChanged:
            return _AT_ONCE
        except (KubeError, TimeoutError) as fault:
            self._note(fault)
            return self.terms.retry
        self._fault = ""
        return 0.0 if self.may_act() else _AT_ONCE

    def _see(self, held: ObservedLease | None) -> None:
        self._held = held
        if held is not None and held.record != self._record:
            if held.record.holder != self.leader:
                log.info("%s is held by %s", self._lock, held.record.holder or "nobody")
            self._record, self._seen_at = held.record, self._clock()

    def _not_before(self) -> float:
        """When the Lease may be taken, by our clock."""
        record = self._record
        if record is None or record.holder in {"", self.identity}:
            return float("-inf")
        return self._seen_at + (record.duration or self.terms.duration)

    def _taken(self) -> Record:
        now, before = self._now(), self._record
        if before is not None and before.holder == self.identity:
            return Record(self.identity, self.terms.duration, before.acquired or now, now, before.transitions)
        # The first holder of all is no transition.
        count = before.transitions + 1 if before is not None else 0
        return Record(self.identity, self.terms.duration, now, now, count)

    def _grant(self, sent: float, held: ObservedLease) -> None:
        self._held, self._record, self._seen_at = held, held.record, self._clock()
        self._until = sent + self.terms.renew

    # Holding it

    async def hold(self) -> NoReturn:
        """Keep leading until cancelled. Raises LostLeadership when that cannot be made sure of."""
        pause = self.terms.retry
        while True:
            await self._sleep(max(0.0, min(pause, self._left())))
            pause = await self._renew()

    def _left(self) -> float:
        return self._until - self._clock()

    async def _renew(self) -> float:
        """Renew the Lease: the seconds after which to do so again."""
        if (left := self._left()) <= 0:
            why = f": {self._fault}" if self._fault else ""
            self._lose(f"it could not be renewed within {self.terms.renew:g} s{why}")
        call = min(left, self.terms.renew / 2)
        try:
            sent, basis = self._clock(), self._held
            held = await self._within(call, self._lock.write(self._taken(), basis, call))
        except LeaseChanged:
            return await self._look_again()
        except (KubeError, TimeoutError) as fault:
            self._note(fault)
            return self.terms.retry / 4
        if self._left() > 0:
            self._fault = ""
            self._grant(sent, held)
        return self.terms.retry

    async def _look_again(self) -> float:
        """Somebody has written the Lease: ourselves, with the answer lost, or another."""
        call = min(max(self._left(), 0.001), self.terms.renew / 2)
        try:
            found = await self._within(call, self._lock.read(call))
        except (KubeError, TimeoutError) as fault:
            self._note(fault)
            return self.terms.retry / 4
        if found is not None and found.record.holder != self.identity:
            self._record = found.record
            self._lose(f"it is held by {found.record.holder or 'nobody'}")
        self._held = found
        return _AT_ONCE

    def _lose(self, why: str) -> NoReturn:
        self._until = float("-inf")
        raise LostLeadership(f"{self._lock} is lost, {why}; this process ends, and starts again as a follower")

    # Giving it back

    async def release(self) -> None:
        """Act no more from now on; then give the Lease back, if that can be done while it would be valid anyway."""
        give_up = self._until
        if give_up == float("-inf"):
            return  # it has never led, or has lost that
        self._until = float("-inf")
        while (left := give_up - self._clock()) > 0:
            now = self._now()
            transitions = 0 if self._record is None else self._record.transitions
            call = min(left, self.terms.renew / 2)
            try:
                free = Record("", 1, now, now, transitions)
                self._held = await self._within(call, self._lock.write(free, self._held, call))
                self._record = free
            except LeaseChanged:
                # A renewal of ours has arrived after all, or the Lease is another's.
                try:
                    found = await self._within(call, self._lock.read(call))
                except (KubeError, TimeoutError) as fault:
                    self._note(fault)
                    await self._sleep(self.terms.retry / 4)
                    continue
                if found is None or found.record.holder != self.identity:
                    return
                self._held = found
            except (KubeError, TimeoutError) as fault:
                self._note(fault)
                await self._sleep(self.terms.retry / 4)
            else:
                log.info("%s is given back", self._lock)
                return
        log.warning("%s is not given back: it ends by itself", self._lock)

    # In common

    def _note(self, fault: BaseException) -> None:
        text = describe(fault) if isinstance(fault, KubeError) else "no answer came in time"
        log.log(logging.DEBUG if text == self._fault else logging.WARNING, "%s: %s", self._lock, text)
        self._fault = text

    async def _pause(self, seconds: float, news: asyncio.Event) -> None:
        """Until so many seconds have passed, or there are news."""
        await _first(self._sleep(seconds), news.wait())

    async def _within(self, seconds: float, call: Coroutine[Any, Any, T]) -> T:
        """The answer to a call. Raises TimeoutError when it does not come: a client's own deadline is not relied upon."""
        answering, waiting = asyncio.ensure_future(call), asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait((answering, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise TimeoutError
            return answering.result()
        finally:
            answering.cancel()
            waiting.cancel()


async def _first(*works: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
