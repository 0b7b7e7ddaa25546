"""Streams, WebSockets, and requests through a proxy: what is left to aiohttp.

Imported when the first of them is needed: it takes longer to import than everything else that a command needs.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from volcanopy.kube.client.connection import Connection, Headers
from volcanopy.kube.client.errors import NoAnswer, NotLeading, describe, from_response
from volcanopy.kube.client.http_channel import CONNECT_TIMEOUT, IDLE_SECONDS, HttpResponse, probed_socket
from volcanopy.kube.client.request_counts import WATCH

READ_BUFFER = 1 << 20
Fence = Callable[[], bool]


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


def open_session(
    connection: Connection, limit: int, fence: Fence | None = None, **options: Any
) -> aiohttp.ClientSession:
    """Return a session with the TLS settings and the SOCKS proxy of a connection, for ``limit`` connections (0: any number)."""
    connector = _connector(
        connection.proxy or "",
        limit=limit,
        keepalive_timeout=IDLE_SECONDS,
        ttl_dns_cache=60,
        socket_factory=probed_socket,
        ssl=connection.ssl or True,
    )
    connector.fence = fence
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER,
        requote_redirect_url=False,
        headers={"Accept-Encoding": "identity"},  # compressing takes both sides longer than sending
        **options,
    )


def http_proxy(connection: Connection) -> str | None:
    """Return the HTTP proxy of a connection, which each request names; None without one."""
    return None if _is_socks(connection.proxy or "") else connection.proxy


def _is_socks(proxy: str) -> bool:
    return proxy.startswith("socks")


def _connector(proxy: str, **options: Any) -> _FencedConnector:
    if not _is_socks(proxy):
        return _FencedConnector(**options)
    from aiohttp_socks import ProxyConnector  # noqa: PLC0415 - for few users

    class FencedProxyConnector(_FencedConnector, ProxyConnector):
        """The connector that connects through a SOCKS proxy, which resolves the name of the server."""

    connector = FencedProxyConnector.from_url(proxy.replace("socks5h:", "socks5:", 1), **options)
    assert isinstance(connector, _FencedConnector)
    return connector


class Streams:
    """The sessions of one client. ``headers`` returns those of a request with a content type."""

    def __init__(
        self,
        connection: Connection,
        headers: Callable[[Headers, str], CIMultiDict[str]],
        limit: int,
        fence: Fence | None,
    ) -> None:
        self.connection, self._headers_for, self._limit, self._fence = connection, headers, limit, fence
        self._open: dict[bool, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        """Close all connections; open watches end with an error."""
        for session in self._open.values():
            await session.close()
        self._open.clear()

    def _session(self, *, streams: bool) -> aiohttp.ClientSession:
        """Return the session for requests, or the one for watches, which must not use up the connections of the former."""
        session = self._open.get(streams)
        if session is None:
            session = self._open[streams] = open_session(self.connection, 0 if streams else self._limit, self._fence)
        return session

    async def request(
        self, method: str, path: str, body: bytes | None, headers: CIMultiDict[str], timeout: float
    ) -> HttpResponse:
        """Send a request through the proxy. Raises NoAnswer, NotLeading."""
        url = URL(self.connection.url + path, encoded=True)
        fenced = _FencedBody(body, self._fence) if body is not None and self._fence is not None else None
        try:
            async with self._session(streams=False).request(
                method,
                url,
                data=fenced or body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT),
                proxy=http_proxy(self.connection),
                server_hostname=self.connection.server_name,
                middlewares=_NO_RETRY_BY_AIOHTTP if method in {"DELETE", "PUT"} else (),
            ) as response:
                content, answered = await response.read(), response.headers
                warnings = tuple(answered.getall("Warning", ()))
                return HttpResponse(response.status, content, answered.get("Retry-After"), warnings)
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            if fenced is not None and fenced.rejected:
                raise NotLeading(f"{method} {path} is not sent: this process does not lead") from fault
            raise no_answer(url, fault) from fault

    @asynccontextmanager
    async def stream(self, path: str, stall: float) -> AsyncIterator[aiohttp.StreamReader]:
        """A GET whose response is read as a stream; ``stall`` is the longest silence in seconds.

        One attempt (two at a 401). Reading raises aiohttp's errors: translate them with :func:`no_answer`.
        """
        url = URL(self.connection.url + path, encoded=True)
        with self.connection.request_counts.request(WATCH, path) as answer:
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
        with self.connection.request_counts.request("GET", path) as answer:
            try:
                socket = await self._session(streams=True).ws_connect(
                    url,
                    headers=self._headers_for(credentials, ""),
                    protocols=(protocol,),
                    proxy=http_proxy(self.connection),
                    server_hostname=self.connection.server_name,
                    max_msg_size=0,
                )
            except aiohttp.WSServerHandshakeError as fault:
                raise from_response(fault.status, b"", None) from fault
            except (aiohttp.ClientError, OSError, TimeoutError) as fault:
                raise no_answer(url, fault) from fault
            answer.code = HTTPStatus.SWITCHING_PROTOCOLS
            return socket

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
                    proxy=http_proxy(self.connection),
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
