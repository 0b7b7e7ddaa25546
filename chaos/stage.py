"""Builds the site of a run: an embedded API server, simulated nodes and services as processes, each if the settings name it."""

import asyncio
import contextlib
import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from chaos.faults import COMPONENT, DEPLOYMENTS
from chaos.gangs import gang
from chaos.judge import Judge, following
from chaos.processes import RestartedProcess
from chaos.proxy import FaultProxy
from chaos.site import Site, surely
from volcanopy.client.manifests import Creator
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import AlreadyExists, KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy_local.simulated import nodes
from volcanopy_local.simulated.kubelet import Kubelet

SERVICES = ("scheduler", "scheduler", "controller", "controller", "admission")
READY_SECONDS = 600.0
PROBE = "chaos-probe"
"""Name of the job whose end shows that everything works before the first fault."""


class StageError(Exception):
    """The site could not be built; the message has the reason."""


@dataclass(frozen=True, kw_only=True)
class StageSettings:
    """What a run starts itself."""

    nodes: int = 0
    """Simulated nodes to add."""
    run_services: bool = False
    """Whether to run the services as processes of this machine, behind proxies."""
    other_python: Path | None = None
    """A Python with another release of volcanopy, which runs one of two schedulers and one of two controllers; None: this one."""
    pids: Mapping[str, int] = field(default_factory=dict)
    """Processes of the API server that may be paused, by name."""
    etcd: str = ""
    """The address of etcd, for the faults of etcd."""
    namespace: str = "volcanopy-chaos"
    seed: int = 1
    folder: Path | None = None
    """Where the logs of the processes are kept; None: nowhere."""


@contextlib.asynccontextmanager
async def embedded_server(folder: Path) -> AsyncIterator[tuple[Connection, RestartedProcess]]:
    """Run an embedded API server as a process that keeps its objects in a file of the folder."""
    port = _free_port()
    arguments = ("embedded_apiserver", "--port", str(port), "--persist", str(folder / "cluster.journal"))
    server = RestartedProcess("server", arguments, folder / "server.log")
    async with kept(server):
        connection = Connection(f"http://127.0.0.1:{port}")
        async with Client(connection) as client:
            # Requests are repeated for so long as no server listens.
            await client.get_raw("/readyz", deadline=READY_SECONDS)
            await Creator(client).install_definitions()
        yield connection, server


@contextlib.asynccontextmanager
async def kept(*processes: RestartedProcess) -> AsyncIterator[None]:
    """Keep processes running for the duration of the block."""
    tasks = [asyncio.create_task(process.keep(), name=process.name) for process in processes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def site_of(
    connection: Connection, settings: StageSettings, server: RestartedProcess | None = None
) -> AsyncIterator[Site]:
    """Build the site of a run on a cluster, and remove at the end what was added to it. Raises StageError, KubeError."""
    async with contextlib.AsyncExitStack() as stack:
        folder = settings.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volcanopy-chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        client = await stack.enter_async_context(Client(connection, field_manager="volcanopy-chaos"))
        site = Site(
            client,
            Judge(settings.namespace),
            Random(settings.seed),
            server=server,
            pids=settings.pids,
            etcd=settings.etcd,
        )
        site.installed = await _installed(client)
        if settings.run_services and site.installed:
            name = site.installed[0]["metadata"]["name"]
            raise StageError(
                f"--run-services: the cluster has services already (Deployment {name}): uninstall the chart"
            )
        await _make_namespace(client, settings.namespace)
        stack.push_async_callback(_remove_namespace, client, settings.namespace)
        if settings.nodes:
            await stack.enter_async_context(_nodes(site, settings.nodes))
        if settings.run_services:
            await stack.enter_async_context(_services(site, connection, folder, settings.other_python))
        await _probe(site)
        yield site


async def _installed(client: Client) -> list[Json]:
    """Return the Deployments of the chart."""
    with contextlib.suppress(KubeError):
        deployments = await client.list(
            DEPLOYMENTS, None, label_selector=f"app.kubernetes.io/name=volcanopy,{COMPONENT}"
        )
        return deployments.items
    return []


async def _make_namespace(client: Client, name: str) -> None:
    try:
        await client.create(raw_kinds.NAMESPACES, None, {"metadata": {"name": name}})
    except AlreadyExists:
        raise StageError(f"namespace {name} exists: delete it, or choose another with --namespace") from None


async def _remove_namespace(client: Client, name: str) -> None:
    with contextlib.suppress(KubeError):
        await client.delete(raw_kinds.NAMESPACES, None, name)


@contextlib.asynccontextmanager
async def _nodes(site: Site, count: int) -> AsyncIterator[None]:
    """Add simulated nodes, which this process serves."""
    site.node_names = [f"chaos-{number + 1}" for number in range(count)]
    site.kubelet = Kubelet(site.client)
    stop = asyncio.Event()
    serving = asyncio.create_task(site.kubelet.run(stop))
    await Creator(site.client).create(nodes.manifest(name, number) for number, name in enumerate(site.node_names))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(serving, return_exceptions=True)
        for name in site.node_names:
            with contextlib.suppress(KubeError):
                await site.client.delete(raw_kinds.NODES, None, name)


@contextlib.asynccontextmanager
async def _services(site: Site, connection: Connection, folder: Path, other_python: Path | None) -> AsyncIterator[None]:
    """Run the services as processes, each behind a proxy of its own."""
    async with contextlib.AsyncExitStack() as stack:
        await Creator(site.client).install_definitions()
        for number, name in enumerate(SERVICES):
            proxy = await stack.enter_async_context(FaultProxy.open(connection, site.rng))
            kubeconfig = folder / f"{name}-{number}.kubeconfig"
            kubeconfig.touch(mode=0o600)
            proxy.token_file = kubeconfig.with_suffix(".token")
            proxy.token_file.touch(mode=0o600)
            proxy.token_file.write_text("first")
            kubeconfig.write_text(_kubeconfig(proxy.url, proxy.token_file))
            health = _free_port()
            flags = ["--kubeconfig", str(kubeconfig), "--bind-address", "127.0.0.1", "--health-port", str(health)]
            if name == "admission":
                port = _free_port()
                policy = site.rng.choice(("Fail", "Ignore"))
                flags += ["--port", str(port), "--url", f"https://127.0.0.1:{port}", "--failure-policy", policy]
            arguments = ("volcanopy", name, *flags)
            is_first_of_two = SERVICES.index(name) == number and SERVICES.count(name) > 1
            python = (other_python if is_first_of_two else None) or sys.executable
            log = folder / f"{name}-{number}.log"
            site.services.append(RestartedProcess(name, arguments, log, health, python))
            site.proxies.append(proxy)
        await stack.enter_async_context(kept(*site.services))
        yield


async def _probe(site: Site) -> None:
    """Run a job of one pod, so that no fault begins before everything works. Raises StageError."""
    judge, job = site.judge, gang(PROBE, 1, site.rng)
    async with following(judge, site.access):
        try:
            create = partial(site.client.create, raw_kinds.JOBS, site.namespace, job)
            await surely(create, READY_SECONDS, (AlreadyExists,))
        except KubeError as error:
            raise StageError(f"a job cannot be created before the first fault: {error}") from None
        if not await judge.until(lambda: judge.ends["Completed"] == 1, READY_SECONDS):
            raise StageError(
                f"a job of one pod did not complete in {READY_SECONDS:g} s before the first fault: "
                f"{', '.join(judge.unfinished()) or 'it was not seen'}"
            )
        await site.client.delete(raw_kinds.JOBS, site.namespace, PROBE, propagation="Background")
        await judge.until(lambda: not judge.left(), READY_SECONDS)
    judge.ends.clear()
    judge.made.clear()


def _kubeconfig(url: str, token_file: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "chaos", "cluster": {"server": url}}],
            "users": [{"name": "chaos", "user": {"tokenFile": str(token_file)}}],
            "contexts": [{"name": "chaos", "context": {"cluster": "chaos", "user": "chaos"}}],
            "current-context": "chaos",
        }
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
