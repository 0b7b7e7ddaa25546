"""HTTP/1.1 as the embedded API server speaks it: connections in, requests to the handler, answers out.

A general web framework costs more here than everything that the server does with a request, so this is no more than what
clients of a cluster need, on a parser written in C: keep-alive, pipelining in order, bodies by length or in chunks,
100-continue, streams with back-pressure, TLS, and an end that lets running requests finish.
"""

import asyncio
import ssl
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time

import httptools

JSON = "application/json"
BODY_LIMIT = 3 * 1024 * 1024
"""Accepted bytes of a body. Of a longer one, one byte more is kept, so that the handler rejects it."""
HEAD_LIMIT = 256 * 1024
"""Bytes of a request's line and headers; more are answered 431."""
PIPELINE = 32
"""Requests that may wait on one connection before no more are read from it."""
TUNNEL_LIMIT = 256 * 1024
"""Bytes of another protocol that are buffered."""
_LARGE = 64 * 1024
UNREAD_LIMIT = 256 * 1024 * 1024
"""Bytes that wait for clients which do not read; beyond that, the connection that has waited longest is closed."""


@dataclass(slots=True, eq=False)
class Request:
    """One request, its body included."""

    connection: "Connection"
    method: str
    target: str
    _headers: list[tuple[bytes, bytes]]
    body: bytes
    keep_alive: bool
    upgraded: "Tunnel | None" = None
    _first: dict[bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._first = {name.lower(): value for name, value in reversed(self._headers)}

    def header(self, name: str) -> str | None:
        """A header's (first) value by its name in lower case; None if it is not there."""
        value = self._first.get(name.encode())
        return None if value is None else value.decode("utf-8", "surrogateescape")

    def headers(self) -> list[tuple[str, str]]:
        """All headers in their order, names in lower case."""
        return [
            (name.decode("latin-1").lower(), value.decode("utf-8", "surrogateescape")) for name, value in self._headers
        ]

    def stream(self, content_type: str, headers: Sequence[tuple[str, str]] = ()) -> "Stream":
        """Begin an answer of unknown length: the head goes out now. Raises ConnectionError if the client has left."""
        return self.connection.stream(content_type, headers, self.keep_alive)

    @property
    def upgrades(self) -> bool:
        """Whether the client requested another protocol on this connection."""
        return self.connection.tunnel is not None

    def upgrade(self, headers: Sequence[tuple[str, str]]) -> "Tunnel":
        """Accept the other protocol: 101 with these headers goes out now. Raises ConnectionError if the client has left."""
        self.upgraded = self.connection.upgrade(headers)
        return self.upgraded


@dataclass(slots=True, eq=False)
class Response:
    """One whole answer."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = ()


class Stream:
    """A streamed answer, made by `Request.stream`; the caller ends it."""

    def __init__(self, connection: "Connection", *, chunked: bool) -> None:
        self._connection = connection
        self._chunked = chunked

    async def write(self, data: bytes) -> None:
        """Send a piece; waits while the client reads too slowly. Raises ConnectionError if it has left."""
        if data:
            self._connection.send(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
            del data  # while the transport has them, these bytes exist once
            await self._connection.room()

    def end(self) -> None:
        """Nothing more comes."""
        if self._chunked:
            self._connection.send(b"0\r\n\r\n")
        else:
            self._connection.leave()


class Tunnel:
    """A connection that speaks another protocol from here on, made by `Request.upgrade`; it closes when the handler ends."""

    def __init__(self, connection: "Connection", reader: asyncio.StreamReader) -> None:
        self._connection, self._reader = connection, reader

    async def read_exactly(self, size: int) -> bytes:
        """The next bytes. Raises ConnectionError if the client leaves before it has sent them."""
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the client has left") from None

    async def read(self, limit: int) -> bytes:
        """The next bytes, at least one and at most the limit. Raises ConnectionError if the client has left."""
        if not (data := await self._reader.read(limit)):
            raise ConnectionResetError("the client has left")
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the client reads too slowly. Raises ConnectionError if it has left."""
        self._connection.send(data)
        await self._connection.room()


Answer = Response | Stream | Tunnel
Handler = Callable[[Request], Awaitable[Answer]]
"""Answers one request. It may raise ConnectionError (the client has left) and nothing else."""


class Connection(asyncio.Protocol):
    """One client's connection: what arrives is parsed at once, answered one request after the other."""

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._waiting: deque[Request | Response] = deque()
        self._task: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._paused = False
        self._last = False
        self._expects = False
        self._heading = 0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._size = 0
        self.tunnel: asyncio.StreamReader | None = None
        """What follows a request for another protocol; None before such a request."""

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = transport  # type: ignore[assignment]
        self._listener.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected: the answer is dropped."""
        self._listener.gone(self)
        del self._parser  # it refers to this connection, which would live until the next garbage collection
        self._waiting.clear()
        if self.tunnel is not None:
            self.tunnel.feed_eof()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes have come; what follows the last request is not read."""
        if self.tunnel is not None:
            self.tunnel.feed_data(data)
        if self._last:
            return
        self._heading += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # What follows is another protocol; a request that has no use for it is answered as if it had no such header.
            self._last = True
            self.tunnel = asyncio.StreamReader(limit=TUNNEL_LIMIT)
            self.tunnel.set_transport(self._transport)
            self.tunnel.feed_data(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._reject(400, f"this is no HTTP request: {error}\n")
        else:
            if self._heading > HEAD_LIMIT:
                self._reject(431, f"the line and headers of a request may have {HEAD_LIMIT} bytes\n")

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._room = asyncio.get_running_loop().create_future()
        self._listener.unread[self] = None

    def resume_writing(self) -> None:
        """It has caught up."""
        self._listener.unread.pop(self, None)
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._target = b""
        self._headers = []
        self._body = []
        self._size = 0

    def on_url(self, part: bytes) -> None:
        """A piece of the request's target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers.append((name, value))
        if len(name) == 6 and name.lower() == b"expect":
            self._expects = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        """The body comes next."""
        # Not a number of this request: bytes of the body count against another limit.
        self._heading = -(1 << 62)
        if self._expects:
            self._expects = False
            if self._task is None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, part: bytes) -> None:
        """A piece of the body."""
        if self._size <= BODY_LIMIT:
            self._body.append(part[: BODY_LIMIT + 1 - self._size])
            self._size += len(part)

    def on_message_complete(self) -> None:
        """A whole request is here."""
        self._heading = 0
        parser = self._parser
        keep_alive = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        self._last = self._last or not keep_alive
        body = self._body
        whole = b"" if not body else body[0] if len(body) == 1 else b"".join(body)
        target = self._target.decode("utf-8", "surrogateescape")
        method = parser.get_method().decode()
        headers, self._headers, self._body = self._headers, [], []
        self._accept(Request(self, method, target, headers, whole, keep_alive=keep_alive))

    # What we do.

    def _reject(self, status: int, text: str) -> None:
        self._last = True
        self._accept(Response(text.encode(), status, "text/plain; charset=utf-8"))

    def _accept(self, request: Request | Response) -> None:
        self._waiting.append(request)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        elif len(self._waiting) >= PIPELINE and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    async def _work(self) -> None:
        """Answer what waits, in its order."""
        waiting = self._waiting
        try:
            while waiting:
                request = waiting.popleft()
                if isinstance(request, Request):
                    answer = await self._listener.handle(request)
                    if isinstance(answer, Response) and request.upgraded is None:
                        self._send(answer, bare=request.method == "HEAD")
                    del answer  # likewise
                else:
                    self._send(request)
                if self._room is not None:
                    await self._room
                if self._paused and len(waiting) < PIPELINE:
                    self._paused = False
                    self._transport.resume_reading()
        except ConnectionError:
            self._last = True
            waiting.clear()
        except BaseException:
            self._transport.abort()
            raise
        finally:
            self._task = None
            if self._last:
                self._transport.close()

    def _send(self, answer: Response, *, bare: bool = False) -> None:
        """Write an answer; `bare` leaves the body out, as HEAD asks."""
        body = answer.body
        head = _head(answer.status, answer.content_type)
        more = _lines(answer.headers) if answer.headers else b""
        if self._last and not self._waiting:
            more += b"Connection: close\r\n"
        start = b"%bContent-Length: %d\r\n%b%b\r\n" % (head, len(body), more, _date(int(time())))
        if bare:
            self.send(start)
        elif len(body) < _LARGE:
            self.send(start + body)
        else:
            self.send(start)
            self.send(body)

    def stream(self, content_type: str, headers: Sequence[tuple[str, str]], keep_alive: bool) -> Stream:
        """See `Request.stream`."""
        chunked = b"Transfer-Encoding: chunked\r\n" if keep_alive else b"Connection: close\r\n"
        head = _head(200, content_type)
        self.send(b"%b%b%b%b\r\n" % (head, chunked, _lines(headers), _date(int(time()))))
        return Stream(self, chunked=keep_alive)

    def upgrade(self, headers: Sequence[tuple[str, str]]) -> Tunnel:
        """See `Request.upgrade`."""
        assert self.tunnel is not None
        self.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n%b\r\n" % _lines(headers))
        return Tunnel(self, self.tunnel)

    def send(self, data: bytes) -> None:
        """Hand bytes to the transport. Raises ConnectionError if the client has left."""
        if self._transport.is_closing():
            raise ConnectionResetError("the client has left")
        self._transport.write(data)
        if self._room is not None:
            self._listener.limit_unread()

    async def room(self) -> None:
        """Wait until the client has read enough of what was sent."""
        if self._room is not None:
            await self._room

    @property
    def unread(self) -> int:
        """The bytes that wait for a client that reads too slowly."""
        return 0 if self._room is None else self._transport.get_write_buffer_size()

    def leave(self) -> None:
        """Close when what is being answered is answered."""
        self._last = True
        if self._task is None:
            self._transport.close()

    def abort(self) -> "asyncio.Task[None] | None":
        """Close now; the work that this cancels, if there is any."""
        self._transport.abort()
        return self._task


def _lines(headers: Sequence[tuple[str, str]]) -> bytes:
    return "".join([f"{name}: {value}\r\n" for name, value in headers]).encode("utf-8", "surrogateescape")


@lru_cache(maxsize=256)
def _head(status: int, content_type: str) -> bytes:
    """The first lines of an answer."""
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n".encode()


class Listener:
    """Listens on one address, for as long as the server lives."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.connections: set[Connection] = set()
        self.unread = OrderedDict[Connection, None]()
        """Those whose client reads too slowly, the first since the longest time."""
        self._server: asyncio.Server | None = None
        self._empty = asyncio.Event()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen; returns the port, which the system chooses if it was 0. Raises OSError if the address is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), host, port, ssl=tls, backlog=1024)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace: float) -> None:
        """Take no more connections, and end those that there are: idle ones now, the others within `grace` seconds."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections):
            connection.leave()
        if self.connections:
            self._empty.clear()
            try:
                async with asyncio.timeout(grace):
                    await self._empty.wait()
            except TimeoutError:
                work = [task for connection in list(self.connections) if (task := connection.abort()) is not None]
                await self._empty.wait()
                if work:
                    await asyncio.wait(work, timeout=grace)

    def gone(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        self.unread.pop(connection, None)
        if not self.connections:
            self._empty.set()

    def limit_unread(self) -> None:
        """Close connections while too many bytes wait for clients; one alone may have a larger answer."""
        while len(self.unread) > 1 and sum(connection.unread for connection in self.unread) > UNREAD_LIMIT:
            self.unread.popitem(last=False)[0].abort()


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    """The Date header of this second."""
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
