"""Pod annotations that node hooks depend on.

Annotations are not part of a task's shape: tasks of one role may have different values. A plugin that reads an annotation
takes its ``cache_key`` from here, so that tasks with other values have results of their own.
"""

from collections.abc import Callable, Hashable

from volcanopy.api import core
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView

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
        """Return the task's value; None without one."""
        return self._read(task.pod)
