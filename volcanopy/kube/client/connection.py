"""Connection parameters of a cluster: address, TLS context, credentials that renew themselves.

Kubeconfig files, in-cluster service accounts, exec plugins and certificates are read by :mod:`.kubeconfig`.
"""

from __future__ import annotations

import asyncio
import copy
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from multidict import CIMultiDict, CIMultiDictProxy

from volcanopy.kube import machine
from volcanopy.kube.client.errors import NoAnswer, NoCluster, describe
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.client.request_counts import RequestCounts

log = Logger(__name__)

FILE_PERIOD = 60.0
"""Seconds between two reads of a token file, which is rotated."""
EXPIRY_MARGIN = 30.0
"""Seconds before its expiry at which a token is replaced."""
MIN_PERIOD = 2.0
"""Least seconds between two renewals, however many requests fail with 401 at once."""

CHECK_TIMEOUT = 5.0
"""Seconds in which a running server accepts a connection."""

Headers = CIMultiDictProxy[str]


def headers_of(values: Mapping[str, str] | None = None) -> Headers:
    """Return immutable request headers; impersonation needs several of one name, hence a multi-dict."""
    return CIMultiDictProxy(CIMultiDict(values or {}))


class Credentials:
    """Constant authentication headers; anonymous without values."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._headers = headers_of(values)

    async def headers(self) -> Headers:
        """Return the headers to send now: the identical object as long as nothing has changed."""
        return self._headers

    async def refresh(self, rejected: Headers) -> bool:
        """Renew headers that the server has rejected. True if a retry with the current :meth:`headers` makes sense."""
        return rejected is not self._headers

    def for_another_loop(self) -> Credentials:
        """Return credentials of the same source for requests of another event loop."""
        return self

    def current(self) -> Headers:
        """Return the headers to send now, for requests without an event loop; may block for a renewal."""
        return self._headers


@dataclass(frozen=True, slots=True)
class Grant:
    """Credentials from one reading of the configuration.

    ``renew_at`` is the wall-clock time (seconds since the epoch) at which to read again, None for never.
    ``certificate`` are the paths of a client certificate and its key.
    """

    headers: Headers
    renew_at: float | None = None
    certificate: tuple[str, str | None] | None = None


class RenewedCredentials(Credentials):
    """Credentials that are read again before they expire, or when the server rejects them.

    ``read`` may block (it may run a plugin): it is called in a thread, one call at a time however many requests wait.
    A changed client certificate is loaded into ``context`` and used by the next connections. When reading fails, the old
    credentials stay in use and the reason is logged.
    """

    def __init__(
        self,
        read: Callable[[], Grant],
        grant: Grant,
        context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = machine.epoch,
    ) -> None:
        super().__init__()
        self._read, self.context, self._clock = read, context, clock
        self._headers, self._renew_at = grant.headers, grant.renew_at
        self._read_at = float("-inf")
        self._lock, self._thread_lock = asyncio.Lock(), threading.Lock()

    async def headers(self) -> Headers:
        """Return the headers to send now, after a renewal if one is due."""
        if self._renew_at is not None and self._clock() >= self._renew_at:
            async with self._lock:
                if self._renew_at is not None and self._clock() >= self._renew_at:
                    await self._renew()
        return self._headers

    async def refresh(self, rejected: Headers) -> bool:
        """Read the configuration again, unless another request has just done so."""
        async with self._lock:
            if rejected is not self._headers:
                return True
            if self._clock() - self._read_at < MIN_PERIOD:
                return False
            return await self._renew()

    def for_another_loop(self) -> Credentials:
        """Return credentials that read the same source by themselves."""
        other = copy.copy(self)
        other._lock = asyncio.Lock()
        return other

    def current(self) -> Headers:
        """Return the headers to send now, after a renewal if one is due."""
        with self._thread_lock:
            if self._renew_at is not None and self._clock() >= self._renew_at:
                self._read_again()
        return self._headers

    async def _renew(self) -> bool:
        return await asyncio.to_thread(self._read_again)

    def _read_again(self) -> bool:
        """Read the configuration and use what it has; return False if that fails."""
        self._read_at = self._clock()
        try:
            grant = self._read()
            if grant.certificate and self.context:
                self.context.load_cert_chain(*grant.certificate, password="")
        except (NoCluster, OSError) as fault:
            log.warning("cluster credentials not renewed, old ones stay in use", error=describe(fault))
            if self._renew_at is not None:
                self._renew_at = self._clock() + MIN_PERIOD
            return False
        self._renew_at = grant.renew_at if grant.renew_at is None else max(grant.renew_at, self._clock() + MIN_PERIOD)
        self._headers = grant.headers
        return True


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection parameters of one cluster.

    ``url`` is the base of all requests, without a trailing slash; it may have a path (clusters behind a gateway).
    ``ssl`` is None for plain HTTP. ``server_name`` is the expected host name of the certificate, if not the URL's host.
    ``namespace`` is the default for commands.
    """

    url: str
    credentials: Credentials = field(default_factory=Credentials)
    ssl: ssl.SSLContext | None = None
    namespace: str = "default"
    context: str = ""
    proxy: str | None = None
    server_name: str | None = None
    request_counts: RequestCounts = field(default_factory=RequestCounts, compare=False, repr=False)
    """The requests of all clients of this connection."""

    async def check(self) -> None:
        """Return when the server accepts connections, or behind a proxy at once; raises NoAnswer.

        It fails at the first attempt, for commands that should not wait for the retries that a service needs.
        """
        if self.proxy:
            return
        url = urlsplit(self.url)
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                _, writer = await asyncio.open_connection(url.hostname, url.port or (80 if self.ssl is None else 443))
        except TimeoutError:
            reason = f"no connection within {CHECK_TIMEOUT:g} s"
        except ConnectionRefusedError:
            reason = "connection refused"
        except OSError as fault:
            reason = fault.strerror or describe(fault)
        else:
            writer.close()
            return
        context = f" (context {self.context})" if self.context else ""
        raise NoAnswer(f"{self.url}{context}", reason, maybe_applied=False)

    def without_credentials(self) -> Connection:
        """Return a connection to the same server that sends neither headers of authentication nor a client certificate."""
        context = self.ssl
        if context is not None:
            authorities = "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(binary_form=True)))
            fresh = ssl.create_default_context(cadata=authorities or None)
            fresh.verify_flags, fresh.check_hostname = context.verify_flags, context.check_hostname
            fresh.verify_mode = context.verify_mode
            context = fresh
        return replace(self, credentials=Credentials(), ssl=context)

    def with_token(self, token: str) -> Connection:
        """Return a connection to the same server that sends this bearer token."""
        return replace(self, credentials=Credentials({"Authorization": f"Bearer {token}"}))
