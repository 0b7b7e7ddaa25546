"""Watches: every change after a version, as one line each, for as long as the client listens."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from time import time

from embedded_apiserver.connections import JSON, Stream, Tunnel
from embedded_apiserver.context import Call, Context
from embedded_apiserver.crud.get import version_of
from embedded_apiserver.crud.selection import Filter
from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.schema.metadata_validation import forbidden_field, unsupported
from embedded_apiserver.status_errors import ApiError, expired, invalid
from embedded_apiserver.store.object_store import Body, Event, StoredObject, encode
from embedded_apiserver.streams import websocket
from embedded_apiserver.wire.representation import form, is_stored_form, partial, rows, served

LINGER = 0.002
"""Seconds that a busy watch waits for more before it writes: under load, one write carries many events."""
LINGER_FOR_WATCH = 0.0002
"""The same for each watch of the kind, where that is longer: many watches do not take the processor from other requests."""
PIECE = 64 * 1024
"""Bytes that a watch writes at once, if a single object has no more."""
BACKLOG = 16 * 2**20
"""Bytes of objects, which watches share, by which a client that does not read may lag behind; then its connection is closed."""


class Watch:
    """One client's view of one bucket."""

    def __init__(self, ctx: Context, call: Call) -> None:
        self.ctx = ctx
        self.call = call
        self.kind = call.kind
        self.filter = Filter(call)
        self.form = form(call)
        self.include = call.query.get("includeObject")
        self.bucket = ctx.bucket(call.kind)
        self.bookmarks = call.flag("allowWatchBookmarks")
        self.wake = asyncio.Event()
        self.queue: deque[bytes | tuple[str, StoredObject]] = deque()
        """Lines, and changes whose lines are made when they are sent."""
        self.size = 0
        """Bytes of the lines and objects in the queue."""
        self.ended = False

    def push(self, event: Event) -> None:
        """Called with every change of the bucket, in order: keep it if it concerns this client."""
        type_, entry = event.type, event.entry
        chosen = self.filter
        if not chosen.all:
            now = type_ != "DELETED" and chosen.matches(entry)
            before = event.previous is not None and chosen.matches(event.previous)
            if now:
                type_ = "MODIFIED" if before else "ADDED"
            elif not before:
                return
            elif type_ != "DELETED":
                assert event.previous is not None
                type_, entry = "DELETED", event.previous
        if self._is_plain(entry, event.version):
            self._add((type_, entry))
        else:
            self._add(self._line(type_, entry, event.version))
        if self.size > BACKLOG and (connection := self.call.http.connection).unread:
            connection.abort()
        self.wake.set()

    def _is_plain(self, entry: StoredObject, version: int) -> bool:
        return not self.form and entry.version == version and is_stored_form(self.kind, entry)

    def _add(self, item: bytes | tuple[str, StoredObject]) -> None:
        self.queue.append(item)
        self.size += _size(item)

    def start(self) -> None:
        """Fill the queue with what happened, or what exists, before now."""
        asked = version_of(self.call)
        initial = self.call.query.get("sendInitialEvents")
        _check_initial(self.call, initial)
        if asked is not None and asked > self.ctx.store.version:
            self._fail(expired(f"too old resource version: {asked} ({self.ctx.store.version})"))
        elif initial == "true" or (initial is None and not asked):
            for entry in self.filter.pick(self.bucket):
                self._add(("ADDED", entry))
            if initial == "true" and self.bookmarks:
                self._add(self.bookmark(last_initial=True))
        elif asked:
            try:
                for event in self.bucket.since(asked):
                    self.push(event)
            except ApiError as error:
                self._fail(error)

    def end(self) -> None:
        """End the watch after what is in the queue."""
        self.ended = True
        self.wake.set()

    def drain(self) -> bytes:
        """The next lines of the queue."""
        lines: list[bytes] = []
        end = self.size - PIECE
        while self.queue and (self.size > end or not lines):
            item = self.queue.popleft()
            self.size -= _size(item)
            if isinstance(item, bytes):
                lines.append(item)
            elif self._is_plain(entry := item[1], entry.version):
                lines += (b'{"type":"%b","object":' % item[0].encode(), entry.raw, b"}\n")
            else:
                lines.append(self._line(item[0], entry, entry.version))
        return b"".join(lines)

    def bookmark(self, *, last_initial: bool = False) -> bytes:
        """A bookmark line with the version that the watch has reached."""
        version = str(self.ctx.store.version)
        metadata: Body = {"resourceVersion": version, "creationTimestamp": None}
        if last_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body: Body = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        if self.form == "table":
            body = rows(self.kind, self.include, [], {"resourceVersion": version})
        elif self.form == "partial":
            body = partial(body)
        return _encoded("BOOKMARK", body)

    def _line(self, type_: str, entry: StoredObject, version: int) -> bytes:
        return _line(self.kind, self.form, self.include, type_, entry, version, int(time()))

    def _fail(self, error: ApiError) -> None:
        self.ended = True
        self._add(_encoded("ERROR", error.status()))


def _size(item: bytes | tuple[str, StoredObject]) -> int:
    return len(item) if isinstance(item, bytes) else item[1].size


@lru_cache(maxsize=8)
def _line(
    kind: Kind, form: str, include: str | None, type_: str, entry: StoredObject, version: int, _second: int
) -> bytes:
    """The line of a change, made once for all who watch in this form; a table has ages and so depends on the second."""
    body = served(kind, entry)
    if version != entry.version:  # it left the selection: its last state there, under the version of the change
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}
    if form == "table":
        body = rows(kind, include, [body], {"resourceVersion": str(version)})
    elif form == "partial":
        body = partial(body)
    return _encoded(type_, body)


def _encoded(type_: str, body: Body) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), encode(body))


async def watch(ctx: Context, call: Call) -> Stream | Tunnel:
    """Answer a watch until its time is over, the client leaves or the server stops.

    The events are lines of the answer or, for a client that requests a WebSocket (as Java's fabric8 does), its messages.
    """
    seen = Watch(ctx, call)
    seen.start()
    if websocket.is_requested(call.http):
        return await _by_messages(ctx, call, seen)
    response = call.http.stream(JSON)
    with contextlib.suppress(ConnectionError):  # the client has disconnected
        await _write(ctx, call, seen, response.write)
        response.end()
    return response


async def _by_messages(ctx: Context, call: Call, seen: Watch) -> Tunnel:
    socket = websocket.accept(call.http, next(iter(websocket.offered_protocols(call.http)), ""))

    async def send(lines: bytes) -> None:
        for line in lines.splitlines():
            await socket.send_text(line)

    async def receive() -> None:
        """Answer pings, and end the watch when the client closes the connection."""
        with contextlib.suppress(ConnectionError):
            while await socket.receive() is not None:
                pass  # clients of a watch send no messages of their own
        seen.end()

    reader = asyncio.create_task(receive())
    try:
        with contextlib.suppress(ConnectionError):  # the client has disconnected
            await _write(ctx, call, seen, send)
            await socket.close()
    finally:
        reader.cancel()
        await asyncio.wait({reader})
    assert call.http.upgraded is not None
    return call.http.upgraded


async def _write(ctx: Context, call: Call, seen: Watch, write: Callable[[bytes], Awaitable[None]]) -> None:
    """Write the lines of a watch for as long as it lasts."""
    seen.bucket.watchers[seen.push] = seen.end
    ctx.streams.add(seen.wake)
    loop = asyncio.get_running_loop()
    seconds = float(call.query.get("timeoutSeconds") or 0) or ctx.rng.uniform(1800, 3600)
    end = loop.time() + seconds
    mark = loop.time() + ctx.bookmark_seconds
    written = 0.0
    alarm = loop.call_at(min(end, mark), seen.wake.set)
    try:
        while True:
            seen.wake.clear()
            if seen.queue:
                linger = max(LINGER, LINGER_FOR_WATCH * len(seen.bucket.watchers))
                if loop.time() - written < linger and seen.size < PIECE:
                    await asyncio.sleep(linger)
                await write(seen.drain())
                written = loop.time()
            moment = loop.time()
            if moment >= end or ctx.stopping.is_set() or (seen.ended and not seen.queue):
                break
            if moment >= mark:
                mark = moment + ctx.bookmark_seconds
                alarm.cancel()
                alarm = loop.call_at(min(end, mark), seen.wake.set)
                if seen.bookmarks and not seen.queue:
                    await write(seen.bookmark())
            if not seen.queue:
                await seen.wake.wait()
    finally:
        alarm.cancel()
        ctx.streams.discard(seen.wake)
        seen.bucket.watchers.pop(seen.push, None)


def _check_initial(call: Call, initial: str | None) -> None:
    faults: list[FieldError] = []
    match = call.query.get("resourceVersionMatch", "")
    if initial is not None and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        faults.append(forbidden_field("resourceVersionMatch", text))
    if initial is None and match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        faults.append(forbidden_field("resourceVersionMatch", text))
    if match and match != "NotOlderThan":
        faults.append(unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    if faults:
        raise invalid("ListOptions", "meta.k8s.io", "", faults)
