"""The tree of queues as hierarchical dominant resource fairness sees it: who holds how much of the cluster, level by level.

Every job is a leaf below its queue, every queue a path below the root. A leaf's share is dominant: the largest fraction
of anything that it holds. Above the leaves shares are not simply added: what children hold that can still grow is scaled
down to the smallest of them by weight, so that a part of the tree is not made to wait for what only some of it got; what
a saturated child holds, which cannot grow any more, counts as it is.

Fractions are kept in whole numbers of a 2**-40th of the cluster, so that sums do not depend on the order of adding and
each change can be taken back exactly.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable

HIERARCHY = "volcanopy.io/hierarchy"
"""The queue annotation that says its path: ``root/eng/dev``."""
WEIGHTS = "volcanopy.io/hierarchy-weights"
"""The queue annotation that gives the weight of each step of the path: ``1/2/8``."""

Path = tuple[tuple[str, int], ...]
"""The names and weights of the steps below the root, from the top down."""
Standing = tuple[tuple[bool, float], ...]
"""How a queue stands, from the top down: whether that part of the tree is saturated, and its share by weight."""

_ONE = float(2**40)
_MANY = 64
"""Of more jobs that change at once all are weighed anew."""
_DIGITS = 9
"""Shares that agree to so many digits are equal."""


def path(queues: QueueTable, row: int) -> Path:
    """The queue's place in the tree: as its annotation says, else that of its line of parents, by the queues' weights.

    The first step of an annotated path is the root, whatever it is called. A weight that is missing, below one or no
    number is one.
    """
    queue = queues.objects[row]
    said = _annotations(queue)
    steps = [step.strip() for step in said.get(HIERARCHY, "").split("/") if step.strip()]
    if steps:
        weights = [_weight(text) for text in said.get(WEIGHTS, "").split("/")]
        weights += [1] * (len(steps) - len(weights))
        return tuple(zip(steps[1:], weights[1:], strict=False))
    line = [above for above in queues.lines[row].tolist()[::-1] if queues.names[above] != "root"]
    return tuple((queues.names[above], int(queues.weight[above])) for above in line)


def _annotations(queue: core.Queue | None) -> dict[str, str]:
    return {} if queue is None else dict(queue.metadata.annotations)


def _weight(text: str) -> int:
    return max(int(text), 1) if text.strip().isdigit() else 1


class Tree:
    """The shares of jobs and of all parts of the tree above them, for amounts held that may change.

    Its columns are first those of J jobs, then those of the N parts of the tree, of which the root is the first.
    """

    def __init__(
        self, paths: Sequence[Path], queue_of: Rows, request: Ints, held: Ints, total: Ints, outside: Ints
    ) -> None:
        """``queue_of`` (J,) is the queue of each job, NONE for those that take no part.

        ``request`` (R, J) is all that they ask for, ``held`` (R, J) what they have of it; ``total`` (R,) is the cluster's,
        ``outside`` (R,) what others than these jobs take of it.
        """
        self._jobs = len(queue_of)
        self._request, self._total = request, total
        known = np.flatnonzero(queue_of != NONE)
        self.held: Ints = held.copy()
        self._taken: Ints = outside + held[:, known].sum(axis=1)
        self._can_grow: Mask = self._taken < total
        self._per_unit: Floats = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
        self._grow(paths)
        width = self._jobs + len(self._weight)
        below = np.full(width, NONE, dtype=np.intp)
        below[known] = np.array([line[-1] if line else 0 for line in self._lines], dtype=np.intp)[queue_of[known]]
        below[self._jobs :] = self._above
        self._parent: Rows = below
        """(J + N,): the part of the tree that each is in."""
        order = np.argsort(below, kind="stable")
        starts = np.searchsorted(below[order], np.arange(len(self._weight) + 1))
        self._children = [order[one:other] for one, other in pairwise(starts.tolist())]
        self._members = known[np.argsort(below[known], kind="stable")]
        """The jobs that take part, those of one part of the tree together."""
        self._share: Floats = np.zeros(width, dtype=np.float64)
        self._saturated: Mask = np.ones(width, dtype=np.bool_)
        self._free: Floats = np.full(width, np.inf)
        """(J + N,): the share by weight of those that can grow and hold something, else infinite."""
        self._gives: Ints = np.zeros((width, 2, len(total)), dtype=np.int64)
        """(J + N, 2, R): what each adds to the part it is in: as it is, and as a direction yet to be scaled."""
        self._asks = self._parts_that_ask()
        self._rebuild()

    def _grow(self, paths: Sequence[Path]) -> None:
        """Number the parts of the tree; where queues disagree on a weight the largest holds.

        The jobs of a queue that has queues below it are to those as one more queue, of weight one.
        """
        inner = {one[:length] for one in map(_names, paths) for length in range(len(one))}
        numbers: dict[tuple[str, ...], int] = {(): 0}
        weight, above = [1], [NONE]
        self._lines: list[list[int]] = []
        for one in paths:
            steps = (*one, ("", 1)) if _names(one) in inner else one
            line = []
            for depth in range(1, len(steps) + 1):
                name, said = _names(steps[:depth]), steps[depth - 1][1]
                if name not in numbers:
                    numbers[name] = len(weight)
                    weight.append(said)
                    above.append(numbers[name[:-1]])
                weight[numbers[name]] = max(weight[numbers[name]], said)
                line.append(numbers[name])
            self._lines.append(line)
        self._weight, self._above = weight, above
        self._depth = [0] * len(weight)
        for part in range(1, len(weight)):
            self._depth[part] = self._depth[above[part]] + 1

    # Questions

    def standing(self, queue: int) -> Standing:
        """How the queue stands: queues that are smaller in this, compared from the top down, come first."""
        found = []
        for part in self._lines[queue]:
            column = self._jobs + part
            by_weight = round(float(self._share[column]) / self._weight[part], _DIGITS)
            found.append((bool(self._saturated[column]), by_weight))
        return tuple(found)

    def comes_before(self, one: int, other: int) -> bool:
        """Whether one queue stands better than another as far down as both paths go."""
        mine, theirs = self.standing(one), self.standing(other)
        depth = min(len(mine), len(theirs))
        return mine[:depth] < theirs[:depth]

    def fair(self, queue: int) -> float:
        """The fraction of the cluster that the queue's weights give it among all parts of the tree that ask for something."""
        fraction, asks = 1.0, self._asks
        for part in self._lines[queue]:
            siblings = self._children[self._above[part]] - self._jobs
            rivals = sum(self._weight[other] for other in siblings.tolist() if other >= 0 and asks[other])
            own = self._weight[part]
            fraction *= own / (rivals if asks[part] else rivals + own)
        return fraction

    def _parts_that_ask(self) -> Mask:
        """(N,): the parts of the tree with jobs that ask for something."""
        asks = np.zeros(len(self._weight), dtype=np.bool_)
        jobs = (self._parent[: self._jobs] != NONE) & self._request.any(axis=0)
        for part in np.unique(self._parent[: self._jobs][jobs]).tolist():
            asks[list(self._up(part))] = True
        return asks

    # Changes

    def follow(self, held: Ints) -> bool:
        """Take over what the (R, J) jobs hold now; whether anything is different."""
        changed = np.flatnonzero((held != self.held).any(axis=0))
        if len(changed):
            self.move(changed, held[:, changed] - self.held[:, changed])
        return bool(len(changed))

    def move(self, jobs: Rows, amounts: Ints) -> None:
        """Let jobs (each once) hold (R, jobs) more. The opposite amounts take it back exactly."""
        self.held[:, jobs] += amounts
        inside = self._parent[jobs] != NONE
        self._taken += amounts[:, inside].sum(axis=1)
        can_grow = self._taken < self._total
        if (can_grow != self._can_grow).any() or len(jobs) > _MANY:
            self._can_grow = can_grow
            self._rebuild()
            return
        parts = set()
        for job in jobs[inside].tolist():
            self._weigh_job(job)
            parts.add(int(self._parent[job]))
        self._weigh_parts(parts)

    def _rebuild(self) -> None:
        """Weigh everything."""
        jobs = self._members
        held, request = self.held[:, jobs], self._request[:, jobs]
        lacks = request > held
        blocked = lacks & (held > 0) & ~self._can_grow[:, None]
        saturated: Mask = np.logical_or(~lacks.any(axis=0), blocked.any(axis=0))
        fractions = held * self._per_unit[:, None]
        share = fractions.max(axis=0)
        grows = ~saturated & (share > 0)
        self._share[jobs], self._saturated[jobs] = share, saturated
        self._free[jobs] = np.where(grows, share, np.inf)
        direction = np.divide(fractions, share, out=np.zeros_like(fractions), where=grows)
        gives = np.rint(np.stack([np.where(saturated, fractions, 0.0), direction]) * _ONE).transpose(2, 0, 1)
        self._gives[jobs] = gives
        self._gives[self._jobs :] = 0
        sums = np.zeros((len(self._weight), *self._gives.shape[1:]), dtype=np.int64)
        parts, starts = np.unique(self._parent[jobs], return_index=True)
        if len(jobs):
            sums[parts] = np.add.reduceat(gives.astype(np.int64), starts, axis=0)
        self._sums: list[list[list[int]]] = sums.tolist()
        self._weigh_parts(range(len(self._weight)))

    def _weigh_job(self, job: int) -> None:
        """A job is saturated if it lacks nothing, or lacks more of something that it holds and the cluster has no more of."""
        held = self.held[:, job].tolist()
        lacks = [asked > has for asked, has in zip(self._request[:, job].tolist(), held, strict=True)]
        ends = self._can_grow.tolist()
        blocked = any(lack and has > 0 and not more for lack, has, more in zip(lacks, held, ends, strict=True))
        fractions = [has * unit for has, unit in zip(held, self._per_unit.tolist(), strict=True)]
        self._note(job, fractions, blocked or not any(lacks))

    def _weigh_parts(self, parts: Iterable[int]) -> None:
        """Weigh these parts of the tree and all above them, the deepest first."""
        waiting = {part for one in parts for part in self._up(one)}
        for part in sorted(waiting, key=lambda part: -self._depth[part]):
            if self._above[part] != NONE:
                children = self._children[part]
                smallest = min(1.0, float(self._free[children].min(initial=np.inf)))
                as_it_is, scaled = self._sums[part]
                fractions = [(one + smallest * other) / _ONE for one, other in zip(as_it_is, scaled, strict=True)]
                self._note(self._jobs + part, fractions, bool(self._saturated[children].all()))

    def _note(self, column: int, fractions: list[float], saturated: bool) -> None:
        """Note what a job or a part of the tree holds, as fractions of the cluster, also where it is in."""
        share = max(fractions)
        grows = share > 0 and not saturated
        weight = self._weight[column - self._jobs] if column >= self._jobs else 1
        self._share[column], self._saturated[column] = share, saturated
        self._free[column] = share / weight if grows else np.inf
        gives = (
            [round(fraction * _ONE) if saturated else 0 for fraction in fractions],
            [round(fraction / share * weight * _ONE) if grows else 0 for fraction in fractions],
        )
        sums = self._sums[int(self._parent[column])]
        for total, new, old in zip(sums, gives, self._gives[column].tolist(), strict=True):
            for place, (units, before) in enumerate(zip(new, old, strict=True)):
                total[place] += units - before
        self._gives[column] = gives

    def _up(self, part: int) -> Iterable[int]:
        while part != NONE:
            yield part
            part = self._above[part]


def _names(steps: Path) -> tuple[str, ...]:
    return tuple(name for name, _ in steps)
