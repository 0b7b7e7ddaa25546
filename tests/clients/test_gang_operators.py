"""The operators of `gang_operators` as programs, unchanged, against volcanopy: `make operators OPERATORS=folder`.

The folder has their source trees; in each, its own build has put the program.
"""

import asyncio
import base64
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import jsonpatch
import msgspec
import pytest
import yaml

from tests.clients.gang_operators import GANG, OPERATORS, QUEUE, Operator, Site
from tests.controlplane.fixtures import need_programs
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_port
from volcanopy.api.bindings import BINDINGS, VOLCANO
from volcanopy.api.volcano_crds import crds_of
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS, bound
from volcanopy.local.cluster import Components, LocalCluster, Parts
from volcanopy.local.manifests import Creator
from volcanopy.local.simulated import nodes
from volcanopy.services.controllers.user_kinds import wait_for_kinds
from volcanopy.services.process.certificates import issue, make_authority

TREES = Path(os.environ.get("OPERATORS") or "/nonexistent")
GROUPS = bound(POD_GROUPS, VOLCANO)
SECONDS = 600
"""Time for what an operator does on a busy machine."""
NODE = {"cpu": "4"}
QUEUE_OF_GANGS: Json = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": QUEUE},
    "spec": {"weight": 1},
}


@dataclass(frozen=True)
class Server:
    """An API server with Volcano's kinds, two simulated nodes and all services of volcanopy."""

    client: Client
    kubeconfig: str

    async def until(self, kind: Kind[Json], holds: Callable[[list[Json]], bool]) -> list[Json]:
        """Follow the objects of a kind in the namespace of the workload until a condition holds for them."""
        followed = Reflector(self.client, kind, "default")
        async with asyncio.timeout(SECONDS), contextlib.aclosing(followed.batches()) as batches:
            async for _ in batches:
                if holds(list(followed.objects.values())):
                    break
        return list(followed.objects.values())


@asynccontextmanager
async def embedded_server() -> AsyncIterator[Server]:
    async with LocalCluster(2, capacity=NODE, objects=[QUEUE_OF_GANGS], parts=Parts(api="both")) as cluster:
        yield Server(cluster.client, cluster.kubeconfig())


@asynccontextmanager
async def real_server() -> AsyncIterator[Server]:
    need_programs()
    plane = await asyncio.to_thread(lambda: ControlPlane.start(crds=crds_of(BINDINGS)))
    try:
        connection = Connection.load(plane.kubeconfig)
        async with Client(connection) as client:
            await Creator(client).create([*nodes.manifests(2, NODE), QUEUE_OF_GANGS])
        async with Components(connection, Parts(api="both")) as components:
            yield Server(components.client, plane.kubeconfig.read_text())
    finally:
        await asyncio.to_thread(plane.stop)


async def kubeconfig_of_account(server: Server, namespace: str) -> str:
    """A kubeconfig for a service account of the operator, which may do everything but is no administrator to admission."""
    metadata = {"name": "operator", "namespace": namespace}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{namespace}-operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **metadata}],
    }
    await Creator(server.client).create([account, binding])
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/operator/token"
    token = msgspec.json.decode(await server.client.post_raw(path, request))["status"]["token"]
    config = yaml.safe_load(server.kubeconfig)
    config["users"][0]["user"] = {"token": token}
    return yaml.safe_dump(config)


def documents(path: Path) -> list[Json]:
    """The objects in a file; the definitions of operators are large."""
    return [each for each in yaml.load_all(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if each]


def definitions(operator: Operator) -> list[Json]:
    """The definitions of the kinds of an operator."""
    paths = [path for pattern in operator.definitions for path in sorted(TREES.glob(pattern))]
    return [body for path in paths for body in documents(path)]


def kind_of(definition: Json) -> Kind[Json]:
    """The kind that a definition defines, in its stored version."""
    spec = definition["spec"]
    [version] = [each["name"] for each in spec["versions"] if each["storage"]]
    named, namespaced = spec["names"], spec["scope"] == "Namespaced"
    return Kind(spec["group"], version, named["kind"], named["plural"], namespaced, dict)


def webhooks(operator: Operator, site: Site) -> list[Json]:
    """The webhooks of an operator as its installation has them, at its address on this machine."""
    authority = make_authority(datetime.now(UTC))
    served = issue(authority, ["127.0.0.1"], datetime.now(UTC))
    (site.folder / "tls.crt").write_bytes(served.certificate)
    (site.folder / "tls.key").write_bytes(served.key)
    folder = TREES / operator.webhooks
    configurations = documents(folder / "manifests.yaml")
    for configuration in configurations:
        kind = configuration["kind"].removesuffix("WebhookConfiguration").lower()
        [patch] = folder.rglob(f"{kind}-patch.yaml")
        jsonpatch.apply_patch(configuration, yaml.safe_load(patch.read_text()), in_place=True)
        configuration["metadata"]["name"] = f"{operator.namespace}-{kind}"
        for hook in configuration["webhooks"]:
            url = f"https://127.0.0.1:{site.port}{hook['clientConfig']['service']['path']}"
            bundle = base64.b64encode(authority.certificate).decode()
            hook["clientConfig"] = {"url": url, "caBundle": bundle}
    return configurations


@asynccontextmanager
async def running(operator: Operator, server: Server, folder: Path) -> AsyncIterator[None]:
    """The operator at work; a program that ends early, or does not begin, fails the test with its log."""
    site = Site(folder, free_port(), operator.namespace)
    creator = Creator(server.client, operator.namespace)
    served = definitions(operator)
    await creator.create(served)
    await wait_for_kinds(server.client, [kind_of(definition) for definition in served])
    config = folder / "kubeconfig"
    config.write_text(await kubeconfig_of_account(server, operator.namespace))
    hooks = webhooks(operator, site) if operator.webhooks else []
    process = await asyncio.create_subprocess_exec(
        *(str(TREES / operator.program), *operator.arguments(site)),
        env=os.environ | {"KUBECONFIG": str(config)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    log, missing, ready = folder / "operator.log", set(operator.ready), asyncio.Event()

    async def read() -> None:
        assert process.stdout is not None
        with log.open("wb") as output:
            async for line in process.stdout:
                output.write(line)
                output.flush()
                missing.difference_update([each for each in missing if re.search(each, line.decode())])
                if not missing:
                    ready.set()

    reading, waiting = asyncio.create_task(read()), asyncio.create_task(ready.wait())
    try:
        await asyncio.wait((reading, waiting), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set(), f"{operator.name} did not log {missing}:\n{log.read_text()}"
        await creator.create(hooks)
        yield
        assert process.returncode is None, log.read_text()
    finally:
        waiting.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        await reading


def reason_to_wait(groups: list[Json]) -> str:
    """What the only PodGroup says of why its pods do not start."""
    conditions = [each for group in groups for each in group.get("status", {}).get("conditions") or ()]
    return next((each["message"] for each in conditions if each["type"] == "Unschedulable" and each["message"]), "")


@pytest.mark.slow("starts an operator, and with `real` an API server")
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize(
    "server", [embedded_server, pytest.param(real_server, marks=pytest.mark.real)], ids=["embedded", "real"]
)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
async def test_the_pods_of_an_operator_start_together_or_not_at_all(
    operator: Operator, server: Callable[[], contextlib.AbstractAsyncContextManager[Server]], tmp_path: Path
) -> None:
    """Two pods of the three would fit on the two nodes; with the third node all start, and the operator reports it."""
    if not (TREES / operator.program).is_file():
        pytest.skip(f"needs OPERATORS, a folder with {operator.program}: `make operators`")
    async with server() as cluster, running(operator, cluster, tmp_path):
        creator = Creator(cluster.client)
        [workload] = await creator.create([operator.workload("3")])
        kind = await creator.kind(workload)
        [group] = await cluster.until(GROUPS, lambda groups: "cpu" in reason_to_wait(groups))
        assert group["spec"]["minMember"] == GANG
        assert group["spec"]["queue"] == QUEUE
        pods = (await cluster.client.list(PODS, "default")).items
        assert [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")] == []

        await creator.create([nodes.manifest("node-3", 2, NODE)])
        [workload] = await cluster.until(kind, lambda objects: any(operator.finished(each) for each in objects))
        pods = (await cluster.client.list(PODS, "default")).items
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
        assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {
            group["metadata"]["name"]
        }
