"""The web server of the page: documents as JSON, changes as a stream of events, and the files of the page itself.

It listens on one address and answers only requests that name it (or one of the given host names) as their host, so that a
foreign page that resolves to this address gets nothing. It changes jobs only with ``allow_changes``, and then only by a POST
with the token of the page. Nothing that identifies the user is in a URL or in a log.
"""

import asyncio
import errno
import hmac
import ipaddress
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
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
from volcanopy.cli.ui.timings import Source, Timings
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError, cluster_error
from volcanopy.client.explain.confirmed import UnreadableError, cluster_state
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import ApiError, Forbidden, KubeError, NotFound
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
_PERIOD = 1.0
"""Least seconds between two events of a page."""
_AGES = 10.0
"""Seconds after which a document without changes is made again."""
_SILENCE = 15.0
"""Seconds after which an event without news shows that the connection lives."""
_LOG_SILENCE = 3600.0
_REMEDY_SECONDS = 3.0
_BODY = 1024 * 1024
_KEPT = 32
"""Most documents in the cache."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class UiSettings:
    """Settings of the page. ``hosts`` are further host names that requests may use, such as that of an ingress.

    ``metrics`` reads the metrics of the scheduler, if they can be read; ``prometheus`` is the URL of a server that keeps
    them.
    """

    address: str = "127.0.0.1"
    port: int = 8180
    namespace: str | None = None
    allow_changes: bool = False
    hosts: Sequence[str] = ()
    metrics: Source | None = None
    prometheus: str = ""


class Page:
    """Handles the requests of the page."""

    def __init__(self, client: Client, view: ClusterView, settings: UiSettings) -> None:
        self._client, self._view, self._settings = client, view, settings
        self._token = machine.token(16)
        self._asking = asyncio.Lock()
        self._measured = Timings(settings.metrics, machine.monotonic)
        self._documents: dict[str, tuple[str, Json]] = {}
        self.app = web.Application(middlewares=[self._guard], client_max_size=_BODY)
        self.app.add_routes(
            [
                *(web.get(path, _ok) for path in HEALTH),
                web.get("/", self._asset),
                web.get("/assets/{name}", self._asset),
                web.get("/api/session", self._session),
                web.get("/api/overview", self._document(lambda _: documents.overview(view, current_time()))),
                web.get("/api/queues", self._document(lambda query: documents.queues(view, query.get("resource", "")))),
                web.get("/api/queues/history", self._history),
                web.get("/api/queue", self._document(self._queue)),
                web.get("/api/jobs", self._document(lambda query: documents.jobs(view, query, current_time()))),
                web.get("/api/nodes", self._document(lambda _: documents.cluster_map(view))),
                web.get("/api/decisions", self._document(lambda _: documents.decisions(view, current_time()))),
                web.get("/api/timings", self._timings),
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
            self._check(request)
            response = await handler(request)
        except web.HTTPException as error:
            response = _error(error.status, error.text or error.reason)
        except CommandError as error:
            response = _error(404 if "not found" in str(error) else 400, str(error))
        except questions.QuestionError as error:
            response = _error(400, str(error))
        except queue_history.HistoryError as error:
            response = _error(502, str(error))
        except (UnreadableError, Forbidden) as error:
            response = _error(403, str(cluster_error(error) or error))
        except KubeError as error:
            status = 404 if isinstance(error, NotFound) else error.code if isinstance(error, ApiError) else 502
            response = _error(status, str(cluster_error(error) or error))
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _check(self, request: web.Request) -> None:
        """Raise an HTTP error for a foreign host or origin, and for a POST without the token."""
        host = _name_of(request.headers.get("Host", ""))
        if request.path in HEALTH and request.method == "GET":  # a kubelet names the address of the pod
            return
        if not (_is_loopback(host) or host in {*self._settings.hosts, self._settings.address}):
            raise web.HTTPMisdirectedRequest(text=f"unknown host {host!r}: allow it with --host")
        if request.method in {"GET", "HEAD"}:
            return
        origin = request.headers.get("Origin", "")
        if origin.partition("://")[2] not in {"", request.headers.get("Host", "")}:
            raise web.HTTPForbidden(text="requests of other pages are rejected")
        if not hmac.compare_digest(request.headers.get(TOKEN_HEADER, ""), self._token):
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
        namespace = request.query.get("namespace", "") or self._settings.namespace or "default"
        view = api_views(self._client).named(request.query.get("api", ""))
        verbs = await job_changes.allowed(view, namespace) if self._settings.allow_changes else []
        return _json(
            {
                "token": self._token,
                "server": self._client.connection.url,
                "namespace": self._settings.namespace,
                "changes": verbs,
                "readOnly": not self._settings.allow_changes,
                "periods": list(queue_history.PERIODS) if self._settings.prometheus else [],
            }
        )

    def _queue(self, query: Mapping[str, str]) -> Json:
        name, resource = query.get("name", ""), query.get("resource", "")
        return documents.queue_page(self._view, name, resource, current_time())

    def _document(self, make: Callable[[Any], Json]) -> Handler:
        """Return the handler of a document; it is not sent again while nothing has changed."""

        async def handle(request: web.Request) -> web.Response:
            # Ages in a document are renewed even when nothing changes.
            tag = f'"{self._view.revision}-{int(machine.monotonic() // _AGES)}"'
            fresh = request.headers.get("If-None-Match") == tag
            response = web.Response(status=304) if fresh else _json(self._made(request, tag, make))
            response.headers["ETag"] = tag
            if not fresh:
                response.enable_compression()
            return response

        return handle

    def _made(self, request: web.Request, tag: str, make: Callable[[Any], Json]) -> Json:
        """Return a document, made once for all pages that show it."""
        known = self._documents.get(request.path_qs)
        if known is None or known[0] != tag:
            if len(self._documents) >= _KEPT:
                self._documents.clear()
            known = self._documents[request.path_qs] = (tag, make(request.query))
        return known[1]

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Send an event for each change of the cluster or of what is not up to date, at most one in a second."""
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        revision, sent, last = 0, "", 0.0
        with suppress(ConnectionError):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PERIOD):
                        revision = await self._view.change_after(revision)
                event = json.dumps({"revision": revision, "missing": _problems(self._view)})
                if event != sent or machine.monotonic() - last > _SILENCE:
                    sent, last = event, machine.monotonic()
                    await response.write(f"data: {event}\n\n".encode())
                    await asyncio.sleep(_PERIOD)
        return response

    async def _timings(self, _: web.Request) -> web.Response:
        return _json(await self._measured.document())

    async def _snapshot(self, _: web.Request) -> web.Response:
        """Return the file that ``volcanopy plan`` reads."""
        taken, pieces = await read_snapshot(self._client)
        response = web.Response(text="".join(pieces), content_type="application/json")
        response.headers["Content-Disposition"] = f'attachment; filename="{taken.session}.json"'
        response.enable_compression()
        return response

    async def _history(self, request: web.Request) -> web.Response:
        """Return the amounts of queues over a period, from Prometheus."""
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
        seconds = _REMEDY_SECONDS if request.query.get("remedies") else 0.0
        return _json(await job_document(self._client, namespace, name, seconds, request.query.get("api", "")))

    async def _flows(self, _: web.Request) -> web.Response:
        return _json(await flow_page.flow_list(self._client, self._settings.namespace))

    async def _flow(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        return _json(await flow_page.flow_document(self._client, namespace, name, current_time()))

    async def _change(self, request: web.Request) -> web.Response:
        if not self._settings.allow_changes:
            raise web.HTTPForbidden(text="read only: start with --allow-changes")
        namespace, name, verb = (request.match_info[part] for part in ("namespace", "name", "verb"))
        api = request.query.get("api", "")
        if verb not in job_changes.VERBS:
            raise web.HTTPNotFound(text=f"no action {verb!r}")
        return _json({"message": await job_changes.change(self._client, namespace, name, verb, api)})

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        """Send the log of a container as it grows."""
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        container = request.query.get("container", "")
        query = urlencode({"container": container, "follow": "true", "tailLines": "500"})
        async with self._client.stream(f"{PODS.path(namespace, pod, 'log')}?{query}", stall=_LOG_SILENCE) as lines:
            response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/plain; charset=utf-8"})
            await response.prepare(request)
            with suppress(ConnectionError):
                while chunk := await lines.readany():
                    await response.write(chunk)
        return response

    async def _whatif(self, request: web.Request) -> web.Response:
        try:
            body = await request.json()
        except ValueError:
            raise web.HTTPBadRequest(text="the question is not valid JSON") from None
        question = questions.question_of(body, self._settings.namespace or self._client.connection.namespace)
        async with self._asking:
            state = await cluster_state(self._client)
            return _json(await in_thread(questions.ask, state, question, current_time()))


def _problems(view: ClusterView) -> list[str]:
    """Return why kinds are not up to date, each reason once."""
    kinds: dict[str, list[str]] = {}
    for each in view.missing():
        kinds.setdefault(each.message, []).append(each.kind)
    return [f"{', '.join(names)}: {message}" for message, names in kinds.items()]


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
    view = ClusterView(client, settings.namespace, current_time)
    following = asyncio.create_task(view.run(), name="cluster view")
    runner = web.AppRunner(Page(client, view, settings).app, access_log=None, shutdown_timeout=1.0)
    try:
        await view.started()
        await runner.setup()
        site = web.TCPSite(runner, settings.address, settings.port)
        await site.start()
        host = f"[{settings.address}]" if ":" in settings.address else settings.address
        yield f"http://{host}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
        following.cancel()
        await asyncio.wait((following,))


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
