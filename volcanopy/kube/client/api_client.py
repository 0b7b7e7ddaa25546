"""The Kubernetes API client: typed verbs over HTTP, with objects decoded by msgspec.

**Behaviour on network failures.** Every call ends within its ``deadline`` (seconds, retries and pauses included) with the
result, an :class:`~volcanopy.kube.client.errors.ApiError` (the server rejected the request) or a
:class:`~volcanopy.kube.client.errors.NoAnswer`; both have ``in_doubt``, which is True when the request may have been
carried out nevertheless.

=====================  =========================================================================================
get, list              Change nothing; retried on lost connections, 429 and 5xx.
update, patch, delete  Retried likewise: idempotent. With a resource version in the body, a retry after a lost
                       response may conflict with its own first attempt: a ``Conflict`` that is ``in_doubt``. A JSON
                       patch (a list of operations) is not retried once it may have been applied.
create                 Retried only when certainly not applied (no connection, 401, 429). After ``NoAnswer`` or a
                       5xx that is ``in_doubt``, look for the object before creating it again; with a fixed name a
                       second create is safe (``AlreadyExists``), with ``generateName`` it makes a second object.
bind                   Retried: the server binds a pod only once. A conflict that may come from the first attempt is
                       resolved by reading the pod. So: it returns = the pod (that uid) is on that node; ``Conflict`` =
                       it is elsewhere or another pod has its name; ``NotFound`` = it is gone; any other error that is
                       ``in_doubt`` = unknown: keep assuming the bind until the watch shows the pod.
=====================  =========================================================================================
"""

from __future__ import annotations

import asyncio
import builtins
import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

import msgspec
from msgspec import Struct

from volcanopy.kube import machine
from volcanopy.kube.client.backoff import Backoff
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.decoding import Listing, Rejected, read_object, read_page
from volcanopy.kube.client.errors import AlreadyExists, Conflict, Gone, NotFound
from volcanopy.kube.client.kinds import Bare, Json, Kind, OwnNames
from volcanopy.kube.client.merge_patch import merge_patch
from volcanopy.kube.client.transport import Clock, Fence, Retry, Sleep, Transport, delete_options, query

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
Body = Mapping[str, Any] | Sequence[Any] | Struct | bytes
"""A request body: a mapping, a struct (a whole object, not a slice of one), or encoded JSON."""
Propagation = Literal["Background", "Foreground", "Orphan"]

DEADLINE = 30.0
PAGE = 2000
"""Objects per page of a list: large enough to be fast, small enough not to block the event loop while decoding."""


class PatchType(enum.Enum):
    """Types of patches, by media type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class _Placement(Struct, rename="camel"):
    node_name: str = ""


class _Placed(Bare):
    spec: _Placement = msgspec.field(default_factory=_Placement)


class Client(OwnNames):
    """A client of one cluster, used from one event loop and closed with ``async with``.

    ``connections`` limits the requests in flight, watches excluded. While ``fence`` returns False, no write is sent and
    NotLeading is raised. ``options`` of a write are further query parameters, such as dryRun. ``rng``, ``sleep`` and
    ``clock`` (monotonic seconds) are injected by tests.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        connections: int = 64,
        field_manager: str = "volcanopy",
        fence: Fence | None = None,
        rng: Random | None = None,
        sleep: Sleep = asyncio.sleep,
        clock: Clock = machine.monotonic,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """``on_warning`` is called with each warning of the server for a request that writes."""
        self.connection = connection
        self._manager = field_manager
        self._transport = Transport(
            connection,
            connections=connections,
            rng=rng or machine.new_random(),
            sleep=sleep,
            clock=clock,
            fence=fence,
            on_warning=on_warning,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; further use opens new ones."""
        await self._transport.close()

    async def get(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        *,
        subresource: str | None = None,
        deadline: float = DEADLINE,
    ) -> T:
        """Read one object. Raises NotFound."""
        return read_object(kind, await self.get_raw(kind.path(namespace, name, subresource), deadline=deadline))

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page: int = PAGE,
        transform: Callable[[T], T] | None = None,
        deadline: float = 120.0,
        page_deadline: float | None = None,
    ) -> Listing[T]:
        """Read all objects, or those of one namespace, at one resource version; ``transform`` makes of each what is returned.

        Read in pages of ``page`` objects (0: in one piece), again in one piece when the version expires between pages (410).
        An object that does not match the type ``T`` is skipped, logged and named in ``rejected``. With ``page_deadline`` each
        page has so many seconds, and ``deadline`` is not used. Of :class:`.kinds.Bare` objects the server sends only metadata.
        """
        give_up = self._transport.clock() + deadline
        items: list[T] = []
        rejected: builtins.list[Rejected[T]] = []
        token = ""
        while True:
            selected = {"labelSelector": label_selector, "fieldSelector": field_selector}
            selection = query(limit=page or "", **selected, **{"continue": token})
            left = page_deadline if page_deadline is not None else give_up - self._transport.clock()
            try:
                path = kind.path(namespace) + selection
                body = await self._transport.send("GET", path, None, "", deadline=left, accept=kind.list_media)
            except Gone:
                if not token:
                    raise
                items, rejected, token, page = [], [], "", 0
                continue
            content = read_page(kind, body, rejected)
            # Each page before the next one is read, which then takes the memory that is free again.
            read = content.items or []
            items += map(transform, read) if transform else read
            token = content.metadata.continue_
            if not token:
                return Listing(items, content.metadata.resource_version, tuple(rejected))

    async def create(
        self,
        kind: Kind[T],
        namespace: str | None,
        body: Body,
        *,
        options: Mapping[str, str] | None = None,
        deadline: float = DEADLINE,
    ) -> T:
        """Create an object. Raises AlreadyExists, Invalid; see the module's table for ``in_doubt``."""
        path = kind.path(namespace) + query(fieldManager=self._manager, **(options or {}))
        return read_object(kind, await self.post_raw(path, body, deadline=deadline))

    async def try_create(
        self, kind: Kind[T], namespace: str | None, body: Body, *, deadline: float = DEADLINE
    ) -> tuple[str, ...]:
        """Create an object with ``dryRun=All`` and return the server's warnings; raises as ``create`` does."""
        path = kind.path(namespace) + query(fieldManager=self._manager, dryRun="All")
        warnings: list[str] = []
        await self._send("POST", path, _bytes(body), deadline, retry=Retry.IF_NOT_APPLIED, warnings=warnings)
        return tuple(warnings)

    async def update(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        body: Body,
        *,
        subresource: str | None = None,
        deadline: float = DEADLINE,
    ) -> T:
        """Replace the whole object; Conflict when it has changed since the version in the body. Never send a slice."""
        path = kind.path(namespace, name, subresource) + query(fieldManager=self._manager)
        return read_object(kind, await self._send("PUT", path, _bytes(body), deadline))

    async def update_status(self, kind: Kind[Json], manifest: Json, status: Json) -> Json:
        """Replace the status of an object as it was read; Conflict when it has changed since."""
        meta, body = manifest["metadata"], kind.with_status(manifest, status)
        subresource = "status" if kind.separate_status else None
        return await self.update(kind, meta.get("namespace"), meta["name"], body, subresource=subresource)

    async def patch(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        patch: Body,
        form: PatchType = PatchType.MERGE,
        *,
        subresource: str | None = None,
        force: bool = False,
        field_manager: str | None = None,
        options: Mapping[str, str] | None = None,
        deadline: float = DEADLINE,
    ) -> T:
        """Patch the object; ``force`` (server-side apply only) takes over fields of other managers."""
        manager, forced = field_manager or self._manager, "true" if force else ""
        path = kind.path(namespace, name, subresource) + query(fieldManager=manager, force=forced, **(options or {}))
        retry = Retry.IF_NOT_APPLIED if form is PatchType.JSON else Retry.ALWAYS
        body = await self._send("PATCH", path, _bytes(patch), deadline, retry=retry, content_type=form.value)
        return read_object(kind, body)

    async def patch_or_create(self, kind: Kind[T], namespace: str, name: str, content: Json) -> T:
        """Merge the content into an object, or create the object with it."""
        try:
            return await self.patch(kind, namespace, name, content)
        except NotFound:
            meta = {"name": name, "namespace": namespace}
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **content}
            try:
                return await self.create(kind, namespace, body)
            except AlreadyExists:
                return await self.patch(kind, namespace, name, content)

    async def patch_status(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        patch: Body,
        form: PatchType = PatchType.MERGE,
        *,
        deadline: float = DEADLINE,
    ) -> T:
        """Patch the object's status (the patch is of the whole object: ``{"status": {...}}``)."""
        subresource = "status" if kind.separate_status else None
        return await self.patch(kind, namespace, name, patch, form, subresource=subresource, deadline=deadline)

    async def update_with_retry(
        self, kind: Kind[T], namespace: str | None, name: str, change: Callable[[T], T | None]
    ) -> T:
        """Read, change, write; start again when the object was written in between.

        ``change`` gets the object and returns it changed (in place if it likes), or None to leave it. The difference is
        sent as a merge patch with the version that was read, so ``T`` may be a slice: fields that it lacks are kept (but
        a list that differs is replaced whole). ``change`` may see its own effect. Returns the resulting object.
        """
        give_up = self._transport.clock() + DEADLINE
        backoff = Backoff(self._transport.rng, 0.01, 1.0)
        while True:
            current = await self.get(kind, namespace, name, deadline=give_up - self._transport.clock())
            version, before = kind.identify(current).version, _plain(current)
            changed = change(current)
            patch = merge_patch(before, _plain(changed)) if changed is not None else {}
            if not patch:
                return current
            patch["metadata"] = {**(patch.get("metadata") or {}), "resourceVersion": version}
            left = give_up - self._transport.clock()
            try:
                return await self.patch(kind, namespace, name, patch, deadline=left)
            except Conflict:
                pause = backoff.next()
                if self._transport.clock() + pause >= give_up:
                    raise
                await self._transport.sleep(pause)

    async def delete(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
        options: Mapping[str, str] | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        """Delete the object: it is gone or terminating (grace period in seconds, finalizers) when this returns.

        Raises NotFound when there was none, Conflict when its ``uid`` or ``resource_version`` differs. Without a ``uid`` a
        retry may delete a successor of the same name.
        """
        path = kind.path(namespace, name) + query(**(options or {}))
        try:
            await self._send("DELETE", path, delete_options(uid, resource_version, propagation, grace), deadline)
        except (NotFound, Conflict) as error:
            if not _is_own_deletion(error, uid):
                raise

    async def delete_collection(
        self,
        kind: Kind[T],
        namespace: str | None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
        deadline: float = 120.0,
    ) -> None:
        """Delete all objects of a namespace (or of a cluster-scoped kind) that match the selectors."""
        if kind.namespaced and not namespace:
            raise ValueError(f"{kind.kind}: a collection is deleted in one namespace, and none is given")
        path = kind.path(namespace) + query(labelSelector=label_selector, fieldSelector=field_selector)
        await self._send("DELETE", path, delete_options("", "", propagation, grace), deadline)

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        """Bind a pod to a node (``pods/binding``); the annotations are added to the pod in the same request.

        With the ``uid`` no other pod of that name can be bound. See the module's table for the errors.
        """
        meta: Json = {"name": pod, "namespace": namespace}
        if uid:
            meta["uid"] = uid
        if annotations:
            meta["annotations"] = annotations
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        try:
            await self._send("POST", _PODS.path(namespace, pod, "binding"), _encode(body), deadline)
        except Conflict as error:
            if not error.in_doubt:
                raise
            current = await self.get(_PODS, namespace, pod, deadline=deadline)
            if current.spec.node_name != node or (uid and current.metadata.uid != uid):
                raise

    async def get_raw(self, path: str, *, deadline: float = DEADLINE) -> bytes:
        """GET any path of the server (with its query, already quoted)."""
        return await self._send("GET", path, None, deadline)

    def stream(self, path: str, *, stall: float) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        """Stream the response to a GET of any path. One attempt; ``stall`` is the longest silence in seconds."""
        return self._transport.stream(path, stall)

    async def websocket(self, path: str, protocol: str) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket to any path, such as a pod's ``attach``. One attempt."""
        return await self._transport.websocket(path, protocol)

    async def post_raw(self, path: str, body: Body, *, deadline: float = DEADLINE) -> bytes:
        """POST to any path; retried as ``create`` is."""
        return await self._send("POST", path, _bytes(body), deadline, retry=Retry.IF_NOT_APPLIED)

    def watch(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: int = 300,
        stall: float = 90.0,
    ) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        """The raw stream of changes since a version, bookmarks included: lines of JSON. One attempt.

        The server ends it after ``timeout`` seconds; ``stall`` is the longest silence.
        :class:`~volcanopy.kube.cache.watch.Reflector` decodes it.
        """
        selection = query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=timeout,
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        return self._transport.stream(kind.path(namespace) + selection, stall)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadline: float,
        *,
        retry: Retry = Retry.ALWAYS,
        content_type: str = "application/json",
        warnings: builtins.list[str] | None = None,
    ) -> bytes:
        media = content_type if body is not None else ""
        return await self._transport.send(method, path, body, media, retry=retry, deadline=deadline, warnings=warnings)


def _is_own_deletion(error: NotFound | Conflict, uid: str) -> bool:
    """Whether an earlier attempt of the same call has deleted the object, so that it is absent or replaced now."""
    return error.in_doubt and (isinstance(error, NotFound) or (bool(uid) and error.of_uid))


_PODS = Kind("", "v1", "Pod", "pods", True, _Placed)
_encode = msgspec.json.encode


def _plain(item: Any) -> Json:
    """Return the object as plain JSON data."""
    return cast("Json", msgspec.json.decode(_encode(item)))


def _bytes(body: Body) -> bytes:
    return body if isinstance(body, bytes) else _encode(body)
