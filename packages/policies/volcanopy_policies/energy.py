"""energy: place pods where they raise the power of the cluster least.

The power of a node is ``idle + k1 * exp(k2 * load)`` watts, the model of the plugin Peaks of Kubernetes' scheduler-plugins. A
node without pods could be off, so its first pod costs the idle power too.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes
from volcanopy_policies.measured_load import ExpectedLoad


class PowerModel(Arguments):
    """Power in watts by the load of cpu in percent: ``idle + k1 * exp(k2 * load)``."""

    idle: float = Field(ge=0)
    k1: float = Field(ge=0)
    k2: float = Field(ge=0, le=1)


class EnergyArguments(Arguments):
    """The power models of the nodes."""

    models: dict[str, PowerModel]
    """By value of the label: `idle` in watts, `k1` and `k2` of `idle + k1 * exp(k2 * load in percent)`."""
    label: str = "node.kubernetes.io/instance-type"
    """The label of nodes that names their model."""
    ratio: float = Field(1.0, ge=0)
    """A pod that the measurement does not show yet is expected to use so much of its request."""
    weight: int = Field(1, ge=0)
    """How much the plugin counts."""

    @property
    def measures_read(self) -> tuple[str, ...]:
        """That of cpu."""
        return ("cpu",)


class Energy(Nodes, Plugin[EnergyArguments]):
    """Prefer nodes on which the pod raises the power least, by a model of power for each kind of node.

    The measure is ``cpu``. Nodes where it is unknown, and nodes without a model, get the score 0.
    """

    name: ClassVar[str] = "energy"
    arguments: ClassVar[type[Arguments]] = EnergyArguments

    def open(self) -> None:
        """Read the measure and the model of each node."""
        self._cpu = ExpectedLoad(self.cluster, "cpu", self.args.ratio)
        codes, numbers = self.cluster.traits.label(self.args.label)
        unknown = (np.nan, np.nan, np.nan)
        models = [unknown] * (len(numbers) + 1)  # the last entry is for nodes without the label
        for value, number in numbers.items():
            model = self.args.models.get(value)
            models[number] = unknown if model is None else (model.idle, model.k1, model.k2)
        self._idle, self._k1, self._k2 = np.array(models)[codes].T
        watts = [model.idle + model.k1 * np.exp(100.0 * model.k2) for model in self.args.models.values()]
        self._most = max(watts, default=0.0) or 1.0

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """100 times what the added power leaves of the largest power of a node."""
        rows = nodes.rows
        load = self._cpu.percent(tasks, nodes)
        before, after = np.minimum(load - self._cpu.part(tasks, nodes), 100.0), np.minimum(load, 100.0)
        rise = self._k1[rows] * (np.exp(self._k2[rows] * after) - np.exp(self._k2[rows] * before))
        rise += np.where(nodes.used["pods"] > 0, 0.0, self._idle[rows])
        score: Floats = np.nan_to_num(100.0 * self.args.weight * (1.0 - rise / self._most))
        return score
