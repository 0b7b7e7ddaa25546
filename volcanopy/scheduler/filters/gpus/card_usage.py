"""What is taken of the cards, by the pods that run and by the session: the stock that cards are given from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from volcanopy.scheduler.filters.gpus.card_selection import (
    CORES,
    MEMORY,
    NUMBER,
    PLAIN,
    CardRequest,
    Cards,
    Chosen,
    Order,
    choose,
)
from volcanopy.scheduler.filters.gpus.gpu_annotations import CardShare
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.assigned_devices import AssignedPod, AssignedPods
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

Reader = Callable[[AssignedPod], tuple[Iterable[CardShare], tuple[int, ...]]]
"""What a pod holds of the cards of its node, and the exclusive rules that it falls under, by number."""


@dataclass(frozen=True, eq=False)
class Part:
    """What one pod takes: entries of a table of what is taken, to add to it or to subtract."""

    cards: Rows
    """The numbers of its cards, as often as it holds something of one."""
    amounts: Ints
    """(PLAIN + rules, cards): what it takes of each."""

    def add_to(self, table: Ints, sign: int) -> None:
        """Add the part to a table, or (-1) subtract it."""
        np.add.at(table.T, self.cards, sign * self.amounts.T)


class _Piece(NamedTuple):
    """What a pod takes of one card, by the card's number, and the rules that the pod falls under."""

    card: int
    memory: int
    cores: int
    rules: tuple[int, ...]


class CardUsage:
    """What the running pods take of all cards; kept from session to session, renewed where the holders of a node changed."""

    def __init__(self, cards: Cards, rules: int) -> None:
        self._cards, self._rules = cards, rules
        self._read: dict[int, tuple[AssignedPods, dict[int, list[_Piece]]]] = {}
        self.now: Ints = np.zeros((PLAIN + rules, len(cards)), dtype=np.int64)
        self.later: Ints = np.zeros_like(self.now)
        """The same without pods that are on their way out."""

    def renew(self, cluster: Cluster, reader: Reader) -> None:
        """Bring it up to a snapshot."""
        status = cluster.snapshot.tasks.status
        staying: list[_Piece] = []
        leaving: list[_Piece] = []
        for node, holders in enumerate(cluster.snapshot.nodes.holders):
            known = self._read.get(node)
            if holders is (known[0] if known else None):
                continue
            pieces = {one.row: self._pieces(node, *reader(one)) for one in holders or ()}
            self._read[node] = (holders or (), pieces)
            own = slice(int(self._cards.start[node]), int(self._cards.start[node + 1]))
            self.now[:, own] = 0
            self.later[:, own] = 0
            staying += [piece for row, result in pieces.items() if status[row] != Status.RELEASING for piece in result]
            leaving += [piece for row, result in pieces.items() if status[row] == Status.RELEASING for piece in result]
        stays = self._part(staying)
        stays.add_to(self.now, +1)
        stays.add_to(self.later, +1)
        self._part(leaving).add_to(self.now, +1)

    def part(self, node: int, row: int) -> Part | None:
        """What a running pod takes."""
        known = self._read.get(node)
        result = None if known is None else known[1].get(row)
        return None if result is None else self._part(result)

    def _pieces(self, node: int, held: Iterable[CardShare], rules: tuple[int, ...]) -> list["_Piece"]:
        index, memory = self._cards.index, self._cards.memory
        result = []
        for one in held:
            number = index.get((node, one.id))
            if number is not None:
                result.append(_Piece(number, int(memory[number]) if one.whole else one.memory, one.cores, rules))
        return result

    def _part(self, pieces: Sequence["_Piece"]) -> Part:
        amounts = np.zeros((PLAIN + self._rules, len(pieces)), dtype=np.int64)
        amounts[NUMBER] = 1
        amounts[MEMORY] = [one.memory for one in pieces]
        amounts[CORES] = [one.cores for one in pieces]
        for rule in range(self._rules):
            amounts[PLAIN + rule] = [rule in one.rules for one in pieces]
        return Part(np.array([one.card for one in pieces], dtype=np.intp), amounts)


@dataclass(frozen=True, eq=False)
class CardCriteria:
    """All that decides which cards a pod may have."""

    wants: tuple[CardRequest | None, ...]
    allowed: Mask
    rules: Rows
    """The rows of the table of what is taken that must be 0 on its cards, and that it counts in."""


@dataclass(frozen=True, eq=False)
class AssignedCards:
    """The cards that a task was given: the choice, and what it takes."""

    chosen: Chosen
    part: Part


class SessionCards:
    """The cards of all nodes in a session."""

    def __init__(
        self, cluster: Cluster, cards: Cards, tally: CardUsage, order: Order, wish: Callable[[int], CardCriteria]
    ) -> None:
        """``wish`` tells what a task wants."""
        self._cluster, self.cards, self._usage, self._order, self._criteria = cluster, cards, tally, order, wish
        self._now, self._later = tally.now.copy(), tally.later.copy()

    def choose(self, task: int, node: int, waits: bool, before: AssignedCards | None) -> AssignedCards | None:
        """The cards for a task on a node."""
        wish, nodes = self._criteria(task), np.array([node])
        allowed = wish.allowed
        if before is not None:
            same = np.zeros(len(allowed), dtype=np.bool_)
            same[before.part.cards] = True
            given = self._given(self.ask(nodes, wish, waits, allowed & same), wish)
            if given is not None:
                return given
        return self._given(self.ask(nodes, wish, waits, allowed), wish)

    def count(self, node: int, given: AssignedCards, waits: bool, sign: int) -> None:
        """Take the cards, or (-1) give them back."""
        given.part.add_to(self._later, sign)
        if not waits:
            given.part.add_to(self._now, sign)

    def leaves(self, task: int, sign: int) -> None:
        """What an evicted pod takes is free later."""
        tasks = self._cluster.snapshot.tasks
        part = self._usage.part(int(tasks.node[task]), task)
        if part is not None and tasks.status[task] != Status.RELEASING:
            part.add_to(self._later, -sign)

    def running(self, task: int) -> Rows:
        """The cards of a task that was on its node before the session."""
        node = int(self._cluster.snapshot.tasks.node[task])
        part = None if node == NONE else self._usage.part(node, task)
        return np.empty(0, dtype=np.intp) if part is None else part.cards

    def ask(self, nodes: Rows, wish: CardCriteria, waits: bool, allowed: Mask | None = None) -> Chosen:
        """Where the wish can be fulfilled, now or (``waits``) when those that leave have left."""
        taken = (self._later,) if waits else (self._now, self._later)
        return choose(
            self.cards,
            taken,
            nodes,
            wish.wants,
            wish.allowed if allowed is None else allowed,
            self._order,
            wish.rules,
        )

    def ask_empty(self, nodes: Rows, wish: CardCriteria) -> Mask:
        """Where the wish could be fulfilled if nobody else were there."""
        nothing = np.zeros_like(self._now)
        return choose(self.cards, (nothing,), nodes, wish.wants, wish.allowed, Order.FIRST, wish.rules).fits

    def _given(self, chosen: Chosen, wish: CardCriteria) -> AssignedCards | None:
        if not chosen.fits.all():
            return None
        numbers = np.concatenate([np.empty(0, dtype=np.intp), *chosen.cards])
        amounts = np.zeros((len(self._now), len(numbers)), dtype=np.int64)
        amounts[NUMBER] = 1
        amounts[MEMORY] = np.concatenate([np.empty(0, dtype=np.int64), *chosen.memory])
        cores = [request.cores if request else 0 for request in wish.wants]
        amounts[CORES] = np.repeat(cores, [len(one) for one in chosen.cards])
        amounts[wish.rules] = 1
        return AssignedCards(chosen, Part(numbers, amounts))


def by_rule(rules: Sequence[Mapping[str, str]], labels: Mapping[str, str]) -> tuple[int, ...]:
    """The numbers of the rules whose labels a pod has, all of them."""
    return tuple(
        number for number, rule in enumerate(rules) if all(labels.get(key) == value for key, value in rule.items())
    )
