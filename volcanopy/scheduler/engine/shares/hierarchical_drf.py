"""The tree of queues for hierarchical dominant resource fairness (HDRF).

Jobs are the leaves; each is below its queue, and each queue is a path below the root. The share of a job is dominant: the
largest fraction of any resource that it has. Above the leaves shares are not summed directly: the allocations of children
that can still grow are scaled down to the smallest of them by weight, so that a part of the tree does not wait because
only some of it was served. The allocations of saturated children, which cannot grow any more, count unscaled.

Fractions are integers in units of 2**-40 of the cluster, so that sums do not depend on the order of addition and each
change can be undone exactly.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from volcanopy.api import names
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable

Path = tuple[tuple[str, int], ...]  # The names and weights of the steps below the root, from the top down.
SharePath = tuple[tuple[bool, float], ...]
"""For each part of the tree from the top down to a queue: whether it is saturated, and its share by weight."""

_UNIT = float(2**40)


def path(queues: QueueTable, row: int) -> Path:
    """Return the path of a queue: that of its annotation, else its parents with the weights of the queues.

    Annotations are a path such as ``root/eng/dev``, of which the first step is the root, whatever its name, and the weight of
    each step such as ``1/2/8``: one where it is missing or invalid.
    """
    queue = queues.objects[row]
    annotations = {} if queue is None else queue.metadata.annotations
    steps = [step.strip() for step in annotations.get(names.HIERARCHY, "").split("/") if step.strip()]
    if steps:
        weights = [_weight(text) for text in annotations.get(names.HIERARCHY_WEIGHTS, "").split("/")]
        weights += [1] * (len(steps) - len(weights))
        return tuple(zip(steps[1:], weights[1:], strict=False))
    line = [above for above in queues.lines[row].tolist()[::-1] if queues.names[above] != "root"]
    return tuple((queues.names[above], int(queues.weight[above])) for above in line)


def _weight(text: str) -> int:
    return max(int(text), 1) if text.strip().isdigit() else 1


class Tree:
    """The shares of jobs and of all parts of the tree above them, updated with the allocations.

    The columns are those of J jobs, then those of the N parts of the tree, of which the root is the first.
    """

    def __init__(
        self, paths: Sequence[Path], queue_of: Rows, request: Ints, allocated: Ints, total: Ints, outside: Ints
    ) -> None:
        """``queue_of`` (J,) is the queue of each job, NONE for those that take no part.

        ``request`` (R, J) is the whole request of jobs, ``allocated`` (R, J) what they have of it; ``total`` (R,) is that
        of the cluster, ``outside`` (R,) what other pods use of it.
        """
        self._jobs = len(queue_of)
        self._request, self._total = request, total
        known = np.flatnonzero(queue_of != NONE)
        self.allocated: Ints = allocated.copy()
        self._used: Ints = outside + allocated[:, known].sum(axis=1)
        self._can_grow: Mask = self._used < total
        self._per_unit: Floats = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
        self.rebuilds = 0  # How often all shares changed, since a resource of the cluster was used up or became free.
        self._grow(paths)
        width = self._jobs + len(self._weight)
        below = np.full(width, NONE, dtype=np.intp)
        below[known] = np.array([line[-1] if line else 0 for line in self.lines], dtype=np.intp)[queue_of[known]]
        below[self._jobs :] = self._above
        self._parent: Rows = below  # (J + N,): the part of the tree above each.
        order = np.argsort(below, kind="stable")
        starts = np.searchsorted(below[order], np.arange(len(self._weight) + 1))
        self._children = [order[start:end] for start, end in pairwise(starts.tolist())]
        self._members = known[np.argsort(below[known], kind="stable")]
        """The jobs that take part, ordered by part of the tree."""
        self._share: Floats = np.zeros(width, dtype=np.float64)
        self._saturated: Mask = np.ones(width, dtype=np.bool_)
        self._free: Floats = np.full(width, np.inf)
        """(J + N,): the share by weight of those that can grow and have an allocation, else infinite."""
        self._added: Ints = np.zeros((width, 2, len(total)), dtype=np.int64)
        """(J + N, 2, R): what each adds to the part above it: unscaled, and to be scaled."""
        self._has_request = self._parts_with_requests()
        self._rebuild()

    def _grow(self, paths: Sequence[Path]) -> None:
        """Number the parts of the tree; of different weights for one part the largest counts.

        The own jobs of a parent queue count as one more child, of weight one.
        """
        inner = {names[:length] for names in map(_names, paths) for length in range(len(names))}
        numbers: dict[tuple[str, ...], int] = {(): 0}
        weight, above, depths = [1], [NONE], [0]
        self.lines: list[list[int]] = []
        """The parts of the tree from the top down to each queue, for a queue with children down to its own jobs."""
        for path_ in paths:
            steps = (*path_, ("", 1)) if _names(path_) in inner else path_
            line = []
            for depth in range(1, len(steps) + 1):
                name, own = _names(steps[:depth]), steps[depth - 1][1]
                if name not in numbers:
                    numbers[name] = len(weight)
                    weight.append(own)
                    above.append(numbers[name[:-1]])
                    depths.append(depth)
                weight[numbers[name]] = max(weight[numbers[name]], own)
                line.append(numbers[name])
            self.lines.append(line)
        self._weight, self._above, self._depth = weight, above, depths
        self._part: Rows = np.array([numbers[_names(path_)] for path_ in paths], dtype=np.intp)
        """(Q,): the part of the tree of each queue with its descendants."""

    def share_path(self, queue: int, due: Floats | None = None) -> SharePath:
        """Return the sort key of a queue, to be compared from the top down; smaller comes first.

        ``due`` (N,) is what the parts of the tree get beside their shares, as fractions of the cluster.
        """
        path_ = []
        for part in self.lines[queue]:
            column = self._jobs + part
            share = float(self._share[column]) - (0.0 if due is None else float(due[part]))
            path_.append((bool(self._saturated[column]), round(share / self._weight[part], defaults.EQUAL_DIGITS)))
        return tuple(path_)

    def of_parts(self, amounts: Floats) -> Floats:
        """(N,): amounts of the parts of the tree; ``amounts`` (Q,) are those of queues with their descendants.

        That of a part without a queue is the sum over the parts below it.
        """
        sums, has_queue = np.zeros(len(self._weight)), np.zeros(len(self._weight), dtype=np.bool_)
        np.add.at(sums, self._part, amounts)
        has_queue[self._part] = True
        for part in sorted(range(1, len(sums)), key=lambda part: -self._depth[part]):
            if not has_queue[self._above[part]]:
                sums[self._above[part]] += sums[part]
        return sums

    def is_before(self, queue: int, other: int) -> bool:
        """Return whether one queue comes before another, compared as far down as both paths go."""
        first, second = self.share_path(queue), self.share_path(other)
        depth = min(len(first), len(second))
        return first[:depth] < second[:depth]

    def fair_share(self, queue: int, with_descendants: bool = False) -> float:
        """Return the fraction of the cluster by the queue's weights among all parts of the tree with requests."""
        fraction, has_request = 1.0, self._has_request
        for part in self.lines[queue]:
            if with_descendants and self._above[part] == self._part[queue]:
                break  # the part of its own jobs
            siblings = self._children[self._above[part]] - self._jobs
            weights = sum(self._weight[other] for other in siblings.tolist() if other >= 0 and has_request[other])
            own = self._weight[part]
            fraction *= own / (weights if has_request[part] else weights + own)
        return fraction

    def _parts_with_requests(self) -> Mask:
        """(N,): the parts of the tree with jobs that request anything."""
        has_request = np.zeros(len(self._weight), dtype=np.bool_)
        jobs = (self._parent[: self._jobs] != NONE) & self._request.any(axis=0)
        for part in np.unique(self._parent[: self._jobs][jobs]).tolist():
            has_request[list(self._up(part))] = True
        return has_request

    def update(self, allocated: Ints) -> bool:
        """Set the (R, J) allocations of the jobs; return whether anything changed."""
        changed = np.flatnonzero((allocated != self.allocated).any(axis=0))
        if len(changed):
            self.add(changed, allocated[:, changed] - self.allocated[:, changed])
        return bool(len(changed))

    def add(self, jobs: Rows, amounts: Ints) -> None:
        """Add (R, jobs) amounts to the allocations of distinct jobs. Adding the negative amounts undoes it exactly."""
        self.allocated[:, jobs] += amounts
        inside = jobs[self._parent[jobs] != NONE]
        self._used += amounts[:, self._parent[jobs] != NONE].sum(axis=1)
        can_grow = self._used < self._total
        if (can_grow != self._can_grow).any():
            self._can_grow = can_grow
            self._rebuild()
            self.rebuilds += 1
            return
        self._compute_jobs(inside)
        self._compute_parts(self._parent[inside].tolist())

    def _rebuild(self) -> None:
        """Compute all shares."""
        self._added[:] = 0
        self._sums: Ints = np.zeros((len(self._weight), *self._added.shape[1:]), dtype=np.int64)
        self._compute_jobs(self._members)
        self._compute_parts(range(len(self._weight)))

    def _compute_jobs(self, jobs: Rows) -> None:
        """A job is saturated if it lacks nothing, or lacks more of a resource that it has and that is used up."""
        allocated, request = self.allocated[:, jobs], self._request[:, jobs]
        lacks = request > allocated
        blocked = lacks & (allocated > 0) & ~self._can_grow[:, None]
        saturated: Mask = np.logical_or(~lacks.any(axis=0), blocked.any(axis=0))
        self._set(jobs, allocated * self._per_unit[:, None], saturated, np.ones(len(jobs)))

    def _compute_parts(self, parts: Iterable[int]) -> None:
        """Compute the shares of these parts of the tree and of all above them, the deepest first."""
        waiting = {above for part in parts for above in self._up(part)}
        for part in sorted(waiting, key=lambda part: -self._depth[part]):
            if self._above[part] != NONE:
                children = self._children[part]
                smallest = min(1.0, float(self._free[children].min(initial=np.inf)))
                unscaled, scaled = self._sums[part]
                fractions = (unscaled + smallest * scaled) / _UNIT
                saturated = np.array([self._saturated[children].all()])
                weight = np.array([self._weight[part]], dtype=np.float64)
                self._set(np.array([self._jobs + part]), fractions[:, None], saturated, weight)

    def _set(self, columns: Rows, fractions: Floats, saturated: Mask, weight: Floats) -> None:
        """Set the (R, M) fractions of the cluster of jobs or parts of the tree, and update the sums of the parts above."""
        share = fractions.max(axis=0)
        grows = ~saturated & (share > 0)
        self._share[columns], self._saturated[columns] = share, saturated
        self._free[columns] = np.where(grows, share / weight, np.inf)
        direction = np.divide(fractions, share, out=np.zeros_like(fractions), where=grows) * weight
        added = np.rint(np.stack([np.where(saturated, fractions, 0.0), direction]) * _UNIT).astype(np.int64)
        added = added.transpose(2, 0, 1)
        np.add.at(self._sums, self._parent[columns], added - self._added[columns])
        self._added[columns] = added

    def _up(self, part: int) -> Iterable[int]:
        while part != NONE:
            yield part
            part = self._above[part]


def _names(steps: Path) -> tuple[str, ...]:
    return tuple(name for name, _ in steps)
