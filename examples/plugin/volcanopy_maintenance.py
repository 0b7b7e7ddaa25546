"""maintenance: keep pods off nodes whose maintenance begins before the pods end.

The annotation ``example.com/maintenance`` of a node is the time when its maintenance begins: ``2030-01-02T06:00:00Z``. A pod
without a limit on its run time (``activeDeadlineSeconds``) is taken to run for ``maintenance.assumed-hours``.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.plugin import Arguments, Floats, NodeRejection, Nodes, NodesView, Plugin, TaskView

BEGIN = "example.com/maintenance"


class MaintenanceArguments(Arguments):
    """The arguments in the configuration file."""

    assumed_hours: float = Field(24.0, gt=0, alias="maintenance.assumed-hours")


class Maintenance(Nodes, Plugin[MaintenanceArguments]):
    """Reject nodes on which a pod would still run when their maintenance begins."""

    name: ClassVar[str] = "maintenance"
    arguments: ClassVar[type[Arguments]] = MaintenanceArguments

    def open(self) -> None:
        """Read the times of the nodes, and which limit of a pod answers depend on."""
        begins = [_seconds(node.metadata.annotations.get(BEGIN, "")) for node in self.cluster.traits.objects]
        self._left: Floats = np.array(begins, dtype=np.float64) - self.cluster.now.timestamp()
        self._run_time = self.task_value(lambda task: float(self.cluster.snapshot.tasks.runtime[task.row]))

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Nodes whose maintenance begins before the end of the pod."""
        run_time = self._run_time(task) or 3600 * self.args.assumed_hours
        return [NodeRejection("node(s) had maintenance soon", self._left[nodes.rows] < run_time, final=True)]


def _seconds(text: str) -> float:
    """Return the time in seconds, infinite where there is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return float("inf")
