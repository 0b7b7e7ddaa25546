"""Requests of pods, counted from their containers. Nothing is shared with the code that decides.

A pod uses what its containers use together: the sum of containers and sidecars, or if that is larger the sum of an init
container and of the sidecars that started before it; values at pod level replace this. A limit without a request
counts as the request. Overhead and the pod itself are added.
"""

import numpy as np

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.model.resources import Index, Ints
from volcanopy.scheduler.model.snapshot import Snapshot

_PER_POD = ("cpu", "memory")  # The resources that a pod may request as a whole, with ``hugepages-*``.


class ShapeRequests:
    """The requests of the shapes of a snapshot, each counted when it is first needed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._axis, self._specs = snapshot.axis, snapshot.shapes.specs
        self._counted = np.zeros(len(self._specs), dtype=np.bool_)
        self._table: Ints = np.zeros((len(self._axis), len(self._specs)), dtype=np.int64)

    def of(self, shapes: Index) -> Ints:
        """(R, S): the table of requests, in which the columns of these shapes are filled."""
        for shape in np.unique(shapes[~self._counted[shapes]]).tolist():
            for name, units in request_of(self._specs[shape]).items():
                self._table[self._axis.index[name], shape] = units
            self._counted[shape] = True
        return self._table


def request_of(spec: core.PodSpec) -> dict[str, int]:
    """Return the amounts that a pod uses of its node, in base units."""
    total, sidecars, peak = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in spec.containers:
        total = _sum(total, _of_container(container))
    for container in spec.init_containers:
        own = _of_container(container)
        started = _sum(sidecars, own)
        if container.restart_policy == "Always":
            sidecars = started
        peak = _larger(peak, started)
    total = _sum(total, sidecars)
    total = _larger(total, peak)
    total = _sum(total | _of_pod(spec.resources, total), quantity.amounts(spec.overhead))
    of_nodes = {name: units for name, units in total.items() if not names.part_of_device(name)}
    return of_nodes | {"pods": 1}


def _of_container(container: core.Container) -> dict[str, int]:
    resources = container.resources
    return quantity.amounts(resources.limits) | quantity.amounts(resources.requests)


def _of_pod(resources: core.ResourceRequirements | None, of_containers: dict[str, int]) -> dict[str, int]:
    """Return the amounts that are given at pod level: a request; without one a limit that no container requests."""
    if resources is None:
        return {}
    requests, limits = quantity.amounts(resources.requests), quantity.amounts(resources.limits)
    defaults = {
        name: units
        for name, units in limits.items()
        if name not in _PER_POD or name not in of_containers  # huge pages: the limit of the pod is the request
    }
    given = defaults | requests
    return {name: units for name, units in given.items() if name in _PER_POD or name.startswith("hugepages-")}


def _sum(first: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + other.get(name, 0) for name in {**first, **other}}


def _larger(first: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: max(first.get(name, 0), other.get(name, 0)) for name in {**first, **other}}
