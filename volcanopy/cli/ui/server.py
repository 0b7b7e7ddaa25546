"""The web server of the page: documents as JSON, changes as a stream of events, and the files of the page itself.

It listens on one address and answers only requests that name it (or one of the given host names) as their host, so that a
foreign page that resolves to this address gets nothing. It changes jobs only with ``allow_changes``, and then only by a POST
with the token of the page. Who sees what is in :mod:`.viewers`. Nothing that identifies the user is in a URL or in a log.
"""

import asyncio
import errno
import hmac
import ipaddress
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from volcanopy.api.model import Json
from volcanopy.cli.snapshot import read_snapshot
from volcanopy.cli.ui import documents, flow_page, job_changes, questions, queue_history
from volcanopy.cli.ui.cluster_view import ClusterView
from volcanopy.cli.ui.job_page import job_document
from volcanopy.cli.ui.viewers import COOKIE, SharedViewer, Viewer, Viewers, token_viewers, viewing
from volcanopy.client import access
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError, cluster_error
from volcanopy.client.explain.confirmed import UnreadableError, cluster_state
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import ApiError, Forbidden, KubeError, NotFound, Unauthorized
from volcanopy.kube.client.raw_kinds import PODS
from volcanopy.kube.threads import in_thread

ASSETS = resources.files("volcanopy.cli.ui") / "assets"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HEALTH = ("/healthz", "/readyz")
"""Paths that any host name may be used for: their answer is always ``ok``."""
TOKEN_HEADER = "X-Volcanopy-Token"
SIGN_IN, SIGN_OUT = "/api/signin", "/api/signout"
VIEWER = web.RequestKey("viewer", Viewer)
"""Key of a request with its viewer."""
_TOKEN = r"[A-Za-z0-9._~+/=:-]{1,3900}"
"""Bearer tokens (RFC 6750) that fit into a cookie."""
_PERIOD = 1.0
"""Least seconds between two events of a page."""
_AGES = 10.0
"""Seconds after which a document without changes is made again."""
_SILENCE = 15.0
"""Seconds after which an event without news shows that the connection lives."""
_LOG_SILENCE = 3600.0
_REMEDY_SECONDS = {"first": 0.1, "all": 3.0}
"""Work of the search for changes that let a job start: for the first ones, which are shown meanwhile, and for all."""
_BODY = 1024 * 1024
_KEPT = 32
"""Most documents in the cache."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class UiSettings:
    """Settings of the page. ``hosts`` are further host names that requests may use, such as that of an ingress.

    ``require_token``: each user sees and does what the API server allows for the bearer token that they send, instead of what
    it allows for the credentials of the server. ``prometheus`` is the URL of a server that keeps the metrics of the scheduler.
    """

    address: str = "127.0.0.1"
    port: int = 8180
    namespace: str | None = None
    allow_changes: bool = False
    hosts: Sequence[str] = ()
    prometheus: str = ""
    require_token: bool = False


class Page:
    """Handles the requests of the page."""

    def __init__(self, viewers: Viewers, settings: UiSettings) -> None:
        self._viewers, self._settings = viewers, settings
        self._asking = asyncio.Lock()
        self.app = web.Application(middlewares=[self._guard], client_max_size=_BODY)
        self.app.add_routes(
            [
                *(web.get(path, _ok) for path in HEALTH),
                web.get("/", self._asset),
                web.get("/assets/{name}", self._asset),
                web.get("/api/session", self._session),
                web.post(SIGN_IN, self._sign_in),
                web.post(SIGN_OUT, self._sign_out),
                web.get("/api/overview", self._document(lambda view, _: documents.overview(view, current_time()))),
                web.get(
                    "/api/queues",
                    self._document(lambda view, query: documents.queues(view, query.get("resource", ""))),
                ),
                web.get("/api/queues/history", self._history),
                web.get("/api/queue", self._document(_queue)),
                web.get("/api/jobs", self._document(lambda view, query: documents.jobs(view, query, current_time()))),
                web.get("/api/nodes", self._document(lambda view, _: documents.cluster_map(view))),
                web.get("/api/decisions", self._document(lambda view, _: documents.decisions(view, current_time()))),
                web.get("/api/snapshot", self._snapshot),
                web.get("/api/jobs/{namespace}/{name}", self._job),
                web.get("/api/jobs/{namespace}/{name}/logs/{pod}", self._logs),
                web.post("/api/jobs/{namespace}/{name}/{verb}", self._change),
                web.get("/api/flows", self._flows),
                web.get("/api/flows/{namespace}/{name}", self._flow),
                web.post("/api/whatif", self._whatif),
                web.get("/api/changes", self._changes),
            ]
        )

    # Protection

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check host and origin, turn errors into documents, and add the headers of protection."""
        response: web.StreamResponse
        try:
            self._check_host(request)
            if request.path.startswith("/api/") and request.path not in {SIGN_IN, SIGN_OUT}:
                request[VIEWER] = await self._viewers.of(request)
            self._check_origin(request)
            response = await handler(request)
        except web.HTTPException as error:
            response = _error(error.status, error.text or error.reason)
        except CommandError as error:
            response = _error(404 if "not found" in str(error) else 400, str(error))
        except questions.QuestionError as error:
            response = _error(400, str(error))
        except queue_history.HistoryError as error:
            response = _error(502, str(error))
        except Unauthorized:
            response = _error(401, "the API server does not accept this token: sign in again")
        except (UnreadableError, Forbidden) as error:
            response = _error(403, str(cluster_error(error) or error))
        except KubeError as error:
            status = 404 if isinstance(error, NotFound) else error.code if isinstance(error, ApiError) else 502
            response = _error(status, str(cluster_error(error) or error))
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _check_host(self, request: web.Request) -> None:
        """Raise an HTTP error for a foreign host."""
        host = _name_of(request.headers.get("Host", ""))
        if request.path in HEALTH and request.method == "GET":  # a kubelet names the address of the pod
            return
        if not (_is_loopback(host) or host in {*self._settings.hosts, self._settings.address}):
            raise web.HTTPMisdirectedRequest(text=f"unknown host {host!r}: allow it with --host")

    def _check_origin(self, request: web.Request) -> None:
        """Raise an HTTP error for a POST of a foreign origin, or without the token of the page.

        Who signs in or out has no page's token yet. A form of another page cannot send JSON.
        """
        if request.method in {"GET", "HEAD"}:
            return
        origin = request.headers.get("Origin", "")
        if origin.partition("://")[2] not in {"", request.headers.get("Host", "")}:
            raise web.HTTPForbidden(text="requests of other pages are rejected")
        if VIEWER not in request:
            if request.content_type != "application/json":
                raise web.HTTPForbidden(text="the content of the request must be JSON")
        elif not hmac.compare_digest(request.headers.get(TOKEN_HEADER, ""), request[VIEWER].token):
            raise web.HTTPForbidden(text="the page is outdated: reload it")

    # The page itself

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        file = ASSETS / name
        kind = _TYPES.get(f".{name.rpartition('.')[2]}")
        if "/" in name or name.startswith(".") or kind is None or not file.is_file():
            raise web.HTTPNotFound(text=f"no file {name!r}")
        return web.Response(body=file.read_bytes(), content_type=kind, charset="utf-8")

    async def _session(self, request: web.Request) -> web.Response:
        """Return the token of the page, which other pages cannot read, and what this user may do."""
        viewer: Viewer = request[VIEWER]
        client = viewer.client
        namespace = request.query.get("namespace", "") or viewer.namespace or "default"
        view = api_views(client).named(request.query.get("api", ""))
        verbs = await job_changes.allowed(view, namespace) if self._settings.allow_changes else []
        return _json(
            {
                "token": viewer.token,
                "server": client.connection.url,
                "namespace": viewer.namespace,
                "namespaces": viewer.namespaces,
                "user": viewer.user,
                "choosesNamespace": self._settings.require_token and not self._settings.namespace,
                "signsOut": COOKIE in request.cookies,
                "changes": verbs,
                "readsCluster": await access.reads_cluster(client),
                "readOnly": not self._settings.allow_changes,
                "periods": list(queue_history.PERIODS) if self._settings.prometheus else [],
            }
        )

    async def _sign_in(self, request: web.Request) -> web.Response:
        """Keep a token that the API server accepts in a cookie that scripts cannot read."""
        if not self._settings.require_token:
            raise web.HTTPNotFound(text="users need no token: start with --require-token")
        body = await _body_of(request)
        token = str(body.get("token") or "").strip() if isinstance(body, dict) else ""
        if not re.fullmatch(_TOKEN, token):
            raise web.HTTPBadRequest(text="token: give a bearer token of the cluster, of at most 3900 characters")
        await self._viewers.of(request, token)
        response = _json({})
        is_secure = request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"
        response.set_cookie(COOKIE, token, httponly=True, samesite="Strict", secure=is_secure, path="/")
        return response

    async def _sign_out(self, _: web.Request) -> web.Response:
        response = _json({})
        response.del_cookie(COOKIE, path="/")
        return response

    def _document(self, make: Callable[[ClusterView, Mapping[str, str]], Json]) -> Handler:
        """Return the handler of a document; it is not sent again while nothing has changed."""

        def made(viewer: Viewer, request: web.Request, tag: str) -> Json:
            """Return a document, made once for all pages of a viewer that show it."""
            entry = viewer.documents.get(request.path_qs)
            if entry is None or entry[0] != tag:
                if len(viewer.documents) >= _KEPT:
                    viewer.documents.clear()
                entry = viewer.documents[request.path_qs] = (tag, make(viewer.view, request.query))
            return entry[1]

        async def handle(request: web.Request) -> web.Response:
            # Ages in a document are renewed even when nothing changes.
            viewer: Viewer = request[VIEWER]
            tag = f'"{viewer.tag}-{viewer.view.revision}-{int(machine.monotonic() // _AGES)}"'
            fresh = request.headers.get("If-None-Match") == tag
            response = web.Response(status=304) if fresh else _json(made(viewer, request, tag))
            response.headers["ETag"] = tag
            if not fresh:
                response.enable_compression()
            return response

        return handle

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Send an event for each change of the cluster or of what is not up to date, at most one in a second."""
        viewer: Viewer = request[VIEWER]
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        revision, sent, last = 0, "", 0.0
        with suppress(ConnectionError):
            while not viewer.ended.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PERIOD):
                        revision = await viewer.view.change_after(revision)
                missing, forbidden = viewer.view.problems()
                event = json.dumps({"revision": revision, "missing": missing, "forbidden": forbidden})
                if event != sent or machine.monotonic() - last > _SILENCE:
                    sent, last = event, machine.monotonic()
                    await response.write(f"data: {event}\n\n".encode())
                    await asyncio.sleep(_PERIOD)
        return response

    async def _snapshot(self, request: web.Request) -> web.Response:
        """Return the file that ``volcanopy plan`` reads."""
        taken, pieces = await read_snapshot(request[VIEWER].client)
        response = web.Response(text="".join(pieces), content_type="application/json")
        response.headers["Content-Disposition"] = f'attachment; filename="{taken.session}.json"'
        response.enable_compression()
        return response

    async def _history(self, request: web.Request) -> web.Response:
        """Return the amounts of queues over a period, from Prometheus, to those who may list queues."""
        if QUEUES.plural in request[VIEWER].view.missing():
            raise web.HTTPForbidden(text="you may not list queues")
        if not self._settings.prometheus:
            raise web.HTTPNotFound(text="start with --prometheus URL for longer periods")
        period = queue_history.PERIODS.get(request.query.get("period", ""))
        if period is None:
            raise web.HTTPBadRequest(text=f"period: must be one of {', '.join(queue_history.PERIODS)}")
        resource = request.query.get("resource", "cpu")
        return _json(await queue_history.history(self._settings.prometheus, resource, period, current_time()))

    # Jobs

    async def _job(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        seconds = _REMEDY_SECONDS.get(request.query.get("remedies", ""), 0.0)
        return _json(await job_document(request[VIEWER].client, namespace, name, seconds, request.query.get("api", "")))

    async def _flows(self, request: web.Request) -> web.Response:
        viewer: Viewer = request[VIEWER]
        return _json(await flow_page.flow_list(viewer.client, viewer.namespace))

    async def _flow(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        return _json(await flow_page.flow_document(request[VIEWER].client, namespace, name, current_time()))

    async def _change(self, request: web.Request) -> web.Response:
        if not self._settings.allow_changes:
            raise web.HTTPForbidden(text="read only: start with --allow-changes")
        namespace, name, verb = (request.match_info[part] for part in ("namespace", "name", "verb"))
        api = request.query.get("api", "")
        if verb not in job_changes.VERBS:
            raise web.HTTPNotFound(text=f"no action {verb!r}")
        return _json({"message": await job_changes.change(request[VIEWER].client, namespace, name, verb, api)})

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        """Send the log of a container as it grows."""
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        container = request.query.get("container", "")
        query = urlencode({"container": container, "follow": "true", "tailLines": "500"})
        client: Client = request[VIEWER].client
        async with client.stream(f"{PODS.path(namespace, pod, 'log')}?{query}", stall=_LOG_SILENCE) as lines:
            response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/plain; charset=utf-8"})
            await response.prepare(request)
            with suppress(ConnectionError):
                while chunk := await lines.readany():
                    await response.write(chunk)
        return response

    async def _whatif(self, request: web.Request) -> web.Response:
        viewer: Viewer = request[VIEWER]
        body = await _body_of(request)
        question = questions.question_of(body, viewer.namespace or viewer.client.connection.namespace)
        async with self._asking:
            state = await cluster_state(viewer.client)
            return _json(await in_thread(questions.ask, state, question, current_time()))


async def _body_of(request: web.Request) -> Any:
    try:
        return await request.json()
    except ValueError:
        raise web.HTTPBadRequest(text="the request is not valid JSON") from None


def _queue(view: ClusterView, query: Mapping[str, str]) -> Json:
    return documents.queue_page(view, query.get("name", ""), query.get("resource", ""), current_time())


async def _ok(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _json(document: Json) -> web.Response:
    return web.Response(text=json.dumps(document, ensure_ascii=False), content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=json.dumps({"error": message}), content_type="application/json")


def _name_of(host: str) -> str:
    """Return the host of a Host header without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def page_served(client: Client, settings: UiSettings) -> AsyncIterator[str]:
    """Serve the page; yield its address. Raises OSError if the port is in use."""
    async with AsyncExitStack() as stack:
        viewers: Viewers
        if settings.require_token:
            viewers = await stack.enter_async_context(token_viewers(client, settings.namespace))
        else:
            viewers = SharedViewer(await stack.enter_async_context(viewing(client, settings.namespace)))
        runner = web.AppRunner(Page(viewers, settings).app, access_log=None, shutdown_timeout=1.0)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        site = web.TCPSite(runner, settings.address, settings.port)
        await site.start()
        host = f"[{settings.address}]" if ":" in settings.address else settings.address
        yield f"http://{host}:{runner.addresses[0][1]}/"


async def serve(client: Client, settings: UiSettings, stop: asyncio.Event) -> None:
    """Serve the page until ``stop`` is set. Raises CommandError if the address cannot be used, or the port is in use."""
    try:
        async with page_served(client, settings) as url:
            mode = "changes of jobs are allowed" if settings.allow_changes else "read only"
            print(f"The web page is at {url} ({mode}). Stop it with Ctrl-C.", flush=True)
            await stop.wait()
    except OSError as error:
        if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
            text = "must be an address of this machine, such as 127.0.0.1"
            raise CommandError(f"--address {settings.address}: {text}: {error.strerror or error}") from None
        raise CommandError(
            f"--port {settings.port}: {error.strerror or error}: use another, or 0 for a free one"
        ) from None
