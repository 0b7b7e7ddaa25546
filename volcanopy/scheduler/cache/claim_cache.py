"""Cache of volumes, devices and claims, updated one object at a time.

The choices of a plan for claims are assumed until the API server confirms them or the bind fails. Pods do not confirm
them: a pod may be observed on its node before its claim is observed with the allocated devices.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.builtin import devices, pod_claims, storage
from volcanopy.scheduler.model.claim_tables import ClaimTables, Offers
from volcanopy.scheduler.model.plan import Bind, DeviceChoice, VolumeChoice

ClaimObject = storage.Storage | devices.Devices
CLAIM_KINDS: tuple[type[Any], ...] = (*get_args(storage.Storage), *get_args(devices.Devices))
"""The types of objects in this cache."""
C = TypeVar("C")


Volume = tuple[str, str]
"""The driver and the volume handle."""


class AttachedVolumes:
    """The volumes in use, by driver and node, updated one pod and one claim at a time.

    A volume counts once per node, however many pods use it there. An unbound claim counts for the driver that will provision
    its volume.
    """

    def __init__(self, resolve: Callable[[str], Volume | None]) -> None:
        """``resolve`` returns the volume of a claim by key, None if it has no attach limit."""
        self._resolve = resolve
        self._users: dict[str, Counter[str]] = {}
        self._volume_of: dict[str, Volume | None] = {}
        self._volumes: dict[str, dict[str, Counter[str]]] = {}

    def use(self, claim: str, node: str, sign: int) -> None:
        """Count a pod that uses the claim on a node (+1), or no longer (-1)."""
        users = self._users.get(claim)
        if users is None:
            users = self._users[claim] = Counter()
            self._volume_of[claim] = self._resolve(claim)
        users[node] += sign
        volume = self._volume_of[claim]
        if volume is not None:
            self._add(volume, node, sign)
        if not users[node]:
            del users[node]
            if not users:
                del self._users[claim], self._volume_of[claim]

    def resolve_again(self, claim: str) -> None:
        """Update the counts after a change of a claim or its volume."""
        users = self._users.get(claim)
        if users is None:
            return
        before, after = self._volume_of[claim], self._resolve(claim)
        if before == after:
            return
        for node, count in users.items():
            if before is not None:
                self._add(before, node, -count)
            if after is not None:
                self._add(after, node, count)
        self._volume_of[claim] = after

    def resolve_all_again(self) -> None:
        """Update the counts after a change of a storage class."""
        for claim in list(self._users):
            self.resolve_again(claim)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of volumes by driver and node."""
        return {driver: {node: len(used) for node, used in nodes.items()} for driver, nodes in self._volumes.items()}

    def _add(self, volume: Volume, node: str, count: int) -> None:
        driver, handle = volume
        nodes = self._volumes.setdefault(driver, {})
        handles = nodes.setdefault(node, Counter())
        handles[handle] += count
        if not handles[handle]:
            del handles[handle]
            if not handles:
                del nodes[node]
                if not nodes:
                    del self._volumes[driver]


class ClaimCache:
    """Volumes, devices and the claims on them."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], dict[str, Any]] = {kind: {} for kind in CLAIM_KINDS}
        self._assumed: dict[tuple[str, str], Bind] = {}
        self._written: dict[tuple[str, str], dict[str, int]] = {}
        self._attached = AttachedVolumes(self._attachable_volume)
        self._frozen: ClaimTables | None = None
        self._offers: Offers | None = None

    def without_uses(self) -> "ClaimCache":
        """Return a cache of the same objects and assumed choices that counts no pods yet."""
        fresh = ClaimCache()
        fresh._objects, fresh._assumed, fresh._written = self._objects, self._assumed, self._written
        return fresh

    def upsert(self, obj: ClaimObject) -> None:
        """Insert or update an object."""
        self._objects[type(obj)][obj.metadata.key] = obj
        self._changed(obj)

    def delete(self, obj: ClaimObject) -> None:
        """Remove an object."""
        self._objects[type(obj)].pop(obj.metadata.key, None)
        self._changed(obj)

    def _changed(self, obj: ClaimObject) -> None:
        self._frozen = None
        key = obj.metadata.key
        match obj:
            case storage.PersistentVolumeClaim():
                self._attached.resolve_again(key)
            case storage.PersistentVolume():
                reference = obj.spec.claim_ref
                if reference is not None:
                    self._attached.resolve_again(f"{reference.namespace}/{reference.name}")
            case storage.StorageClass():
                self._attached.resolve_all_again()
            case devices.ResourceSlice() | devices.DeviceClass():
                self._offers = None
            case devices.ResourceClaim():
                for pod, uid in [known for known, versions in self._written.items() if key in versions]:
                    self._release_if_observed(pod, uid)

    def get(self, kind: type[C], key: str) -> C | None:
        """Return an object as last observed."""
        return self._objects[kind].get(key)

    def use(self, pod: core.Pod, node: str, sign: int) -> None:
        """Count the claims of a pod on a node (+1), or no longer (-1)."""
        for requested in pod_claims.volumes(pod):
            self._attached.use(requested.key, node, sign)
        self._frozen = None

    def assume(self, bind: Bind, uid: str) -> None:
        """Assume the choices of a bind for the claims of the pod with this uid."""
        if bind.claims is not None:
            self._assumed[bind.pod, uid] = bind
            self._frozen = None

    def settle(self, pod: str, uid: str, versions: dict[str, int]) -> None:
        """Keep the assumed choices of a completed bind until the device claims are observed in these versions."""
        if (pod, uid) in self._assumed:
            self._written[pod, uid] = versions
            self._release_if_observed(pod, uid)

    def release(self, pod: str, uid: str) -> None:
        """Drop the assumed choices of a bind, since it failed or was observed."""
        self._written.pop((pod, uid), None)
        if self._assumed.pop((pod, uid), None) is not None:
            self._frozen = None

    def _release_if_observed(self, pod: str, uid: str) -> None:
        for key, version in self._written[pod, uid].items():
            known = self.get(devices.ResourceClaim, key)
            if known is not None and int(known.metadata.resource_version or 0) < version:
                return
        self.release(pod, uid)

    def claim_tables(self) -> ClaimTables:
        """Return the frozen tables; the same object until something changes."""
        if self._frozen is None:
            self._frozen = self._freeze()
        return self._frozen

    def _freeze(self) -> ClaimTables:
        objects = self._objects
        if self._offers is None:
            self._offers = Offers(dict(objects[devices.ResourceSlice]), dict(objects[devices.DeviceClass]))
        claims = dict(objects[storage.PersistentVolumeClaim])
        volumes = dict(objects[storage.PersistentVolume])
        device_claims = dict(objects[devices.ResourceClaim])
        for (pod, uid), bind in self._assumed.items():
            assert bind.claims is not None
            for choice in bind.claims.volumes:
                assume_volume(choice, bind.node, claims, volumes)
            for device_choice in bind.claims.devices:
                assume_devices(device_choice, pod.partition("/")[2], uid, device_claims)
        return ClaimTables(
            claims=claims,
            volumes=volumes,
            classes=dict(objects[storage.StorageClass]),
            csi_nodes=dict(objects[storage.CSINode]),
            csi_drivers=dict(objects[storage.CSIDriver]),
            capacities=dict(objects[storage.CSIStorageCapacity]),
            device_claims=device_claims,
            offers=self._offers,
            attached=self._attached.counts(),
        )

    def _attachable_volume(self, key: str) -> Volume | None:
        claim = self.get(storage.PersistentVolumeClaim, key)
        if claim is None:
            return None
        volume = self.get(storage.PersistentVolume, claim.spec.volume_name)
        return attachable_volume(claim, volume, self.get(storage.StorageClass, claim.spec.storage_class_name))


def attachable_volume(
    claim: storage.PersistentVolumeClaim,
    volume: storage.PersistentVolume | None,
    storage_class: storage.StorageClass | None,
) -> Volume | None:
    """Return driver and handle of a claim's volume; for an unbound claim, those of the volume to be provisioned."""
    if claim.spec.volume_name:
        csi = volume.spec.csi if volume is not None else None
        return None if csi is None else (csi.driver, csi.volume_handle)
    if storage_class is None or not storage_class.provisions:
        return None
    return storage_class.provisioner, claim.metadata.key


def assume_volume(
    choice: VolumeChoice,
    node: str,
    claims: dict[str, storage.PersistentVolumeClaim],
    volumes: dict[str, storage.PersistentVolume],
) -> None:
    """Change a claim, or its volume, as a bind to a node does."""
    claim = claims.get(choice.claim)
    if claim is None or claim.metadata.uid != choice.uid or claim.spec.volume_name:
        return
    if not choice.volume:
        annotations = {**claim.metadata.annotations, storage.SELECTED_NODE: node}
        claims[choice.claim] = replace(claim, metadata=replace(claim.metadata, annotations=annotations))
        return
    volume = volumes.get(choice.volume)
    if volume is not None and volume.spec.claim_ref is None:
        namespace, _, name = choice.claim.partition("/")
        reference = storage.ClaimReference(namespace=namespace, name=name, uid=choice.uid)
        volumes[choice.volume] = replace(volume, spec=replace(volume.spec, claim_ref=reference))


def assume_devices(choice: DeviceChoice, pod: str, uid: str, claims: dict[str, devices.ResourceClaim]) -> None:
    """Change a claim as a bind of the pod with this uid does."""
    claim = claims.get(choice.claim)
    if claim is None or claim.metadata.uid != choice.uid:
        return
    allocation, others = claim.status.allocation, [user for user in claim.status.reserved_for if user.uid != uid]
    if choice.allocation is not None and not others:
        allocation = msgspec.convert(choice.allocation, devices.Allocation)
    users = (*others, devices.Consumer(resource="pods", name=pod, uid=uid))
    claims[choice.claim] = replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=users))
