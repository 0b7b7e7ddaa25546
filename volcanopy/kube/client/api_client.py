"""The one client of the Kubernetes API: typed verbs over aiohttp, with objects decoded by msgspec.

**What a caller may rely on when the network fails.** Every call ends within its ``deadline`` (seconds, repetitions and
pauses included) with the result, an :class:`~volcanopy.kube.client.errors.ApiError` (the server said no) or a
:class:`~volcanopy.kube.client.errors.NoAnswer`; both have ``in_doubt``, which is True when the request may have been carried
out nevertheless.

=====================  =========================================================================================
get, list              Change nothing; repeated on lost connections, 429 and 5xx.
update, patch, delete  Repeated likewise: carried out twice they leave what once leaves. With a resource version in
                       the body, a repetition after a lost answer may meet its own effect: a ``Conflict`` that is
                       ``in_doubt``. A JSON patch (a list of operations) is not repeated once it may have been done.
create                 Sent again only when certainly not carried out (no connection, 401, 429). After ``NoAnswer`` or a
                       5xx that is ``in_doubt``, look for the object before creating it again; with a fixed name a
                       second create is safe (``AlreadyExists``), with ``generateName`` it makes a second object.
bind                   Repeated: the server binds a pod once only. A refusal that may come from our own first attempt is
                       settled by reading the pod. So: it returns = the pod (that uid) is on that node; ``Conflict`` =
                       it is elsewhere or another pod has its name; ``NotFound`` = it is gone; any other error that is
                       ``in_doubt`` = unknown: go on assuming the bind until the watch tells.
evict                  Repeated; a pod already going is not charged to its disruption budget twice.
                       ``TooManyRequests`` = the budget allows none now (this is not repeated).
=====================  =========================================================================================
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import aiohttp
import msgspec
from msgspec import Raw, Struct

from volcanopy.kube.client.backoff import Backoff
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.decoding import Listing, read_object, read_page
from volcanopy.kube.client.errors import Conflict, Gone, NotFound
from volcanopy.kube.client.kinds import Bare, Json, Kind
from volcanopy.kube.client.merge_patch import merge_patch
from volcanopy.kube.client.query_parameters import delete_options as _delete_options
from volcanopy.kube.client.query_parameters import query as _query
from volcanopy.kube.client.transport import Clock, Fence, Retry, Sleep, Transport

__all__ = ["Body", "Client", "Json", "Kind", "Listing", "Patch", "Propagation"]

T = TypeVar("T")
Body = Mapping[str, Any] | Sequence[Any] | Struct | bytes
"""What can be sent: a mapping, a struct (only a whole one, if it is to be an object), or JSON bytes as they are."""
Propagation = Literal["Background", "Foreground", "Orphan"]

DEADLINE = 30.0
PAGE = 2000
"""Objects per page of a list: large enough to be quick, small enough not to hold up everything else while decoding."""


class Patch(enum.Enum):
    """The forms of a patch, by their media types."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class _Placement(Struct, rename="camel"):
    node_name: str = ""


class _Placed(Bare):
    spec: _Placement = msgspec.field(default_factory=_Placement)


class Client:
    """Talks to one cluster; to be used from one event loop, and closed (``async with``).

    ``connections`` bounds the requests in flight; watches come on top. What would change something while ``fence`` says
    no is not sent: NotLeading is raised. ``options`` of a change are further parameters, such as dryRun. ``rng``,
    ``sleep`` and ``clock`` (monotonic seconds) are there for tests.
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
        clock: Clock = time.monotonic,
    ) -> None:
        self.connection = connection
        self._manager = field_manager
        self._transport = Transport(
            connection, connections=connections, rng=rng or Random(), sleep=sleep, clock=clock, fence=fence
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. The client opens new ones if it is used again."""
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
        body = await self._transport.send(
            "GET", kind.path(namespace, name, subresource), None, "", again=Retry.ALWAYS, deadline=deadline
        )
        return read_object(kind, body)

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page: int = PAGE,
        deadline: float = 120.0,
    ) -> Listing[T]:
        """Read all objects, or those in one namespace, as they are at one moment.

        Read in pages of ``page`` objects (0: in one piece). When the moment is too long past for the next page (410),
        the list is read again in one piece. An object that does not have the shape of ``T`` is left out, logged and
        named in ``rejected``.
        """
        give_up = self._transport.clock() + deadline
        items: list[T] = []
        rejected: list[str] = []
        onward = ""
        while True:
            query = _query(
                labelSelector=label_selector, fieldSelector=field_selector, limit=page or "", **{"continue": onward}
            )
            left = give_up - self._transport.clock()
            try:
                body = await self._transport.send(
                    "GET", kind.path(namespace) + query, None, "", again=Retry.ALWAYS, deadline=left
                )
            except Gone:
                if not onward:
                    raise
                items, rejected, onward, page = [], [], "", 0
                continue
            got = read_page(kind, body, rejected)
            items = items + (got.items or []) if items else (got.items or [])
            onward = got.metadata.continue_
            if not onward:
                return Listing(items, got.metadata.resource_version, tuple(rejected))

    async def create(
        self,
        kind: Kind[T],
        namespace: str | None,
        body: Body,
        *,
        options: Mapping[str, str] | None = None,
        deadline: float = DEADLINE,
    ) -> T:
        """Create an object. Raises AlreadyExists, Invalid; what happens in doubt is said at the head of this module."""
        path = kind.path(namespace) + _query(fieldManager=self._manager, **(options or {}))
        return read_object(
            kind,
            await self._transport.send(
                "POST", path, _bytes(body), _JSON, again=Retry.IF_NOT_APPLIED, deadline=deadline
            ),
        )

    async def try_create(
        self, kind: Kind[T], namespace: str | None, body: Body, *, deadline: float = DEADLINE
    ) -> tuple[str, ...]:
        """What the server warns of when it is asked to create an object without keeping it; raises as ``create`` does."""
        path = kind.path(namespace) + _query(fieldManager=self._manager, dryRun="All")
        warnings: list[str] = []
        await self._transport.send(
            "POST", path, _bytes(body), _JSON, again=Retry.IF_NOT_APPLIED, deadline=deadline, warnings=warnings
        )
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
        path = kind.path(namespace, name, subresource) + _query(fieldManager=self._manager)
        return read_object(
            kind, await self._transport.send("PUT", path, _bytes(body), _JSON, again=Retry.ALWAYS, deadline=deadline)
        )

    async def update_status(
        self, kind: Kind[T], namespace: str | None, name: str, body: Body, *, deadline: float = DEADLINE
    ) -> T:
        """Replace the object's status."""
        return await self.update(kind, namespace, name, body, subresource="status", deadline=deadline)

    async def patch(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        patch: Body,
        form: Patch = Patch.MERGE,
        *,
        subresource: str | None = None,
        force: bool = False,
        field_manager: str | None = None,
        options: Mapping[str, str] | None = None,
        deadline: float = DEADLINE,
    ) -> T:
        """Change a part of the object; ``force`` (server-side apply only) takes fields over from other managers."""
        manager, forced = field_manager or self._manager, "true" if force else ""
        path = kind.path(namespace, name, subresource) + _query(fieldManager=manager, force=forced, **(options or {}))
        again = Retry.IF_NOT_APPLIED if form is Patch.JSON else Retry.ALWAYS
        return read_object(
            kind, await self._transport.send("PATCH", path, _bytes(patch), form.value, again=again, deadline=deadline)
        )

    async def patch_status(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        patch: Body,
        form: Patch = Patch.MERGE,
        *,
        deadline: float = DEADLINE,
    ) -> T:
        """Change a part of the object's status (the patch is of the whole object: ``{"status": {...}}``)."""
        return await self.patch(kind, namespace, name, patch, form, subresource="status", deadline=deadline)

    async def update_with_retry(
        self,
        kind: Kind[T],
        namespace: str | None,
        name: str,
        change: Callable[[T], T | None],
        *,
        subresource: str | None = None,
        deadline: float = DEADLINE,
    ) -> T:
        """Read, change, write; again from the start when somebody wrote in between.

        ``change`` gets the object and returns it changed (it may be changed in place), or None to leave it. What differs
        is sent as a merge patch on condition of the version read, so a slice is as good as a whole object: fields that
        ``T`` does not have stay as they are (but a list that differs is replaced whole). ``change`` may meet its own
        effect. Returns the object as it is then.
        """
        give_up = self._transport.clock() + deadline
        backoff = Backoff(self._transport.rng, 0.01, 1.0)
        while True:
            found = await self.get(kind, namespace, name, deadline=give_up - self._transport.clock())
            version, before = kind.identify(found).version, _plain(found)
            wanted = change(found)
            patch = merge_patch(before, _plain(wanted)) if wanted is not None else {}
            if not patch:
                return found
            patch["metadata"] = {**(patch.get("metadata") or {}), "resourceVersion": version}
            left = give_up - self._transport.clock()
            try:
                return await self.patch(kind, namespace, name, patch, subresource=subresource, deadline=left)
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
        """Ask for the object's end: it is gone, or on its way (grace period in seconds, finalizers), when this returns.

        Raises NotFound when it was not there, Conflict when it is not the one of this ``uid`` or ``resource_version``.
        Without a ``uid`` a repetition may hit a successor of the same name.
        """
        said = _delete_options(uid, resource_version, propagation, grace)
        try:
            await self._transport.send(
                "DELETE",
                kind.path(namespace, name) + _query(**(options or {})),
                said,
                _JSON if said else "",
                again=Retry.ALWAYS,
                deadline=deadline,
            )
        except (NotFound, Conflict) as refusal:
            # After an unseen first attempt, "not there" is what we wanted, and so is "there is another one now".
            if not refusal.in_doubt or (isinstance(refusal, Conflict) and not uid):
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
        """Ask for the end of all objects of a namespace (or of a cluster-scoped kind) that the selectors choose."""
        if kind.namespaced and not namespace:
            raise ValueError(f"{kind.kind}: a collection is deleted in one namespace, and none is given")
        path = kind.path(namespace) + _query(labelSelector=label_selector, fieldSelector=field_selector)
        options = _delete_options("", "", propagation, grace)
        await self._transport.send(
            "DELETE", path, options, _JSON if options else "", again=Retry.ALWAYS, deadline=deadline
        )

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
        """Put a pod on a node (``pods/binding``); the annotations are added to the pod in the same step.

        Give the ``uid``: then it is this pod or none. The contract is said at the head of this module.
        """
        meta: Json = {"name": pod, "namespace": namespace}
        if uid:
            meta["uid"] = uid
        if annotations:
            meta["annotations"] = annotations
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        path = _PODS.path(namespace, pod, "binding")
        try:
            await self._transport.send("POST", path, _encode(body), _JSON, again=Retry.ALWAYS, deadline=deadline)
        except Conflict as refusal:
            if not refusal.in_doubt:
                raise
            found = await self.get(_PODS, namespace, pod, deadline=deadline)
            if found.spec.node_name != node or (uid and found.metadata.uid != uid):
                raise

    async def evict(
        self, namespace: str, pod: str, *, uid: str = "", grace: int | None = None, deadline: float = DEADLINE
    ) -> None:
        """Ask for a pod's end where its disruption budgets allow it (``pods/eviction``).

        Raises TooManyRequests when a budget does not, NotFound, Conflict when it is not the one of this ``uid``.
        """
        body: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        options = _delete_options(uid, "", None, grace)
        if options:
            body["deleteOptions"] = Raw(options)
        path = _PODS.path(namespace, pod, "eviction")
        try:
            await self._transport.send("POST", path, _encode(body), _JSON, again=Retry.ALWAYS, deadline=deadline)
        except (NotFound, Conflict) as refusal:
            if not refusal.in_doubt or (isinstance(refusal, Conflict) and not uid):
                raise

    async def get_raw(self, path: str, *, deadline: float = DEADLINE) -> bytes:
        """GET any path (with its query, already quoted) of the server."""
        return await self._transport.send("GET", path, None, "", again=Retry.ALWAYS, deadline=deadline)

    def stream(self, path: str, *, stall: float) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        """The answer to a GET of any path, as it comes. One attempt; ``stall`` is the longest silence in seconds."""
        return self._transport.stream(path, stall)

    async def post_raw(self, path: str, body: Body, *, deadline: float = DEADLINE) -> bytes:
        """POST to any path; repeated as ``create`` is."""
        return await self._transport.send(
            "POST", path, _bytes(body), _JSON, again=Retry.IF_NOT_APPLIED, deadline=deadline
        )

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
        :class:`~volcanopy.kube.cache.watch.Reflector` makes something usable of it.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=timeout,
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        return self._transport.stream(kind.path(namespace) + query, stall)


_JSON = "application/json"
_PODS = Kind("", "v1", "Pod", "pods", True, _Placed)
_encode = msgspec.json.encode


def _plain(item: Any) -> Json:
    """A copy of an object as the JSON that it stands for."""
    plain: Json = msgspec.json.decode(_encode(item))
    return plain


def _bytes(body: Body) -> bytes:
    return body if isinstance(body, bytes) else _encode(body)
