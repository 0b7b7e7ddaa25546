"""Devices that belong to one node each, as columns: which match a request, and how many of these are free on each node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from volcanopy.api.builtin import devices
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.nodes.assumed_claims import AssumedClaims
from volcanopy.scheduler.nodes.devices.device_inventory import Inventory, Item, matching_key


class Matching(NamedTuple):
    """The devices that match a request."""

    devices: Mask
    """(D,)."""
    failed: Mask
    """(N,): the nodes on whose devices the request cannot be evaluated."""


@dataclass(frozen=True, eq=False)
class LocalDevices:
    """The D devices that belong to one node and whose pools are complete, grouped by node."""

    inventory: Inventory
    names: Sequence[str]
    """Of the N nodes."""
    items: Sequence[Item]
    """(D,)."""
    ids: Mapping[DeviceId, int]
    """Their numbers."""
    node: Rows
    """(D,): the row of each device's node."""
    _matching: dict[bytes, Matching] = field(default_factory=dict)

    def matching(self, request: devices.ExactRequest) -> Matching:
        """Return the devices that match a request. Kept as long as the devices."""
        key = matching_key(request)
        known = self._matching.get(key)
        if known is None:
            known = self._matching[key] = self._evaluate(request)
        return known

    def _evaluate(self, request: devices.ExactRequest) -> Matching:
        # An unknown class is an error on nodes without devices too.
        is_unknown = request.device_class_name not in self.inventory.offers.classes
        result = Matching(np.zeros(len(self.node), dtype=np.bool_), np.full(len(self.names), is_unknown))
        for row in np.unique(self.node).tolist():
            suitable = self.inventory.suitable(self.names[row], row, request)
            result.failed[row] = bool(suitable.fault)
            result.devices[[self.ids[item.id] for item in suitable.items if item.id in self.ids]] = True
        return result


def local_devices(inventory: Inventory, names: Sequence[str]) -> LocalDevices:
    """Return the devices of the nodes of these names. The object stays the same as long as the inventory."""
    memo = inventory.offers.memo
    known = memo.get("local devices")
    if isinstance(known, LocalDevices) and known.inventory is inventory:
        return known
    listed = [(row, item) for row, name in enumerate(names) for item in inventory.local.get(name, ()) if item.complete]
    items, node = [item for _, item in listed], np.array([row for row, _ in listed], dtype=np.intp)
    ids = {item.id: number for number, item in enumerate(items)}
    made = memo["local devices"] = LocalDevices(inventory, names, items, ids, node)
    return made


class FreeDevices:
    """The devices that are neither allocated nor assumed, in the state of a session."""

    def __init__(self, cluster: Cluster, assumed: AssumedClaims, inventory: Inventory) -> None:
        self._assumed = assumed
        self._devices = local_devices(inventory, cluster.snapshot.nodes.names)
        ids = self._devices.ids
        taken = [ids[device] for device in cluster.snapshot.claim_tables.taken_devices if device in ids]
        self._allocated: Mask = np.zeros(len(ids), dtype=np.bool_)
        self._allocated[taken] = True
        self._free: Mask = ~self._allocated
        self._counts: dict[int, tuple[Matching, Ints]] = {}
        self._changed: list[int] = []
        self._seen = 0
        """How many changes of assumed devices are counted."""

    def free(self) -> Mask:
        """(D,): which of the devices are free."""
        self._sync()
        return self._free

    def changed(self) -> Sequence[int]:
        """The rows of the nodes whose devices were assumed or became free during the session, in order."""
        self._sync()
        return self._changed

    def count(self, request: devices.ExactRequest) -> tuple[Ints, Mask]:
        """(N,): how many free devices match a request on each node, and where it cannot be evaluated."""
        self._sync()
        matching = self._devices.matching(request)
        known = self._counts.get(id(matching))
        if known is None:
            where = self._devices.node[matching.devices & self._free]
            known = matching, np.bincount(where, minlength=len(matching.failed))
            self._counts[id(matching)] = known
        return known[1], matching.failed

    def _sync(self) -> None:
        """Follow the placements of the session."""
        assumed, ids = self._assumed.devices(), self._devices.ids
        changed = self._assumed.changed_devices[self._seen :]
        self._seen += len(changed)
        for device in dict.fromkeys(changed):
            number = ids.get(device)
            if number is None:
                continue
            is_free = not self._allocated[number] and device not in assumed
            if is_free != self._free[number]:
                node = int(self._devices.node[number])
                self._free[number] = is_free
                self._changed.append(node)
                for matching, counts in self._counts.values():
                    if matching.devices[number]:
                        counts[node] += 1 if is_free else -1
