"""Where a task can go, and where best: the questions to predicates and scores, asked as rarely as they can be.

The answers about all nodes are kept per kind of task and renewed where nodes were touched since. A run of equal tasks
is placed from one table of scores, each node taken several times with ever more of the run on it; the outcome is the one
that placing them one by one would have had, because it is only done where every hook says that its answer follows from
a node's own columns (:class:`~volcanopy.scheduler.framework.plugin.Scope`).
"""

import heapq
from collections.abc import Hashable, Sequence

import numpy as np

from volcanopy.scheduler.framework.dispatch import Hooks
from volcanopy.scheduler.framework.plugin import NodeRejection, Scope
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.placement.fit_error import Why, judge
from volcanopy.scheduler.placement.score_cache import NOWHERE, Abreast, Answers

_VIRTUAL = 1 << 14
"""How many rows a table of scores for a run may have at first; more are reckoned when the run needs them."""
_FEW = 512
"""So many touched nodes are asked about as they are noted: to ask of one twice is cheaper than to look for such."""


class Placement:
    """Chooses nodes for the tasks of one session, among those of ``reach`` if it is given."""

    def __init__(self, ledger: Ledger, hooks: Hooks, reach: Rows | None = None) -> None:
        self._ledger = ledger
        self._hooks = hooks
        self._answers: dict[Hashable, Answers] = {}
        self._all: Rows = np.arange(len(ledger.snapshot.nodes))
        self._reach = self._all if reach is None else reach
        self._within: Mask | None = None
        self._abreast = Abreast(ledger, hooks, self._update) if reach is None else None
        if reach is not None:
            self._within = np.zeros(len(self._all), dtype=np.bool_)
            self._within[reach] = True

    def choose(self, task: TaskView) -> tuple[int, bool] | None:
        """The best node, and whether its room is free already (else it is being freed); None if there is no node."""
        if task.nominated >= 0 and (self._within is None or self._within[task.nominated]):
            chosen = self.choose_on(task, task.nominated)
            if chosen is not None:
                return chosen
        answers = self._known(task)
        if self._abreast is not None and self._abreast.renews(answers):
            best = self._abreast.best(answers)
        else:
            if answers.scope is Scope.CLUSTER:
                return self._choose_among(task, self._reach)
            self._update(answers)
            if not len(answers.ranked):
                return None
            if self._abreast is not None:
                self._abreast.join(answers)
            best = int(answers.ranked.argmax())
        if answers.ranked[best] != NOWHERE:
            return best, True
        fits = (self._ledger.future >= answers.wanted).all(axis=0)
        later = np.where(answers.passes & fits, answers.score, NOWHERE)
        best = int(later.argmax())
        return (best, False) if later[best] != NOWHERE else None

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
        """Whether a predicate refuses the node, also when those that leave it have left (for good)."""
        refusals = self._hooks.predicate(task, NodesView(self._ledger, np.array([node])))
        return any(bool(one.nodes[0]) and (one.final if final else not one.temporary) for one in refusals)

    def infeasible_nodes(self, task: TaskView) -> Mask:
        """(N,): the nodes on which the task cannot be whoever leaves there."""
        refusals = self._hooks.predicate(task, NodesView(self._ledger, self._all))
        return _union([one for one in refusals if one.final], len(self._all))

    def scores(self, task: TaskView) -> Floats:
        """(N,): how well each node suits the task."""
        return self._current(task).score

    def open_to(self, task: TaskView) -> Mask:
        """(N,): the nodes whose free room the task could have, as far as their own rules go."""
        open_: Mask = self._current(task).ranked != NOWHERE
        return open_

    @staticmethod
    def _dims(task: TaskView) -> Rows:
        return np.flatnonzero(task.request.values)

    def choose_run(self, task: TaskView, count: int) -> Rows:
        """Nodes with free room for up to ``count`` tasks equal to this one, in the order of placing them.

        Empty where one of the hooks couples the placements of equal tasks: then :meth:`choose` is the way.
        """
        if count < 2 or task.nominated >= 0:
            return np.empty(0, dtype=np.intp)
        answers = self._known(task)
        if answers.scope is not Scope.COLUMNS:
            return np.empty(0, dtype=np.intp)
        self._update(answers)
        candidates = np.flatnonzero(answers.ranked != NOWHERE)
        if not len(candidates):
            return candidates
        best_first = candidates[np.argsort(-answers.ranked[candidates], kind="stable")][:count]
        room = self._ledger.free(answers.dims, best_first) // answers.request[answers.dims, None]
        capacity = np.minimum(room.min(axis=0), count)
        return _Run(self._ledger, self._hooks, task, best_first, capacity, answers.ranked[best_first]).take(count)

    def why_not(self, task: TaskView) -> Why:
        """Why no node takes the task, in kube-scheduler's words, and what comes nearest to taking it."""
        refusals = self._hooks.predicate(task, NodesView(self._ledger, self._all))
        return judge(self._ledger, refusals, task, self._all)

    def _choose_among(self, task: TaskView, rows: Rows) -> tuple[int, bool] | None:
        if not len(rows):
            return None
        request = task.request.values
        dims = np.flatnonzero(request)
        wanted = request[dims, None]
        now, later = _passing(self._hooks.predicate(task, NodesView(self._ledger, rows)), len(rows))
        for room, is_free in ((self._ledger.free(dims, rows), True), (self._ledger.future[np.ix_(dims, rows)], False)):
            fit = rows[(now if is_free else later) & (room >= wanted).all(axis=0)]
            if len(fit):
                if len(fit) == 1:
                    return int(fit[0]), is_free
                return int(fit[self._hooks.node_order(task, NodesView(self._ledger, fit)).argmax()]), is_free
        return None

    def _current(self, task: TaskView) -> Answers:
        answers = self._known(task)
        self._update(answers)
        return answers

    def _known(self, task: TaskView) -> Answers:
        """What is known about tasks like this one, which may be out of date."""
        key = self._hooks.likeness(task)
        answers = self._answers.get(key)
        if answers is None:
            answers = self._answers[key] = Answers.about(task, self._hooks.scope(task), len(self._all))
        return answers

    def _update(self, answers: Answers) -> None:
        """Ask anew about the nodes that were touched since."""
        touched = self._ledger.touched
        now = len(touched)
        if answers.seen == now or (self._abreast is not None and self._abreast.renews(answers)):
            return
        if answers.seen == NONE or now - answers.seen >= len(self._reach):
            self._renew(answers, self._reach)
        else:
            stale = touched[answers.seen :]
            if self._within is not None:
                stale = stale[self._within[stale]]
            self._renew(answers, stale if len(stale) < _FEW else np.unique(stale))
        answers.seen = now

    def _renew(self, answers: Answers, rows: Rows) -> None:
        if not len(rows):
            return
        view = NodesView(self._ledger, rows)
        score = self._hooks.node_order(answers.task, view)
        fits = (self._ledger.free_of(rows) >= answers.wanted).all(axis=0)
        refusals = self._hooks.predicate(answers.task, view)
        if refusals:
            now, later = _passing(refusals, len(rows))
            answers.passes[rows] = later
            fits &= now
        else:
            answers.passes[rows] = True
        answers.score[rows] = score
        answers.ranked[rows] = np.where(fits, score, NOWHERE)


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
            if level < len(self._scores[place]) and self._scores[place][level] != NOWHERE:
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
        scores = np.where(refused, NOWHERE, self._hooks.node_order(self._task, view)).tolist()
        start = 0
        for place, number in zip(places.tolist(), wanted.tolist(), strict=True):
            self._scores[place].extend(scores[start : start + number])
            start += number


def _passing(refusals: Sequence[NodeRejection], count: int) -> tuple[Mask, Mask]:
    """Where the task can be now, and where once those that leave have left."""
    return ~_union(refusals, count), ~_union([one for one in refusals if not one.temporary], count)


def _union(refusals: Sequence[NodeRejection], count: int) -> Mask:
    refused = np.zeros(count, dtype=np.bool_)
    for refusal in refusals:
        refused |= refusal.nodes
    return refused
