"""Where the cluster is and who we are to it: everything a client needs before its first request.

The forms of configuration (kubeconfig files and their merging, in-cluster service accounts, exec plugins, certificates)
are read by the official ``kubernetes`` package, which is imported only here and only when a connection is loaded: it
takes a quarter of a second. What comes out is small and ours: an address, a TLS context, and headers that stay valid.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from multidict import CIMultiDict, CIMultiDictProxy

from volcanopy.kube.client.errors import NoCluster, describe
from volcanopy.kube.client.request_counts import RequestCounts

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FILE_PERIOD = 60.0
"""Seconds between two looks at a token that lives in a file and is rotated there."""
EXPIRY_MARGIN = 30.0
"""Seconds before its end at which a token is replaced."""
MIN_PERIOD = 2.0
"""Seconds between two renewals at least, however many requests are refused at once."""

Headers = CIMultiDictProxy[str]


def headers_of(values: Mapping[str, str] | None = None) -> Headers:
    """Immutable request headers; impersonation needs several of one name, hence a multi-dict."""
    return CIMultiDictProxy(CIMultiDict(values or {}))


class Credentials:
    """The headers that say who we are, the same for ever. With no values: anonymous."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._headers = headers_of(values)

    async def headers(self) -> Headers:
        """The headers to send now. The identical object as long as nothing has changed."""
        return self._headers

    async def refresh(self, refused: Headers) -> bool:
        """The server refused these headers. True if it is worth a second try with what :meth:`headers` gives now."""
        return refused is not self._headers


@dataclass(frozen=True, slots=True)
class Grant:
    """What one reading of the configuration gave.

    ``renew_at`` is the wall-clock time (seconds since the epoch) when it should be read again, None for never.
    ``certificate`` are the paths of a client certificate and its key.
    """

    headers: Headers
    renew_at: float | None = None
    certificate: tuple[str, str | None] | None = None


class RenewedCredentials(Credentials):
    """Credentials that are read anew before they expire, or when the server refuses them.

    ``read`` may block (it may run a plugin): it is called in a thread, one call at a time however many requests wait.
    A client certificate that has changed is loaded into ``context``, where the next connections find it. When reading
    fails, the old credentials stay in use and the reason is logged.
    """

    def __init__(
        self,
        read: Callable[[], Grant],
        grant: Grant,
        context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._read, self.context, self._clock = read, context, clock
        self._headers, self._renew_at = grant.headers, grant.renew_at
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    async def headers(self) -> Headers:
        """The headers to send now, after a renewal if that is due."""
        if self._renew_at is not None and self._clock() >= self._renew_at:
            async with self._lock:
                if self._renew_at is not None and self._clock() >= self._renew_at:
                    await self._renew()
        return self._headers

    async def refresh(self, refused: Headers) -> bool:
        """Read the configuration again, unless somebody has just done so."""
        async with self._lock:
            if refused is not self._headers:
                return True
            if self._clock() - self._read_at < MIN_PERIOD:
                return False
            return await self._renew()

    async def _renew(self) -> bool:
        self._read_at = self._clock()
        try:
            grant = await asyncio.to_thread(self._read)
            if grant.certificate and self.context:
                self.context.load_cert_chain(*grant.certificate, password="")
        except (NoCluster, OSError) as fault:
            log.warning("cannot renew the cluster's credentials, keeping the old ones: %s", describe(fault))
            if self._renew_at is not None:
                self._renew_at = self._clock() + MIN_PERIOD
            return False
        self._renew_at = grant.renew_at if grant.renew_at is None else max(grant.renew_at, self._clock() + MIN_PERIOD)
        self._headers = grant.headers
        return True


@dataclass(frozen=True, slots=True)
class Connection:
    """One cluster, and how to speak to it.

    ``url`` is the base of all requests, without a trailing slash; it may have a path (clusters behind a gateway).
    ``ssl`` is None for plain HTTP. ``server_name`` is what the certificate must say, when that is not the URL's host.
    ``namespace`` is the one that commands use when the user names none.
    """

    url: str
    credentials: Credentials = field(default_factory=Credentials)
    ssl: ssl.SSLContext | None = None
    namespace: str = "default"
    context: str = ""
    proxy: str | None = None
    server_name: str | None = None
    request_counts: RequestCounts = field(default_factory=RequestCounts, compare=False, repr=False)
    """What all clients of this connection have asked."""

    @staticmethod
    def load(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
        """Find the cluster as kubectl does: this file, else ``$KUBECONFIG``, else ``~/.kube/config``, else this pod's.

        May block for as long as an exec plugin runs. Raises :class:`NoCluster` with one sentence that says what is
        missing or wrong, and where.
        """
        # Imported here: the reader pulls in the official client.
        from volcanopy.kube.client.kubeconfig import in_cluster, read_kubeconfig  # noqa: PLC0415

        if kubeconfig is not None:
            if not kubeconfig.is_file():
                raise NoCluster(f"kubeconfig {kubeconfig}: there is no such file")
            return read_kubeconfig((kubeconfig,), context)
        named = os.environ.get("KUBECONFIG")
        candidates = [Path(part).expanduser() for part in named.split(os.pathsep) if part] if named else []
        files = [path for path in candidates or [Path("~/.kube/config").expanduser()] if path.is_file()]
        if files:
            return read_kubeconfig(tuple(files), context)
        if os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").is_file():
            return in_cluster(SERVICE_ACCOUNT, os.environ)
        looked = f"$KUBECONFIG names no file that exists ({named})" if named else "there is no ~/.kube/config"
        raise NoCluster(
            f"no cluster is configured: {looked}, and this is not a pod with a service account; "
            "give --kubeconfig FILE or set KUBECONFIG, or start a cluster here with `volcanopy local up`"
        )
