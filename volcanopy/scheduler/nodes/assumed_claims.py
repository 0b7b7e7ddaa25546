"""Volumes and devices that the session assumes for the pods with claims that it placed."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.model.plan import DeviceChoice, VolumeChoice
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.assignments import Assigner, NodeAssignments, pending_tasks


@dataclass(frozen=True, eq=False)
class AssumedPod:
    """The choices for one pod on its node; ``devices`` with the ids of each claim and the nodes they are available on."""

    node: int
    volumes: tuple[VolumeChoice, ...] = ()
    devices: tuple[tuple[DeviceChoice, tuple[DeviceId, ...], Mask | None], ...] = ()


class AssumedClaims(NodeAssignments[AssumedPod], Assigner[AssumedPod]):
    """The assumed choices of one session."""

    def __init__(self, cluster: Cluster, decide: Callable[[int, int], AssumedPod]) -> None:
        """``decide`` returns the choices for the task of a row on a node."""
        snapshot = cluster.snapshot
        super().__init__(cluster, pending_tasks(snapshot, snapshot.shapes.claiming), self)
        self._decide = decide
        claiming = np.zeros(len(snapshot.shapes.specs) + 1, dtype=np.bool_)
        claiming[list(snapshot.shapes.claiming)] = True
        self.claiming: Mask = claiming[snapshot.tasks.shape] & (snapshot.tasks.status != Status.ABSENT)
        """(T,): the tasks with claims."""
        self._device_choices: dict[str, tuple[tuple[DeviceId, ...], Mask | None]] = {}
        self._devices: set[DeviceId] = set()
        self.changed_devices: list[DeviceId] = []
        """The devices that were assumed or given up, in order, as of the last query."""

    def choose(self, task: int, node: int, pipelined: bool, previous: AssumedPod | None) -> AssumedPod:
        """Return the choices for a task on a node."""
        return self._decide(task, node)

    def count(self, node: int, assigned: AssumedPod, pipelined: bool, sign: int) -> None:
        """Count the devices of a pod as allocated, or (-1) as free."""
        for choice, ids, available in assigned.devices:
            if choice.allocation is None:
                continue
            if sign > 0:
                self._device_choices[choice.claim] = (ids, available)
                self._devices.update(ids)
            else:
                self._device_choices.pop(choice.claim, None)
                self._devices.difference_update(ids)
            self.changed_devices += ids

    def count_eviction(self, task: int, sign: int) -> None:
        """Count nothing: claims of running pods are in the snapshot."""

    def volume_choices(self) -> dict[str, tuple[VolumeChoice, int]]:
        """Return by claim how it gets its volume, and the node of the pod."""
        self.sync()
        return {choice.claim: (choice, pod.node) for pod in self._assigned.values() for choice in pod.volumes}

    def device_choices(self) -> Mapping[str, tuple[tuple[DeviceId, ...], Mask | None]]:
        """Return by claim the devices of its new allocation, and the nodes they are available on; None for all."""
        self.sync()
        return self._device_choices

    def devices(self) -> AbstractSet[DeviceId]:
        """Return the devices of all new allocations."""
        self.sync()
        return self._devices
