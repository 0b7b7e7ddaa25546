"""Keeps a copy of what the server has of one kind, and tells every change of it once.

A :class:`Reflector` lists, then watches from the version of the list; when the stream ends it goes on from the last
version it has seen, and when the server no longer knows that version (410) it lists again and works out the differences
to its copy. Consumers see one sequence of changes in which no change is lost, doubled or out of order, whatever
happened on the way; all that a relist may do is to fold several changes of one object into one.

It rests on two promises of the API: the events of one kind come in the order of their resource versions, and resource
versions are whole numbers.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from random import Random
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from volcanopy.kube.client.api_client import PAGE, Client
from volcanopy.kube.client.backoff import Backoff
from volcanopy.kube.client.errors import ApiError, Gone, Invalid, KubeError, NoAnswer, Status, Unreadable, from_status
from volcanopy.kube.client.kinds import AnyEvent, Bare, Kind, WatchEvent, decoder
from volcanopy.kube.client.transport import Clock, Sleep, no_answer
from volcanopy.kube.metrics import registry

log = logging.getLogger(__name__)

T = TypeVar("T")
SETTLED = 5.0
"""A watch that has lasted this long (seconds) has worked, even if nothing happened on it."""


class ChangeType(enum.Enum):
    """What happened to an object."""

    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"


class Change(Struct, Generic[T], frozen=True, gc=False):
    """One change. ``old`` is what the consumer was told last: None when Added.

    When Deleted, ``object`` is the last state that the server showed, which may be newer than ``old``.
    """

    type: ChangeType
    object: T
    old: T | None = None


class Counters(Struct):
    """What a reflector has met so far: for metrics and for tests."""

    events: int = 0
    """Changes delivered, those of lists included."""
    replayed: int = 0
    """Events that told what was known already."""
    bookmarks: int = 0
    lists: int = 0
    watches: int = 0
    stalls: int = 0
    """Watches given up because nothing came, not even a bookmark."""
    faults: int = 0
    """Failed lists and watches, of any cause but a regular end and a stall."""
    rejected: int = 0
    """Objects that did not have the shape of the type; they are treated as if they were not there."""


class _StaleError(KubeError):
    """The server does not go on from the version that we have."""


class Reflector(Generic[T]):
    """A live copy of the objects of one kind that selectors choose, in one namespace or all.

    ``transform`` may make an object lighter before it is kept and delivered; it must leave its identity (name,
    namespace, uid, resource version). ``stall`` is the longest silence in seconds before a connection is given up;
    ``watch_timeout`` the bounds (seconds) from which the length of each watch is drawn. ``rng``, ``sleep`` and
    ``clock`` are there for tests.
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
        page: int = PAGE,
        watch_timeout: tuple[float, float] = (300.0, 600.0),
        stall: float = 90.0,
        rng: Random | None = None,
        sleep: Sleep = asyncio.sleep,
        clock: Clock = time.monotonic,
    ) -> None:
        self.kind = kind
        self.objects: dict[str, T] = {}
        """The copy: ``namespace/name`` (or ``name``) -> object. It is ahead of the consumer by the batch on its way."""
        self.synced = asyncio.Event()
        """Set once the first list has been delivered."""
        self.counters = Counters()
        self.on_listed: Callable[[], object] | None = None
        """Called when a list has been handed over, each time: what is not in the copy by then did not exist then."""
        self.fault = ""
        """What keeps the copy from being up to date now, as a sentence; empty when nothing does."""
        self.faulty_since: float | None = None
        """Since when (monotonic seconds) that is so, None when nothing does."""
        self._client, self._namespace = client, namespace
        self._labels, self._fields = label_selector, field_selector
        self._transform, self._page = transform, page
        self._watch_timeout, self._stall = watch_timeout, stall
        self._rng, self._sleep, self._clock = rng or Random(), sleep, clock
        self._identify = kind.identify
        self._seen = 0
        self._progress = False
        self._told = registry.WATCH_EVENTS.labels(kind.plural)
        registry.CACHE_SIZE.follow(self, _cached)

    @property
    def resource_version(self) -> str:
        """The version up to which everything has been seen; empty before the first list."""
        return str(self._seen) if self._seen else ""

    async def run(self, sink: Callable[[list[Change[T]]], object]) -> None:
        """Follow the server until cancelled, handing each batch of changes to ``sink`` as it comes.

        Faults of the network and the server are waited out, for ever; what ``sink`` raises ends the run.
        """
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                sink(batch)

    async def batches(self) -> AsyncGenerator[list[Change[T]], None]:
        """The same as an iterator: never empty batches, the whole first list as one. Close it when done."""
        backoff = Backoff(self._rng, 0.2, 30.0)
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
                async with aclosing(self._watch()) as watched:
                    async for changes in watched:
                        yield changes
            except _StaleError as fault:
                log.info("%s: %s; listing again", self.kind.plural, fault)
                self._over("stale")
                listed = False
            except (ApiError, NoAnswer, Unreadable) as fault:
                self._note(fault)
                pause = backoff.next(fault.retry_after if isinstance(fault, ApiError) else None)
            if self._progress:
                backoff.reset()
            elif pause is None:
                # The server keeps ending our watches at once: do not answer that with a storm of requests.
                pause = backoff.next()
            if pause is not None:
                await self._sleep(pause)

    def _over(self, reason: str) -> None:
        registry.WATCH_ENDS.labels(self.kind.plural, reason).inc()

    def _note(self, fault: KubeError) -> None:
        self.counters.faults += 1
        if self.faulty_since is None:
            self.faulty_since = self._clock()
        self._over("fault")
        text = str(fault)
        # The same fault at each attempt is one piece of news.
        log.log(logging.DEBUG if text == self.fault else logging.WARNING, "watching %s: %s", self.kind.plural, text)
        self.fault = text

    async def _list(self) -> list[Change[T]]:
        listing = await self._client.list(
            self.kind,
            self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            page=self._page,
            deadline=60.0,
        )
        self.counters.lists += 1
        self.counters.rejected += len(listing.rejected)
        # The list is the truth, even where its version is below ours: a server may have been restored from a backup.
        self._seen = _number(listing.resource_version)
        changes = self._differences(listing.items)
        self.counters.events += len(changes)
        self._told.inc(len(changes))
        self.fault = ""
        return changes

    def _differences(self, items: Iterable[T]) -> list[Change[T]]:
        """Take over a list; returns what has changed by it, deletions first."""
        before, now = self.objects, {}
        gone: list[Change[T]] = []
        changes: list[Change[T]] = []
        for listed in items:
            identity = self._identify(listed)
            item = self._transform(listed) if self._transform else listed
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

    async def _watch(self) -> AsyncGenerator[list[Change[T]], None]:
        """Follow one stream to its end. Raises what ended it, unless that was the server's regular end of a watch."""
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
                self.counters.watches += 1
                self.fault, self.faulty_since = "", None
                started = self._clock()
                lines = Lines()
                while True:
                    try:
                        chunk = await stream.readany()
                    except aiohttp.SocketTimeoutError:
                        self.counters.stalls += 1
                        self._over("stalled")
                        self._progress = True
                        return
                    except (aiohttp.ClientError, OSError, TimeoutError) as fault:
                        self._progress = self._progress or self._clock() - started >= SETTLED
                        raise no_answer(f"the watch of {self.kind.plural}", fault) from fault
                    if not chunk:
                        self._over("ended")
                        self._progress = self._progress or self._clock() - started >= SETTLED
                        return
                    if not (whole := lines.feed(chunk)):
                        continue
                    changes, fault_in_stream = self._take(whole)
                    if changes:
                        self.counters.events += len(changes)
                        self._told.inc(len(changes))
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
        """Apply whole lines. Returns the changes, and the fault (if any) that came after them."""
        changes: list[Change[T]] = []
        try:
            events = self.kind.event_decoder.decode_lines(lines)
        except msgspec.DecodeError:
            # There is a bookmark or an error among them, or something that does not fit: look at each by itself.
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
                    self.counters.bookmarks += 1
                    version = _number(decoder(Bare).decode(event.object).identity.version)
                    if version < self._seen:
                        # As after a restore from a backup. Such a watch would tell us nothing for a long time.
                        return _StaleError(f"the server is at version {version} only, and we had seen {self._seen}")
                    self._seen = version
                    continue
                self._apply_or_reject(line, event, changes)
            except msgspec.DecodeError as fault:
                return Unreadable(f"the watch of {self.kind.plural} sent what is no event: {fault}")
            except Unreadable as fault:
                return fault
        return None

    def _apply_or_reject(self, line: bytes, event: AnyEvent, changes: list[Change[T]]) -> None:
        try:
            typed = self.kind.event_decoder.decode(line)
        except msgspec.ValidationError as fault:
            bare = decoder(Bare).decode(event.object)
            self.counters.rejected += 1
            log.error("%s %s is left out, not of the shape we read: %s", self.kind.kind, bare.identity.key, fault)
            version = _number(bare.identity.version)
            known = self.objects.get(bare.identity.key)
            if known is not None and _number(self._identify(known).version) < version:
                del self.objects[bare.identity.key]
                changes.append(Change(ChangeType.DELETED, known, known))
            self._seen = max(self._seen, version)
        else:
            self._apply(typed, changes)

    def _apply(self, event: WatchEvent[T], changes: list[Change[T]]) -> None:
        item = event.object
        identity = self._identify(item)
        version = _number(identity.version)
        key = identity.key
        known = self.objects.get(key)
        was = self._identify(known) if known is not None else None
        same = was is not None and was.uid == identity.uid
        if event.type == "DELETED":
            # An end that is told again, of an earlier holder of the name too, must not end who came after it.
            if known is None or was is None or _number(was.version) > version:
                self.counters.replayed += 1
            else:
                del self.objects[key]
                changes.append(Change(ChangeType.DELETED, item if same else known, known))
        elif version < self._seen or (was is not None and _number(was.version) >= version):
            self.counters.replayed += 1
        else:
            if self._transform:
                item = self._transform(item)
            self.objects[key] = item
            if same:
                changes.append(Change(ChangeType.MODIFIED, item, known))
            else:
                if known is not None:
                    changes.append(Change(ChangeType.DELETED, known, known))
                changes.append(Change(ChangeType.ADDED, item))
        self._seen = max(self._seen, version)


def _cached(reflector: Reflector[Any]) -> list[tuple[tuple[str, ...], float]]:
    return [((reflector.kind.plural,), len(reflector.objects))]


class Lines:
    """Cuts a stream of chunks into whole lines, however long a line is, without copying a part twice."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """All lines that this chunk completes, each with its newline; empty when it completes none."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._rest.append(chunk)
            return b""
        whole = b"".join((*self._rest, chunk[:end])) if self._rest else chunk[:end]
        self._rest = [chunk[end:]] if end < len(chunk) else []
        return whole


def _number(version: str) -> int:
    try:
        return int(version)
    except ValueError:
        raise Unreadable(f"resource version {version!r} is not a number") from None
