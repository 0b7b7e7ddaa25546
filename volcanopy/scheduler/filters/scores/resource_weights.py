"""Weighted means over resources, and the plugin arguments that hold the weights."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.model.resources import Floats

Strategy = tuple[str, int, bool]
"""A resource, its weight, and whether a node is better the more of it is allocated (else the less)."""


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


def weighted_mean(tasks: TasksView, nodes: NodesView, strategies: Iterable[Strategy], scale: float = 1.0) -> Floats:
    """(S, N): the weighted mean of the allocated (or else idle) fractions of a node with the task on it, times ``scale``.

    The resources that a task does not request do not count; 0 where the task does not fit.
    """
    shape = (len(tasks), len(nodes))
    scores, fits = np.zeros(shape, dtype=np.float64), np.ones(shape, dtype=np.bool_)
    total = np.zeros((len(tasks), 1), dtype=np.int64)
    for name, factor, most in strategies:
        request, allocatable = tasks.request[name], nodes.allocatable[name]
        weight = np.where(request > 0, factor, 0)
        used = nodes.used[name] + request
        exists = allocatable > 0
        part = used if most else allocatable - used
        scores += weight * np.divide(part, allocatable, out=np.zeros(shape, dtype=np.float64), where=exists)
        fits &= (used <= allocatable) | ~exists | (weight == 0)
        total += weight
    scores *= scale / np.maximum(total, 1)
    scores[~fits] = 0.0
    return scores
