"""The most that queues may allocate and what is reserved for them, read from the queues in fractions.

Nothing is shared with the code that decides. Where a share is not a whole number of units, the limit is rounded up and
the reserved amount down.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.scheduler.model.resources import UNLIMITED, Ints
from volcanopy.scheduler.model.snapshot import NONE, QueueTable, Snapshot

_OPTIONAL = ("cpu", "memory")  # Resources of which a capability of zero is no limit.


@dataclass(frozen=True, eq=False)
class Bounds:
    """(R, Q): what is reserved for each queue, used or not, and its limit."""

    reserved: Ints
    limit: Ints


def bounds(snapshot: Snapshot, *, by_weight: bool, in_tree: bool, alone: bool = False) -> Bounds:
    """Return the guarantees and capabilities of queues, and where they have any their borrowing and lending limits.

    ``by_weight``: a share that ``deserved`` does not name is the share by weight when all queues request as much as they
    may. ``in_tree``: a queue reserves at least what its children do not lend. ``alone``: without guarantees and
    capabilities.
    """
    queues = snapshot.queues
    reserved = np.zeros((len(snapshot.axis), len(queues)), dtype=np.int64)
    limit = np.full_like(reserved, UNLIMITED)
    specs = [core.QueueSpec() if queue is None else queue.spec for queue in queues.objects]
    for row, spec in enumerate(specs) if not alone else ():
        for name, units in quantity.amounts(spec.guarantee.resource).items():
            dim = snapshot.axis.index[name]
            # More than the cluster cannot be reserved for a queue: the snapshot then has what the queue requests of it.
            possible = units if units <= snapshot.total[dim] else int(queues.guarantee.values[dim, row])
            reserved[dim, row] = min(units, possible)
        for name, units in quantity.amounts(spec.capability).items():
            if units > 0 or name not in _OPTIONAL:
                limit[snapshot.axis.index[name], row] = units
    if not any(spec.borrowing_limit or spec.lending_limit for spec in specs):
        return Bounds(reserved, limit)
    for dim, name in enumerate(snapshot.axis.names):
        _apply_lending(snapshot, specs, dim, name, reserved, limit, by_weight=by_weight, in_tree=in_tree)
    return Bounds(reserved, limit)


def _apply_lending(
    snapshot: Snapshot,
    specs: Sequence[core.QueueSpec],
    dim: int,
    name: str,
    reserved: Ints,
    limit: Ints,
    *,
    by_weight: bool,
    in_tree: bool,
) -> None:
    """Lower the limits of one resource to what queues may borrow, and raise the reserved amounts to what they do not lend."""
    guarantee, queues = reserved[dim].tolist(), snapshot.queues
    shares = _Shares(queues, int(snapshot.total[dim]), guarantee, limit[dim].tolist()).by_weight() if by_weight else {}
    lends = [name in spec.lending_limit for spec in specs]
    for row, spec in enumerate(specs):
        share = shares.get(row, Fraction(guarantee[row]))
        if name in spec.deserved:
            share = Fraction(quantity.amount(name, spec.deserved[name]))
        share = max(share, Fraction(guarantee[row]))
        if name in spec.borrowing_limit:
            most = math.ceil(share) + max(quantity.amount(name, spec.borrowing_limit[name]), 0)
            limit[dim, row] = min(limit[dim, row], most)
        if lends[row]:
            kept = math.floor(share) - max(quantity.amount(name, spec.lending_limit[name]), 0)
            reserved[dim, row] = min(max(guarantee[row], kept), max(limit[dim, row], guarantee[row]))
    if in_tree:
        for row in range(len(queues)):
            if queues.above[row] == NONE:
                _cover(queues, row, lends, reserved[dim])


def _cover(queues: QueueTable, row: int, lends: Sequence[bool], reserved: Ints) -> tuple[int, bool]:
    """Raise what a queue reserves to what the queues below it reserve, if one of them limits what it lends."""
    below = [_cover(queues, child, lends, reserved) for child in np.flatnonzero(queues.above == row).tolist()]
    affected = lends[row] or any(limited for _, limited in below)
    if affected:
        reserved[row] = max(int(reserved[row]), sum(amount for amount, _ in below))
    return int(reserved[row]), affected


class _Shares:
    """The division of one resource among queues by weight, level by level, when every leaf requests the whole."""

    def __init__(self, queues: QueueTable, total: int, guarantee: Sequence[int], ceiling: Sequence[int]) -> None:
        self._queues, self._total, self._guarantee, self._ceiling = queues, total, guarantee, ceiling
        self._result: dict[int, Fraction] = {}

    def by_weight(self) -> dict[int, Fraction]:
        """Return the share of each queue."""
        root = self._queues.index.get("root", NONE)
        whole = Fraction(self._total)
        if root != NONE:
            self._result[root] = whole = min(whole, Fraction(self._ceiling[root]))
        tops = [row for row, above in enumerate(self._queues.above.tolist()) if row != root and above in {NONE, root}]
        self._divide(tops, Fraction(self._total) if root == NONE else whole, whole)
        return self._result

    def _divide(self, rows: Sequence[int], whole: Fraction, available: Fraction) -> None:
        """Divide a whole among sibling queues, of which ``available`` is the limit, and then among those below them."""
        guaranteed = sum(self._guarantee[row] for row in rows)
        limits = [
            min(Fraction(self._ceiling[row]), max(available - guaranteed, Fraction(0)) + self._guarantee[row])
            for row in rows
        ]
        least = [min(Fraction(self._guarantee[row]), limit) for row, limit in zip(rows, limits, strict=True)]
        busy = [self._has_leaf(row) for row in rows]
        most = [limit if active else low for limit, low, active in zip(limits, least, busy, strict=True)]
        weights = [int(self._queues.weight[row]) for row in rows]
        for row, share, limit, active in zip(rows, _level(weights, least, most, whole), limits, busy, strict=True):
            self._result[row] = share if active else Fraction(0)
            children = np.flatnonzero(self._queues.above == row).tolist()
            if children:
                self._divide(children, self._result[row], limit)

    def _has_leaf(self, row: int) -> bool:
        children = np.flatnonzero(self._queues.above == row).tolist()
        return any(map(self._has_leaf, children)) if children else self._queues.objects[row] is not None


def _level(
    weights: Sequence[int], least: Sequence[Fraction], most: Sequence[Fraction], total: Fraction
) -> list[Fraction]:
    """Return shares in proportion to weights, each between its bounds, that use up the total as far as the bounds allow."""

    def at(height: Fraction) -> list[Fraction]:
        return [max(low, min(weight * height, high)) for weight, low, high in zip(weights, least, most, strict=True)]

    if sum(most) <= total:
        return list(most)
    if sum(least) >= total:
        return list(least)
    heights = sorted(
        {
            Fraction(0),
            *(bound / weight for bounds in (least, most) for bound, weight in zip(bounds, weights, strict=True)),
        }
    )
    for low, high in pairwise(heights):
        before, after = sum(at(low)), sum(at(high))
        if before <= total <= after and before < after:  # the sum is linear between two neighbouring heights
            return at(low + (high - low) * (total - before) / (after - before))
    return list(most)
