"""The server's side of a WebSocket: the framing is wsproto's."""

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import generate_accept_token

from embedded_apiserver.connections import Request, Tunnel

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of a message; a longer one ends the connection."""
_CHUNK = 64 * 1024


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
    token = generate_accept_token((request.header("sec-websocket-key") or "").encode())
    headers = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", token.decode()),
        *([("Sec-WebSocket-Protocol", protocol)] if protocol else []),
    ]
    return WebSocket(request.upgrade(headers))


class WebSocket:
    """A connection of messages. Raises ConnectionError if the client leaves without a closing handshake."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self._protocol = Connection(ConnectionType.SERVER)

    async def receive(self) -> bytes | None:
        """The next message; None when the client closes the connection or breaks the protocol. Pings are answered."""
        message = bytearray()
        while True:
            for event in self._protocol.events():
                if isinstance(event, Ping):
                    await self._send(event.response())
                elif isinstance(event, CloseConnection):
                    await self._send(event.response())
                    return None
                elif isinstance(event, Message):
                    message += event.data.encode() if isinstance(event.data, str) else event.data
                    if len(message) > MESSAGE_LIMIT:
                        await self.close(CloseReason.MESSAGE_TOO_BIG)
                        return None
                    if event.message_finished:
                        return bytes(message)
            self._protocol.receive_data(await self._tunnel.read(_CHUNK))

    async def send(self, data: bytes) -> None:
        """Send a binary message."""
        await self._send(BytesMessage(data))

    async def send_text(self, data: bytes) -> None:
        """Send a message of text."""
        await self._send(TextMessage(data.decode()))

    async def close(self, code: int = CloseReason.NORMAL_CLOSURE) -> None:
        """Close the connection; nothing is sent afterwards."""
        await self._send(CloseConnection(code))

    async def _send(self, event: Event) -> None:
        closing = isinstance(event, CloseConnection) and self._protocol.state is ConnectionState.REMOTE_CLOSING
        if closing or self._protocol.state is ConnectionState.OPEN:
            await self._tunnel.write(self._protocol.send(event))
