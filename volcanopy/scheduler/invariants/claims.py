"""Invariants of volumes and devices: each exists, is assigned to one claim, and is usable on the node of the pod."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from volcanopy.api import core
from volcanopy.api.builtin import devices
from volcanopy.scheduler.invariants.node_rules import selects
from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.plan import Bind, Claims, DeviceChoice, VolumeChoice
from volcanopy.scheduler.model.snapshot import Snapshot


def broken_claims(moves: Moves) -> list[str]:
    """Return the violations in the volumes and devices that binds assign."""
    snapshot = moves.snapshot
    binds = [(bind, bind.claims) for bind in moves.plan.of(Bind) if bind.claims is not None]
    return [*_volumes(snapshot, binds), *_devices(snapshot, binds)] if binds else []


def _volumes(snapshot: Snapshot, binds: list[tuple[Bind, Claims]]) -> Iterator[str]:
    owners: dict[str, str] = {}
    for bind, choice in ((bind, choice) for bind, claims in binds for choice in claims.volumes):
        claim = snapshot.claim_tables.claims.get(choice.claim)
        if claim is None or claim.metadata.uid != choice.uid:
            yield f"pod {bind.pod} is bound, but its claim {choice.claim} is gone"
        elif choice.volume:
            yield from _given_volume(snapshot, bind, choice, owners)


def _given_volume(snapshot: Snapshot, bind: Bind, choice: VolumeChoice, owners: dict[str, str]) -> Iterator[str]:
    volume = snapshot.claim_tables.volumes.get(choice.volume)
    if volume is None:
        yield f"claim {choice.claim} gets volume {choice.volume}, which does not exist"
        return
    reference = volume.spec.claim_ref
    holder = "" if reference is None else f"{reference.namespace}/{reference.name}"
    if owners.setdefault(choice.volume, choice.claim) != choice.claim or holder not in {"", choice.claim}:
        yield f"claim {choice.claim} gets volume {choice.volume}, which is bound to another claim"
    affinity = volume.spec.node_affinity
    if affinity is not None and not _admits(affinity.required, snapshot, bind.node):
        yield f"pod {bind.pod} is bound to {bind.node}, which cannot reach volume {choice.volume}"


def _devices(snapshot: Snapshot, binds: list[tuple[Bind, Claims]]) -> Iterator[str]:
    known, given = snapshot.claim_tables.device_claims, dict[DeviceId, set[str]]()
    choices = [(bind, choice) for bind, claims in binds for choice in claims.devices]
    for bind, choice in choices:
        claim = known.get(choice.claim)
        if claim is None or claim.metadata.uid != choice.uid:
            yield f"pod {bind.pod} is bound, but its claim {choice.claim} is gone"
        elif choice.allocation is not None:
            name = bind.pod.partition("/")[2]
            if claim.status.allocation is not None and any(user.name != name for user in claim.status.reserved_for):
                yield f"claim {choice.claim} is given devices, but others use those that it has"
            yield from _given_devices(snapshot, bind, choice, given)
    # Claims whose devices are in use keep them.
    of_plan = {choice.claim for _, choice in choices}
    of_plan -= {key for key in of_plan if key in known and known[key].status.reserved_for}
    for device, claims in given.items():
        holders = snapshot.claim_tables.taken_devices.get(device, frozenset()) - of_plan
        if len(claims | holders) > 1:
            yield f"device {'/'.join(device)} is given to {' and '.join(sorted(claims | holders))}"


def _given_devices(
    snapshot: Snapshot, bind: Bind, choice: DeviceChoice, given: dict[DeviceId, set[str]]
) -> Iterator[str]:
    allocation = msgspec.convert(choice.allocation, devices.Allocation)
    if allocation.node_selector is not None and not _admits(allocation.node_selector, snapshot, bind.node):
        yield f"pod {bind.pod} is bound to {bind.node}, where the devices of claim {choice.claim} cannot be used"
    own = Counter(
        (result.driver, result.pool, result.device) for result in allocation.devices.results if not result.admin_access
    )
    for device, times in own.items():
        given.setdefault(device, set()).add(choice.claim)
        if times > 1:
            yield f"device {'/'.join(device)} is given to claim {choice.claim} twice"


def _admits(selector: core.NodeSelector | None, snapshot: Snapshot, name: str) -> bool:
    row = snapshot.nodes.index.get(name)
    return row is not None and selects(selector, snapshot.nodes.traits.objects[row])
