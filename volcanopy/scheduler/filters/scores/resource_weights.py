"""Weighted means over resources, and the plugin arguments that hold the weights."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, Mask, Rows


@dataclass(frozen=True, eq=False)
class Strategies:
    """What makes a node good: K resources, in order."""

    dims: slice | Rows
    """The positions of the resources on the axis."""
    weights: Ints
    """(K, 1, 1)."""
    least: Mask | None
    """(K, 1, 1): for which a node is better the less is allocated; None if for none."""

    @classmethod
    def of(cls, axis: Axis, weights: Mapping[str, int], least: Container[str] = ()) -> "Strategies":
        """The strategies by name; resources that are not on the axis or have no weight are left out."""
        names = [name for name in axis.names if weights.get(name, 0) > 0]
        dims: Rows = np.array([axis.index[name] for name in names], dtype=np.intp)
        adjacent = len(dims) > 0 and dims[-1] - dims[0] == len(dims) - 1
        column = [[[weights[name]]] for name in names]
        return cls(
            slice(int(dims[0]), int(dims[-1]) + 1) if adjacent else dims,  # a slice is no copy
            np.array(column, dtype=np.int64).reshape(-1, 1, 1),
            np.array([[[name in least]] for name in names]) if any(name in least for name in names) else None,
        )

    def of_tasks(self, tasks: TasksView) -> "_Weights":
        """What follows from the tasks alone."""
        request: Ints = tasks.request.values[self.dims]
        weights = (self.weights * (request > 0)).astype(np.float64)
        total = np.maximum(weights.sum(axis=0), 1.0)
        return _Weights(request, weights, total, bool(weights.all()))


@dataclass(frozen=True, eq=False)
class _Weights:
    """Of a block of S tasks."""

    request: Ints
    """(K, S, 1)."""
    weights: Floats
    """(K, S, 1): 0 for resources that a task does not request."""
    total: Floats
    """(S, 1): their sum, at least 1."""
    all_count: bool
    """Whether each task requests each resource."""


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


def weighted_mean(tasks: TasksView, nodes: NodesView, strategies: Strategies, scale: float) -> Floats:
    """(S, N): the weighted mean of the allocated (or else idle) fractions of a node with the task on it, times ``scale``.

    Resources that a task does not request or a node does not have do not count; 0 where the task does not fit.
    """
    of_tasks = tasks.once(strategies, strategies.of_tasks)
    room = nodes.allocatable.values[strategies.dims, None]
    used = nodes.used.values[strategies.dims, None] + of_tasks.request
    if not of_tasks.all_count or np.count_nonzero(room) < room.size:
        used *= (of_tasks.weights > 0) & (room > 0)
        room = np.maximum(room, 1)
    least = strategies.least
    part = used if least is None else np.where(least, (room - used) * (used > 0), used)
    fractions: Floats = part / room
    fractions *= of_tasks.weights
    scores: Floats = np.add.reduce(fractions, axis=0)
    scores *= scale / of_tasks.total
    scores *= np.logical_and.reduce(used <= room, axis=0)
    return scores
