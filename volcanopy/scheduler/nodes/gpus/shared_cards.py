"""The view of the GPU cards that other plugins get from the one that assigns them."""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from volcanopy.scheduler.ledger.gpu_cards import CardNeed, TakenCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Rows
from volcanopy.scheduler.nodes.gpus.card_selection import ALL_CORES, CORES, MEMORY, PODS, CardCriteria, CardRequest
from volcanopy.scheduler.nodes.gpus.card_usage import SessionCards


class SharedCards:
    """The cards of a session, as :class:`~volcanopy.scheduler.ledger.gpu_cards.GpuCards`."""

    is_whole = False

    def __init__(
        self,
        cards: SessionCards,
        shapes: Iterable[int],
        criteria: Callable[[TaskView], CardCriteria | None],
        types: Callable[[TaskView], tuple[str, ...]],
        sync: Callable[[], None],
    ) -> None:
        """``shapes`` are those whose tasks request cards, ``criteria`` returns what such a task requests, ``types`` the types of
        cards that it accepts, and ``sync`` assigns cards to the tasks that were placed since the last call.
        """
        self._cards, self._table, self._criteria, self._sync = cards, cards.cards, criteria, sync
        self.shapes = frozenset(shapes)
        self.kind = types
        self.node, self.start, self.memory = self._table.node, self._table.start, self._table.memory

    def free(self, cards: Rows) -> tuple[Ints, Ints]:
        """Memory and percent of the cores that are free on each of these cards; less than nothing where no pod can run."""
        table, used = self._table, self._cards.usage(cards)
        usable = table.healthy[cards] & (used[PODS] < table.slots[cards]) & (used[CORES] < ALL_CORES)
        memory = np.where(usable, table.memory[cards] - used[MEMORY], -1)
        return memory, np.where(usable, ALL_CORES - used[CORES], -1)

    def changed(self) -> Sequence[int]:
        """The rows of the nodes whose cards were assigned or became free during the session, in order."""
        self._sync()
        return self._cards.changed

    def state(self, task: TaskView, node: int) -> Hashable:
        """Return what :meth:`taken` and :meth:`free` depend on for the task on a node; None if that is not known."""
        criteria = self._criteria(task)
        self._sync()
        return None if criteria is None else self._cards.state(node, criteria)

    def need(self, task: TaskView) -> CardNeed | None:
        """What the task requests of cards, in sum of its containers: as many cards, each as the largest request."""
        criteria = self._criteria(task)
        if criteria is None:
            return None
        requests: list[CardRequest] = [request for request in criteria.requests if request is not None]
        memory = np.maximum.reduce([request.memory_of(self.memory) for request in requests])
        return CardNeed(
            sum(request.number for request in requests),
            np.where(criteria.allowed, memory, UNLIMITED),
            max(request.cores for request in requests),
        )

    def taken(self, task: TaskView, rows: Rows) -> TakenCards | None:
        """The cards that the task would get on each node: of those free now, else of those free later; None without a request."""
        criteria = self._criteria(task)
        if criteria is None:
            return None
        self._sync()
        now = self._cards.evaluate(rows, criteria, pipelined=False)
        cards, memory, cores, positions = [*now.cards], [*now.memory], self._cores(criteria), [*now.positions]
        if self._cards.has_terminating and not now.fits.all():
            rest = np.flatnonzero(~now.fits)
            later = self._cards.evaluate(rows[rest], criteria, pipelined=True)
            cards, memory, cores = [*cards, *later.cards], [*memory, *later.memory], cores * 2
            positions += [rest[each] for each in later.positions]
        numbers = np.repeat(np.array(cores, dtype=np.int64), [len(each) for each in cards])
        return TakenCards(np.concatenate(positions), np.concatenate(cards), np.concatenate(memory), numbers)

    @staticmethod
    def _cores(criteria: CardCriteria) -> list[int]:
        return [0 if request is None else request.cores for request in criteria.requests]
