"""Limits on the devices that the pods of a queue claim: the capability ``deviceclass/<class>``.

A claim shared by several pods of a queue counts once.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.api.builtin import devices
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, Status

PREFIX = "deviceclass/"
Counts = Mapping[str, int]
"""Counts of devices by class."""


class DeviceQuota:
    """The device limits of queues and the claims that count against them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        limits = {row: _limits(queue) for row, queue in enumerate(cluster.snapshot.queues.objects)}
        self._limits = {row: limit for row, limit in limits.items() if limit}
        self._claiming: Rows | None = None
        self._known: tuple[int, dict[int, set[str]]] = (NONE, {})

    def exceeded(self, line: Iterable[int], task: TaskView, count: int) -> tuple[int, str, int, int, int] | None:
        """Return the first limit of these queues that ``count`` more tasks equal to this one exceed, None if there is none.

        It is the queue's row, the device class, the limit, the allocated and the requested number.
        """
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
                if requested.get(name, 0) and allocated.get(name, 0) + requested[name] > limit:
                    return row, name, limit, allocated.get(name, 0), requested[name]
        return None

    def _charged(self) -> Mapping[int, set[str]]:
        """Return, by queue with limits, the claims of tasks with a node in it or below it."""
        ledger, snapshot = self._cluster.ledger, self._cluster.snapshot
        if self._known[0] != ledger.changes:
            table = snapshot.tasks
            if self._claiming is None:
                shapes = np.array(sorted(snapshot.shapes.claiming), dtype=np.int64)
                self._claiming = np.flatnonzero(np.isin(table.shape, shapes) & (table.job != NONE))
            status = ledger.status[self._claiming]
            charged: dict[int, set[str]] = {}
            for row in self._claiming[HOLDING[status] | (status == Status.PIPELINED)].tolist():
                queue = int(snapshot.jobs.queue[table.job[row]])
                keys = {claim.key for claim in pod_claims.devices(table.pods[row])}
                for above in snapshot.queues.lines[queue].tolist() if queue != NONE else ():
                    if above in self._limits:
                        charged.setdefault(above, set()).update(keys)
            self._known = (ledger.changes, charged)
        return self._known[1]

    def _of(self, key: str) -> Counts:
        claim = self._cluster.snapshot.claim_tables.device_claims.get(key)
        return {} if claim is None else _requested(claim)


def _limits(queue: core.Queue | None) -> dict[str, int]:
    """Return the limits of a queue by class; zero is no limit."""
    if queue is None:
        return {}
    named = {name: text for name, text in queue.spec.capability.items() if name.startswith(PREFIX)}
    counts = {name.removeprefix(PREFIX): quantity.amount("pods", text) for name, text in named.items()}
    return {name: count for name, count in counts.items() if count > 0}


def _requested(claim: devices.ResourceClaim) -> Counts:
    """Return the devices of each class that a claim requests; for allocationMode All those that are allocated."""
    counts: dict[str, int] = {}
    allocation = claim.status.allocation
    for request in claim.spec.devices.requests:
        exact = request.exactly or (request.first_available[0] if request.first_available else request)
        if exact.admin_access:
            continue
        count = max(exact.count, 1)
        if exact.allocation_mode == "All" and allocation is not None:
            count = sum(result.request == request.name for result in allocation.devices.results)
        counts[exact.device_class_name] = counts.get(exact.device_class_name, 0) + count
    return counts


def _sum(counts: Iterable[Counts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total
