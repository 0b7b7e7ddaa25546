"""GPU cards of nodes as columns, and the selection of cards for a pod on many nodes at once."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcanopy.api.builtin.gpu_annotations import ALL_CORES, Card
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy_policies.devices.cards.instances import UNKNOWN, InstanceTable, instance_table

PODS, MEMORY, CORES = 0, 1, 2
"""Rows of a usage table: pods, memory, percent of the cores; the rows from FIRST_RULE count pods by exclusive rule.

The last rows count pods by instance of a card in MIG mode, if there are such cards.
"""
FIRST_RULE = 3


class CardOrder(Enum):
    """The order in which fitting cards are selected."""

    FIRST = "first"
    LAST = "last"
    FULLEST = "binpack"
    EMPTIEST = "spread"


@dataclass(frozen=True, eq=False)
class CardTable:
    """C cards of N nodes, grouped by node in the order of the nodes."""

    ids: tuple[str, ...]
    types: tuple[str, ...]
    node: Rows
    """(C,): the row of each card's node."""
    start: Rows
    """(N + 1,): the number of the first card of each node."""
    slots: Ints
    """(C,): the maximum number of pods per card."""
    memory: Ints
    cores: Ints
    """(C,): the cores of each card, in the unit of its kind: percent of a GPU, or the number of cores of an NPU."""
    healthy: Mask
    """(C,): whether the card is healthy."""
    index: Mapping[tuple[int, str], int]
    """The number of a card by the row of its node and its id."""
    instances: InstanceTable
    """The instances of the cards in MIG mode."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def layout(self) -> Sequence[int]:
        """By node: a number that is equal for nodes whose cards differ in ids and types only."""
        columns = np.stack((self.slots, self.memory, self.cores, self.healthy, self.instances.model))
        numbers: dict[bytes, int] = {}
        return [
            numbers.setdefault(columns[:, first:end].tobytes(), len(numbers))
            for first, end in pairwise(self.start.tolist())
        ]


def card_table(
    of_nodes: Sequence[Sequence[Card]], instances: Callable[[Sequence[str], Rows], InstanceTable] | None = None
) -> CardTable:
    """Return the table of the cards of all nodes, given in the order of the nodes.

    ``instances`` returns those of cards of these types on these nodes.
    """
    flat = [(row, card) for row, cards in enumerate(of_nodes) for card in cards]
    counts = [len(cards) for cards in of_nodes]
    types, node = tuple(card.type for _, card in flat), np.array([row for row, _ in flat], dtype=np.intp)
    return CardTable(
        ids=tuple(card.id for _, card in flat),
        types=types,
        node=node,
        start=np.concatenate([[0], np.cumsum(counts, dtype=np.intp)]).astype(np.intp),
        slots=np.array([card.slots for _, card in flat], dtype=np.int64),
        memory=np.array([card.memory for _, card in flat], dtype=np.int64),
        cores=np.array([card.cores for _, card in flat], dtype=np.int64),
        healthy=np.array([card.healthy for _, card in flat], dtype=np.bool_),
        index={(row, card.id): number for number, (row, card) in enumerate(flat)},
        instances=instances(types, node) if instances else instance_table((), [0] * len(flat)),
    )


@dataclass(frozen=True)
class CardSizes:
    """The amounts of memory into which a card is divided, ascending, and what a pod gets that requests more than these.

    Such a pod gets ``whole``, if the card has at most the memory ``capacity`` by its data sheet; beyond, as much as requested.
    """

    parts: tuple[int, ...]
    whole: int
    capacity: int

    def rounded(self, memory: Ints) -> Ints:
        """Return these amounts of memory, each rounded up to the next size."""
        sizes = np.array([*self.parts, self.whole], dtype=np.int64)
        position = np.searchsorted(sizes[:-1], memory)
        return np.where(memory > max((self.capacity, *self.parts)), memory, sizes[position])


@dataclass(frozen=True)
class CardRequest:
    """The request of one container: the number of cards, and the memory and cores of each.

    Memory is an amount, or with ``percent`` a part of the card's memory; with ``sizes`` it is rounded up to one of these.
    ``whole`` cards are not shared. ``of_cores``: the cores that each card has for this request, instead of its own.
    """

    number: int = 1
    memory: int = 0
    percent: int = 0
    cores: int = 0
    whole: bool = False
    sizes: CardSizes | None = None
    of_cores: int | None = None

    def memory_of(self, cards: Ints) -> Ints:
        """Return the requested memory on cards with these amounts of memory."""
        if self.whole:
            return cards
        memory = cards * self.percent // 100 if self.percent else np.full_like(cards, self.memory)
        return memory if self.sizes is None else self.sizes.rounded(memory)


Preference = Callable[[Rows, Ints, int, Ints], Floats]
"""Returns how well each of these cards suits a pod that takes this much memory of each and these cores: larger is better.

The last argument: the (R, K) resources that are idle on their nodes without the pod.
"""


@dataclass(frozen=True, eq=False)
class CardCriteria:
    """The requests of a pod and the restrictions of its cards."""

    requests: tuple[CardRequest | None, ...]
    allowed: Mask
    rules: Rows
    """The rows of the usage table that must be 0 on its cards, and in which it counts."""
    preference: Preference | None = None
    """Which cards are preferred, before the order of the session."""
    distinct: bool = False
    """Whether its containers do not share cards with each other."""
    counted: Rows | None = None
    """The rows in which it counts, if these are not ``rules``."""
    kind: Hashable = None
    """Equal for criteria that differ only in the allowed cards and the preference; None if choices are not kept."""
    preference_state: Callable[[int], Hashable] | None = None
    """What the preference depends on, besides ``kind``, for the cards of a node in their present use."""

    @cached_property
    def without_preference(self) -> "CardCriteria":
        """The same, of which the first fitting cards are as good as others."""
        return replace(self, preference=None, preference_state=None)


@dataclass(frozen=True, eq=False)
class CardChoice:
    """The choice for M nodes: whether the pod fits, the score, and the cards of each container."""

    fits: Mask
    score: Floats
    cards: tuple[Rows, ...]
    """For each container the numbers of its cards, node by node."""
    positions: tuple[Rows, ...]
    """For each container the position of each card's node among the M."""
    memory: tuple[Ints, ...]
    """For each container the memory that it takes of each of its cards: what it requests, or all of an instance."""
    instances: tuple[Rows, ...]
    """For each container the column of its instance on each of its cards, UNKNOWN on cards that are not divided."""

    def moved(self, distance: int) -> "CardChoice":
        """The same choice on another node, whose cards have numbers larger by this."""
        if not distance:
            return self
        cards = tuple([cards + distance for cards in self.cards])
        return CardChoice(self.fits, self.score, cards, self.positions, self.memory, self.instances)


def choose(
    cards: CardTable,
    taken: Sequence[Ints],
    nodes: Rows,
    criteria: CardCriteria,
    order: CardOrder,
    idle: Ints | None = None,
) -> CardChoice:
    """Choose cards for a pod on each of the (M,) nodes, one container after the other.

    ``taken`` are (FIRST_RULE + rules + K, C) tables of the usage by other pods, of which the maximum counts. Fitting
    cards are selected by the preference, if there is one, with the (R, M) ``idle`` resources of the nodes; ``order`` decides
    between equals.
    """
    counts = cards.start[nodes + 1] - cards.start[nodes]
    first = np.cumsum(counts) - counts
    node_of = np.repeat(np.arange(len(nodes)), counts)
    numbers = np.arange(len(node_of)) - first[node_of] + cards.start[nodes][node_of]
    memory, slots = cards.memory[numbers], cards.slots[numbers]
    usage = np.maximum.reduce([table[:, numbers] for table in taken])
    divided = cards.instances.divided(numbers)
    permitted = criteria.allowed[numbers] & (divided | ~usage[criteria.rules].any(axis=0))
    used, on_instances = usage[:FIRST_RULE], usage[len(usage) - cards.instances.width :]
    fits: Mask = np.ones(len(nodes), dtype=np.bool_)
    score: Floats = np.zeros(len(nodes), dtype=np.float64)
    chosen: list[tuple[Rows, Rows, Ints, Rows]] = []
    for request in criteria.requests:
        if request is None:
            none = np.empty(0, dtype=np.intp)
            chosen.append((none, none, none.astype(np.int64), none))
            continue
        memory_requested = request.memory_of(memory)
        feasible = permitted & _fits(used, memory, slots, cards.cores[numbers], memory_requested, request)
        instances, memory_taken = _instances(cards, numbers, divided, on_instances, memory_requested)
        feasible &= ~divided | (instances != UNKNOWN)
        fits &= np.bincount(node_of[feasible], minlength=len(nodes)) >= request.number
        keys = _sort_keys(used, numbers, order)
        if criteria.preference is not None and idle is not None:
            suitability = np.zeros(len(numbers))
            suitability[feasible] = criteria.preference(
                numbers[feasible], memory_taken[feasible], request.cores, idle[:, node_of[feasible]]
            )
            keys = (*keys, -suitability)
        best_first = np.lexsort((*keys, ~feasible, node_of))
        rank = np.arange(len(node_of)) - first[node_of]
        selected = best_first[(rank < request.number) & feasible[best_first] & fits[node_of[best_first]]]
        score += np.bincount(
            node_of[selected], weights=_scores(used, memory, memory_taken, order)[selected], minlength=len(nodes)
        )
        used[PODS, selected] += 1
        used[MEMORY, selected] += memory_taken[selected]
        used[CORES, selected] += request.cores
        in_instances = selected[divided[selected]]
        on_instances[instances[in_instances], in_instances] += 1
        if criteria.distinct:
            permitted[selected] = False
        chosen.append((numbers[selected], node_of[selected], memory_taken[selected], instances[selected]))
    return CardChoice(fits, np.where(fits, score, 0.0), *(zip(*chosen, strict=True) if chosen else ((),) * 4))


def _instances(
    cards: CardTable, numbers: Rows, divided: Mask, on_instances: Ints, memory_requested: Ints
) -> tuple[Rows, Ints]:
    """Return the column of the instance that the pod would get on each card, and the memory that it would take."""
    columns = np.full(len(numbers), UNKNOWN, dtype=np.intp)
    taken = memory_requested.copy()
    if cards.instances.width:
        own = np.flatnonzero(divided)
        columns[own] = cards.instances.first_fit(numbers[own], on_instances[:, own], memory_requested[own])
        taken[own] = cards.instances.charged(numbers[own], columns[own])
    return columns, taken


def _fits(used: Ints, memory: Ints, slots: Ints, cores: Ints, memory_requested: Ints, request: CardRequest) -> Mask:
    """Return which cards have a free slot, memory and cores; without free cores no pod fits, even if it requests none."""
    if request.of_cores is not None:
        cores = np.full_like(cores, request.of_cores)
    feasible: Mask = (
        (used[PODS] < slots) & (memory - used[MEMORY] >= memory_requested) & (used[CORES] + request.cores <= cores)
    )
    if request.cores == 0:
        feasible &= (used[CORES] < cores) | (cores == 0)
    if request.whole or request.cores == ALL_CORES:
        feasible &= used[PODS] == 0
    return feasible


def _sort_keys(used: Ints, numbers: Rows, order: CardOrder) -> tuple[NDArray[Any], ...]:
    """Return the keys for ``np.lexsort``, the primary key last."""
    match order:
        case CardOrder.FIRST:
            return (numbers,)
        case CardOrder.LAST:
            return (-numbers,)
        case CardOrder.FULLEST:
            return (numbers, -used[MEMORY])
        case CardOrder.EMPTIEST:
            return (numbers, used[PODS])


def _scores(used: Ints, memory: Ints, memory_taken: Ints, order: CardOrder) -> Floats:
    """Return the score of each card, 0..100: the share of its memory in use with the pod, or whether it is empty."""
    if order is CardOrder.FULLEST:
        fullness: Floats = np.divide(
            100.0 * (used[MEMORY] + memory_taken), memory, out=np.zeros(len(memory)), where=memory > 0
        )
        return fullness
    if order is CardOrder.EMPTIEST:
        return np.where(used[PODS] == 0, 100.0, 0.0)
    return np.zeros(len(memory), dtype=np.float64)
