"""binpack: fill nodes one after the other."""

from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from volcanopy.scheduler.cluster import NodesView
from volcanopy.scheduler.plugin import Arguments, Plugin, Scope
from volcanopy.scheduler.resources import Floats
from volcanopy.scheduler.views import TaskView

_PREFIX = "binpack.resources."


class BinpackArguments(Arguments):
    """Weights: of the plugin, of cpu and memory, and of further resources by name."""

    weight: int = Field(1, alias="binpack.weight", ge=0)
    cpu: int = Field(1, alias="binpack.cpu", ge=0)
    memory: int = Field(1, alias="binpack.memory", ge=0)
    resources: dict[str, int] = Field(default_factory=dict, alias="binpack.resources")

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, said: Any) -> Any:
        """``binpack.resources`` lists names; ``binpack.resources.<name>`` gives one a weight other than 1."""
        if not isinstance(said, dict) or isinstance(said.get("binpack.resources"), dict):
            return said
        listed = said.get("binpack.resources", "")
        if not isinstance(listed, str):
            raise ValueError("binpack.resources: must be a list of resource names separated by commas")
        names = [name.strip() for name in listed.split(",") if name.strip()]
        rest = {key: value for key, value in said.items() if not key.startswith("binpack.resources")}
        weights: dict[str, Any] = dict.fromkeys(names, 1)
        for key, value in said.items():
            if key.startswith(_PREFIX):
                weights[key.removeprefix(_PREFIX)] = value
        return {**rest, "binpack.resources": weights}


class Binpack(Plugin[BinpackArguments]):
    """Prefer the fullest node that still fits."""

    name: ClassVar[str] = "binpack"
    arguments: ClassVar[type[Arguments]] = BinpackArguments

    def open(self) -> None:
        """Lay the weights along the axis."""
        args = self.args
        weights = {"cpu": args.cpu, "memory": args.memory, **args.resources}
        self._weights = self.cluster.axis.vector(weights)

    def scope(self, task: TaskView) -> Scope:
        """The score is of the node's own columns."""
        return Scope.COLUMNS

    def likeness(self, task: TaskView) -> None:
        """Nothing but the request matters."""

    def node_order(self, task: TaskView, nodes: NodesView) -> Floats:
        """The weighted mean of how full the node is with the task on it, times 100; 0 where the task does not fit."""
        request = task.request.values
        weighed = np.flatnonzero((request > 0) & (self._weights > 0))
        if not self.args.weight or not len(weighed):
            return np.zeros(len(nodes), dtype=np.float64)
        weights = self._weights[weighed]
        after = nodes.used.values[weighed] + request[weighed, None]
        room = nodes.allocatable.values[weighed]
        full = np.divide(after, room, out=np.zeros(after.shape, dtype=np.float64), where=room > 0)
        scores: Floats = np.zeros(len(nodes), dtype=np.float64)
        for weight, column in zip(
            weights.tolist(), full, strict=True
        ):  # a matrix product need not add in a fixed order
            scores += weight * column
        scores *= 100.0 * self.args.weight / float(weights.sum())
        scores[((after > room) & (room > 0)).any(axis=0)] = 0.0
        return scores
