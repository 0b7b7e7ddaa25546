"""The HTTP transport of the client: connections, credentials, errors and retries.

Only this module decides whether a request is retried. A request that leaves the same state however often it is carried
out is retried on every temporary error (:attr:`Retry.ALWAYS`). Any other is retried only when the server certainly did
not apply it (:attr:`Retry.IF_NOT_APPLIED`): there was no connection, or the status was 401 or 429, which are sent before
anything is done.
"""

from __future__ import annotations

import enum
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

import volcanopy
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
from volcanopy.kube.client.request_counts import WATCH, Answer

CONNECT_TIMEOUT = 10.0
KEEPALIVE = 60.0
"""Seconds for which an idle connection is kept: less than the 90 s after which API servers close theirs, since a
request on a connection that is just being closed gets no response."""
READ_BUFFER = 1 << 20
INTERNAL_ERROR_ATTEMPTS = 3
"""Attempts after an InternalError (500), which is as often permanent (a failing webhook) as not."""

PROBES = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""Socket options (seconds, and milliseconds for the last): the kernel probes silent connections, and a watch whose peer has
vanished ends after ten seconds, not when the next bookmark is overdue."""

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]
Fence = Callable[[], bool]
"""Whether this process may write at this moment."""


def probed_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket for this address (of ``getaddrinfo``) that notices a vanished peer."""
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):  # not on every system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


class _FencedConnector(aiohttp.TCPConnector):
    """Rejects writes while the fence is closed; checked when the request gets its connection, after any wait for it."""

    fence: Fence | None = None

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        if self.fence is not None and req.method != "GET" and not self.fence():
            connection.release()
            raise NotLeading(f"{req.method} {req.url.path} is not sent: this process does not lead")
        return connection


class _FencedBody(aiohttp.BytesPayload):
    """Checks the fence again when the bytes are written: head and body of a request are sent together, one iteration of
    the event loop after it got its connection.
    """

    def __init__(self, body: bytes, fence: Fence) -> None:
        super().__init__(body)
        self._fence = fence
        self.rejected = False
        """Whether the fence was closed and nothing was sent."""

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if not self._fence():
            self.rejected = True
            raise NotLeading("the fence is closed")
        await super().write_with_length(writer, content_length)


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
        self._open: dict[bool, aiohttp.ClientSession] = {}
        self._sent: Headers | None = None
        self._headers: dict[str, CIMultiDict[str]] = {}
        self._agent = f"volcanopy/{volcanopy.__version__}"

    async def close(self) -> None:
        """Close all connections; open watches end with an error."""
        for session in self._open.values():
            await session.close()
        self._open.clear()

    def _session(self, *, streams: bool) -> aiohttp.ClientSession:
        """Return the session for requests, or the one for watches, which must not use up the connections of the former."""
        session = self._open.get(streams)
        if session is None:
            connector = _FencedConnector(
                limit=0 if streams else self._limit,
                keepalive_timeout=KEEPALIVE,
                ttl_dns_cache=60,
                socket_factory=probed_socket,
                ssl=self.connection.ssl or True,
            )
            connector.fence = self._fence
            session = self._open[streams] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER,
                requote_redirect_url=False,
            )
        return session

    def _headers_for(self, credentials: Headers, content_type: str) -> CIMultiDict[str]:
        """Return all headers of a request; the same object until the credentials change."""
        if credentials is not self._sent:
            self._sent, self._headers = credentials, {}
        headers = self._headers.get(content_type)
        if headers is None:
            headers = CIMultiDict(credentials)
            headers["User-Agent"] = self._agent
            headers["Accept"] = "application/json"
            # Compressing a list takes both sides longer than sending it over a cluster's network.
            headers["Accept-Encoding"] = "identity"
            if content_type:
                headers["Content-Type"] = content_type
            self._headers[content_type] = headers
        return headers

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        *,
        retry: Retry,
        deadline: float,
        warnings: list[str] | None = None,
    ) -> bytes:
        """Send a request, with retries, for ``deadline`` seconds in all. Returns the body of a 2xx response.

        The server's warnings are added to ``warnings``. Raises :class:`ApiError` or :class:`NoAnswer`, whose ``in_doubt``
        is True if any attempt of this call may have been applied.
        """
        url = URL(self.connection.url + path, encoded=True)
        give_up = self.clock() + deadline
        backoff: Backoff | None = None
        refreshed = in_doubt = False
        while True:
            credentials = await self.connection.credentials.headers()
            fault: ApiError | NoAnswer
            try:
                left = max(0.001, give_up - self.clock())
                self.connection.request_counts.count(method, path)
                headers = self._headers_for(credentials, content_type)
                with self.connection.request_counts.answer(method, path) as answer:
                    return await self._once(method, url, body, headers, left, warnings, answer)
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
        url: URL,
        body: bytes | None,
        headers: CIMultiDict[str],
        timeout: float,
        warnings: list[str] | None,
        answer: Answer,
    ) -> bytes:
        fenced = _FencedBody(body, self._fence) if body is not None and self._fence is not None else None
        try:
            async with self._session(streams=False).request(
                method,
                url,
                data=fenced or body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT),
                proxy=self.connection.proxy,
                server_hostname=self.connection.server_name,
                middlewares=_NO_RETRY_BY_AIOHTTP if method in {"DELETE", "PUT"} else (),
            ) as response:
                content = await response.read()
                answer.code = response.status
                if response.status < 300:
                    texts = _warned(response.headers.getall("Warning", ())) if method != "GET" else []
                    if warnings is not None:
                        warnings += texts
                    elif self._on_warning is not None:
                        for text in texts:
                            self._on_warning(text)
                    return content
                raise from_response(response.status, content, response.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            if fenced is not None and fenced.rejected:
                raise NotLeading(f"{method} {url.path} is not sent: this process does not lead") from fault
            raise no_answer(url, fault) from fault

    @asynccontextmanager
    async def stream(self, path: str, stall: float) -> AsyncIterator[aiohttp.StreamReader]:
        """A GET whose response is read as a stream; ``stall`` is the longest silence in seconds.

        One attempt (two at a 401). Reading raises aiohttp's errors: translate them with :func:`no_answer`.
        """
        url = URL(self.connection.url + path, encoded=True)
        self.connection.request_counts.count(WATCH, path)
        with self.connection.request_counts.answer(WATCH, path) as answer:
            response = await self._open_stream(url, stall)
            answer.code = response.status
        try:
            yield response.content
        finally:
            response.close()

    async def websocket(self, path: str, protocol: str) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket with a subprotocol. One attempt. Raises ApiError, NoAnswer."""
        url = URL(self.connection.url + path, encoded=True)
        credentials = await self.connection.credentials.headers()
        self.connection.request_counts.count("GET", path)
        try:
            return await self._session(streams=True).ws_connect(
                url,
                headers=self._headers_for(credentials, ""),
                protocols=(protocol,),
                proxy=self.connection.proxy,
                server_hostname=self.connection.server_name,
                max_msg_size=0,
            )
        except aiohttp.WSServerHandshakeError as fault:
            raise from_response(fault.status, b"", None) from fault
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            raise no_answer(url, fault) from fault

    async def _open_stream(self, url: URL, stall: float) -> aiohttp.ClientResponse:
        refreshed = False
        while True:
            credentials = await self.connection.credentials.headers()
            try:
                response = await self._session(streams=True).get(
                    url,
                    headers=self._headers_for(credentials, ""),
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=stall),
                    proxy=self.connection.proxy,
                    server_hostname=self.connection.server_name,
                )
                if response.status == 200:
                    return response
                content = await response.read()
            except (aiohttp.ClientError, OSError, TimeoutError) as fault:
                raise no_answer(url, fault) from fault
            error = from_response(response.status, content, response.headers.get("Retry-After"))
            if refreshed or response.status != 401 or not await self.connection.credentials.refresh(credentials):
                raise error
            refreshed = True


async def _raise_no_answer(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from retrying a DELETE or PUT by itself after a lost connection, since the second response would be
    misread. (It retries GET as well, which is harmless, and no other method.)
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as fault:
        raise no_answer(request.url, fault) from fault


_NO_RETRY_BY_AIOHTTP = (_raise_no_answer,)


def no_answer(url: URL | str, fault: BaseException) -> NoAnswer:
    """Return the error for a failed connection."""
    nothing_sent = isinstance(
        fault,
        (
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.ClientHttpProxyError,
            aiohttp.InvalidURL,
        ),
    )
    answer = NoAnswer(str(url), describe(fault), maybe_applied=not nothing_sent)
    answer.permanent = isinstance(fault, (aiohttp.ClientConnectorCertificateError, aiohttp.InvalidURL))
    return answer


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def _warned(headers: Iterable[str]) -> list[str]:
    """Return the texts of Warning headers as API servers write them."""
    texts = (match.group(1) for header in headers for match in _WARNING.finditer(header))
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


def _may_repeat(fault: ApiError | NoAnswer, retry: Retry, attempts: int) -> bool:
    if isinstance(fault, NoAnswer):
        return not fault.permanent and (retry is Retry.ALWAYS or not fault.maybe_applied)
    if isinstance(fault, TooManyRequests):
        # A disruption budget that allows no eviction is a 429 as well, but no overload.
        return not fault.has_cause("DisruptionBudget")
    if fault.code == 500:
        return retry is Retry.ALWAYS and attempts < INTERNAL_ERROR_ATTEMPTS
    return retry is Retry.ALWAYS and fault.code in {502, 503, 504}


def query(**parameters: str | int) -> str:
    """Return the non-empty parameters as the query part of a URL, with the question mark; empty if there are none."""
    given = {name: value for name, value in parameters.items() if value != ""}
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
