"""Tells users what happened to their objects: core/v1 Events, as `kubectl describe` shows them.

Recording is a plain function call that never waits and never fails; writing happens behind it. What is said again and
again about the same object becomes one Event with a count, and an object about which too much is said gets fewer:
Events are for people, and the API server is not a log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from types import TracebackType
from typing import Literal, NamedTuple, Self

from msgspec import Struct

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, ApiError, KubeError, NoAnswer, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.transport import Clock
from volcanopy.kube.metrics import registry

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
EVENTS: Kind[Json] = Kind("", "v1", "Event", "events", True, dict)
MESSAGE_LIMIT = 1024
"""Characters of a message that the API server takes."""


class ObjectReference(Struct, rename="camel", frozen=True, omit_defaults=True):
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What is the same for all versions of the object."""
        return self.kind, self.namespace, self.name, self.uid


class RecorderCounters(Struct):
    """What a recorder has done so far."""

    recorded: int = 0
    written: int = 0
    limited: int = 0
    """Held back because too much was said about the object."""
    overflowed: int = 0
    """Dropped because the queue was full."""
    failed: int = 0
    """Refused by the server, or never answered."""


class _Said(NamedTuple):
    """What makes two events the same."""

    about: tuple[str, str, str, str]
    type: str
    reason: str
    message: str


class _Entry:
    """One Event and how much of it the server knows."""

    __slots__ = ("count", "first", "known", "last", "name", "queued", "reference", "said", "stored")

    def __init__(self, said: _Said, reference: ObjectReference, name: str, now: datetime) -> None:
        self.said, self.reference, self.name = said, reference, name
        self.first = self.last = now
        self.count = self.known = 0
        self.queued = self.stored = False


class _Bucket:
    """Tokens for the writes about one object."""

    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens, self.at = tokens, at


class EventRecorder:
    """Records events about objects and writes them in the background, between ``async with`` and its end.

    ``burst`` writes at once about one object, then one each ``refill`` seconds; at most ``queue`` events wait, the
    rest is dropped and counted. Repetitions of an event that is still waiting cost nothing but a higher count.
    ``capacity`` is the number of different events (and of objects) that are remembered for counting; the least
    recently used are forgotten first.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        burst: int = 25,
        refill: float = 300.0,
        queue: int = 1000,
        capacity: int = 4096,
        writers: int = 4,
        rng: Random | None = None,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.counters = RecorderCounters()
        self._client, self._component = client, component
        self._instance = instance or f"{component}-{socket.gethostname()}"[:128]
        self._burst, self._refill, self._limit, self._capacity = float(burst), refill, queue, capacity
        self._rng, self._clock, self._now = rng or Random(os.urandom(16)), clock, now
        self._writer_count = writers
        self._entries: OrderedDict[_Said, _Entry] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str, str], _Bucket] = OrderedDict()
        self._waiting: deque[_Entry] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = 0
        self._writers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._writers = [asyncio.create_task(self._write_all()) for _ in range(self._writer_count)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def record(self, reference: ObjectReference, event_type: EventType, reason: str, message: str) -> None:
        """Say something about an object: the reason is one CamelCase word, the message a sentence for its owner."""
        self.counters.recorded += 1
        registry.EVENTS.labels("recorded").inc()
        message = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
        said = _Said(reference.key, event_type, reason, message)
        now = self._now()
        entry = self._entries.get(said)
        if entry is None:
            name = f"{reference.name[:230].rstrip('-.')}.{self._rng.getrandbits(64):016x}"
            entry = self._entries[said] = _Entry(said, reference, name, now)
            if len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        self._entries.move_to_end(said)
        entry.count += 1
        entry.last = now
        if not entry.queued:
            self._queue(entry)

    def _queue(self, entry: _Entry) -> None:
        if len(self._waiting) >= self._limit:
            self.counters.overflowed += 1
            registry.EVENTS.labels("overflowed").inc()
        elif not self._take_token(entry.said.about):
            self.counters.limited += 1
            registry.EVENTS.labels("limited").inc()
        else:
            entry.queued = True
            self._waiting.append(entry)
            self._idle.clear()
            self._some.set()

    def _take_token(self, about: tuple[str, str, str, str]) -> bool:
        at = self._clock()
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = self._buckets[about] = _Bucket(self._burst, at)
            if len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(about)
        bucket.tokens = min(self._burst, bucket.tokens + (at - bucket.at) / self._refill)
        bucket.at = at
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    async def flush(self, deadline: float = 5.0) -> bool:
        """Wait until everything recorded so far is written, for so many seconds at most. Whether it was."""
        try:
            async with asyncio.timeout(deadline):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, deadline: float = 5.0) -> None:
        """Write what waits, for so many seconds at most, then stop. What is left is dropped, with a line in the log."""
        if self._writers and not await self.flush(deadline):
            log.warning("%d events could not be written in time and are dropped", len(self._waiting) + self._writing)
        for writer in self._writers:
            writer.cancel()
        for outcome in await asyncio.gather(*self._writers, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("an event writer had failed", exc_info=outcome)
        self._writers.clear()

    async def _write_all(self) -> None:
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            entry = self._waiting.popleft()
            self._writing += 1
            try:
                await self._write(entry)
                self.counters.written += 1
                registry.EVENTS.labels("written").inc()
            except (KubeError, ValueError) as fault:
                self.counters.failed += 1
                registry.EVENTS.labels("failed").inc()
                log.warning("event %s about %s is lost: %s", entry.said.reason, "/".join(entry.said.about[:3]), fault)
            finally:
                self._writing -= 1
                entry.queued = False
                # What was said while this was being written: not before, or two writers would have the same event.
                if entry.stored and entry.count > entry.known:
                    self._queue(entry)
                if not self._waiting and not self._writing:
                    self._idle.set()

    async def _write(self, entry: _Entry) -> None:
        count = entry.count
        if entry.stored:
            try:
                await self._patch(entry, count)
            except NotFound:
                # The server keeps events for an hour or so: this one has to be said anew, under the same name.
                await self._create(entry)
        else:
            try:
                await self._create(entry)
            except AlreadyExists:
                # We had made it, and the answer was lost.
                await self._patch(entry, count)
        entry.stored, entry.known = True, count

    async def _create(self, entry: _Entry) -> None:
        namespace = _home(entry.reference)
        body = self._body(entry, namespace)
        try:
            await self._client.create(EVENTS, namespace, body)
        except (ApiError, NoAnswer) as fault:
            if not fault.in_doubt:
                raise
            # The name is fixed: asking again cannot make a second one.
            await self._client.create(EVENTS, namespace, body)

    async def _patch(self, entry: _Entry, count: int) -> None:
        patch = {"count": count, "lastTimestamp": _stamp(entry.last)}
        await self._client.patch(EVENTS, _home(entry.reference), entry.name, patch)

    def _body(self, entry: _Entry, namespace: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": entry.name, "namespace": namespace},
            "involvedObject": entry.reference,
            "type": entry.said.type,
            "reason": entry.said.reason,
            "message": entry.said.message,
            "count": entry.count,
            "firstTimestamp": _stamp(entry.first),
            "lastTimestamp": _stamp(entry.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _home(reference: ObjectReference) -> str:
    """Where an event about it lives: what has no namespace has its events in ``default``."""
    return reference.namespace or "default"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
