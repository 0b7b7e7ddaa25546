"""Shares and bounds of queues: fair shares by weight, and guarantees and limits with borrowing and lending.

Fair shares (water-filling), flat and level by level down a tree of queues: all queues get the same amount per unit of
weight, but at least their guarantee and at most what they can use; the rest is divided among the others. The shares are
whole units: units left over by rounding go to the largest fractions, of equal ones to the first by name.

Borrowing and lending limits are relative to the fair share of a queue: its ``deserved`` field. For resources that this
does not name, policies by weight use the share by weight when all queues request as much as they may, others the guarantee.
A borrowing limit becomes the limit ``deserved + borrowing limit``; a lending limit becomes the guarantee
``deserved - lending limit``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Mask, Rows, frozen
from volcanopy.scheduler.model.snapshot import NONE, QueueTable


@dataclass(frozen=True, eq=False)
class Bounds:
    """(R, Q): lower and upper bounds of the allocation of queues, including borrowing and lending limits."""

    reserved: Ints
    """Reserved for each queue, used or not: its guarantee, and what it does not lend."""
    limit: Ints
    """The limit of each queue: its capability, and fair share plus borrowing limit; UNLIMITED without."""
    fair_share: Ints | None = None
    """The fair shares that the limits are relative to; None where no queue has such limits."""

    def borrowed(self, queues: QueueTable, row: int) -> tuple[Ints, Ints] | None:
        """(R,): the fair share and the borrowing limit of a queue, UNLIMITED where that does not bind; None without."""
        if self.fair_share is None or queues.terms.lending is None:
            return None
        borrowing = queues.terms.lending.borrowing[:, row]
        fair_share = self.fair_share[:, row]
        binds = (borrowing < UNLIMITED) & (
            self.limit[:, row] == fair_share + np.minimum(borrowing, UNLIMITED - fair_share)
        )
        return (fair_share, np.where(binds, borrowing, UNLIMITED)) if binds.any() else None


@dataclass(frozen=True, eq=False)
class Shares:
    """How a policy divides the cluster among queues: (R, Q) amounts. What follows from them is the same for all policies.

    A queue may be allocated its fair share, borrow idle resources up to its limit, and lend its share except the guarantee.
    """

    fair: Ints
    """The fair share of each queue; in a tree with its descendants."""
    limit: Ints
    """The most that may be allocated; UNLIMITED without a limit."""
    guarantee: Ints
    """Reserved for each queue, used or not: its guarantee, and what it does not lend."""
    tree: bool = False
    """Whether what is allocated to a queue counts for its ancestors as well."""
    protected: Ints | None = None
    """What queues keep above their fair shares although others reclaim, for their credit; None for nothing."""
    paid_back: Ints | None = None
    """What queues may be allocated above their fair shares for their credit; None for nothing."""
    own: Ints | None = None
    """The fair shares of the own jobs of queues, where parents have jobs too; None where those of queues hold for them."""
    own_paid_back: Ints | None = None
    """As ``paid_back``, for ``own``."""
    fractions: Floats | None = None
    """(Q,): ``own`` as fractions of the cluster, where dominant shares are compared instead of amounts."""
    named: Mask | None = None
    """Where a queue has a fair share: others are unlimited, except for a queue without any; None for all."""
    reported: Ints | None = None
    """The fair shares of queues with their descendants, as statuses show them; None for ``fair``."""
    bounds: Bounds | None = None
    """The limits before the guarantees of others are reserved, for messages; None for those of ``limit``."""
    admission: Ints | None = None
    """The limits for the minimum of jobs that wait for admission; None if the policy neither admits nor rejects jobs."""
    lines: Sequence[list[int]] | None = None
    """Each queue with the ancestors whose limits and shares count for it; None for all in a tree, none else."""
    leaves_only: bool = False
    """Whether only queues below the root without children take jobs."""
    enforced: bool = True
    """Whether limits and guarantees apply to allocations."""
    binding: bool = True
    """Whether fair shares apply to allocations; else nodes are reserved for more than its share only for the first queue."""
    passed_over: bool = False
    """Whether a queue with its whole share allocated is passed over until all others have been considered."""
    any_resource: bool = False
    """Whether a share of any requested resource suffices to reclaim; else all must be within the share."""
    levels: int | None = None
    """How many levels of ancestors reclaim considers; None for all."""
    reclaims: Callable[[Any, Sequence[Any]], Sequence[Any]] | None = None
    """Which candidates a task may reclaim by the policy's own order of queues; None for all."""
    device_limits: bool = False
    """Whether capabilities limit the devices that pods claim."""
    device_capacities: bool = False
    """Whether capabilities limit the capacities of devices that pods claim, too."""


@dataclass(frozen=True, eq=False)
class QueueShares:
    """(R, Q): the current shares of queues with their children, as a policy computes them for reports."""

    fair_share: Ints
    """Fair share."""
    limit: Ints
    """Most that may be allocated; UNLIMITED without a limit."""
    reserved: Ints
    """Reserved, used or not: the guarantee, and what is not lent."""
    devices: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """By row of the queue: the devices that its claims hold, by the name of the capability that limits them."""


def fair_shares_by_weight(
    total: Ints,
    weight: Ints,
    requested: Ints,
    guarantee: Ints,
    limit: Ints,
    active: Mask,
    names: Sequence[str] | None = None,
) -> Ints:
    """(R, Q): the fair share of each of Q queues in an (R,) total; the tables are (R, Q).

    It is at least the guarantee, else at most the request, and never above the limit. The guarantee of a queue that is
    not ``active`` is not divided among the others.
    """
    least = np.minimum(guarantee, limit)
    most = np.where(active, np.minimum(np.maximum(requested, guarantee), limit), least)
    if (least.sum(axis=1) < total).all() and (most <= total[:, None]).all() and (most.sum(axis=1) <= total).all():
        return np.where(active, most, 0)  # there is enough of everything
    shares = [
        divided(int(whole), weight, low, high, names) for whole, low, high in zip(total, least, most, strict=True)
    ]
    return np.where(active, np.array(shares, dtype=np.int64).reshape(requested.shape), 0)


def divided(total: int, weight: Ints, least: Ints, most: Ints, names: Sequence[str] | None = None) -> Ints:
    """(Q,): a total divided by weight, each share between ``least`` and ``most``.

    1. If the total is below the sum of ``least`` or above that of ``most``, return these.
    2. Divide the rest by weight among the queues that are not frozen.
    3. Freeze those below ``least`` or those above ``most``, whichever deviate more in sum; repeat from 2 until none do.
    4. Give the units left over by rounding to the largest fractions.
    """
    most = np.minimum(np.maximum(most, least), np.maximum(least, total))
    if int(least.sum()) >= total or not (most > least).any():
        return least.copy()
    if int(most.sum()) <= total:
        return most.copy()
    given = least.copy()
    free: Mask = np.ones(len(weight), dtype=np.bool_)
    while True:
        rest, weights = total - int(given[~free].sum()), int(weight[free].sum())
        each, over = divmod(rest, weights)
        share = weight * each + weight * over // weights
        broken = weight * over % weights > 0
        low, high = free & (share < least), free & ((share > most) | ((share == most) & broken))
        wrong = low | high
        if not wrong.any():
            break
        # The change of their sum by freezing them: a whole part, less a proper fraction.
        wrong_weight = int(weight[wrong].sum())
        parts, fraction = divmod(wrong_weight * over, weights)
        more = int(least[low].sum()) + int(most[high].sum()) - wrong_weight * each - parts
        frozen = wrong if more == 0 and not fraction else (low if more > 0 else high)
        given = np.where(frozen, np.where(low, least, most), given)
        free = free & ~frozen
        if not free.any():
            return given
    given = np.where(free, share, given)
    left = total - int(given.sum())
    if left:
        remainders = np.where(free, weight * over % weights, 0)
        order = sorted(range(len(weight)), key=lambda row: (-int(remainders[row]), names[row] if names else row))
        given[order[:left]] += 1
    return given


class Levels:
    """The tree of queues, level by level. The own jobs of a parent queue count as one more child, of weight one."""

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        self._root = root = queues.index.get("root", NONE)
        tops = np.flatnonzero((queues.above == NONE) | (queues.above == root))
        below_tops = [family for family in queues.families if family[0] != root]
        self.groups: list[tuple[int, Rows]] = [(root, tops[tops != root]), *below_tops]
        """Each parent queue with its children, from the top down; the first is the root."""

    @property
    def lines(self) -> list[list[int]]:
        """(Q,): each queue with its ancestors, without the root."""
        lines = self._queues.line_lists
        return [[row, *(above for above in line[1:] if above != self._root)] for row, line in enumerate(lines)]

    @property
    def parents(self) -> Mask:
        """(Q,): the queues with children."""
        parents = np.zeros(len(self._queues), dtype=np.bool_)
        parents[[parent for parent, _ in self.groups if parent != NONE]] = True
        return parents

    def inherited(self, capability: Ints) -> Ints:
        """(R, Q): the capabilities of queues, where these have none those of their parents."""
        inherited = capability.copy()
        for parent, children in self.groups:
            if parent != NONE:
                own = inherited[:, children]
                inherited[:, children] = np.where(own == UNLIMITED, inherited[:, parent, None], own)
        return inherited

    def _demand(self, requested: Ints, guarantee: Ints, limit: Ints) -> Ints:
        """(R, Q): what queues request with their descendants; the guarantee of an idle descendant is part of it."""
        demand = requested.copy()
        for parent, children in reversed(self.groups):
            if parent != NONE:
                least = np.minimum(np.maximum(demand[:, children], guarantee[:, children]), limit[:, children])
                demand[:, parent] += np.maximum(demand[:, children], least).sum(axis=1)
        return demand

    def limits(self, whole: Ints, guarantee: Ints, ceiling: Ints) -> Ints:
        """(R, Q): the limit of each queue in an (R,) whole of which the guarantees of its siblings are reserved."""
        limit = ceiling.copy()
        if self._root != NONE:
            limit[:, self._root] = np.minimum(limit[:, self._root], whole)
        for parent, children in self.groups:
            available = whole if parent == NONE else limit[:, parent]
            reserved = guarantee[:, children]
            left = np.maximum(available - reserved.sum(axis=1), 0)[:, None] + reserved
            limit[:, children] = np.minimum(left, ceiling[:, children])
        return limit

    def fill(self, total: Ints, requested: Ints, guarantee: Ints, limit: Ints, active: Mask) -> tuple[Ints, Ints]:
        """Return the fair share of each queue with its descendants in an (R,) total, and that of its own jobs: (R, Q).

        ``requested`` (R, Q) and ``active`` (Q,) are of the queues' own jobs.
        """
        queues = self._queues
        tree_requested = self._demand(requested, guarantee, limit)
        busy = queues.rolled_up(active.astype(np.int64)[None, :])[0] > 0
        fair_share, own = np.zeros_like(requested), np.zeros_like(requested)
        if self._root != NONE:
            fair_share[:, self._root] = np.minimum(total, limit[:, self._root])
        for parent, children in self.groups:
            whole = total if parent == NONE else fair_share[:, parent]
            rows = children if parent == NONE else np.append(children, parent)
            weight, reserved, most = queues.weight[rows].copy(), guarantee[:, rows].copy(), limit[:, rows].copy()
            request, is_active = tree_requested[:, rows].copy(), busy[rows].copy()
            if parent != NONE:  # its own jobs
                weight[-1], reserved[:, -1], most[:, -1] = 1, 0, whole
                request[:, -1], is_active[-1] = requested[:, parent], active[parent]
            names = [queues.names[row] for row in rows.tolist()]
            shares = fair_shares_by_weight(whole, weight, request, reserved, most, is_active, names)
            fair_share[:, children] = shares[:, : len(children)]
            if parent != NONE:
                own[:, parent] = shares[:, -1]
        return fair_share, np.where(self.parents, own, fair_share)


def capability(queues: QueueTable) -> Ints:
    """(R, Q): the capability of each queue; UNLIMITED where it is not given, or is zero for cpu or memory."""
    unlimited = ~queues.capability_set
    unlimited[:2] |= queues.capability.values[:2] <= 0
    return np.where(unlimited, UNLIMITED, queues.capability.values)


def bounds(total: Ints, queues: QueueTable, *, by_weight: bool, in_tree: bool, alone: bool = False) -> Bounds:
    """The bounds of queues in a cluster of an (R,) total, read-only.

    ``by_weight``: shares that ``deserved`` does not name follow from weights. ``in_tree``: what a queue does not lend is
    reserved in its ancestors as well. ``alone``: without guarantees and capabilities.
    """
    arguments = by_weight, in_tree, alone
    return queues.lasting(("bounds", *arguments), (total, queues.guarantee), lambda: _bounds(total, queues, *arguments))


def _bounds(total: Ints, queues: QueueTable, by_weight: bool, in_tree: bool, alone: bool) -> Bounds:
    limits = queues.terms.lending
    guarantee, limit = queues.guarantee.values, capability(queues)
    if alone:
        guarantee, limit = np.zeros_like(guarantee), np.full_like(limit, UNLIMITED)
    if limits is None:
        return Bounds(frozen(guarantee), frozen(limit))
    fair_share = np.maximum(queues.deserved.values, guarantee)
    if by_weight:
        fair_share = np.where(queues.deserved_set, fair_share, by_weights(total, queues, guarantee, limit))
    limit = np.minimum(limit, fair_share + np.minimum(limits.borrowing, UNLIMITED - fair_share))
    lends = limits.lending < UNLIMITED
    reserved = np.where(lends, np.maximum(guarantee, fair_share - limits.lending), guarantee)
    reserved = np.minimum(reserved, np.maximum(limit, guarantee))
    reserved = queues.covering(reserved, lends) if in_tree else reserved
    return Bounds(frozen(reserved), frozen(limit), fair_share)


def by_weights(total: Ints, queues: QueueTable, guarantee: Ints, limit: Ints) -> Ints:
    """(R, Q): the share of each queue when all request as much as they may."""
    levels = Levels(queues)
    leaves: Mask = np.array([queue is not None for queue in queues.objects], dtype=np.bool_) & ~levels.parents
    requested = np.where(leaves, total[:, None], 0)
    return levels.fill(total, requested, guarantee, levels.limits(total, guarantee, limit), leaves)[0]
