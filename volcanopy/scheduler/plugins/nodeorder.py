"""nodeorder: a task goes where Kubernetes would like it best.

The score is the weighted sum of kube-scheduler's own scores, each from 0 to 100. Those that are relative (the best of
the asked nodes gets 100) are so among the nodes that are asked about; where all nodes are alike in them they are one
number, and couple nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.filters.pods.interpod_affinity import InterPod
from volcanopy.scheduler.filters.pods.pod_counts import Census
from volcanopy.scheduler.filters.pods.topology_spread import Spreading
from volcanopy.scheduler.filters.scores import image_locality as images
from volcanopy.scheduler.filters.scores.resource_fit import Demand, Fullness, demand, plus
from volcanopy.scheduler.filters.traits import node_affinity as labels
from volcanopy.scheduler.filters.traits import taints
from volcanopy.scheduler.framework.plugin import Arguments, Plugin, Scope, ScoreOf, by_shape
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Rows

Part = Callable[[Rows], Floats]


class NodeOrderArguments(Arguments):
    """The weight of each score; 0 leaves it out."""

    least_requested: int = Field(default=1, alias="leastrequested.weight")
    """For nodes of which little is requested."""
    most_requested: int = Field(default=0, alias="mostrequested.weight")
    """For nodes of which much is requested."""
    node_affinity: int = Field(default=2, alias="nodeaffinity.weight")
    """For nodes that the pod's preferred node affinity names."""
    pod_affinity: int = Field(default=2, alias="podaffinity.weight")
    """For nodes near the pods that the pod's preferences name, and away from those that it avoids."""
    balanced_resource: int = Field(default=1, alias="balancedresource.weight")
    """For nodes whose cpu and memory would be used to equal parts."""
    taint_toleration: int = Field(default=3, alias="tainttoleration.weight")
    """For nodes without taints that the pod would rather avoid."""
    image_locality: int = Field(default=1, alias="imagelocality.weight")
    """For nodes that have the pod's images."""
    pod_topology_spread: int = Field(default=2, alias="podtopologyspread.weight")
    """For nodes where the pods would be spread more evenly."""


@dataclass(frozen=True, eq=False)
class _Asked:
    """What makes up the score of one shape beside how full nodes are."""

    constant: float
    """What every node gets."""
    demand: Demand
    parts: tuple[Part, ...]
    scope: Scope


class NodeOrder(Plugin[NodeOrderArguments]):
    """The nodes that Kubernetes' own scores prefer."""

    name: ClassVar[str] = "nodeorder"
    arguments: ClassVar[type[Arguments]] = NodeOrderArguments
    likeness = by_shape

    def open(self) -> None:
        """Nothing is reckoned before it is asked."""
        self._census = Census(self.cluster)
        self._interpod = InterPod(self.cluster, self._census)
        self._spreading = Spreading(self.cluster, self._census)
        self._asked: dict[int, _Asked] = {}

    @cached_property
    def _fullness(self) -> Fullness:
        return Fullness(self.cluster)

    def scope(self, task: TaskView) -> Scope:
        """CLUSTER where a relative score can tell nodes apart, else COLUMNS."""
        return self._of(task).scope

    def node_order(self, task: TaskView, nodes: NodesView) -> Floats:
        """The weighted sum of the scores."""
        args, rows, asked = self.args, nodes.rows, self._of(task)
        if args.balanced_resource and asked.demand.is_balanced:
            total = _weighed(args.balanced_resource, self._fullness.balance(asked.demand, nodes))
            total += asked.constant
        else:
            total = np.full(len(rows), asked.constant)
        if args.least_requested or args.most_requested:
            wanted = plus(nodes.nonzero, asked.demand.nonzero)
            if args.least_requested:
                total += _weighed(args.least_requested, self._fullness.least(wanted, rows))
            if args.most_requested:
                total += _weighed(args.most_requested, self._fullness.most(wanted, rows))
        for part in asked.parts:
            total += part(rows)
        return total

    def score_of_many(self, tasks: Sequence[TaskView]) -> ScoreOf | None:
        """By columns over the tasks, where cpu and memory are all that is looked at."""
        args, asked = self.args, [self._of(task) for task in tasks]
        full = self._fullness.of_many([one.demand for one in asked], args.balanced_resource, args.least_requested)
        if args.most_requested or full is None or any(one.scope is not Scope.COLUMNS for one in asked):
            return None
        constant = np.array([one.constant for one in asked])
        rows = np.arange(len(self.cluster.snapshot.nodes))
        fixed = [sum((part(rows) for part in one.parts), start=np.zeros(len(rows))) for one in asked]
        static = np.stack(fixed) if any(one.parts for one in asked) else None

        def score(node: int) -> Floats:
            total = full(constant, node)
            return total if static is None else np.add(total, static[:, node], out=total)

        return score

    def scores_by_columns(self, tasks: Sequence[TaskView]) -> bool:
        """Unless images on nodes count."""
        return not any(self._of(task).parts for task in tasks)

    def _of(self, task: TaskView) -> _Asked:
        shape = task.shape
        known = self._asked.get(shape)
        if known is None:
            known = self._asked[shape] = self._ask(task)
        return known

    def _ask(self, task: TaskView) -> _Asked:
        args, traits, spec = self.args, self.cluster.traits, task.spec
        constant = 0.0
        alone: list[Part] = []
        coupled: list[Part] = []
        liked = labels.preference(spec, traits) if args.node_affinity else None
        if liked is not None:
            if _is_constant(liked):
                constant += args.node_affinity * float(_of_most(liked[:1]).sum())
            else:
                coupled.append(lambda rows: args.node_affinity * _of_most(liked[rows]))
        if args.taint_toleration and len(traits.objects):
            disliked = taints.disliked(spec.tolerations, traits)
            if _is_constant(disliked):
                constant += args.taint_toleration * float(100 - _of_most(disliked[:1]).sum())
            else:
                coupled.append(lambda rows: args.taint_toleration * (100.0 - _of_most(disliked[rows])))
        there = images.locality(spec, traits) if args.image_locality else None
        if there is not None:
            alone.append(lambda rows: (args.image_locality * there[rows]).astype(np.float64))
        attraction = self._interpod.preference(task) if args.pod_affinity else None
        if attraction is not None:
            coupled.append(lambda rows: args.pod_affinity * _between(attraction(rows)))
        evenness = self._spreading.evenness(task) if args.pod_topology_spread else None
        if evenness is not None:
            coupled.append(lambda rows: args.pod_topology_spread * evenness(rows))
        return _Asked(constant, demand(task), (*alone, *coupled), Scope.CLUSTER if coupled else Scope.COLUMNS)


def _weighed(weight: int, score: Floats) -> Floats:
    """The score times its weight; it is the plugin's own, and may be overwritten."""
    if weight != 1:
        score *= weight
    return score


def _is_constant(column: Ints) -> bool:
    return not len(column) or bool((column == column[0]).all())


def _of_most(raw: Ints) -> Floats:
    """0 to 100, in whole numbers, of the largest; 0 for all if that is 0."""
    most = int(raw.max(initial=0))
    return (100 * raw // most if most else np.zeros_like(raw)).astype(np.float64)


def _between(raw: Ints) -> Floats:
    """0 for the smallest to 100 for the largest, in whole numbers; 0 for all if they are equal."""
    if not len(raw):
        return np.empty(0, dtype=np.float64)
    least, most = int(raw.min()), int(raw.max())
    if least == most:
        return np.zeros(len(raw), dtype=np.float64)
    scaled: Floats = np.floor(100.0 * ((raw - least) / (most - least)))
    return scaled
