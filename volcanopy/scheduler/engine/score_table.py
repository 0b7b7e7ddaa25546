"""Scores of all nodes for many shapes, refreshed for all shapes at once.

Many small jobs of many shapes are placed one after the other, and each placement makes the scores of its node stale for all
shapes. One call for 200 shapes and one node costs little more than a call for one shape, and nodes with equal columns have
equal scores, which are computed once. The table equals what each shape would compute by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.task_kinds import TaskKind
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.dispatch import Coupling, Hooks

T = TypeVar("T")

INFEASIBLE = -np.inf


class AnswersOfStates(Generic[T]):
    """Answers about a node by what the plugins read of it: equal for all nodes with equal columns and ``states``."""

    def __init__(self, ledger: Ledger, states: tuple[Callable[[int], Hashable], ...] = ()) -> None:
        self._ledger, self._states = ledger, states
        self.answers: dict[Hashable, T] = {}
        self._resources = set(range(len(ledger.snapshot.axis))) if states else set[int]()
        """The resources that plugins have read so far, all where there are states; all answers were computed from no others."""
        self._read = ledger.positions_of(self._resources)

    def key(self, node: int) -> Hashable:
        """Return the state of a node, as far as plugins read it."""
        columns = self._ledger.columns_of(node, self._read)
        return (columns, *[state(node) for state in self._states]) if self._states else columns

    def add(self, node: int, read: set[int], answers: T) -> None:
        """Keep the answers about a node, for which plugins read the columns of these resources."""
        if not read <= self._resources:
            self._resources |= read
            self._read = self._ledger.positions_of(self._resources)
            self.answers.clear()
        if len(self.answers) == defaults.TABLE_STATES:
            del self.answers[next(iter(self.answers))]
        self.answers[self.key(node)] = answers


@dataclass(eq=False)
class NodeScores:
    """The cached answers for one kind of task on N nodes."""

    kind: TaskKind
    tasks: TasksView
    dims: Rows  # The positions of the resources that it requests.
    request: Ints  # (R, 1): the request; where nothing is requested, less than any node can lack.
    coupling: Coupling  # Which answers for a node depend on others: these are not cached.
    feasible: Mask
    """(N,): where no predicate rejects the task, at the latest after the pods that terminate there are gone."""
    score: Floats  # (N,): ``score``.
    ranked: Floats
    """(N,): the score where the task fits into free resources and no predicate rejects it, else INFEASIBLE."""
    of_states: AnswersOfStates[tuple[bool, float, float]] | None
    """Of single nodes ``feasible``, ``score`` and ``ranked`` by their state; None if they differ between nodes of one state."""
    following: dict[Hashable, Hashable] = field(default_factory=dict)
    """By the state of a node the state with one more task of the kind, as far as such placements were seen."""
    unseen: tuple[Hashable, list[int], int] | None = None
    """The state of the last node of a run with whose placement it ended, the nodes, and the number of changes before it."""
    changes: int = NONE  # How many changes of nodes the answers include.
    is_member: bool = False  # Whether it is in the table, which then has its score and ranked as rows.
    is_alone: bool = False  # Whether its answers do not allow that.
    partial: bool = False
    """Whether the plugins were not asked about nodes that have never had the capacity for the task."""

    def restore(self, node: int) -> bool:
        """Set what was answered about a node in the same state; return whether that is known."""
        answers = None if self.of_states is None else self.of_states.answers.get(self.of_states.key(node))
        if answers is None:
            return False
        self.feasible[node], self.score[node], self.ranked[node] = answers
        return True


class ScoreTable:
    """The shapes of one session whose scores are refreshed together."""

    def __init__(self, ledger: Ledger, hooks: Hooks) -> None:
        self._ledger, self._hooks = ledger, hooks
        self._members: list[NodeScores] = []
        self._candidates: dict[int, NodeScores] = {}
        self._repeats = 0
        self._changes = 0
        self._of_states: AnswersOfStates[Floats] = AnswersOfStates(ledger)

    def refresh(self, entry: NodeScores) -> bool:
        """Update an entry that is in the table; return whether it is."""
        if not entry.is_member or not self._update():
            return False
        entry.changes = self._changes
        return True

    def add(self, entry: NodeScores, refresh: Callable[[NodeScores], None]) -> None:
        """Take an up-to-date entry into the table, once shapes outside come up again so often that building is worth it.

        ``refresh`` updates one entry by itself.
        """
        if entry.is_alone:
            return
        self._update()
        number = len(self._members) + len(self._candidates)
        if id(entry) in self._candidates:
            self._repeats += 1
            if number >= defaults.TABLE_LEAST and self._repeats > number // defaults.TABLE_REPEATS:
                self._build(refresh)
        elif number < defaults.TABLE_MOST:
            static = self._hooks.rejections_are_static(entry.kind)
            entry.is_alone = not (static and self._hooks.follows_from_columns(entry.kind))  # policies never read less
            if not entry.is_alone:
                self._candidates[id(entry)] = entry

    def _build(self, refresh: Callable[[NodeScores], None]) -> None:
        for entry in self._candidates.values():
            refresh(entry)
        self._members += self._candidates.values()
        self._candidates, self._repeats = {}, 0
        self._changes = len(self._ledger.touched)
        self._feasible: Mask = np.stack([entry.feasible for entry in self._members])
        self._for_all: list[bool] = np.logical_and.reduce(self._feasible).tolist()
        self._score: Floats = np.stack([entry.score for entry in self._members])
        self._ranked: Floats = np.stack([entry.ranked for entry in self._members])
        for row, entry in enumerate(self._members):
            entry.is_member, entry.score, entry.ranked = True, self._score[row], self._ranked[row]
        self._tasks = TasksView([entry.kind for entry in self._members])
        self._requests = np.concatenate([entry.request for entry in self._members], axis=1)
        self._largest: list[int] = self._requests.max(axis=1).tolist()
        self._of_states.answers.clear()

    def _update(self) -> bool:
        """Refresh the nodes that changed since; if there are too many, drop the table and return False."""
        touched = self._ledger.touched
        now = len(touched)
        if now == self._changes or not self._members:
            self._changes = now
            return True
        nodes = None if now - self._changes > 2 * defaults.TABLE_NODES else set(touched[self._changes :])
        self._changes, before = now, self._changes
        if nodes is None or len(nodes) > defaults.TABLE_NODES:
            for entry in self._members:
                entry.is_member, entry.changes = False, before
            self._members = []
            return False
        for node in nodes:
            self._refresh(node)
        return True

    def _refresh(self, node: int) -> None:
        scores = self._of_states.answers.get(self._of_states.key(node))
        if scores is None:
            scores = self._ask(node)
        self._score[:, node] = scores
        free = self._ledger.free_of(self._ledger.single(node))
        if any(map(operator.gt, self._largest, free[:, 0].tolist())):
            scores = np.where(np.logical_and.reduce(self._requests <= free), scores, INFEASIBLE)
        self._ranked[:, node] = scores if self._for_all[node] else np.where(self._feasible[:, node], scores, INFEASIBLE)

    def _ask(self, node: int) -> Floats:
        """(S,): the score of a node for each member, common to all nodes with equal columns of what the plugins read."""
        view = NodesView(self._ledger, self._ledger.single(node))
        scores: Floats = self._hooks.score(self._tasks, view)[:, 0]
        if not view.rows_read:  # else the scores may differ between nodes with equal columns
            self._of_states.add(node, view.read, scores)
        return scores
