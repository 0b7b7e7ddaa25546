"""How long a job of one pod waits beside a large job of another user: ``python -m bench beside [--server embedded|real]``.

The other user submits a job of 100,000 pods and ten of 1.3 MB each. Until the time is over, one job of one pod after the other is
submitted in another namespace, and the seconds until its pod runs are measured; before, the same without the other jobs. ``embedded``
is ``volcanopy local up``. ``real`` is a kube-apiserver with etcd, which ``python -m hack.controlplane`` builds, one process of each
service with its own user, as with the chart, and simulated nodes here. ``--kubeconfig`` uses a cluster that runs already. The
seconds until each stage of these jobs show what they wait for. Memory is the resident set of each process.
"""

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.live.services import SERVICES, USERS, Services
from hack.sizing import Stand, cost
from tests.controlplane.plane import ControlPlane
from volcanopy.api.bindings import VOLCANOPY
from volcanopy.api.crd import crds
from volcanopy.client.manifests import Creator
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy_local.cluster import Components, Parts
from volcanopy_local.simulated import nodes

NODES = 20
ALONE = 5
"""Jobs of one pod before the large ones."""
LARGE = 10
BYTES = 1_300_000
PAUSE = 2.0
"""Seconds between two jobs of one pod."""
POLL = 0.02
CREATE_TIMEOUT = 300.0
"""Seconds in which a job of 1.3 MB must be created."""


def job(name: str, pods: int, size: int = 0) -> dict[str, Any]:
    """A job whose pods need a core each, with so many bytes of environment variables."""
    container: dict[str, Any] = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    container["env"] = [{"name": f"VARIABLE_{number}", "value": "x" * 1_000} for number in range(size // 1_030)]
    task = {"name": "worker", "replicas": pods, "template": {"spec": {"containers": [container]}}}
    body = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "metadata": {"name": name}}
    return {**body, "spec": {"minAvailable": 1, "tasks": [task]}}


@contextlib.asynccontextmanager
async def embedded(stand: Stand) -> AsyncIterator[None]:
    """Run ``volcanopy local up``."""
    options = ("--simulate", str(NODES), "--kubeconfig", str(stand.kubeconfig))
    output = stand.start("local up", "volcanopy", "local", "up", *options).stdout
    assert output is not None
    await asyncio.to_thread(lambda: next(line for line in output if line.startswith(b"Web page")))
    yield


@contextlib.asynccontextmanager
async def _real(stand: Stand) -> AsyncIterator[None]:
    """Run a kube-apiserver, etcd, the services and simulated nodes."""
    users = dict.fromkeys(USERS.values(), ("system:masters",))
    with ControlPlane.start(crds=crds(), users=users) as plane, Services(plane, stand.folder, VOLCANOPY) as services:
        stand.kubeconfig = plane.kubeconfig
        connection = load_connection(plane.kubeconfig, None)
        kubelets = Components(connection, Parts(scheduler=None, controller=None, admission=None))
        async with Client(connection) as client, kubelets:
            await Creator(client).create(nodes.manifests(NODES))
            for name in SERVICES:
                services.start(name)
            stand.processes |= services.processes
            yield


STAGES = ("accepted", "PodGroup", "admitted", "pod", "bound", "running")
"""What happens to a job of one pod. Its pod may precede its admission."""


async def seconds_until(client: Client, name: str) -> dict[str, float]:
    """Submit a job of one pod; return the seconds until each stage, as seen by reading its objects again and again."""
    began, seconds = time.monotonic(), dict[str, float]()
    body = await client.create(raw_kinds.JOBS, "small", job(name, 1))
    group_name, pod_name = f"{name}-{body['metadata']['uid']}", f"{name}-worker-0"
    group: dict[str, Any] = {}
    pod: dict[str, Any] = {}
    while "running" not in seconds:
        if "admitted" not in seconds:
            group = await _read(client, raw_kinds.POD_GROUPS, group_name)
        if group:
            pod = await _read(client, raw_kinds.PODS, pod_name)
        is_running = pod.get("status", {}).get("phase") in {"Running", "Succeeded"}
        is_admitted = is_running or group.get("status", {}).get("phase") in {"Inqueue", "Running", "Completed"}
        bound = pod.get("spec", {}).get("nodeName")
        for stage, is_reached in zip(STAGES, (True, group, is_admitted, pod, bound, is_running), strict=True):
            if is_reached:
                seconds.setdefault(stage, time.monotonic() - began)
        await asyncio.sleep(POLL)
    return seconds


async def _read(client: Client, kind: Kind[dict[str, Any]], name: str) -> dict[str, Any]:
    with contextlib.suppress(NotFound):
        return await client.get(kind, "small", name)
    return {}


async def _measured(stand: Stand, pods: int, seconds: float) -> dict[str, float]:
    async with Client(load_connection(stand.kubeconfig, None)) as client:
        for namespace in ("small", "large"):
            await client.create(raw_kinds.NAMESPACES, None, {"metadata": {"name": namespace}})
        await seconds_until(client, "first")
        alone = [await seconds_until(client, f"alone-{number}") for number in range(ALONE)]
        end = time.monotonic() + seconds
        await client.create(raw_kinds.JOBS, "large", job("many-pods", pods), deadline=CREATE_TIMEOUT)
        for number in range(LARGE):
            await client.create(raw_kinds.JOBS, "large", job(f"many-bytes-{number}", 1, BYTES), deadline=CREATE_TIMEOUT)
        beside: list[dict[str, float]] = []
        while not beside or time.monotonic() < end:
            beside.append(await seconds_until(client, f"beside-{len(beside)}"))
            await asyncio.sleep(PAUSE)
        created = (await client.get(raw_kinds.JOBS, "large", "many-pods"))["status"]
    alone_runs, beside_runs = ([seconds["running"] for seconds in jobs] for jobs in (alone, beside))
    stages = {
        f"beside, {stage}: median seconds": statistics.median(seconds[stage] for seconds in beside) for stage in STAGES
    }
    return {
        "alone, median seconds": statistics.median(alone_runs),
        "beside, median seconds": statistics.median(beside_runs),
        "beside, most seconds": max(beside_runs),
        "most seconds more than alone": max(beside_runs) - statistics.median(alone_runs),
        **stages,
        "jobs of one pod": len(beside),
        "pods that exist": sum(created.get(count, 0) for count in ("pending", "running", "succeeded", "failed")),
        **{f"{name}: MiB": cost(process.pid).highest for name, process in stand.processes.items()},
    }


async def _in_cluster(servers: Mapping[str, Any], given: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="volcanopy-beside-") as folder:
        stand = Stand(Path(folder))
        if given.kubeconfig is not None:
            stand.kubeconfig = given.kubeconfig
            return await _measured(stand, given.pods, given.seconds)
        try:
            async with servers[given.server](stand):
                return await _measured(stand, given.pods, given.seconds)
        finally:
            stand.stop()


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the measures."""
    servers = {"embedded": embedded, "real": _real}
    parser = argparse.ArgumentParser(prog="python -m bench beside")
    parser.add_argument("--server", choices=tuple(servers), default="embedded")
    parser.add_argument("--kubeconfig", type=Path, help="a running cluster instead, with volcanopy")
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    return asyncio.run(_in_cluster(servers, parser.parse_args(list(options))))
