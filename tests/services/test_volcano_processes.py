"""A service of Volcano's API does not run beside the process of Volcano that it replaces."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from embedded_apiserver.server import ApiServer
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY, Binding
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import LEASES, NAMESPACES, PODS
from volcanopy.kube.client.transport import Transport
from volcanopy.services.admission import admission_service
from volcanopy.services.admission.admission_service import AdmissionSettings
from volcanopy.services.process.volcano_processes import NAMESPACE, VolcanoProcesses, VolcanoRunsError
from volcanopy_local.cluster import connection_to

MUTATING: Kind[Any] = Kind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, dict
)
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = await ApiServer.start(port=0)
    try:
        async with Client(connection_to(server)) as client:
            await client.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
            yield client
    finally:
        await server.stop()


def sought(
    client: Client, component: Any = "scheduler", bindings: tuple[Binding, ...] = (VOLCANO,)
) -> VolcanoProcesses:
    return VolcanoProcesses(client, component, bindings, now=lambda: NOW)


async def leased(client: Client, name: str, seconds_ago: float) -> None:
    renewed = (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    spec = {"holderIdentity": "node-7", "leaseDurationSeconds": 15, "renewTime": renewed}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
    await client.create(LEASES, NAMESPACE, body)


async def runs(client: Client, app: str) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{app}-1", "labels": {"app": app}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": app}]},
    }
    await client.create(PODS, NAMESPACE, body)
    await client.patch_status(PODS, NAMESPACE, f"{app}-1", {"status": {"phase": "Running"}})


async def test_nothing_is_refused_without_volcano(client: Client) -> None:
    await sought(client).ensure_none()
    await sought(client, "controller").ensure_none()


async def test_a_running_scheduler_of_volcano_is_named_with_the_remedy(client: Client) -> None:
    await runs(client, "volcano-scheduler")
    with pytest.raises(VolcanoRunsError) as refused:
        await sought(client).ensure_none()
    assert str(refused.value) == (
        'Volcano\'s scheduler runs in this cluster (pod "volcano-system/volcano-scheduler-1") and acts on the same '
        "objects: stop it, or start without Volcano's API (--api volcanopy)"
    )
    await sought(client, "controller").ensure_none()
    await sought(client, bindings=(VOLCANOPY,)).ensure_none()


async def test_a_busy_server_need_not_read_the_pods_from_etcd(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may answer from its cache, at any resource version."""
    asked: list[str] = []
    send = Transport.send

    async def recorded(self: Transport, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
        asked.append(path)
        return await send(self, method, path, *arguments, **options)

    monkeypatch.setattr(Transport, "send", recorded)
    await sought(client).ensure_none()
    assert (
        [path for path in asked if "/pods?" in path] == [path for path in asked if "&resourceVersion=0" in path] != []
    )


async def test_admission_does_not_start_beside_that_of_volcano(client: Client) -> None:
    connection = client.connection
    await sought(client, "admission").ensure_none()
    await runs(client, "volcano-admission")
    with pytest.raises(VolcanoRunsError, match="Volcano's admission runs in this cluster"):
        await admission_service.run(connection, AdmissionSettings(api="both"))
    assert (await client.list(MUTATING)).items == [], "nothing is registered"


async def test_a_renewed_lease_is_enough_and_an_old_one_is_not(client: Client) -> None:
    await leased(client, "volcano", seconds_ago=3)
    await leased(client, "vc-controller-manager", seconds_ago=16)
    with pytest.raises(VolcanoRunsError, match='Lease "volcano-system/volcano" of node-7'):
        await sought(client, bindings=BINDINGS).ensure_none()
    await sought(client, "controller", BINDINGS).ensure_none()


async def test_what_has_ended_is_not_refused_any_more(client: Client) -> None:
    await runs(client, "volcano-controller")
    processes = sought(client, "controller")
    with pytest.raises(VolcanoRunsError):
        await processes.ensure_none()
    await client.patch_status(PODS, NAMESPACE, "volcano-controller-1", {"status": {"phase": "Failed"}})
    await processes.ensure_none()
