"""Reference implementation of volume matching and device allocation by exhaustive search.

All assignments of claims are enumerated and checked. Nothing is shared with the scheduling code.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product

from volcanopy.api import core, quantity
from volcanopy.api.builtin import devices, storage


def volumes_can_be_had(
    claims: Sequence[storage.PersistentVolumeClaim],
    volumes: Sequence[storage.PersistentVolume],
    classes: Mapping[str, storage.StorageClass],
    node: core.Node,
) -> bool:
    """Whether each unbound claim of a pod can get its own volume on a node."""
    ways: list[list[str | None]] = []
    for claim in claims:
        apart = [volume for volume in volumes if _is_for(volume, claim) and _is_large_enough(volume, claim)]
        result: list[str | None] = [
            volume.metadata.name for volume in apart or volumes if _serves(claim, volume, node, bool(apart))
        ]
        if not apart and _can_be_made(claim, classes, node):
            result.append(None)
        ways.append(result)
    for chosen in product(*ways):
        taken = [name for name in chosen if name is not None]
        if len(set(taken)) == len(taken):
            return True
    return False


def _is_for(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    named = (claim.metadata.namespace, claim.metadata.name)
    return reference is not None and (reference.namespace, reference.name) == named


def _is_large_enough(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    has, requested = volume.spec.capacity["storage"], claim.spec.resources.requests["storage"]
    return quantity.parse(has) >= quantity.parse(requested)


def _serves(
    claim: storage.PersistentVolumeClaim, volume: storage.PersistentVolume, node: core.Node, apart: bool
) -> bool:
    """Whether a volume matches a claim on a node; a volume reserved for it need only be large enough."""
    if not apart:
        if volume.spec.claim_ref is not None or volume.status.phase != "Available":
            return False
        if volume.spec.storage_class_name != claim.spec.storage_class_name:
            return False
        if any(mode not in volume.spec.access_modes for mode in claim.spec.access_modes):
            return False
    return _is_large_enough(volume, claim) and _reaches(volume, node)


def _reaches(volume: storage.PersistentVolume, node: core.Node) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    for term in affinity.required.node_selector_terms:
        if all(
            node.metadata.labels.get(match_expression.key) in match_expression.values
            for match_expression in term.match_expressions
        ):
            return True
    return False


def _can_be_made(
    claim: storage.PersistentVolumeClaim, classes: Mapping[str, storage.StorageClass], node: core.Node
) -> bool:
    made_by = classes[claim.spec.storage_class_name]
    if made_by.provisioner in {"", "kubernetes.io/no-provisioner"}:
        return False
    return not made_by.allowed_topologies or any(
        all(
            node.metadata.labels.get(match_label_expression.key) in match_label_expression.values
            for match_label_expression in term.match_label_expressions
        )
        for term in made_by.allowed_topologies
    )


Card = tuple[str, Mapping[str, str]]
"""A device: its name, and the values of its attributes."""


def devices_can_be_had(claims: Sequence[devices.ResourceClaim], cards: Sequence[Card], free: Iterable[str]) -> bool:
    """Whether requests for a number, or all, of the devices of a node can be satisfied together; every device matches."""
    free = set(free)
    ways = [list(_ways(request, cards, free)) for claim in claims for request in claim.spec.devices.requests]
    owner = [number for number, claim in enumerate(claims) for _ in claim.spec.devices.requests]
    known = dict(cards)
    for chosen in product(*ways):
        used = [name for cards_of_one, shares in chosen if not shares for name in cards_of_one]
        if len(set(used)) != len(used):
            continue
        by_claim = [
            [name for (some, _), number in zip(chosen, owner, strict=True) if number == place for name in some]
            for place in range(len(claims))
        ]
        if all(_agree(claim, by_claim[place], known) for place, claim in enumerate(claims)):
            return True
    return False


def _ways(
    request: devices.DeviceRequest, cards: Sequence[Card], free: set[str]
) -> Iterable[tuple[tuple[str, ...], bool]]:
    """Yield the sets of devices that satisfy a request, each with whether it is admin access."""
    exact = request.exactly
    assert exact is not None
    administers = bool(exact.admin_access)
    names = [name for name, _ in cards]
    if exact.allocation_mode == "All":
        if names and (administers or free >= set(names)):
            yield tuple(names), administers
        return
    usable = names if administers else [name for name in names if name in free]
    for some in combinations(usable, max(exact.count, 1)):
        yield some, administers


def _agree(claim: devices.ResourceClaim, names: Sequence[str], known: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the devices of a claim satisfy all constraints, which apply to all requests."""
    if len(set(names)) != len(names):
        return False
    for constraint in claim.spec.devices.constraints:
        match, distinct = constraint.match_attribute, constraint.distinct_attribute
        values = [known[name].get((match or distinct or "").rpartition("/")[2]) for name in names]
        if None in values or (match and len(set(values)) > 1) or (distinct and len(set(values)) < len(values)):
            return False
    return True
