"""Planning of reservations: when and where a gang that does not fit now will fit, and what others may use until then.

The rule is that of batch systems (EASY backfilling). The earliest start follows from the free resources and the ends of the
running tasks. Resources on the nodes of that start are reserved: other tasks may use them only if they end before, or if they
leave enough. What is released by then may be more than the gang lacks. So there are two choices of nodes: those where the most
is free now, which become free first if tasks end early, and those where the most is released by then, of which less must stay
free: that is enough for tasks that are likely to end by then, if the plan depends on known ends only. Ends that are not known
are guessed to choose the nodes. Resources are lent on a guess only while tasks run there that started before the gang or in the
first half of its wait, so that tasks that follow each other do not put it off for ever. The gangs that were planned before count
with what they release at the ends of their runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, Mask, Rows


@dataclass(frozen=True, eq=False)
class Part:
    """Equal tasks of a gang: what each requests (R,), how many there are, and the (N,) nodes that may take them."""

    request: Ints
    count: int
    nodes: Mask


class Leaving(NamedTuple):
    """M tasks that will end: where, how much they release (R, M), and when (seconds); estimates where ``known`` is false.

    ``earlier`` are those that started long before, as seen from the wait of the gang.
    """

    node: Rows
    request: Ints
    end: Floats
    known: Mask
    earlier: Mask

    def pick(self, which: Mask | Rows | slice) -> "Leaving":
        """Return some of them; a slice is not copied."""
        if isinstance(which, slice):
            return Leaving._make([column[..., which] for column in self])
        rows = which.nonzero()[0] if which.dtype == np.bool_ else which
        return Leaving._make([column.take(rows, axis=-1) for column in self])  # much faster than an index

    def joined(self, others: "Sequence[Leaving]") -> "Leaving":
        """Return them with others."""
        return Leaving._make(np.concatenate(columns, axis=-1) for columns in zip(self, *others, strict=True))


@dataclass(frozen=True, eq=False)
class Hold:
    """Resources reserved for a gang."""

    nodes: Rows  # The nodes that it will run on.
    needed: Ints  # (R, N): what it uses there.
    kept: Ints  # (R, N): what of that must stay free from now on.
    least: Ints
    """(R, N): what must stay free at least, on the nodes of another choice, so that the gang can start at that time."""
    start: float  # The expected start, in seconds.
    until: float  # Tasks that end before this time (seconds) do not delay it: it cannot start earlier in any case.
    likely: float
    """As ``until``, where earlier tasks without a known end run for their likely time. Later ones do not move it."""
    certain: bool  # Whether ``start`` depends on declared ends only.

    def released(self, run_time: float, known: bool) -> Leaving:
        """Return what the gang releases when it has run for some seconds from its start."""
        nodes = len(self.nodes)
        ends, certain = np.full(nodes, self.start + run_time), np.full(nodes, known and self.certain)
        return Leaving(self.nodes, self.needed[:, self.nodes], ends, certain, np.zeros(nodes, dtype=np.bool_))


def hold(free: Ints, parts: Sequence[Part], leaving: Leaving, now: float) -> Hold | None:
    """Plan a gang on (R, N) free resources; None if it would not fit even after all tasks have ended."""
    parts = sorted(parts, key=lambda part: (-part.request).tolist())
    anywhere = np.logical_or.reduce([part.nodes for part in parts])
    order = np.lexsort((*leaving.request, leaving.node, leaving.end))  # not in the order of arrival
    leaving = leaving.pick(order[anywhere[leaving.node[order]]])
    earliest = _earliest(free, parts, leaving)
    if earliest is None:
        return None
    start = now if not earliest else max(float(leaving.end[earliest - 1]), now)
    # What fits now takes as little as it can of the nodes where most is free: others need these.
    released = free + _sums(free, leaving.pick(slice(earliest)))
    placed = [_place(parts, released, free, None if earliest else free)]
    by_then = leaving.pick(slice(int(np.searchsorted(leaving.end, start, side="right"))))
    if earliest and by_then.known.any():  # all that end at that time count, not only as many as it takes
        certain = free + _sums(free, by_then.pick(by_then.known))
        placed.append(_place(parts, free + _sums(free, by_then), free, certain))
    plans = [_planned(free, needed, leaving, start, now) for needed in placed if needed is not None]
    if not plans:
        return None
    least = min((plans[0], *(plan for plan in plans[1:] if plan.certain)), key=_reserved_part).kept
    return replace(plans[0], kept=np.maximum(plans[0].kept, least), least=least)


def _reserved_part(plan: Hold) -> float:
    """Return the part of what a gang uses that is reserved from now on, of the resource where it is most."""
    needed = plan.needed.sum(axis=1)
    used = needed > 0
    return float((plan.kept.sum(axis=1)[used] / needed[used]).max(initial=0.0))


def _planned(free: Ints, needed: Ints, leaving: Leaving, start: float, now: float) -> Hold:
    """Return the plan of a gang that uses (R, N) amounts from ``start`` on."""
    is_used: Mask = np.logical_or.reduce(needed)
    nodes, there = is_used.nonzero()[0], leaving.pick(is_used[leaving.node])
    until = _no_earlier(free, needed, there, there.known, now)
    likely = _no_earlier(free, needed, there, there.known | there.earlier, now)
    in_time = there.pick(there.known & (there.end <= until))
    kept = np.clip(needed - _sums(free, in_time), 0, np.maximum(free, 0))
    known = there.pick(there.known & (there.end <= start))
    certain = bool((free + _sums(free, known) >= needed)[:, nodes].all())
    return Hold(nodes, needed, kept, kept, start, until, likely, certain)


def lacking_of_quota(axis: Axis, quota: QuotaMessage) -> tuple[Ints, Rows]:
    """Return the (R,) amounts that a limit lacks, and its short resources; a limit may concern some resources only."""
    dims = np.array([axis.index[name] for name in quota.names], dtype=np.intp)
    missing = np.zeros(len(axis), dtype=np.int64)
    missing[dims] = np.array(quota.requested) + np.array(quota.allocated) - np.array(quota.limit)
    return missing, dims[quota.short]


def released_at(leaving: Leaving, missing: Ints, short: Rows, now: float, otherwise: float) -> float:
    """Return when tasks whose ends are known have released (R,) amounts that a limit lacks of its ``short`` resources.

    Tasks that may end at any time count as gone, so that it is not earlier. If all together do not release enough, it is the
    last of their ends, or ``otherwise`` if that is earlier: the time does not move away as other tasks start.
    """
    missing = missing - leaving.request[:, ~leaving.known].sum(axis=1)
    known = leaving.pick(leaving.known)
    known = known.pick(np.argsort(known.end, kind="stable"))
    released = np.cumsum(known.request, axis=1) >= missing[:, None]
    short = short[missing[short] > 0]
    enough = released[short].all(axis=0)
    if not len(short):
        return now
    if enough.any():
        return float(known.end[enough.argmax()])
    return min(otherwise, float(known.end[-1])) if len(known.end) else 0.0


def _sums(like: Ints, leaving: Leaving) -> Ints:
    """(R, N): what these tasks release on each node."""
    sums = np.zeros(like.shape, dtype=np.int64)
    if len(leaving.node):
        for amounts, released in zip(sums, leaving.request, strict=True):  # much faster than all resources at once
            np.add.at(amounts, leaving.node, released)
    return sums


def _capacity(part: Part, free: Ints) -> Ints:
    """(N,): how many of the part's tasks fit on each node."""
    dims = part.request.nonzero()[0]
    fitting = (np.maximum(free[dims], 0) // part.request[dims, None]).min(axis=0, initial=part.count)
    return np.where(part.nodes, fitting, 0)


def has_capacity(part: Part, free: Ints) -> bool:
    """Return whether the part fits on (R, N) free resources."""
    return int(_capacity(part, free).sum()) >= part.count


def _fits(parts: Sequence[Part], then: Ints, now: Ints) -> bool:
    if not all(has_capacity(part, then) for part in parts):
        return False
    return len(parts) == 1 or _place(parts, then, now) is not None


def _earliest(free: Ints, parts: Sequence[Part], leaving: Leaving) -> int | None:
    """Return after how many ends the gang fits; None if it never does."""
    if _fits(parts, free, free):
        return 0
    low, high, at_low = 0, len(leaving.end), free
    if not _fits(parts, free + _sums(free, leaving), free):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        then = at_low + _sums(free, leaving.pick(slice(low, middle)))
        if _fits(parts, then, free):
            high = middle
        else:
            low, at_low = middle, then
    return high


def _place(parts: Sequence[Part], then: Ints, now: Ints, certain: Ints | None = None) -> Ints | None:
    """(R, N): what the gang uses of the resources free then; None if it does not fit.

    Nodes on which all of it is ``certain`` to be free then come first, those where the least is free now. Of others, and without
    it, those come first where the most is free now: what has become free counts for the choice, and the choice stays.
    """
    needed = np.zeros_like(then)
    for part in parts:
        dims = part.request.nonzero()[0]
        room = _capacity(part, then - needed)
        ready = (np.maximum(now - needed, 0)[dims] / part.request[dims, None]).min(axis=0, initial=np.inf)
        sure = np.zeros(len(room), dtype=np.bool_) if certain is None else _capacity(part, certain - needed) >= room
        order = np.lexsort((np.arange(len(room)), np.where(sure, ready, -np.minimum(ready, room)), ~sure))
        order = order[room[order] > 0]
        taken = np.minimum(np.cumsum(room[order]), part.count)
        if not len(order) or taken[-1] < part.count:
            return None
        needed[:, order] += part.request[:, None] * np.diff(taken, prepend=0)
    return needed


def _no_earlier(free: Ints, needed: Ints, there: Leaving, counted: Mask, now: float) -> float:
    """The earliest time at which the nodes can be ready, if all tasks ended now of which the ends are not ``counted``.

    Nodes count that become ready only by the tasks with counted ends.
    """
    ready = free + _sums(free, there.pick(~counted))
    is_late = np.logical_or.reduce(ready < needed)
    known = there.pick(counted & is_late[there.node])
    known = known.pick(np.argsort(known.node, kind="stable"))  # those of a node together, in the order of their ends
    freed, first = np.cumsum(known.request, axis=1), np.searchsorted(known.node, known.node)
    freed -= freed[:, first] - known.request[:, first]
    enough = np.logical_and.reduce(ready[:, known.node] + freed >= needed[:, known.node]).nonzero()[0]
    _, first = np.unique(known.node[enough], return_index=True)
    return float(known.end[enough[first]].max(initial=now))
