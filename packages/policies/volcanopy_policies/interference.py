"""interference: keep pods away from pods that slow them down.

Pods belong to classes, and a matrix gives how much longer a pod of one class runs beside a pod of another. The idea is that of
Paragon and Quasar: the slowdown of pairs of classes is known, and the placement with the least added slowdown is best.
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api import core
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

SLOW = "node(s) had pods that slow this pod down by more than the limit"


class InterferenceArguments(Arguments):
    """The classes and their slowdowns."""

    label: str = "volcanopy.io/workload-class"
    """The label of pods that names their class."""
    slowdown: dict[str, dict[str, Annotated[float, Field(ge=0)]]]
    """By class: the percentage by which a pod of it runs longer beside one pod of each other class; absent is 0."""
    most: float = Field(0, ge=0)
    """Nodes on which the pod would run longer by a larger percentage do not take it; 0 for no limit."""
    weight: int = Field(1, ge=0)
    """How much the plugin counts."""


class Interference(Nodes, Plugin[InterferenceArguments]):
    """Prefer nodes where the pod is slowed down least by the pods there, and slows them down least.

    Pods without a class, or of a class that the matrix does not name, neither slow down nor are slowed down.
    """

    name: ClassVar[str] = "interference"
    arguments: ClassVar[type[Arguments]] = InterferenceArguments

    def open(self) -> None:
        """Make the (C, C) matrix and count the pods of each class on each node; class C is all others."""
        slowdown = self.args.slowdown
        classes = sorted(slowdown.keys() | {neighbour for row in slowdown.values() for neighbour in row})
        self._number = {name: number for number, name in enumerate(classes)}
        size = len(classes) + 1
        self._matrix: Floats = np.zeros((size, size))
        for name, row in slowdown.items():
            for neighbour, percent in row.items():
                self._matrix[self._number[name], self._number[neighbour]] = percent
        pods = self.cluster.snapshot.tasks.pods.tolist()
        self._class = np.fromiter(map(self._class_of, pods), np.intp, len(pods))
        self._class_of_task = self.task_value(lambda task: int(self._class[task.row]))
        self._node = np.full(len(pods), NONE, dtype=np.intp)
        self._counts: Floats = np.zeros((size, len(self.cluster.snapshot.nodes)))
        self._seen = 0
        self._renew(np.arange(len(pods)))

    def _class_of(self, pod: core.Pod | None) -> int:
        label = "" if pod is None else pod.metadata.labels.get(self.args.label, "")
        return self._number.get(label, len(self._number))

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Nodes where the pod would run too long, if there is a limit."""
        if not self.args.most:
            return []
        return [NodeRejection(SLOW, self._slowed(task)[nodes.rows] > self.args.most)]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """100 divided by 1 and the parts by which the pod and the pods there run longer."""
        return tasks.each(lambda task: 100.0 * self.args.weight / (1.0 + self._total(task)[nodes.rows] / 100.0))

    def _slowed(self, task: TaskView) -> Floats:
        """(N,): the percentage by which the pod runs longer on each node."""
        self._renew(self.cluster.ledger.moved_since(self._seen))
        slowed: Floats = self._matrix[self._class_of_task(task)] @ self._counts
        return slowed

    def _total(self, task: TaskView) -> Floats:
        """(N,): that, and the percentages by which the pods there run longer beside it."""
        total: Floats = self._slowed(task) + self._matrix[:, self._class_of_task(task)] @ self._counts
        return total

    def _renew(self, moved: Rows) -> None:
        """Count pods at the nodes where they are now."""
        ledger = self.cluster.ledger
        self._seen = ledger.moves
        rows = np.unique(moved)
        where = np.where(ON_NODE[ledger.status[rows]], ledger.node[rows], NONE)
        for nodes, sign in ((self._node[rows], -1.0), (where, 1.0)):
            there = nodes != NONE
            np.add.at(self._counts, (self._class[rows][there], nodes[there]), sign)
        self._node[rows] = where
