"""What must be settled of a pod's claims before it is bound: devices are written into them, volumes found or made for them.

Devices first, since that is done at once; then the volumes, whose controllers are told what was decided and waited for.
When the pod cannot be bound in the end, its devices are given back. What was said about volumes stays said: the next
decision takes it into account.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from volcanopy.api import devices, storage
from volcanopy.kube.cache.followed_kinds import VOLUME_CLAIMS, VOLUMES
from volcanopy.kube.client.api_client import Client, Json
from volcanopy.kube.client.errors import Conflict, KubeError, NotFound, describe
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.model import selectors
from volcanopy.scheduler.model.plan import Bind, DeviceChoice, VolumeChoice

if TYPE_CHECKING:
    from volcanopy.kube.apply.pod_writer import WriterContext

log = logging.getLogger(__name__)

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer of claims that hold devices."""
_ATTEMPTS = 8
_EMPTY: Json = {}


class ClaimError(KubeError):
    """A claim cannot be settled as decided; says which and why."""


@dataclass
class ClaimProgress:
    """What was done for one bind."""

    versions: dict[str, int] = field(default_factory=dict)
    """By claim on devices: the version that shows what was written."""
    reserved: list[DeviceChoice] = field(default_factory=list)
    """The claims that we have written the pod into."""


class ClaimWriter:
    """Settles claims of pods."""

    def __init__(self, means: WriterContext) -> None:
        self._means = means

    async def settle(self, effect: Bind, uid: str, done: ClaimProgress) -> None:
        """Do what the bind says about claims, for the pod of this uid; ``done`` tells how far it got. Raises KubeError."""
        if effect.claims is None:
            return
        for device in effect.claims.devices:
            await self._reserve(device, effect.pod, uid, done)
        volumes = effect.claims.volumes
        if volumes:
            for volume in volumes:
                await self._announce(volume, effect.node)
            await self._volumes(effect, uid, effect.claims.patience)

    async def undo(self, uid: str, done: ClaimProgress) -> None:
        """Give the devices back that a bind has reserved."""
        for device in done.reserved:
            try:
                await self._give_back(device, uid)
            except KubeError as fault:
                log.warning("resourceclaim %s: its devices cannot be given back: %s", device.claim, describe(fault))

    # Devices

    async def _reserve(self, choice: DeviceChoice, pod: str, uid: str, done: ClaimProgress) -> None:
        me = {"resource": "pods", "name": pod.partition("/")[2], "uid": uid}

        def change(claim: Json) -> tuple[Json, bool] | None:
            return _next_step(choice, claim, me)

        async with self._means.locks.lock(("ResourceClaim", choice.claim)):
            claim = await self._change(self._kind, choice.claim, choice.uid, change)
        done.reserved.append(choice)
        done.versions[choice.claim] = int(claim["metadata"]["resourceVersion"])

    async def _give_back(self, choice: DeviceChoice, uid: str) -> None:
        def change(claim: Json) -> tuple[Json, bool] | None:
            status = claim.get("status") or _EMPTY
            users = status.get("reservedFor") or []
            rest = [one for one in users if one["uid"] != uid]
            if len(rest) == len(users):
                return None
            gone = choice.allocation is not None and not rest
            return {"status": {"reservedFor": rest or None} | ({"allocation": None} if gone else {})}, True

        async with self._means.locks.lock(("ResourceClaim", choice.claim)):
            try:
                await self._change(self._kind, choice.claim, choice.uid, change)
            except ClaimError:
                return  # it is gone, and its devices with it

    @property
    def _kind(self) -> Kind[Any]:
        return self._means.store.kind_of(devices.ResourceClaim)

    # Volumes

    async def _announce(self, choice: VolumeChoice, node: str) -> None:
        """Tell the volume controller, or the provisioner, what was decided."""
        if choice.volume:
            namespace, _, name = choice.claim.partition("/")
            reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
            reference |= {"namespace": namespace, "name": name, "uid": choice.uid}

            def prebind(volume: Json) -> tuple[Json, bool] | None:
                known = volume["spec"].get("claimRef") or _EMPTY
                if known.get("uid") == choice.uid:
                    return None
                if known and (known.get("namespace"), known.get("name"), known.get("uid", "")) != (namespace, name, ""):
                    raise ClaimError(f"persistentvolume {choice.volume} was taken by somebody else")
                notes = {} if known else {BOUND_BY_CONTROLLER: "yes"}
                return {"metadata": {"annotations": notes}, "spec": {"claimRef": reference}}, False

            async with self._means.locks.lock(("PersistentVolume", choice.volume)):
                await self._change(VOLUMES, choice.volume, "", prebind)
            return

        def select(claim: Json) -> tuple[Json, bool] | None:
            selected = (claim["metadata"].get("annotations") or _EMPTY).get(storage.SELECTED_NODE)
            if selected == node or claim["spec"].get("volumeName"):
                return None
            if selected:
                raise ClaimError(f"the volume of claim {choice.claim} is being made for node {selected}")
            return {"metadata": {"annotations": {storage.SELECTED_NODE: node}}}, False

        async with self._means.locks.lock(("PersistentVolumeClaim", choice.claim)):
            await self._change(VOLUME_CLAIMS, choice.claim, choice.uid, select)

    async def _volumes(self, effect: Bind, uid: str, patience: int) -> None:
        """Wait until all of the pod's claims have their volumes."""
        assert effect.claims is not None
        store, choices = self._means.store, effect.claims.volumes
        keys = [("Pod", effect.pod), *(("PersistentVolumeClaim", one.claim) for one in choices)]
        selected: set[str] = set()
        try:
            async with asyncio.timeout(patience):
                with store.waiters.changes_of(keys) as changed:
                    while any(not self._has_volume(one, effect.node, selected) for one in choices):
                        pod = store.pods.get(effect.pod)
                        if pod is None or pod.metadata.uid != uid or pod.metadata.deletion_timestamp is not None:
                            raise ClaimError("the pod ended before its claims had volumes")
                        await changed.wait()
                        changed.clear()
        except TimeoutError:
            waiting = [one.claim.partition("/")[2] for one in choices if not self._has_volume(one, effect.node, set())]
            raise ClaimError(f"persistentvolumeclaim {', '.join(waiting)} had no volume after {patience} s") from None

    def _has_volume(self, choice: VolumeChoice, node: str, selected: set[str]) -> bool:
        """Whether a claim has its volume. ``selected``: the claims that were seen to be marked for the node."""
        claim = self._means.store.state.stock.claim(choice.claim)
        if claim is None or claim.metadata.uid != choice.uid:
            raise ClaimError(f"persistentvolumeclaim {choice.claim} is gone")
        if claim.spec.volume_name:
            return claim.status.phase == "Bound" and self._is_reached(claim.spec.volume_name, node)
        if not choice.volume:
            if claim.metadata.annotations.get(storage.SELECTED_NODE) == node:
                selected.add(choice.claim)
            elif choice.claim in selected:
                raise ClaimError(f"no volume can be made for claim {choice.claim} on node {node}")
        return False

    def _is_reached(self, name: str, node: str) -> bool:
        """Whether a volume is known; whoever gave it to the claim may not have known of the node."""
        state = self._means.store.state
        volume, row = state.stock.volume(name), state.nodes.rows.get(node)
        home = None if row is None else state.nodes.plain["objects"][row]
        if volume is None or home is None:
            return False
        affinity = volume.spec.node_affinity
        if affinity is not None and not selectors.admits(affinity.required, home):
            raise ClaimError(f"persistentvolume {name} cannot be reached from node {node}")
        return True

    # In common

    async def _change(
        self, kind: Kind[Any], key: str, uid: str, change: Callable[[Json], tuple[Json, bool] | None]
    ) -> Json:
        """Read an object and change it step by step until ``change`` has no further step; gives it as it is then.

        Each step is a merge patch of the version that was read, and whether it is of the status.
        """
        client: Client = self._means.client
        namespace, _, name = key.rpartition("/")
        raw = kind.raw
        for _ in range(_ATTEMPTS):
            try:
                found = await client.get(raw, namespace or None, name)
                if uid and found["metadata"]["uid"] != uid:
                    raise ClaimError(f"{kind.kind.lower()} {key} is another one by now")
                while (step := change(found)) is not None:
                    patch, of_status = step
                    meta = {**patch.get("metadata", {}), "resourceVersion": found["metadata"]["resourceVersion"]}
                    patch = {**patch, "metadata": meta}
                    write = client.patch_status if of_status else client.patch
                    found = await write(raw, namespace or None, name, patch)
            except NotFound:
                raise ClaimError(f"{kind.kind.lower()} {key} is gone") from None
            except Conflict:
                continue  # somebody wrote in between: look again
            else:
                return found
        raise ClaimError(f"{kind.kind.lower()} {key} is written by others all the time")


def _next_step(choice: DeviceChoice, claim: Json, me: Json) -> tuple[Json, bool] | None:
    """What is to be written next so that a claim has its devices and the pod may use them."""
    status = claim.get("status") or _EMPTY
    users = status.get("reservedFor") or []
    if any(one["uid"] == me["uid"] for one in users):
        return None
    if claim["metadata"].get("deletionTimestamp"):
        raise ClaimError(f"resourceclaim {choice.claim} is being deleted")
    allocated = status.get("allocation")
    if choice.allocation is None:
        if not allocated:
            raise ClaimError(f"resourceclaim {choice.claim} has lost its devices")
        return {"status": {"reservedFor": [*users, me]}}, True
    if allocated and users:
        raise ClaimError(f"resourceclaim {choice.claim} was given other devices by somebody else")
    if allocated:
        return {"status": {"allocation": None}}, True
    finalizers = claim["metadata"].get("finalizers") or []
    if PROTECTION not in finalizers:
        return {"metadata": {"finalizers": [*finalizers, PROTECTION]}}, False
    return {"status": {"allocation": dict(choice.allocation), "reservedFor": [me]}}, True
