"""The load of cpu and memory that nodes are expected to have: what was measured, and what later pods bring."""

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster, NodesView, TasksView
from volcanopy.scheduler.model.measures import Series
from volcanopy.scheduler.model.resources import Floats, Ints
from volcanopy.scheduler.nodes.scores.pod_load import shown


class ExpectedLoad:
    """A measure in percent of a resource, and the requests that it does not show yet."""

    def __init__(self, cluster: Cluster, resource: str, ratio: float) -> None:
        """A pod brings ``ratio`` times its request until it shows (:func:`shown`)."""
        snapshot, tasks = cluster.snapshot, cluster.snapshot.tasks
        self.series: Series = snapshot.measure(resource)
        self._resource, self._ratio = resource, ratio
        rows = np.flatnonzero(shown(snapshot, self.series.at))
        request = snapshot.shapes.request[resource][tasks.shape[rows]]
        self._shown: Ints = np.bincount(tasks.node[rows], weights=request, minlength=len(snapshot.nodes)).astype(
            np.int64
        )

    def percent(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """(S, N): the mean with each task on each node, 0 to any number; NaN where it is unknown."""
        new = np.maximum(nodes.used[self._resource] - self._shown[nodes.rows], 0) + tasks.request[self._resource]
        room = np.maximum(nodes.allocatable[self._resource], 1)
        load: Floats = self.series.mean[nodes.rows] + 100.0 * self._ratio * new / room
        return load

    def part(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """(S, N): the part of the percentage that each task brings."""
        room = np.maximum(nodes.allocatable[self._resource], 1)
        part: Floats = 100.0 * self._ratio * tasks.request[self._resource] / room
        return part
