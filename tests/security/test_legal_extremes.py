"""Whatever the API server accepts, everybody else's jobs run: no process, watch or worker ends because of one object."""

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import COUNT, clear_workloads
from tests.e2e.world import QUEUES, World, batch_job
from tests.security.extremes import BASES, Schemas, objects
from tests.servers import EMBEDDED_BY_DAY
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.metrics.registry import REGISTRY
from volcanopy_local.cluster import Components, LocalCluster, Parts
from volcanopy_local.simulated import nodes

SEED, EACH = 20260801, 40
"""Objects of each kind."""
# Without admission, which rejects some: the services withstand what the schemas accept.
PARTS = Parts(admission=None, adopt_all=False)
TAINT = {"key": "control", "value": "yes", "effect": "NoSchedule"}


@pytest.fixture(params=EMBEDDED_BY_DAY)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A cluster whose first node and queue ``control`` are for the jobs of everybody else."""
    namespace = f"extreme-{uuid.uuid4().hex[:8]}"
    manifests = nodes.manifests(COUNT)
    manifests[0].setdefault("spec", {})["taints"] = [TAINT]
    space: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    queue = {
        "apiVersion": QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": f"control-{namespace}"},
        "spec": {},
    }
    if request.param == "embedded":
        async with LocalCluster(0, parts=PARTS) as local:
            await Creator(local.client).create([space, *manifests, queue])
            yield World(local.components, namespace, local.components.connection)  # type: ignore[arg-type]
        return
    plane: ControlPlane = request.getfixturevalue("real_control_plane")
    connection = load_connection(plane.kubeconfig)
    async with Client(connection) as client:
        await clear_workloads(client)
        await Creator(client).create([space, *manifests])
        try:
            async with Components(connection, PARTS) as components:
                await Creator(client).create([queue])
                yield World(components, namespace, plane.kubeconfig)
        finally:
            await clear_workloads(client)
            for base in BASES:
                if base["kind"] in {"Queue", "HyperNode", "NumaTopology", "ResourceSlice", "Node"}:
                    await _delete_all(client, base)
            await client.delete(QUEUES, None, f"control-{namespace}")


async def _delete_all(client: Client, base: Json) -> None:
    kind = await Creator(client).kind(base)
    for item in (await client.list(kind)).items:
        if item["metadata"]["name"].startswith("x-"):
            try:
                await client.delete(kind, None, item["metadata"]["name"])
            except NotFound:
                continue


async def control(world: World, name: str) -> None:
    """A job of another user completes."""
    job = batch_job(name, 2, "1", duration="50ms", queue=f"control-{world.namespace}")
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec |= {
        "tolerations": [{"key": "control", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/hostname": "node-1"},
    }
    await world.create(job)
    await world.job(name, "Completed", seconds=60)


async def schemas_of(world: World, base: Json) -> Schemas:
    group = base["apiVersion"]
    path = f"/openapi/v3/{'apis/' if '/' in group else 'api/'}{group}"
    return Schemas(json.loads(await world.client.get_raw(path))["components"]["schemas"])


@pytest.mark.slow("sends 520 objects to an API server")
async def test_a_job_completes_beside_every_legal_extreme(world: World) -> None:
    await control(world, "before")
    restarts, accepted, faults = _restarts(), Counter[str](), list[str]()
    for base in BASES:
        kind: Kind[Json] = await Creator(world.client).kind(base)
        namespace = world.namespace if kind.namespaced else None
        made = list(objects(base, await schemas_of(world, base), SEED, EACH))

        async def create(manifest: Json, kind: Kind[Json] = kind, namespace: str | None = namespace) -> bool:
            try:
                await world.client.create(kind, namespace, manifest)
            except ApiError as error:
                if error.code >= 500:
                    faults.append(f"{json.dumps(manifest)}: {error}")
                return False
            return True

        accepted[base["kind"]] += sum(await asyncio.gather(*map(create, made)))
    assert not faults, faults
    await control(world, "after")
    assert _restarts() == restarts
    assert not world.components._fault.done(), world.components._fault.result()
    rejected = [base["kind"] for base in BASES if not accepted[base["kind"]]]
    assert not rejected, f"the server accepts no object: {rejected}"
    assert sum(accepted.values()) > len(BASES) * EACH / 4, accepted


def _restarts() -> float:
    return sum(
        sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "volcanopy_part_restarts_total"
    )
