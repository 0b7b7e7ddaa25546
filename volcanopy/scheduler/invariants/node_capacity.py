"""Invariants of node capacity: bound pods fit now, nominated pods fit after the evictions."""

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.invariants.plan_outcome import ON_NODE, Moves
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status


def overcommitted(moves: Moves) -> list[str]:
    """Return the nodes whose bound pods do not fit beside all current pods; victims still use resources."""
    there = ON_NODE[moves.status]
    return _beyond(moves, moves.bound, there, "is overcommitted")


def overcommitted_by_nominations(moves: Moves) -> list[str]:
    """Return the nodes whose nominated pods do not fit beside the remaining pods and other nominated pods."""
    stays = (ON_NODE[moves.status] & (moves.status != Status.RELEASING)) | moves.waits
    return _beyond(moves, moves.nominated, stays, "is overcommitted by nominated pods")


def _beyond(moves: Moves, newcomers: Rows, counted: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str) -> list[str]:
    """Return the nodes of newcomers where the counted tasks exceed a resource that the newcomers request."""
    if not len(newcomers):
        return []
    snapshot = moves.snapshot
    nodes = np.unique(moves.node[newcomers])
    place = np.full(len(snapshot.nodes) + 1, NONE, dtype=np.intp)  # the last entry serves tasks without a node
    place[nodes] = np.arange(len(nodes))
    rows = np.flatnonzero(counted & (place[moves.node] != NONE))
    taken = moves.sums(rows, place[moves.node[rows]], len(nodes))
    requested: Ints = moves.sums(newcomers, place[moves.node[newcomers]], len(nodes))
    allocatable = snapshot.nodes.allocatable.values[:, nodes]
    result = []
    for at, dim in zip(*np.nonzero(((requested > 0) & (taken > allocatable)).T), strict=True):
        resource = snapshot.axis.names[dim]
        amounts = (
            f"{quantity.text(resource, int(taken[dim, at]))} of {quantity.text(resource, int(allocatable[dim, at]))}"
        )
        result.append(f"node {snapshot.nodes.names[nodes[at]]} {what}: {amounts} {resource}")
    return result
