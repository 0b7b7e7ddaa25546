"""The API servers on which programs of clients run: the embedded one and a real kube-apiserver, each with all services of volcanopy."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import msgspec
import pytest

from tests.controlplane.fixtures import need_programs
from tests.controlplane.plane import ControlPlane
from volcanopy.api.bindings import BINDINGS
from volcanopy.api.volcano_crds import crds_of
from volcanopy.client.manifests import Creator
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy_local.cluster import Components, LocalCluster, Parts
from volcanopy_local.process.kubelet import ProcessKubelet

SECONDS = 600
"""Time for what a client does on a busy machine."""


@dataclass(frozen=True)
class Server:
    """An API server with Volcano's kinds and all services of volcanopy."""

    client: Client
    kubeconfig: str
    addresses: dict[str, str]
    """Where the Services of webhooks are, on a server that does not resolve their names."""
    process_kubelet: ProcessKubelet | None
    """The kubelet of process nodes, if there are any."""

    async def until(self, kind: Kind[Json], holds: Callable[[list[Json]], bool]) -> list[Json]:
        """Follow the objects of a kind in the namespace of the workload until a condition holds for them."""
        followed = Reflector(self.client, kind, "default")
        async with asyncio.timeout(SECONDS), contextlib.aclosing(followed.batches()) as batches:
            async for _ in batches:
                if holds(list(followed.objects.values())):
                    break
        return list(followed.objects.values())

    async def until_gone(self, kind: Kind[Json]) -> None:
        """Follow the objects of a kind in the namespace of the workload until there are none."""
        followed, gone = Reflector(self.client, kind, "default"), asyncio.Event()

        def look() -> None:
            if not followed.objects:
                gone.set()

        async def follow() -> None:
            async with contextlib.aclosing(followed.batches()) as batches:
                async for _ in batches:
                    look()

        followed.on_listed = look  # an empty list is no batch
        following = asyncio.create_task(follow())
        try:
            async with asyncio.timeout(SECONDS):
                await gone.wait()
        finally:
            following.cancel()

    async def token_of_account(self, namespace: str, name: str) -> str:
        """A token for a new service account, which may do everything but is no administrator to admission."""
        metadata = {"name": name, "namespace": namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        }
        await Creator(self.client).create([account, binding])
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token: str = msgspec.json.decode(await self.client.post_raw(path, request))["status"]["token"]
        return token


StartServer = Callable[[Sequence[Json], Parts], AbstractAsyncContextManager[Server]]
"""Starts a server with these objects, the nodes among them, and these services."""


@asynccontextmanager
async def embedded_server(objects: Sequence[Json], parts: Parts) -> AsyncIterator[Server]:
    async with LocalCluster(0, objects=objects, parts=parts, tls=True) as cluster:
        addresses = cluster.server.context.service_addresses
        yield Server(cluster.client, cluster.kubeconfig(), addresses, cluster.process_kubelet)


@asynccontextmanager
async def real_server(objects: Sequence[Json], parts: Parts) -> AsyncIterator[Server]:
    need_programs()
    plane = await asyncio.to_thread(lambda: ControlPlane.start(crds=crds_of(BINDINGS)))
    try:
        connection = load_connection(plane.kubeconfig)
        async with Client(connection) as client:
            await Creator(client).create(objects)
        async with Components(connection, parts) as components:
            yield Server(components.client, plane.kubeconfig.read_text(), {}, components.process_kubelet)
    finally:
        await asyncio.to_thread(plane.stop)


def kind_of(definition: Json) -> Kind[Json]:
    """The kind that a definition defines, in its stored version."""
    spec = definition["spec"]
    [version] = [each["name"] for each in spec["versions"] if each["storage"]]
    named, namespaced = spec["names"], spec["scope"] == "Namespaced"
    return Kind(spec["group"], version, named["kind"], named["plural"], namespaced, dict)


async def until_served(client: Client, kinds: Iterable[Kind[Json]]) -> None:
    """Wait until the discovery of the server lists these kinds: operators read it once, when they start."""
    for kind in kinds:
        listed: set[str] = set()
        async with asyncio.timeout(SECONDS):
            while kind.plural not in listed:
                await asyncio.sleep(0.1)
                with contextlib.suppress(NotFound):
                    version = msgspec.json.decode(await client.get_raw(f"/apis/{kind.api_version}"))
                    listed = {resource["name"] for resource in version["resources"]}


def reason_to_wait(groups: list[Json]) -> str:
    """What the only PodGroup says of why its pods do not start."""
    conditions = [each for group in groups for each in group.get("status", {}).get("conditions") or ()]
    return next((each["message"] for each in conditions if each["type"] == "Unschedulable" and each["message"]), "")


on_both_servers = pytest.mark.parametrize(
    "start", [embedded_server, pytest.param(real_server, marks=pytest.mark.real)], ids=["embedded", "real"]
)
"""Runs a test with each of the servers."""
