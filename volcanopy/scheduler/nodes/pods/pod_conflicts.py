"""Limits by conflicting pods on a node: equal host ports."""

from collections.abc import Iterator

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.domain_limits import DomainLimit
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.snapshot import ShapeTable
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts
from volcanopy.scheduler.nodes.traits.node_affinity import Domains
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes

Port = tuple[str, int]
"""Protocol and number."""
Addresses = dict[str, set[int]]
"""The shapes that use a port, by address."""
ANY_ADDRESS = "0.0.0.0"


def ports_in_use(shape: int, shapes: ShapeTable, traits: NodeTraits, pod_counts: PodCounts) -> list[DomainLimit]:
    """Return the limit to nodes on which no host port of the shape is in use, if it has any."""
    own = frozenset(_ports(shapes.specs[shape]))
    if not own:
        return []
    known = cached_by_shapes(traits, "host ports", shapes, lambda: _by_port(shapes))
    conflicting: set[int] = set()
    for port, address in own:
        for other, users in known[port].items():
            if other == address or ANY_ADDRESS in {other, address}:
                conflicting |= users
    tally = pod_counts.tally(dict.fromkeys(conflicting, 1), terminating=True)
    nodes = Domains(np.arange(1, pod_counts.size + 1), pod_counts.size + 1)
    return [tally.limit(nodes, shape)]


def _by_port(shapes: ShapeTable) -> dict[Port, Addresses]:
    by_port: dict[Port, Addresses] = {}
    for number, spec in enumerate(shapes.specs):
        for port, address in _ports(spec):
            by_port.setdefault(port, {}).setdefault(address, set()).add(number)
    return by_port


def _ports(spec: core.PodSpec) -> Iterator[tuple[Port, str]]:
    for port in spec.host_ports:
        yield (port.protocol or "TCP", port.host_port), port.host_ip or ANY_ADDRESS
