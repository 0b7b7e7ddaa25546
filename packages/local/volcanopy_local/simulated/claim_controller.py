"""Controller of claims on an embedded cluster: binds and provisions volumes, creates claims from templates, releases them.

On a real cluster kube-controller-manager and volume drivers do this. Here every provisioner provides volumes at once,
usable from every node. Like the kubelet, the controller uses only the API and has no state of its own.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from volcanopy.api.builtin import storage
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import (
    DEVICE_CLAIM_TEMPLATES,
    DEVICE_CLAIMS,
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from volcanopy.services.scheduler.writers.claim_writer import PROTECTION
from volcanopy_local.simulated import claim_rules
from volcanopy_local.simulated.timers import TimedWorkers

NEVER = float("inf")
_WORKERS = 8


class ClaimController:
    """Controller of PersistentVolumeClaims and ResourceClaims."""

    def __init__(self, client: Client) -> None:
        self._client = client
        kinds = (PODS, VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, DEVICE_CLAIMS, DEVICE_CLAIM_TEMPLATES)
        self._reflectors: dict[Kind[Json], Reflector[Json]] = {
            kind: Reflector(client, kind, transform=_claiming_part if kind is PODS else None) for kind in kinds
        }
        self._workers = TimedWorkers("claim", self._process, _WORKERS)
        self._acts: dict[str, Callable[[str], Any]] = {
            PODS.kind: self._pod,
            VOLUME_CLAIMS.kind: self._claim,
            VOLUMES.kind: self._volume,
            DEVICE_CLAIMS.kind: self._device_claim,
        }

    async def run(self, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
        """Run until ``stop`` is set; ``ready`` is set once all objects are listed."""
        watches = [(reflector, self._take(kind)) for kind, reflector in self._reflectors.items()]
        await self._workers.serve(watches, stop, ready)

    def _all(self, kind: Kind[Json]) -> dict[str, Json]:
        return self._reflectors[kind].objects

    def _take(self, kind: Kind[Json]) -> Callable[[Iterable[Change[Json]]], None]:
        """Return a function that enqueues the objects that a change concerns."""

        def on_changes(changes: Iterable[Change[Json]]) -> None:
            for change in changes:
                for what, key in self._concerned(kind, change.object):
                    self._workers.put(f"{what.kind} {key}")

        return on_changes

    def _concerned(self, kind: Kind[Json], body: Json) -> Iterable[tuple[Kind[Json], str]]:
        if kind is PODS and not claim_rules.claims_anything(body):
            return
        key = kind.identify(body).key
        if kind in {PODS, VOLUME_CLAIMS, VOLUMES, DEVICE_CLAIMS}:
            yield kind, key
        if kind is PODS:
            yield from ((DEVICE_CLAIMS, claim) for claim in claim_rules.device_claims(body))
        elif kind is VOLUME_CLAIMS:
            volume = body.get("spec", {}).get("volumeName")
            if volume:
                yield VOLUMES, volume
        elif kind in {VOLUMES, STORAGE_CLASSES}:
            yield from (
                (VOLUME_CLAIMS, name)
                for name, claim in self._all(VOLUME_CLAIMS).items()
                if not claim.get("spec", {}).get("volumeName")
            )
        elif kind is DEVICE_CLAIM_TEMPLATES:
            yield from ((PODS, name) for name, pod in self._all(PODS).items() if claim_rules.claims_anything(pod))

    async def _process(self, key: str) -> float:
        what, _, name = key.partition(" ")
        await self._acts[what](name)
        return NEVER

    # Volumes

    async def _claim(self, key: str) -> None:
        """Bind a claim to its volume, to one that matches, or to a new one."""
        claim = self._all(VOLUME_CLAIMS).get(key)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return
        if name := claim["spec"].get("volumeName"):
            volume = self._all(VOLUMES).get(name)
            if volume is not None and (claim.get("status") or {}).get("phase") != "Bound":
                await self._bind(claim, volume)
            return
        storage_class = self._all(STORAGE_CLASSES).get(claim["spec"].get("storageClassName") or "")
        waits = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        volumes = list(self._all(VOLUMES).values())
        volume = claim_rules.reserved_for(claim, volumes)
        if volume is None and not waits and claim_rules.smallest_match(claim, volumes) is not None:
            # The watch may not have delivered a better match yet.
            volume = claim_rules.smallest_match(claim, (await self._client.list(VOLUMES)).items)
        notes = claim["metadata"].get("annotations") or {}
        if volume is None and storage_class is not None and (not waits or storage.SELECTED_NODE in notes):
            volume = await self._make(claim, storage_class)
        if volume is not None:
            await self._bind(claim, volume)

    async def _make(self, claim: Json, storage_class: Json) -> Json | None:
        if storage_class["provisioner"] == storage.NO_PROVISIONER:
            return None
        body = claim_rules.new_volume(claim, storage_class)
        with contextlib.suppress(AlreadyExists):
            return await self._client.create(VOLUMES, None, body)
        return await self._client.get(VOLUMES, None, body["metadata"]["name"])

    async def _bind(self, claim: Json, volume: Json) -> None:
        """Write the reference of the volume, then that of the claim."""
        name = volume["metadata"]["name"]
        volume = await self._client.patch(VOLUMES, None, name, claim_rules.claimed_by(volume, claim))
        if (volume.get("status") or {}).get("phase") != "Bound":
            await self._client.patch_status(VOLUMES, None, name, {"status": {"phase": "Bound"}})
        namespace, claim_name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        await self._client.patch(VOLUME_CLAIMS, namespace, claim_name, claim_rules.bound_to(claim, volume))
        await self._client.patch_status(
            VOLUME_CLAIMS, namespace, claim_name, {"status": claim_rules.bound_status(volume)}
        )

    async def _volume(self, name: str) -> None:
        """Delete or release a volume whose claim is gone, according to its policy."""
        volume = self._all(VOLUMES).get(name)
        uid = ((volume or {}).get("spec", {}).get("claimRef") or {}).get("uid")
        if volume is None or not uid:
            return
        reference = volume["spec"]["claimRef"]
        claim = self._all(VOLUME_CLAIMS).get(f"{reference['namespace']}/{reference['name']}")
        if claim is not None and claim["metadata"]["uid"] == uid:
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            with contextlib.suppress(NotFound):
                await self._client.delete(VOLUMES, None, name)
        elif (volume.get("status") or {}).get("phase") != "Released":
            await self._client.patch_status(VOLUMES, None, name, {"status": {"phase": "Released"}})

    # Pods and devices

    async def _pod(self, key: str) -> None:
        """Create the claims of a pod's templates."""
        pod = self._all(PODS).get(key)
        if pod is None or pod["metadata"].get("deletionTimestamp") or claim_rules.has_ended(pod):
            return
        namespace = pod["metadata"]["namespace"]
        for body in claim_rules.ephemeral_claims(pod):
            if f"{namespace}/{body['metadata']['name']}" not in self._all(VOLUME_CLAIMS):
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(VOLUME_CLAIMS, namespace, body)
        statuses = list((pod.get("status") or {}).get("resourceClaimStatuses") or [])
        claims = []
        for name, template in claim_rules.pending_templates(pod):
            resource_template = self._all(DEVICE_CLAIM_TEMPLATES).get(f"{namespace}/{template}")
            if resource_template is not None:
                body = claim_rules.from_template(pod, name, resource_template)
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(DEVICE_CLAIMS, namespace, body)
                claims.append({"name": name, "resourceClaimName": body["metadata"]["name"]})
        if claims:
            patch = {
                "metadata": {"uid": pod["metadata"]["uid"]},
                "status": {"resourceClaimStatuses": statuses + claims},
            }
            await self._client.patch_status(PODS, namespace, pod["metadata"]["name"], patch)

    async def _device_claim(self, key: str) -> None:
        """Remove ended pods from a claim, and its allocation if none is left."""
        claim = self._all(DEVICE_CLAIMS).get(key)
        if claim is None:
            return
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        alive = {pod["metadata"]["uid"] for pod in self._all(PODS).values() if _is_consumer(pod)}
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        rest = [user for user in users if user["uid"] in alive]
        meta = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        if len(rest) < len(users):
            allocation_patch = {} if rest else {"allocation": None}
            patch = {"metadata": meta, "status": {"reservedFor": rest or None, **allocation_patch}}
            await self._client.patch_status(DEVICE_CLAIMS, namespace, name, patch)
        elif not status.get("allocation") and claim["metadata"].get("deletionTimestamp"):
            finalizers = [name for name in claim["metadata"].get("finalizers") or [] if name != PROTECTION]
            with contextlib.suppress(NotFound):
                await self._client.patch(
                    DEVICE_CLAIMS, namespace, name, {"metadata": {**meta, "finalizers": finalizers}}
                )


def _claiming_part(pod: Json) -> Json:
    """Return pods with claims whole, of the others what identifies them."""
    if claim_rules.claims_anything(pod):
        return pod
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    return {"metadata": metadata, "spec": _NO_SPEC}


_NO_SPEC: Json = {}


def _is_consumer(pod: Json) -> bool:
    """Return whether a pod uses claims still."""
    return claim_rules.claims_anything(pod) and not claim_rules.has_ended(pod)
