"""Volumes and devices, frozen for a snapshot: tables of them, the claims on them, and what is assigned to pods.

Assignments of earlier plans that the API server does not show yet are included. GPU cards by index and cpus by number are
no amounts and therefore no columns: they are written as annotations when a pod is bound, and are read from the pods of a node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from volcanopy.api import core, names, quantity
from volcanopy.api.builtin import devices, storage

DeviceId = tuple[str, str, str]
"""Driver, pool, device."""


@dataclass(frozen=True, eq=False)
class Offers:
    """Device slices and device classes. The object stays the same until they change."""

    slices: Mapping[str, devices.ResourceSlice] = field(default_factory=dict)
    classes: Mapping[str, devices.DeviceClass] = field(default_factory=dict)
    memo: dict[object, object] = field(default_factory=dict)
    """Cached results that depend on these alone."""


@dataclass(frozen=True, eq=False)
class ClaimTables:
    """Claims by ``namespace/name``, everything else by name."""

    claims: Mapping[str, storage.PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, storage.PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, storage.StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, storage.CSINode] = field(default_factory=dict)
    csi_drivers: Mapping[str, storage.CSIDriver] = field(default_factory=dict)
    capacities: Mapping[str, storage.CSIStorageCapacity] = field(default_factory=dict)
    device_claims: Mapping[str, devices.ResourceClaim] = field(default_factory=dict)
    offers: Offers = field(default_factory=Offers)
    attached: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By driver and node: how many volumes pods use there."""

    @cached_property
    def open_volumes(self) -> Mapping[str, tuple[storage.PersistentVolume, ...]]:
        """By class: the volumes that a claim may still get, the smallest first, the first by name of equals."""
        return _grouped(
            (volume.spec.storage_class_name, volume)
            for volume in self.volumes.values()
            if volume.spec.claim_ref is None and volume.status.phase == "Available"
            if volume.metadata.deletion_timestamp is None
        )

    @cached_property
    def reserved_volumes(self) -> Mapping[str, tuple[storage.PersistentVolume, ...]]:
        """By claim: the volumes that name it as the one that they are for."""
        claimed = ((volume.spec.claim_ref, volume) for volume in self.volumes.values())
        return _grouped((f"{claim.namespace}/{claim.name}", volume) for claim, volume in claimed if claim is not None)

    @cached_property
    def taken_devices(self) -> Mapping[DeviceId, frozenset[str]]:
        """The devices that claims hold, each with the keys of those claims."""
        result: dict[DeviceId, frozenset[str]] = {}
        for key, claim in self.device_claims.items():
            for device in held(claim):
                result[device] = result.get(device, frozenset()) | {key}
        return result


def held(claim: devices.ResourceClaim) -> list[DeviceId]:
    """Return the devices that a claim uses exclusively: without those with admin access."""
    if claim.status.allocation is None:
        return []
    results = claim.status.allocation.devices.results
    return [(device.driver, device.pool, device.device) for device in results if not device.admin_access]


def size(volume: storage.PersistentVolume) -> int:
    """Return the capacity of a volume in bytes."""
    return quantity.amount("storage", volume.spec.capacity.get("storage", 0))


def _grouped(
    volumes: Iterable[tuple[str, storage.PersistentVolume]],
) -> Mapping[str, tuple[storage.PersistentVolume, ...]]:
    """Return volumes by their keys, the smallest first, the first by name of equals."""
    groups: dict[str, list[storage.PersistentVolume]] = {}
    for key, volume in volumes:
        groups.setdefault(key, []).append(volume)
    return {
        key: tuple(sorted(group, key=lambda volume: (size(volume), volume.metadata.name)))
        for key, group in groups.items()
    }


class AssignedPod(NamedTuple):
    """A pod with assigned devices or cpus: its row, and its annotations once it is bound."""

    row: int
    pod: core.Pod
    notes: Mapping[str, str]


AssignedPods = tuple[AssignedPod, ...]
"""The assigned pods of one node, ordered by the keys of the pods. It is another tuple whenever something about them changed."""


def assigned_pod(row: int, pod: core.Pod, bind_annotations: Mapping[str, str]) -> AssignedPod | None:
    """Return the pod if it has assigned devices, else None; ``bind_annotations`` are those of an assumed bind."""
    own = pod.metadata.annotations
    if names.ASSIGNMENT_KEYS.isdisjoint(own) and names.ASSIGNMENT_KEYS.isdisjoint(bind_annotations):
        return None
    return AssignedPod(row, pod, {**own, **bind_annotations} if bind_annotations else own)
