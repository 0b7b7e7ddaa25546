"""How full nodes are: kube-scheduler's scores by resources, with the outcome of its integer arithmetic.

Cpu and memory are the first two resources of every axis, so both are reckoned together in (2, M) arrays. The divisions
are done in floats, which is several times faster and gives the same whole numbers as long as amounts stay below EXACT.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.ledger.cluster import Cluster, NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows

V = TypeVar("V", np.bool_, np.int64, np.float64)

GPU = "nvidia.com/gpu"
"""The one device that kube-scheduler balances beside cpu and memory."""

EXACT = 2**45
"""Below this (32 TiB of memory on one node) the quotient of 100 times a part and the whole, rounded to a float, lies on
the same side of every whole number as the true one: it is off by less than 2**-46, and no nearer than 2**-45 to any."""

BLOCK = 2048
"""So many nodes are balanced at once: what is needed in between then stays in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Demand:
    """What a shape adds to a node."""

    request: tuple[int, int]
    """Cpu and memory."""
    nonzero: tuple[int, int]
    """Cpu and memory with defaults for containers that request none."""
    gpus: int

    @property
    def is_balanced(self) -> bool:
        """Whether it requests any of the resources that are balanced."""
        return bool(self.gpus or any(self.request))


def demand(task: TaskView) -> Demand:
    """What a task of this shape adds to a node."""
    request, nonzero = task.request, task.nonzero
    return Demand((request["cpu"], request["memory"]), (int(nonzero[0]), int(nonzero[1])), request[GPU])


def plus(amounts: Ints, more: tuple[int, int]) -> Ints:
    """(2, M) cpu and memory with as much more on each node; row by row, which on few nodes is quicker than at once."""
    total = amounts.copy()
    total[0] += more[0]
    total[1] += more[1]
    return total


class Fullness:
    """The scores of one session."""

    def __init__(self, cluster: Cluster) -> None:
        allocatable = cluster.snapshot.nodes.allocatable
        self._room: Ints = allocatable.values[:2]
        self._lacking: Mask | None = None if (self._room > 0).all() else self._room <= 0
        self._divisor: Floats = np.maximum(self._room, 1).astype(np.float64)
        self._is_exact = bool(self._room.max(initial=0) < EXACT)
        self._gpus: Ints = allocatable[GPU]
        self._ledger = cluster.ledger

    def least(self, wanted: Ints, rows: Rows) -> Floats:
        """(M,): 0 to 100, the emptier the better after ``wanted`` (2, M) cpu and memory are in use, both alike."""
        return self._mean(np.maximum(_at(self._room, rows) - wanted, 0), rows)

    def most(self, wanted: Ints, rows: Rows) -> Floats:
        """(M,): 0 to 100, the fuller the better after ``wanted`` (2, M) cpu and memory are in use, both alike."""
        return self._mean(np.minimum(wanted, _at(self._room, rows)), rows)

    def _mean(self, part: Ints, rows: Rows) -> Floats:
        """The mean of the percentages of cpu and memory, in whole numbers.

        Of what a node lacks there is no part: it counts neither above nor below the line.
        """
        divisor = _at(self._divisor, rows)
        if self._is_exact:
            percent: Floats = part.astype(np.float64)
            percent *= 100.0
            percent /= divisor
            np.floor(percent, out=percent)
        else:
            percent = (part * 100 // np.maximum(_at(self._room, rows), 1)).astype(np.float64)
        if self._lacking is None:
            mean: Floats = percent[0] + percent[1]
            mean *= 0.5
        else:
            lacking = _at(self._lacking, rows)
            mean = (percent[0] + percent[1]) / np.maximum(2 - lacking.sum(axis=0), 1)
        return np.floor(mean, out=mean)

    def of_many(self, demands: Sequence[Demand], balanced: int, least: int) -> Callable[[Floats, int], Floats] | None:
        """A quick way to add both scores, so weighed, of one node for each of these demands to a constant; None without.

        The steps are those of :meth:`balance` and :meth:`least`, in the same order, so that the numbers are the same.
        """
        if self._lacking is not None or not self._is_exact or any(one.gpus for one in demands):
            return None
        request = np.array([one.request for one in demands], dtype=np.float64).T.copy()
        nonzero = np.array([one.nonzero for one in demands], dtype=np.float64).T.copy()
        weight = balanced * np.array([one.is_balanced for one in demands], dtype=np.float64)
        (most_cpu, most_memory), (wants_cpu, wants_memory) = request.max(axis=1).tolist(), nonzero.max(axis=1).tolist()
        used, taken, room = self._ledger.used, self._ledger.nonzero, self._divisor

        def balance(node: int) -> Floats:
            (held_cpu, held_memory), (cpu, memory) = used[:2, node].tolist(), room[:, node].tolist()
            fractions = request + used[:2, node, None]
            fractions /= room[:, node, None]
            if held_cpu + most_cpu > cpu or held_memory + most_memory > memory:
                np.minimum(fractions, 1.0, out=fractions)
            after: Floats = np.subtract(fractions[0], fractions[1], out=fractions[0])
            np.abs(after, out=after)
            after *= -0.5
            after += 1.0
            after *= 100.0
            np.floor(after, out=after)
            apart = abs(min(held_cpu / cpu, 1.0) - min(held_memory / memory, 1.0))
            after -= math.floor((apart * -0.5 + 1.0) * 100.0)
            after *= 0.5
            np.floor(after, out=after)
            after += 75.0
            return after

        def emptiness(node: int) -> Floats:
            (held_cpu, held_memory), (cpu, memory) = taken[:, node].tolist(), room[:, node].tolist()
            percent = (room[:, node, None] - taken[:, node, None]) - nonzero
            if held_cpu + wants_cpu > cpu or held_memory + wants_memory > memory:
                np.maximum(percent, 0.0, out=percent)
            percent *= 100.0
            percent /= room[:, node, None]
            np.floor(percent, out=percent)
            mean: Floats = np.add(percent[0], percent[1], out=percent[0])
            mean *= 0.5
            return np.floor(mean, out=mean)

        is_plain = bool((weight == 1).all())

        def score(constant: Floats, node: int) -> Floats:
            if balanced:
                total = balance(node)
                if not is_plain:
                    total *= weight
                total += constant
            else:
                total = constant.copy()
            if least:
                mean = emptiness(node)
                if least != 1:
                    mean *= least
                total += mean
            return total

        return score

    def balance(self, demand: Demand, nodes: NodesView) -> Floats:
        """(M,): 50 to 100, above 75 where the demand evens out how far resources are used up, below where it does not."""
        rows, used = nodes.rows, nodes.used
        cpu_memory, gpus = used.values[:2], used[GPU] if demand.gpus else None
        if len(rows) <= BLOCK:
            return self._balance(demand, rows, cpu_memory, gpus)
        score = np.empty(len(rows), dtype=np.float64)
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            score[part] = self._balance(demand, rows[part], cpu_memory[:, part], None if gpus is None else gpus[part])
        return score

    def _balance(self, demand: Demand, rows: Rows, before: Ints, gpus: Ints | None) -> Floats:
        after = plus(before, demand.request)
        if self._lacking is None and gpus is None:
            fractions = np.empty((2, 2, len(rows)))
            fractions[0], fractions[1] = before, after
            fractions /= _at(self._divisor, rows)
            evenness = _evenness_of_two(fractions)
        else:
            held = np.zeros(len(rows), dtype=np.int64) if gpus is None else gpus
            room = np.vstack((_at(self._room, rows), np.zeros_like(held) if gpus is None else self._gpus[rows]))
            evenness = np.stack(
                (_evenness(np.vstack((before, held)), room), _evenness(np.vstack((after, held + demand.gpus)), room))
            )
        score: Floats = evenness[1] - evenness[0]
        score *= 0.5
        np.floor(score, out=score)
        score += 75.0
        return score


def _at(table: NDArray[V], rows: Rows) -> NDArray[V]:
    """The (2, M) columns of some nodes. The mode only spares numpy a copy of the rows: they are all valid."""
    return table.take(rows, axis=1, mode="clip")


def _evenness_of_two(fractions: Floats) -> Floats:
    """(X, M): 50 to 100 for (X, 2, M) fractions, the closer the two of a pair the more; overwrites them."""
    np.minimum(fractions, 1.0, out=fractions)
    score: Floats = np.subtract(fractions[:, 0], fractions[:, 1])
    np.abs(score, out=score)
    score *= -0.5
    score += 1.0
    score *= 100.0
    return np.floor(score, out=score)


def _evenness(used: Ints, room: Ints) -> Floats:
    """(M,): 100 times one minus the standard deviation of the fractions used, over the resources that a node has."""
    has = room > 0
    count = has.sum(axis=0)
    some = np.maximum(count, 1)
    fractions = np.where(has, np.minimum(used / np.maximum(room, 1), 1.0), 0.0)
    mean = (fractions[0] + fractions[1] + fractions[2]) / some
    squares = np.where(has, np.square(fractions - mean), 0.0)
    deviation = np.sqrt((squares[0] + squares[1] + squares[2]) / some)
    # Of two, half the difference: the same number, but rounded as kube-scheduler rounds it.
    halved = (np.where(has, fractions, 0.0).max(axis=0) - np.where(has, fractions, 1.0).min(axis=0)) / 2
    deviation = np.where(count == 2, halved, np.where(count < 2, 0.0, deviation))
    score: Floats = np.floor((1.0 - deviation) * 100.0)
    return score
