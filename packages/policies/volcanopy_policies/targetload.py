"""targetload: fill nodes up to a measured load of cpu, then spread.

The formula is that of the plugin TargetLoadPacking of Kubernetes' scheduler-plugins (Trimaran). The score rises with the
expected load to 100 at the target, falls beyond it, and is 0 where the cpus are busy.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes
from volcanopy_policies.measured_load import ExpectedLoad


class TargetLoadArguments(Arguments):
    """The target, and what a pod is expected to use."""

    target: float = Field(40, gt=0, lt=100)
    """The load of cpu in percent up to which nodes are filled."""
    ratio: float = Field(1.0, ge=0)
    """A pod that the measurement does not show yet is expected to use so much of its request."""
    weight: int = Field(1, ge=0)
    """How much the plugin counts."""

    @property
    def measures_read(self) -> tuple[str, ...]:
        """That of cpu."""
        return ("cpu",)


class TargetLoad(Nodes, Plugin[TargetLoadArguments]):
    """Fill nodes up to a target of measured cpu load, and spread over nodes that are above it.

    The measure is ``cpu``. Nodes where it is unknown get the score 0.
    """

    name: ClassVar[str] = "targetload"
    arguments: ClassVar[type[Arguments]] = TargetLoadArguments

    def open(self) -> None:
        """Read the measure."""
        self._cpu = ExpectedLoad(self.cluster, "cpu", self.args.ratio)

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """From the target's percentage at no load to 100 at the target, then down to 0."""
        load, target = self._cpu.percent(tasks, nodes), self.args.target
        below = target + (100.0 - target) * load / target
        above = target * (100.0 - load) / (100.0 - target)
        score = np.where(load <= target, below, np.maximum(above, 0.0))
        return np.where(np.isnan(load), 0.0, self.args.weight * score)
