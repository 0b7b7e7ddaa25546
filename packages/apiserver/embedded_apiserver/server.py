"""The embedded API server: an HTTP listener in front of the store, and the tasks that run beside it."""

import asyncio
import base64
import contextlib
import gc
import json
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Self
from urllib.parse import parse_qsl

import structlog
import yaml

from embedded_apiserver.bootstrap import create_missing_objects
from embedded_apiserver.connections import Answer, Listener, Request, Response
from embedded_apiserver.context import ADMIN, Call, Clock, Context, LogSource, Measurement, User, utc_now
from embedded_apiserver.crud.connect import attach, execute, forward_ports
from embedded_apiserver.crud.custom_resources import CustomResources, definition_kind
from embedded_apiserver.crud.delete import delete, delete_collection
from embedded_apiserver.crud.event_expiry import expire_events
from embedded_apiserver.crud.garbage_collector import Collector
from embedded_apiserver.crud.get import get, list_objects
from embedded_apiserver.crud.metrics import GROUP as METRICS
from embedded_apiserver.crud.metrics import metrics_kinds, read_metrics
from embedded_apiserver.crud.patch import APPLY, patch
from embedded_apiserver.crud.quotas import Quotas
from embedded_apiserver.crud.subresources import bind, evict, finalize, logs, scale
from embedded_apiserver.crud.watch import watch
from embedded_apiserver.crud.write import create, update
from embedded_apiserver.http.access_reviews import review
from embedded_apiserver.http.authorization import Authorizer, create_missing_roles
from embedded_apiserver.http.discovery import Discovery, version_info
from embedded_apiserver.http.identity import Identities
from embedded_apiserver.http.token_requests import IssuedTokens
from embedded_apiserver.kinds.builtin import builtin_kinds
from embedded_apiserver.kinds.registry import Registry, Target
from embedded_apiserver.schema.metadata_validation import unsupported
from embedded_apiserver.status_errors import ApiError, bad_request, internal, invalid, method_not_allowed, no_such_page
from embedded_apiserver.store.journal import Journal, open_journal
from embedded_apiserver.store.object_store import HISTORY, Body, Store, encode
from embedded_apiserver.webhooks.calls import Webhooks
from embedded_apiserver.wire.representation import failure, respond

log = structlog.get_logger(__name__)

Handler = Callable[[Context, Call], Awaitable[Answer]]
_OPTIONS = {"PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_TEXT = "text/plain; charset=utf-8"
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_REVIEWS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
_SUBRESOURCES: dict[str, tuple[Handler, frozenset[str]]] = {
    "binding": (bind, frozenset({"POST"})),
    "eviction": (evict, frozenset({"POST"})),
    "log": (logs, frozenset({"GET"})),
    "exec": (execute, frozenset({"GET", "POST"})),
    "attach": (attach, frozenset({"GET", "POST"})),
    "portforward": (forward_ports, frozenset({"GET", "POST"})),
    "scale": (scale, frozenset({"GET", "PUT", "PATCH"})),
    "finalize": (finalize, frozenset({"PUT"})),
}


@dataclass(frozen=True, slots=True)
class Tls:
    """A server's TLS context, and the CA certificate that clients must trust (PEM)."""

    context: ssl.SSLContext
    ca: str

    @property
    def ca_base64(self) -> str:
        """The CA as kubeconfigs and webhook configurations contain it."""
        return base64.b64encode(self.ca.encode()).decode()


def no_log(_pod: Mapping[str, Any], container: str, _query: Mapping[str, str]) -> bytes:
    """The container log of a cluster without container runtime: one line."""
    return f"no log: nothing runs container {container} in this cluster\n".encode()


class ApiServer:
    """A running server, of `start` until `stop`."""

    def __init__(
        self, ctx: Context, identities: Identities, tls: Tls | None, webhooks: Webhooks, collector: Collector
    ) -> None:
        self.context = ctx
        self._webhooks, self._collector = webhooks, collector
        self.url = ""
        self._identities = identities
        self._tls = tls
        self._discovery = Discovery(ctx)
        self._version = encode(version_info(ctx))
        self._listeners = [Listener(self._handle)]
        self._tasks: list[asyncio.Task[None]] = []
        self._journal: Journal | None = None

    @classmethod
    async def start(
        cls,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        persist: Path | None = None,
        repair: bool = False,
        fsync: bool = False,
        log_source: LogSource = no_log,
        service_addresses: Mapping[str, str] | None = None,
        users: Mapping[str, User] | None = None,
        history: int = HISTORY,
        default_scheduler: str = "",
        rbac: bool = False,
        clock: Clock = utc_now,
        rng: Random | None = None,
    ) -> Self:
        """Listen on `host:port` (0 chooses a free port) and serve a cluster.

        `tls` turns on HTTPS, and then every request needs a token: the one in `kubeconfig()`, or
        one of `users` (token to user). `persist` names the file that keeps the objects across restarts; `repair` keeps what
        precedes a damaged record in it, `fsync` forces every change to the disk. `log_source` answers
        `kubectl logs`. `service_addresses` maps `namespace/name` or `namespace/name:port` of webhook services to `host:port`.
        `default_scheduler` is the scheduler of pods that name none.
        `history` is how many events of each kind can still be watched; older watches are answered 410.
        `rbac` enforces the rights that roles give: then every request needs a token, too.
        `clock` and `rng` (for uids and generated names) are injected by tests.

        Raises OSError if the address is taken, JournalError if the file is damaged.
        """
        # A full collection walks every stored object; the stored objects hold no cycles.
        if gc.get_threshold()[0] < 50_000:
            gc.set_threshold(50_000, 50, 100)
        store = Store(history)
        registry = Registry([*builtin_kinds(), definition_kind()])
        ctx = Context(store, registry, log_source, service_addresses or {}, clock, rng or Random())
        journal = open_journal(persist, store, repair=repair, fsync=fsync) if persist is not None else None
        ctx.webhooks = webhooks = Webhooks(ctx)
        ctx.check_quota = Quotas(ctx).check
        ctx.default_scheduler = default_scheduler
        customs = CustomResources(ctx)
        collector = Collector(ctx)
        ctx.owner_leaving, ctx.namespace_ending = collector.owner_leaving, collector.namespace_ending
        customs.resume()
        collector.resume()
        create_missing_objects(ctx)
        token = secrets.token_urlsafe(24)
        if rbac:
            create_missing_roles(ctx)
        identities = Identities(
            token, users or {}, Authorizer(store, enforced=rbac), IssuedTokens(ctx), required=tls is not None or rbac
        )
        server = cls(ctx, identities, tls, webhooks, collector)
        server._journal = journal
        await server._listen(host, port)
        return server

    async def _listen(self, host: str, port: int) -> None:
        for name, work in (("collector", self._collector.run()), ("expiry of events", expire_events(self.context))):
            self._tasks.append(asyncio.create_task(work, name=name))
            self._tasks[-1].add_done_callback(_warn_if_ended)
        try:
            bound = await self._listeners[0].start(host, port, self._tls.context if self._tls is not None else None)
        except OSError:
            await self.stop()
            raise
        self.url = f"{'https' if self._tls else 'http'}://{host}:{bound}"

    async def listen_too(self, host: str, tls: Tls) -> int:
        """Serve the same by HTTPS, to clients with a token only, on one more port, which it returns. Raises OSError."""
        listener = Listener(partial(self._answer, identities=self._identities.requiring_tokens()))
        self._listeners.append(listener)
        return await listener.start(host, 0, tls.context)

    def serve_metrics(self, usage: Callable[[], Awaitable[Measurement]]) -> None:
        """Serve `metrics.k8s.io` with what this function measures."""
        self.context.usage = usage
        for kind in metrics_kinds():
            self.context.registry.add(kind)

    async def stop(self) -> None:
        """End every watch, close the listener and the file."""
        ctx = self.context
        ctx.stopping.set()
        for stream in list(ctx.streams):
            stream.set()
        await asyncio.gather(*(listener.stop(grace=2.0) for listener in self._listeners))
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._webhooks.close()
        if self._journal is not None:
            self._journal.close()

    @property
    def ca_pem(self) -> str:
        """The CA that clients must trust; empty without TLS."""
        return self._tls.ca if self._tls is not None else ""

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._identities.admin_token

    def kubeconfig(self, name: str = "embedded") -> str:
        """A kubeconfig (YAML text) that makes its reader the administrator of this cluster."""
        cluster: dict[str, Any] = {"server": self.url}
        if self._tls is not None:
            cluster["certificate-authority-data"] = self._tls.ca_base64
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": cluster}],
                "users": [{"name": name, "user": {"token": self.token}}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
                "current-context": name,
            },
            sort_keys=False,
        )

    async def apply(self, manifest: Body) -> Body:
        """Create or change an object of any kind as the administrator, by server-side apply; return it. Raises ApiError."""
        metadata = manifest.get("metadata") or {}
        kind = self.context.registry.named(str(manifest.get("apiVersion")), str(manifest.get("kind")))
        if kind is None:
            raise bad_request(f"kind {manifest.get('kind')} of {manifest.get('apiVersion')} is not served")
        if not metadata.get("name"):
            raise bad_request(f"{kind.kind}: metadata.name: Required value")
        namespace = metadata.get("namespace") or "default" if kind.namespaced else ""
        headers = [(b"content-type", APPLY.encode())]
        request = Request(None, "PATCH", "", headers, encode(manifest), keep_alive=False)  # type: ignore[arg-type]  # streams nothing
        target = Target(kind, namespace, metadata["name"], "")
        call = self._call(request, target, "fieldManager=embedded-apiserver&force=true&fieldValidation=Strict", ADMIN)
        response = await patch(self.context, call)
        applied: Body = json.loads(response.body)
        return applied

    async def _handle(self, request: Request) -> Answer:
        return await self._answer(request, self._identities)

    async def _answer(self, request: Request, identities: Identities) -> Answer:
        """Answer one request; an error becomes a Status."""
        call: Call | None = None
        try:
            path, _, query = request.target.partition("?")
            target = self.context.registry.locate(path)
            if target is None:
                return self._page(path, request, identities)
            call = self._call(request, target, query, identities.user_of(request))
            identities.authorizer.check(call)
            return await self._dispatch(call)
        except ApiError as error:
            return failure(error, call.warnings if call is not None else ())
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            log.exception("request failed", method=request.method, target=request.target)
            return failure(internal(f"{type(error).__name__}: {error}"))

    def _call(self, request: Request, target: Target, query: str, user: User) -> Call:
        method = request.method
        call = Call(
            request,
            method,
            target.kind,
            target.namespace,
            target.name,
            target.subresource,
            dict(parse_qsl(query, keep_blank_values=True)) if query else {},
            user,
        )
        if method not in {"GET", "HEAD"}:
            call.raw = request.body
            if call.query.get("dryRun", "All") != "All":
                fault = unsupported("dryRun", [call.query["dryRun"]], ("All",))
                raise invalid(_OPTIONS.get(method, "CreateOptions"), "meta.k8s.io", "", [fault])
        return call

    async def _dispatch(self, call: Call) -> Answer:
        ctx, method, kind = self.context, call.method, call.kind
        if call.subresource:
            return await self._subresource(call)
        if kind.group == METRICS and ctx.usage is not None:
            return await read_metrics(ctx, call)
        if call.name:
            if method == "GET":
                return await watch(ctx, call) if call.flag("watch") else get(ctx, call)
            handler = {"PUT": update, "PATCH": patch, "DELETE": delete}.get(method)
            if handler is None or kind.group in _REVIEWS:
                raise method_not_allowed()
            return await handler(ctx, call)
        if kind.group in _REVIEWS:
            if method != "POST":
                raise method_not_allowed()
            return review(ctx, call, self._identities)
        if method == "GET":
            return await watch(ctx, call) if call.flag("watch") else list_objects(ctx, call)
        if method == "POST":
            return await create(ctx, call)
        if method == "DELETE" and "deletecollection" in kind.verbs:
            return await delete_collection(ctx, call)
        raise method_not_allowed()

    async def _subresource(self, call: Call) -> Answer:
        ctx, name = self.context, call.subresource
        if name not in call.kind.subresources:
            raise no_such_page()
        if name == "status":
            if call.method == "GET":
                return get(ctx, call)
            handler = {"PUT": update, "PATCH": patch}.get(call.method)
            if handler is None:
                raise method_not_allowed()
            return await handler(ctx, call)
        if name == "token":
            if call.method != "POST":
                raise method_not_allowed()
            return self._identities.issued.issue(call)
        handle, methods = _SUBRESOURCES[name]
        if call.method not in methods:
            raise method_not_allowed()
        return await handle(ctx, call)

    def _page(self, path: str, request: Request, identities: Identities) -> Answer:
        """What is not an object: health, version, discovery."""
        if path.rstrip("/") in _HEALTH or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return Response(b"ok", content_type=_TEXT)
        user = identities.user_of(request)
        identities.authorizer.check_page(user, request.method, path)
        if request.method != "GET":
            raise no_such_page()
        if path.rstrip("/") == "/version":
            return respond(self._version)
        if path == "/openapi/v2":
            response = self._discovery.openapi_v2(request.header("accept") or "")
        elif path.startswith("/openapi/v3"):
            response = self._discovery.openapi(path)
        else:
            response = self._discovery.page(path)
        if response is None:
            if self.context.registry.has_version(path):
                raise no_such_page()
            return Response(b"404 page not found\n", 404, _TEXT)
        return response


def _warn_if_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.critical("background task ended", task=task.get_name(), exc_info=task.exception())
