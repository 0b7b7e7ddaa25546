"""The admission webhook process: an HTTPS server for AdmissionReviews, and its webhook configurations.

It follows the cluster with own watches; everything else in a verdict depends on the request alone. Several servers may run.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec
import structlog
from aiohttp import web

from volcanopy.admission.access import group_of
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.future_jobs import named_templates
from volcanopy.admission.pod_dry_run import dry_runs
from volcanopy.admission.podgroups import is_moved
from volcanopy.admission.queues import changes_tree
from volcanopy.admission.request import Request, at
from volcanopy.admission.response import AdmissionResponse, with_patch
from volcanopy.admission.review import mutate, mutated, verdict
from volcanopy.api import names
from volcanopy.api.model import Problem
from volcanopy.installed.job_plugins import job_registry
from volcanopy.jobcontroller.plugins.registry import plugin_problems
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, QUEUES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews, api_views, in_api
from volcanopy.kube.client.backoff import answered
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import PODS
from volcanopy.services.admission.access_reviews import may_change_target
from volcanopy.services.admission.certificate_rotation import Keyring, RotationTimes, SharedKeyring
from volcanopy.services.admission.cluster_cache import ClusterCache
from volcanopy.services.admission.job_templates import job_templates
from volcanopy.services.admission.pod_dry_run import PodDryRuns, pod_maker
from volcanopy.services.admission.policy_file import PolicyFile, with_schedulers
from volcanopy.services.admission.queue_reads import queues_of, users_of
from volcanopy.services.admission.review_metrics import ReviewHandler, measured
from volcanopy.services.admission.review_paths import ReviewPaths
from volcanopy.services.admission.webhook_configuration import (
    Registration,
    published,
    register,
    unregister,
)
from volcanopy.services.process.health import Health, stale_watches
from volcanopy.services.process.startup import cancelled_by
from volcanopy.services.process.supervisor import Supervisor
from volcanopy.services.process.volcano_processes import VolcanoProcesses

log = structlog.get_logger(__name__)

LARGEST_BODY = 3 * 1024 * 1024
T = TypeVar("T")
LOOKUP_DEADLINE = 3.0


@dataclass(frozen=True)
class AdmissionSettings:
    """Where the server listens and how the API server reaches it.

    ``service`` is ``namespace/name`` of the Service in front of it; without one the API server uses ``url``, or, if
    that is empty too, the listening address. With ``fail_closed`` requests are rejected while the server is down. With
    ``unregister`` the webhook configurations are deleted when it ends, so that a local cluster keeps none without a server.
    """

    host: str = "127.0.0.1"
    port: int = 0
    api: str = names.API
    """The API groups whose objects are reviewed: one of :data:`volcanopy.api.bindings.APIS`."""
    service: str = ""
    url: str = ""
    fail_closed: bool = True
    unregister: bool = True
    namespace: str = "kube-system"
    """The namespace of its Secret; the Service's namespace, if there is a Service."""
    config: Path | None = None
    """The configuration file, read again when it changes."""
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    """The policy without a file."""
    terms: RotationTimes = field(default_factory=RotationTimes)
    """Lifetimes of certificates."""
    period: float = 30.0
    """Seconds between two checks of certificates, configurations and the file."""
    drain: float = 0.0
    """Seconds for which it serves at its end, and closes connections: the Service may still name it, the API server reuse one."""

    @property
    def home(self) -> str:
        """The namespace of own objects."""
        return self.service.partition("/")[0] or self.namespace


def application(handlers: Mapping[str, ReviewHandler], paths: ReviewPaths | None = None) -> web.Application:
    """Return the application with a path for each handler, by its name, followed by the secret part where there are ``paths``.

    Health and metrics have a listener of their own.
    """
    app = web.Application(client_max_size=LARGEST_BODY, middlewares=[_as_json])
    for name, handler in handlers.items():
        answer = partial(_answer, measured(name, handler))
        path = f"/{name}" if paths is None else f"/{name}/{{part}}"
        app.router.add_post(path, answer if paths is None else partial(_recognized, paths, answer))
    return app


async def _recognized(
    paths: ReviewPaths, answer: Callable[[web.Request], Awaitable[web.Response]], request: web.Request
) -> web.Response:
    if not await paths.accepts(request.match_info["part"]):
        raise web.HTTPForbidden(
            text="not a request of the API server: the path is not that of the webhook configuration"
        )
    return await answer(request)


@web.middleware
async def _as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Return HTTP errors as JSON."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.json_response({"error": error.text or error.reason}, status=error.status)


def try_again(request: Request, message: str) -> Json:
    """Return the rejection of a request that may be admitted soon."""
    return AdmissionResponse((Problem("", message),), temporary=True).review(request.uid)


def read(body: bytes) -> Json:
    """Decode a review. Raises ValueError if the body is none."""
    try:
        review = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(review, dict):
        raise ValueError("the body is no AdmissionReview")
    return review


async def _answer(judge: ReviewHandler, request: web.Request) -> web.Response:
    try:
        review = read(await request.read())
    except ConnectionError:
        raise web.HTTPBadRequest(text="the connection ended before the review had come") from None
    except ValueError as fault:
        raise web.HTTPBadRequest(text=str(fault)) from None
    return web.Response(body=msgspec.json.encode(await judge(review)), content_type="application/json")


class ReviewHandlers:
    """The handlers of the webhooks, with the cluster cache and what is read of the API server for single requests."""

    def __init__(self, cluster: ClusterCache, tried: PodDryRuns, *, fail_closed: bool, apis: ApiViews) -> None:
        self._apis = apis
        self._client, self._cluster, self._closed = next(iter(apis)), cluster, fail_closed
        self._trials = tried
        self._listing = WeakValueDictionary[str, asyncio.Lock]()
        """By namespace: held while its pods are listed, so that many moves of one user delay no reviews of others."""

    @property
    def by_path(self) -> dict[str, ReviewHandler]:
        """The handlers by the first part of their paths."""
        return {"mutate": self.mutating, "validate": self.validating, "review": self.reviewing}

    async def mutating(self, body: Json) -> Json:
        """Return the response with the patch."""
        return mutate(body, self._context())

    async def reviewing(self, body: Json) -> Json:
        """Return the response with the patch and the verdict on the mutated object."""
        context, request = self._context(), Request.of(body)
        if request is None:
            return verdict(None, context)
        changed, patch = mutated(request, context)
        return with_patch(await self._validated(changed, context), patch)

    async def validating(self, body: Json) -> Json:
        """Return the response with the verdict."""
        context, request = self._context(), Request.of(body)
        return verdict(None, context) if request is None else await self._validated(request, context)

    async def _validated(self, request: Request, context: Context) -> Json:
        try:
            context = await self._with_objects(request, context)
        except KubeError as fault:
            log.warning("objects for a review not readable", kind=request.kind, name=request.name, error=str(fault))
            if not self._closed and request.kind == "Queue":
                return verdict(request, context)
            return try_again(request, f"changes of a {request.kind} cannot be validated now, try again: {fault}")
        return await self._validated_with_rights(request, context)

    def _context(self) -> Context:
        """Return the content of the caches; before their first lists no review is answered, as checks would be left out."""
        if not self._cluster.is_complete:
            raise web.HTTPServiceUnavailable(text="the caches are not synced, try again")
        return self._cluster.context()

    async def _validated_with_rights(self, request: Request, context: Context) -> Json:
        """Return the verdict that goes by the right of a Command's user to change its target.

        Without an answer of the API server a Command for which the right decides is to be sent again.
        """
        try:
            return verdict(request, replace(context, may_change_target=await may_change_target(self._client, request)))
        except KubeError as fault:
            granted, rejected = (verdict(request, replace(context, may_change_target=right)) for right in (True, False))
            if granted["response"]["allowed"] == rejected["response"]["allowed"]:
                return granted
            log.warning("permission of a Command not checked", user=request.user.name, error=str(fault))
            return try_again(request, f"permissions of Commands cannot be checked now, try again: {fault}")

    async def _with_objects(self, request: Request, context: Context) -> Context:
        """Return the context with the objects that the rules for this request need from the API server. Raises KubeError."""
        if changes_tree(request):
            context = replace(context, queues=await queues_of(self._apis))
            deleted = request.operation == "DELETE"
            return replace(context, unfinished=await users_of(self._apis, request.name)) if deleted else context
        context = await self._with_new_queue(request, await self._with_new_group(request, context))
        if is_moved(request):
            view = in_api(self._client, request.binding)
            async with self._listing.setdefault(request.namespace, asyncio.Lock()):
                pods = await view.list(PODS, request.namespace, deadline=LOOKUP_DEADLINE)
            context = replace(context, moved_pods=tuple(pod for pod in pods.items if group_of(pod) == request.name))
        context = await self._with_templates(request, context)
        asked = dry_runs(request, context)
        return replace(context, dry_runs=await self._trials.answers(asked)) if asked else context

    async def _with_templates(self, request: Request, context: Context) -> Context:
        """Return the context with the JobTemplates that a flow names, read from the API server."""
        templates = sorted(named_templates(request))
        if not templates:
            return context
        try:
            existing = await job_templates(in_api(self._client, request.binding), request.namespace, templates)
        except (KubeError, TimeoutError) as fault:
            log.warning("JobTemplates not readable", namespace=request.namespace, error=repr(fault))
            return context
        return replace(context, job_templates=existing)

    async def _with_new_queue(self, request: Request, context: Context) -> Context:
        """Return the context with the requested queue, read from the API server if the cache does not have it yet."""
        name = at(request.object, "spec", "queue")
        if context.queues is None or not isinstance(name, str) or name in context.queues or not _is_readable(name):
            return context
        queue = await self._read(QUEUES, None, name)
        return context if queue is None else replace(context, queues={**context.queues, name: queue})

    async def _with_new_group(self, request: Request, context: Context) -> Context:
        """Return the context with the PodGroup that a new pod names, read from the API server if the cache lacks it."""
        if request.key != ("", "Pod", "CREATE") or context.pod_groups is None:
            return context
        name, groups = group_of(request.object), context.pod_groups
        key = f"{request.namespace}/{name}"
        if key in groups or not _is_readable(name):
            return context
        group = await self._read(POD_GROUPS, request.namespace, name)
        return context if group is None else replace(context, pod_groups={**groups, key: group})

    async def _read(self, kind: Kind[T], namespace: str | None, name: str) -> T | None:
        """Return an object of any served API from the API server, if it is there and readable."""
        for view in self._apis:
            try:
                return await view.get(kind, namespace, name, deadline=LOOKUP_DEADLINE)
            except NotFound:
                continue
            except KubeError as fault:
                log.warning("object not readable", kind=kind.kind, name=name, error=str(fault))
                return None
        return None


def _is_readable(name: str) -> bool:
    """Whether a name may be that of an object."""
    return bool(name) and "/" not in name and len(name) <= 253


async def run(
    connection: Connection,
    settings: AdmissionSettings | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    health: Health | None = None,
) -> None:
    """Serve until ``stop`` is set. ``ready`` is set when the caches are synced and the webhooks registered.

    Raises ThirdPartyError when an installed job plugin is invalid, ConfigError when the file is, VolcanoRunsError.
    """
    settings = settings or AdmissionSettings()
    registry = job_registry()
    check_plugins = partial(plugin_problems, registry=registry)
    stop = stop or asyncio.Event()
    policy = PolicyFile(settings.config, settings.policy)
    is_ready = ready or asyncio.Event()
    async with Client(connection) as client, PodDryRuns(client) as tried:
        apis = api_views(client, settings.api)
        keyring = _keyring(client, settings)
        async with cancelled_by(stop):
            await answered(VolcanoProcesses(client, "admission", apis.bindings).ensure_none)
            await keyring.renew(await published(client) if settings.service else b"")

        def current() -> AdmissionPolicy:
            return with_schedulers(policy.current, apis.scheduler_names)

        cluster = ClusterCache(apis, check_plugins, current, pod_maker(registry))
        answers = ReviewHandlers(cluster, tried, fail_closed=settings.fail_closed, apis=apis)
        health = health or Health()
        health.live["watches"] = stale_watches(lambda: cluster.watches)
        health.ready["cluster"] = lambda: "" if is_ready.is_set() else "caches not synced"
        paths = ReviewPaths(keyring.shared_key, keyring.renew)
        app = application(answers.by_path, paths)
        async with serving(app, settings, keyring) as address, asyncio.TaskGroup() as tasks:
            supervisor = Supervisor()
            health.live["parts"] = supervisor.problem
            cluster.watch(supervisor)
            supervising = tasks.create_task(supervisor.run())
            publish = partial(_publish, client, settings, keyring, policy, address, paths)
            async with cancelled_by(stop):
                await cluster.complete()
                await answered(publish)
            log.info("admission webhook serving", address=address)
            machine.freeze_garbage_collector()
            is_ready.set()
            supervisor.add("webhook configuration", lambda: _keep(client, settings, keyring, policy, publish))
            await stop.wait()
            supervising.cancel()
        if settings.unregister:
            await unregister(client)


def _keyring(client: Client, settings: AdmissionSettings) -> Keyring:
    """Return the certificates: shared in a Secret by the servers behind a Service, else those of this process."""
    hosts = _hosts(settings)
    if settings.service:
        return SharedKeyring(client, settings.home, hosts, machine.utc_now, settings.terms)
    return Keyring(hosts, machine.utc_now, settings.terms)


async def _publish(
    client: Client, settings: AdmissionSettings, keyring: Keyring, policy: PolicyFile, address: str, paths: ReviewPaths
) -> None:
    apis = api_views(client, settings.api)
    registration = Registration(
        address=settings.url or address,
        service=settings.service,
        authority=keyring.trusted,
        fail_closed=settings.fail_closed,
        policy=with_schedulers(policy.current, apis.scheduler_names),
        bindings=apis.bindings,
        path_part=paths.current(),
    )
    await register(client, registration)


async def _keep(
    client: Client,
    settings: AdmissionSettings,
    keyring: Keyring,
    policy: PolicyFile,
    publish: Callable[[], Awaitable[None]],
) -> None:
    """Keep certificates, webhook configurations and the policy up to date, for ever."""
    while True:
        await asyncio.sleep(settings.period)
        policy.reload()
        try:
            await keyring.renew(await published(client))
            await publish()
        except KubeError as fault:
            log.warning("certificates and webhook configurations not updated", error=str(fault))


@contextlib.asynccontextmanager
async def serving(app: web.Application, settings: AdmissionSettings, keyring: Keyring) -> AsyncIterator[str]:
    """Run the server and yield its address."""
    ending = False

    async def close(_request: web.Request, response: web.StreamResponse) -> None:
        if ending:
            response.force_close()
            response.headers["Connection"] = "close"

    app.on_response_prepare.append(close)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=keyring.context)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"https://{'127.0.0.1' if host in {'0.0.0.0', '::'} else host}:{port}"
    finally:
        ending = True
        try:
            await asyncio.sleep(settings.drain)
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
