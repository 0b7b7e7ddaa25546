"""HTTP/1.1 connections for requests with short answers: what create, bind and status writes need, and no more.

A general client costs more processor time for a small request than the API server's answer takes to read. Here a request is
one piece of bytes, and of the answer's headers only those are kept that the client uses. Streams, WebSockets and proxies are
left to aiohttp.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httptools

PROBES = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""Socket options (seconds, and milliseconds for the last): the kernel probes silent connections, and a watch whose peer has
vanished ends after ten seconds, not when the next bookmark is overdue."""


def probed_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket for this address (of ``getaddrinfo``), as event loops need it, that notices a vanished peer."""
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):  # not on every system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


CONNECT_TIMEOUT = 10.0
IDLE_SECONDS = 60.0
"""Seconds for which an idle connection is kept: less than the 90 s after which API servers close theirs, since a
request on a connection that is just being closed gets no response."""


class NotConnectedError(OSError):
    """No connection was made, so nothing was sent. ``permanent``: another attempt would fail as well."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class HttpResponse(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    retry_after: str | None
    warnings: tuple[str, ...]


class Channel(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self.closed = False
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[HttpResponse] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._retry_after: str | None = None
        self._warnings: list[str] = []
        self._framed = False
        """Whether the headers state where the body ends."""
        self._in_body = False

    def send(self, request: bytes) -> asyncio.Future[HttpResponse]:
        """Write a request; the future is its answer, or an OSError if the connection ends before."""
        assert self._transport is not None
        assert self._answer is None
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return answer

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use this connection (called by the event loop)."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parse a part of an answer (called by the event loop)."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as fault:
            self._end(ConnectionError(f"no HTTP response: {fault}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the request in progress (called by the event loop)."""
        self.closed = True
        if exc is None and self._in_body and not self._framed:
            self._finish()  # the end of the connection is the end of such a body
        self._end(exc if isinstance(exc, OSError) else ConnectionResetError("connection closed by the server"))

    def on_message_begin(self) -> None:
        """Start with an answer (called by the parser)."""
        self._body, self._warnings, self._retry_after = [], [], None
        self._framed = self._in_body = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header that is used (called by the parser)."""
        name = name.lower()
        if name in {b"content-length", b"transfer-encoding"}:
            self._framed = True
        elif name == b"warning":
            self._warnings.append(value.decode("utf-8", "replace"))
        elif name == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Go on with the body (called by the parser)."""
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body (called by the parser)."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Set the answer (called by the parser)."""
        if self._parser.get_status_code() >= 200:  # others announce the answer
            if not self._parser.should_keep_alive():
                self.closed = True
            self._finish()

    def _finish(self) -> None:
        self._in_body = False
        answer, self._answer = self._answer, None
        if answer is None:
            self.close()  # an answer without a request
        elif not answer.done():
            status, body = self._parser.get_status_code(), b"".join(self._body)
            answer.set_result(HttpResponse(status, body, self._retry_after, tuple(self._warnings)))

    def _end(self, fault: OSError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(fault)


class Channels:
    """The connections to one server, ``limit`` at most, opened when they are needed."""

    def __init__(
        self, url: str, context: ssl.SSLContext | None, server_name: str | None, limit: int, clock: Callable[[], float]
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self._context = context or ssl.create_default_context() if parts.scheme == "https" else None
        self._server_name = (server_name or self._host) if self._context is not None else None
        self._slots = asyncio.Semaphore(limit)
        self._clock = clock
        self._idle: list[Channel] = []

    async def request(self, request: bytes, allowed: Callable[[], bool] | None = None) -> HttpResponse | None:
        """Send a request; None if ``allowed`` is False at the moment of writing. Raises OSError."""
        async with self._slots:
            channel = self._waiting() or await self._open()
            if allowed is not None and not allowed():
                self._keep(channel)
                return None
            try:
                response = await channel.send(request)
            except BaseException:
                channel.close()  # a later answer would be taken for that of the next request
                raise
            self._keep(channel)
            return response

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _keep(self, channel: Channel) -> None:
        if channel.closed:
            channel.close()
        else:
            channel.idle_since = self._clock()
            self._idle.append(channel)

    def _waiting(self) -> Channel | None:
        """Return an open idle connection, the last one used first."""
        while self._idle:
            channel = self._idle.pop()
            if not channel.closed and self._clock() - channel.idle_since < IDLE_SECONDS:
                return channel
            channel.close()
        return None

    async def _open(self) -> Channel:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._connect()
        except TimeoutError as fault:
            raise NotConnectedError(f"no connection within {CONNECT_TIMEOUT:g} s") from fault
        except ssl.SSLCertVerificationError as fault:
            raise NotConnectedError(f"certificate verify failed: {fault.verify_message}", permanent=True) from fault
        except OSError as fault:
            raise NotConnectedError(fault.strerror or str(fault)) from fault

    async def _connect(self) -> Channel:
        loop, fault = asyncio.get_running_loop(), OSError(f"{self._host} has no address")
        for address in await self._addresses():
            connected = probed_socket(address)
            try:
                await loop.sock_connect(connected, address[4])
            except OSError as error:
                connected.close()
                fault = error
                continue
            except BaseException:
                connected.close()
                raise
            try:
                _, channel = await loop.create_connection(
                    Channel, sock=connected, ssl=self._context, server_hostname=self._server_name
                )
            except OSError as error:
                _end_both_ways(connected)
                fault = error
            except BaseException:
                _end_both_ways(connected)
                raise
            else:
                return channel
        raise fault

    async def _addresses(self) -> Sequence[tuple[Any, ...]]:
        try:
            version = ipaddress.ip_address(self._host).version
        except ValueError:
            return await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (self._host, self._port))]


def _end_both_ways(connected: socket.socket) -> None:
    """End a connection that the event loop has taken over: its transport, which may still be in use, closes the socket.

    A socket closed here would leave its number to the next connection, while the old transport still has it.
    """
    with suppress(OSError):  # closed by the transport
        connected.shutdown(socket.SHUT_RDWR)
