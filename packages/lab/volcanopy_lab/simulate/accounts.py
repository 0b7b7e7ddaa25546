"""What is allocated over time: sums of queues, exact integrals, and samples for plots."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.model.plan import SetQueue
from volcanopy.scheduler.model.resources import Floats

RESOURCES = ("cpu", "memory", "gpu")
"""What is counted, in cores, bytes and cards; a card is any GPU, shared or whole."""
SHAPES = 32
"""Most kinds of pods of which fragmentation is measured: the most frequent ones."""


def is_gpu(resource: str) -> bool:
    """Whether a resource counts whole cards: ``nvidia.com/gpu`` and the like."""
    return resource == names.GPU_NUMBER or resource.endswith("/gpu")


def card_memory(nodes: Iterable[core.Node]) -> float:
    """Return the GPU memory of a card where cards are shared; 1 if none are."""
    for node in nodes:
        amounts = quantity.amounts(node.status.allocatable)
        if amounts.get(names.GPU_MEMORY) and amounts.get(names.GPU_NUMBER):
            return amounts[names.GPU_MEMORY] / amounts[names.GPU_NUMBER]
    return 1.0


def amounts_of(resources: Mapping[str, str | int | float], card: float = 1.0, *, capacity: bool = False) -> Floats:
    """(R,): a resource list in the units of :data:`RESOURCES`; ``card`` is the memory of a card that is shared."""
    units = quantity.amounts(resources)
    cards = float(sum(amount for name, amount in units.items() if is_gpu(name)))
    if not capacity or not cards:
        cards += units.get(names.GPU_MEMORY, 0) / card
    return np.array([units.get("cpu", 0) / 1000, float(units.get("memory", 0)), cards])


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at one time: amounts are (Q, R), by queue and resource."""

    time: float
    allocated: Floats
    fair: Floats
    waiting: int
    running: int
    fragmentation: float


class QueueAllocations:
    """Allocations of queues over time."""

    def __init__(self, queues: Sequence[str], nodes: Sequence[core.Node], interval: float) -> None:
        """``interval`` is the time between samples."""
        self.queues = {name: row for row, name in enumerate(queues)}
        self.card = card_memory(nodes)
        self.node_amounts = {
            node.metadata.name: amounts_of(node.status.allocatable, self.card, capacity=True) for node in nodes
        }
        self.capacity: Floats = np.sum(list(self.node_amounts.values()), axis=0) if nodes else np.zeros(len(RESOURCES))
        shape = (len(self.queues), len(RESOURCES))
        self.allocated, self.fair = np.zeros(shape), np.zeros(shape)
        self._fair_shares: dict[str, Mapping[str, str]] = {}
        """By queue, as they were noted last."""
        self.area, self.capacity_area = np.zeros(shape), np.zeros(len(RESOURCES))
        self.distance = 0.0
        """Integral of the distance from fair shares."""
        self.contended = 0.0
        """Seconds in which jobs of more than one queue ran or waited."""
        self.samples: list[Sample] = []
        self.time = 0.0
        self.main = 2 if self.capacity[2] else 0
        """The resource that shares are of: cards where there are any, else cpu."""
        self._interval, self._next = interval, 0.0
        self._shapes: Counter[tuple[tuple[str, str], ...]] = Counter()

    def row(self, queue: str) -> int:
        """Return the row of a queue; new queues are added."""
        row = self.queues.get(queue)
        if row is None:
            row = self.queues[queue] = len(self.queues)
            more = np.zeros((1, len(RESOURCES)))
            self.allocated, self.fair, self.area = (
                np.vstack([table, more]) for table in (self.allocated, self.fair, self.area)
            )
        return row

    def set_fair_share(self, effect: SetQueue) -> None:
        """Note the fair share of a queue."""
        if self._fair_shares.get(effect.queue) != effect.fair_share:
            self._fair_shares[effect.queue] = effect.fair_share
            self.fair[self.row(effect.queue)] = amounts_of(effect.fair_share, self.card)

    def submitted(self, requests: Mapping[str, str], pods: int) -> None:
        """Count the pods of a new job for the measure of fragmentation."""
        self._shapes[tuple(requests.items())] += pods

    def advance(self, time: float) -> None:
        """Let time pass with what is allocated now."""
        duration = time - self.time
        if duration <= 0:
            return
        self.time = time
        self.area += self.allocated * duration
        self.capacity_area += self.capacity * duration
        column = self.main
        fair, allocated = self.fair[:, column], self.allocated[:, column]
        if np.count_nonzero(fair) > 1:
            total, used = fair.sum(), allocated.sum()
            self.contended += duration
            self.distance += duration * 0.5 * float(np.abs(fair / total - allocated / max(used, 1e-12)).sum())

    def sample(self, waiting: int, running: int, state: State) -> None:
        """Take a sample if one is due."""
        if self.time < self._next:
            return
        self._next = self.time + self._interval
        fragmentation = self._fragmentation(state)
        self.samples.append(Sample(self.time, self.allocated.copy(), self.fair.copy(), waiting, running, fragmentation))

    def _fragmentation(self, state: State) -> float:
        """Return the part of the free cards (or cpus) that an average pod of the workload cannot use.

        Free amounts of a node count for a pod that fits there; kinds of pods are weighted by their number. Only pods that
        request the resource count.
        """
        count_due(state)
        rows = state.node_rows()
        if not len(rows):
            return 0.0
        free = state.nodes.amounts["allocatable"][:, rows] - state.nodes.amounts["used"][:, rows]
        index = state.axis.index
        main = self._main_rows(index)
        if not main:
            return 0.0
        of_main = free[main].sum(axis=0).clip(min=0).astype(np.float64)
        total = float(of_main.sum())
        weight = lost = 0.0
        for shape, pods in self._shapes.most_common(SHAPES):
            units = {name: amount for name, amount in quantity.amounts(dict(shape)).items() if name in index and amount}
            if not total or not any(index[name] in main for name in units):
                continue
            fits = np.ones(len(rows), dtype=np.bool_)
            for name, amount in units.items():
                fits &= free[index[name]] >= amount
            weight += pods
            lost += pods * float(of_main[~fits].sum()) / total
        return lost / weight if weight else 0.0

    def _main_rows(self, index: Mapping[str, int]) -> list[int]:
        if self.main == 0:
            return [index["cpu"]]
        whole = [row for name, row in index.items() if is_gpu(name)]
        return whole or [row for name, row in index.items() if name == names.GPU_MEMORY]
