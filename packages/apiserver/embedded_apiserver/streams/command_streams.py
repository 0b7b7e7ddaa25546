"""The streams of a command in a container, whatever protocol carries them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_CHUNKS = 64


class Pipe:
    """Bytes from one task to another, in order; the writer waits while the reader is slow."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._ended = False
        self._changed = asyncio.Event()

    async def write(self, data: bytes) -> None:
        """Add bytes; what comes after the end is dropped."""
        while not self.offer(data):
            self._changed.clear()
            await self._changed.wait()

    def offer(self, data: bytes) -> bool:
        """Add bytes unless the reader is too slow for them; whether they were taken."""
        if data and not self._ended:
            if len(self._chunks) >= _CHUNKS:
                return False
            self._chunks.append(data)
            self._changed.set()
        return True

    def close(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._changed.set()

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        while not self._chunks:
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        self._changed.set()
        return self._chunks.popleft()


@dataclass(frozen=True, slots=True)
class CommandStreams:
    """What a command reads and writes.

    `stdin` is None where the client sends none. `sizes` carries the client's terminal sizes as (columns, rows); `tty` requests a
    terminal. `stdout` and `stderr` send output to the client; None where it reads none.
    """

    stdin: Pipe | None = None
    stdout: Callable[[bytes], Awaitable[None]] | None = None
    stderr: Callable[[bytes], Awaitable[None]] | None = None
    tty: bool = False
    sizes: asyncio.Queue[tuple[int, int]] | None = None
