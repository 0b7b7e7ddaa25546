"""A simulated kubelet on an API server, and what tests do with pods: make them and wait for what becomes of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from embedded_apiserver.server import ApiServer
from volcanopy.client.manifests import Creator
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy_local.cluster import connection_to
from volcanopy_local.simulated import nodes
from volcanopy_local.simulated.kubelet import Kubelet
from volcanopy_local.simulated.pod_stages import Stages

PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)
NODES: Kind[Json] = Kind("", "v1", "Node", "nodes", False, dict)


@dataclass
class Rig:
    """The kubelet, and a client of the cluster that it serves."""

    server: ApiServer
    client: Client
    kubelet: Kubelet

    async def run(
        self, name: str, node: str = "node-1", annotations: dict[str, str] | None = None, **spec: Any
    ) -> Json:
        """Create a bound pod; ``annotations`` are its simulation annotations, without their prefix."""
        notes = {f"sim.volcanopy.io/{key}": text for key, text in (annotations or {}).items()}
        container = {"name": "main", "image": "busybox", "command": ["true"]}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": notes},
            "spec": {"restartPolicy": "Never", "containers": [container], "nodeName": node, **spec},
        }
        return await self.client.create(PODS, "default", body)

    async def until(self, kind: Kind[Json], holds: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
        """Wait for a condition on the objects of a kind, by name; return them."""
        reflector, changed = Reflector(self.client, kind), asyncio.Event()
        following = asyncio.create_task(reflector.run(lambda _: changed.set()))
        try:
            await reflector.synced.wait()
            while not holds(result := {obj["metadata"]["name"]: obj for obj in reflector.objects.values()}):
                changed.clear()
                await changed.wait()
        finally:
            following.cancel()
        return result

    async def pod(self, name: str, phase: str) -> Json:
        """Wait until a pod is in a phase; gives it."""
        return (await self.until(PODS, lambda pods: name in pods and pods[name]["status"]["phase"] == phase))[name]

    async def gone(self, name: str) -> None:
        """Wait until a pod is no more."""
        await self.until(PODS, lambda pods: name not in pods)


@asynccontextmanager
async def rig(server: ApiServer, stages: Stages, nodes: int = 0, *, adopt_all: bool = True) -> AsyncIterator[Rig]:
    """A kubelet at work on a server, with so many nodes of its own."""
    async with Client(connection_to(server)) as client:
        kubelet = Kubelet(client, stages=stages, adopt_all=adopt_all)
        stop, ready = asyncio.Event(), asyncio.Event()
        working = asyncio.create_task(kubelet.run(stop, ready))
        await ready.wait()
        await Creator(client).create(manifests(nodes))
        yield Rig(server, client, kubelet)
        stop.set()
        await working


manifests = nodes.manifests
