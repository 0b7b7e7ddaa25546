"""A cluster in one process: the embedded API server, simulated nodes and all services on one event loop.

:class:`Components` has everything but the API server and works with a real one as well; :class:`LocalCluster` adds the
embedded API server.
"""

import asyncio
import contextlib
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

import structlog

from embedded_apiserver.server import ApiServer, Tls
from volcanopy.api import names
from volcanopy.api.config_file import ConfigError
from volcanopy.client.errors import first_of
from volcanopy.client.manifests import Creator
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection, Credentials
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.request_counts import RequestCounts
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy.services.admission import admission_service as admission
from volcanopy.services.admission.admission_service import AdmissionSettings
from volcanopy.services.controllers import controller_service
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process.certificates import issue, make_authority
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler import scheduler_service as scheduler
from volcanopy_local.containers import Containers
from volcanopy_local.process.accounts import ApiAddress
from volcanopy_local.process.api_service import NAMES as API_NAMES
from volcanopy_local.process.kubelet import ProcessKubelet, ProcessSettings
from volcanopy_local.simulated import nodes
from volcanopy_local.simulated.claim_controller import ClaimController
from volcanopy_local.simulated.kubelet import Kubelet
from volcanopy_local.simulated.pod_stages import Stages
from volcanopy_local.user_roles import user_roles
from volcanopy_local.workloads.controller import WorkloadController

log = structlog.get_logger(__name__)

LOOPBACK = "127.0.0.1"
MOST_IDLE_TURNS = 60
"""A component that is not ready has failed after so many turns without a successful read. Beside 100,000 pods of a persistent
cluster a start takes minutes, but each page of a list is a read."""
TURN = 1.0
"""Seconds of a turn. One that the busy event loop begins late counts once."""
STOP_TIMEOUT = 8.0
"""Seconds after which a component is cancelled that does not stop."""

REQUESTS_AT_ONCE = 8
"""Writes in flight of a component. One event loop answers them all: more would wait for each other, and requests of others
for them."""

DEFAULT_STORAGE_CLASS: Json = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "volcanopy.io/local",
}
"""The storage class of claims that name none: its volumes are made at once, and every node can use them."""

Entry = Callable[[asyncio.Event, asyncio.Event], Awaitable[None]]
"""A component: runs until the first event is set, and sets the second when it is ready."""


class ClusterError(Exception):
    """A component of the cluster did not start or has ended."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Components to run with their settings; None disables a component."""

    api: str = names.API
    """The API groups that are served: one of :data:`volcanopy.api.bindings.APIS`."""
    scheduler: SchedulerSettings | None = field(default_factory=SchedulerSettings)
    controller: JobControllerSettings | None = field(default_factory=JobControllerSettings)
    admission: AdmissionSettings | None = field(default_factory=AdmissionSettings)
    stages: Stages = field(default_factory=Stages)
    adopt_all: bool = True
    """Whether all nodes of the cluster are simulated, also those without the label."""
    claims: bool = False
    """Whether to run the controller of PersistentVolumeClaims and ResourceClaims."""
    workloads: bool = False
    """Whether to run the controller of Deployments, ReplicaSets, StatefulSets and Jobs."""
    process: ProcessSettings | None = None
    """How pods on process nodes run; None without such nodes."""


def configuration_text(parts: Parts) -> str:
    """Return the scheduler's configuration; empty without a scheduler, or if it cannot be read."""
    if parts.scheduler is None:
        return ""
    if parts.scheduler.config is None:
        return DEFAULT
    try:
        return parts.scheduler.config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""  # the scheduler itself reports it


def _informed(parts: Parts) -> Parts:
    """Return the parts with the plugins of the scheduler in the policy of admission, unless that has them."""
    admission_part, text = parts.admission, configuration_text(parts)
    if admission_part is None or not text or admission_part.policy.scheduler_plugins is not None:
        return parts
    try:
        plugins = sorted(parse(text, registry()).plugins)
    except (ConfigError, ThirdPartyError):
        return parts  # the scheduler itself reports it
    policy = admission_part.policy.model_copy(update={"scheduler_plugins": plugins})
    return replace(parts, admission=replace(admission_part, policy=policy))


def _served(parts: Parts) -> Parts:
    """Return the parts whose services serve the API of the cluster."""
    return replace(
        parts,
        scheduler=parts.scheduler and replace(parts.scheduler, api=parts.api),
        controller=parts.controller and replace(parts.controller, api=parts.api),
        admission=parts.admission and replace(parts.admission, api=parts.api),
    )


def _with_few_requests(parts: Parts) -> Parts:
    """Return the parts with few requests in flight, for a cluster whose API server shares their event loop."""
    return replace(
        parts,
        scheduler=parts.scheduler and replace(parts.scheduler, in_flight=REQUESTS_AT_ONCE),
        controller=parts.controller and replace(parts.controller, pods_at_once=REQUESTS_AT_ONCE),
    )


def _default_scheduler(parts: Parts) -> str:
    """Return the scheduler of pods that name none; empty without a scheduler."""
    scheduler = _served(parts).scheduler
    return "" if scheduler is None else scheduler.scheduler_names[0]


class Components:
    """The kubelet and the services of a cluster whose API server has our CRDs (``async with``)."""

    def __init__(
        self, connection: Connection, parts: Parts | None = None, pods_reach: ApiAddress | None = None
    ) -> None:
        """`pods_reach` is where pods of process nodes reach the API server, if not where the connection does."""
        self.connection = connection
        self._connections = defaultdict[str, Connection](lambda: replace(connection, request_counts=RequestCounts()))
        """By component, each with counts of its own."""
        self.parts = _served(parts or Parts())
        self.client = Client(connection)
        self._clients = [self.client]
        self.kubelet = Kubelet(self._client("kubelet"), stages=self.parts.stages, adopt_all=self.parts.adopt_all)
        self.process_kubelet = (
            ProcessKubelet(self._client("process kubelet"), self.parts.process, pods_reach or ApiAddress.of(connection))
            if self.parts.process is not None
            else None
        )
        self._running: list[tuple[str, asyncio.Task[None], asyncio.Event]] = []
        self._fault: asyncio.Future[ClusterError] = asyncio.get_running_loop().create_future()
        self._stopping = False

    async def __aenter__(self) -> Self:
        machine.switch_threads_often()  # the scheduler's cycles have threads of their own
        try:
            await self._start("kubelet", self.kubelet.run)
            if self.process_kubelet is not None:
                await self._start("process kubelet", self.process_kubelet.run)
            if (webhook := self.parts.admission) is not None:
                # First: a persistent cluster has the webhooks of its last run, at an address where nothing listens.
                await self._start("admission", partial(admission.run, self._connections["admission"], webhook))
            async with asyncio.TaskGroup() as tasks:
                for name, entry in self._services():
                    tasks.create_task(self._start(name, entry))
        except BaseException as raised:
            await self.stop()
            if isinstance(raised, BaseExceptionGroup):
                raise first_of(raised) from None
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _services(self) -> list[tuple[str, Entry]]:
        services: list[tuple[str, Entry]] = []
        parts, connections = self.parts, self._connections
        if parts.claims:
            services.append(("claim controller", ClaimController(self._client("claim controller")).run))
        if parts.workloads:
            services.append(("workload controller", WorkloadController(self._client("workload controller")).run))
        if parts.scheduler is not None:
            services.append(("scheduler", partial(scheduler.run, connections["scheduler"], parts.scheduler)))
        if parts.controller is not None:
            services.append(
                ("controller", partial(controller_service.run, connections["controller"], parts.controller))
            )
        return services

    def _client(self, component: str) -> Client:
        self._clients.append(Client(self._connections[component]))
        return self._clients[-1]

    async def _start(self, name: str, entry: Entry) -> None:
        """Start a component and wait until it is ready, as long as it reads."""
        stop, ready = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            await entry(stop, ready)

        task = asyncio.create_task(run(), name=name)
        task.add_done_callback(self._ended)
        self._running.append((name, task, stop))
        waiting = asyncio.create_task(ready.wait())
        counts, reads, idle = self._connections[name].request_counts, 0, 0
        try:
            while not (await asyncio.wait((task, waiting), timeout=TURN, return_when=asyncio.FIRST_COMPLETED))[0]:
                reads, idle = counts.reads, idle + 1 if counts.reads == reads else 0
                if idle == MOST_IDLE_TURNS:
                    raise ClusterError(f"{name} not ready, no successful read for {idle * TURN:.0f} s")
        finally:
            waiting.cancel()
        if task.done():
            raise self._fault.result()

    def _ended(self, task: asyncio.Task[None]) -> None:
        raised = None if task.cancelled() else task.exception()
        if self._fault.done() or (self._stopping and raised is None):
            return
        why = "stopped unexpectedly" if raised is None else str(first_of(raised)) or type(first_of(raised)).__name__
        fault = ClusterError(f"{task.get_name()} failed: {why}")
        fault.__cause__ = raised
        self._fault.set_result(fault)

    async def fault(self) -> ClusterError:
        """Wait until a component fails; return the error."""
        return await asyncio.shield(self._fault)

    async def stop(self) -> None:
        """Stop all components in reverse order."""
        self._stopping = True
        while self._running:
            name, task, stop = self._running.pop()
            stop.set()
            done, _ = await asyncio.wait((task,), timeout=STOP_TIMEOUT)
            if not done:
                log.warning("component did not stop, cancelling it", component=name, timeout=STOP_TIMEOUT)
                task.cancel()
                await asyncio.wait((task,))
        for client in self._clients:
            await client.close()


class LocalCluster:
    """An embedded cluster (``async with``).

    It has ``count`` simulated nodes and the ``objects``, which are created first; the file ``persist`` keeps its objects
    across runs: ``repair`` keeps what precedes a damaged record in it, ``fsync`` forces every change to the disk. With ``tls``
    the API server uses HTTPS and requires a token, otherwise HTTP on loopback.
    ``rbac`` enforces the rights of users. Raises OSError if the port is in use,
    JournalError if the file is damaged or in use, CreateError, ClusterError.
    """

    def __init__(
        self,
        count: int = 3,
        *,
        objects: Sequence[Json] = (),
        capacity: Mapping[str, str] | None = None,
        port: int = 0,
        tls: bool = False,
        persist: Path | None = None,
        repair: bool = False,
        fsync: bool = False,
        rbac: bool = False,
        parts: Parts | None = None,
    ) -> None:
        self._nodes = nodes.manifests(count, capacity)
        self._objects, self._port, self._tls, self._persist = objects, port, tls, persist
        self._parts = _with_few_requests(_informed(replace(parts or Parts(), claims=True, workloads=True)))
        self._repair, self._fsync, self._rbac = repair, fsync, rbac
        self._stack = contextlib.AsyncExitStack()
        self.server: ApiServer
        self.components: Components

    async def __aenter__(self) -> Self:
        containers = Containers(self)
        try:
            self.server = await ApiServer.start(
                port=self._port,
                tls=self_signed() if self._tls else None,
                persist=self._persist,
                repair=self._repair,
                fsync=self._fsync,
                rbac=self._rbac,
                log_source=containers.log,
                default_scheduler=_default_scheduler(self._parts),
            )
            self.server.context.container_access = containers
            self._stack.push_async_callback(self.server.stop)
            connection = connection_to(self.server)
            async with Client(connection) as client:
                creator = Creator(client)
                await creator.install_definitions(self._parts.api)
                roles = user_roles() if self._rbac else []
                await creator.create(
                    [DEFAULT_STORAGE_CLASS, *roles, *self._objects, *self._nodes, *self._configuration()]
                )
            components = Components(connection, self._parts, await self._address_for_pods())
            self.components = await self._stack.enter_async_context(components)
            if (kubelet := self.components.process_kubelet) is not None:
                self.server.serve_metrics(kubelet.measure)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _address_for_pods(self) -> ApiAddress | None:
        """A port with HTTPS for pods of process nodes, if the API server uses HTTP, which programs in a cluster do not."""
        if self._tls or self._parts.process is None:
            return None
        tls = self_signed()
        return ApiAddress(LOOPBACK, await self.server.listen_too(LOOPBACK, tls), tls.ca)

    def _configuration(self) -> list[Json]:
        """Return the ConfigMap of the chart with the scheduler's configuration, which ``volcanopy snapshot`` reads."""
        text = configuration_text(self._parts)
        if not text:
            return []
        metadata = {"namespace": "volcanopy-system", "name": "volcanopy-scheduler"}
        return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"scheduler.yaml": text}}]

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self.server.url

    @property
    def client(self) -> Client:
        """A client of the cluster, open while the cluster is."""
        return self.components.client

    @property
    def kubelet(self) -> Kubelet:
        """The simulated kubelet, which fails nodes."""
        return self.components.kubelet

    @property
    def process_kubelet(self) -> ProcessKubelet | None:
        """The kubelet of process nodes, if there are any."""
        return self.components.process_kubelet

    def kubeconfig(self) -> str:
        """Return a kubeconfig for the administrator (YAML)."""
        return self.server.kubeconfig("volcanopy")

    async def fault(self) -> ClusterError:
        """Wait until a component fails; return the error."""
        return await self.components.fault()


def self_signed(hosts: Sequence[str] = ("localhost", LOOPBACK, *API_NAMES)) -> Tls:
    """Return a certificate for these host names and addresses, signed by a new CA."""
    now = datetime.now(UTC)
    certificate = issue(make_authority(now, name="volcanopy embedded cluster"), hosts, now)
    return Tls(certificate.context(), certificate.authority.decode())


def connection_to(server: ApiServer) -> Connection:
    """Return the administrator's connection to an embedded API server."""
    credentials = Credentials({"Authorization": f"Bearer {server.token}"})
    trust = ssl.create_default_context(cadata=server.ca_pem) if server.ca_pem else None
    return Connection(server.url, credentials, trust)
