"""A client that costs next to nothing, so that a bench of a server on a small machine measures the server.

Requests are whole byte strings prepared beforehand; of an answer only the status and the length are read.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from urllib.parse import urlsplit


def address(url: str) -> tuple[str, int]:
    """Where a server listens, from its URL."""
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80


class Wire(asyncio.Protocol):
    """One keep-alive connection: a request, its answer, the next request."""

    def __init__(self, requests: Sequence[bytes], status: bytes, done: asyncio.Future[None]) -> None:
        self._requests = iter(requests)
        self._status = b"HTTP/1.1 " + status
        self._done = done
        self._buffer = bytearray()
        self._missing = 0
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError(f"the server has gone: {exc}"))

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self._missing:
            self._missing -= len(data)
        else:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self._buffer.startswith(self._status):
                self._fail()
                return
            start = self._buffer.lower().index(b"content-length:", 0, end + 2) + 15
            length = int(self._buffer[start : self._buffer.index(b"\r", start)])
            self._missing = end + 4 + length - len(self._buffer)
            self._buffer.clear()
        if self._missing == 0:
            self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._transport.write(request)
        elif not self._done.done():
            self._done.set_result(None)

    def _fail(self) -> None:
        if not self._done.done():
            self._done.set_exception(RuntimeError(f"not the expected answer: {bytes(self._buffer[:600])!r}"))
        self._transport.close()


def request(method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
    """A request as clients of a cluster send it, with the headers that they send."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nAccept-Encoding: gzip, deflate\r\n"
        "User-Agent: bench/1.0 (linux/amd64)\r\n"
    )
    if body:
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def drive(url: str, requests: Sequence[bytes], status: int, width: int) -> tuple[float, int]:
    """Send all requests over `width` connections; the seconds it took and the bytes received."""
    loop = asyncio.get_running_loop()
    host, port = address(url)
    shares = [requests[number::width] for number in range(width)]
    done = [loop.create_future() for _ in shares]
    start = time.perf_counter()
    made = await asyncio.gather(
        *(
            loop.create_connection(partial(Wire, share, b"%d" % status, end), host, port)
            for share, end in zip(shares, done, strict=True)
        )
    )
    await asyncio.gather(*done)
    seconds = time.perf_counter() - start
    for transport, _ in made:
        transport.close()
    return seconds, sum(wire.received for _, wire in made)
