"""Writing of core/v1 Events, aggregated and rate-limited.

Recording is a plain function call that never waits and never fails; the events are written in the background. Repetitions
about one object become one Event with a count, and an object with too many events gets fewer.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Literal, NamedTuple, Self, TypeVar

from msgspec import Struct

from volcanopy.api.times import format_time
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, ApiError, KubeError, NoAnswer, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.client.raw_kinds import EVENTS
from volcanopy.kube.client.transport import Clock
from volcanopy.kube.metrics import registry

log = Logger(__name__)

EventType = Literal["Normal", "Warning"]
T = TypeVar("T")
MESSAGE_LIMIT = 1024
"""Characters of a message that the API server accepts."""


class ObjectReference(Struct, rename="camel", frozen=True, omit_defaults=True):
    """The involved object of an event."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
    """The part of the object, such as `spec.containers{main}`."""

    @classmethod
    def of(cls, kind: Kind[T], item: T) -> Self:
        """Return the reference to an object."""
        identity = kind.identify(item)
        return cls(kind.api_version, kind.kind, identity.name, identity.namespace, identity.uid, identity.version)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The identity of the object, without its version and the part of it."""
        return self.kind, self.namespace, self.name, self.uid


class _EventKey(NamedTuple):
    """The fields that are equal in repetitions of an event."""

    item: tuple[str, str, str, str]
    type: str
    reason: str
    message: str
    field_path: str


class _PendingEvent:
    """One Event, and the part of it that the server has."""

    __slots__ = ("count", "event", "first", "known", "last", "name", "queued", "reference", "stored")

    def __init__(self, event: _EventKey, reference: ObjectReference, name: str, now: datetime) -> None:
        self.event, self.reference, self.name = event, reference, name
        self.first = self.last = now
        self.count = self.known = 0
        self.queued = self.stored = False


class _Bucket:
    """The token bucket of one object."""

    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens, self.at = tokens, at


class EventRecorder:
    """Records events of objects and writes them in the background during ``async with``.

    An object gets ``burst`` writes, then one each ``refill`` seconds; at most ``queue`` events wait, the others are dropped
    and counted. A repetition of a waiting event only increases its count. ``capacity`` is the number of different events
    (and of objects) that are remembered for aggregation, least recently used first out.
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
        clock: Clock = machine.monotonic,
        now: Callable[[], datetime] = machine.utc_now,
    ) -> None:
        self._client, self._component = client, component
        self._instance = instance or f"{component}-{machine.host()}"[:128]
        self._burst, self._refill, self._limit, self._capacity = float(burst), refill, queue, capacity
        self._rng, self._clock, self._now = rng or machine.new_random(), clock, now
        self._writer_count = writers
        self._entries: OrderedDict[_EventKey, _PendingEvent] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str, str], _Bucket] = OrderedDict()
        self._waiting: deque[_PendingEvent] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = 0
        self._writers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._writers = [asyncio.create_task(self._write_all()) for _ in range(self._writer_count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def record(self, reference: ObjectReference, event_type: EventType, reason: str, message: str) -> None:
        """Record an event of an object: a CamelCase reason and a message for its owner."""
        registry.EVENTS.labels("recorded").inc()
        message = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
        event = _EventKey(reference.key, event_type, reason, message, reference.field_path)
        now = self._now()
        entry = self._entries.get(event)
        if entry is None:
            name = f"{reference.name[:230].rstrip('-.')}.{self._rng.getrandbits(64):016x}"
            entry = self._entries[event] = _PendingEvent(event, reference, name, now)
            if len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        self._entries.move_to_end(event)
        entry.count += 1
        entry.last = now
        if not entry.queued:
            self._queue(entry)

    def _queue(self, entry: _PendingEvent) -> None:
        if len(self._waiting) >= self._limit:
            registry.EVENTS.labels("overflowed").inc()
        elif not self._take_token(entry.event.item):
            registry.EVENTS.labels("limited").inc()
        else:
            entry.queued = True
            self._waiting.append(entry)
            self._idle.clear()
            self._some.set()

    def _take_token(self, item: tuple[str, str, str, str]) -> bool:
        at = self._clock()
        bucket = self._buckets.get(item)
        if bucket is None:
            bucket = self._buckets[item] = _Bucket(self._burst, at)
            if len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(item)
        bucket.tokens = min(self._burst, bucket.tokens + (at - bucket.at) / self._refill)
        bucket.at = at
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    async def flush(self, deadline: float = 5.0) -> bool:
        """Wait until all recorded events are written, for ``deadline`` seconds at most. Whether they were."""
        try:
            async with asyncio.timeout(deadline):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, deadline: float = 5.0) -> None:
        """Write waiting events for ``deadline`` seconds at most, then stop. The others are dropped and logged."""
        if self._writers and not await self.flush(deadline):
            log.warning("events dropped at shutdown", events=len(self._waiting) + self._writing)
        for writer in self._writers:
            writer.cancel()
        for outcome in await asyncio.gather(*self._writers, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("event writer failed", exc_info=outcome)
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
                registry.EVENTS.labels("written").inc()
            except (KubeError, ValueError) as fault:
                registry.EVENTS.labels("failed").inc()
                item = "/".join(entry.event.item[:3])
                expected = isinstance(fault, ApiError) and fault.namespace_is_deleted
                (log.info if expected else log.warning)(
                    "event not written", reason=entry.event.reason, object=item, error=str(fault)
                )
            except Exception:
                # A writer that ends would not be missed: it goes on with the next event.
                registry.EVENTS.labels("failed").inc()
                log.exception("internal error while writing an event", reason=entry.event.reason)
            finally:
                self._writing -= 1
                entry.queued = False
                # Repetitions during the write; not before, or two writers would have the same event.
                if entry.stored and entry.count > entry.known:
                    self._queue(entry)
                if not self._waiting and not self._writing:
                    self._idle.set()

    async def _write(self, entry: _PendingEvent) -> None:
        count = entry.count
        if entry.stored:
            try:
                await self._patch(entry, count)
            except NotFound:
                # The server deletes events after an hour or so: create it again, under the same name.
                await self._create(entry)
        else:
            try:
                await self._create(entry)
            except AlreadyExists:
                # It was created, and the response was lost.
                await self._patch(entry, count)
        entry.stored, entry.known = True, count

    async def _create(self, entry: _PendingEvent) -> None:
        namespace = _home(entry.reference)
        body = self._body(entry, namespace)
        try:
            await self._client.create(EVENTS, namespace, body)
        except (ApiError, NoAnswer) as fault:
            if not fault.in_doubt:
                raise
            # The name is fixed: a retry cannot create a second one.
            await self._client.create(EVENTS, namespace, body)

    async def _patch(self, entry: _PendingEvent, count: int) -> None:
        patch = {"count": count, "lastTimestamp": format_time(entry.last)}
        await self._client.patch(EVENTS, _home(entry.reference), entry.name, patch)

    def _body(self, entry: _PendingEvent, namespace: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": entry.name, "namespace": namespace},
            "involvedObject": entry.reference,
            "type": entry.event.type,
            "reason": entry.event.reason,
            "message": entry.event.message,
            "count": entry.count,
            "firstTimestamp": format_time(entry.first),
            "lastTimestamp": format_time(entry.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _home(reference: ObjectReference) -> str:
    """Return the namespace of its events: ``default`` for cluster-scoped objects."""
    return reference.namespace or "default"
