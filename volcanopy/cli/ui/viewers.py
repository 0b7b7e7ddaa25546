"""Who looks at the page: one viewer with the credentials of the page's server, or one for each bearer token.

With tokens, the API server decides who a user is and what they may read: every request, list and watch of a viewer is sent with
the token that the browser or a proxy sent, and no other header of a request is used. Nothing is trusted that the API server
does not verify.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from volcanopy.api.model import Json
from volcanopy.cli.ui.cluster_view import ClusterView
from volcanopy.client import access
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import HYPER_NODES, NODES, POD_GROUPS, PODS, QUEUES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import KubeError, NoAnswer, Unauthorized
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import JOBS

COOKIE = "volcanopy-token"
NAMESPACE_COOKIE = "volcanopy-namespace"
"""Cookie with the namespace that a user chose; empty or missing: all."""
CHECK_SECONDS = 60.0
"""Seconds after which the API server is asked again whether a token is valid and what its user may list."""
_IDLE = 600.0
"""Seconds without a request after which a viewer ends."""
_MOST = 100
"""Most viewers at the same time, each with its copy of the cluster; the one without requests for the longest time ends."""
_FOLLOWED: tuple[Kind[Any], ...] = (QUEUES, HYPER_NODES, NODES, POD_GROUPS, JOBS, PODS)


@dataclass
class Viewer:
    """A client, the cluster that it may read, and the documents made of it. ``token`` is that of the page against CSRF."""

    client: Client
    view: ClusterView
    namespace: str | None
    user: str = ""
    namespaces: list[str] = field(default_factory=list)
    """Namespaces that are offered to a user who may not list jobs in all."""
    token: str = field(default_factory=lambda: machine.token(16))
    tag: str = field(default_factory=machine.token)
    """Beginning of the tags of this viewer's documents, so that those of another one are never taken for them."""
    documents: dict[str, tuple[str, Json]] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Viewers(Protocol):
    """The viewers of a page."""

    async def of(self, request: web.Request, token: str = "") -> Viewer:
        """Return the viewer that sent a request, by this token or that of the request. Raises HTTPUnauthorized."""


@asynccontextmanager
async def viewing(
    client: Client, namespace: str | None, user: str = "", namespaces: Sequence[str] = ()
) -> AsyncIterator[Viewer]:
    """Follow the cluster for a viewer."""
    view = ClusterView(client, namespace, current_time)
    viewer = Viewer(client, view, namespace, user, list(namespaces))
    following = asyncio.create_task(view.run(), name="cluster view")
    try:
        await view.started()
        yield viewer
    finally:
        viewer.ended.set()
        following.cancel()
        await asyncio.wait((following,))


@dataclass(frozen=True)
class SharedViewer:
    """All requests are those of one viewer."""

    viewer: Viewer

    async def of(self, _: web.Request, token: str = "") -> Viewer:
        """Return the viewer."""
        return self.viewer


@dataclass
class _Session:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    viewer: Viewer | None = None
    rights: tuple[str, list[bool]] = ("", [])
    """Name of the user, and whether each followed kind may be listed."""
    namespaces: Sequence[str] | None = None
    """Namespaces in which the user may list jobs, once they are read: for those who may not in all."""
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    checked: float = 0.0
    used: float = 0.0

    async def end(self) -> None:
        self.viewer = None
        await self.stack.aclose()


class TokenViewers:
    """A viewer for each token and namespace."""

    def __init__(self, page_client: Client, connection: Connection, namespace: str | None) -> None:
        self._page_client, self._connection, self._namespace = page_client, connection, namespace
        self._sessions: dict[bytes, _Session] = {}

    async def of(self, request: web.Request, token: str = "") -> Viewer:
        """Return the viewer of a token, by default that of the request. Raises HTTPUnauthorized."""
        token = token or token_of(request)
        if not token:
            raise web.HTTPUnauthorized(text="sign in with a token of the cluster")
        namespace = self._namespace or request.cookies.get(NAMESPACE_COOKIE) or None
        if namespace and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
            raise web.HTTPBadRequest(text="namespace: must be the name of a namespace, or empty for all")
        key = hashlib.sha256(f"{token}\n{namespace}".encode()).digest()
        while True:
            session = self._sessions.setdefault(key, _Session())
            async with session.lock:
                if self._sessions.get(key) is not session:
                    continue  # it has ended while this request waited
                session.used = machine.monotonic()
                if session.viewer is None or session.used - session.checked > CHECK_SECONDS:
                    await self._check(key, session, token, namespace)
                viewer = session.viewer
            break
        assert viewer is not None
        await self._end_unused()
        return viewer

    async def _check(self, key: bytes, session: _Session, token: str, namespace: str | None) -> None:
        """Begin a session, or begin it anew where the rights of the user are other ones; end it if the token is not valid.

        A session goes on while the API server does not answer. Raises HTTPUnauthorized and KubeError.
        """
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(self._connection.with_token(token)))
            try:
                user = await access.user_name(client)
                if namespace is None and not await access.is_allowed(client, "list", JOBS, None):
                    if session.namespaces is None:
                        names = {*await access.namespaces(self._page_client), *await access.namespaces(client)}
                        session.namespaces = await access.readable(client, JOBS, names)
                    namespace = next(iter(session.namespaces), None)
                rights = user, [await access.is_allowed(client, "list", kind, namespace) for kind in _FOLLOWED]
                if session.viewer is None or session.rights != rights:
                    await session.end()
                    viewer = viewing(client, namespace, user, session.namespaces or ())
                    session.viewer = await stack.enter_async_context(viewer)
                    session.stack, session.rights = stack.pop_all(), rights
                session.checked = machine.monotonic()
            except NoAnswer:
                if session.viewer is None:
                    del self._sessions[key]
                    raise
            except BaseException as error:
                del self._sessions[key]
                await session.end()
                if isinstance(error, Unauthorized):
                    text = "the API server does not accept this token: sign in again"
                    raise web.HTTPUnauthorized(text=text) from None
                raise

    async def _end_unused(self) -> None:
        """End the sessions that are not used any more, and those beyond the most that there may be."""
        oldest = sorted(self._sessions.items(), key=lambda entry: entry[1].used)
        limit = machine.monotonic() - _IDLE
        for place, (key, session) in enumerate(oldest):
            is_unused = session.used < limit or place < len(oldest) - _MOST
            if is_unused and not session.lock.locked() and self._sessions.pop(key, None) is not None:
                await session.end()

    async def close(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            await session.end()


def token_of(request: web.Request) -> str:
    """Return the bearer token of a request, that of a proxy before that of the cookie; empty without one."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")


@asynccontextmanager
async def token_viewers(page_client: Client, namespace: str | None) -> AsyncIterator[TokenViewers]:
    """Serve users by their tokens. Raises CommandError if the API server accepts requests without one.

    The page's own client reads the names of namespaces, of which users are offered those where they may list jobs.
    """
    anonymous = page_client.connection.without_credentials()
    async with Client(anonymous) as client:
        try:
            user = await access.user_name(client)
        except KubeError:
            user = ""
    if user not in {"", "system:anonymous"}:
        raise CommandError(
            f"--require-token: the API server at {anonymous.url} takes requests without a token for those of user {user!r}: "
            "name a server that authenticates each user"
        )
    viewers = TokenViewers(page_client, anonymous, namespace)
    try:
        yield viewers
    finally:
        await viewers.close()
