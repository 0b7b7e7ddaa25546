"""Room for a gang in one part of the network: whole bundles of others leave, and the gang moves in."""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle as Piece
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundles
from volcanopy.scheduler.actions.evict.eviction_cost import Worth
from volcanopy.scheduler.actions.evict.victim_search import Bundle, Cost, RoomMaker, Rule
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE
from volcanopy.scheduler.placement.node_selection import Placement
from volcanopy.scheduler.session.session import Session

_FEW = 64
"""For gangs up to this size, it is tried with all of it whether a bundle can stay, not only with those beside it."""


class Reach:
    """The hypernodes of one action, each with its nodes and the placement within it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._placements = {session.snapshot.hypernodes.top: session.placement}
        self._masks: dict[int, Mask] = {}

    def placement(self, domain: int) -> Placement:
        """Chooses among the nodes of a hypernode."""
        known = self._placements.get(domain)
        if known is None:
            nodes = self._session.snapshot.hypernodes.nodes(domain)
            known = self._placements[domain] = Placement(self._session.ledger, self._session.hooks, nodes)
        return known

    def nodes(self, domain: int) -> Mask:
        """(N,): the nodes of a hypernode."""
        known = self._masks.get(domain)
        if known is None:
            table = self._session.snapshot.hypernodes
            known = self._masks[domain] = table.holds[domain, table.of_node]
        return known


class Prey:
    """The tasks that a rule lets a job have the room of, the cheapest first, and how important each of them is."""

    def __init__(self, session: Session, worth: Worth, rule: Rule, task: TaskView, reach: Reach, whole: bool) -> None:
        """``whole``: gangs may be broken as well."""
        self._session, self._worth, self._reach, self._whole = session, worth, reach, whole
        rows = rule.prey(task)
        rows = rows[EVICTABLE[session.ledger.status[rows]]]
        self.rows, classes = worth.cheapest_first(rows, rule.ranks, rule.standing)
        self.classes: Ints = np.zeros(len(session.snapshot.tasks), dtype=np.int64)
        """(T,): the class of each."""
        self.classes[self.rows] = classes
        self._bundles: dict[int, tuple[Rows, Bundles]] = {}

    def bound(self, domain: int, missing: Ints) -> tuple[float, float]:
        """What an exchange costs at least that frees this (R,) much in a hypernode: the class of the dearest, work lost."""
        if not (missing > 0).any():
            return (-1.0, 0.0)
        table, shapes = self._session.snapshot.tasks, self._session.snapshot.shapes
        rows = self.rows[self._reach.nodes(domain)[self._session.ledger.node[self.rows]]]
        largest = shapes.request.values[:, table.shape[rows]].max(axis=1, initial=0)
        count = max(
            -(-int(units) // int(most)) for units, most in zip(missing, largest, strict=True) if units > 0 and most
        )
        return (float(self.classes[rows].min()), count * float(self._worth.work(rows).min()))

    def within(self, domain: int) -> tuple[Rows, Bundles]:
        """Those who may leave in a hypernode, the cheapest first, and the bundles that they leave in."""
        known = self._bundles.get(domain)
        if known is None:
            rows = self.rows[self._reach.nodes(domain)[self._session.ledger.node[self.rows]]]
            bundles = Bundles(self._session, self._worth, rows)
            if not self._whole and bundles.whole:
                bound = {row for bundle in bundles.whole.values() for row in bundle.rows}
                rows = np.array([row for row in rows.tolist() if row not in bound], dtype=np.intp)
            known = self._bundles[domain] = (rows, bundles)
        return known


class GangRoom(RoomMaker):
    """Makes room for a gang, or for a part of it, within one hypernode; bundles leave whole."""

    def __init__(
        self,
        session: Session,
        statement: Statement,
        job: JobView,
        rule: Rule,
        worth: Worth,
        prey: Prey,
        reach: Reach,
        domain: int,
    ) -> None:
        super().__init__(session, statement, job, rule, worth)
        self._prey, self._reach, self._domain = prey, reach, domain
        self._rows, self._bundles = prey.within(domain)
        self._closer: dict[int, int] = {}
        self.given_up = False
        """Whether the plugins gave up anyone at all."""
        self._undone = False

    def confine(self, tasks: Iterable[int], domain: int) -> None:
        """These tasks go to a hypernode within the one that the room is in."""
        self._closer.update(dict.fromkeys(tasks, domain))

    def fill(self, tasks: Iterable[int], enough: Callable[[], bool]) -> bool:
        """Place tasks, in order, until it is enough; whether it ever was."""
        for row in tasks:
            if enough():
                return True
            self.make_room(TaskView(self._session.ledger, row))
        return enough()

    def adopt(self, evicted: Iterable[int], placed: Iterable[tuple[int, int]]) -> None:
        """Do what another room in the same hypernode found out."""
        self._evict(tuple(evicted))
        for row, node in placed:
            self._put(TaskView(self._session.ledger, row), node)

    def settle(self) -> bool:
        """Spare whom the whole placement can do without; whether the exchange would last."""
        self._undone = not super().settle()
        return not self._undone

    @property
    def avenged(self) -> bool:
        """Whether an exchange was not made because a victim could have undone it."""
        return self._undone or bool(self._untouchable)

    @property
    def cost(self) -> Cost:
        """What all that leaves costs: the class of the dearest, work lost, gangs broken, count."""
        victims = self.victims
        if not victims:
            return (-1.0, 0.0, 0.0, 0.0)
        return (float(self._prey.classes[victims].max()), *self._price(self._leaving()))

    def _kind(self, task: TaskView) -> Hashable:
        return (super()._kind(task), self._domain_of(task))

    def _placement(self, task: TaskView) -> Placement:
        return self._reach.placement(self._domain_of(task))

    def _domain_of(self, task: TaskView) -> int:
        return self._closer.get(task.row, self._domain)

    def _candidates(self, task: TaskView) -> tuple[Rows, Ints]:
        ledger, domain = self._session.ledger, self._domain_of(task)
        rows = self._rows[EVICTABLE[ledger.status[self._rows]]]
        if domain != self._domain:
            rows = rows[self._reach.nodes(domain)[ledger.node[rows]]]
        return rows, self._prey.classes[rows]

    def _offered(self, task: TaskView, rows: Rows) -> list[Bundle]:
        """The bundles of these candidates that the plugins give up as a whole, the cheapest first."""
        pieces = list(dict.fromkeys(self._bundles.of(row) for row in rows.tolist()))
        pieces = [piece for piece in pieces if all(self._is_free_to_go(row) for row in piece.rows)]
        pieces.sort(key=self._dearness)
        while pieces:
            views = [TaskView(self._session.ledger, row) for piece in pieces for row in piece.rows]
            allowed = {view.row for view in self._rule.consent(task, views)}
            kept = [piece for piece in pieces if allowed.issuperset(piece.rows)]
            partly = len(allowed) > sum(len(piece.rows) for piece in kept)
            if not partly:  # else what a bundle that stays would have used up is there for the others
                self.given_up = self.given_up or bool(kept)
                return [piece.rows for piece in kept]
            pieces = [piece for piece in pieces if piece in kept or allowed.isdisjoint(piece.rows)]
        return []

    def _dearness(self, piece: Piece) -> tuple[float, float, bool]:
        return (float(self._prey.classes[list(piece.rows)].max()), piece.work, piece.breaks)

    def _price(self, bundles: Sequence[Bundle]) -> Cost:
        pieces = [self._bundles.of(rows[0]) for rows in bundles]
        count = sum(len(piece.rows) for piece in pieces)
        return self._bundles.work(pieces), float(sum(piece.breaks for piece in pieces)), float(count)

    def _losses(self, rows: Rows) -> Floats:
        return self._bundles.losses[rows]

    def _leaving(self) -> list[Bundle]:
        pieces = list(dict.fromkeys(self._bundles.of(row) for row in self.victims))
        return [piece.rows for piece in sorted(pieces, key=self._dearness, reverse=True)]

    def _spare_if_possible(self, bundle: Bundle) -> None:
        if not self._could_stay(bundle):
            return
        before = len(self.victims)
        super()._spare_if_possible(bundle)
        if len(self.victims) == before and 1 < len(self.placed) <= _FEW:
            self._spare_with_all_moved(bundle)

    def _could_stay(self, bundle: Bundle) -> bool:
        """Whether the room without these pods' is enough for all who were placed, if it were in pieces of the right size."""
        ledger, table = self._session.ledger, self._session.snapshot.tasks
        requests = self._session.snapshot.shapes.request.values
        rows, nodes = (np.array(column, dtype=np.intp) for column in zip(*self.placed, strict=True))
        placed = requests[:, table.shape[rows]]
        dims = np.flatnonzero(placed.any(axis=1))
        room = ledger.future[dims]
        np.add.at(room.T, nodes, placed[dims].T)
        staying = np.array(bundle, dtype=np.intp)
        np.subtract.at(room.T, ledger.node[staying], requests[dims][:, table.shape[staying]].T)
        room = np.maximum(room[:, self._reach.nodes(self._domain)], 0)
        if (room.sum(axis=1) < placed[dims].sum(axis=1)).any():
            return False
        least = placed[dims].min(axis=1)
        asked = least > 0
        return not asked.any() or bool((room[asked] // least[asked, None]).min(axis=0).sum() >= len(rows))

    def _spare_with_all_moved(self, bundle: Bundle) -> None:
        """Let a bundle stay if all who were placed find places anew with it there."""
        statement, placed = self._statement, list(self.placed)
        mark = statement.checkpoint()
        for row, _ in placed:
            statement.withdraw(row)
        self.placed = []
        self._stay(bundle)
        for row, _ in placed:
            if not self._place_without_evictions(TaskView(self._session.ledger, row)):
                statement.rollback(mark)
                self.placed = placed
                return
