"""The devices of single nodes that are free in the state of a session, and how many on each node match a request."""

from collections.abc import Sequence

import numpy as np

from volcanopy.api.builtin import devices
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Ints, Mask
from volcanopy.scheduler.nodes.assumed_claims import AssumedClaims
from volcanopy.scheduler.nodes.devices.device_inventory import Inventory, Matching


class FreeDevices:
    """The devices that are neither allocated nor assumed, in the state of a session."""

    def __init__(self, cluster: Cluster, assumed: AssumedClaims, inventory: Inventory) -> None:
        self._assumed = assumed
        self._devices = inventory
        ids = inventory.ids
        taken = [ids[device] for device in cluster.snapshot.claim_tables.taken_devices if device in ids]
        self._allocated: Mask = np.zeros(len(ids), dtype=np.bool_)
        self._allocated[taken] = True
        self._free: Mask = ~self._allocated
        self._counts: dict[int, tuple[Matching, Ints]] = {}
        self._changed: list[int] = []
        self._seen = 0  # How many changes of assumed devices are counted.

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
