"""Whether nodes can carry what a plan puts on them: now what it binds, and later what it keeps room for."""

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE, Status


def overcommitted(moves: Moves) -> list[str]:
    """Bound pods must fit beside all that takes room of their node now; what leaves has not left yet."""
    there = ON_NODE[moves.status]
    return _beyond(moves, moves.bound, there, "is overcommitted")


def overpromised(moves: Moves) -> list[str]:
    """Pods with kept room must fit beside all that stays on their node and all that is promised there."""
    stays = (ON_NODE[moves.status] & (moves.status != Status.RELEASING)) | moves.waits
    return _beyond(moves, moves.nominated, stays, "is promised to more than it can carry")


def _beyond(moves: Moves, newcomers: Rows, counted: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str) -> list[str]:
    """Where the counted tasks ask for more than a node of newcomers has, of what these ask for."""
    if not len(newcomers):
        return []
    snapshot = moves.snapshot
    nodes = np.unique(moves.node[newcomers])
    place = np.full(len(snapshot.nodes) + 1, NONE, dtype=np.intp)  # the last entry serves tasks without a node
    place[nodes] = np.arange(len(nodes))
    rows = np.flatnonzero(counted & (place[moves.node] != NONE))
    taken = moves.sums(rows, place[moves.node[rows]], len(nodes))
    asked: Ints = moves.sums(newcomers, place[moves.node[newcomers]], len(nodes))
    room = snapshot.nodes.allocatable.values[:, nodes]
    result = []
    for at, dim in zip(*np.nonzero(((asked > 0) & (taken > room)).T), strict=True):
        resource = snapshot.axis.names[dim]
        amounts = f"{quantity.text(resource, int(taken[dim, at]))} of {quantity.text(resource, int(room[dim, at]))}"
        result.append(f"node {snapshot.nodes.names[nodes[at]]} {what}: {amounts} {resource}")
    return result
