"""Filter of nodes with conflicting pods: equal host ports."""

from collections.abc import Callable, Iterator

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import ShapeTable
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes

Port = tuple[str, int, str]  # Protocol, number, address.
ANY_ADDRESS = "0.0.0.0"


def ports_in_use(
    shape: int, shapes: ShapeTable, traits: NodeTraits, pod_counts: PodCounts
) -> Callable[[Rows], Mask] | None:
    """Return the filter of node rows on which a host port of the shape is in use; None for a shape without host ports."""

    def by_shape() -> dict[int, frozenset[Port]]:
        return {number: used for number, spec in enumerate(shapes.specs) if (used := frozenset(_ports(spec)))}

    known = cached_by_shapes(traits, "host ports", shapes, by_shape)
    own = known.get(shape)
    if own is None:
        return None

    def values() -> Mask:
        conflicting = np.zeros(len(shapes.specs), dtype=np.bool_)
        conflicting[[n for n, others in known.items() if any(_same_port(a, b) for a in own for b in others)]] = True
        return conflicting[pod_counts.snapshot.tasks.shape]

    tally = pod_counts.tally(("host ports", own), values, terminating=True)
    return lambda rows: tally.counts[rows] > 0


def _ports(spec: core.PodSpec) -> Iterator[Port]:
    for container in (*spec.init_containers, *spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS


def _same_port(a: Port, b: Port) -> bool:
    return a[:2] == b[:2] and (a[2] == b[2] or ANY_ADDRESS in {a[2], b[2]})
