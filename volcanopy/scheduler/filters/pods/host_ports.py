"""Host ports: which nodes have a pod that holds a port which another wants."""

from collections.abc import Callable, Iterator

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.filters.pods.pod_counts import PodCounts
from volcanopy.scheduler.filters.traits.trait_cache import kept_of_shapes
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import NodeTraits, ShapeTable

Port = tuple[str, int, str]
"""Protocol, number, address."""
ANY = "0.0.0.0"


def wanted(spec: core.PodSpec) -> frozenset[Port]:
    """The host ports of a pod: those of its containers and sidecars."""
    return frozenset(_ports(spec))


def _ports(spec: core.PodSpec) -> Iterator[Port]:
    for container in (*spec.init_containers, *spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield port.protocol or "TCP", port.host_port, port.host_ip or ANY


def conflict(one: frozenset[Port], other: frozenset[Port]) -> bool:
    """Whether two pods cannot share a node: a port of both, on one address or on all."""
    return any(
        mine[:2] == theirs[:2] and (mine[2] == theirs[2] or ANY in {mine[2], theirs[2]})
        for mine in one
        for theirs in other
    )


def taken(shape: int, shapes: ShapeTable, traits: NodeTraits, pod_counts: PodCounts) -> Callable[[Rows], Mask] | None:
    """Says of node rows whether a port that the shape wants is taken there; None if the shape wants none."""
    known = kept_of_shapes(traits, "host ports", shapes, lambda: _by_shape(shapes))
    own = known.get(shape)
    if own is None:
        return None

    def values() -> Mask:
        rivals = np.zeros(len(shapes.specs), dtype=np.bool_)
        rivals[[number for number, ports in known.items() if conflict(own, ports)]] = True
        return rivals[pod_counts.snapshot.tasks.shape]

    tally = pod_counts.tally(("host ports", own), values, leaving=True)
    return lambda rows: tally.counts[rows] > 0


def _by_shape(shapes: ShapeTable) -> dict[int, frozenset[Port]]:
    return {number: ports for number, spec in enumerate(shapes.specs) if (ports := wanted(spec))}
