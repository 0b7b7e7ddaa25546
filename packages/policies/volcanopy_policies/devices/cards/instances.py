"""Instances of GPU cards in MIG mode, as columns, and the selection of one for a pod on many cards at once.

A card in MIG mode is divided into instances. Its model allows several groups of instances, and only the instances of one group
exist at a time: a card in use keeps its group until it is empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from volcanopy.scheduler.model.resources import Ints, Mask, Rows

WHOLE = 0
"""The row of the cards that are not divided."""
UNKNOWN = 0
"""The column of an instance that no group of the model has; while it is used, no other instance of the card is free."""
_NO_GROUP = -1


class Instance(NamedTuple):
    """One instance of a card: its name on the card (``group2-3``), the number of its group, and its memory in MB."""

    name: str
    group: int
    memory: int


@dataclass(frozen=True, eq=False)
class InstanceTable:
    """The instances of C cards: those of the same model are described once."""

    model: Rows
    """(C,): the row of each card's model in the following tables, or WHOLE."""
    group: Ints
    """(models, K): the number of the group of each instance, in the order in which they are selected."""
    memory: Ints
    """(models, K): its memory in MB, -1 where there is no instance."""
    names: tuple[tuple[str, ...], ...]
    """By model: the name of each instance."""
    columns: tuple[Mapping[str, int], ...]
    """By model: the column of an instance by its name."""
    factor: int = 1
    """The number of MB in one unit of the memory that pods request."""

    @property
    def width(self) -> int:
        """The number of columns K: 0 if no card is divided."""
        return int(self.group.shape[1])

    def divided(self, cards: Rows) -> Mask:
        """Return which of these cards are in MIG mode."""
        mask: Mask = self.model[cards] != WHOLE
        return mask

    def charged(self, cards: Rows, columns: Rows) -> Ints:
        """Return the memory of these instances, in the unit of the requests of pods."""
        return self.memory[self.model[cards], columns] // self.factor

    def column(self, card: int, name: str) -> int:
        """Return the column of an instance of a card in MIG mode."""
        return self.columns[int(self.model[card])].get(name, UNKNOWN)

    def first_fit(self, cards: Rows, used: Ints, requested: Ints) -> Rows:
        """Return for each of M cards the column of the instance that a pod gets; UNKNOWN if there is none.

        ``used`` are the (K, M) pods on each instance, ``requested`` the memory that the pod requests of each card. An empty card
        gets the first group that has an instance large enough.
        """
        models = self.model[cards]
        group, in_use = self.group[models].T, used > 0
        of_used = np.where(in_use, group, np.iinfo(np.int64).max)
        first = of_used.min(axis=0)
        of_used[~in_use] = np.iinfo(np.int64).min
        last = of_used.max(axis=0)
        empty = ~in_use.any(axis=0)
        free = ~in_use & (empty | ((group == first) & (group == last))) & (group != _NO_GROUP)
        free &= requested * self.factor <= self.memory[models].T
        return np.where(free.any(axis=0), free.argmax(axis=0), UNKNOWN)


def instance_table(models: Sequence[Sequence[Instance]], of_cards: Sequence[int], factor: int = 1) -> InstanceTable:
    """Return the table of cards with these instances: of each card the number of its model, from 1, or WHOLE.

    The instances of a model are in the order in which they are selected.
    """
    width = 1 + max((len(instances) for instances in models), default=0) if any(of_cards) else 0
    group = np.full((1 + len(models), width), _NO_GROUP, dtype=np.int64)
    memory = np.full_like(group, -1)
    names: list[tuple[str, ...]] = [()]
    for row, instances in enumerate(models if width else (), start=1):
        group[row, 1 : 1 + len(instances)] = [instance.group for instance in instances]
        memory[row, 1 : 1 + len(instances)] = [instance.memory for instance in instances]
        names.append(("", *(instance.name for instance in instances)))
    columns = tuple({name: column for column, name in enumerate(own) if name} for own in names)
    return InstanceTable(np.array(of_cards, dtype=np.intp), group, memory, tuple(names), columns, factor)
