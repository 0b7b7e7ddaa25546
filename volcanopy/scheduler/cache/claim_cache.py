"""The part of the state that knows volumes, devices and claims, kept current one object at a time.

What a plan decided about claims is counted as done from the moment that the plan is assumed, until the API server shows
it or the pod's bind has come to its end. Pods are no guide to this: a pod may be seen on its node before its claim is
seen with its devices.
"""

from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from volcanopy.api import core, devices, storage
from volcanopy.scheduler.cache.volume_usage import Attached, Volume
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.claim_tables import ClaimTables, Offers
from volcanopy.scheduler.model.plan import Bind, DeviceChoice, VolumeChoice

Supply = storage.Storage | devices.Devices
KINDS: tuple[type[Any], ...] = (*get_args(storage.Storage), *get_args(devices.Devices))
"""The types that are kept here."""


class Stock:
    """Volumes, devices and the claims on them."""

    def __init__(self) -> None:
        self._things: dict[type[Any], dict[str, Any]] = {kind: {} for kind in KINDS}
        self._assumed: dict[tuple[str, str], Bind] = {}
        self._written: dict[tuple[str, str], dict[str, int]] = {}
        self._attached = Attached(self._attachable_volume)
        self._frozen: ClaimTables | None = None
        self._offers: Offers | None = None

    def upsert(self, thing: Supply) -> None:
        """Take in an object as it is now."""
        self._things[type(thing)][thing.metadata.key] = thing
        self._changed(thing)

    def delete(self, thing: Supply) -> None:
        """Forget an object."""
        self._things[type(thing)].pop(thing.metadata.key, None)
        self._changed(thing)

    def _changed(self, thing: Supply) -> None:
        self._frozen = None
        key = thing.metadata.key
        match thing:
            case storage.PersistentVolumeClaim():
                self._attached.resolve_again(key)
            case storage.PersistentVolume():
                reference = thing.spec.claim_ref
                if reference is not None:
                    self._attached.resolve_again(f"{reference.namespace}/{reference.name}")
            case storage.StorageClass():
                self._attached.resolve_all_again()
            case devices.ResourceSlice() | devices.DeviceClass():
                self._offers = None
            case devices.ResourceClaim():
                for pod, uid in [known for known, versions in self._written.items() if key in versions]:
                    self._forget_if_seen(pod, uid)

    def claim(self, key: str) -> storage.PersistentVolumeClaim | None:
        """A claim on a volume, as the server has it."""
        result: storage.PersistentVolumeClaim | None = self._things[storage.PersistentVolumeClaim].get(key)
        return result

    def volume(self, name: str) -> storage.PersistentVolume | None:
        """A volume, as the server has it."""
        result: storage.PersistentVolume | None = self._things[storage.PersistentVolume].get(name)
        return result

    def device_claim(self, key: str) -> devices.ResourceClaim | None:
        """A claim on devices, as the server has it."""
        result: devices.ResourceClaim | None = self._things[devices.ResourceClaim].get(key)
        return result

    def use(self, pod: core.Pod, node: str, sign: int) -> None:
        """A pod comes to a node (+1) or leaves it (-1)."""
        for requested in pod_claims.volumes(pod):
            self._attached.use(requested.key, node, sign)
        self._frozen = None

    def assume(self, bind: Bind, uid: str) -> None:
        """Count what a bind decided about claims as done, for the pod of this uid."""
        if bind.claims is not None:
            self._assumed[bind.pod, uid] = bind
            self._frozen = None

    def settle(self, pod: str, uid: str, versions: dict[str, int]) -> None:
        """The bind is done: it holds until the claims on devices are seen in these versions, which show what was written."""
        if (pod, uid) in self._assumed:
            self._written[pod, uid] = versions
            self._forget_if_seen(pod, uid)

    def release(self, pod: str, uid: str) -> None:
        """The bind has failed, and what it did about claims is undone."""
        self._written.pop((pod, uid), None)
        if self._assumed.pop((pod, uid), None) is not None:
            self._frozen = None

    def _forget_if_seen(self, pod: str, uid: str) -> None:
        for key, version in self._written[pod, uid].items():
            known = self.device_claim(key)
            if known is not None and int(known.metadata.resource_version or 0) < version:
                return
        self.release(pod, uid)

    def claim_tables(self) -> ClaimTables:
        """Everything, frozen; the same object as long as nothing changes."""
        if self._frozen is None:
            self._frozen = self._freeze()
        return self._frozen

    def _freeze(self) -> ClaimTables:
        things = self._things
        if self._offers is None:
            self._offers = Offers(dict(things[devices.ResourceSlice]), dict(things[devices.DeviceClass]))
        claims = dict(things[storage.PersistentVolumeClaim])
        volumes = dict(things[storage.PersistentVolume])
        device_claims = dict(things[devices.ResourceClaim])
        for (pod, uid), bind in self._assumed.items():
            assert bind.claims is not None
            for choice in bind.claims.volumes:
                _work_in_volume(choice, bind.node, claims, volumes)
            for one in bind.claims.devices:
                _work_in_devices(one, pod.partition("/")[2], uid, device_claims)
        return ClaimTables(
            claims=claims,
            volumes=volumes,
            classes=dict(things[storage.StorageClass]),
            csi_nodes=dict(things[storage.CSINode]),
            csi_drivers=dict(things[storage.CSIDriver]),
            capacities=dict(things[storage.CSIStorageCapacity]),
            device_claims=device_claims,
            offers=self._offers,
            attached=self._attached.counts(),
        )

    def _attachable_volume(self, key: str) -> Volume | None:
        claim = self.claim(key)
        return (
            None if claim is None else attachable_volume(claim, self.volume(claim.spec.volume_name), self._class(claim))
        )

    def _class(self, claim: storage.PersistentVolumeClaim) -> storage.StorageClass | None:
        result: storage.StorageClass | None = self._things[storage.StorageClass].get(claim.spec.storage_class_name)
        return result


def attachable_volume(
    claim: storage.PersistentVolumeClaim,
    volume: storage.PersistentVolume | None,
    storage_class: storage.StorageClass | None,
) -> Volume | None:
    """The driver's volume behind a claim; for a claim that has none, the one that its class will make."""
    if claim.spec.volume_name:
        csi = volume.spec.csi if volume is not None else None
        return None if csi is None else (csi.driver, csi.volume_handle)
    if storage_class is None or not storage_class.provisions:
        return None
    return storage_class.provisioner, claim.metadata.key


def _work_in_volume(
    choice: VolumeChoice,
    node: str,
    claims: dict[str, storage.PersistentVolumeClaim],
    volumes: dict[str, storage.PersistentVolume],
) -> None:
    claim = claims.get(choice.claim)
    if claim is None or claim.metadata.uid != choice.uid or claim.spec.volume_name:
        return
    if not choice.volume:
        notes = {**claim.metadata.annotations, storage.SELECTED_NODE: node}
        claims[choice.claim] = replace(claim, metadata=replace(claim.metadata, annotations=notes))
        return
    volume = volumes.get(choice.volume)
    if volume is not None and volume.spec.claim_ref is None:
        namespace, _, name = choice.claim.partition("/")
        reference = storage.ClaimReference(namespace=namespace, name=name, uid=choice.uid)
        volumes[choice.volume] = replace(volume, spec=replace(volume.spec, claim_ref=reference))


def _work_in_devices(choice: DeviceChoice, pod: str, uid: str, claims: dict[str, devices.ResourceClaim]) -> None:
    claim = claims.get(choice.claim)
    if claim is None or claim.metadata.uid != choice.uid:
        return
    status = claim.status
    if any(one.uid == uid for one in status.reserved_for):
        return
    allocation = status.allocation
    if choice.allocation is not None and not status.reserved_for:
        allocation = msgspec.convert(choice.allocation, devices.Allocation)
    consumer = devices.Consumer(resource="pods", name=pod, uid=uid)
    known = (*status.reserved_for, consumer)
    claims[choice.claim] = replace(claim, status=replace(status, allocation=allocation, reserved_for=known))
