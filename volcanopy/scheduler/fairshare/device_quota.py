"""How many devices of a class the pods of a queue may claim: the limits that queues name as ``deviceclass/<class>``.

A claim that several pods of a queue share counts once. What is not limited is not counted.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from volcanopy.api import core, devices, quantity
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, Status

PREFIX = "deviceclass/"
Counts = Mapping[str, int]
"""Numbers of devices by class."""


class DeviceQuota:
    """The limits of a session's queues, and what counts against them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        limits = {row: _limits(queue) for row, queue in enumerate(cluster.snapshot.queues.objects)}
        self._limits = {row: limit for row, limit in limits.items() if limit}
        self._claiming: Rows | None = None
        self._known: tuple[int, dict[int, set[str]]] = (NONE, {})

    def beyond(self, line: Iterable[int], task: TaskView, count: int) -> tuple[int, str, int, int, int] | None:
        """Which of these queues may not have what ``count`` more tasks like this one claim.

        The queue's row, the class, its limit, what the queue has of it and what is asked for; None if all may.
        """
        if not self._limits or task.shape not in self._cluster.snapshot.shapes.claiming:
            return None
        wanted = list(pod_claims.devices(task.pod))
        for row in line:
            limits = self._limits.get(row)
            if limits is None:
                continue
            charged = self._charged().get(row, set())
            held = _sum(self._of(key) for key in charged)
            shared = {one.key for one in wanted if not one.own and one.key not in charged}
            own = [self._of(one.key) for one in wanted if one.own]
            asked = _sum([*map(self._of, shared), *(own * count)])
            for name, limit in limits.items():
                if asked.get(name, 0) and held.get(name, 0) + asked[name] > limit:
                    return row, name, limit, held.get(name, 0), asked[name]
        return None

    def _charged(self) -> Mapping[int, set[str]]:
        """By queue with limits: the claims of the tasks that hold room in it or below it."""
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
                keys = {one.key for one in pod_claims.devices(table.pods[row])}
                for above in snapshot.queues.lines[queue].tolist() if queue != NONE else ():
                    if above in self._limits:
                        charged.setdefault(above, set()).update(keys)
            self._known = (ledger.changes, charged)
        return self._known[1]

    def _of(self, key: str) -> Counts:
        claim = self._cluster.snapshot.supplies.device_claims.get(key)
        return {} if claim is None else _asked(claim)


def _limits(queue: core.Queue | None) -> dict[str, int]:
    """The limits of a queue by class; zero is none."""
    if queue is None:
        return {}
    named = {name: text for name, text in queue.spec.capability.items() if name.startswith(PREFIX)}
    counts = {name.removeprefix(PREFIX): quantity.amount("pods", text) for name, text in named.items()}
    return {name: count for name, count in counts.items() if count > 0}


def _asked(claim: devices.ResourceClaim) -> Counts:
    """The devices of each class that a claim is for; of a request for all there are, those that it got."""
    found: dict[str, int] = {}
    allocation = claim.status.allocation
    for request in claim.spec.devices.requests:
        exact = request.exactly or (request.first_available[0] if request.first_available else request)
        if exact.admin_access:
            continue
        count = max(exact.count, 1)
        if exact.allocation_mode == "All" and allocation is not None:
            count = sum(one.request == request.name for one in allocation.devices.results)
        found[exact.device_class_name] = found.get(exact.device_class_name, 0) + count
    return found


def _sum(counts: Iterable[Counts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total
