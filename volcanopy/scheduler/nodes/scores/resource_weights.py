"""Weighted means over resources, and the plugin arguments that hold the weights."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, Mask


@dataclass(frozen=True)
class Strategy:
    """What makes a node good, by one resource."""

    position: int
    """The position of the resource on the axis."""
    weight: int
    """At least 1."""
    least: bool
    """Whether a node is better the less of the resource is allocated, or the more."""


@dataclass(frozen=True, eq=False)
class Strategies:
    """What makes a node good: a strategy for each resource that counts."""

    resources: tuple[Strategy, ...]
    """In the order of the axis."""
    best: float
    """The score of the best node."""

    @classmethod
    def of(
        cls, axis: Axis, weights: Mapping[str, int], least: Container[str] = (), best: float = 100.0
    ) -> "Strategies":
        """The strategies by name; resources that are not on the axis or have no weight are left out."""
        named = ((name, weights.get(name, 0), name in least) for name in axis.names)
        return _strategies(axis, tuple(each for each in named if each[1] > 0), best)

    def of_tasks(self, tasks: TasksView) -> "list[_Part]":
        """What follows from the tasks alone."""
        requests = [(each, tasks.request.values[each.position]) for each in self.resources]
        total = sum(((request > 0) * each.weight for each, request in requests), start=np.zeros((len(tasks), 1)))
        scale = self.best / np.maximum(total, 1)
        return [
            _Part(
                each.position,
                each.least,
                request.astype(np.float64),
                (request > 0) * each.weight * scale,
                None if request.all() else request == 0,
            )
            for each, request in requests
            if request.any()
        ]


@lru_cache(maxsize=64)
def _strategies(axis: Axis, named: tuple[tuple[str, int, bool], ...], best: float) -> Strategies:
    """Return the same object in each session: what tasks add to it is kept by it (:meth:`.TasksView.lasting`)."""
    return Strategies(tuple(Strategy(axis.index[name], weight, least) for name, weight, least in named), best)


@dataclass(frozen=True, eq=False)
class _Part:
    """The part of one resource in the scores of S tasks."""

    position: int
    least: bool
    request: Floats
    """(S, 1)."""
    weight: Floats
    """(S, 1): what the resource adds to the score of the best node; 0 for tasks that do not request it."""
    unrequested: Mask | None
    """(S, 1): the tasks that do not request it; None if all do."""


def gathered(values: Any, prefix: str) -> Any:
    """Return plugin arguments with ``<prefix>`` as a mapping of weights.

    In the configuration file ``<prefix>`` lists names separated by commas, each of weight 1, and ``<prefix>.<name>`` is the
    weight of one resource. Raises ValueError where the list is not a string.
    """
    if not isinstance(values, dict) or isinstance(values.get(prefix), dict):
        return values
    names = values.get(prefix, "")
    if not isinstance(names, str):
        raise ValueError(f"{prefix}: must be a list of resource names separated by commas")
    weights: dict[str, Any] = {name.strip(): 1 for name in names.split(",") if name.strip()}
    dot = f"{prefix}."
    weights |= {key.removeprefix(dot): value for key, value in values.items() if key.startswith(dot)}
    return {**{key: value for key, value in values.items() if not key.startswith(prefix)}, prefix: weights}


def weighted_mean(tasks: TasksView, nodes: NodesView, strategies: Strategies) -> Floats:
    """(S, N): the weighted mean of the allocated (or else idle) fractions of a node with the task on it, from 0 to ``best``.

    Resources that a task does not request or a node does not have do not count; 0 where the task does not fit.
    """
    scores: Floats | None = None
    misfit: Mask | None = None
    for part in tasks.once(strategies, strategies.of_tasks):
        room = amounts(nodes.allocatable.at(part.position))
        fraction = amounts(nodes.used.at(part.position)) + part.request
        if not nodes.all_have(part.position):
            room = np.where(room > 0, room, np.inf)
        fraction /= room
        beyond = fraction > 1.0
        if part.unrequested is not None:
            beyond &= ~part.unrequested
        misfit = beyond if misfit is None else misfit | beyond
        if part.least:
            fraction = np.where(room < np.inf, 1.0 - fraction, 0.0)
        fraction *= part.weight
        scores = fraction if scores is None else np.add(scores, fraction, out=scores)
    if scores is None or misfit is None:
        return np.zeros((len(tasks), len(nodes)), dtype=np.float64)
    scores[misfit] = 0.0
    return scores


def amounts(column: Ints) -> Floats:
    """One resource of N nodes as (N,) floats; that of a single node without an axis, which numpy broadcasts twice as fast."""
    values = column.astype(np.float64)
    return values.reshape(()) if len(values) == 1 else values
