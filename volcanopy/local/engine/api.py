"""The API of Docker on a Unix socket, as Docker and podman serve it."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import aiohttp

_VERSION = "/v1.40"
_HEADER = 8
"""Bytes before each part of a stream without a terminal: its stream (1 output, 2 errors), 3 zeros, and its length."""
_ERRORS = 2


class EngineError(Exception):
    """The engine rejected a request or does not answer; `status` is that of the response, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class OutputChunk(NamedTuple):
    """A part of what a container or a command writes."""

    is_error: bool
    data: bytes


class Stream:
    """The input and output of a container or of a command in it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, tty: bool) -> None:
        self._reader, self._writer, self._tty = reader, writer, tty

    async def read(self, size: int) -> OutputChunk | None:
        """The next output; None at its end. A terminal has no errors of its own."""
        if self._tty:
            data = await self._reader.read(size)
            return OutputChunk(False, data) if data else None
        try:
            header = await self._reader.readexactly(_HEADER)
            data = await self._reader.readexactly(int.from_bytes(header[4:], "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return OutputChunk(header[0] == _ERRORS, data)

    async def write(self, data: bytes) -> None:
        """Send input. Raises OSError."""
        self._writer.write(data)
        await self._writer.drain()

    def end_input(self) -> None:
        """Close the input."""
        if not self._writer.is_closing() and self._writer.can_write_eof():
            self._writer.write_eof()

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


class EngineApi:
    """Requests to an engine. Used with ``async with``."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.UnixConnector(str(self.socket), limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession("http://engine", connector=connector, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> Any:
        """Send a request, with an object as JSON or with bytes; the JSON of the response. Raises EngineError."""
        assert self._session is not None
        data = {"data": body} if isinstance(body, bytes) else {"json": body}
        try:
            async with self._session.request(
                method, _VERSION + path, params=parameters, headers=headers, **data
            ) as response:
                text = await response.text()
        except (aiohttp.ClientError, OSError) as error:
            raise EngineError(f"the container engine at {self.socket} does not answer: {error}") from None
        if response.status >= 400:
            raise EngineError(_message(text), response.status)
        return json.loads(text) if text[:1] in {"{", "["} and "\n" not in text.strip() else text

    async def stream(self, path: str, body: object = None, *, tty: bool, **parameters: str) -> Stream:
        """Send a request whose connection becomes a stream. Raises EngineError."""
        content = b"" if body is None else json.dumps(body).encode()
        try:
            reader, writer = await asyncio.open_unix_connection(str(self.socket))
            writer.write(
                f"POST {_VERSION}{path}?{urlencode(parameters)} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\n"
                f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            )
            writer.write(content)
            head = (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
            status = int(head.split()[1])
            length = re.search(r"(?im)^content-length: *(\d+)", head)
            text = (
                (await reader.readexactly(int(length[1]))).decode(errors="replace") if status >= 400 and length else ""
            )
        except (OSError, asyncio.IncompleteReadError) as error:
            raise EngineError(f"the container engine at {self.socket} does not answer: {error}") from None
        if status >= 400:
            writer.close()
            raise EngineError(_message(text), status)
        return Stream(reader, writer, tty=tty)


def _message(text: str) -> str:
    """The message of an error response."""
    start, end = text.find("{"), text.rfind("}")
    try:
        return str(json.loads(text[start : end + 1])["message"])
    except (ValueError, KeyError):
        return text.strip() or "the container engine rejected the request"
