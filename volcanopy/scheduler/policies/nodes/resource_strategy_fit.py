"""resource-strategy-fit: fill nodes by some resources, spread over them by others."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from volcanopy.api import core, names
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, Mask
from volcanopy.scheduler.nodes.scores.resource_weights import Strategies, weighted_mean
from volcanopy.scheduler.policy.plugin import Arguments, Names, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

Kind = Literal["LeastAllocated", "MostAllocated"]

SCORING_KEY = names.SCORING_TYPE
WEIGHT_KEY = names.SCORING_WEIGHT
KEPT = "node(s) keep their cpu and memory for their scarce resources"

_PER_DEVICE = {"cpu": 1000, "memory": 10**9}
"""What a proportion of 1 keeps for each idle device: a core, and a gigabyte."""


class ResourceStrategy(Arguments):
    """How much a resource counts, and whether full nodes (MostAllocated) or empty ones are better."""

    type: Kind = "LeastAllocated"
    weight: int = Field(1, ge=1)


class ScarceAvoidance(Arguments):
    """Keep tasks away from nodes whose scarce resources they do not need."""

    enable: bool = False
    resources: Names = ()
    weight: int = Field(1, ge=0)
    resource_weight: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict, alias="resourceWeight")

    @model_validator(mode="after")
    def _weighs_what_is_listed(self) -> "ScarceAvoidance":
        for name in self.resource_weight:
            if name not in self.resources:
                raise ValueError(f"resourceWeight weighs {name!r}: add it to sra.resources, or leave its weight out")
        return self


class Proportional(Arguments):
    """Keep cpu and memory beside each idle device: ``resourceProportion`` is how many cores and gigabytes."""

    enable: bool = False
    resources: Names = ()
    proportion: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict, alias="resourceProportion")

    @model_validator(mode="after")
    def _is_of_what_is_listed(self) -> "Proportional":
        for key in self.proportion:
            name, _, what = key.rpartition(".")
            if name not in self.resources or what not in _PER_DEVICE:
                raise ValueError(
                    f"resourceProportion has {key!r}: it must be <resource>.cpu or <resource>.memory of a resource in"
                    " proportional.resources"
                )
        return self


class ResourceStrategyFitArguments(Arguments):
    """The weight of the score, the strategy of each resource, and two ways to keep scarce devices usable."""

    weight: int = Field(10, ge=0, alias="resourceStrategyFitWeight")
    """How much the plugin counts."""
    resources: dict[str, ResourceStrategy] = Field(
        default_factory=lambda: {"cpu": ResourceStrategy(), "memory": ResourceStrategy()}
    )
    """By resource: whether full nodes are better or empty ones, and how much it counts. A name may end in `*`."""
    sra: ScarceAvoidance = Field(default_factory=ScarceAvoidance)
    """Keep tasks away from nodes whose scarce resources they do not need: `enable`, `resources`, `weight`, `resourceWeight`."""
    proportional: Proportional = Field(default_factory=Proportional)
    """Keep cpu and memory beside each idle device: `enable`, `resources`, `resourceProportion`."""

    @field_validator("resources")
    @classmethod
    def _are_names_or_prefixes(cls, resources: dict[str, ResourceStrategy]) -> dict[str, ResourceStrategy]:
        for name in resources:
            if not name.strip("*") or "*" in name[:-1]:
                raise ValueError(
                    f"{name!r} is no resource: write a name, or the beginning of names and one * at the end"
                )
        return resources


class ResourceStrategyFit(Nodes, Plugin[ResourceStrategyFitArguments]):
    """Score nodes by how full each resource is, and keep scarce devices for tasks that request them.

    A pod may have weights of its own: the annotation ``volcanopy.io/resource-strategy-scoring-type`` sets the strategy
    for all of them, ``volcanopy.io/resource-strategy-weight`` is a JSON object of weights by resource.
    """

    name: ClassVar[str] = "resource-strategy-fit"
    arguments: ClassVar[type[Arguments]] = ResourceStrategyFitArguments

    def open(self) -> None:
        """Lay everything along the axis."""
        args, axis = self.args, self.cluster.axis
        self._configured = _ordered(
            axis, {name: (strategy.weight, strategy.type) for name, strategy in args.resources.items()}
        )
        self._scarce = axis.vector({name: args.sra.resource_weight.get(name, 1) for name in args.sra.resources})
        self._scarce_sum = sum(args.sra.resource_weight.get(name, 1) for name in args.sra.resources)
        self._devices = [axis.index[name] for name in args.proportional.resources if name in axis]
        self._annotations = self.task_value(lambda task: _annotations_of(task.pod))

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Nodes where a task without devices would use the cpu and memory reserved for idle devices."""
        requests_device = any(task.request.values[position] for position in self._devices)
        if not self.args.proportional.enable or not self._devices or requests_device:
            return ()
        idle, axis = nodes.future_idle.values, self.cluster.axis
        rejected: Mask = np.zeros(len(nodes), dtype=np.bool_)
        for position in self._devices:
            devices = np.maximum(idle[position], 0)
            for what, each in _PER_DEVICE.items():
                rate = self.args.proportional.proportion.get(f"{axis.names[position]}.{what}", 1.0)
                left = idle[axis.index[what]] - task.request[what]
                rejected |= (devices > 0) & (left < devices * (rate * each))
        return (NodeRejection(KEPT, rejected),)

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The score by strategies, and that for leaving scarce resources alone."""
        scores: Floats = np.zeros((len(tasks), len(nodes)), dtype=np.float64)
        if self.args.weight:
            each = tasks.each(lambda task: weighted_mean(TasksView([task]), nodes, self._strategies(task))[0])
            scores += self.args.weight * each
        if self.args.sra.enable and self._scarce_sum:
            scores += self.args.sra.weight * tasks.each(lambda task: self._spare(task.request.values, nodes))
        return scores

    def _strategies(self, task: TaskView) -> Strategies:
        own = self._annotations(task)
        if own is None:
            return self._configured
        return self._own_strategies(*own)

    @once
    def _own_strategies(self, kind: str, text: str) -> Strategies:
        """The strategies of a pod's annotations; empty where they are malformed, and then all nodes score the same."""
        axis = self.cluster.axis
        nothing = Strategies.of(axis, {})
        try:
            weights = json.loads(text)
        except ValueError:
            return nothing
        is_valid = kind in {"LeastAllocated", "MostAllocated"} and isinstance(weights, dict)
        if not is_valid or not all(isinstance(weight, int) and weight > 0 for weight in weights.values()):
            return nothing
        return _ordered(axis, {str(name): (weight, kind) for name, weight in weights.items()})

    def _spare(self, request: Ints, nodes: NodesView) -> Floats:
        """100 for nodes without any scarce resource, less the more they have; 0 where a requested resource does not exist."""
        room = nodes.allocatable.values
        scarce: Floats = np.zeros(len(nodes), dtype=np.float64)
        for position in np.flatnonzero(self._scarce).tolist():
            scarce += np.where(room[position] > 0, float(self._scarce[position]), 0.0)
        scores: Floats = 100.0 * (1.0 - scarce / self._scarce_sum)
        scores[(room[request > 0] <= 0).any(axis=0)] = 0.0
        return scores


def _annotations_of(pod: core.Pod) -> tuple[str, str] | None:
    notes = pod.metadata.annotations
    kind = notes.get(SCORING_KEY)
    return None if kind is None else (kind, notes.get(WEIGHT_KEY, ""))


def _ordered(axis: Axis, strategies: Mapping[str, tuple[int, str]]) -> Strategies:
    """The strategy of each resource: that of its name, else that of the longest prefix of it."""
    weights: dict[str, int] = {}
    least: set[str] = set()
    for name in axis.names:
        keys = [key for key in strategies if key == name or (key.endswith("*") and name.startswith(key[:-1]))]
        if keys:
            weights[name], kind = strategies[max(keys, key=lambda key: (key == name, len(key)))]
            if kind != "MostAllocated":
                least.add(name)
    return Strategies.of(axis, weights, least)
