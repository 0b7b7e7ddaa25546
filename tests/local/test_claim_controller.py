"""What the embedded cluster does about volumes and claims of its own accord."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from embedded_apiserver.server import ApiServer
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import DEVICE_CLAIMS, PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from volcanopy_local.cluster import connection_to
from volcanopy_local.simulated.claim_controller import ClaimController
from volcanopy_local.simulated.timers import TimedWorkers


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A server on which only the claim controllers run."""
    server = await ApiServer.start()
    try:
        async with Client(connection_to(server)) as client:
            stop, ready = asyncio.Event(), asyncio.Event()
            working = asyncio.create_task(ClaimController(client).run(stop, ready))
            await ready.wait()
            yield client
            stop.set()
            await working
    finally:
        await server.stop()


async def until(client: Client, kind: Kind[Json], holds: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
    """Wait for a condition on all objects of a kind, by their keys."""
    reflector, changed = Reflector(client, kind), asyncio.Event()
    following = asyncio.create_task(reflector.run(lambda _: changed.set()))
    try:
        async with asyncio.timeout(60):
            await reflector.synced.wait()
            while not holds(reflector.objects):
                changed.clear()
                await changed.wait()
    finally:
        following.cancel()
    return dict(reflector.objects)


def body(kind: Kind[Any], name: str, **said: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **said}


def volume(name: str, size: str, **said: Any) -> Json:
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "slow"}
    return body(VOLUMES, name, spec={**spec, "hostPath": {"path": "/x"}, **said})


def claim(name: str, size: str = "1Gi", storage_class: str = "slow") -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return body(VOLUME_CLAIMS, name, spec={**spec, "storageClassName": storage_class})


def phase(name: str, wanted: str, namespace: str = "default/") -> Callable[[dict[str, Json]], bool]:
    key = f"{namespace}{name}"
    return lambda resource_template: (
        key in resource_template and (resource_template[key].get("status") or {}).get("phase") == wanted
    )


async def test_a_claim_is_bound_to_the_smallest_matching_volume(client: Client) -> None:
    for name, size in (("big", "9Gi"), ("right", "2Gi"), ("small", "1Gi")):
        await client.create(VOLUMES, None, volume(name, size))
    await client.create(VOLUME_CLAIMS, "default", claim("data", "2Gi"))
    claims = await until(client, VOLUME_CLAIMS, phase("data", "Bound"))
    assert claims["default/data"]["spec"]["volumeName"] == "right"
    assert claims["default/data"]["status"]["capacity"] == {"storage": "2Gi"}
    volumes = await until(client, VOLUMES, phase("right", "Bound", ""))
    assert volumes["right"]["spec"]["claimRef"]["name"] == "data"
    assert not volumes["big"]["spec"].get("claimRef")


async def test_a_volume_without_a_required_field_matches_no_claim(client: Client) -> None:
    term = {"matchExpressions": [{"key": "zone", "values": ["a"]}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    await client.create(VOLUMES, None, volume("broken", "1Gi", nodeAffinity=affinity))
    await client.create(VOLUMES, None, volume("whole", "2Gi"))
    await client.create(VOLUME_CLAIMS, "default", claim("data"))
    claims = await until(client, VOLUME_CLAIMS, phase("data", "Bound"))
    assert claims["default/data"]["spec"]["volumeName"] == "whole"


async def test_wait_for_first_consumer_delays_binding(client: Client) -> None:
    """The other claim of a class that does not wait is bound meanwhile: the waiting one was looked at before it."""
    waits = body(STORAGE_CLASSES, "local", provisioner="disks.example.com", volumeBindingMode="WaitForFirstConsumer")
    await client.create(STORAGE_CLASSES, None, waits)
    await client.create(STORAGE_CLASSES, None, body(STORAGE_CLASSES, "fast", provisioner="disks.example.com"))
    await client.create(VOLUME_CLAIMS, "default", claim("waiting", storage_class="local"))
    await client.create(VOLUME_CLAIMS, "default", claim("now", storage_class="fast"))
    claims = await until(client, VOLUME_CLAIMS, phase("now", "Bound"))
    assert claims["default/waiting"]["status"]["phase"] == "Pending"
    notes = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    await client.patch(VOLUME_CLAIMS, "default", "waiting", notes)
    await until(client, VOLUME_CLAIMS, phase("waiting", "Bound"))


async def test_a_provisioned_volume_is_deleted_with_its_claim_and_others_are_released(client: Client) -> None:
    await client.create(STORAGE_CLASSES, None, body(STORAGE_CLASSES, "fast", provisioner="disks.example.com"))
    await client.create(VOLUMES, None, volume("kept", "1Gi", persistentVolumeReclaimPolicy="Retain"))
    await client.create(VOLUME_CLAIMS, "default", claim("old"))
    await client.create(VOLUME_CLAIMS, "default", claim("new", storage_class="fast"))
    await until(client, VOLUME_CLAIMS, phase("old", "Bound"))
    await until(client, VOLUME_CLAIMS, phase("new", "Bound"))
    for name in ("old", "new"):
        await client.delete(VOLUME_CLAIMS, "default", name)
    volumes = await until(client, VOLUMES, lambda resource_template: list(resource_template) == ["kept"])
    assert volumes["kept"]["spec"]["claimRef"]["name"] == "old"
    await until(client, VOLUMES, phase("kept", "Released", ""))


async def test_a_claim_is_deallocated_when_its_last_pod_is_deleted(client: Client) -> None:
    containers = [{"name": "main", "image": "busybox"}]
    spec = {"containers": containers, "resourceClaims": [{"name": "card", "resourceClaimName": "card"}]}
    pod = await client.create(PODS, "default", body(PODS, "a", spec=spec))
    request = {"name": "r", "exactly": {"deviceClassName": "card"}}
    await client.create(
        DEVICE_CLAIMS, "default", body(DEVICE_CLAIMS, "card", spec={"devices": {"requests": [request]}})
    )
    device = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "0"}
    user = {"resource": "pods", "name": "a", "uid": pod["metadata"]["uid"]}
    given = {"allocation": {"devices": {"results": [device]}}, "reservedFor": [user]}
    await client.patch_status(DEVICE_CLAIMS, "default", "card", {"status": given})
    await client.delete(PODS, "default", "a", grace=0)
    resource_template = await until(
        client, DEVICE_CLAIMS, lambda claims: not (claims["default/card"].get("status") or {}).get("allocation")
    )
    assert not resource_template["default/card"]["status"].get("reservedFor")


async def test_pods_without_claims_cost_the_controller_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are many of them, and few others."""
    waiting: list[str] = []
    put = TimedWorkers.put

    def counted(workers: TimedWorkers, key: str) -> None:
        waiting.append(key)
        put(workers, key)

    monkeypatch.setattr(TimedWorkers, "put", counted)
    containers = [{"name": "main", "image": "busybox"}]
    for number in range(10):
        await client.create(PODS, "default", body(PODS, f"plain-{number}", spec={"containers": containers}))
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    spec = {"containers": containers, "volumes": volumes}
    await client.create(PODS, "default", body(PODS, "claiming", spec=spec))
    await until(client, VOLUME_CLAIMS, lambda claims: "default/claiming-v" in claims)
    assert {key for key in waiting if key.startswith("Pod ")} == {"Pod default/claiming"}
