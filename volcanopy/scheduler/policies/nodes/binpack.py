"""binpack: prefer the node that is fullest with the task on it."""

from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.nodes.scores.resource_weights import Strategies, gathered, weighted_mean
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes


class BinpackArguments(Arguments):
    """Weights: of the plugin, of cpu and memory, and of further resources by name."""

    weight: int = Field(1, alias="binpack.weight", ge=0)
    """The weight of the plugin's score."""
    cpu: int = Field(1, alias="binpack.cpu", ge=0)
    """The weight of cpu in it."""
    memory: int = Field(1, alias="binpack.memory", ge=0)
    """The weight of memory in it."""
    resources: dict[str, int] = Field(default_factory=dict, alias="binpack.resources")
    """Further resources, separated by commas; `binpack.resources.<name>` is the weight of one."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: Any) -> Any:
        return gathered(values, "binpack.resources")


class Binpack(Nodes, Plugin[BinpackArguments]):
    """Fill nodes one after the other."""

    name: ClassVar[str] = "binpack"
    arguments: ClassVar[type[Arguments]] = BinpackArguments

    def open(self) -> None:
        """Order the weights as the resources are ordered."""
        weights = {"cpu": self.args.cpu, "memory": self.args.memory, **self.args.resources}
        self._strategies = Strategies.of(self.cluster.axis, weights, best=100.0 * self.args.weight)

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The allocated fraction of the node with the task on it, weighted over resources; 0 where the task does not fit."""
        if self.cluster.packs_resources():
            return np.zeros((len(tasks), 1))
        return weighted_mean(tasks, nodes, self._strategies)
