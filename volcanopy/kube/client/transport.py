"""The HTTP transport of the client: connections, credentials, errors and retries.

Only this module decides whether a request is retried. A request that leaves the same state however often it is carried
out is retried on every temporary error (:attr:`Retry.ALWAYS`). Any other is retried only when the server certainly did
not apply it (:attr:`Retry.IF_NOT_APPLIED`): there was no connection, a webhook could not be called, or the status was 401
or 429, which are sent before anything is done.
"""

from __future__ import annotations

import asyncio
import enum
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import msgspec
from multidict import CIMultiDict

from volcanopy.kube.client.backoff import Backoff
from volcanopy.kube.client.connection import Connection, Headers
from volcanopy.kube.client.errors import (
    ApiError,
    NoAnswer,
    NotLeading,
    TooManyRequests,
    Unauthorized,
    describe,
    from_response,
)
from volcanopy.kube.client.http_channel import Channels, HttpResponse, NotConnectedError
from volcanopy.kube.client.kinds import JSON
from volcanopy.kube.client.request_counts import ResponseStatus
from volcanopy.version import VERSION

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse, StreamReader

    from volcanopy.kube.client.streams import Streams

INTERNAL_ERROR_ATTEMPTS = 3
"""Attempts after an InternalError (500), which is as often permanent (a failing webhook) as not."""

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]
Fence = Callable[[], bool]
"""Whether this process may write at this moment."""


class Retry(enum.Enum):
    """When a request may be retried, see the module docstring."""

    ALWAYS = enum.auto()
    IF_NOT_APPLIED = enum.auto()


class Transport:
    """The HTTP side of one client. Not thread-safe; opens no connection before the first request."""

    def __init__(
        self,
        connection: Connection,
        *,
        connections: int,
        rng: Random,
        sleep: Sleep,
        clock: Clock,
        fence: Fence | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """``on_warning`` is called with each warning of the server for a request that writes."""
        self.connection = connection
        self._fence, self._on_warning = fence, on_warning
        self.rng, self.sleep, self.clock = rng, sleep, clock
        self._limit = connections
        self._has_base = bool(urlsplit(connection.url).path)
        self._channels: Channels | None = None
        self._heads: dict[tuple[str, str], bytes] = {}
        self._opened: Streams | None = None
        self._sent: Headers | None = None
        self._headers: dict[tuple[str, str], CIMultiDict[str]] = {}
        self._agent = f"volcanopy/{VERSION}"

    async def close(self) -> None:
        """Close all connections; open watches end with an error."""
        if self._channels is not None:
            self._channels.close()
            self._channels = None
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    def _headers_for(self, credentials: Headers, content_type: str, accept: str = JSON) -> CIMultiDict[str]:
        """Return all headers of a request; the same object until the credentials change."""
        if credentials is not self._sent:
            self._sent, self._headers, self._heads = credentials, {}, {}
        headers = self._headers.get((content_type, accept))
        if headers is None:
            headers = CIMultiDict(credentials)
            headers["User-Agent"] = self._agent
            headers["Accept"] = accept
            # Compressing a list takes both sides longer than sending it over a cluster's network.
            headers["Accept-Encoding"] = "identity"
            if content_type:
                headers["Content-Type"] = content_type
            self._headers[content_type, accept] = headers
        return headers

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        *,
        retry: Retry = Retry.ALWAYS,
        deadline: float,
        accept: str = JSON,
        warnings: list[str] | None = None,
    ) -> bytes:
        """Send a request, with retries, for ``deadline`` seconds in all. Returns the body of a 2xx response.

        The server's warnings are added to ``warnings``. Raises :class:`ApiError` or :class:`NoAnswer`, whose ``in_doubt``
        is True if any attempt of this call may have been applied.
        """
        give_up = self.clock() + deadline
        backoff: Backoff | None = None
        refreshed = in_doubt = False
        while True:
            credentials = await self.connection.credentials.headers()
            fault: ApiError | NoAnswer
            try:
                left = max(0.001, give_up - self.clock())
                headers = self._headers_for(credentials, content_type, accept)
                with self.connection.request_counts.request(method, path) as answer:
                    return await self._once(method, path, body, headers, left, warnings, answer)
            except Unauthorized as error:
                if refreshed or not await self.connection.credentials.refresh(credentials):
                    error.in_doubt = in_doubt
                    raise
                refreshed = True
                continue
            except (ApiError, NoAnswer) as failure:
                fault = failure
            in_doubt = in_doubt or fault.maybe_applied
            fault.in_doubt = in_doubt
            backoff = backoff or Backoff(self.rng, 0.1, 5.0)
            if not _may_repeat(fault, retry, backoff.failures + 1):
                raise fault
            pause = backoff.next(fault.retry_after if isinstance(fault, ApiError) else None)
            if self.clock() + pause >= give_up:
                raise fault
            await self.sleep(pause)

    async def _once(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: CIMultiDict[str],
        timeout: float,
        warnings: list[str] | None,
        answer: ResponseStatus,
    ) -> bytes:
        if self.connection.proxy:
            response = await self._streams.request(method, path, body, headers, timeout)
        else:
            response = await self._directly(method, path, body, headers, timeout)
        answer.code = response.status
        if response.status >= 300:
            raise from_response(response.status, response.body, response.retry_after)
        if response.warnings and method != "GET":
            self._warn(_warned(response.warnings), warnings)
        return response.body

    async def _directly(
        self, method: str, path: str, body: bytes | None, headers: CIMultiDict[str], timeout: float
    ) -> HttpResponse:
        if self._channels is None:
            connection, limit = self.connection, self._limit
            self._channels = Channels(connection.url, connection.ssl, connection.server_name, limit, self.clock)
        request = self._head(method, path, body, headers) + (body or b"")
        try:
            async with asyncio.timeout(timeout):
                response = await self._channels.request(request, None if method == "GET" else self._fence)
        except (OSError, TimeoutError) as fault:
            failure = NoAnswer(
                self.connection.url + path, describe(fault), maybe_applied=not isinstance(fault, NotConnectedError)
            )
            failure.permanent = isinstance(fault, NotConnectedError) and fault.permanent
            raise failure from fault
        if response is None:
            raise NotLeading(f"{method} {path.partition('?')[0]} is not sent: this process does not lead")
        return response

    def _head(self, method: str, path: str, body: bytes | None, headers: CIMultiDict[str]) -> bytes:
        """Return the head of a request; the lines that all requests of a content type have in common are made once."""
        media = headers.get("Content-Type", ""), headers["Accept"]
        common = self._heads.get(media)
        if common is None:
            lines = [
                f"Host: {urlsplit(self.connection.url).netloc}",
                *(f"{name}: {value}" for name, value in headers.items()),
            ]
            if any("\r" in line or "\n" in line for line in lines):
                raise ValueError("a header of the credentials contains a line break")
            common = self._heads[media] = "\r\n".join([" HTTP/1.1", *lines, ""]).encode("utf-8")
        target = urlsplit(self.connection.url).path + path if self._has_base else path
        if " " in target or "\r" in target or "\n" in target:
            raise ValueError(f"the path {target!r} is not quoted")
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        return f"{method} {target}".encode() + common + length + b"\r\n"

    def _warn(self, texts: list[str], warnings: list[str] | None) -> None:
        if warnings is not None:
            warnings += texts
        elif self._on_warning is not None:
            for text in texts:
                self._on_warning(text)

    def stream(self, path: str, stall: float) -> AbstractAsyncContextManager[StreamReader]:
        """A GET whose response is read as a stream; ``stall`` is the longest silence in seconds.

        One attempt (two at a 401). Reading raises aiohttp's errors: translate them with :func:`.streams.no_answer`.
        """
        return self._streams.stream(path, stall)

    async def websocket(self, path: str, protocol: str) -> ClientWebSocketResponse:
        """Open a WebSocket with a subprotocol. One attempt. Raises ApiError, NoAnswer."""
        return await self._streams.websocket(path, protocol)

    @property
    def _streams(self) -> Streams:
        if self._opened is None:
            # Imported here, because many commands need no stream, and aiohttp takes longer to import than all else.
            from volcanopy.kube.client.streams import Streams  # noqa: PLC0415

            self._opened = Streams(self.connection, self._headers_for, self._limit, self._fence)
        return self._opened


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def _warned(headers: Iterable[str]) -> list[str]:
    """Return the texts of Warning headers as API servers write them."""
    texts = (match.group(1) for header in headers for match in _WARNING.finditer(header))
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


def _may_repeat(fault: ApiError | NoAnswer, retry: Retry, attempts: int) -> bool:
    if isinstance(fault, NoAnswer):
        return not fault.permanent and (retry is Retry.ALWAYS or not fault.maybe_applied)
    if isinstance(fault, TooManyRequests):
        return True
    if retry is Retry.IF_NOT_APPLIED and fault.maybe_applied:
        return False
    return fault.code in {502, 503, 504} or (fault.code == 500 and attempts < INTERNAL_ERROR_ATTEMPTS)


def query(**parameters: str | int) -> str:
    """Return the non-empty parameters as the query part of a URL, with the question mark; empty if there are none."""
    return _query(tuple((name, value) for name, value in parameters.items() if value != ""))


@lru_cache(maxsize=256)
def _query(given: tuple[tuple[str, str | int], ...]) -> str:
    """Return the query part of a URL; nearly all requests have one of a few."""
    return f"?{urlencode(given)}" if given else ""


def delete_options(uid: str, resource_version: str, propagation: str | None, grace: int | None) -> bytes | None:
    """Return the body of a deletion; None if it has no options."""
    options: dict[str, Any] = {}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = propagation
    conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    if conditions:
        options["preconditions"] = conditions
    return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}) if options else None
