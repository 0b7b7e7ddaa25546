"""Invariants of node capacity: bound pods fit now, nominated pods fit after the evictions."""

from collections.abc import Iterator

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.invariants.plan_outcome import ON_NODE, Moves
from volcanopy.scheduler.model.resources import Index, Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status


def overcommitted(moves: Moves) -> Iterator[str]:
    """Yield the nodes whose bound pods do not fit beside all current pods; victims still use resources."""
    there = ON_NODE[moves.status]
    return _beyond(moves, moves.bound, moves.node, there, "is overcommitted")


def overcommitted_by_nominations(moves: Moves) -> Iterator[str]:
    """Yield the nodes whose nominated or moved pods do not fit beside the remaining pods and other nominated pods."""
    stays = (ON_NODE[moves.status] & (moves.status != Status.RELEASING)) | moves.waits
    stays[moves.moved] = True
    newcomers, node = np.concatenate((moves.nominated, moves.moved)), moves.node.copy()
    node[moves.moved] = moves.moved_to
    return _beyond(moves, newcomers, node, stays, "is overcommitted by nominated pods")


def _beyond(
    moves: Moves, newcomers: Rows, node: Index, counted: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str
) -> Iterator[str]:
    """Yield the nodes of newcomers where the counted tasks exceed a resource that the newcomers request."""
    if not len(newcomers):
        return
    snapshot = moves.snapshot
    nodes = np.unique(node[newcomers])
    place = np.full(len(snapshot.nodes) + 1, NONE, dtype=np.intp)  # the last entry serves tasks without a node
    place[nodes] = np.arange(len(nodes))
    rows = np.flatnonzero(counted)
    taken = moves.sums(rows, place[node[rows]], len(nodes))
    requested: Ints = moves.sums(newcomers, place[node[newcomers]], len(nodes))
    allocatable = snapshot.nodes.allocatable.values[:, nodes]
    for at, dim in zip(*np.nonzero(((requested > 0) & (taken > allocatable)).T), strict=True):
        resource = snapshot.axis.names[dim]
        has, most = (quantity.text(resource, int(amounts[dim, at])) for amounts in (taken, allocatable))
        yield f"node {snapshot.nodes.names[nodes[at]]} {what}: {has} of {most} {resource}"
