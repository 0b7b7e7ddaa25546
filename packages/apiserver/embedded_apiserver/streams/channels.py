"""The streams of `exec` and `attach` on the wire: WebSocket channels (v4 and v5) or streams of SPDY.

Channels: 0 stdin, 1 stdout, 2 stderr, 3 the Status at the end, 4 terminal sizes; the first byte of a message is its channel.
In v5 the client half-closes a channel with the message 255 and the channel.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from embedded_apiserver.connections import Request
from embedded_apiserver.streams import websocket
from embedded_apiserver.streams.command_streams import CommandStreams, Pipe
from embedded_apiserver.streams.spdy import SpdyConnection, SpdyStream
from embedded_apiserver.streams.websocket import WebSocket

SPDY = "SPDY/3.1"
VERSION_HEADER = "X-Stream-Protocol-Version"
STREAM_TIMEOUT = 30.0
"""Seconds in which a SPDY client opens its streams."""
_WEBSOCKET_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_SPDY_PROTOCOLS = ("v4.channel.k8s.io",)
_STDIN, _STDOUT, _STDERR, _STATUS, _SIZES, _END = 0, 1, 2, 3, 4, 255


class ProtocolError(Exception):
    """The client offers no protocol that is supported; the message names those that are."""


@dataclass(frozen=True, slots=True)
class Requested:
    """The streams that a request names."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


class CommandConnection(Protocol):
    """A client that has been accepted."""

    streams: CommandStreams

    async def run(self) -> None:
        """Read from the client until it leaves."""

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send the Status of the command's end, and end the connection."""


async def accept(request: Request, requested: Requested) -> CommandConnection:
    """Complete the handshake that the client requests. Raises ProtocolError, ConnectionError."""
    if offered := websocket.offered_protocols(request):
        return WebSocketCommand(websocket.accept(request, chosen(offered, _WEBSOCKET_PROTOCOLS)), requested)
    command = SpdyCommand(accept_spdy(request, _SPDY_PROTOCOLS), requested)
    await command.open()
    return command


def accept_spdy(request: Request, supported: tuple[str, ...]) -> SpdyConnection:
    """Complete the handshake of SPDY. Raises ProtocolError, ConnectionError."""
    if not request.upgrades or (request.header("upgrade") or "").upper() != SPDY:
        raise ProtocolError("unable to upgrade: the request has no header Upgrade: websocket or SPDY/3.1")
    listed = [value for name, value in request.headers() if name == VERSION_HEADER.lower()]
    protocol = chosen([each.strip() for value in listed for each in value.split(",")], supported)
    return SpdyConnection(request.upgrade([("Upgrade", SPDY), (VERSION_HEADER, protocol)]))


def chosen(offered: list[str], supported: tuple[str, ...]) -> str:
    """The first supported protocol that the client offers. Raises ProtocolError."""
    for protocol in supported:
        if protocol in offered:
            return protocol
    raise ProtocolError(
        f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server {list(supported)}"
    )


def _put_size(sizes: "asyncio.Queue[tuple[int, int]] | None", data: bytes) -> None:
    try:
        size = json.loads(data)
        width, height = int(size["Width"]), int(size["Height"])
    except (ValueError, KeyError, TypeError):
        return
    if sizes is not None and 0 < width < 1 << 16 and 0 < height < 1 << 16:
        sizes.put_nowait((width, height))


class WebSocketCommand:
    """Channels on a WebSocket."""

    def __init__(self, socket: WebSocket, requested: Requested) -> None:
        self._socket = socket
        self.streams = CommandStreams(
            Pipe() if requested.stdin else None,
            self._stdout if requested.stdout else None,
            self._stderr if requested.stderr else None,
            requested.tty,
            asyncio.Queue() if requested.tty else None,
        )

    async def _stdout(self, data: bytes) -> None:
        await self._socket.send(bytes((_STDOUT,)) + data)

    async def _stderr(self, data: bytes) -> None:
        await self._socket.send(bytes((_STDERR,)) + data)

    async def run(self) -> None:
        """Read from the client until it leaves."""
        streams = self.streams
        try:
            while (message := await self._socket.receive()) is not None:
                channel, data = message[:1], message[1:]
                if channel == bytes((_STDIN,)) and streams.stdin is not None:
                    await streams.stdin.write(data)
                elif channel == bytes((_END,)) and data == bytes((_STDIN,)) and streams.stdin is not None:
                    streams.stdin.close()
                elif channel == bytes((_SIZES,)):
                    _put_size(streams.sizes, data)
        except ConnectionError:
            return
        finally:
            if streams.stdin is not None:
                streams.stdin.close()

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send the Status of the command's end, and close the connection."""
        await self._socket.send(bytes((_STATUS,)) + json.dumps(status).encode())
        await self._socket.close()


class SpdyCommand:
    """Streams of SPDY, named by the header `streamtype`."""

    def __init__(self, connection: SpdyConnection, requested: Requested) -> None:
        self._connection, self._requested = connection, requested
        self._reading = asyncio.create_task(connection.run(), name="spdy")
        self._opened: dict[str, SpdyStream] = {}
        self._sizing: asyncio.Task[None] | None = None
        self.streams = CommandStreams()

    async def open(self) -> None:
        """Wait until the client has opened its streams. Raises ConnectionError."""
        requested = self._requested
        missing = {"error"} | ({"resize"} if requested.tty else set())
        missing |= {name for name in ("stdin", "stdout", "stderr") if getattr(requested, name)}
        try:
            async with asyncio.timeout(STREAM_TIMEOUT):
                while missing:
                    stream = await self._connection.opened.get()
                    kind = stream.headers.get("streamtype", "")
                    missing.discard(kind)
                    self._opened[kind] = stream
        except TimeoutError:
            self._reading.cancel()
            raise ConnectionAbortedError(f"the client did not open the streams {sorted(missing)}") from None
        sizes: asyncio.Queue[tuple[int, int]] | None = None
        if requested.tty:
            sizes = asyncio.Queue()
            self._sizing = asyncio.create_task(self._read_sizes(self._opened["resize"], sizes), name="terminal sizes")
        self.streams = CommandStreams(
            self._opened["stdin"].incoming if requested.stdin else None,
            self._opened["stdout"].write if requested.stdout else None,
            self._opened["stderr"].write if requested.stderr else None,
            requested.tty,
            sizes,
        )

    async def _read_sizes(self, stream: SpdyStream, sizes: "asyncio.Queue[tuple[int, int]]") -> None:
        while data := await stream.incoming.read():
            for line in data.splitlines():
                _put_size(sizes, line)

    async def run(self) -> None:
        """Read from the client until it leaves."""
        try:
            await self._reading
        finally:
            self._reading.cancel()
            if self._sizing is not None:
                self._sizing.cancel()

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send the Status of the command's end, and half-close all streams."""
        for name, stream in self._opened.items():
            if name == "error":
                await stream.write(json.dumps(status).encode())
            await stream.close()
