"""Admission as a service: an HTTPS server that answers AdmissionReviews, and the configurations that point to it.

It knows the queues through a watch of its own; everything else that it says follows from the request alone.
"""

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from aiohttp import web

from volcanopy.admission.review import Context, mutate, review
from volcanopy.api import names
from volcanopy.api.core import Queue
from volcanopy.jobcontroller.plugins.registry import plugin_problems
from volcanopy.kube.client import Client
from volcanopy.kube.connection import Connection
from volcanopy.kube.errors import AlreadyExists, Conflict, NotFound
from volcanopy.kube.kinds import Json, Kind
from volcanopy.kube.watch import Reflector
from volcanopy.services.certificates import ServerCertificate, make_certificate
from volcanopy.services.thirdparty import job_registry

log = logging.getLogger(__name__)

QUEUES = Kind(names.SCHEDULING, "v1beta1", "Queue", "queues", False, Queue)
_REGISTRATION = "admissionregistration.k8s.io"
MUTATING: Kind[Json] = Kind(
    _REGISTRATION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, dict
)
VALIDATING: Kind[Json] = Kind(
    _REGISTRATION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False, dict
)
CONFIGURATION = "volcanopy-admission"
LARGEST_BODY = 3 * 1024 * 1024

_JOB_RULE = {"apiGroups": [names.BATCH], "apiVersions": ["v1alpha1"], "resources": ["batchjobs"], "scope": "Namespaced"}
_FLOW_RULE = {
    "apiGroups": [names.FLOW],
    "apiVersions": ["v1alpha1"],
    "resources": ["jobflows", "jobtemplates"],
    "scope": "Namespaced",
}
_QUEUE_RULE = {"apiGroups": [names.SCHEDULING], "apiVersions": ["v1beta1"], "resources": ["queues"], "scope": "Cluster"}


@dataclass(frozen=True)
class AdmissionSettings:
    """Where the server listens and how the API server reaches it.

    ``service`` is ``namespace/name`` of the Service in front of it; without one the API server is told ``url``, or,
    if that is empty too, the address that is listened on. ``fail_closed`` refuses what cannot be judged because the
    server is down. With ``register`` the configurations are written; with ``unregister`` they are taken away again
    when the server ends (a cluster on this machine would be left with webhooks that nobody answers).
    """

    host: str = "127.0.0.1"
    port: int = 0
    service: str = ""
    url: str = ""
    fail_closed: bool = True
    register: bool = True
    unregister: bool = True


def application(context: Callable[[], Context]) -> web.Application:
    """The server's paths: ``/mutate``, ``/validate`` and ``/healthz``."""

    async def mutating(request: web.Request) -> web.Response:
        return await _answer(request, mutate)

    async def validating(request: web.Request) -> web.Response:
        def judge(body: Json) -> Json:
            answer = review(body, context())
            # The patch was the other webhook's: a validating one may not have any.
            answer["response"] = {k: v for k, v in answer["response"].items() if k not in {"patch", "patchType"}}
            return answer

        return await _answer(request, judge)

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application(client_max_size=LARGEST_BODY)
    app.router.add_post("/mutate", mutating)
    app.router.add_post("/validate", validating)
    app.router.add_get("/healthz", healthy)
    return app


async def _answer(request: web.Request, judge: Callable[[Json], Json]) -> web.Response:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        raise web.HTTPBadRequest(text="the body is not JSON") from None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="the body is no AdmissionReview")
    return web.json_response(judge(body))


def configurations(settings: AdmissionSettings, authority: bytes, address: str) -> tuple[tuple[Kind[Json], Json], ...]:
    """The objects that point the API server to us; ``address`` is ``https://host:port``."""

    def webhook(name: str, path: str, rules: list[Json]) -> Json:
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail" if settings.fail_closed else "Ignore",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 10,
            "clientConfig": _client_config(settings, authority, address, path),
            "rules": rules,
        }

    def configuration(kind: Kind[Json], webhooks: list[Json]) -> tuple[Kind[Json], Json]:
        metadata = {"name": CONFIGURATION}
        return kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "webhooks": webhooks}

    jobs: Json = {**_JOB_RULE, "resources": ["batchjobs", "cronbatchjobs"], "operations": ["CREATE", "UPDATE"]}
    flows: Json = {**_FLOW_RULE, "operations": ["CREATE", "UPDATE"]}
    queues: Json = {**_QUEUE_RULE, "operations": ["CREATE", "UPDATE", "DELETE"]}
    defaulted: Json = {**_JOB_RULE, "operations": ["CREATE"]}
    return (
        configuration(MUTATING, [webhook("jobs.mutate.volcanopy.io", "/mutate", [defaulted])]),
        configuration(
            VALIDATING,
            [
                webhook("jobs.validate.volcanopy.io", "/validate", [jobs]),
                webhook("flows.validate.volcanopy.io", "/validate", [flows]),
                webhook("queues.validate.volcanopy.io", "/validate", [queues]),
            ],
        ),
    )


def _client_config(settings: AdmissionSettings, authority: bytes, address: str, path: str) -> Json:
    bundle = base64.b64encode(authority).decode()
    if settings.service:
        namespace, _, name = settings.service.partition("/")
        service = {"namespace": namespace, "name": name, "path": path, "port": 443}
        return {"service": service, "caBundle": bundle}
    return {"url": f"{settings.url or address}{path}", "caBundle": bundle}


async def run(
    connection: Connection,
    settings: AdmissionSettings | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
) -> None:
    """Serve until ``stop`` is set. ``ready`` is set when the queues are known and the API server knows of us.

    Raises ThirdPartyError when an installed package with job plugins is broken.
    """
    settings = settings or AdmissionSettings()
    check_plugins = partial(plugin_problems, registry=job_registry())
    stop = stop or asyncio.Event()
    certificate = await asyncio.to_thread(make_certificate, _hosts(settings), datetime.now(UTC))
    async with Client(connection) as client:
        queues: Reflector[Queue] = Reflector(client, QUEUES)

        def context() -> Context:
            return Context(queues.objects if queues.synced.is_set() else None, check_plugins)

        async with _serving(application(context), settings, certificate) as address, asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(queues.run(lambda _: None))
            await queues.synced.wait()
            made = configurations(settings, certificate.authority, address) if settings.register else ()
            for kind, found in made:
                await _put(client, kind, found)
            log.info("admission answers at %s", address)
            if ready is not None:
                ready.set()
            await stop.wait()
            if settings.unregister:
                for kind, _ in made:
                    with contextlib.suppress(NotFound):
                        await client.delete(kind, None, CONFIGURATION)
            watching.cancel()


@contextlib.asynccontextmanager
async def _serving(
    app: web.Application, settings: AdmissionSettings, certificate: ServerCertificate
) -> AsyncIterator[str]:
    """The server at work; gives its address."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=certificate.context())
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"https://{host}:{port}"
    finally:
        await runner.cleanup()


def _hosts(settings: AdmissionSettings) -> list[str]:
    hosts = ["localhost", "127.0.0.1"]
    if settings.host not in {"0.0.0.0", "::", *hosts}:
        hosts.append(settings.host)
    if settings.service:
        namespace, _, name = settings.service.partition("/")
        hosts = [f"{name}.{namespace}.svc", f"{name}.{namespace}", name, *hosts]
    return hosts


async def _put(client: Client, kind: Kind[Json], wanted: Json) -> None:
    """Make the object, or bring it to this form."""
    while True:
        try:
            await client.create(kind, None, wanted)
        except AlreadyExists:
            try:
                found = await client.get(kind, None, CONFIGURATION)
                await client.update(kind, None, CONFIGURATION, {**found, "webhooks": wanted["webhooks"]})
            except (Conflict, NotFound):
                continue
        return
