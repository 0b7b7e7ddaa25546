"""Failures of nodes: the times between them are exponential, and those of a node depend on its name and the seed only."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Protocol


class FailureOptions(Protocol):
    """The options of failures: the seed, and the mean time between two failures of a node."""

    @property
    def seed(self) -> int:
        """The seed."""

    @property
    def node_mtbf(self) -> float:
        """Seconds; 0 for none."""


class NodeFailures:
    """When each node fails."""

    def __init__(self, nodes: Sequence[str], options: FailureOptions) -> None:
        self._mean = options.node_mtbf
        self._dice = {name: Random(f"{options.seed} {name}") for name in nodes} if self._mean else {}

    def first(self) -> Iterator[tuple[float, str]]:
        """Yield the first failure of each node."""
        for name in self._dice:
            yield self.next(0.0, name), name

    def next(self, time: float, name: str) -> float:
        """Return the time of the next failure of a node that runs since ``time``."""
        return time + self._dice[name].expovariate(1 / self._mean)
