"""When and where a gang that does not fit yet will fit, and what of the room there others may use until then.

The rule is that of batch systems (EASY backfilling): the earliest moment is reckoned from what is free and from when what
runs will end; room on the nodes of that moment is kept, and only who is gone by then, or leaves enough over, may have it.
An end that nobody declared is guessed to choose the nodes, and for nothing else: room is never lent out against a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows


@dataclass(frozen=True, eq=False)
class Part:
    """Equal tasks of a gang: what each requests (R,), how many there are, and the (N,) nodes that may take them."""

    request: Ints
    count: int
    nodes: Mask


@dataclass(frozen=True, eq=False)
class Leaving:
    """M tasks that will give room back: where, how much (R, M), and when (seconds); guesses where ``known`` is false."""

    node: Rows
    request: Ints
    end: Floats
    known: Mask

    def pick(self, which: Mask | Rows) -> "Leaving":
        """Some of them."""
        return Leaving(self.node[which], self.request[:, which], self.end[which], self.known[which])


@dataclass(frozen=True, eq=False)
class Hold:
    """Room that is kept for a gang."""

    nodes: Rows
    """Where it will run."""
    needed: Ints
    """(R, N): what it takes there."""
    kept: Ints
    """(R, N): what of that must stay free from now on."""
    start: float
    """When it can begin, as far as one can tell, in seconds."""
    until: float
    """Who has ended by this moment does not delay it, in seconds: it cannot begin earlier in any case."""
    certain: bool
    """Whether ``start`` rests on declared ends alone."""


def hold(free: Ints, parts: Sequence[Part], leaving: Leaving, now: float) -> Hold | None:
    """Plan a gang on (R, N) free room; None if it would not fit if everything had ended."""
    parts = sorted(parts, key=lambda part: (-part.request).tolist())
    anywhere = np.zeros(free.shape[1], dtype=np.bool_)
    for part in parts:
        anywhere |= part.nodes
    leaving = leaving.pick(anywhere[leaving.node])
    leaving = leaving.pick(np.lexsort((*leaving.request, leaving.node, leaving.end)))  # not in the order of arrival
    found = _earliest(free, parts, leaving)
    if found is None:
        return None
    ended, then = found
    needed = _place(parts, then, free)
    if needed is None:
        return None
    nodes = np.flatnonzero(needed.any(axis=0))
    there = leaving.pick(np.isin(leaving.node, nodes))
    until = _no_earlier(free, needed, nodes, there, now)
    in_time = there.pick(there.known & (there.end <= until))
    kept = np.clip(needed - _sums(free, in_time), 0, np.maximum(free, 0))
    start = now if not ended else max(float(leaving.end[ended - 1]), now)
    known = there.pick(there.known & (there.end <= start))
    certain = bool((free + _sums(free, known) >= needed)[:, nodes].all())
    return Hold(nodes, needed, kept, start, until, certain)


def _sums(like: Ints, leaving: Leaving) -> Ints:
    """(R, N): what these tasks give back on each node."""
    sums = np.zeros_like(like)
    for dim in range(len(like)):
        if leaving.request[dim].any():
            weights = leaving.request[dim].astype(np.float64)  # exact: amounts of a node are far below 2**53
            sums[dim] = np.bincount(leaving.node, weights, minlength=like.shape[1]).astype(np.int64)
    return sums


def _capacity(part: Part, free: Ints) -> Ints:
    """(N,): how many of the part's tasks each node takes."""
    dims = np.flatnonzero(part.request)
    if not len(dims):
        return np.where(part.nodes, part.count, 0)
    each = (np.maximum(free[dims], 0) // part.request[dims, None]).min(axis=0)
    return np.where(part.nodes, np.minimum(each, part.count), 0)


def _fits(parts: Sequence[Part], then: Ints, now: Ints) -> bool:
    if any(int(_capacity(part, then).sum()) < part.count for part in parts):
        return False
    return len(parts) == 1 or _place(parts, then, now) is not None


def _earliest(free: Ints, parts: Sequence[Part], leaving: Leaving) -> tuple[int, Ints] | None:
    """After how many ends the gang fits, and the room that is free then."""
    if _fits(parts, free, free):
        return 0, free
    low, high, at_low = 0, len(leaving.end), free
    if not _fits(parts, free + _sums(free, leaving), free):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        then = at_low + _sums(free, leaving.pick(np.arange(low, middle)))
        if _fits(parts, then, free):
            high = middle
        else:
            low, at_low = middle, then
    return high, at_low + _sums(free, leaving.pick(np.arange(low, high)))


def _place(parts: Sequence[Part], then: Ints, now: Ints) -> Ints | None:
    """(R, N): what the gang takes of the room that is free then, on nodes that have most of it free now; None if it is too much.

    So what has become free for it counts for the choice, and the choice stays.
    """
    needed = np.zeros_like(then)
    for part in parts:
        dims = np.flatnonzero(part.request)
        room = _capacity(part, then - needed)
        wanted = part.request[dims, None]
        ready = (np.maximum(now - needed, 0)[dims] / wanted).min(axis=0) if len(dims) else room.astype(np.float64)
        order = np.lexsort((np.arange(len(room)), -np.minimum(ready, room)))
        order = order[room[order] > 0]
        taken = np.minimum(np.cumsum(room[order]), part.count)
        if not len(order) or taken[-1] < part.count:
            return None
        needed[:, order] += part.request[:, None] * np.diff(taken, prepend=0)
    return needed


def _no_earlier(free: Ints, needed: Ints, nodes: Rows, there: Leaving, now: float) -> float:
    """The earliest moment at which the nodes can be ready, should all whose end is not known end this moment."""
    ready = free + _sums(free, there.pick(~there.known))
    latest = now
    late = nodes[(ready < needed)[:, nodes].any(axis=0)]
    known = there.pick(there.known)
    for node in late.tolist():
        room = ready[:, node].copy()
        for place in np.flatnonzero(known.node == node).tolist():  # in the order of their ends
            room += known.request[:, place]
            if (room >= needed[:, node]).all():
                latest = max(latest, float(known.end[place]))
                break
    return latest
