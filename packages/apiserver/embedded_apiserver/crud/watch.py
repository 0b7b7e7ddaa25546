"""Watches: every change after a version, as one line each, for as long as the client listens."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable

from embedded_apiserver.connections import JSON, Stream, Tunnel
from embedded_apiserver.context import Call, Context
from embedded_apiserver.crud.get import version_of
from embedded_apiserver.crud.selection import Filter
from embedded_apiserver.field_errors import FieldError
from embedded_apiserver.schema.metadata_validation import forbidden_field, unsupported
from embedded_apiserver.status_errors import ApiError, expired, invalid
from embedded_apiserver.store.object_store import Body, Event, StoredObject, encode
from embedded_apiserver.streams import websocket
from embedded_apiserver.wire.representation import form, is_stored_form, partial, rows, served

LINGER = 0.002
"""Seconds that a busy watch waits for more before it writes: under load, one write carries many events."""

BACKLOG = 200_000
"""Events that a watcher may lag behind before it is cut off."""


class Watch:
    """One client's view of one bucket."""

    def __init__(self, ctx: Context, call: Call) -> None:
        self.ctx = ctx
        self.call = call
        self.kind = call.kind
        self.filter = Filter(call)
        self.form = form(call)
        self.bucket = ctx.bucket(call.kind)
        self.bookmarks = call.flag("allowWatchBookmarks")
        self.wake = asyncio.Event()
        self.queue: deque[bytes | tuple[str, StoredObject]] = deque()
        self.version = 0
        self.ended = False
        self._woken = False

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
                type_, entry = "DELETED", _left(event.previous, event.version)
        # The line is one object for all who see the event as it is; other forms are made when they are sent.
        self.queue.append(event.line if type_ == event.type and self._is_plain(entry) else (type_, entry))
        if not self._woken:
            self._woken = True
            self.wake.set()

    def start(self) -> bytes:
        """Fill the queue with what happened, or what exists, before now; returns the lines to send at once."""
        asked = version_of(self.call)
        initial = self.call.query.get("sendInitialEvents")
        _check_initial(self.call, initial)
        if asked is not None and asked > self.ctx.store.version:
            return self._error(expired(f"too old resource version: {asked} ({self.ctx.store.version})"))
        if initial == "true" or (initial is None and not asked):
            for entry in self.filter.pick(self.bucket):
                self.queue.append(("ADDED", entry))
            if initial == "true" and self.bookmarks:
                self.version = self.ctx.store.version
                return self.drain() + self.bookmark(last_initial=True)
        elif asked:
            try:
                for event in self.bucket.since(asked):
                    self.push(event)
            except ApiError as error:
                return self._error(error)
        return self.drain()

    def drain(self) -> bytes:
        """The lines of all that is queued."""
        queue = self.queue
        lines = [item if type(item) is bytes else self._made(*item) for item in queue]
        queue.clear()
        self._woken = False
        return b"".join(lines)

    def bookmark(self, *, last_initial: bool = False) -> bytes:
        """A bookmark line with the version that the watch has reached."""
        version = str(self.ctx.store.version)
        metadata: Body = {"resourceVersion": version, "creationTimestamp": None}
        if last_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body: Body = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        if self.form == "table":
            body = rows(self.call, [], {"resourceVersion": version})
        elif self.form == "partial":
            body = partial(body)
        return self._line("BOOKMARK", body)

    def _made(self, type_: str, entry: StoredObject) -> bytes:
        """An event's line for this client."""
        if self._is_plain(entry):
            return b'{"type":"%b","object":%b}\n' % (type_.encode(), entry.raw)
        body = served(self.kind, entry)
        if self.form == "table":
            body = rows(self.call, [body], {"resourceVersion": str(entry.version)})
        elif self.form == "partial":
            body = partial(body)
        return self._line(type_, body)

    def _is_plain(self, entry: StoredObject) -> bool:
        return not self.form and is_stored_form(self.kind, entry)

    def _line(self, type_: str, body: Body) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), encode(body))

    def _error(self, error: ApiError) -> bytes:
        self.ended = True
        return self._line("ERROR", error.status())


async def watch(ctx: Context, call: Call) -> Stream | Tunnel:
    """Answer a watch until its time is over, the client leaves or the server stops.

    The events are lines of the answer or, for a client that requests a WebSocket (as Java's fabric8 does), its messages.
    """
    seen = Watch(ctx, call)
    first = seen.start()
    if websocket.is_requested(call.http):
        return await _by_messages(ctx, call, seen, first)
    response = call.http.stream(JSON)
    with contextlib.suppress(ConnectionError):  # the client has disconnected
        await _write(ctx, call, seen, first, response.write)
        response.end()
    return response


async def _by_messages(ctx: Context, call: Call, seen: Watch, first: bytes) -> Tunnel:
    socket = websocket.accept(call.http, next(iter(websocket.offered_protocols(call.http)), ""))

    async def send(lines: bytes) -> None:
        for line in lines.splitlines():
            await socket.send_text(line)

    async def receive() -> None:
        """Answer pings, and end the watch when the client closes the connection."""
        with contextlib.suppress(ConnectionError):
            while await socket.receive() is not None:
                pass  # clients of a watch send no messages of their own
        seen.ended = True
        seen.wake.set()

    reader = asyncio.create_task(receive())
    try:
        with contextlib.suppress(ConnectionError):  # the client has disconnected
            await _write(ctx, call, seen, first, send)
            await socket.close()
    finally:
        reader.cancel()
        await asyncio.wait({reader})
    assert call.http.upgraded is not None
    return call.http.upgraded


async def _write(
    ctx: Context, call: Call, seen: Watch, first: bytes, write: Callable[[bytes], Awaitable[None]]
) -> None:
    """Write the lines of a watch for as long as it lasts."""
    seen.bucket.watchers[seen.push] = None
    ctx.streams.add(seen.wake)
    loop = asyncio.get_running_loop()
    seconds = float(call.query.get("timeoutSeconds") or 0) or ctx.rng.uniform(1800, 3600)
    end = loop.time() + seconds
    mark = loop.time() + ctx.bookmark_seconds
    written = 0.0
    alarm = loop.call_at(min(end, mark), seen.wake.set)
    try:
        await write(first)
        while not seen.ended and not ctx.stopping.is_set():
            await seen.wake.wait()
            seen.wake.clear()
            if len(seen.queue) > BACKLOG:
                break
            moment = loop.time()
            if seen.queue:
                if moment - written < LINGER:
                    await asyncio.sleep(LINGER)
                await write(seen.drain())
                moment = written = loop.time()
            if moment >= end:
                break
            if moment >= mark:
                mark = moment + ctx.bookmark_seconds
                alarm.cancel()
                alarm = loop.call_at(min(end, mark), seen.wake.set)
                if seen.bookmarks and not seen.queue:
                    await write(seen.bookmark())
    finally:
        alarm.cancel()
        ctx.streams.discard(seen.wake)
        seen.bucket.watchers.pop(seen.push, None)


def _left(previous: StoredObject, version: int) -> StoredObject:
    """The last state that the selector saw, under the version of the change that took it out of sight."""
    body = dict(previous.body)
    body["metadata"] = {**body["metadata"], "resourceVersion": str(version)}
    return StoredObject(previous.namespace, previous.name, previous.uid, version, encode(body), None)


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
