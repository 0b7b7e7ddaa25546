"""Weighted means over resources, and the plugin arguments that hold the weights."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, Mask


@dataclass(frozen=True)
class Strategy:
    """What makes a node good, by one resource."""

    position: int  # The position of the resource on the axis.
    weight: int  # At least 1.
    least: bool  # Whether a node is better the less of the resource is allocated, or the more.


@dataclass(frozen=True, eq=False)
class Strategies:
    """What makes a node good: a strategy for each resource that counts."""

    resources: tuple[Strategy, ...]  # In the order of the axis.
    best: float  # The score of the best node.

    @classmethod
    def of(
        cls, axis: Axis, weights: Mapping[str, int], least: Container[str] = (), best: float = 100.0
    ) -> "Strategies":
        """The strategies by name; resources that are not on the axis or have no weight are left out."""
        named = ((name, weights.get(name, 0), name in least) for name in axis.names)
        return _strategies(axis, tuple(each for each in named if each[1] > 0), best)

    def of_tasks(self, tasks: TasksView) -> "_Requests":
        """What follows from the tasks alone."""
        every = [(each, tasks.request.values[each.position]) for each in self.resources]
        total = sum(((request > 0) * each.weight for each, request in every), start=np.zeros((len(tasks), 1)))
        requested = [(each, request) for each, request in every if request.any()]
        amounts: Ints = np.array([request for _, request in requested]).reshape(len(requested), len(tasks), 1)
        weights = np.array([each.weight for each, _ in requested], dtype=np.float64).reshape(-1, 1, 1)
        least = np.array([each.least for each, _ in requested], dtype=np.bool_).reshape(-1, 1, 1)
        return _Requests(
            [each.position for each, _ in requested],
            least if least.any() else None,
            amounts.astype(np.float64),
            (amounts > 0) * weights * (self.best / np.maximum(total, 1)),
            None if amounts.all() else amounts == 0,
        )


@lru_cache(maxsize=64)
def _strategies(axis: Axis, named: tuple[tuple[str, int, bool], ...], best: float) -> Strategies:
    """Return the same object in each session: what tasks add to it is kept by it (:meth:`.TasksView.lasting`)."""
    return Strategies(tuple(Strategy(axis.index[name], weight, least) for name, weight, least in named), best)


@dataclass(frozen=True, eq=False)
class _Requests:
    """What S tasks request of the P resources that count and that any of them requests."""

    positions: list[int]
    least: Mask | None  # (P, 1, 1): :attr:`Strategy.least`; None if it is so for none.
    amounts: Floats  # (P, S, 1).
    weights: Floats
    """(P, S, 1): what a resource adds to the score of the best node; 0 for tasks that do not request it."""
    unrequested: Mask | None  # (P, S, 1): the tasks that do not request it; None if all do.


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
    requests = tasks.once(strategies, strategies.of_tasks)
    if not requests.positions:
        return np.zeros((len(tasks), len(nodes)), dtype=np.float64)
    room: Floats = nodes.allocatable.of(requests.positions)[:, None].astype(np.float64)
    fractions: Floats = nodes.used.of(requests.positions)[:, None] + requests.amounts
    if not all(map(nodes.all_have, requests.positions)):
        room = np.where(room > 0, room, np.inf)
    fractions /= room
    beyond = fractions > 1.0
    if requests.unrequested is not None:
        beyond &= ~requests.unrequested
    if requests.least is not None:
        fractions = np.where(requests.least, np.where(room < np.inf, 1.0 - fractions, 0.0), fractions)
    fractions *= requests.weights
    scores: Floats = reduce(np.add, fractions)  # there are few resources: numpy's own takes longer
    scores[reduce(np.logical_or, beyond)] = 0.0
    return scores
