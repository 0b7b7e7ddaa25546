"""loadvariation: balance the risk that varying loads exceed their node.

The formula is that of the plugin LoadVariationRiskBalancing of Kubernetes' scheduler-plugins (Trimaran): the risk of a
resource is the mean of its load and of the deviation of its load, and the riskiest resource decides.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes
from volcanopy_policies.measured_load import ExpectedLoad

_RESOURCES = ("cpu", "memory")


class LoadVariationArguments(Arguments):
    """How much the deviation counts."""

    margin: float = Field(1.0, ge=0, alias="safeVarianceMargin")
    """The deviation counts so many times."""
    sensitivity: float = Field(1.0, gt=0, alias="safeVarianceSensitivity")
    """Above 1, small deviations count more: the part of the node's resource is raised to the power of 1/sensitivity."""
    ratio: float = Field(1.0, ge=0)
    """A pod that the measurement does not show yet is expected to use so much of its request."""
    weight: int = Field(1, ge=0)
    """How much the plugin counts."""

    @property
    def measures_read(self) -> tuple[str, ...]:
        """Those of cpu and memory."""
        return _RESOURCES


class LoadVariation(Nodes, Plugin[LoadVariationArguments]):
    """Prefer nodes whose load of cpu and memory is low and varies little.

    The measures are ``cpu`` and ``memory`` with their deviation. A resource without both counts for nothing; nodes where
    both resources are unknown get the score 0.
    """

    name: ClassVar[str] = "loadvariation"
    arguments: ClassVar[type[Arguments]] = LoadVariationArguments

    def open(self) -> None:
        """Read the measures."""
        self._loads = [ExpectedLoad(self.cluster, name, self.args.ratio) for name in _RESOURCES]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """100 times what the risk of the riskiest resource leaves of 1."""
        risks = np.stack([self._risk(load, tasks, nodes) for load in self._loads])
        is_measured = ~np.isnan(risks)
        worst = np.where(is_measured, risks, 0.0).max(axis=0)
        return np.where(is_measured.any(axis=0), 100.0 * self.args.weight * (1.0 - worst), 0.0)

    def _risk(self, load: ExpectedLoad, tasks: TasksView, nodes: NodesView) -> Floats:
        mean = np.clip(load.percent(tasks, nodes) / 100.0, 0.0, 1.0)
        deviation = np.clip(load.series.deviation[nodes.rows] / 100.0, 0.0, 1.0) ** (1.0 / self.args.sensitivity)
        risk: Floats = (mean + np.minimum(self.args.margin * deviation, 1.0)) / 2.0
        return risk
