"""A cluster to apply plans to: the embedded API server with our kinds, and short ways to fill it and to look at it."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from embedded_apiserver.server import ApiServer
from tests.controlplane.fixtures import chart_crd
from volcanopy.api import core
from volcanopy.kube.cache.followed_kinds import NODES, POD_GROUPS, PODS, QUEUES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import NoAnswer
from volcanopy.kube.client.kinds import Kind

Json = dict[str, Any]
CRDS: Kind[Json] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)
EVENTS: Kind[Json] = Kind("", "v1", "Event", "events", True, dict)
CHART = Path(__file__).parents[2] / "charts" / "volcanopy" / "crds"


class Cluster:
    """The server, an honest client of it, and shorthand."""

    server: ApiServer
    """The embedded server, where it is that."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.connection = client.connection

    async def node(self, name: str, cpu: str = "4", pods: str = "110") -> None:
        await self.client.create(
            NODES,
            None,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": pods}, "capacity": {"cpu": cpu}},
            },
        )

    async def queue(self, name: str = "default", **spec: Any) -> None:
        await self.client.create(QUEUES, None, body(QUEUES, name, spec=spec or {"weight": 1}))

    async def group(self, name: str, minimum: int, phase: str = "", queue: str = "default") -> core.PodGroup:
        made = await self.client.create(
            POD_GROUPS, "default", body(POD_GROUPS, name, spec={"minMember": minimum, "queue": queue})
        )
        if phase:
            made = await self.client.patch_status(POD_GROUPS, "default", name, {"status": {"phase": phase}})
        return made

    async def pod(
        self, name: str, group: str = "", cpu: str = "1", scheduler: str = "volcanopy", namespace: str = "default"
    ) -> core.Pod:
        meta: Json = {"annotations": {"scheduling.k8s.io/group-name": group}} if group else {}
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
        return await self.client.create(PODS, namespace, body(PODS, name, spec=spec, **meta))

    async def gang(self, name: str, size: int, cpu: str = "1", phase: str = "Inqueue") -> None:
        await self.group(name, size, phase)
        for number in range(size):
            await self.pod(f"{name}-{number}", name, cpu)

    async def get_pod(self, name: str) -> core.Pod:
        return await self.client.get(PODS, "default", name)

    async def get_group(self, name: str) -> core.PodGroup:
        return await self.client.get(POD_GROUPS, "default", name)

    async def where(self) -> dict[str, str]:
        """The node of each pod that has one."""
        listing = await self.client.list(PODS, "default")
        return {pod.metadata.name: pod.spec.node_name for pod in listing.items if pod.spec.node_name}

    async def events(self, reason: str = "") -> list[tuple[str, str, str]]:
        """(object, reason, message) of all events of this namespace, or of those with this reason.

        Other programs of a borrowed cluster may still write events about objects of earlier tests in theirs.
        """
        listing = await self.client.list(EVENTS, "default")
        result = [(obj["involvedObject"]["name"], obj["reason"], obj["message"]) for obj in listing.items]
        return sorted(entry for entry in result if not reason or entry[1] == reason)

    async def until(self, holds: Callable[[], Awaitable[bool]], *kinds: Kind[Any], deadline: float = 120.0) -> None:
        """Wait for a condition that can become true only with a change of one of these kinds (pods)."""
        async with asyncio.timeout(deadline):
            version = (await self.client.list(kinds[0] if kinds else PODS)).resource_version
            while not await holds():
                # Where a busy machine let a connection take too long, the next attempt makes another.
                with contextlib.suppress(NoAnswer):
                    version = await self._next_change(kinds[0] if kinds else PODS, version)

    async def _next_change(self, kind: Kind[Any], version: str) -> str:
        async with self.client.watch(kind, resource_version=version) as stream:
            await stream.readline()
        return (await self.client.list(kind)).resource_version


def body(kind: Kind[Any], name: str, spec: Json | None = None, **meta: Any) -> Json:
    made: Json = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **meta}}
    return made if spec is None else {**made, "spec": spec}


@asynccontextmanager
async def running_cluster() -> AsyncIterator[Cluster]:
    """An empty cluster that knows our kinds."""
    server = await ApiServer.start()
    try:
        async with Client(Connection(server.url)) as client:
            for definition in _definitions():
                await client.create(CRDS, None, definition)
            cluster = Cluster(client)
            cluster.server = server
            yield cluster
    finally:
        await server.stop()


@asynccontextmanager
async def borrowed_cluster(connection: Connection) -> AsyncIterator[Cluster]:
    """A cluster that others use before and after us: emptied of all that matters to scheduling."""
    async with Client(connection) as client:
        await _empty(client)
        try:
            yield Cluster(client)
        finally:
            await _empty(client)


async def _empty(client: Client) -> None:
    for kind in (PODS.raw, POD_GROUPS.raw, EVENTS):
        for namespace in {obj["metadata"]["namespace"] for obj in (await client.list(kind)).items}:
            await client.delete_collection(kind, namespace, grace=0)
    for kind in (NODES.raw, QUEUES.raw):
        await client.delete_collection(kind, None)


@functools.cache
def _definitions() -> tuple[Json, ...]:
    """The kinds that scheduling needs."""
    files = (CHART / f"{plural}.scheduling.volcanopy.io.yaml" for plural in ("podgroups", "queues"))
    return tuple(map(chart_crd, files))
