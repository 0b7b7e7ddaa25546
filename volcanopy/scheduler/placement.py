"""Where a task can go, and where best: the questions to predicates and scores, asked as rarely as they can be.

The answers about all nodes are kept per kind of task and renewed where nodes were touched since. A run of equal tasks
is placed from one table of scores, each node taken several times with ever more of the run on it; the outcome is the one
that placing them one by one would have had, because it is only done where every hook says that its answer follows from
a node's own columns (:class:`~volcanopy.scheduler.plugin.Scope`).
"""

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.cluster import NodesView
from volcanopy.scheduler.hooks import Hooks
from volcanopy.scheduler.ledger import Ledger
from volcanopy.scheduler.plugin import Refusal, Scope
from volcanopy.scheduler.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.views import TaskView

_VIRTUAL = 1 << 14
"""How many rows a table of scores for a run may have at first; more are reckoned when the run needs them."""
_NOWHERE = -np.inf


@dataclass
class Answers:
    """What is known about one kind of task on every node."""

    task: TaskView
    request: Ints
    dims: Rows
    passes: Mask
    idle_ok: Mask
    future_ok: Mask
    score: Floats
    ranked: Floats
    """The score where the task fits into free room, else minus infinity."""
    seen: int = 0


@dataclass
class Why:
    """Why no node takes a task: how many nodes refuse for which reason, and which of them for good."""

    counts: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    final: Mask | None = None

    def __str__(self) -> str:
        if not self.nodes:
            return "there are no nodes"
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.ordered())
        return f"0/{self.nodes} nodes are available: {reasons}" if reasons else f"0/{self.nodes} nodes are available"

    def ordered(self) -> list[tuple[str, int]]:
        """The reasons, those of most nodes first."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))


class Placement:
    """Chooses nodes for the tasks of one session."""

    def __init__(self, ledger: Ledger, hooks: Hooks) -> None:
        self._ledger = ledger
        self._hooks = hooks
        self._answers: dict[Hashable, Answers] = {}
        self._all: Rows = np.arange(len(ledger.snapshot.nodes))

    def choose(self, task: TaskView) -> tuple[int, bool] | None:
        """The best node, and whether its room is free already (else it is being freed); None if there is no node."""
        if task.nominated >= 0:
            chosen = self.choose_on(task, task.nominated)
            if chosen is not None:
                return chosen
        if self._hooks.scope(task) is Scope.CLUSTER:
            return self._choose_among(task, self._all)
        answers = self._current(task)
        if not len(answers.ranked):
            return None
        best = int(answers.ranked.argmax())
        if answers.ranked[best] != _NOWHERE:
            return best, True
        later = np.where(answers.passes & answers.future_ok, answers.score, _NOWHERE)
        best = int(later.argmax())
        return (best, False) if later[best] != _NOWHERE else None

    def choose_on(self, task: TaskView, node: int) -> tuple[int, bool] | None:
        """As :meth:`choose`, of one node only."""
        return self._choose_among(task, np.array([node]))

    def may_fit_later(self, task: TaskView, node: int) -> bool:
        """Whether the task's room is there once pods that leave the node have left; what else they block is not counted."""
        dims = self._dims(task)
        return bool(
            self._ledger.releasing[:, node].any()
            and (task.request.values[dims] <= self._ledger.future[dims, node]).all()
            and not self.refused(task, node, final=True)
        )

    def refused(self, task: TaskView, node: int, final: bool = False) -> bool:
        """Whether a predicate refuses the node (for good)."""
        refusals = self._hooks.predicate(task, NodesView(self._ledger, np.array([node])))
        return any(bool(one.nodes[0]) and (one.final or not final) for one in refusals)

    def refused_for_good(self, task: TaskView) -> Mask:
        """(N,): the nodes on which the task cannot be whoever leaves there."""
        refusals = self._hooks.predicate(task, NodesView(self._ledger, self._all))
        return _union([one for one in refusals if one.final], len(self._all))

    def scores(self, task: TaskView) -> Floats:
        """(N,): how well each node suits the task."""
        return self._current(task).score

    @staticmethod
    def _dims(task: TaskView) -> Rows:
        return np.flatnonzero(task.request.values)

    def choose_run(self, task: TaskView, count: int) -> Rows:
        """Nodes with free room for up to ``count`` tasks equal to this one, in the order of placing them.

        Empty where one of the hooks couples the placements of equal tasks: then :meth:`choose` is the way.
        """
        if count < 2 or task.nominated >= 0 or self._hooks.scope(task) is not Scope.COLUMNS:
            return np.empty(0, dtype=np.intp)
        answers = self._current(task)
        candidates = np.flatnonzero(answers.ranked != _NOWHERE)
        if not len(candidates):
            return candidates
        best_first = candidates[np.argsort(-answers.ranked[candidates], kind="stable")][:count]
        room = self._ledger.free(answers.dims, best_first) // answers.request[answers.dims, None]
        capacity = np.minimum(room.min(axis=0), count)
        return _Run(self._ledger, self._hooks, task, best_first, capacity, answers.ranked[best_first]).take(count)

    def why_not(self, task: TaskView) -> Why:
        """Why no node takes the task, in kube-scheduler's words."""
        nodes = NodesView(self._ledger, self._all)
        refusals = self._hooks.predicate(task, nodes)
        why = Why(nodes=len(self._all), final=np.zeros(len(self._all), dtype=np.bool_))
        counted = np.zeros(len(self._all), dtype=np.bool_)
        for refusal in refusals:
            number = int(refusal.nodes.sum())
            if number:
                why.counts[refusal.reason] = why.counts.get(refusal.reason, 0) + number
                counted |= refusal.nodes
                if refusal.final and why.final is not None:
                    why.final |= refusal.nodes
        request = task.request.values
        for position in np.flatnonzero(request):
            short = ~counted & (self._ledger.future[position] < request[position])
            if short.any():
                name = self._ledger.snapshot.axis.names[position]
                reason = "Too many pods" if name == "pods" else f"Insufficient {name}"
                why.counts[reason] = why.counts.get(reason, 0) + int(short.sum())
        return why

    def smallest_gap(self, task: TaskView) -> str:
        """The least that would have to become free on one node for the task to fit there; empty if room is not the cause.

        Measured as the shortfall relative to the request, summed over resources, on nodes that no predicate refuses.
        """
        nodes = NodesView(self._ledger, self._all)
        passes = ~_union(self._hooks.predicate(task, nodes), len(self._all))
        request = task.request.values
        dims = np.flatnonzero(request)
        missing = np.maximum(request[dims, None] - self._ledger.future[dims], 0)
        distance = (missing / request[dims, None]).sum(axis=0)
        distance[~passes] = np.inf
        if not len(distance) or not np.isfinite(distance).any():
            return ""
        node = int(distance.argmin())
        if not distance[node]:
            return ""
        names = self._ledger.snapshot.axis.names
        gaps = [(names[dim], int(units)) for dim, units in zip(dims, missing[:, node], strict=True) if units]
        listed = ", ".join(f"{quantity.text(name, units)} more {name}" for name, units in gaps)
        return f"{listed} on node {self._ledger.snapshot.nodes.names[node]}"

    def _choose_among(self, task: TaskView, rows: Rows) -> tuple[int, bool] | None:
        if not len(rows):
            return None
        request = task.request.values
        dims = np.flatnonzero(request)
        wanted = request[dims, None]
        passes = ~_union(self._hooks.predicate(task, NodesView(self._ledger, rows)), len(rows))
        for room, is_free in ((self._ledger.free(dims, rows), True), (self._ledger.future[np.ix_(dims, rows)], False)):
            fit = rows[passes & (room >= wanted).all(axis=0)]
            if len(fit):
                if len(fit) == 1:
                    return int(fit[0]), is_free
                return int(fit[self._hooks.node_order(task, NodesView(self._ledger, fit)).argmax()]), is_free
        return None

    def _current(self, task: TaskView) -> Answers:
        key = self._hooks.likeness(task)
        answers = self._answers.get(key)
        touched = self._ledger.touched
        if answers is None:
            count = len(self._all)
            request = task.request.values
            answers = self._answers[key] = Answers(
                task=task,
                request=request,
                dims=np.flatnonzero(request),
                passes=np.zeros(count, dtype=np.bool_),
                idle_ok=np.zeros(count, dtype=np.bool_),
                future_ok=np.zeros(count, dtype=np.bool_),
                score=np.zeros(count, dtype=np.float64),
                ranked=np.full(count, _NOWHERE, dtype=np.float64),
            )
            self._renew(answers, self._all)
        elif answers.seen < len(touched):
            stale = np.unique(np.array(touched[answers.seen :], dtype=np.intp))
            self._renew(answers, stale)
        answers.seen = len(touched)
        return answers

    def _renew(self, answers: Answers, rows: Rows) -> None:
        if not len(rows):
            return
        view = NodesView(self._ledger, rows)
        wanted = answers.request[answers.dims, None]
        passes = ~_union(self._hooks.predicate(answers.task, view), len(rows))
        idle_ok = (self._ledger.free(answers.dims, rows) >= wanted).all(axis=0)
        score = self._hooks.node_order(answers.task, view)
        answers.passes[rows] = passes
        answers.idle_ok[rows] = idle_ok
        answers.future_ok[rows] = (self._ledger.future[np.ix_(answers.dims, rows)] >= wanted).all(axis=0)
        answers.score[rows] = score
        answers.ranked[rows] = np.where(passes & idle_ok, score, _NOWHERE)


class _Run:
    """One run of equal tasks over candidate nodes: always the node whose next place scores best, the first of equals."""

    def __init__(
        self, ledger: Ledger, hooks: Hooks, task: TaskView, nodes: Rows, capacity: Ints, first_scores: Floats
    ) -> None:
        self._ledger, self._hooks, self._task = ledger, hooks, task
        self._nodes, self._capacity = nodes, capacity
        self._scores: list[list[float]] = [[score] for score in first_scores.tolist()]

    def take(self, count: int) -> Rows:
        """The nodes for up to ``count`` tasks, in order."""
        deep = max(2, _VIRTUAL // len(self._nodes))
        self._extend(np.arange(len(self._nodes)), deep)
        rows = self._nodes.tolist()
        heap = [(-scores[0], row, place) for place, (row, scores) in enumerate(zip(rows, self._scores, strict=True))]
        heapq.heapify(heap)
        levels = [0] * len(rows)
        chosen: list[int] = []
        while heap and len(chosen) < count:
            _, row, place = heap[0]
            chosen.append(row)
            levels[place] += 1
            level = levels[place]
            if level >= len(self._scores[place]) and level < self._capacity[place]:
                self._extend(np.array([place]), deep * 2)
            if level < len(self._scores[place]) and self._scores[place][level] != _NOWHERE:
                heapq.heapreplace(heap, (-self._scores[place][level], row, place))
            else:
                heapq.heappop(heap)
        return np.array(chosen, dtype=np.intp)

    def _extend(self, places: Rows, more: int) -> None:
        """Reckon the scores of up to ``more`` further places on each of these candidates."""
        known = np.array([len(self._scores[place]) for place in places])
        wanted = np.minimum(self._capacity[places] - known, more).clip(min=0)
        if not wanted.any():
            return
        owner = np.repeat(np.arange(len(places)), wanted)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(wanted) - wanted, wanted)
        view = NodesView(self._ledger, self._nodes[places][owner], self._task, known[owner] + within)
        refused = _union(self._hooks.predicate(self._task, view), len(owner))
        scores = np.where(refused, _NOWHERE, self._hooks.node_order(self._task, view)).tolist()
        start = 0
        for place, number in zip(places.tolist(), wanted.tolist(), strict=True):
            self._scores[place].extend(scores[start : start + number])
            start += number


def _union(refusals: Sequence[Refusal], count: int) -> Mask:
    refused = np.zeros(count, dtype=np.bool_)
    for refusal in refusals:
        refused |= refusal.nodes
    return refused
