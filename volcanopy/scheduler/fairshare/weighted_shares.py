"""Water-filling: how an amount is divided by weight among those who want some of it, and level by level down a tree.

Everybody gets the same for each unit of weight, but nobody less than is kept for them nor more than they can use; what
one cannot use flows to the others. The numbers are exact: whole units are handed out, and where the weights leave
fractions the units that remain go to the largest of them, of equals to the first by name.
"""

from collections.abc import Sequence

import numpy as np

from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable


def deserved_by_weight(
    total: Ints,
    weight: Ints,
    requested: Ints,
    guarantee: Ints,
    limit: Ints,
    active: Mask,
    names: Sequence[str] | None = None,
) -> Ints:
    """(R, Q): what each of Q queues deserves of an (R,) total; the tables are (R, Q).

    A queue deserves its guarantee, whether it asks for it or not, and beyond that no more than it requests; its limit is
    never passed. What is guaranteed to a queue that is not ``active`` is kept out of the others' shares.
    """
    least = np.minimum(guarantee, limit)
    most = np.where(active, np.minimum(np.maximum(requested, guarantee), limit), least)
    shares = [
        divided(int(whole), weight, low, high, names) for whole, low, high in zip(total, least, most, strict=True)
    ]
    return np.where(active, np.array(shares, dtype=np.int64).reshape(requested.shape), 0)


def divided(total: int, weight: Ints, least: Ints, most: Ints, names: Sequence[str] | None = None) -> Ints:
    """(Q,): a total divided by weight, none getting less than ``least`` nor more than ``most``.

    If not even the least is there, that is what all get; if there is more than the most, that. Rounds freeze whoever
    would fall below the least or rise above the most, whichever errs by more in sum; the others divide the rest anew.
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
        # What freezing them would add to what their shares are in sum: a whole part, less a proper fraction.
        held = int(weight[wrong].sum())
        parts, fraction = divmod(held * over, weights)
        more = int(least[low].sum()) + int(most[high].sum()) - held * each - parts
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
    """The tree of queues, level by level, for dividing amounts down it.

    The jobs that a queue with queues below it has itself are to those as one more queue, of weight one.
    """

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        above = queues.above
        self._root = root = queues.index.get("root", NONE)
        tops = np.flatnonzero((above == NONE) | (above == root))
        self.groups: list[tuple[int, Rows]] = [(root, tops[tops != root])]
        """Each queue with queues below it, and these; from the top down. The first is the whole."""
        waiting = [row for row in self.groups[0][1].tolist() if queues.is_parent[row]]
        while waiting:
            parent = waiting.pop(0)
            children = np.flatnonzero(above == parent)
            if len(children):
                self.groups.append((parent, children))
                waiting += [row for row in children.tolist() if queues.is_parent[row]]

    @property
    def parents(self) -> Mask:
        """(Q,): the queues that are divided."""
        parents = np.zeros(len(self._queues), dtype=np.bool_)
        parents[[parent for parent, _ in self.groups if parent != NONE]] = True
        return parents

    def rolled_up(self, values: Ints) -> Ints:
        """(R, Q): amounts of queues, each with those of the queues below it."""
        rolled = values.copy()
        for parent, children in reversed(self.groups):
            if parent != NONE:
                rolled[:, parent] += rolled[:, children].sum(axis=1)
        return rolled

    def limits(self, whole: Ints, guarantee: Ints, ceiling: Ints) -> Ints:
        """(R, Q): the most that each queue can have of an (R,) whole when what is kept for its siblings is left to them."""
        limit = ceiling.copy()
        if self._root != NONE:
            limit[:, self._root] = np.minimum(limit[:, self._root], whole)
        for parent, children in self.groups:
            room = whole if parent == NONE else limit[:, parent]
            kept = guarantee[:, children]
            left = np.maximum(room - kept.sum(axis=1), 0)[:, None] + kept
            limit[:, children] = np.minimum(left, ceiling[:, children])
        return limit

    def fill(self, total: Ints, requested: Ints, guarantee: Ints, limit: Ints, active: Mask) -> tuple[Ints, Ints]:
        """What each queue deserves of an (R,) total, with all below it, and what its own jobs do: both (R, Q).

        ``requested`` (R, Q) and ``active`` (Q,) are of the queues' own jobs.
        """
        queues = self._queues
        wanted = self.rolled_up(requested)
        busy = self.rolled_up(active.astype(np.int64)[None, :])[0] > 0
        deserved, own = np.zeros_like(requested), np.zeros_like(requested)
        if self._root != NONE:
            deserved[:, self._root] = np.minimum(total, limit[:, self._root])
        for parent, children in self.groups:
            whole = total if parent == NONE else deserved[:, parent]
            rows = children if parent == NONE else np.append(children, parent)
            weight, kept, most = queues.weight[rows].copy(), guarantee[:, rows].copy(), limit[:, rows].copy()
            asked, runs = wanted[:, rows].copy(), busy[rows].copy()
            if parent != NONE:  # its own jobs
                weight[-1], kept[:, -1], most[:, -1] = 1, 0, whole
                asked[:, -1], runs[-1] = requested[:, parent], active[parent]
            names = [queues.names[row] for row in rows.tolist()]
            shares = deserved_by_weight(whole, weight, asked, kept, most, runs, names)
            deserved[:, children] = shares[:, : len(children)]
            if parent != NONE:
                own[:, parent] = shares[:, -1]
        return deserved, np.where(self.parents, own, deserved)
