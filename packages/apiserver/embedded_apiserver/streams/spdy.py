"""The server's side of SPDY/3.1 as Kubernetes clients use it: streams with headers, half-closed from either side.

Frames: SYN_STREAM opens a stream, SYN_REPLY accepts it, data frames carry bytes, the flag FIN half-closes, RST_STREAM ends it.
Header blocks are compressed by zlib with the dictionary of the SPDY draft. Window updates are not used by these clients.
"""

import asyncio
import struct
import zlib
from collections.abc import Mapping
from typing import Protocol

from embedded_apiserver.streams.command_streams import Pipe
from embedded_apiserver.streams.websocket import WebSocket

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_CANCEL = 5
_FRAME_LIMIT = 1 << 24
_CHUNK = 32 * 1024
_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_VALUES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal "
    "Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, "
    "Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,"
    "text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(name)) + name.replace("_", " ").encode() for name in _NAMES.split())
    + _VALUES.encode()
)
"""The zlib dictionary of header blocks (SPDY draft 3, 2.6.10.1): a part of the protocol."""


class ByteStream(Protocol):
    """What carries the frames."""

    async def read_exactly(self, size: int) -> bytes:
        """The next bytes. Raises ConnectionError at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes."""


class MessageBytes:
    """The binary messages of a WebSocket as a stream of bytes."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._rest = b""

    async def read_exactly(self, size: int) -> bytes:
        """The next bytes. Raises ConnectionError at the end."""
        parts, missing = [self._rest], size - len(self._rest)
        while missing > 0:
            data = await self._socket.receive()
            if data is None:
                raise ConnectionResetError("the client has left")
            parts.append(data)
            missing -= len(data)
        whole = b"".join(parts)
        self._rest = whole[size:]
        return whole[:size]

    async def write(self, data: bytes) -> None:
        """Send bytes as one message."""
        await self._socket.send(data)


class SpdyStream:
    """One stream: `headers` with lower-case names, bytes of the client in `incoming`."""

    def __init__(self, connection: "SpdyConnection", number: int, headers: Mapping[str, str]) -> None:
        self._connection, self.number, self.headers = connection, number, headers
        self.incoming = Pipe()
        self._ended = False

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        for start in range(0, len(data), _CHUNK):
            await self._send(data[start : start + _CHUNK], 0)

    async def close(self) -> None:
        """Half-close: nothing more is sent."""
        await self._send(b"", _FIN)
        self._ended = True

    async def _send(self, data: bytes, flags: int) -> None:
        if not self._ended:
            await self._connection.bytes.write(struct.pack(">II", self.number, flags << 24 | len(data)) + data)

    async def reset(self) -> None:
        """End the stream in both directions."""
        if not self._ended:
            self._ended = True
            await self._connection.control(_RST_STREAM, 0, struct.pack(">II", self.number, _CANCEL))


class SpdyConnection:
    """Streams that the client opens. `run` reads frames; opened streams come out of `opened`."""

    def __init__(self, carrier: ByteStream) -> None:
        self.bytes = carrier
        self.opened: asyncio.Queue[SpdyStream] = asyncio.Queue()
        self._streams: dict[int, SpdyStream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def run(self) -> None:
        """Read until the client leaves."""
        try:
            while True:
                first, second = struct.unpack(">II", await self.bytes.read_exactly(8))
                flags, size = second >> 24, second & (_FRAME_LIMIT - 1)
                data = await self.bytes.read_exactly(size)
                if not first >> 31:
                    await self._data(first, flags, data)
                elif first & 0xFFFF == _GOAWAY:
                    return
                else:
                    await self._control(first & 0xFFFF, flags, data)
        except (ConnectionError, struct.error, zlib.error):
            return
        finally:
            for stream in list(self._streams.values()):
                stream.incoming.close()

    async def _data(self, number: int, flags: int, data: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        await stream.incoming.write(data)
        if flags & _FIN:
            stream.incoming.close()

    async def _control(self, kind: int, flags: int, data: bytes) -> None:
        if kind == _SYN_STREAM:
            (number,) = struct.unpack(">I", data[:4])
            stream = self._streams[number] = SpdyStream(self, number, self._headers(data[10:]))
            await self.control(_SYN_REPLY, 0, struct.pack(">I", number) + self._block({}))
            if flags & _FIN:
                stream.incoming.close()
            self.opened.put_nowait(stream)
        elif kind == _RST_STREAM:
            (number,) = struct.unpack(">I", data[:4])
            if (stream_ended := self._streams.pop(number, None)) is not None:
                stream_ended.incoming.close()
        elif kind == _PING:
            await self.control(_PING, 0, data)

    async def control(self, kind: int, flags: int, data: bytes) -> None:
        """Send a control frame."""
        await self.bytes.write(struct.pack(">HHI", 0x8003, kind, flags << 24 | len(data)) + data)

    def forget(self, stream: SpdyStream) -> None:
        """Drop a stream that is over."""
        self._streams.pop(stream.number, None)

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._inflate.decompress(block)
        (count,) = struct.unpack(">I", text[:4])
        position, fields = 4, []
        for _ in range(count * 2):
            (size,) = struct.unpack(">I", text[position : position + 4])
            fields.append(text[position + 4 : position + 4 + size].decode("utf-8", "replace"))
            position += 4 + size
        return {name.lower(): value for name, value in zip(fields[::2], fields[1::2], strict=True)}

    def _block(self, headers: Mapping[str, str]) -> bytes:
        fields = [field.encode() for item in headers.items() for field in item]
        text = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(field)) + field for field in fields)
        return self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
