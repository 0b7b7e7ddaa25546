"""The GPUs that nodes publish in ResourceSlices and pods request with ResourceClaims, as cards for other plugins.

A device is a card that one pod uses as a whole. Counted are the devices of one node that some device class of GPUs selects.
Of the requests of pods those count that are claims made from a template, which no other pod uses, with an exact number of devices
of these classes, all with the same selectors.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from volcanopy.api import core
from volcanopy.api.builtin import devices, pod_claims
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.gpu_cards import ALL_CORES, CardNeed, TakenCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.once import once_by
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask, Rows
from volcanopy.scheduler.nodes.assumed_claims import AssumedClaims, AssumedPod
from volcanopy.scheduler.nodes.devices.device_allocation import COUNTED, device_requests
from volcanopy.scheduler.nodes.devices.device_claims import DynamicResources
from volcanopy.scheduler.nodes.devices.device_inventory import Inventory, Item, build_inventory, matching_key
from volcanopy.scheduler.nodes.devices.pod_mix import MIG_SLICES, slices_of

CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "gpu.intel.com")
"""The device classes of the DRA drivers of these vendors."""
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, eq=False)
class _Published:
    """The C devices of GPUs, grouped by node."""

    inventory: Inventory
    numbers: Rows  # (C,): the number of each among all devices of nodes.
    node: Rows  # (C,): the row of each device's node.
    start: Rows  # (N + 1,): the number of the first device of each node.
    own: Ints  # (C,): what each device is, in sevenths of a GPU.
    needs: dict[tuple[int, bytes], CardNeed] = field(default_factory=dict)
    """By the number of devices and the key of what matches."""
    needs_of_claims: dict[bytes, CardNeed | None] = field(default_factory=dict)  # By what the claims of a pod request.

    def suitable(self, request: devices.ExactRequest) -> Mask:
        """(C,): the devices that match a request; none if a selector cannot be evaluated."""
        matching = self.inventory.matching(request)
        if matching.failed[self.node].any():
            return np.zeros(len(self.node), dtype=np.bool_)
        return matching.devices[self.numbers]


def published(cluster: Cluster, classes: Sequence[str]) -> _Published | None:
    """Return the devices of GPUs; None without any. The object stays the same until slices, classes or nodes change."""
    offers = cluster.snapshot.claim_tables.offers
    known = [name for name in classes if name in offers.classes]
    if not known or not offers.slices:
        return None
    inventory = build_inventory(offers, cluster.traits)
    key = ("GPUs", tuple(known))
    before = offers.memo.get(key)
    if not isinstance(before, _Published) or before.inventory is not inventory:
        before = offers.memo[key] = _publish(inventory, known)
    return before if len(before.node) else None


def _publish(inventory: Inventory, classes: Sequence[str]) -> _Published:
    selected = np.zeros(len(inventory.node), dtype=np.bool_)
    for name in classes:
        selected |= inventory.matching(devices.ExactRequest(device_class_name=name)).devices
    numbers = np.flatnonzero(selected)
    node = inventory.node[numbers]
    own = np.array([_sevenths(inventory.items[number]) for number in numbers.tolist()], dtype=np.int64)
    return _Published(inventory, numbers, node, np.searchsorted(node, np.arange(len(inventory.traits.rows) + 1)), own)


def _sevenths(item: Item) -> int:
    """What a device is in sevenths of a GPU, by the attribute ``profile`` of MIG devices."""
    match item.attribute("profile"):
        case ("string", str(profile)):
            return slices_of(profile) or MIG_SLICES
    return MIG_SLICES


class GpuDevices:
    """The devices in the state of a session, as :class:`~volcanopy.scheduler.ledger.gpu_cards.GpuCards`."""

    def __init__(self, cluster: Cluster, devices_of_nodes: _Published, classes: Sequence[str]) -> None:
        self._cluster, self._published, self._classes = cluster, devices_of_nodes, frozenset(classes)
        self._claims = DynamicResources(cluster, AssumedClaims(cluster, self._decide))
        self.node, self.start = devices_of_nodes.node, devices_of_nodes.start
        self.memory: Ints = np.full(len(self.node), MIG_SLICES, dtype=np.int64)
        specs = cluster.snapshot.shapes.specs
        self.shapes = frozenset(shape for shape in cluster.snapshot.shapes.claiming if specs[shape].resource_claims)

    @classmethod
    def of(cls, cluster: Cluster, classes: Sequence[str]) -> "GpuDevices | None":
        """Return the devices of these classes; None without any."""
        table = published(cluster, classes)
        return None if table is None else cls(cluster, table, classes)

    def free(self, cards: Rows) -> tuple[Ints, Ints]:
        """Sevenths of a GPU and percent of the cores that are free of each of these devices: all or nothing."""
        free = self._is_free(cards)
        return np.where(free, self._published.own[cards], 0), np.where(free, ALL_CORES, 0)

    def changed(self) -> Sequence[int]:
        """The rows of the nodes whose devices were allocated or became free during the session, in order."""
        return self._claims.free_devices.changed()

    def kind(self, task: TaskView) -> Hashable:
        """Return what the claims of the task request: those of tasks of one shape may differ, since claims are objects."""
        return self.need(task)

    @once_by("representative.row")
    def need(self, task: TaskView) -> CardNeed | None:
        """The devices that the task requests; None if it requests none, or if what it requests is not known exactly."""
        return self._need(task.representative.pod)

    def taken(self, task: TaskView, rows: Rows) -> TakenCards | None:
        """The devices that the task would get on each node: the first that are free."""
        need = self.need(task)
        if need is None:
            return None
        counts = self.start[rows + 1] - self.start[rows]
        position = np.repeat(np.arange(len(rows)), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        cards = np.arange(len(position)) - first + self.start[rows][position]
        usable = self._is_free(cards) & (need.memory[cards] < UNLIMITED)
        sums = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(usable)))
        chosen = usable & (sums[1:] - sums[first] <= need.number)
        position, cards = position[chosen], cards[chosen]
        return TakenCards(position, cards, need.memory[cards], np.full(len(cards), ALL_CORES, dtype=np.int64))

    def _is_free(self, cards: Rows) -> Mask:
        return self._claims.free_devices.free()[self._published.numbers[cards]]

    def _need(self, pod: core.Pod) -> CardNeed | None:
        tables = self._cluster.snapshot.claim_tables
        claims = [tables.device_claims.get(claim.key) for claim in pod_claims.devices(pod) if claim.own]
        existing = [claim for claim in claims if claim is not None]
        if len(existing) < len(claims):
            return None
        key, needs = _ENCODE([claim.spec.devices.requests for claim in existing]), self._published.needs_of_claims
        if key not in needs:
            needs[key] = self._read(existing)
        return needs[key]

    def _read(self, claims: Sequence[devices.ResourceClaim]) -> CardNeed | None:
        number, masks = 0, dict[bytes, Mask]()
        for device_request in device_requests(claims):
            options = [request for _, request in device_request.options]
            if not any(request.device_class_name in self._classes for request in options):
                continue
            if len(options) > 1 or options[0].allocation_mode not in COUNTED or options[0].admin_access:
                return None
            number += max(options[0].count, 1)
            masks[matching_key(options[0])] = self._published.suitable(options[0])
        if not masks:
            return None
        key, mask = next(iter(masks.items()))
        if not mask.any() or any((mask != other).any() for other in masks.values()):
            return None
        needs = self._published.needs
        if (number, key) not in needs:
            needs[number, key] = CardNeed(number, np.where(mask, self._published.own, UNLIMITED), 0)
        return needs[number, key]

    def _decide(self, row: int, node: int) -> AssumedPod:
        return AssumedPod(node, devices=self._claims.choose(self._cluster.task(row), node))
