"""cheapest: the cheapest node that will do.

``pip install`` this package where the scheduler runs, and name the plugin in the configuration::

    tiers:
    - plugins:
      - name: cheapest
        arguments:
          cheapest.weight: 5
          cheapest.at-most: 2.50

What a node costs in an hour its label ``example.com/price-per-hour`` says.
"""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.framework.plugin import Arguments, NodeRejection, Plugin, Scope
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats

PRICE = "example.com/price-per-hour"


class CheapestArguments(Arguments):
    """What the configuration file may say: anything else is refused when it is read."""

    weight: int = Field(1, ge=0, alias="cheapest.weight")
    at_most: float = Field(float("inf"), gt=0, alias="cheapest.at-most")


class Cheapest(Plugin[CheapestArguments]):
    """Prefer the cheapest node that still fits, and take none that costs more than is allowed."""

    name: ClassVar[str] = "cheapest"
    arguments: ClassVar[type[Arguments]] = CheapestArguments

    def open(self) -> None:
        """Read the prices, one for each node; who has no price costs nothing."""
        prices = [_number(node.metadata.labels.get(PRICE, "")) for node in self.cluster.traits.objects]
        self._price: Floats = np.array(prices, dtype=np.float64)

    def scope(self, task: TaskView) -> Scope:
        """Prices do not change with what is placed: a thousand equal tasks are one question."""
        return Scope.COLUMNS

    def likeness(self, task: TaskView) -> None:
        """Nothing about the task matters."""

    def predicate(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Too dear is too dear, whoever leaves there."""
        return [NodeRejection("node(s) cost too much", self._price[nodes.rows] > self.args.at_most, final=True)]

    def node_order(self, task: TaskView, nodes: NodesView) -> Floats:
        """100 for what costs nothing, 0 for the dearest."""
        dearest = max(float(self._price.max(initial=0.0)), 1e-9)
        scores: Floats = self.args.weight * 100.0 * (1.0 - self._price[nodes.rows] / dearest)
        return scores


def _number(text: str) -> float:
    try:
        return max(float(text), 0.0)
    except ValueError:
        return 0.0
