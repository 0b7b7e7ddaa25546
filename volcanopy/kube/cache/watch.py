"""Reflectors: caches of the objects of one kind, kept up to date by list and watch, that deliver every change once.

A :class:`Reflector` lists, then watches from the version of the list. When the stream ends it continues from the last
version that it has seen, and when the server no longer has that version (410) it lists again and computes the differences
to its cache. Consumers get one sequence of changes in which no change is lost, duplicated or out of order; a relist may
only merge several changes of one object into one.

It relies on two properties of the API: the events of one kind come in the order of their resource versions, and resource
versions are integers.
"""

import asyncio
import enum
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from random import Random
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from volcanopy.api.decoding import decoder
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import PAGE, Client
from volcanopy.kube.client.backoff import AFTER_OUTAGE, Backoff
from volcanopy.kube.client.decoding import Rejected, reject
from volcanopy.kube.client.errors import ApiError, Gone, Invalid, KubeError, NoAnswer, Status, Unreadable, from_status
from volcanopy.kube.client.kinds import AnyEvent, Bare, Kind, WatchEvent
from volcanopy.kube.client.lines import Lines
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.client.transport import Clock, Sleep
from volcanopy.kube.metrics import registry

log = Logger(__name__)

T = TypeVar("T")
SETTLED = 5.0
"""A watch that has lasted this long (seconds) counts as successful, even without an event."""


class ChangeType(enum.Enum):
    """The type of a change."""

    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"
    UNREADABLE = "Unreadable"
    """Added or modified, but of another type: ``object`` lacks what cannot be read, which ``error`` names."""


class Change(Struct, Generic[T], frozen=True, gc=False):
    """A change. ``old`` is the object of the last change, None when Added.

    When Deleted, ``object`` is the last state on the server, which may be newer than ``old``.
    """

    type: ChangeType
    object: T
    old: T | None = None
    error: str = ""


class _StaleError(KubeError):
    """The server cannot continue from the last version seen."""


class Reflector(Generic[T]):
    """A cache of the objects of one kind that match selectors, in one namespace or all.

    ``transform`` may remove fields of an object before it is cached and delivered, but not its identity (name, namespace,
    uid, resource version). ``stall`` is the longest silence in seconds before a connection is closed; ``watch_timeout``
    the bounds (seconds) from which the length of each watch is drawn. ``rng``, ``sleep`` and ``clock`` are injected by
    tests. Of an object that does not match the type, what can be read is taken as the object; with ``unreadable`` the object
    is treated as absent and delivered as such besides.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        transform: Callable[[T], T] | None = None,
        unreadable: bool = False,
        page: int = PAGE,
        watch_timeout: tuple[float, float] = (300.0, 600.0),
        stall: float = 90.0,
        rng: Random | None = None,
        sleep: Sleep = asyncio.sleep,
        clock: Clock = machine.monotonic,
    ) -> None:
        self.kind = client.of_api(kind)
        self.objects: dict[str, T] = {}
        """The cache by ``namespace/name`` (or ``name``). The batch being delivered is already in it."""
        self.rejected: dict[str, T | None] = {}
        """What can be read of the objects that do not match the type, by the same key."""
        self.synced = asyncio.Event()
        """Set once the first list has been delivered."""
        self.answered = asyncio.Event()
        """Set once the first list has been delivered, or has failed."""
        self.on_listed: Callable[[], object] | None = None
        """Called after each complete list has been delivered: objects that are not cached then did not exist."""
        self.fault = ""
        """The error that keeps the cache from being up to date, empty without one."""
        self.faulty_since: float | None = None
        """The time of the first such error (monotonic seconds), None without one."""
        self._client, self._namespace = client, namespace
        self._labels, self._fields = label_selector, field_selector
        self._named: Callable[[T], T] | None = client.reading(None)
        self._transform, self._page = client.reading(transform), page
        self._watch_timeout, self._stall = watch_timeout, stall
        self._rng, self._sleep, self._clock = rng or machine.new_random(), sleep, clock
        self._identify, self._delivers_unreadable = kind.identify, unreadable
        self._seen = 0
        self._progress = False
        self._received = registry.WATCH_EVENTS.labels(kind.plural)
        registry.CACHE_SIZE.follow(self, lambda cache: [((cache.kind.plural,), len(cache.objects))])
        registry.UNREADABLE_OBJECTS.follow(self, lambda cache: [((cache.kind.plural,), len(cache.rejected))])

    @property
    def resource_version(self) -> str:
        """The last version seen; empty before the first list."""
        return str(self._seen) if self._seen else ""

    async def run(self, sink: Callable[[list[Change[T]]], object]) -> None:
        """Follow the server until cancelled and pass each batch of changes to ``sink``.

        Errors of the network and the server are retried for ever; an exception of ``sink`` ends the run.
        """
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                sink(batch)

    async def batches(self) -> AsyncGenerator[list[Change[T]], None]:
        """Yield the batches of changes: never empty, the whole first list as one. Close the generator when done."""
        backoff = Backoff(self._rng, 0.2, AFTER_OUTAGE)
        listed = False
        while True:
            self._progress = False
            pause: float | None = None
            try:
                if not listed:
                    if changes := await self._list():
                        yield changes
                    listed = True
                    if self.on_listed is not None:
                        self.on_listed()
                    self.synced.set()
                    self.answered.set()
                async with aclosing(self._watch()) as watched:
                    async for changes in watched:
                        yield changes
            except _StaleError as fault:
                log.info("watch too old, listing again", kind=self.kind.plural, reason=str(fault))
                self._ended("stale")
                listed = False
            except (ApiError, NoAnswer, Unreadable) as fault:
                self._note(fault)
                self.answered.set()
                pause = backoff.next(fault.retry_after if isinstance(fault, ApiError) else None)
            if self._progress:
                backoff.reset()
            elif pause is None:
                # The server ends watches at once: avoid a storm of requests.
                pause = backoff.next()
            if pause is not None:
                await self._sleep(pause)

    def _ended(self, reason: str) -> None:
        registry.WATCH_ENDS.labels(self.kind.plural, reason).inc()

    def _note(self, fault: KubeError) -> None:
        if self.faulty_since is None:
            self.faulty_since = self._clock()
        self._ended("fault")
        text = str(fault)
        if isinstance(fault, ApiError) and fault.code == 404:  # no object of a kind is an empty list
            remedy = ": install it (volcanopy crd)" if "volcanopy" in self.kind.group else ""
            text = f"the cluster does not serve {self.kind.kind} of {self.kind.api_version}{remedy}"
        # The same error in consecutive attempts is logged once.
        (log.debug if text == self.fault else log.warning)("watch failed", kind=self.kind.plural, error=text)
        self.fault = text

    async def _list(self) -> list[Change[T]]:
        listing = await self._client.list(
            self.kind,
            self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            page=self._page,
            transform=self._transform,
            # Not of the whole list: that of a large cluster takes minutes on a busy machine, and would begin again for ever.
            page_deadline=60.0,
        )
        # The list is authoritative even at a lower version: the server may have been restored from a backup.
        self._seen = _number(listing.resource_version)
        parts = [] if self._delivers_unreadable else [item.part for item in listing.rejected if item.part is not None]
        changes = self._differences([*listing.items, *map(self._slim, parts)]) + self._rejections(listing.rejected)
        self._received.inc(len(changes))
        self.fault = ""
        return changes

    def _differences(self, items: Iterable[T]) -> list[Change[T]]:
        """Take a list into the cache; returns the changes, deletions first."""
        before, now = self.objects, {}
        gone: list[Change[T]] = []
        changes: list[Change[T]] = []
        for listed in items:
            item, identity = listed, self._identify(listed)
            known = before.get(identity.key)
            if known is None:
                changes.append(Change(ChangeType.ADDED, item))
            else:
                was = self._identify(known)
                if was.uid != identity.uid:
                    gone.append(Change(ChangeType.DELETED, known, known))
                    changes.append(Change(ChangeType.ADDED, item))
                elif was.version != identity.version:
                    changes.append(Change(ChangeType.MODIFIED, item, known))
                else:
                    item = known
            now[identity.key] = item
        gone += [Change(ChangeType.DELETED, known, known) for key, known in before.items() if key not in now]
        before.clear()
        before.update(now)
        return gone + changes

    def _rejections(self, listed: Iterable[Rejected[T]]) -> list[Change[T]]:
        """Take the objects of a list that do not match the type; returns their changes."""
        changes: list[Change[T]] = []
        before, self.rejected = self.rejected, {}
        for rejected in listed:
            self._reject(rejected, changes)
        for key in before.keys() - self.rejected.keys() - self.objects.keys():
            self._forget(before[key], changes)
        return changes

    def _slim(self, item: T) -> T:
        return self._transform(item) if self._transform else item

    def _reject(self, rejected: Rejected[T], changes: list[Change[T]]) -> None:
        self.rejected[rejected.key] = rejected.part
        if self._delivers_unreadable and rejected.part is not None:
            changes.append(Change(ChangeType.UNREADABLE, self._slim(rejected.part), error=rejected.error))

    def _forget(self, part: T | None, changes: list[Change[T]]) -> None:
        if self._delivers_unreadable and part is not None:
            changes.append(Change(ChangeType.DELETED, part))

    async def _watch(self) -> AsyncGenerator[list[Change[T]], None]:
        """Follow one stream to its end. Raises the error that ended it; the regular end of a watch is none."""
        import aiohttp  # noqa: PLC0415 - as by the client: commands that watch nothing do without it

        from volcanopy.kube.client.streams import no_answer  # noqa: PLC0415

        try:
            connecting = self._client.watch(
                self.kind,
                self._namespace,
                resource_version=str(self._seen),
                label_selector=self._labels,
                field_selector=self._fields,
                timeout=round(self._rng.uniform(*self._watch_timeout)),
                stall=self._stall,
            )
            async with connecting as stream:
                self.fault, self.faulty_since = "", None
                started = self._clock()
                lines = Lines()
                while True:
                    try:
                        chunk = await stream.readany()
                    except aiohttp.SocketTimeoutError:
                        self._ended("stalled")
                        self._progress = True
                        return
                    except (aiohttp.ClientError, OSError, TimeoutError) as fault:
                        self._progress = self._progress or self._clock() - started >= SETTLED
                        raise no_answer(f"the watch of {self.kind.plural}", fault) from fault
                    if not chunk:
                        self._ended("ended")
                        self._progress = self._progress or self._clock() - started >= SETTLED
                        return
                    if not (whole := lines.feed(chunk)):
                        continue
                    changes, fault_in_stream = self._take(whole)
                    if changes:
                        self._received.inc(len(changes))
                        yield changes
                    if fault_in_stream:
                        raise fault_in_stream
        except (Gone, Invalid) as error:
            raise _StaleError(str(error)) from error
        except ApiError as error:
            if error.has_cause("ResourceVersionTooLarge"):
                raise _StaleError(str(error)) from error
            raise

    def _take(self, lines: bytes) -> tuple[list[Change[T]], KubeError | None]:
        """Apply whole lines. Returns the changes, and the error (if any) that followed them."""
        changes: list[Change[T]] = []
        try:
            events = self.kind.event_decoder.decode_lines(lines)
        except msgspec.DecodeError:
            # A bookmark, an error or an object of another type is among them: decode line by line.
            return changes, self._take_each(lines, changes)
        self._progress = True
        for event in events:
            try:
                self._apply(event, changes)
            except Unreadable as fault:
                return changes, fault
        return changes, None

    def _take_each(self, lines: bytes, changes: list[Change[T]]) -> KubeError | None:
        for line in lines.split(b"\n"):
            if not line:
                continue
            try:
                event = decoder(AnyEvent).decode(line)
                if event.type == "ERROR":
                    return from_status(decoder(Status).decode(event.object))
                self._progress = True
                if event.type == "BOOKMARK":
                    version = _number(decoder(Bare).decode(event.object).identity.version)
                    if version < self._seen:
                        # The server was restored from a backup; this watch would deliver nothing for a long time.
                        return _StaleError(f"the server is at version {version}, the cache at {self._seen}")
                    self._seen = version
                    continue
                self._apply_or_reject(event, changes)
            except msgspec.DecodeError as fault:
                return Unreadable(f"the watch of {self.kind.plural} sent an invalid event: {fault}")
            except Unreadable as fault:
                return fault
        return None

    def _apply_or_reject(self, event: AnyEvent, changes: list[Change[T]]) -> None:
        try:
            item = self.kind.decode(event.object)
        except msgspec.ValidationError as fault:
            rejected = reject(self.kind, event.object, fault)
            if not self._delivers_unreadable and rejected.part is not None:
                self._apply(WatchEvent(event.type, rejected.part), changes)  # type: ignore[arg-type]
                if rejected.key in self.objects:
                    self.rejected[rejected.key] = rejected.part
                return
            version = _number(decoder(Bare).decode(event.object).identity.version)
            if version >= self._seen:
                known = self.objects.pop(rejected.key, None)
                if known is not None:
                    changes.append(Change(ChangeType.DELETED, known, known))
                if event.type == "DELETED":
                    self._forget(self.rejected.pop(rejected.key, None), changes)
                else:
                    self._reject(rejected, changes)
                self._seen = version
        else:
            self._apply(WatchEvent(event.type, item), changes)  # type: ignore[arg-type]

    def _apply(self, event: WatchEvent[T], changes: list[Change[T]]) -> None:
        item = event.object
        identity = self._identify(item)
        version = _number(identity.version)
        key = identity.key
        known = self.objects.get(key)
        was = self._identify(known) if known is not None else None
        same = was is not None and was.uid == identity.uid
        if event.type == "DELETED":
            # A repeated deletion, also of an earlier object of that name, must not delete its successor.
            if version > self._seen and known is None and key in self.rejected:
                self._forget(self.rejected.pop(key), changes)
            elif known is not None and was is not None and _number(was.version) <= version:
                del self.objects[key]
                self.rejected.pop(key, None)
                last = (self._named(item) if self._named else item) if same else known
                changes.append(Change(ChangeType.DELETED, last, known))
        elif version >= self._seen and (was is None or _number(was.version) < version):
            item = self._slim(item)
            self.objects[key] = item
            self.rejected.pop(key, None)
            if same:
                changes.append(Change(ChangeType.MODIFIED, item, known))
            else:
                if known is not None:
                    changes.append(Change(ChangeType.DELETED, known, known))
                changes.append(Change(ChangeType.ADDED, item))
        self._seen = max(self._seen, version)


def each_alone(sink: Callable[[list[Change[T]]], object]) -> Callable[[list[Change[T]]], object]:
    """Return a sink that passes on each change alone; one that fails is logged and skipped, and the others go on."""

    def take(changes: list[Change[T]]) -> None:
        for change in changes:
            try:
                sink([change])
            except Exception:
                # Whatever it is, it is about this object.
                kind, key = _named(change.object)
                registry.SKIPPED_CHANGES.labels(kind).inc()
                log.exception("change skipped", kind=kind, key=key)

    return take


def _named(item: Any) -> tuple[str, str]:
    if isinstance(item, dict):
        meta = item.get("metadata") or {}
        return str(item.get("kind", "")), f"{meta.get('namespace', '')}/{meta.get('name', '')}".lstrip("/")
    return type(item).__name__, str(item.metadata.key)


def _number(version: str) -> int:
    try:
        return int(version)
    except ValueError:
        raise Unreadable(f"resource version {version!r} is not a number") from None
