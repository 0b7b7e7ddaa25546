"""The GPUs that nodes publish in ResourceSlices and pods request with ResourceClaims, as cards for other plugins.

A device is a card that one pod uses as a whole. Counted are the devices of one node that some device class of GPUs selects.
Of the requests of pods those count that are claims made from a template, which no other pod uses, with an exact number of devices
of these classes, all with the same selectors.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from volcanopy.api.builtin import devices
from volcanopy.scheduler.filters.assumed_claims import AssumedClaims, AssumedPod
from volcanopy.scheduler.filters.devices.device_allocation import device_requests
from volcanopy.scheduler.filters.devices.device_claims import DynamicResources
from volcanopy.scheduler.filters.devices.device_inventory import Inventory, Item, build_inventory
from volcanopy.scheduler.ledger.cluster import Cluster, NodesView
from volcanopy.scheduler.ledger.gpu_cards import ALL_CORES, CardNeed, TakenCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask, Rows

CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "gpu.intel.com")
"""The device classes of the DRA drivers of these vendors."""
_SLICES = 7
"""The compute slices of a GPU in MIG mode: the memory of a card is counted in them."""
_PROFILE = re.compile(r"([1-9])g\..*")
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode
_COUNTED = frozenset({"", "ExactCount"})


@dataclass(frozen=True, eq=False)
class _Published:
    """The D devices of GPUs, grouped by node."""

    inventory: Inventory
    ids: Mapping[DeviceId, int]
    node: Rows
    """(D,): the row of each device's node."""
    start: Rows
    """(N + 1,): the number of the first device of each node."""
    own: Ints
    """(D,): what each device is, in sevenths of a GPU."""
    suitable: dict[bytes, Mask] = field(default_factory=dict)
    """(D,): the devices that match a request, by what of the request matters."""


def published(cluster: Cluster, classes: Sequence[str]) -> _Published | None:
    """Return the devices of GPUs; None without any. The object stays the same until slices, classes or nodes change."""
    offers = cluster.snapshot.claim_tables.offers
    known = [name for name in classes if name in offers.classes]
    if not known or not offers.slices:
        return None
    inventory, key = build_inventory(offers, cluster.traits), ("GPUs", tuple(known))
    before = offers.memo.get(key)
    if not isinstance(before, _Published) or before.inventory is not inventory:
        before = offers.memo[key] = _publish(inventory, cluster.snapshot.nodes.names, known)
    return before if before.ids else None


def _publish(inventory: Inventory, nodes: Sequence[str], classes: Sequence[str]) -> _Published:
    ids, rows, own, start = dict[DeviceId, int](), list[int](), list[int](), [0]
    requests = [devices.ExactRequest(device_class_name=name) for name in classes]
    for row, node in enumerate(nodes):
        if node in inventory.local:
            selected = {item.id for request in requests for item in inventory.suitable(node, row, request).items}
            for item in inventory.local[node]:
                if item.id in selected and item.complete:
                    ids[item.id] = len(ids)
                    rows.append(row)
                    own.append(_sevenths(item))
        start.append(len(ids))
    return _Published(
        inventory, ids, np.array(rows, dtype=np.intp), np.array(start, dtype=np.intp), np.array(own, dtype=np.int64)
    )


def _sevenths(item: Item) -> int:
    """What a device is in sevenths of a GPU, by the attribute ``profile`` of MIG devices."""
    match item.attribute("profile"):
        case ("string", str(text)) if profile := _PROFILE.fullmatch(text):
            return min(int(profile[1]), _SLICES)
    return _SLICES


class GpuDevices:
    """The devices in the state of a session, as :class:`~volcanopy.scheduler.ledger.gpu_cards.GpuCards`."""

    def __init__(self, cluster: Cluster, devices_of_nodes: _Published, classes: Sequence[str]) -> None:
        self._cluster, self._published, self._classes = cluster, devices_of_nodes, frozenset(classes)
        self._assumed = AssumedClaims(cluster, self._decide)
        self._claims = DynamicResources(cluster, self._assumed)
        self._needs: dict[int, CardNeed | None] = {}
        self._changed: list[int] = []
        self._seen = 0
        """How many changes of assumed devices are counted."""
        self.node, self.start = devices_of_nodes.node, devices_of_nodes.start
        self.memory: Ints = np.full(len(self.node), _SLICES, dtype=np.int64)
        taken = cluster.snapshot.claim_tables.taken_devices
        self._unallocated: Mask = np.array([device not in taken for device in devices_of_nodes.ids], dtype=np.bool_)
        self._free = self._unallocated.copy()
        specs = cluster.snapshot.shapes.specs
        self.shapes = frozenset(shape for shape in cluster.snapshot.shapes.claiming if specs[shape].resource_claims)

    @classmethod
    def of(cls, cluster: Cluster, classes: Sequence[str]) -> "GpuDevices | None":
        """Return the devices of these classes; None without any."""
        table = published(cluster, classes)
        return None if table is None else cls(cluster, table, classes)

    def free(self, cards: Rows) -> tuple[Ints, Ints]:
        """Sevenths of a GPU and percent of the cores that are free of each of these devices: all or nothing."""
        self._sync()
        free = self._free[cards]
        return np.where(free, self._published.own[cards], 0), np.where(free, ALL_CORES, 0)

    def changed(self) -> Sequence[int]:
        """The rows of the nodes whose devices were allocated or became free during the session, in order."""
        self._sync()
        return self._changed

    def types(self, task: TaskView) -> tuple[str, ...]:
        """Selectors are part of the need of a task; tasks of one shape have the same."""
        return ()

    def need(self, task: TaskView) -> CardNeed | None:
        """The devices that the task requests; None if it requests none, or if what it requests is not known exactly."""
        if task.row not in self._needs:
            self._needs[task.row] = self._read(task)
        return self._needs[task.row]

    def taken(self, task: TaskView, nodes: NodesView) -> TakenCards | None:
        """The devices that the task would get on each node: the first that are free."""
        need = self.need(task)
        if need is None:
            return None
        self._sync()
        rows = nodes.rows
        counts = self.start[rows + 1] - self.start[rows]
        position = np.repeat(np.arange(len(rows)), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        cards = np.arange(len(position)) - first + self.start[rows][position]
        usable = self._free[cards] & (need.memory[cards] < UNLIMITED)
        sums = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(usable)))
        chosen = usable & (sums[1:] - sums[first] <= need.number)
        position, cards = position[chosen], cards[chosen]
        return TakenCards(position, cards, need.memory[cards], np.full(len(cards), ALL_CORES, dtype=np.int64))

    def _read(self, task: TaskView) -> CardNeed | None:
        own = [claim for claim in pod_claims.devices(task.pod) if claim.own]
        known = self._cluster.snapshot.claim_tables.device_claims
        claims = [known[claim.key] for claim in own if claim.key in known]
        if not claims or len(claims) < len(own):
            return None
        number, masks = 0, list[Mask]()
        for device_request in device_requests(claims):
            options = [request for _, request in device_request.options]
            if not any(request.device_class_name in self._classes for request in options):
                continue
            if len(options) > 1 or options[0].allocation_mode not in _COUNTED or options[0].admin_access:
                return None
            number += max(options[0].count, 1)
            masks.append(self._suitable(options[0]))
        if not masks or not masks[0].any() or any((mask != masks[0]).any() for mask in masks):
            return None
        return CardNeed(number, np.where(masks[0], self._published.own, UNLIMITED), 0)

    def _suitable(self, request: devices.ExactRequest) -> Mask:
        """(D,): the devices that match a request; none if a selector cannot be evaluated. Kept as long as the devices."""
        table = self._published
        key = _ENCODE((request.device_class_name, request.selectors, request.tolerations, request.capacity))
        if key not in table.suitable:
            table.suitable[key] = self._evaluate(request)
        return table.suitable[key]

    def _evaluate(self, request: devices.ExactRequest) -> Mask:
        table = self._published
        mask = np.zeros(len(self.node), dtype=np.bool_)
        names = self._cluster.snapshot.nodes.names
        for row in np.flatnonzero(np.diff(self.start)).tolist():
            suitable = table.inventory.suitable(names[row], row, request)
            if suitable.fault:
                return np.zeros_like(mask)
            mask[[table.ids[item.id] for item in suitable.items if item.id in table.ids]] = True
        return mask

    def _decide(self, row: int, node: int) -> AssumedPod:
        return AssumedPod(node, devices=self._claims.choose(self._cluster.task(row), node))

    def _sync(self) -> None:
        """Follow the placements of the session."""
        assumed, ids = self._assumed.devices(), self._published.ids
        changed = self._assumed.changed_devices[self._seen :]
        if not changed:
            return
        self._seen += len(changed)
        for device in dict.fromkeys(changed):
            number = ids.get(device)
            if number is not None and self._free[number] != (is_free := self._is_free(number, device in assumed)):
                self._free[number] = is_free
                self._changed.append(int(self.node[number]))

    def _is_free(self, number: int, is_assumed: bool) -> bool:
        return bool(self._unallocated[number]) and not is_assumed
