"""binpack: fill nodes one after the other."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from volcanopy.scheduler.framework.plugin import Arguments, Plugin, Scope, ScoreOf, by_shape
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Mask

_PREFIX = "binpack.resources."


class BinpackArguments(Arguments):
    """Weights: of the plugin, of cpu and memory, and of further resources by name."""

    weight: int = Field(1, alias="binpack.weight", ge=0)
    """How much the plugin counts."""
    cpu: int = Field(1, alias="binpack.cpu", ge=0)
    """How much cpu counts in it."""
    memory: int = Field(1, alias="binpack.memory", ge=0)
    """How much memory counts in it."""
    resources: dict[str, int] = Field(default_factory=dict, alias="binpack.resources")
    """Further resources that count, separated by commas; `binpack.resources.<name>` weighs one."""

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


@dataclass(frozen=True)
class _Asked:
    """What is weighed for one shape: position on the axis, request and weight of each resource; and what scales the sum."""

    weighed: tuple[tuple[int, int, int], ...]
    scale: float


class Binpack(Plugin[BinpackArguments]):
    """Prefer the fullest node that still fits."""

    name: ClassVar[str] = "binpack"
    arguments: ClassVar[type[Arguments]] = BinpackArguments
    likeness = by_shape

    def open(self) -> None:
        """Lay the weights along the axis."""
        args = self.args
        weights = {"cpu": args.cpu, "memory": args.memory, **args.resources}
        self._weights = self.cluster.axis.vector(weights)
        self._asked: dict[int, _Asked] = {}
        self._everywhere: dict[int, bool] = {}

    def scope(self, task: TaskView) -> Scope:
        """The score is of the node's own columns."""
        return Scope.COLUMNS

    def node_order(self, task: TaskView, nodes: NodesView) -> Floats:
        """The weighted mean of how full the node is with the task on it, times 100; 0 where the task does not fit."""
        asked = self._of(task)
        if not self.args.weight or not asked.weighed:
            return np.zeros(len(nodes), dtype=np.float64)
        used, allocatable = nodes.used.values, nodes.allocatable.values
        scores: Floats | None = None
        beyond: Mask | None = None
        for position, units, weight in asked.weighed:  # a matrix product need not add in a fixed order
            after, room = used[position] + units, allocatable[position]
            over = after > room
            if self._is_everywhere(position):
                full = after / room
            else:
                there = room > 0
                full = np.divide(after, room, out=np.zeros(len(nodes), dtype=np.float64), where=there)
                over &= there
            if weight != 1:
                full *= weight
            scores = full if scores is None else np.add(scores, full, out=scores)
            beyond = over if beyond is None else np.logical_or(beyond, over, out=beyond)
        assert scores is not None
        assert beyond is not None
        scores *= asked.scale
        scores[beyond] = 0.0
        return scores

    def score_of_many(self, tasks: Sequence[TaskView]) -> ScoreOf | None:
        """Column by column over the tasks, where every node has all that is weighed."""
        asked = [self._of(task) for task in tasks]
        places = sorted({place for one in asked for place, _, _ in one.weighed})
        if not self.args.weight or not places or not all(map(self._is_everywhere, places)):
            return None
        by_place = [{place: (units, weight) for place, units, weight in one.weighed} for one in asked]
        units = np.array([[float(one.get(place, (0, 0))[0]) for one in by_place] for place in places])
        weight = np.array([[float(one.get(place, (0, 0))[1]) for one in by_place] for place in places])
        weighed = np.array([[place in one for one in by_place] for place in places])
        most, is_plain = units.max(axis=1).tolist(), bool((weight == 1).all())
        scale = np.array([one.scale for one in asked])
        adjacent = places[-1] - places[0] == len(places) - 1
        rows = slice(places[0], places[-1] + 1) if adjacent else np.array(places)  # a slice is quicker
        table, allocatable = self.cluster.ledger.used, self.cluster.snapshot.nodes.allocatable.values[rows]

        def score(node: int) -> Floats:
            used, room = table[rows, node], allocatable[:, node]
            tight = any(map(operator.gt, most, (room - used).tolist()))
            used, room = used[:, None], room[:, None]
            after = units + used
            over = after > room if tight else None
            after /= room
            if not is_plain:
                after *= weight
            total: Floats = after[0]
            for more in after[1:]:
                total += more
            total *= scale
            if over is not None:
                total[(over & weighed).any(axis=0)] = 0.0
            return total

        return score

    def scores_by_columns(self, tasks: Sequence[TaskView]) -> bool:
        """They say all."""
        return True

    def _of(self, task: TaskView) -> _Asked:
        shape = task.shape
        known = self._asked.get(shape)
        if known is None:
            request = task.request.values
            places = np.flatnonzero((request > 0) & (self._weights > 0)).tolist()
            total = float(self._weights[places].sum())
            known = self._asked[shape] = _Asked(
                weighed=tuple((place, int(request[place]), int(self._weights[place])) for place in places),
                scale=100.0 * self.args.weight / total if places else 0.0,
            )
        return known

    def _is_everywhere(self, position: int) -> bool:
        """Whether every node has some of a resource: then nothing is divided by zero."""
        known = self._everywhere.get(position)
        if known is None:
            allocatable = self.cluster.snapshot.nodes.allocatable.values
            known = self._everywhere[position] = bool((allocatable[position] > 0).all())
        return known
