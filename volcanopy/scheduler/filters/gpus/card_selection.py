"""Cards of nodes as columns, and the choice among them: which cards of a node a pod gets, of many nodes at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows

NUMBER, MEMORY, CORES = 0, 1, 2
"""The rows of a table of what is taken of cards: pods, memory, percent of the cores; rows after these count pods by rule."""
PLAIN = 3
ALL_CORES = 100


class Order(Enum):
    """Which of the cards that fit a pod gets."""

    FIRST = "first"
    LAST = "last"
    FULLEST = "binpack"
    EMPTIEST = "spread"


@dataclass(frozen=True, eq=False)
class Cards:
    """C cards of N nodes, those of a node together, in the order of the nodes."""

    ids: tuple[str, ...]
    types: tuple[str, ...]
    node: Rows
    """(C,): the row of each card's node."""
    start: Rows
    """(N + 1,): the number of each node's first card."""
    slots: Ints
    """(C,): how many pods may share the card."""
    memory: Ints
    sound: Mask
    """(C,): whether the card works."""
    index: Mapping[tuple[int, str], int]
    """The number of a card by its node's row and its id."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Card:
    """One card as its node tells of it."""

    id: str
    memory: int
    slots: int
    type: str = ""
    sound: bool = True


def table(of_nodes: Sequence[Sequence[Card]]) -> Cards:
    """The cards of all nodes, given in the order of the nodes."""
    flat = [(row, card) for row, cards in enumerate(of_nodes) for card in cards]
    counts = [len(cards) for cards in of_nodes]
    return Cards(
        ids=tuple(card.id for _, card in flat),
        types=tuple(card.type for _, card in flat),
        node=np.array([row for row, _ in flat], dtype=np.intp),
        start=np.concatenate([[0], np.cumsum(counts, dtype=np.intp)]).astype(np.intp),
        slots=np.array([card.slots for _, card in flat], dtype=np.int64),
        memory=np.array([card.memory for _, card in flat], dtype=np.int64),
        sound=np.array([card.sound for _, card in flat], dtype=np.bool_),
        index={(row, card.id): number for number, (row, card) in enumerate(flat)},
    )


@dataclass(frozen=True)
class CardRequest:
    """What one container wants: so many different cards, and of each so much memory and so many percent of its cores.

    Memory is an amount, or with ``percent`` a part of the card's. ``whole`` cards are shared with nobody.
    """

    number: int = 1
    memory: int = 0
    percent: int = 0
    cores: int = 0
    whole: bool = False

    def memory_of(self, cards: Ints) -> Ints:
        """How much of cards with so much memory."""
        if self.whole:
            return cards
        return cards * self.percent // 100 if self.percent else np.full_like(cards, self.memory)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The answer for M nodes: where the pod fits, how good that is, and the cards that each of its containers gets."""

    fits: Mask
    score: Floats
    cards: tuple[Rows, ...]
    """For each container the numbers of its cards, node after node."""
    memory: tuple[Ints, ...]
    """For each container how much of the memory of each of its cards."""


def choose(
    cards: Cards,
    taken: Sequence[Ints],
    nodes: Rows,
    wants: Sequence[CardRequest | None],
    allowed: Mask,
    order: Order,
    rules: Rows,
) -> Chosen:
    """Give a pod cards of each of the (M,) nodes, container after container.

    ``taken`` are (PLAIN + rules, C) tables of what others hold, the larger number of all is what counts; ``allowed`` is
    the (C,) mask of the cards that the pod may have at all, ``rules`` the rows of the tables that must be 0 on its cards.
    """
    counts = cards.start[nodes + 1] - cards.start[nodes]
    first = np.cumsum(counts) - counts
    where = np.repeat(np.arange(len(nodes)), counts)
    numbers = np.arange(len(where)) - first[where] + cards.start[nodes][where]
    memory, slots = cards.memory[numbers], cards.slots[numbers]
    whole = np.maximum.reduce([one[:, numbers] for one in taken])
    free_of_rivals = allowed[numbers] & ~whole[rules].any(axis=0)
    held = whole[:PLAIN]
    fits: Mask = np.ones(len(nodes), dtype=np.bool_)
    score: Floats = np.zeros(len(nodes), dtype=np.float64)
    given: list[Rows] = []
    amounts: list[Ints] = []
    for want in wants:
        if want is None:
            given.append(np.empty(0, dtype=np.intp))
            amounts.append(np.empty(0, dtype=np.int64))
            continue
        asked = want.memory_of(memory)
        can = free_of_rivals & _has_room(held, memory, slots, asked, want)
        fits &= np.bincount(where[can], minlength=len(nodes)) >= want.number
        best_first = np.lexsort((*_keys(held, numbers, order), ~can, where))
        rank = np.arange(len(where)) - first[where]
        picked = best_first[(rank < want.number) & can[best_first] & fits[where[best_first]]]
        score += np.bincount(where[picked], weights=_worth(held, memory, asked, order)[picked], minlength=len(nodes))
        held[NUMBER, picked] += 1
        held[MEMORY, picked] += asked[picked]
        held[CORES, picked] += want.cores
        given.append(numbers[picked])
        amounts.append(asked[picked])
    return Chosen(fits, np.where(fits, score, 0.0), tuple(given), tuple(amounts))


def _has_room(held: Ints, memory: Ints, slots: Ints, asked: Ints, want: CardRequest) -> Mask:
    """A card has a place, memory and cores left; one whose cores are all taken is full for those that want none, too."""
    can: Mask = (held[NUMBER] < slots) & (memory - held[MEMORY] >= asked) & (held[CORES] + want.cores <= ALL_CORES)
    if want.cores == 0:
        can &= held[CORES] < ALL_CORES
    if want.whole or want.cores == ALL_CORES:
        can &= held[NUMBER] == 0
    return can


def _keys(held: Ints, numbers: Rows, order: Order) -> tuple[NDArray[np.int64], ...]:
    """What cards are sorted by, the last first."""
    match order:
        case Order.FIRST:
            return (numbers,)
        case Order.LAST:
            return (-numbers,)
        case Order.FULLEST:
            return (numbers, -held[MEMORY])
        case Order.EMPTIEST:
            return (numbers, held[NUMBER])


def _worth(held: Ints, memory: Ints, asked: Ints, order: Order) -> Floats:
    """How good a choice each card is, up to 100: how full it will be, or whether nobody is on it."""
    if order is Order.FULLEST:
        fullness: Floats = np.divide(
            100.0 * (held[MEMORY] + asked), memory, out=np.zeros(len(memory)), where=memory > 0
        )
        return fullness
    if order is Order.EMPTIEST:
        return np.where(held[NUMBER] == 0, 100.0, 0.0)
    return np.zeros(len(memory), dtype=np.float64)
