"""nodeorder: prefer the nodes that kube-scheduler prefers.

The score is the weighted sum of kube-scheduler's own scores, each from 0 to 100. Those that are relative (the best of
the asked nodes gets 100) are so among the nodes that are asked about; where all nodes have the same value they are one
number, and couple nothing. Where a request for devices has alternatives, a node gets 100 for the first and an eighth less for
each further one, with the weight 1 that Volcano gives it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.once import once_by
from volcanopy.scheduler.model.resources import Floats, Ints, Rows
from volcanopy.scheduler.nodes.pods.interpod_affinity import InterPodAffinity
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts
from volcanopy.scheduler.nodes.pods.topology_spread import PodTopologySpread
from volcanopy.scheduler.nodes.scores import image_locality as images
from volcanopy.scheduler.nodes.scores.resource_fit import balanced_allocation, least_allocated, most_allocated
from volcanopy.scheduler.nodes.traits import node_affinity as labels
from volcanopy.scheduler.nodes.traits import taints
from volcanopy.scheduler.nodes.traits.trait_cache import cached_of_shape
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes

Part = Callable[[Rows], Floats]
_NO_NODES: Rows = np.empty(0, dtype=np.intp)


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
class _Traits:
    """The part of a shape's score that labels, taints, images and other pods decide."""

    constant: float
    """The same on every node."""
    parts: tuple[Part, ...]
    couples_nodes: bool


class NodeOrder(Nodes, Plugin[NodeOrderArguments]):
    """The nodes that Kubernetes' own scores prefer."""

    name: ClassVar[str] = "nodeorder"
    arguments: ClassVar[type[Arguments]] = NodeOrderArguments

    def open(self) -> None:
        """Prepare the scores of shapes, which are computed when a task needs them."""
        shapes = self.cluster.snapshot.shapes
        self._claiming = frozenset(shape for shape in shapes.claiming if shapes.specs[shape].resource_claims)
        counts = PodCounts(self.cluster)
        self._interpod = InterPodAffinity(self.cluster, counts)
        self._spreading = PodTopologySpread(self.cluster, counts)

    @cached_property
    def _by_amounts(self) -> tuple[tuple[int, Callable[[TasksView, NodesView], Floats | Ints]], ...]:
        """The scores by resources that have a weight."""
        weights = (
            (self.args.balanced_resource, balanced_allocation),
            (self.args.least_requested, least_allocated),
            (self.args.most_requested, most_allocated),
        )
        return tuple(each for each in weights if each[0])

    def couples_nodes(self, task: TaskView) -> bool:
        """Whether a relative score differs between nodes, or its claims have alternatives: other pods may share them."""
        return self._traits_of(task).couples_nodes or self._of_devices(task, _NO_NODES) is not None

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The weighted sum of the scores."""
        constants, parts = tasks.once(self, self._traits_of_block)
        total: Floats = constants + np.zeros(len(nodes))
        for weight, score in () if self.cluster.packs_resources() else self._by_amounts:
            scores = score(tasks, nodes)
            total += scores if weight == 1 else weight * scores
        for row, part in parts:
            total[row] += part(nodes.rows)
        if self._claiming:
            for row, task in enumerate(tasks):
                preferred = self._of_devices(task, nodes.rows)
                if preferred is not None:
                    total[row] += preferred
        return total

    def _of_devices(self, task: TaskView, rows: Rows) -> Floats | None:
        """The score by the alternatives of device requests; None without any."""
        return self.cluster.queries.claim_preferences(task, rows) if task.shape in self._claiming else None

    def _traits_of_block(self, tasks: TasksView) -> tuple[Floats, list[tuple[int, Part]]]:
        """The (S, 1) constants, and the parts with the rows of their tasks."""
        traits = [self._traits_of(task) for task in tasks]
        parts = [(row, part) for row, each in enumerate(traits) for part in each.parts]
        return np.array([[each.constant] for each in traits]), parts

    @once_by("shape")
    def _traits_of(self, task: TaskView) -> _Traits:
        shapes, of_nodes = self.cluster.snapshot.shapes, self.cluster.traits
        return cached_of_shape(of_nodes, "scores of shapes", shapes, self.args, task.shape, lambda: self._read(task))

    def _read(self, task: TaskView) -> tuple[_Traits, bool]:
        """Return the scores of a shape, and whether none of them depends on pods."""
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
            disliked = taints.untolerated_preferences(spec.tolerations, traits)
            if _is_constant(disliked):
                constant += args.taint_toleration * float(100 - _of_most(disliked[:1]).sum())
            else:
                coupled.append(lambda rows: args.taint_toleration * (100.0 - _of_most(disliked[rows])))
        there = images.locality(spec, traits) if args.image_locality else None
        if there is not None:
            alone.append(lambda rows: (args.image_locality * there[rows]).astype(np.float64))
        attraction = self._interpod.score(task) if args.pod_affinity else None
        if attraction is not None:
            coupled.append(lambda rows: args.pod_affinity * _between(attraction(rows)))
        evenness = self._spreading.score(task) if args.pod_topology_spread else None
        if evenness is not None:
            coupled.append(lambda rows: args.pod_topology_spread * evenness(rows))
        return _Traits(constant, (*alone, *coupled), bool(coupled)), attraction is None and evenness is None


def _is_constant(column: Ints) -> bool:
    return not len(column) or bool((column == column[0]).all())


def _of_most(raw: Ints) -> Floats:
    """0 to 100, in whole numbers, of the largest; 0 for all if that is 0."""
    most = int(raw.max(initial=0))
    return (100 * raw // most if most else np.zeros_like(raw)).astype(np.float64)


def _between(raw: Ints) -> Floats:
    """0 for the smallest to 100 for the largest, in whole numbers; 0 for all if they are equal."""
    if _is_constant(raw):
        return np.zeros(len(raw), dtype=np.float64)
    least, most = int(raw.min()), int(raw.max())
    return np.floor(100.0 * ((raw - least) / (most - least)))
