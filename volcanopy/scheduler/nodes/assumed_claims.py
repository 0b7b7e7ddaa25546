"""Volumes and devices that the session assumes for the pods with claims that it placed.

The choice for a pod is made at the first query after its placement and valid as long as the ledger has the pod on that
node. A rollback therefore needs no call: the choice is dropped at the next query.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.plan import DeviceChoice, VolumeChoice
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.assignments import pending_tasks


@dataclass(frozen=True, eq=False)
class AssumedPod:
    """The choices for one pod on its node; ``devices`` with the ids of each claim and the nodes they are available on."""

    node: int
    volumes: tuple[VolumeChoice, ...] = ()
    devices: tuple[tuple[DeviceChoice, tuple[DeviceId, ...], Mask | None], ...] = ()


class AssumedClaims:
    """The assumed choices of one session."""

    def __init__(self, cluster: Cluster, decide: Callable[[int, int], AssumedPod]) -> None:
        """``decide`` returns the choices for the task of a row on a node."""
        self._ledger = cluster.ledger
        self._decide = decide
        snapshot = cluster.snapshot
        claiming = np.zeros(len(snapshot.shapes.specs) + 1, dtype=np.bool_)
        claiming[list(snapshot.shapes.claiming)] = True
        self.claiming: Mask = claiming[snapshot.tasks.shape] & (snapshot.tasks.status != Status.ABSENT)
        """(T,): the tasks with claims."""
        self._pending = pending_tasks(snapshot, snapshot.shapes.claiming)
        self._nodes = np.full(len(self._pending), NONE, dtype=np.int32)
        self._pods: dict[int, AssumedPod] = {}
        self._device_choices: dict[str, tuple[tuple[DeviceId, ...], Mask | None]] = {}
        self._devices: set[DeviceId] = set()
        self.changed_devices: list[DeviceId] = []
        """The devices that were assumed or given up, in order, as of the last query."""
        self._seen = NONE
        self._syncing = False

    def get(self, row: int) -> AssumedPod | None:
        """Return the choices for a task, None without a node."""
        self.sync()
        return self._pods.get(row)

    def sync(self) -> None:
        """Follow the changes of the ledger."""
        changes = self._ledger.changes
        if self._seen == changes or self._syncing:
            return
        self._seen = changes
        nodes = self._ledger.node[self._pending]
        changed = np.flatnonzero(nodes != self._nodes)
        if not len(changed):
            return
        for index in changed.tolist():
            self._give_up(int(self._pending[index]))
        self._nodes[changed] = nodes[changed]
        self._syncing = True
        try:
            for index in changed.tolist():
                row, node = int(self._pending[index]), int(nodes[index])
                if node != NONE:
                    self._assume(row, self._decide(row, node))
        finally:
            self._syncing = False

    def _assume(self, row: int, pod: AssumedPod) -> None:
        self._pods[row] = pod
        for choice, ids, available in pod.devices:
            if choice.allocation is not None:
                self._device_choices[choice.claim] = (ids, available)
                self._devices.update(ids)
                self.changed_devices += ids

    def _give_up(self, row: int) -> None:
        pod = self._pods.pop(row, None)
        for choice, ids, _ in () if pod is None else pod.devices:
            if choice.allocation is not None:
                self._device_choices.pop(choice.claim, None)
                self._devices.difference_update(ids)
                self.changed_devices += ids

    def pods(self) -> Iterator[AssumedPod]:
        """Return the choices of all pods."""
        self.sync()
        return iter(self._pods.values())

    def volume_choices(self) -> dict[str, tuple[VolumeChoice, int]]:
        """Return by claim how it gets its volume, and the node of the pod."""
        return {choice.claim: (choice, pod.node) for pod in self.pods() for choice in pod.volumes}

    def device_choices(self) -> Mapping[str, tuple[tuple[DeviceId, ...], Mask | None]]:
        """Return by claim the devices of its new allocation, and the nodes they are available on; None for all."""
        self.sync()
        return self._device_choices

    def devices(self) -> AbstractSet[DeviceId]:
        """Return the devices of all new allocations."""
        self.sync()
        return self._devices
