"""Predicates and scores of all nodes, cached per kind of task and refreshed where nodes changed.

Tasks are of one kind if every node hook answers the same for them: they have one shape, and one cache key of each plugin.
A kind refreshes the nodes that changed since its last use when it is used again; kinds that take turns are refreshed
together (:mod:`.score_table`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.score_table import INFEASIBLE, AnswersOfStates, NodeScores, ScoreTable
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import UNLIMITED, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.plugin import NodeRejection


class ScoreCache:
    """The cached answers of one session, for the nodes of ``rows``."""

    def __init__(self, ledger: Ledger, hooks: Hooks, rows: Rows, within: Mask | None) -> None:
        """``within`` (N,): which nodes are in ``rows``; None for all."""
        self._ledger, self._hooks, self._rows, self._within = ledger, hooks, rows, within
        self._entries: dict[Hashable, NodeScores] = {}
        self._table = ScoreTable(ledger, hooks)

    def entry(self, task: TaskView) -> NodeScores:
        """Return the entry of the task's kind, which may be out of date."""
        key = self._hooks.cache_key(task)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._new(task)
        return entry

    def refresh(self, entry: NodeScores) -> None:
        """Update an entry on the nodes that changed since its last refresh."""
        if not self._table.refresh(entry):
            self._refresh(entry)

    def complete(self, entry: NodeScores) -> None:
        """Update an entry on the nodes that changed, and on those without the capacity for the task."""
        if entry.changes == NONE or entry.partial:
            entry.partial, entry.changes = False, len(self._ledger.touched)
            self._ask(entry, self._rows)
        self.refresh(entry)

    def best(self, entry: NodeScores) -> int:
        """Return the first of the nodes that rank highest for an entry that is up to date."""
        best = int(entry.ranked.argmax())
        if self._within is None and not entry.is_member:
            self._table.add(entry, self.complete)
        return best

    def _refresh(self, entry: NodeScores) -> None:
        touched = self._ledger.touched
        now = len(touched)
        if entry.changes == now:
            return
        if entry.changes == NONE:
            future = self._ledger.future.take(self._rows, axis=1, mode="clip")
            stale = self._rows[np.logical_and.reduce(future >= entry.request, axis=0)]  # enough is free, now or later
            entry.partial = 2 * len(stale) <= len(self._rows)
            stale = stale if entry.partial else self._rows
        elif now - entry.changes >= len(self._rows):
            stale, entry.partial = self._rows, False
        else:
            stale = np.array([*dict.fromkeys(touched[entry.changes :])], dtype=np.intp)
            if self._within is not None:
                stale = stale[self._within[stale]]
        if len(stale) <= defaults.TABLE_NODES:
            stale = np.array([node for node in stale.tolist() if not entry.restore(node)], dtype=np.intp)
        if len(stale):
            self._ask(entry, stale)
        entry.changes = now

    def _new(self, task: TaskView) -> NodeScores:
        kind = self._hooks.kind(task)
        request, nodes = task.request.values, len(self._ledger.snapshot.nodes)
        return NodeScores(
            kind=kind,
            tasks=TasksView([kind]),
            dims=request.nonzero()[0],
            request=np.where(request != 0, request, -UNLIMITED)[:, None],
            coupling=self._hooks.coupling(kind),
            of_states=AnswersOfStates(self._ledger, self._hooks.node_states(kind)),
            feasible=np.zeros(nodes, dtype=np.bool_),
            score=np.zeros(nodes, dtype=np.float64),
            ranked=np.full(nodes, INFEASIBLE, dtype=np.float64),
        )

    def _ask(self, entry: NodeScores, rows: Rows) -> None:
        view, rejections = NodesView(self._ledger, rows), list[NodeRejection]()
        if entry.coupling.rejections and not entry.coupling.limits:  # they are computed at each placement
            score, scope = self._hooks.scores(entry.tasks, view)
        else:
            score, rejections, scope = self._hooks.answers(entry.kind, entry.tasks, view)
        fits = (self._ledger.free_of(rows) >= entry.request).all(axis=0)
        now, later = feasible(rejections, len(rows)) if rejections else (fits, np.ones(len(rows), dtype=np.bool_))
        ranked = np.where(fits & now, score, INFEASIBLE)
        if rows is self._rows and self._within is None:
            entry.feasible, entry.score, entry.ranked = later, score, ranked
        else:
            entry.feasible[rows], entry.score[rows], entry.ranked[rows] = later, score, ranked
        if view.rows_read or scope > Scope.STATE:
            entry.of_states = None
        elif entry.of_states is not None and len(rows) <= defaults.TABLE_NODES:
            read = view.read.union(entry.dims.tolist())
            for row, *answers in zip(rows.tolist(), later.tolist(), score.tolist(), ranked.tolist(), strict=True):
                entry.of_states.add(row, read, (answers[0], answers[1], answers[2]))


def feasible(rejections: Sequence[NodeRejection], count: int) -> tuple[Mask, Mask]:
    """Return which of ``count`` nodes no predicate rejects now, and which after the pods that terminate there are gone."""
    return ~rejected(rejections, count), ~rejected([each for each in rejections if not each.temporary], count)


def rejected(rejections: Sequence[NodeRejection], count: int) -> Mask:
    """Return the union of the rejections' masks over ``count`` nodes."""
    union = np.zeros(count, dtype=np.bool_)
    for rejection in rejections:
        union |= rejection.nodes
    return union
