"""A proxy of faults between one service and the API server: cuts, delays, resets, storms of errors and new tokens.

It listens on the loopback address without TLS and sends requests on with the credentials of its target, so that it can answer
them itself. Faults of the network concern every connection of the service, watches in the middle of a line included.
"""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import aiohttp
from aiohttp import web
from yarl import URL

from volcanopy.kube.client.connection import Connection

_NOT_PASSED = frozenset({"host", "transfer-encoding", "content-length", "connection", "authorization", "expect"})
_RETURNED = ("Content-Type", "Content-Encoding", "Warning", "Retry-After")
_REASONS = {401: "Unauthorized", 409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}
_ABORT = struct.pack("ii", 1, 0)
"""Linger for no time: the connection ends with a reset instead of a farewell."""


class FaultProxy:
    """Forwards the requests of one service; use :meth:`open`."""

    def __init__(self, target: Connection, session: aiohttp.ClientSession, rng: Random) -> None:
        self.url = ""
        self.requests = 0
        """Requests received so far."""
        self.spoiled: Counter[int] = Counter()
        """Requests answered with an error of ours, by code."""
        self.token_file: Path | None = None
        """Where the service reads its token; None if it has none."""
        self._token = ""
        self._target, self._session, self._rng = target, session, rng
        self._passing = asyncio.Event()
        self._passing.set()
        self._delay = 0.0
        self._storm: tuple[int, float] | None = None
        self._server: web.Server | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, target: Connection, rng: Random) -> "AsyncIterator[FaultProxy]":
        """Listen on a free port for the duration of the block."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(auto_decompress=False, timeout=timeout, connector=connector) as session:
            proxy = cls(target, session, rng)
            proxy._server = web.Server(proxy._handle)
            runner = web.ServerRunner(proxy._server, shutdown_timeout=0.1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                proxy.url = "http://{}:{}".format(*runner.addresses[0][:2])
                yield proxy
            finally:
                proxy.reset()
                await runner.cleanup()

    # Faults

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Let no byte pass for the duration of the block; connections stay open, as behind a firewall that drops packets."""
        self._passing.clear()
        try:
            yield
        finally:
            self._passing.set()

    @contextlib.contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """Hold back each request and each part of an answer for this time."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    @contextlib.contextmanager
    def storm(self, code: int, share: float) -> Iterator[None]:
        """Answer this share of the requests with an error; half of those with 5xx after the server has carried them out."""
        self._storm = code, share
        try:
            yield
        finally:
            self._storm = None

    @contextlib.contextmanager
    def token_rotated(self, token: str) -> Iterator[None]:
        """Accept this token only from now on; it is in the file of the service after the block."""
        assert self.token_file is not None
        self._token = token
        try:
            yield
        finally:
            self.token_file.write_text(self._token)

    def reset(self) -> int:
        """End all connections with a reset, in the middle of whatever they carry; return their number."""
        assert self._server is not None
        transports = [protocol.transport for protocol in self._server.connections if protocol.transport is not None]
        for transport in transports:
            if (connection := transport.get_extra_info("socket")) is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            transport.abort()
        return len(transports)

    # Forwarding

    async def _pass(self) -> None:
        await self._passing.wait()
        if self._delay:
            await asyncio.sleep(self._delay)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        await self._pass()
        if self._token and request.headers.get("Authorization") != f"Bearer {self._token}":
            self.spoiled[401] += 1
            return _error(401)
        spoiled = self._spoiled()
        if spoiled is not None and (spoiled < 500 or self._rng.random() < 0.5):
            return _error(spoiled)
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _NOT_PASSED}
        headers |= dict(await self._target.credentials.headers())
        url = URL(self._target.url + request.raw_path, encoded=True)
        try:
            body = await request.read() or None
            async with self._session.request(
                request.method,
                url,
                headers=headers,
                data=body,
                ssl=self._target.ssl or True,
                server_hostname=self._target.server_name,
                allow_redirects=False,
            ) as answer:
                if spoiled is not None:
                    return _error(spoiled)
                return await self._answer(request, answer)
        except (aiohttp.ClientError, OSError):
            # The server or the service has gone: so has the connection.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)

    async def _answer(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        passed = {name: answer.headers[name] for name in _RETURNED if name in answer.headers}
        response = web.StreamResponse(status=answer.status, headers=passed)
        await self._pass()
        await response.prepare(request)
        async for part in answer.content.iter_any():
            await self._pass()
            await response.write(part)
        await response.write_eof()
        return response

    def _spoiled(self) -> int | None:
        if self._storm is None or self._rng.random() >= self._storm[1]:
            return None
        self.spoiled[self._storm[0]] += 1
        return self._storm[0]


def _error(code: int) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": _REASONS.get(code, "Unknown"),
        "message": "injected by chaos",
    }
    return web.json_response(status, status=code, headers={"Retry-After": "1"} if code == 429 else None)
