"""Scheduler and controller are killed at random points while gangs run: nothing is lost, nothing is done twice."""

import asyncio
import random
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from volcanopy.kube.client import Client, Kind
from volcanopy.kube.connection import Connection
from volcanopy.kube.slices import PODS
from volcanopy.kube.watch import Change, ChangeType, Reflector
from volcanopy.local.apiserver.server import ApiServer
from volcanopy.local.cluster import Machinery, Parts, connection_to
from volcanopy.local.creating import Creator
from volcanopy.local.nodes import NODES, manifests

GANGS, SIZE, KILLS = 20, 4, 12
JOBS: Kind[dict[str, Any]] = Kind("batch.volcanopy.io", "v1alpha1", "BatchJob", "batchjobs", True, dict)
NAMESPACES: Kind[dict[str, Any]] = Kind("", "v1", "Namespace", "namespaces", False, dict)


def gang(number: int) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": {"sim.volcanopy.io/duration": "500ms"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": f"gang-{number:02}"},
        "spec": {
            "minAvailable": SIZE,
            "tasks": [
                {"name": "head", "replicas": 1, "template": template},
                {"name": "worker", "replicas": SIZE - 1, "template": template},
            ],
        },
    }


class Witness:
    """Sees every change of every pod: who was made under which name, and where each was bound."""

    def __init__(self) -> None:
        self.made: defaultdict[str, set[str]] = defaultdict(set)
        self.bound: defaultdict[str, set[str]] = defaultdict(set)
        self.seen = 0
        self.news = asyncio.Condition()

    async def see(self, changes: list[Change[Any]]) -> None:
        async with self.news:
            for change in changes:
                pod = change.object
                self.seen += 1
                if change.type is not ChangeType.DELETED:
                    self.made[pod.metadata.key].add(pod.metadata.uid)
                if pod.spec.node_name:
                    self.bound[pod.metadata.uid].add(pod.spec.node_name)
            self.news.notify_all()

    async def until_seen(self, count: int, within: float) -> None:
        """Until so many changes were seen, or it has been quiet for a while."""
        async with self.news:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self.news.wait_for(lambda: self.seen >= count)


class Process:
    """One of our services as a process of its own, which can be killed and started again."""

    def __init__(self, command: str, kubeconfig: Path, log: Path) -> None:
        self._command, self._kubeconfig, self._log = command, kubeconfig, log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        arguments = ("-m", "volcanopy", self._command, "--kubeconfig", str(self._kubeconfig))
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=log, stderr=log)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await self._process.wait()


@asynccontextmanager
async def embedded_server(tmp_path: Path) -> AsyncIterator[tuple[Connection, Path]]:
    server = await ApiServer.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig())
    connection = connection_to(server)
    try:
        async with Client(connection) as client:
            await Creator(client).install_definitions()
        yield connection, kubeconfig
    finally:
        await server.stop()


async def run_the_gangs(connection: Connection, kubeconfig: Path, tmp_path: Path, namespace: str) -> None:
    dice = random.Random(namespace)
    witness = Witness()
    services = [Process(name, kubeconfig, tmp_path / f"{name}.log") for name in ("scheduler", "controller")]
    parts = Parts(scheduler=None, controller=None, admission=None, adopt_all=False)
    async with Client(connection) as client, Machinery(connection, parts):
        await client.create(NAMESPACES, None, {"metadata": {"name": namespace}})
        await Creator(client).create(manifests(4, {"cpu": "8", "memory": "32Gi", "pods": "110"}))
        reflector = Reflector(client, PODS, namespace)

        async def watch() -> None:
            async for batch in reflector.batches():
                await witness.see(batch)

        watching = asyncio.create_task(watch())
        try:
            for service in services:
                await service.start()
            for number in range(GANGS):
                await client.create(JOBS, namespace, gang(number))
            for _ in range(KILLS):
                await witness.until_seen(witness.seen + dice.randint(1, 40), within=3)
                victim = dice.choice(services)
                await victim.end()
                await victim.start()
            await all_complete(client, namespace)
        finally:
            watching.cancel()
            for service in services:
                await service.end(signal.SIGTERM)
            await client.delete_collection(JOBS, namespace)
            await client.delete_collection(NODES, None)
    names = {
        f"{namespace}/gang-{number:02}-{task}"
        for number in range(GANGS)
        for task in ("head-0", "worker-0", "worker-1", "worker-2")
    }
    assert set(witness.made) == names
    assert {name: uids for name, uids in witness.made.items() if len(uids) != 1} == {}, "a pod was made twice"
    assert {uid: nodes for uid, nodes in witness.bound.items() if len(nodes) != 1} == {}, "a pod was bound twice"
    assert len(witness.bound) == GANGS * SIZE


async def all_complete(client: Client, namespace: str) -> None:
    reflector = Reflector(client, JOBS, namespace)
    phases: dict[str, str] = {}
    async with asyncio.timeout(90):
        async for batch in reflector.batches():
            for change in batch:
                state = change.object.get("status", {}).get("state", {})
                phases[change.object["metadata"]["name"]] = state.get("phase", "")
            assert "Failed" not in phases.values(), phases
            if len(phases) == GANGS and set(phases.values()) == {"Completed"}:
                return


@pytest.mark.timeout(180)
async def test_gangs_survive_kill_9_on_the_embedded_server(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as (connection, kubeconfig):
        await run_the_gangs(connection, kubeconfig, tmp_path, "crashes")


@pytest.mark.real
@pytest.mark.timeout(240)
async def test_gangs_survive_kill_9_on_a_real_server(real_control_plane: ControlPlane, tmp_path: Path) -> None:
    connection = Connection.load(real_control_plane.kubeconfig)
    await run_the_gangs(connection, real_control_plane.kubeconfig, tmp_path, "crashes")
