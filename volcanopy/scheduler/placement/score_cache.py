"""Kinds of tasks that take turns: after a placement, its node is scored for all of them in one go.

Many small jobs of many shapes ask for a node one after the other, and each placement makes what all shapes know of that
node stale. To score one node for two hundred shapes costs little more than for one; to score two hundred nodes each time
that a shape's turn comes round costs many times that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.framework.dispatch import Hooks
from volcanopy.scheduler.framework.plugin import Scope, ScoreOf
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE

NOWHERE = -np.inf
LEAST, MOST = 4, 256
"""So many kinds are worth being kept abreast, and may be."""
_NODES = 4
"""When more nodes than this changed since the last question, each kind asks for itself."""
_STATES = 4096
"""So many different nodes are remembered."""
_BLOCK = 16
"""So many nodes share a highest rank."""


@dataclass(eq=False)
class Answers:
    """What is known about one kind of task on every node."""

    task: TaskView
    request: Ints
    dims: Rows
    wanted: Ints
    """(R, 1): the request; where it asks for nothing, less than any node can be short of."""
    scope: Scope
    passes: Mask
    """Where the task can be, at the latest when those that leave have left."""
    score: Floats
    ranked: Floats
    """The score where the task fits into free room, else minus infinity."""
    seen: int = NONE
    """How many changes of nodes are reckoned in."""
    member: bool = False
    place: int = NONE
    """Its number among the members."""
    alone: bool = False
    """Whether it is of no use to keep it abreast of others."""

    @classmethod
    def about(cls, task: TaskView, scope: Scope, nodes: int) -> Answers:
        """Nothing is known yet."""
        request = task.request.values
        return cls(
            task=task,
            request=request,
            dims=np.flatnonzero(request),
            wanted=np.where(request != 0, request, -UNLIMITED)[:, None],
            scope=scope,
            passes=np.zeros(nodes, dtype=np.bool_),
            score=np.zeros(nodes, dtype=np.float64),
            ranked=np.full(nodes, NOWHERE, dtype=np.float64),
        )


class Abreast:
    """The kinds of tasks of one session that are kept up with every placement."""

    def __init__(self, ledger: Ledger, hooks: Hooks, renew: Callable[[Answers], None]) -> None:
        """``renew`` brings one kind up to date by itself."""
        self._ledger, self._hooks, self._renew = ledger, hooks, renew
        self._members: list[Answers] = []
        self._coming: list[Answers] = []
        self._seen = 0
        self._scores: tuple[ScoreOf, ...] = ()
        self._table: _Table | None = None
        self._by_columns = False
        self._known: dict[bytes, tuple[Floats, Mask | None]] = {}
        """What nodes with certain columns are to the members: nodes that are alike are filled alike."""

    def renews(self, answers: Answers) -> bool:
        """Bring a kind up to date if it is kept here; whether it is."""
        if not answers.member or not self._catch_up():
            return False
        answers.seen = self._seen
        return True

    def best(self, answers: Answers) -> int:
        """The first of the nodes that rank highest for a kind that is kept here and up to date."""
        assert self._table is not None
        return self._table.best(answers.place)

    def join(self, answers: Answers) -> None:
        """Keep a kind that was asked about, as soon as there are enough of them."""
        if answers.member:
            return
        self._catch_up()  # while others ask the members must not fall behind too far
        if answers.alone:
            return
        if any(one is answers for one in self._coming):
            # Its turn came round again: there are not many more to wait for.
            if len(self._members) + len(self._coming) >= LEAST:
                self._form()
            return
        asks = answers.scope is Scope.COLUMNS and self._hooks.by_shape and self._hooks.is_steady(answers.task)
        if not asks or len(self._members) + len(self._coming) >= MOST:
            answers.alone = not asks
            return
        self._coming.append(answers)
        if len(self._coming) >= max(LEAST, len(self._members) // 2):
            self._form()

    def _form(self) -> None:
        coming = self._coming
        self._coming = []
        self._catch_up()
        members = [*self._members, *coming]
        tasks = [one.task for one in members]
        scores = self._hooks.scores_of_many(tasks)
        if scores is None:
            for one in coming:
                one.alone = True
            return
        for one in coming:
            self._renew(one)
        table = self._table
        if table is None or len(members) > table.width:
            self._table = table = _Table(len(coming[0].passes), 2 * len(members))
            table.take(self._members, 0)
        table.take(coming, len(self._members))
        self._scores, self._members, self._seen = scores, members, len(self._ledger.touched)
        self._by_columns = self._hooks.scores_by_columns(tasks)
        self._known.clear()
        wanted = np.concatenate([one.wanted for one in members], axis=1)
        self._wanted = list(zip(wanted.max(axis=1).tolist(), map(np.array, wanted), strict=True))
        for one in coming:
            one.member, one.seen = True, self._seen

    def _catch_up(self) -> bool:
        """Score the nodes that changed since for all members; if there are too many, nobody is a member any more."""
        touched = self._ledger.touched
        now = len(touched)
        if now == self._seen:
            return True
        nodes = set(touched[self._seen :].tolist()) if now - self._seen <= 2 * _NODES else set(range(_NODES + 1))
        if len(nodes) > _NODES:
            for one in self._members:
                one.member, one.seen = False, self._seen
            self._members, self._table = [], None
            self._seen = now
            return False
        if self._table is not None:
            for node in nodes:
                self._mend(self._table, node)
        self._seen = now
        return True

    def _mend(self, table: _Table, node: int) -> None:
        if not self._by_columns:
            scores, fits = self._judge(node)
        else:
            state = self._ledger.state_of(node)
            known = self._known.get(state)
            if known is None:
                if len(self._known) == _STATES:
                    self._known.clear()
                known = self._known[state] = self._judge(node)
            scores, fits = known
        if not table.is_open[node]:
            passes = table.passes[node, : len(scores)]
            fits = passes if fits is None else fits & passes
        table.put(node, scores, scores if fits is None else np.where(fits, scores, NOWHERE))

    def _judge(self, node: int) -> tuple[Floats, Mask | None]:
        """How well a node suits each member, and which of them fit into its free room; None for all."""
        scores: Floats = self._scores[0](node)
        for more in self._scores[1:]:
            scores += more(node)
        fits: Mask | None = None
        ledger = self._ledger
        free = ledger.idle[:, node] if ledger.is_plain else np.minimum(ledger.idle[:, node], ledger.future[:, node])
        for (most, wanted), room in zip(self._wanted, free.tolist(), strict=True):
            if most > room:
                fits = wanted <= room if fits is None else fits & (wanted <= room)
        return scores, fits


class _Table:
    """What is known of every node for all members: (N, width) columns, so that what one node is to them lies together.

    Of each block of nodes the highest rank for each member is kept: one node changes the highest of its block only.
    """

    def __init__(self, nodes: int, width: int) -> None:
        self.width = width
        self._blocks = -(-nodes // _BLOCK)
        self.passes: Mask = np.zeros((nodes, width), dtype=np.bool_)
        self._score: Floats = np.zeros((nodes, width), dtype=np.float64)
        self._ranked: Floats = np.full((self._blocks * _BLOCK, width), NOWHERE, dtype=np.float64)
        self._highest: Floats = np.full((self._blocks, width), NOWHERE, dtype=np.float64)
        self._nodes = nodes
        self.is_open: list[bool] = [True] * nodes
        """Whether all members pass on a node."""

    def take(self, kinds: Sequence[Answers], first: int) -> None:
        """Take over what is known about more kinds, the first of which gets this number; from now on it is known here."""
        if not kinds:
            return
        end = first + len(kinds)
        self.passes[:, first:end] = np.array([one.passes for one in kinds]).T
        self._score[:, first:end] = np.array([one.score for one in kinds]).T
        ranked = self._ranked[: self._nodes]
        ranked[:, first:end] = np.array([one.ranked for one in kinds]).T
        blocks = self._ranked[:, first:end].reshape(self._blocks, _BLOCK, len(kinds))
        self._highest[:, first:end] = blocks.max(axis=1)
        self.is_open = np.logical_and.reduce(self.passes[:, :end], axis=1).tolist()
        for place, one in enumerate(kinds, first):
            one.passes, one.score, one.ranked = self.passes[:, place], self._score[:, place], ranked[:, place]
            one.place = place

    def put(self, node: int, scores: Floats, ranked: Floats) -> None:
        """Note anew what one node is to each member."""
        count, block = len(scores), node // _BLOCK
        self._score[node, :count] = scores
        self._ranked[node, :count] = ranked
        part = self._ranked[block * _BLOCK : (block + 1) * _BLOCK, :count]
        np.maximum.reduce(part, axis=0, out=self._highest[block, :count])

    def best(self, place: int) -> int:
        """The first of the nodes that rank highest for a member."""
        start = int(self._highest[:, place].argmax()) * _BLOCK
        return start + int(self._ranked[start : start + _BLOCK, place].argmax())
