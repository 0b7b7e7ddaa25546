"""What stands behind claims on an embedded cluster: volumes are bound and made, claims made from templates and given back.

On a real cluster the controllers of kube-controller-manager do this, and the drivers of volumes. Here any provisioner
that a storage class names makes its volumes at once, and they can be used from every node. Like the kubelet this uses
nothing but the API and remembers nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

from volcanopy.api import storage
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.local.simulated import claim_rules
from volcanopy.local.simulated.timers import Crew

log = logging.getLogger(__name__)

_RESOURCE = "resource.k8s.io"
PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)
CLAIMS: Kind[Json] = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, dict)
VOLUMES: Kind[Json] = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, dict)
CLASSES: Kind[Json] = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, dict)
DEVICE_CLAIMS: Kind[Json] = Kind(_RESOURCE, "v1", "ResourceClaim", "resourceclaims", True, dict)
TEMPLATES: Kind[Json] = Kind(_RESOURCE, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True, dict)

NEVER = float("inf")
_WORKERS = 8


class Supplies:
    """The controllers of volumes and of claims on devices."""

    def __init__(self, client: Client) -> None:
        self._client = client
        kinds = (PODS, CLAIMS, VOLUMES, CLASSES, DEVICE_CLAIMS, TEMPLATES)
        self._seen: dict[Kind[Json], Reflector[Json]] = {
            kind: Reflector(client, kind, transform=_claiming_part if kind is PODS else None) for kind in kinds
        }
        self._crew = Crew("claim", self._act, _WORKERS)
        self._acts: dict[str, Callable[[str], Any]] = {
            PODS.kind: self._pod,
            CLAIMS.kind: self._claim,
            VOLUMES.kind: self._volume,
            DEVICE_CLAIMS.kind: self._device_claim,
        }

    async def run(self, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
        """Work until ``stop`` is set; ``ready`` is set once everything that exists has been seen."""
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(reflector.run(self._take(kind)), name=f"supplies {kind.plural}")
                for kind, reflector in self._seen.items()
            ]
            for reflector in self._seen.values():
                await reflector.synced.wait()
            working.append(tasks.create_task(self._crew.run(), name="supplies crew"))
            if ready is not None:
                ready.set()
            await stop.wait()
            for task in working:
                task.cancel()

    def _all(self, kind: Kind[Json]) -> dict[str, Json]:
        return self._seen[kind].objects

    def _take(self, kind: Kind[Json]) -> Callable[[Iterable[Change[Json]]], None]:
        """What is to be looked at when objects of a kind have changed."""

        def take(changes: Iterable[Change[Json]]) -> None:
            for change in changes:
                for what, key in self._concerned(kind, change.object):
                    self._crew.put(f"{what.kind} {key}")

        return take

    def _concerned(self, kind: Kind[Json], thing: Json) -> Iterable[tuple[Kind[Json], str]]:
        key = kind.identify(thing).key
        if kind in {PODS, CLAIMS, VOLUMES, DEVICE_CLAIMS}:
            yield kind, key
        if kind is PODS:
            yield from ((DEVICE_CLAIMS, claim) for claim in claim_rules.device_claims(thing))
        elif kind is CLAIMS:
            volume = thing["spec"].get("volumeName")
            if volume:
                yield VOLUMES, volume
        elif kind in {VOLUMES, CLASSES}:
            yield from (
                (CLAIMS, one) for one, claim in self._all(CLAIMS).items() if not claim["spec"].get("volumeName")
            )
        elif kind is TEMPLATES:
            yield from ((PODS, one) for one in self._all(PODS))

    async def _act(self, key: str) -> float:
        what, _, name = key.partition(" ")
        await self._acts[what](name)
        return NEVER

    # Volumes

    async def _claim(self, key: str) -> None:
        """Give a claim the volume that is its own, or one that suits it, or make it one."""
        claim = self._all(CLAIMS).get(key)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return
        if name := claim["spec"].get("volumeName"):
            volume = self._all(VOLUMES).get(name)
            if volume is not None and (claim.get("status") or {}).get("phase") != "Bound":
                await self._bind(claim, volume)
            return
        made_by = self._all(CLASSES).get(claim["spec"].get("storageClassName") or "")
        waits = made_by is not None and made_by.get("volumeBindingMode") == "WaitForFirstConsumer"
        volumes = list(self._all(VOLUMES).values())
        volume = claim_rules.set_apart(claim, volumes)
        if volume is None and not waits and claim_rules.best(claim, volumes) is not None:
            # A better one may be there that the watch has not told of yet.
            volume = claim_rules.best(claim, (await self._client.list(VOLUMES)).items)
        notes = claim["metadata"].get("annotations") or {}
        if volume is None and made_by is not None and (not waits or storage.SELECTED_NODE in notes):
            volume = await self._make(claim, made_by)
        if volume is not None:
            await self._bind(claim, volume)

    async def _make(self, claim: Json, made_by: Json) -> Json | None:
        if made_by["provisioner"] == storage.NO_PROVISIONER:
            return None
        body = claim_rules.new_volume(claim, made_by)
        with contextlib.suppress(AlreadyExists):
            return await self._client.create(VOLUMES, None, body)
        return await self._client.get(VOLUMES, None, body["metadata"]["name"])

    async def _bind(self, claim: Json, volume: Json) -> None:
        """Each names the other, the volume first."""
        name = volume["metadata"]["name"]
        volume = await self._client.patch(VOLUMES, None, name, claim_rules.claimed_by(volume, claim))
        if (volume.get("status") or {}).get("phase") != "Bound":
            await self._client.patch_status(VOLUMES, None, name, {"status": {"phase": "Bound"}})
        namespace, own = claim["metadata"]["namespace"], claim["metadata"]["name"]
        await self._client.patch(CLAIMS, namespace, own, claim_rules.bound_to(claim, volume))
        await self._client.patch_status(CLAIMS, namespace, own, {"status": claim_rules.bound_status(volume)})

    async def _volume(self, name: str) -> None:
        """A volume whose claim is gone is deleted, or released, as its policy says."""
        volume = self._all(VOLUMES).get(name)
        uid = ((volume or {}).get("spec", {}).get("claimRef") or {}).get("uid")
        if volume is None or not uid:
            return
        reference = volume["spec"]["claimRef"]
        claim = self._all(CLAIMS).get(f"{reference['namespace']}/{reference['name']}")
        if claim is not None and claim["metadata"]["uid"] == uid:
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            with contextlib.suppress(NotFound):
                await self._client.delete(VOLUMES, None, name)
        elif (volume.get("status") or {}).get("phase") != "Released":
            await self._client.patch_status(VOLUMES, None, name, {"status": {"phase": "Released"}})

    # Pods and devices

    async def _pod(self, key: str) -> None:
        """Make the claims that a pod has for itself."""
        pod = self._all(PODS).get(key)
        if pod is None or pod["metadata"].get("deletionTimestamp") or claim_rules.is_over(pod):
            return
        namespace = pod["metadata"]["namespace"]
        for body in claim_rules.ephemeral_claims(pod):
            if f"{namespace}/{body['metadata']['name']}" not in self._all(CLAIMS):
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(CLAIMS, namespace, body)
        known = list((pod.get("status") or {}).get("resourceClaimStatuses") or [])
        made = []
        for name, template in claim_rules.wanted_templates(pod):
            found = self._all(TEMPLATES).get(f"{namespace}/{template}")
            if found is not None:
                body = claim_rules.from_template(pod, name, found)
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(DEVICE_CLAIMS, namespace, body)
                made.append({"name": name, "resourceClaimName": body["metadata"]["name"]})
        if made:
            patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"resourceClaimStatuses": [*known, *made]}}
            await self._client.patch_status(PODS, namespace, pod["metadata"]["name"], patch)

    async def _device_claim(self, key: str) -> None:
        """Take pods that are gone or over out of a claim; without any it gives its devices back."""
        claim = self._all(DEVICE_CLAIMS).get(key)
        if claim is None:
            return
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        alive = {pod["metadata"]["uid"] for pod in self._all(PODS).values() if not claim_rules.is_over(pod)}
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        rest = [one for one in users if one["uid"] in alive]
        meta = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        if len(rest) < len(users):
            gone = {} if rest else {"allocation": None}
            patch = {"metadata": meta, "status": {"reservedFor": rest or None, **gone}}
            await self._client.patch_status(DEVICE_CLAIMS, namespace, name, patch)
        elif not status.get("allocation") and claim["metadata"].get("deletionTimestamp"):
            finalizers = [one for one in claim["metadata"].get("finalizers") or [] if one != claim_rules.PROTECTION]
            with contextlib.suppress(NotFound):
                await self._client.patch(
                    DEVICE_CLAIMS, namespace, name, {"metadata": {**meta, "finalizers": finalizers}}
                )


def _claiming_part(pod: Json) -> Json:
    """Of pods that claim nothing no more than that they are there."""
    if claim_rules.claims_anything(pod):
        return pod
    kept = ("name", "namespace", "uid", "resourceVersion")
    status = {"phase": (pod.get("status") or {}).get("phase", "")}
    return {"metadata": {key: pod["metadata"][key] for key in kept}, "spec": {}, "status": status}
