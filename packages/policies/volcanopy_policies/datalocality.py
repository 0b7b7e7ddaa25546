"""datalocality: prefer nodes that have the data of the pod in their cache.

A pod names its data sets with their sizes, and the program that caches them on nodes publishes as a measure which part is there.
The idea is that of caches such as Fluid and Quiver: pods run where their data is.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api import names, quantity
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes


class DataLocalityArguments(Arguments):
    """The names of measures, and the weight."""

    prefix: str = "cached."
    """The measure of a data set has this prefix and the name of the data set."""
    weight: int = Field(1, ge=0)
    """How much the plugin counts."""


class DataLocality(Nodes, Plugin[DataLocalityArguments]):
    """Prefer nodes with the data of the pod, by size: the annotation ``volcanopy.io/datasets: imagenet=150Gi,labels=1Gi``.

    The measure ``cached.imagenet`` of a node is the part of the data set that it has, from 0 to 1. Nodes where it is unknown
    count as without it. Entries of the annotation that are no name and quantity are ignored.
    """

    name: ClassVar[str] = "datalocality"
    arguments: ClassVar[type[Arguments]] = DataLocalityArguments

    def open(self) -> None:
        """Keep the scores by annotation."""
        self._scores: dict[str, Floats] = {}
        self._datasets = self.task_value(lambda task: task.pod.metadata.annotations.get(names.DATASETS, ""))

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """100 times the part of the pod's data that each node has."""
        return tasks.each(lambda task: self._of_cluster(self._datasets(task))[nodes.rows])

    def _of_cluster(self, text: str) -> Floats:
        if text not in self._scores:
            sizes = _sizes(text)
            there = np.zeros(len(self.cluster.snapshot.nodes))
            for name, size in sizes.items():
                part = self.cluster.snapshot.measure(self.args.prefix + name).mean
                there += size * np.clip(np.nan_to_num(part), 0.0, 1.0)
            self._scores[text] = 100.0 * self.args.weight * there / max(sum(sizes.values()), 1)
        return self._scores[text]


def _sizes(text: str) -> dict[str, int]:
    sizes = {}
    for entry in text.split(","):
        name, _, size = entry.strip().partition("=")
        try:
            sizes[name] = quantity.amount("memory", size)
        except quantity.QuantityError:
            continue
    return sizes
