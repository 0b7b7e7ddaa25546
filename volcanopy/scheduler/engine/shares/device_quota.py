"""Limits on the devices that the pods of a queue claim: the capabilities ``deviceclass/<class>``, the number of devices, and
``<capacity>.deviceclass/<class>``, what their claims request of a capacity of each device.

A claim shared by several pods of a queue counts once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.api.builtin import devices, pod_claims
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.once import once_while
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, PLACED

PREFIX = "deviceclass/"
Amounts = Mapping[str, int]  # Base units by the name that a capability has for them.


class Excess(NamedTuple):
    """A limit that a queue would exceed: its row, the name of the capability, and the amounts."""

    queue: int
    name: str
    limit: int
    allocated: int
    requested: int

    def __str__(self) -> str:
        capacity, _, of_class = self.name.partition(PREFIX)
        what = f"{capacity.removesuffix('.')} of devices" if capacity else "devices"
        requested, allocated, limit = (
            quantity.shown(capacity.removesuffix("."), units) for units in (self.requested, self.allocated, self.limit)
        )
        return f'{what} of class "{of_class}" requested {requested}, allocated {allocated}, capability {limit}'


class DeviceQuota:
    """The device limits of queues and the claims that count against them; ``parts``: capacities of devices are limited too."""

    def __init__(self, cluster: Cluster, *, parts: bool = False) -> None:
        self._cluster = cluster
        limits = {row: _limits(queue, parts=parts) for row, queue in enumerate(cluster.snapshot.queues.objects)}
        self._limits = {row: limit for row, limit in limits.items() if limit}

    def exceeded(self, line: Iterable[int], task: TaskView, count: int) -> Excess | None:
        """Return the first limit of these queues that ``count`` more tasks equal to this one exceed, None if there is none."""
        if not self._limits or task.shape not in self._cluster.snapshot.shapes.claiming:
            return None
        claims = list(pod_claims.devices(task.pod))
        for row in line:
            limits = self._limits.get(row)
            if limits is None:
                continue
            charged = self._charged().get(row, set())
            allocated = _sum(self._of(key) for key in charged)
            shared = {claim.key for claim in claims if not claim.own and claim.key not in charged}
            own = [self._of(claim.key) for claim in claims if claim.own]
            requested = _sum([*map(self._of, shared), *(own * count)])
            for name, limit in limits.items():
                if requested[name] and allocated[name] + requested[name] > limit:
                    return Excess(row, name, limit, allocated[name], requested[name])
        return None

    def allocated(self) -> Mapping[int, Amounts]:
        """Return what is allocated of the limited amounts, by queue with limits."""
        if not self._limits:
            return {}
        sums = {row: _sum(map(self._of, keys)) for row, keys in self._claims(pipelined=False).items()}
        return {row: {name: sums[row][name] for name in self._limits[row] if name in sums[row]} for row in sums}

    @once_while("_cluster.ledger.changes")
    def _charged(self) -> Mapping[int, set[str]]:
        """Return, by queue with limits, the claims of tasks that have a node or will have one."""
        return self._claims(pipelined=True)

    def _claims(self, *, pipelined: bool) -> dict[int, set[str]]:
        """Return, by queue with limits, the claims of tasks with a node in it or below it."""
        snapshot, status = self._cluster.snapshot, self._cluster.ledger.status[self._claiming]
        table = snapshot.tasks
        charged: dict[int, set[str]] = {}
        for row in self._claiming[(PLACED if pipelined else HOLDING)[status]].tolist():
            queue = int(snapshot.jobs.queue[table.job[row]])
            keys = {claim.key for claim in pod_claims.devices(table.pods[row])}
            for above in snapshot.queues.lines[queue].tolist() if queue != NONE else ():
                if above in self._limits:
                    charged.setdefault(above, set()).update(keys)
        return charged

    @cached_property
    def _claiming(self) -> Rows:
        """The tasks of jobs that claim devices."""
        table, shapes = self._cluster.snapshot.tasks, sorted(self._cluster.snapshot.shapes.claiming)
        return np.flatnonzero(np.isin(table.shape, np.array(shapes, dtype=np.int64)) & (table.job != NONE))

    def _of(self, key: str) -> Amounts:
        claim = self._cluster.snapshot.claim_tables.device_claims.get(key)
        return {} if claim is None else _requested(claim)


def _limits(queue: core.Queue | None, *, parts: bool) -> dict[str, int]:
    """Return the limits of a queue on devices, and with ``parts`` those on their capacities; zero is no limit."""
    if queue is None:
        return {}
    limits: dict[str, int] = {}
    for name, text in queue.spec.capability.items():
        capacity, dot, of_class = name.partition(f".{PREFIX}")
        if name.startswith(PREFIX) or (parts and dot and of_class):
            limits[name] = quantity.amount(capacity if dot else "pods", text)
    return {name: units for name, units in limits.items() if units > 0}


def _requested(claim: devices.ResourceClaim) -> Amounts:
    """Return the devices of each class that a claim requests, and what it requests of their capacities.

    For allocationMode All those that are allocated count.
    """
    counts, allocation = Counter[str](), claim.status.allocation
    for request in claim.spec.devices.requests:
        exact = request.exactly or (request.first_available[0] if request.first_available else request)
        if exact.admin_access:
            continue
        count = max(exact.count, 1)
        if exact.allocation_mode == "All" and allocation is not None:
            count = sum(result.request == request.name for result in allocation.devices.results)
        of_class = f"{PREFIX}{exact.device_class_name}"
        counts[of_class] += count
        for name, text in exact.requested_capacity.items():
            capacity = name.rpartition("/")[2]
            counts[f"{capacity}.{of_class}"] += count * quantity.amount(capacity, text)
    return counts


def _sum(counts: Iterable[Amounts]) -> Counter[str]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return total
