"""Read-only views of the GPU cards of nodes, for plugins: the plugin that shares cards provides them to the others."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints, Rows

ALL_CORES = 100


@dataclass(frozen=True, eq=False)
class CardNeed:
    """What a task requests of cards: ``number`` of them, and ``cores`` percent of the cores of each."""

    number: int
    memory: Ints
    """(C,): the memory that it takes of each card; UNLIMITED where the task must not run on the card."""
    cores: int


@dataclass(frozen=True, eq=False)
class Candidates:
    """K free cards that a task may get, for ``card_order``."""

    cards: Rows
    """The number of each card."""
    memory: Ints
    """What the task takes of each."""
    cores: int
    """The percent of its cores that the task takes of each."""
    idle: Ints
    """(R, K): the resources that are idle on the node of each without the task."""

    def __len__(self) -> int:
        return len(self.cards)


@dataclass(frozen=True, eq=False)
class TakenCards:
    """The cards that a task gets on some nodes: K entries."""

    position: Rows
    """The position of the node among these."""
    cards: Rows
    memory: Ints
    cores: Ints


class GpuCards(Protocol):
    """The C cards of all nodes, grouped by node, in the state of the session."""

    @property
    def node(self) -> Rows:
        """(C,): the row of each card's node."""

    @property
    def start(self) -> Rows:
        """(N + 1,): the number of the first card of each node."""

    @property
    def memory(self) -> Ints:
        """(C,): the memory of each card."""

    @property
    def shapes(self) -> frozenset[int]:
        """The shapes whose tasks request cards."""

    def free(self, cards: Rows) -> tuple[Ints, Ints]:
        """Memory and percent of the cores that are free on each of these cards; less than nothing where no pod can run."""

    def changed(self) -> Sequence[int]:
        """The rows of the nodes whose cards were assigned or became free during the session, in order."""

    def kind(self, task: TaskView) -> Hashable:
        """Return what distinguishes the cards that a task requests from those of other tasks of its shape."""

    def need(self, task: TaskView) -> CardNeed | None:
        """What the task requests of cards; None if nothing."""

    def taken(self, task: TaskView, rows: Rows) -> TakenCards | None:
        """The cards that the task would get on each of these nodes where it fits; None if it requests none."""
