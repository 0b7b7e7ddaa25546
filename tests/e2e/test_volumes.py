"""Pods with claims, from end to end: volumes that are there, volumes that are made, and devices."""

from typing import Any

from tests.e2e.world import PODS, World, batch_job
from volcanopy.kube.client.kinds import Json, Kind

CLAIMS: Kind[Json] = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, dict)
VOLUMES: Kind[Json] = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, dict)
DEVICE_CLAIMS: Kind[Json] = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, dict)


def storage_class(name: str, provisioner: str = "kubernetes.io/no-provisioner") -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, node: str, made_by: str) -> Json:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": made_by,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }


def claim_spec(made_by: str) -> Json:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": made_by,
        "resources": {"requests": {"storage": "1Gi"}},
    }


def claim(name: str, made_by: str) -> Json:
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim_spec(made_by)}


def with_volume(job: Json, **source: Any) -> Json:
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec["volumes"] = [{"name": "data", **source}]
    return job


async def test_a_pod_is_scheduled_to_the_node_of_its_volume(cluster: World) -> None:
    """The volume is on the last of the three nodes, and the claim has none before the pod is placed."""
    own = cluster.namespace
    await cluster.create(storage_class(f"local-{own}"), volume(f"disk-{own}", "node-3", f"local-{own}"))
    await cluster.create(claim("data", f"local-{own}"))
    job = with_volume(batch_job("user", 1, "1", duration="200ms"), persistentVolumeClaim={"claimName": "data"})
    await cluster.create(job)
    await cluster.job("user", "Completed")
    pods = (await cluster.client.list(PODS, own)).items
    assert [pod["spec"]["nodeName"] for pod in pods] == ["node-3"]
    bound = await cluster.client.get(CLAIMS, own, "data")
    assert bound["spec"]["volumeName"] == f"disk-{own}"
    assert bound["status"]["phase"] == "Bound"


async def test_pods_of_a_gang_are_scheduled_to_their_volumes(cluster: World) -> None:
    """Each pod has its own claim, made for it; there is one volume on each of two nodes."""
    own = cluster.namespace
    await cluster.create(storage_class(f"local-{own}"))
    await cluster.create(*(volume(f"{node}-{own}", node, f"local-{own}") for node in ("node-1", "node-2")))
    template = {"volumeClaimTemplate": {"spec": claim_spec(f"local-{own}")}}
    await cluster.create(with_volume(batch_job("pair", 2, "1", duration="200ms"), ephemeral=template))
    await cluster.job("pair", "Completed")
    pods = (await cluster.client.list(PODS, own)).items
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-1", "node-2"]


async def test_a_gang_with_too_few_volumes_waits_and_binds_none(cluster: World) -> None:
    own = cluster.namespace
    await cluster.create(storage_class(f"local-{own}"), volume(f"disk-{own}", "node-1", f"local-{own}"))
    template = {"volumeClaimTemplate": {"spec": claim_spec(f"local-{own}")}}
    await cluster.create(with_volume(batch_job("pair", 2, "1", duration="200ms"), ephemeral=template))

    def waiting_for_volumes(pods: list[Json]) -> bool:
        texts = [
            condition.get("message", "") for pod in pods for condition in pod.get("status", {}).get("conditions") or ()
        ]
        return len(pods) == 2 and sum("didn't find available persistent volumes to bind" in text for text in texts) == 2

    pods = await cluster.all_of(PODS, waiting_for_volumes)
    assert not any(pod["spec"].get("nodeName") for pod in pods)
    result = await cluster.client.get(VOLUMES, None, f"disk-{own}")
    assert not result["spec"].get("claimRef")


async def test_pods_of_a_claim_template_allocate_and_release_devices(cluster: World) -> None:
    own = cluster.namespace
    driver = f"{own}.example.com"
    pool = {"name": f"pool-{own}", "generation": 1, "resourceSliceCount": 1}
    devices = {
        "driver": driver,
        "pool": pool,
        "nodeName": "node-2",
        "devices": [{"name": "card-0"}, {"name": "card-1"}],
    }
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    request = {"name": "card", "exactly": {"deviceClassName": f"card-{own}"}}
    await cluster.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": f"card-{own}"},
            "spec": {"selectors": [selector]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"slice-{own}"},
            "spec": devices,
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "card"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
    )
    job = batch_job("cards", 2, "1", duration="500ms")
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "mine", "resourceClaimTemplateName": "card"}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "mine"}]
    await cluster.create(job)

    def both(claims: list[Json]) -> bool:
        given = [(claim.get("status") or {}).get("allocation") for claim in claims]
        return len(given) == 2 and all(given)

    claims = await cluster.all_of(DEVICE_CLAIMS, both)
    given = [claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims]
    assert sorted(given) == ["card-0", "card-1"]
    await cluster.job("cards", "Completed")
    pods = (await cluster.client.list(PODS, own)).items
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-2"}
    await cluster.all_of(
        DEVICE_CLAIMS, lambda claims: not any((claim.get("status") or {}).get("allocation") for claim in claims)
    )


async def test_a_volume_is_provisioned_for_the_node_of_the_pod(cluster: World) -> None:
    """The provisioner is told the node; on the real server nobody is there to make the volume, so the test does."""
    own = cluster.namespace
    await cluster.create(storage_class(f"fast-{own}", "disks.example.com"), claim("data", f"fast-{own}"))
    job = with_volume(batch_job("user", 1, "1", duration="200ms"), persistentVolumeClaim={"claimName": "data"})
    await cluster.create(job)
    selected = "volume.kubernetes.io/selected-node"
    claims = await cluster.all_of(CLAIMS, lambda claims: selected in (claims[0]["metadata"].get("annotations") or {}))
    if not cluster.components.parts.claims:
        made = volume(f"made-{own}", claims[0]["metadata"]["annotations"][selected], f"fast-{own}")
        meta = claims[0]["metadata"]
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": own, "name": "data"}
        made["spec"]["claimRef"] = {**reference, "uid": meta["uid"]}
        await cluster.create(made)
    await cluster.job("user", "Completed")
