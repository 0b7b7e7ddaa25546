"""Leader election with a Lease, and the fencing of writes.

**Acquiring.** A process takes over a Lease of another holder when it has not changed for its duration, measured with the
own clock since the last change was seen: the times in the Lease are informative, clocks of different machines are never
compared. A released or missing Lease is taken at once.

**Holding.** A leader renews every ``retry`` seconds. It may act for ``renew`` seconds from the moment at which it *sent* the
last successful renewal (:meth:`Elector.may_act`); a successor cannot have seen that renewal earlier, and waits ``duration``
seconds from then. An answer that is not there after half of this time is still awaited, while another renewal is sent.
So a leader has stopped ``duration - renew`` seconds before the next one starts, whatever is slow or
lost, as long as the two clocks do not differ in *speed* by more than ``duration / renew``. Requests in flight when the
leader stops have these seconds to arrive.

**Suspension.** A stopped process or a sleeping machine does not notice the time until it reads its clock. Therefore every
write checks :meth:`Elector.may_act` when its bytes are sent (the client's *fence*), and not only the renewal loop.

A leader that has lost the Lease gets :class:`LostLeadership` and the process ends: its expectations may be wrong, and a new
process starts from the cluster state.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, TypeVar

from volcanopy.kube import machine
from volcanopy.kube.client.errors import KubeError, describe
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.client.transport import Clock, Sleep
from volcanopy.kube.leader.lease import LeaseChanged, Lock, ObservedLease, Record

log = Logger(__name__)

T = TypeVar("T")
_AT_ONCE = 0.05
"""Seconds before a retry after a concurrent write."""
_ATTEMPTS = 2
"""Renewals in flight: a slow answer to the first one counts when it comes, and the second one has another connection."""


class LostLeadership(KubeError):
    """The Lease was not renewed in time, or has another holder: this process must not write any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDurations:
    """The durations of a Lease, in seconds.

    After a leader's crash the next one starts within ``duration + retry`` at most: without a working watch it may see the
    last renewal ``retry`` late. 10 and 2 keep that below 15, slow responses included. With ``renew`` 6 a leader survives an
    API server that is unavailable for 4 seconds, and 4 seconds separate two leaders.
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


def new_identity() -> str:
    """Return a unique identity of this process; a restarted container keeps its host name, hence the random suffix."""
    return f"{machine.host()}_{machine.token()}"


class Elector:
    """A candidate for a Lease. ``clock``, ``sleep`` and ``now`` (for the times in the Lease) are injected by tests."""

    def __init__(
        self,
        lock: Lock,
        identity: str,
        terms: LeaseDurations | None = None,
        *,
        clock: Clock = machine.boottime,
        sleep: Sleep = asyncio.sleep,
        now: Callable[[], datetime] = machine.utc_now,
    ) -> None:
        self.identity, self.terms = identity, terms or LeaseDurations()
        self._lock, self._clock, self._sleep, self._now = lock, clock, sleep, now
        self._held: ObservedLease | None = None
        """The Lease as last seen."""
        self._record: Record | None = None
        """Its last record; kept after a deletion, which the holder may not have seen."""
        self._seen_at = 0.0
        """When that record was first seen."""
        self._until = float("-inf")
        self._fault = ""
        self._attempts: dict[asyncio.Future[ObservedLease], float] = {}
        """Renewals without an answer yet, with the time at which they were sent."""

    @property
    def leader(self) -> str:
        """The holder of the Lease as last seen."""
        return "" if self._record is None else self._record.holder

    def may_act(self) -> bool:
        """Whether this process leads at this very moment."""
        return self._clock() < self._until

    # Taking it

    async def acquire(self) -> None:
        """Wait until this process is the leader. Errors of the network and the server are retried."""
        changed = asyncio.Event()
        log.info("waiting for leadership", lease=str(self._lock), identity=self.identity)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._lock.follow(changed.set))
            while (pause := await self._try()) > 0:
                await _first(self._sleep(pause), changed.wait())
                changed.clear()
            following.cancel()
        log.info("became leader", lease=str(self._lock), identity=self.identity)

    async def _try(self) -> float:
        """Take the Lease if possible: returns 0 when that succeeded, else the seconds until the next attempt."""
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
                log.info("leader changed", lease=str(self._lock), leader=held.record.holder)
            self._record, self._seen_at = held.record, self._clock()

    def _not_before(self) -> float:
        """Return the time of the own clock at which the Lease may be taken."""
        record = self._record
        if record is None or record.holder in {"", self.identity}:
            return float("-inf")
        return self._seen_at + (record.duration or self.terms.duration)

    def _taken(self) -> Record:
        now, before = self._now(), self._record
        if before is not None and before.holder == self.identity:
            return Record(self.identity, self.terms.duration, before.acquired or now, now, before.transitions)
        # The first holder is no transition.
        count = before.transitions + 1 if before is not None else 0
        return Record(self.identity, self.terms.duration, now, now, count)

    def _grant(self, sent: float, held: ObservedLease) -> None:
        self._held, self._record, self._seen_at = held, held.record, self._clock()
        self._until = sent + self.terms.renew

    # Holding it

    async def hold(self) -> NoReturn:
        """Keep the leadership until cancelled. Raises LostLeadership when it is not certain any more."""
        pause = self.terms.retry
        try:
            while True:
                await self._sleep(max(0.0, min(pause, self._left())))
                pause = await self._renew()
        finally:
            self._drop_attempts()

    def _left(self) -> float:
        return self._until - self._clock()

    async def _renew(self) -> float:
        """Renew the Lease; returns the seconds until the next renewal."""
        if (left := self._left()) <= 0:
            why = f": {self._fault}" if self._fault else ""
            self._lose(f"not renewed within {self.terms.renew:g} s{why}")
        if len(self._attempts) < _ATTEMPTS:
            renewal = asyncio.ensure_future(self._lock.write(self._taken(), self._held, left))
            self._attempts[renewal] = self._clock()
        waiting: asyncio.Future[Any] = asyncio.ensure_future(self._sleep(min(left, self.terms.renew / 2)))
        awaited: list[asyncio.Future[Any]] = [*self._attempts, waiting]
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        done = [(attempt, sent) for attempt, sent in self._attempts.items() if attempt.done()]
        if not done:
            self._note(TimeoutError())
        for attempt, sent in done:
            del self._attempts[attempt]
            try:
                held = attempt.result()
            except LeaseChanged:
                self._drop_attempts()
                return await self._read_again()
            except (KubeError, TimeoutError) as fault:
                self._note(fault)
            else:
                self._drop_attempts()
                if self._left() > 0:
                    self._fault = ""
                    self._grant(sent, held)
                # From when it was sent: a slow server leaves no time for another pause.
                return max(sent + self.terms.retry - self._clock(), 0.0)
        return self.terms.retry / 4

    def _drop_attempts(self) -> None:
        for attempt in self._attempts:
            attempt.cancel()
        self._attempts.clear()

    async def _read_again(self) -> float:
        """Read the Lease after a concurrent write: an own one with a lost response, or that of another process."""
        call = min(max(self._left(), 0.001), self.terms.renew / 2)
        try:
            current = await self._within(call, self._lock.read(call))
        except (KubeError, TimeoutError) as fault:
            self._note(fault)
            return self.terms.retry / 4
        if current is not None and current.record.holder != self.identity:
            self._record = current.record
            holder = current.record.holder
            self._lose(f"held by {holder}" if holder else "released by another process")
        self._held = current
        return _AT_ONCE

    def _lose(self, why: str) -> NoReturn:
        self._until = float("-inf")
        raise LostLeadership(f"{self._lock} lost: {why}; the process exits and restarts as a follower")

    # Giving it back

    async def release(self) -> None:
        """Stop acting, then release the Lease, if that succeeds before it would expire anyway."""
        give_up = self._until
        if give_up == float("-inf"):
            return  # never was the leader, or has lost the Lease
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
                # An own renewal has arrived late, or the Lease has another holder.
                try:
                    current = await self._within(call, self._lock.read(call))
                except (KubeError, TimeoutError) as fault:
                    self._note(fault)
                    await self._sleep(self.terms.retry / 4)
                    continue
                if current is None or current.record.holder != self.identity:
                    return
                self._held = current
            except (KubeError, TimeoutError) as fault:
                self._note(fault)
                await self._sleep(self.terms.retry / 4)
            else:
                log.info("lease released", lease=str(self._lock))
                return
        log.warning("lease not released, it will expire", lease=str(self._lock))

    # In common

    def _note(self, fault: BaseException) -> None:
        text = describe(fault) if isinstance(fault, KubeError) else "no answer came in time"
        (log.debug if text == self._fault else log.warning)("lease request failed", lease=str(self._lock), error=text)
        self._fault = text

    async def _within(self, seconds: float, call: Coroutine[Any, Any, T]) -> T:
        """Await a call. Raises TimeoutError after so many seconds, independently of the client's own deadline."""
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
