"""Matching of unbound claims with available volumes on a node.

As in the volume controller, a claim gets the smallest suitable volume. Beyond that rule, claims of one pod that compete
for volumes are matched so that as few of them as possible remain without one.
"""

from collections.abc import Collection, Mapping, Sequence

from volcanopy.api import quantity
from volcanopy.api.builtin import storage
from volcanopy.scheduler.model import selectors
from volcanopy.scheduler.model.claim_tables import size


def requested_size(claim: storage.PersistentVolumeClaim) -> int:
    """Return the requested storage of a claim in bytes."""
    return quantity.amount("storage", claim.spec.resources.requests.get("storage", 0))


def suits(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Return whether an available volume of the claim's class can be bound to it."""
    requested, offered = claim.spec, volume.spec
    return (
        size(volume) >= requested_size(claim)
        and requested.volume_mode == offered.volume_mode
        and (requested.volume_attributes_class_name or None) == (offered.volume_attributes_class_name or None)
        and set(requested.access_modes) <= set(offered.access_modes)
        and (requested.selector is None or selectors.matches(requested.selector, volume.metadata.labels))
    )


def is_for(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Return whether a volume is reserved for the claim by its ``claimRef``."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in {"", claim.metadata.uid}
    )


def is_large_enough(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Return whether a volume reserved for a claim can be bound to it."""
    return (
        volume.metadata.deletion_timestamp is None
        and size(volume) >= requested_size(claim)
        and volume.spec.volume_mode == claim.spec.volume_mode
    )


def match(
    claims: Sequence[storage.PersistentVolumeClaim],
    candidates: Mapping[str, Sequence[str]],
    provisionable: Collection[str],
) -> dict[str, str] | None:
    """Return the volume of each claim by key, empty for one to be provisioned; None if a claim can have neither.

    ``candidates`` are the names of the suitable, accessible volumes of each claim, the best first. Claims are matched in
    order of their size, those that are not ``provisionable`` first.
    """
    order = sorted(
        claims, key=lambda claim: (claim.metadata.key in provisionable, requested_size(claim), claim.metadata.key)
    )
    claim_of: dict[str, str] = {}
    for claim in order:
        key = claim.metadata.key
        if not _augment(key, candidates, claim_of, set()) and key not in provisionable:
            return None
    volume_of = {key: volume for volume, key in claim_of.items()}
    return {claim.metadata.key: volume_of.get(claim.metadata.key, "") for claim in claims}


def _augment(key: str, candidates: Mapping[str, Sequence[str]], claim_of: dict[str, str], seen: set[str]) -> bool:
    """Match a claim with a volume, if necessary with one whose claim can have another (an augmenting path)."""
    for volume in candidates.get(key, ()):
        if volume not in claim_of:
            claim_of[volume] = key
            return True
    for volume in candidates.get(key, ()):
        if volume not in seen:
            seen.add(volume)
            if _augment(claim_of[volume], candidates, claim_of, seen):
                claim_of[volume] = key
                return True
    return False
