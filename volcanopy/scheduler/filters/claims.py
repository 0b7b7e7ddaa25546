"""Everything about claims that predicates ask in a session: volumes and devices together, for the few pods that have some."""

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from volcanopy.scheduler.filters.assumed_claims import AssumedClaims, Entry
from volcanopy.scheduler.filters.devices.device_claims import Devices
from volcanopy.scheduler.filters.volumes.volume_binding import Rules, Volumes
from volcanopy.scheduler.framework.plugin import NodeRejection, Scope
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_claims
from volcanopy.scheduler.model.plan import Claims
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import Status


class Claimed:
    """The claims of one session."""

    def __init__(self, cluster: Cluster, rules: Rules, devices: bool, patience: int) -> None:
        """``devices``: whether claims on devices are looked at; ``patience``: seconds that volumes are waited for."""
        self._cluster, self._rules = cluster, rules
        self._with_devices, self._patience = devices, patience
        self.shapes = cluster.snapshot.shapes.claiming
        """The shapes of tasks with claims."""

    @cached_property
    def _books(self) -> AssumedClaims:
        return AssumedClaims(self._cluster, self._decide)

    @cached_property
    def _volumes(self) -> Volumes:
        return Volumes(self._cluster, self._books, self._rules)

    @cached_property
    def _devices(self) -> Devices | None:
        return Devices(self._cluster, self._books) if self._with_devices else None

    def mixed(self) -> bool:
        """Whether tasks of one shape may differ in their claims: pods that wait have claims made for each of them."""
        if not self.shapes:
            return False
        snapshot = self._cluster.snapshot
        specs = snapshot.shapes.specs
        own = {number for number in self.shapes if any(one.ephemeral is not None for one in specs[number].volumes)}
        own |= {
            number
            for number in self.shapes
            if any(one.resource_claim_template_name for one in specs[number].resource_claims)
        }
        tasks = snapshot.tasks
        return bool(own) and bool(np.isin(tasks.shape[tasks.status == Status.PENDING], list(own)).any())

    def cache_key(self, task: TaskView) -> Hashable:
        """What beside its shape tells a task's claims from those of another."""
        if task.shape not in self.shapes:
            return None
        known = self._volumes.cache_key(task)
        more = self._devices.cache_key(task) if self._devices is not None else None
        return None if known is None and more is None else (known, more)

    def scope(self, task: TaskView) -> Scope:
        """How far a placement of another such task reaches; a task with claims is never placed as one of a run."""
        scope = max(self._volumes.scope(task), Scope.NODE if self._has_own(task) else Scope.COLUMNS)
        return scope if self._devices is None else max(scope, self._devices.scope(task))

    @staticmethod
    def _has_own(task: TaskView) -> bool:
        return any(one.own for one in pod_claims.volumes(task.pod)) or any(
            one.own for one in pod_claims.devices(task.pod)
        )

    def refusals(self, task: TaskView, rows: Rows) -> list[NodeRejection]:
        """Why the task cannot be on some of these nodes."""
        result = list(self._volumes.refusals(task, rows))
        if self._devices is not None:
            result += self._devices.refusals(task, rows)
        return result

    def chosen(self, task: TaskView) -> Claims | None:
        """What must be settled before the task is bound to the node that it has in this session."""
        entry = self._books.of(task.row)
        if entry is None or not (entry.volumes or entry.devices):
            return None
        return Claims(entry.volumes, tuple(choice for choice, _, _ in entry.devices), self._patience)

    def _decide(self, row: int, node: int) -> Entry:
        task = self._cluster.task(row)
        devices = self._devices.choose(task, node) if self._devices is not None else ()
        return Entry(node, self._volumes.choose(task, node), devices)
