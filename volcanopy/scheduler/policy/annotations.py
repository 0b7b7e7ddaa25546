"""Pod annotations that node hooks depend on.

Annotations are not part of a task's shape: tasks of one role may have different values. A plugin that reads an annotation
takes its ``cache_key`` and ``scope`` from here, so that tasks with other values have results of their own.
"""

from collections.abc import Callable, Hashable
from functools import cached_property

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import Scope

Reader = Callable[[core.Pod], Hashable]
"""Reads the value from a pod; equal for pods with equal values, None without a value."""


class Notes:
    """The values of one kind of annotation on the pods of one session."""

    def __init__(self, cluster: Cluster, read: Reader) -> None:
        self._cluster = cluster
        self._read = read

    def of(self, task: TaskView) -> Hashable:
        """Return the value of the task's pod."""
        return self._read(task.pod)

    def cache_key(self, task: TaskView) -> Hashable:
        """Return the task's value, and whether its role has several; None if no pod of the role has one."""
        mixed, value = self._is_mixed(task), self._read(task.pod)
        return (value, mixed) if mixed or value is not None else None

    def scope(self, task: TaskView, otherwise: Scope = Scope.COLUMNS) -> Scope:
        """Return at least NODE for tasks of roles with several values, so that they are not placed as one run."""
        return max(otherwise, Scope.NODE) if self._is_mixed(task) else otherwise

    def _is_mixed(self, task: TaskView) -> bool:
        tasks = self._cluster.snapshot.tasks
        return bool(self._mixed) and (int(tasks.job[task.row]), task.role) in self._mixed

    @cached_property
    def _mixed(self) -> frozenset[tuple[int, int]]:
        """The roles, each with its job, whose pending tasks have different values."""
        tasks = self._cluster.snapshot.tasks
        rows = np.flatnonzero(tasks.status == Status.PENDING)
        value = [self._read(pod) for pod in tasks.pods[rows].tolist()]
        if all(value is None for value in value):
            return frozenset()
        first: dict[tuple[int, int], Hashable] = {}
        places = zip(tasks.job[rows].tolist(), tasks.role[rows].tolist(), strict=True)
        return frozenset(
            place for place, value in zip(places, value, strict=True) if first.setdefault(place, value) != value
        )
