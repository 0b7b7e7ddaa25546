"""cheapest: prefer the cheapest feasible node.

``pip install`` this package where the scheduler runs, and name the plugin in the configuration::

    tiers:
    - plugins:
      - name: cheapest
        arguments:
          cheapest.weight: 5
          cheapest.at-most: 2.50

The label ``example.com/price-per-hour`` of a node is its price.
"""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.plugin import Arguments, Floats, NodeRejection, Nodes, NodesView, Plugin, TasksView, TaskView

PRICE = "example.com/price-per-hour"


class CheapestArguments(Arguments):
    """The arguments in the configuration file; any other key is an error."""

    weight: int = Field(1, ge=0, alias="cheapest.weight")
    at_most: float = Field(float("inf"), gt=0, alias="cheapest.at-most")


class Cheapest(Nodes, Plugin[CheapestArguments]):
    """Prefer cheap nodes, and reject nodes above a maximum price."""

    name: ClassVar[str] = "cheapest"
    arguments: ClassVar[type[Arguments]] = CheapestArguments

    def open(self) -> None:
        """Read the price of each node; a node without a price costs nothing."""
        prices = [_number(node.metadata.labels.get(PRICE, "")) for node in self.cluster.traits.objects]
        self._price: Floats = np.array(prices, dtype=np.float64)

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Nodes above the maximum price."""
        return [
            NodeRejection("node(s) exceeded the maximum price", self._price[nodes.rows] > self.args.at_most, final=True)
        ]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """100 for a node that costs nothing, 0 for the most expensive."""
        highest = max(float(self._price.max(initial=0.0)), 1e-9)
        scores: Floats = self.args.weight * 100.0 * (1.0 - self._price[nodes.rows] / highest)
        return scores


def _number(text: str) -> float:
    try:
        return max(float(text), 0.0)
    except ValueError:
        return 0.0
