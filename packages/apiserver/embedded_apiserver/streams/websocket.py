"""The server's side of a WebSocket (RFC 6455)."""

import base64
import hashlib

from embedded_apiserver.connections import Request, Tunnel

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of a message; a longer one ends the connection."""
NORMAL, PROTOCOL_ERROR, TOO_LARGE = 1000, 1002, 1009
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


def is_requested(request: Request) -> bool:
    """Whether the client requests a WebSocket."""
    return request.upgrades and (request.header("upgrade") or "").lower() == "websocket"


def offered_protocols(request: Request) -> list[str]:
    """The subprotocols that the client offers; empty if it requests no WebSocket."""
    if not is_requested(request):
        return []
    listed = [value for name, value in request.headers() if name == "sec-websocket-protocol"]
    return [protocol.strip() for value in listed for protocol in value.split(",")]


def accept(request: Request, protocol: str) -> "WebSocket":
    """Complete the handshake with one of the offered subprotocols; with an empty one if the client offers none."""
    key = request.header("sec-websocket-key") or ""
    digest = hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()
    headers = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
        *([("Sec-WebSocket-Protocol", protocol)] if protocol else []),
    ]
    return WebSocket(request.upgrade(headers))


class WebSocket:
    """A connection of messages. Raises ConnectionError if the client leaves without a closing handshake."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self._closed = False

    async def receive(self) -> bytes | None:
        """The next message; None when the client closes the connection. Pings are answered."""
        parts: list[bytes] = []
        while True:
            final, opcode, data = await self._frame()
            if opcode == _PING:
                await self._send(_PONG, data)
            elif opcode == _CLOSE:
                await self.close()
                return None
            elif opcode in {_CONTINUATION, _TEXT, _BINARY}:
                parts.append(data)
                if sum(map(len, parts)) > MESSAGE_LIMIT:
                    await self.close(TOO_LARGE)
                    return None
                if final:
                    return parts[0] if len(parts) == 1 else b"".join(parts)
            elif opcode != _PONG:
                await self.close(PROTOCOL_ERROR)
                return None

    async def _frame(self) -> tuple[bool, int, bytes]:
        """Whether the frame is the last of its message, its opcode and its payload without the mask."""
        first, second = await self._tunnel.read_exactly(2)
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(await self._tunnel.read_exactly(2 if size == 126 else 8), "big")
        if size > MESSAGE_LIMIT:
            await self.close(TOO_LARGE)
            raise ConnectionAbortedError(f"message of {size} bytes")
        mask = await self._tunnel.read_exactly(4) if second & 0x80 else b""
        data = await self._tunnel.read_exactly(size)
        return bool(first & 0x80), first & 0x0F, masked(data, mask) if mask else data

    async def send(self, data: bytes) -> None:
        """Send a binary message."""
        await self._send(_BINARY, data)

    async def send_text(self, data: bytes) -> None:
        """Send a message of text."""
        await self._send(_TEXT, data)

    async def close(self, code: int = NORMAL) -> None:
        """Close the connection; nothing is sent afterwards."""
        if not self._closed:
            await self._send(_CLOSE, code.to_bytes(2, "big"))
            self._closed = True

    async def _send(self, opcode: int, data: bytes) -> None:
        if self._closed:
            return
        size = len(data)
        if size < 126:
            head = bytes((0x80 | opcode, size))
        elif size < 1 << 16:
            head = bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")
        await self._tunnel.write(head + data)


def masked(data: bytes, mask: bytes) -> bytes:
    """The data combined with the repeated mask of four bytes, which masks and unmasks."""
    size = len(data)
    whole = mask * (size // 4 + 1)
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole[:size], "big")).to_bytes(size, "big")
