"""Whether free amounts suffice for the placed tasks of a job with evictions cancelled: a test before anything is tried."""

from collections.abc import Sequence

import numpy as np

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model.resources import Ints, Mask, Rows


def suffices_with(session: Session, placed: Rows, nodes: Rows, within: Mask, restored: Sequence[Sequence[int]]) -> Mask:
    """(B,): whether the amounts suffice for all placed tasks, on any nodes, with each of B sets of victims running again.

    Compared are the sums over the nodes ``within`` (N,), and how many tasks with the least request of each resource fit.
    ``placed`` are the tasks, on ``nodes``.
    """
    table, ledger = session.snapshot.tasks, session.ledger
    amounts = session.snapshot.shapes.request.values[:, table.shape[placed]]
    dims = np.flatnonzero(amounts.any(axis=1))
    amounts = amounts[dims]
    free = ledger.future[dims]
    np.add.at(free.T, nodes, amounts.T)
    free[:, ~within] = 0
    owner = np.repeat(np.arange(len(restored)), [len(rows) for rows in restored])
    victims = np.array([row for rows in restored for row in rows], dtype=np.intp)
    owner, victims = owner[within[ledger.node[victims]]], victims[within[ledger.node[victims]]]
    # one column for each node of each set
    pairs, place = np.unique(owner * len(within) + ledger.node[victims], return_inverse=True)
    owner, where = pairs // len(within), pairs % len(within)
    less = free[:, where]
    np.subtract.at(less.T, place, session.snapshot.shapes.request.values[dims][:, table.shape[victims]].T)
    sums = np.repeat(np.maximum(free, 0).sum(axis=1)[:, None], len(restored), axis=1)
    np.add.at(sums.T, owner, (np.maximum(less, 0) - np.maximum(free[:, where], 0)).T)
    least = amounts.min(axis=1)
    slots = np.full(len(restored), _slots(free, least).sum())
    np.add.at(slots, owner, _slots(less, least) - _slots(free[:, where], least))
    enough: Mask = (sums >= amounts.sum(axis=1)[:, None]).all(axis=0) & (slots >= len(placed))
    return enough


def _slots(free: Ints, least: Ints) -> Ints:
    """(M,): how many tasks with the least request of each resource fit on each node; many where all of it is zero."""
    counts = least > 0
    many = np.iinfo(np.int32).max
    slots: Ints = (np.maximum(free[counts], 0) // least[counts, None]).min(axis=0, initial=many)
    return slots
