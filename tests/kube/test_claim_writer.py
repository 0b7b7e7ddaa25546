"""What happens to claims before a pod is bound, and when it cannot be."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.kube.applier_setup import Rig
from tests.kube.cluster import Cluster, body, running_cluster
from tests.kube.faulty_server import Fault, FaultyServer
from tests.kube.flaky_client import refused
from volcanopy.api.builtin import devices
from volcanopy.kube.cache.followed_kinds import DEVICE_CLAIMS, PODS, VOLUME_CLAIMS, VOLUMES
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.scheduler.model.plan import Bind, Claims, DeviceChoice, VolumeChoice
from volcanopy.services.scheduler.writers.applier import Applied

ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "n1", "device": "0"}]}}
OTHER = {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "n1", "device": "1"}]}}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """The embedded server with one node and no controllers of claims."""
    async with running_cluster() as running:
        await running.node("n1")
        await running.queue()
        yield running


async def see(rig: Rig, *kinds: Kind[Any]) -> None:
    await rig.see()
    for kind in kinds:
        rig.store.take([Change(ChangeType.MODIFIED, obj) for obj in (await rig.cluster.client.list(kind)).items])


async def device_claim(cluster: Cluster, name: str) -> Json:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "card"}}]}}
    return await cluster.client.create(DEVICE_CLAIMS.raw, "default", body(DEVICE_CLAIMS, name, spec))


async def volume_claim(cluster: Cluster, name: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "x"}
    return await cluster.client.create(VOLUME_CLAIMS.raw, "default", body(VOLUME_CLAIMS, name, spec))


async def volume_object(cluster: Cluster, name: str) -> Json:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    return await cluster.client.create(VOLUMES.raw, None, body(VOLUMES, name, spec))


async def bound(cluster: Cluster, name: str, volume: str) -> None:
    """What the volume controller does."""
    await cluster.client.patch(VOLUME_CLAIMS, "default", name, {"spec": {"volumeName": volume}})
    await cluster.client.patch_status(VOLUME_CLAIMS, "default", name, {"status": {"phase": "Bound"}})


def bind(pod: str, *choices: VolumeChoice | DeviceChoice, timeout: int = 60) -> Bind:
    volumes = tuple(choice for choice in choices if isinstance(choice, VolumeChoice))
    given = tuple(choice for choice in choices if isinstance(choice, DeviceChoice))
    return Bind(f"default/{pod}", "n1", "default/a", claims=Claims(volumes, given, timeout))


def device(claim: Json, allocation: Json | None = ALLOCATION) -> DeviceChoice:
    return DeviceChoice(f"default/{claim['metadata']['name']}", claim["metadata"]["uid"], allocation)


def volume(claim: Json, name: str = "") -> VolumeChoice:
    return VolumeChoice(f"default/{claim['metadata']['name']}", claim["metadata"]["uid"], name)


async def test_devices_are_written_into_the_claim_with_the_pod_before_the_pod_is_bound(
    cluster: Cluster, rig: Rig
) -> None:
    await cluster.gang("a", 2)
    claim = await device_claim(cluster, "card")
    await see(rig, DEVICE_CLAIMS)
    done = await rig.apply(bind("a-0", device(claim)), bind("a-1", device(claim, None)))
    assert done == Applied(bound=2)
    result = await cluster.client.get(DEVICE_CLAIMS.raw, "default", "card")
    assert result["status"]["allocation"] == ALLOCATION
    assert sorted(item["name"] for item in result["status"]["reservedFor"]) == ["a-0", "a-1"]
    assert result["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    sent = [(verb, what) for verb, what, _ in rig.script.sent if verb in {"patch", "bind"}]
    assert sent.index(("patch", "resourceclaims")) < sent.index(("bind", "pods"))


async def test_written_allocations_count_until_the_watch_shows_them(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await device_claim(cluster, "card")
    await see(rig, DEVICE_CLAIMS)
    await rig.apply(bind("a-0", device(claim)))
    await rig.see()  # the pod is seen on its node before its claim is seen with its devices
    taken = ("d.example.com", "n1", "0")
    assert rig.store.state.claims.claim_tables().taken_devices[taken] == {"default/card"}
    await see(rig, DEVICE_CLAIMS)
    assert rig.store.state.claims.claim_tables().taken_devices[taken] == {"default/card"}
    await cluster.client.patch_status(
        DEVICE_CLAIMS.raw, "default", "card", {"status": {"allocation": None, "reservedFor": None}}
    )
    await see(rig, DEVICE_CLAIMS)
    assert taken not in rig.store.state.claims.claim_tables().taken_devices


async def test_devices_are_released_when_the_bind_fails(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await device_claim(cluster, "card")
    await see(rig, DEVICE_CLAIMS)
    rig.script.plan("bind", refused(403, "not you"))
    assert (await rig.apply(bind("a-0", device(claim)))).failed == ("default/a-0",)
    result = await cluster.client.get(DEVICE_CLAIMS.raw, "default", "card")
    assert not result["status"].get("allocation")
    assert not result["status"].get("reservedFor")
    assert rig.store.waits("default/a-0")
    assert not rig.store.state.claims.claim_tables().taken_devices


async def test_shared_devices_stay_allocated_when_one_bind_fails(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 2)
    claim = await device_claim(cluster, "card")
    await see(rig, DEVICE_CLAIMS)
    assert (await rig.apply(bind("a-0", device(claim)))).bound == 1
    await see(rig, DEVICE_CLAIMS)
    rig.script.plan("bind", refused(403, "not you"))
    assert (await rig.apply(bind("a-1", device(claim, None)))).failed == ("default/a-1",)
    result = await cluster.client.get(DEVICE_CLAIMS.raw, "default", "card")
    assert result["status"]["allocation"] == ALLOCATION
    assert [item["name"] for item in result["status"]["reservedFor"]] == ["a-0"]


async def test_a_claim_with_other_devices_fails_the_bind_with_a_message(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await device_claim(cluster, "card")
    await see(rig, DEVICE_CLAIMS)
    somebody = [{"resource": "pods", "name": "x", "uid": "x"}]
    theirs = {"status": {"allocation": OTHER, "reservedFor": somebody}}
    await cluster.client.patch_status(DEVICE_CLAIMS.raw, "default", "card", theirs)
    assert (await rig.apply(bind("a-0", device(claim)))).failed == ("default/a-0",)
    condition = await rig.condition("a-0")
    assert condition is not None
    assert "resourceclaim default/card was allocated other devices" in condition[2]
    assert await cluster.where() == {}


async def test_an_unused_allocation_is_replaced_by_the_decided_one(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await device_claim(cluster, "card")
    await cluster.client.patch_status(DEVICE_CLAIMS.raw, "default", "card", {"status": {"allocation": OTHER}})
    await see(rig, DEVICE_CLAIMS)
    assert (await rig.apply(bind("a-0", device(claim)))).bound == 1
    result = await cluster.client.get(DEVICE_CLAIMS.raw, "default", "card")
    assert result["status"]["allocation"] == ALLOCATION


async def test_devices_left_from_an_interrupted_bind_are_replaced_by_the_decided_ones(
    cluster: Cluster, rig: Rig
) -> None:
    """The scheduler ended after it had written the claim and before it bound the pod."""
    await cluster.gang("a", 1)
    claim = await device_claim(cluster, "card")
    uid = (await cluster.client.get(PODS.raw, "default", "a-0"))["metadata"]["uid"]
    left = {"allocation": OTHER, "reservedFor": [{"resource": "pods", "name": "a-0", "uid": uid}]}
    await cluster.client.patch_status(DEVICE_CLAIMS.raw, "default", "card", {"status": left})
    await see(rig, DEVICE_CLAIMS)
    assert (await rig.apply(bind("a-0", device(claim)))).bound == 1
    tables = rig.store.state.claims.claim_tables()
    assert set(tables.taken_devices) == {("d.example.com", "n1", "0")}
    result = await cluster.client.get(DEVICE_CLAIMS.raw, "default", "card")
    assert result["status"]["allocation"] == ALLOCATION
    assert [item["uid"] for item in result["status"]["reservedFor"]] == [uid]


async def test_a_volume_is_prebound_and_the_bind_waits_for_its_claim(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await volume_claim(cluster, "data")
    await volume_object(cluster, "disk")
    await see(rig, VOLUME_CLAIMS, VOLUMES)
    applying = rig.submit(bind("a-0", volume(claim, "disk")))

    async def is_prebound() -> bool:
        actual = await cluster.client.get(VOLUMES.raw, None, "disk")
        return bool((actual["spec"].get("claimRef") or {}).get("uid") == claim["metadata"]["uid"])

    await cluster.until(is_prebound, VOLUMES)
    assert await cluster.where() == {}
    await bound(cluster, "data", "disk")
    await see(rig, VOLUME_CLAIMS, VOLUMES)
    assert await applying == Applied(bound=1)
    result = await cluster.client.get(VOLUMES.raw, None, "disk")
    assert result["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}


async def test_a_provisioner_gets_the_selected_node_and_may_reject_it(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await volume_claim(cluster, "data")
    await see(rig, VOLUME_CLAIMS)
    applying = rig.submit(bind("a-0", volume(claim)))
    selected = "volume.kubernetes.io/selected-node"

    async def has_selected_node() -> bool:
        result = await cluster.client.get(VOLUME_CLAIMS.raw, "default", "data")
        return bool((result["metadata"].get("annotations") or {}).get(selected) == "n1")

    await cluster.until(has_selected_node, VOLUME_CLAIMS)
    await see(rig, VOLUME_CLAIMS)
    await cluster.client.patch(VOLUME_CLAIMS, "default", "data", {"metadata": {"annotations": {selected: None}}})
    await see(rig, VOLUME_CLAIMS)
    assert (await applying).failed == ("default/a-0",)
    condition = await rig.condition("a-0")
    assert condition is not None
    assert 'no volume can be provisioned for claim "default/data" on node "n1"' in condition[2]


async def test_a_volume_not_accessible_from_the_node_fails_the_bind(cluster: Cluster, rig: Rig) -> None:
    """Another writer bound the claim to a volume in the meantime, which the plan did not know."""
    await cluster.gang("a", 1)
    claim = await volume_claim(cluster, "data")
    await volume_object(cluster, "far")
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n9"]}]}
    elsewhere = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}
    await cluster.client.patch(VOLUMES.raw, None, "far", elsewhere)
    await see(rig, VOLUME_CLAIMS)
    await bound(cluster, "data", "far")
    await see(rig, VOLUME_CLAIMS, VOLUMES)
    assert (await rig.apply(bind("a-0", volume(claim)))).failed == ("default/a-0",)
    condition = await rig.condition("a-0")
    assert condition is not None
    assert 'persistentvolume "far" cannot be reached from node "n1"' in condition[2]


async def test_waiting_for_a_volume_has_a_timeout(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await volume_claim(cluster, "data")
    await see(rig, VOLUME_CLAIMS)
    assert (await rig.apply(bind("a-0", volume(claim), timeout=0))).failed == ("default/a-0",)
    condition = await rig.condition("a-0")
    assert condition is not None
    assert "persistentvolumeclaim data had no volume after 0 s" in condition[2]


async def test_the_volume_of_a_deleted_pod_is_not_waited_for(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await volume_claim(cluster, "data")
    await see(rig, VOLUME_CLAIMS)
    applying = rig.submit(bind("a-0", volume(claim)))
    await rig.script.until("get")
    await cluster.client.delete(PODS, "default", "a-0", grace=0)
    await see(rig)
    assert (await applying).failed == ("default/a-0",)


async def test_a_volume_bound_to_another_claim_fails_the_bind(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    claim = await volume_claim(cluster, "data")
    await volume_object(cluster, "disk")
    await see(rig, VOLUME_CLAIMS, VOLUMES)
    theirs = {"spec": {"claimRef": {"namespace": "default", "name": "other", "uid": "x"}}}
    await cluster.client.patch(VOLUMES.raw, None, "disk", theirs)
    assert (await rig.apply(bind("a-0", volume(claim, "disk")))).failed == ("default/a-0",)
    condition = await rig.condition("a-0")
    assert condition is not None
    assert 'persistentvolume "disk" is bound to another claim' in condition[2]


async def test_a_kind_is_followed_in_the_newest_version_that_the_server_has(cluster: Cluster) -> None:
    """Only v1 is there; a kind that no version of the server has is synced at once, with nothing in it."""
    await device_claim(cluster, "card")
    added: list[str] = []
    missing: Kind[devices.ResourceClaim] = Kind(
        "resource.k8s.io", "v9", "Nothing", "nothings", True, devices.ResourceClaim
    )
    there, absent = OptionalReflector(cluster.client, DEVICE_CLAIMS), OptionalReflector(cluster.client, missing)
    async with asyncio.TaskGroup() as tasks:
        following = [
            tasks.create_task(
                there.run(lambda changes: added.extend(change.object.metadata.name for change in changes))
            ),
            tasks.create_task(absent.run(lambda changes: added.append("nothing"))),
        ]
        await there.synced.wait()
        await absent.synced.wait()
        for task in following:
            task.cancel()
    assert added == ["card"]


async def test_a_forbidden_kind_is_reported_once_and_does_not_block_the_others(
    server: FaultyServer, client: Client
) -> None:
    looked = asyncio.Event()

    async def sleep(seconds: float) -> None:
        looked.set()
        await asyncio.Event().wait()

    server.faults.append(Fault("GET", "resourceclaims", 403, "Forbidden"))
    sought = OptionalReflector(client, DEVICE_CLAIMS, sleep=sleep)
    with capture_logs() as logs:
        following = asyncio.create_task(sought.run(lambda _: None))
        await looked.wait()
        following.cancel()
    assert sought.synced.is_set()
    events = [(line["event"], line["kind"]) for line in logs if line["log_level"] == "warning"]
    assert events == [("kind not readable, pods that use it stay pending", "resourceclaims")]
