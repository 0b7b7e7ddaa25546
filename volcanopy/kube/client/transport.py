"""Requests and answers as bytes: connections, credentials, errors and repetition. The verbs are in ``client``.

Whether a request may be sent again is decided here and only here. There are two sorts. A request that leaves the same
state however often it is carried out is repeated on every fault that may pass (:attr:`Retry.ALWAYS`). Any other is
repeated only when it is certain that the server did not carry it out (:attr:`Retry.IF_NOT_APPLIED`): no connection came about,
or the answer was 401 or 429, which are given before anything is done.
"""

from __future__ import annotations

import enum
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
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
"""Seconds for which an idle connection is kept: less than the 90 s after which API servers drop theirs, since a
request on a connection that is just being dropped gets no answer."""
READ_BUFFER = 1 << 20
INTERNAL_ERROR_ATTEMPTS = 3
"""An InternalError (500) is as often permanent (a webhook that fails) as not: it is not repeated until the deadline."""

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]
Fence = Callable[[], bool]
"""Whether this process may change anything at this very moment."""


class _FencedConnector(aiohttp.TCPConnector):
    """Gives connections to requests that change something only while the fence is open.

    It is asked when the request has its connection, however long it had to wait for that.
    """

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
    """Asks the fence once more when the bytes are handed over: head and body of a request leave together, a turn of the
    event loop after it has got its connection.
    """

    def __init__(self, body: bytes, fence: Fence) -> None:
        super().__init__(body)
        self._fence = fence
        self.kept = False
        """Whether the fence was closed, and nothing was sent."""

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if not self._fence():
            self.kept = True
            raise NotLeading("the fence is closed")
        await super().write_with_length(writer, content_length)


class Retry(enum.Enum):
    """When a request may be repeated, see the module's words."""

    ALWAYS = enum.auto()
    IF_NOT_APPLIED = enum.auto()


class Transport:
    """The HTTP side of one client. Not thread-safe; opens nothing before the first request."""

    def __init__(
        self,
        connection: Connection,
        *,
        connections: int,
        rng: Random,
        sleep: Sleep,
        clock: Clock,
        fence: Fence | None = None,
    ) -> None:
        self.connection = connection
        self._fence = fence
        self.rng, self.sleep, self.clock = rng, sleep, clock
        self._limit = connections
        self._open: dict[bool, aiohttp.ClientSession] = {}
        self._sent: Headers | None = None
        self._headers: dict[str, CIMultiDict[str]] = {}
        self._agent = f"volcanopy/{volcanopy.__version__}"

    async def close(self) -> None:
        """Close all connections; watches that are still read end with an error."""
        for session in self._open.values():
            await session.close()
        self._open.clear()

    def _session(self, *, streams: bool) -> aiohttp.ClientSession:
        """The session for requests, or the one for watches, which must not use up the connections of the former."""
        session = self._open.get(streams)
        if session is None:
            connector = _FencedConnector(
                limit=0 if streams else self._limit,
                keepalive_timeout=KEEPALIVE,
                ttl_dns_cache=60,
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
        """All headers of a request; they are the same objects from request to request until the credentials change."""
        if credentials is not self._sent:
            self._sent, self._headers = credentials, {}
        headers = self._headers.get(content_type)
        if headers is None:
            headers = CIMultiDict(credentials)
            headers["User-Agent"] = self._agent
            headers["Accept"] = "application/json"
            # Compressing a list costs the server and us more time than sending it takes in a cluster's network.
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
        again: Retry,
        deadline: float,
        warnings: list[str] | None = None,
    ) -> bytes:
        """Send, wait, repeat where that is right, for ``deadline`` seconds in all. Returns the body of a 2xx answer.

        What the server warns of in such an answer is added to ``warnings``.
        Raises :class:`ApiError` or :class:`NoAnswer`. Their ``in_doubt`` says whether any attempt of this call may have
        been carried out without our having seen it.
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
            except Unauthorized as refusal:
                if refreshed or not await self.connection.credentials.refresh(credentials):
                    refusal.in_doubt = in_doubt
                    raise
                refreshed = True
                continue
            except (ApiError, NoAnswer) as failure:
                fault = failure
            in_doubt = in_doubt or fault.maybe_applied
            fault.in_doubt = in_doubt
            backoff = backoff or Backoff(self.rng, 0.1, 5.0)
            if not _may_repeat(fault, again, backoff.failures + 1):
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
                middlewares=_OWN_REPETITION if method in {"DELETE", "PUT"} else (),
            ) as response:
                content = await response.read()
                answer.code = response.status
                if response.status < 300:
                    if warnings is not None:
                        warnings += _warned(response.headers.getall("Warning", ()))
                    return content
                raise from_response(response.status, content, response.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            if fenced is not None and fenced.kept:
                raise NotLeading(f"{method} {url.path} is not sent: this process does not lead") from fault
            raise no_answer(url, fault) from fault

    @asynccontextmanager
    async def stream(self, path: str, stall: float) -> AsyncIterator[aiohttp.StreamReader]:
        """A GET whose answer is read as it comes; ``stall`` is the longest silence in seconds.

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
            refusal = from_response(response.status, content, response.headers.get("Retry-After"))
            if refreshed or response.status != 401 or not await self.connection.credentials.refresh(credentials):
                raise refusal
            refreshed = True


async def _tell_losses(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a DELETE or PUT by itself after a lost connection: what comes back then means
    something else. (It does so for GET as well, where it does not matter, and for no other method.)
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as fault:
        raise no_answer(request.url, fault) from fault


_OWN_REPETITION = (_tell_losses,)


def no_answer(url: URL | str, fault: BaseException) -> NoAnswer:
    """What a failure of the connection means to the caller."""
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
    """The texts of an answer's Warning headers, as API servers write them."""
    texts = (found.group(1) for header in headers for found in _WARNING.finditer(header))
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


def _may_repeat(fault: ApiError | NoAnswer, again: Retry, attempts: int) -> bool:
    if isinstance(fault, NoAnswer):
        return not fault.permanent and (again is Retry.ALWAYS or not fault.maybe_applied)
    if isinstance(fault, TooManyRequests):
        # A disruption budget that allows no eviction now answers 429 as well; that is a decision, not an overload.
        return not fault.has_cause("DisruptionBudget")
    if fault.code == 500:
        return again is Retry.ALWAYS and attempts < INTERNAL_ERROR_ATTEMPTS
    return again is Retry.ALWAYS and fault.code in {502, 503, 504}
