"""What this session has given to pods with claims: volumes and devices, by the pods that it placed.

The ledger says who is where; which volume and which devices a pod gets there is decided when somebody next asks about
claims after it was placed, and stands for as long as the pod stays. So a rollback needs no word here: the pod is not on
its node any more, and what it was given is free.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.plan import DeviceChoice, VolumeChoice
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status


@dataclass(frozen=True, eq=False)
class Entry:
    """What one pod is given on its node; ``devices`` with the ids of each claim, and the nodes that they can be used from."""

    node: int
    volumes: tuple[VolumeChoice, ...] = ()
    devices: tuple[tuple[DeviceChoice, tuple[DeviceId, ...], Mask | None], ...] = ()


class AssumedClaims:
    """The entries of one session."""

    def __init__(self, cluster: Cluster, decide: Callable[[int, int], Entry]) -> None:
        """``decide`` says what the task of a row is given on a node."""
        self._ledger = cluster.ledger
        self._decide = decide
        snapshot = cluster.snapshot
        claiming = np.zeros(len(snapshot.shapes.specs) + 1, dtype=np.bool_)
        claiming[list(snapshot.shapes.claiming)] = True
        self.claiming: Mask = claiming[snapshot.tasks.shape] & (snapshot.tasks.status != Status.ABSENT)
        """(T,): the tasks behind which there are claims."""
        self._rows: Rows = np.flatnonzero(self.claiming & (snapshot.tasks.status == Status.PENDING))
        self._where = np.full(len(self._rows), NONE, dtype=np.int32)
        self._entries: dict[int, Entry] = {}
        self._seen = NONE
        self._busy = False

    def of(self, row: int) -> Entry | None:
        """What a task was given, None if it has no place."""
        self.renew()
        return self._entries.get(row)

    def renew(self) -> None:
        """Catch up with the ledger."""
        now = self._ledger.changes
        if self._seen == now or self._busy:
            return
        self._seen = now
        here = self._ledger.node[self._rows]
        changed = np.flatnonzero(here != self._where)
        if not len(changed):
            return
        for place in changed.tolist():
            self._entries.pop(int(self._rows[place]), None)
        self._where[changed] = here[changed]
        self._busy = True
        try:
            for place in changed.tolist():
                row, node = int(self._rows[place]), int(here[place])
                if node != NONE:
                    self._entries[row] = self._decide(row, node)
        finally:
            self._busy = False

    def entries(self) -> Iterator[Entry]:
        """All of them."""
        self.renew()
        return iter(self._entries.values())

    def volume_choices(self) -> dict[str, tuple[VolumeChoice, int]]:
        """By claim: how it gets its volume, and the node for which it does."""
        return {choice.claim: (choice, entry.node) for entry in self.entries() for choice in entry.volumes}

    def device_choices(self) -> dict[str, tuple[tuple[DeviceId, ...], Mask | None]]:
        """By claim: the devices that it is given now, and the nodes that they can be used from; None for all."""
        return {
            choice.claim: (ids, where)
            for entry in self.entries()
            for choice, ids, where in entry.devices
            if choice.allocation is not None
        }
