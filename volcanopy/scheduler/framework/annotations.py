"""What pods say in annotations, where it matters to hooks over nodes.

Annotations are no part of a task's shape: equal tasks of one role may say different things. A plugin that reads one
takes its answers to ``likeness`` and ``scope`` from here, and is then asked apart about those who say something else.
"""

from collections.abc import Callable, Hashable
from functools import cached_property

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.framework.plugin import Scope
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.task_status import Status

Reader = Callable[[core.Pod], Hashable]
"""Reads what a pod says; equal for pods that say the same, None for those that say nothing."""


class Notes:
    """What the pods of one session say about one matter."""

    def __init__(self, cluster: Cluster, read: Reader) -> None:
        self._cluster = cluster
        self._read = read

    def of(self, task: TaskView) -> Hashable:
        """What the task's pod says."""
        return self._read(task.pod)

    def cache_key(self, task: TaskView) -> Hashable:
        """What the task says, and whether the others of its role say the same; None if none of them says anything."""
        mixed, said = self._is_mixed(task), self._read(task.pod)
        return (said, mixed) if mixed or said is not None else None

    def scope(self, task: TaskView, otherwise: Scope = Scope.COLUMNS) -> Scope:
        """At least NODE for tasks whose like say something else, so that they are not placed as one run."""
        return max(otherwise, Scope.NODE) if self._is_mixed(task) else otherwise

    def _is_mixed(self, task: TaskView) -> bool:
        tasks = self._cluster.snapshot.tasks
        return bool(self._mixed) and (int(tasks.job[task.row]), task.role) in self._mixed

    @cached_property
    def _mixed(self) -> frozenset[tuple[int, int]]:
        """The roles, each with its job, of which pending tasks say different things."""
        tasks = self._cluster.snapshot.tasks
        rows = np.flatnonzero(tasks.status == Status.PENDING)
        said = [self._read(pod) for pod in tasks.pods[rows].tolist()]
        if all(one is None for one in said):
            return frozenset()
        first: dict[tuple[int, int], Hashable] = {}
        places = zip(tasks.job[rows].tolist(), tasks.role[rows].tolist(), strict=True)
        return frozenset(place for place, one in zip(places, said, strict=True) if first.setdefault(place, one) != one)
