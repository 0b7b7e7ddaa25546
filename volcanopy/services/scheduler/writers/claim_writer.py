"""Writes to the claims of a pod before its bind: allocations of devices, and the choice of volumes.

Devices first, since that is immediate; then volumes, whose controllers get the decision and are waited for. If the pod
cannot be bound in the end, its devices are released. Decisions about volumes stay; the next cycle takes them into account.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from volcanopy.api.builtin import devices, storage
from volcanopy.kube.cache.followed_kinds import VOLUME_CLAIMS, VOLUMES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Conflict, KubeError, NotFound, describe
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.logs import Logger
from volcanopy.scheduler.model import selectors
from volcanopy.scheduler.model.plan import Bind, DeviceChoice, VolumeChoice
from volcanopy.services.scheduler.writers.writer_context import WriterContext

log = Logger(__name__)

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer of claims with allocated devices."""
_ATTEMPTS = 8
_EMPTY: Json = {}


class ClaimError(KubeError):
    """A claim cannot be allocated as decided; the message names the claim and the reason."""


@dataclass
class ClaimProgress:
    """What was written for one bind."""

    versions: dict[str, int] = field(default_factory=dict)
    """By ResourceClaim: the version after the write."""
    reserved: list[DeviceChoice] = field(default_factory=list)
    """The ResourceClaims that are reserved for the pod."""


class ClaimWriter:
    """Allocates the claims of pods."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context

    async def settle(self, effect: Bind, uid: str, done: ClaimProgress) -> None:
        """Allocate the claims of a bind for the pod of this uid and record the progress in ``done``. Raises KubeError."""
        if effect.claims is None:
            return
        for device in effect.claims.devices:
            await self._reserve(device, effect.pod, uid, done)
        volumes = effect.claims.volumes
        if volumes:
            for volume in volumes:
                await self._announce(volume, effect.node)
            await self._volumes(effect, uid, effect.claims.timeout)

    async def undo(self, uid: str, done: ClaimProgress) -> None:
        """Release the devices that a bind has reserved."""
        for device in done.reserved:
            try:
                await self._release(device, uid)
            except KubeError as fault:
                log.warning("devices not released", resourceclaim=device.claim, error=describe(fault))

    # Devices

    async def _reserve(self, choice: DeviceChoice, pod: str, uid: str, done: ClaimProgress) -> None:
        me = {"resource": "pods", "name": pod.partition("/")[2], "uid": uid}

        def change(claim: Json) -> tuple[Json, bool] | None:
            return _next_step(choice, claim, me)

        async with self._context.locks.lock(("ResourceClaim", choice.claim)):
            claim = await self._change(self._kind, choice.claim, choice.uid, change)
        done.reserved.append(choice)
        done.versions[choice.claim] = int(claim["metadata"]["resourceVersion"])

    async def _release(self, choice: DeviceChoice, uid: str) -> None:
        def change(claim: Json) -> tuple[Json, bool] | None:
            status = claim.get("status") or _EMPTY
            users = status.get("reservedFor") or []
            rest = [user for user in users if user["uid"] != uid]
            if len(rest) == len(users):
                return None
            unused = choice.allocation is not None and not rest
            return {"status": {"reservedFor": rest or None} | ({"allocation": None} if unused else {})}, True

        async with self._context.locks.lock(("ResourceClaim", choice.claim)):
            try:
                await self._change(self._kind, choice.claim, choice.uid, change)
            except ClaimError:
                return  # the claim is gone, so its devices are free

    @property
    def _kind(self) -> Kind[Any]:
        return self._context.store.kind_of(devices.ResourceClaim)

    # Volumes

    async def _announce(self, choice: VolumeChoice, node: str) -> None:
        """Write the decision for the volume controller or the provisioner."""
        if choice.volume:
            namespace, _, name = choice.claim.partition("/")
            reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
            reference |= {"namespace": namespace, "name": name, "uid": choice.uid}

            def prebind(volume: Json) -> tuple[Json, bool] | None:
                known = volume["spec"].get("claimRef") or _EMPTY
                if known.get("uid") == choice.uid:
                    return None
                if known and (known.get("namespace"), known.get("name"), known.get("uid", "")) != (namespace, name, ""):
                    raise ClaimError(f'persistentvolume "{choice.volume}" is bound to another claim')
                notes = {} if known else {BOUND_BY_CONTROLLER: "yes"}
                return {"metadata": {"annotations": notes}, "spec": {"claimRef": reference}}, False

            async with self._context.locks.lock(("PersistentVolume", choice.volume)):
                await self._change(VOLUMES, choice.volume, "", prebind)
            return

        def select(claim: Json) -> tuple[Json, bool] | None:
            selected = (claim["metadata"].get("annotations") or _EMPTY).get(storage.SELECTED_NODE)
            if selected == node or claim["spec"].get("volumeName"):
                return None
            if selected:
                raise ClaimError(f'the volume of claim "{choice.claim}" is being provisioned for node "{selected}"')
            return {"metadata": {"annotations": {storage.SELECTED_NODE: node}}}, False

        async with self._context.locks.lock(("PersistentVolumeClaim", choice.claim)):
            await self._change(VOLUME_CLAIMS, choice.claim, choice.uid, select)

    async def _volumes(self, effect: Bind, uid: str, timeout: int) -> None:
        """Wait until all claims of the pod are bound to volumes, for ``timeout`` seconds."""
        assert effect.claims is not None
        store, choices = self._context.store, effect.claims.volumes
        keys = [("Pod", effect.pod), *(("PersistentVolumeClaim", choice.claim) for choice in choices)]
        selected: set[str] = set()
        try:
            async with asyncio.timeout(timeout):
                with store.waiters.changes_of(keys) as changed:
                    while any(not self._has_volume(choice, effect.node, selected) for choice in choices):
                        pod = store.pods.get(effect.pod)
                        if pod is None or pod.metadata.uid != uid or pod.metadata.deletion_timestamp is not None:
                            raise ClaimError("the pod was deleted before its claims had volumes")
                        await changed.wait()
                        changed.clear()
        except TimeoutError:
            pending = [choice.claim for choice in choices if not self._has_volume(choice, effect.node, set())]
            named = ", ".join(claim.partition("/")[2] for claim in pending)
            raise ClaimError(f"persistentvolumeclaim {named} had no volume after {timeout} s") from None

    def _has_volume(self, choice: VolumeChoice, node: str, selected: set[str]) -> bool:
        """Whether a claim has its volume. ``selected``: the claims on which the selected node has been observed."""
        claim = self._context.store.state.claims.get(storage.PersistentVolumeClaim, choice.claim)
        if claim is None or claim.metadata.uid != choice.uid:
            raise ClaimError(f"persistentvolumeclaim {choice.claim} is gone")
        if claim.spec.volume_name:
            return claim.status.phase == "Bound" and self._is_reached(claim.spec.volume_name, node)
        if not choice.volume:
            if claim.metadata.annotations.get(storage.SELECTED_NODE) == node:
                selected.add(choice.claim)
            elif choice.claim in selected:
                raise ClaimError(f'no volume can be provisioned for claim "{choice.claim}" on node "{node}"')
        return False

    def _is_reached(self, name: str, node: str) -> bool:
        """Whether a volume is known and reachable; its binder may not have known of the node."""
        state = self._context.store.state
        volume, row = state.claims.get(storage.PersistentVolume, name), state.nodes.rows.get(node)
        home = None if row is None else state.nodes.plain["objects"][row]
        if volume is None or home is None:
            return False
        affinity = volume.spec.node_affinity
        if affinity is not None and not selectors.admits(affinity.required, home):
            raise ClaimError(f'persistentvolume "{name}" cannot be reached from node "{node}"')
        return True

    # In common

    async def _change(
        self, kind: Kind[Any], key: str, uid: str, change: Callable[[Json], tuple[Json, bool] | None]
    ) -> Json:
        """Read an object and apply the patches of ``change`` until it returns None; returns the object then.

        ``change`` returns a merge patch for the version read, and whether it is a patch of the status.
        """
        client: Client = self._context.client
        namespace, _, name = key.rpartition("/")
        raw = kind.raw
        for _ in range(_ATTEMPTS):
            try:
                current = await client.get(raw, namespace or None, name)
                if uid and current["metadata"]["uid"] != uid:
                    raise ClaimError(f"{kind.kind.lower()} {key} has been replaced")
                while (step := change(current)) is not None:
                    patch, of_status = step
                    meta = {**patch.get("metadata", {}), "resourceVersion": current["metadata"]["resourceVersion"]}
                    patch = {**patch, "metadata": meta}
                    write = client.patch_status if of_status else client.patch
                    current = await write(raw, namespace or None, name, patch)
            except NotFound:
                raise ClaimError(f"{kind.kind.lower()} {key} is gone") from None
            except Conflict:
                continue  # written in between: read again
            else:
                return current
        raise ClaimError(f"{kind.kind.lower()} {key} changed during {_ATTEMPTS} attempts")


def _next_step(choice: DeviceChoice, claim: Json, me: Json) -> tuple[Json, bool] | None:
    """Return the next patch that allocates a claim's devices and reserves them for the pod."""
    status = claim.get("status") or _EMPTY
    users, allocated = status.get("reservedFor") or [], status.get("allocation")
    others = [user for user in users if user["uid"] != me["uid"]]
    if len(others) < len(users) and (choice.allocation is None or _devices(allocated) == _devices(choice.allocation)):
        return None
    if claim["metadata"].get("deletionTimestamp"):
        raise ClaimError(f"resourceclaim {choice.claim} is being deleted")
    if choice.allocation is None:
        if not allocated:
            raise ClaimError(f"resourceclaim {choice.claim} has lost its devices")
        return {"status": {"reservedFor": [*users, me]}}, True
    if allocated and others:
        raise ClaimError(f"resourceclaim {choice.claim} was allocated other devices")
    if allocated:
        return {"status": {"allocation": None, "reservedFor": None}}, True
    finalizers = claim["metadata"].get("finalizers") or []
    if PROTECTION not in finalizers:
        return {"metadata": {"finalizers": [*finalizers, PROTECTION]}}, False
    return {"status": {"allocation": dict(choice.allocation), "reservedFor": [me]}}, True


def _devices(allocation: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """The devices of an allocation, which servers may complete with other fields."""
    results = (allocation or _EMPTY).get("devices", _EMPTY).get("results") or []
    return sorted((result["driver"], result["pool"], result["device"]) for result in results)
