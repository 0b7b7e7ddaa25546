"""Which volumes claims without one get on a node, and which of them are made there instead.

As the volume controller has it, a claim gets the smallest volume that suits it. Beyond that rule: where several claims
of one pod compete for volumes, they are shared out so that as few of them as possible come away with nothing.
"""

from collections.abc import Callable, Mapping, Sequence

from volcanopy.api import quantity, storage
from volcanopy.api.core import LabelSelector
from volcanopy.scheduler.model import selectors
from volcanopy.scheduler.model.claim_tables import size


def asked_size(claim: storage.PersistentVolumeClaim) -> int:
    """The bytes that a claim asks for."""
    return quantity.amount("storage", claim.spec.resources.requests.get("storage", 0))


def suits(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Whether an open volume of the claim's class can be its volume."""
    requested, offered = claim.spec, volume.spec
    return (
        size(volume) >= asked_size(claim)
        and requested.volume_mode == offered.volume_mode
        and (requested.volume_attributes_class_name or None) == (offered.volume_attributes_class_name or None)
        and set(requested.access_modes) <= set(offered.access_modes)
        and _selected(requested.selector, volume)
    )


def _selected(selector: LabelSelector | None, volume: storage.PersistentVolume) -> bool:
    return selector is None or selectors.matches(selector, volume.metadata.labels)


def is_for(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Whether a volume names the claim as the one that it is for."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in {"", claim.metadata.uid}
    )


def is_large_enough(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Whether a volume that was set apart for a claim can serve it."""
    return (
        volume.metadata.deletion_timestamp is None
        and size(volume) >= asked_size(claim)
        and volume.spec.volume_mode == claim.spec.volume_mode
    )


def match(
    claims: Sequence[storage.PersistentVolumeClaim],
    candidates: Mapping[str, Sequence[str]],
    can_be_made: Callable[[storage.PersistentVolumeClaim], bool],
) -> dict[str, str] | None:
    """The volume of each claim by key, empty for one that is to be made; None if a claim comes away with nothing.

    ``candidates`` are the names of the volumes that suit each claim and can be reached, the best first. Claims choose
    in order of their size, those for which none can be made before the others.
    """
    makeable = {claim.metadata.key: can_be_made(claim) for claim in claims}
    order = sorted(claims, key=lambda one: (makeable[one.metadata.key], asked_size(one), one.metadata.key))
    holder: dict[str, str] = {}
    for claim in order:
        key = claim.metadata.key
        if not _give(key, candidates, holder, set()) and not makeable[key]:
            return None
    given = {key: volume for volume, key in holder.items()}
    return {claim.metadata.key: given.get(claim.metadata.key, "") for claim in claims}


def _give(key: str, candidates: Mapping[str, Sequence[str]], holder: dict[str, str], seen: set[str]) -> bool:
    """Give a claim a volume, if need be one whose holder can have another."""
    for volume in candidates.get(key, ()):
        if volume not in holder:
            holder[volume] = key
            return True
    for volume in candidates.get(key, ()):
        if volume not in seen:
            seen.add(volume)
            if _give(holder[volume], candidates, holder, seen):
                holder[volume] = key
                return True
    return False
