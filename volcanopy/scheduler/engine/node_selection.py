"""Selection of a node for a task: feasible nodes by the predicates, the best of them by the scores.

The answers about all nodes are cached per kind of task (:mod:`.score_cache`). A run of equal tasks is placed from one table
of scores, in which each node stands several times, with more and more of the run on it. The outcome is that of placing the
tasks one by one, because it is done only where all that the hooks read are a node's own columns
(:class:`~volcanopy.scheduler.ledger.reads.Scope`).
"""

import heapq
from collections.abc import Hashable

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.fit_error import Why, judge
from volcanopy.scheduler.engine.score_cache import ScoreCache, feasible, rejected
from volcanopy.scheduler.engine.score_table import INFEASIBLE, NodeScores
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows, frozen
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.dispatch import Hooks

_NOWHERE: Rows = np.empty(0, dtype=np.intp)


class Placement:
    """Selects nodes for the tasks of one session, among the nodes of ``reach`` if it is given."""

    def __init__(self, ledger: Ledger, hooks: Hooks, reach: Rows | None = None) -> None:
        self._ledger = ledger
        self._hooks = hooks
        self._all: Rows = np.arange(len(ledger.snapshot.nodes))
        self._reach = self._all if reach is None else reach
        self.is_in_reach: Mask = np.zeros(len(self._all), dtype=np.bool_)  # (N,): which nodes it selects among.
        self.is_in_reach[self._reach] = True
        self._cache = ScoreCache(ledger, hooks, self._reach, None if reach is None else self.is_in_reach)
        self._infeasible: dict[Hashable, Mask] = {}
        self._changes = (0, 0)  # The numbers of changes of nodes and tasks up to which these are valid.
        self._always_infeasible: dict[Hashable, Mask] = {}  # The same of tasks for which placements do not change them.

    def entry(self, task: TaskView) -> NodeScores:
        """Return what is kept of the answers for tasks that are equal to this one."""
        return self._cache.entry(task)

    def choose(self, task: TaskView, entry: NodeScores | None = None) -> tuple[int, bool] | None:
        """Return the best node, and whether its resources are free now (else pods must terminate first); None without one.

        ``entry`` is that of an equal task.
        """
        if task.nominated >= 0 and self.is_in_reach[task.nominated]:
            chosen = self.choose_on(task, task.nominated)
            if chosen is not None:
                return chosen
        entry = self._cache.entry(task) if entry is None else entry
        if entry.coupling.scores or not len(self._reach):
            return self._choose_among(task, self._reach)
        self._cache.refresh(entry)
        is_coupled = entry.coupling.rejections
        best = self._best_accepted(task, entry.ranked, is_free=True) if is_coupled else self._cache.best(entry)
        if best != NONE and entry.ranked[best] != INFEASIBLE:
            return best, True
        fits = (self._ledger.future >= entry.request).all(axis=0)
        later = np.where(entry.feasible & fits, entry.score, INFEASIBLE)
        best = self._best_accepted(task, later, is_free=False) if is_coupled else int(later.argmax())
        return (best, False) if best != NONE and later[best] != INFEASIBLE else None

    def _best_accepted(self, task: TaskView, ranked: Floats, is_free: bool) -> int:
        """Return the first of the nodes that rank highest of those that no predicate rejects; NONE without one."""
        rows = (ranked != INFEASIBLE).nonzero()[0]
        if len(rows):
            rejections = self._hooks.reject(task, NodesView(self._ledger, rows))
            rows = rows[~rejected([each for each in rejections if is_free or not each.temporary], len(rows))]
        return int(rows[ranked[rows].argmax()]) if len(rows) else NONE

    def choose_on(self, task: TaskView, node: int) -> tuple[int, bool] | None:
        """As :meth:`choose`, of one node only."""
        return self._choose_among(task, np.array([node]))

    def may_fit_later(self, task: TaskView, node: int) -> bool:
        """Whether the request fits once the pods that terminate on the node are gone; what else they block is not counted."""
        dims = np.flatnonzero(task.request.values)
        return bool(
            self._ledger.releasing[:, node].any()
            and (task.request.values[dims] <= self._ledger.future[dims, node]).all()
            and not self.rejected(task, node, final=True)
        )

    def rejected(self, task: TaskView, node: int, final: bool = False) -> bool:
        """Whether a predicate rejects the node, also once the pods that terminate there are gone (``final``: for good)."""
        rejections = self._hooks.reject(task, NodesView(self._ledger, np.array([node])))
        return any(bool(each.nodes[0]) and (each.final if final else not each.temporary) for each in rejections)

    def infeasible_nodes(self, task: TaskView) -> Mask:
        """(N,): the nodes on which the task cannot run, whatever is evicted there."""
        changes = (len(self._ledger.touched), len(self._ledger.moved))
        if changes != self._changes:
            self._infeasible.clear()
            self._changes = changes
        key, masks = self._hooks.cache_key(task), self._infeasible
        masks = self._always_infeasible if self._hooks.rejections_are_static(task) else masks
        mask = masks.get(key)
        if mask is None:
            rejections = self._hooks.reject(task, NodesView(self._ledger, self._all))
            mask = masks[key] = frozen(rejected([each for each in rejections if each.final], len(self._all)))
        return mask

    def nodes_later(self, task: TaskView) -> Rows:
        """Return the nodes that could take the task once the pods that terminate there are gone."""
        request = task.request.values
        dims = np.flatnonzero(request)
        fits = (self._ledger.future[dims] >= request[dims, None]).all(axis=0) & self.is_in_reach
        rejections = self._hooks.reject(task, NodesView(self._ledger, self._all))
        return np.flatnonzero(fits & feasible(rejections, len(self._all))[1])

    def scores(self, task: TaskView) -> Floats:
        """(N,): the score of each node for the task."""
        return self._current(task).score

    def feasible_nodes(self, task: TaskView) -> Mask:
        """(N,): the nodes whose free resources the task could take, as far as the rules of nodes allow."""
        entry = self._current(task)
        mask: Mask = entry.ranked != INFEASIBLE
        if entry.coupling.rejections:
            mask &= feasible(self._hooks.reject(task, NodesView(self._ledger, self._all)), len(self._all))[0]
        return mask

    def choose_run(self, task: TaskView, count: int) -> Rows:
        """Return nodes with free resources for up to ``count`` tasks equal to this one, in the order of placing them.

        Empty where a hook couples the placements of equal tasks: then :meth:`choose` must be called for each.
        """
        if count < 2 or task.nominated >= 0:
            return _NOWHERE
        entry = self._cache.entry(task)
        if any(entry.coupling):
            return _NOWHERE
        self._cache.refresh(entry)
        if not self._hooks.follows_from_columns(entry.kind):
            return _NOWHERE
        candidates = np.flatnonzero(entry.ranked != INFEASIBLE)
        if not len(candidates):
            return candidates
        best_first = candidates[np.argsort(-entry.ranked[candidates], kind="stable")][:count]
        room = self._ledger.free(entry.dims, best_first) // entry.request[entry.dims]
        capacity = np.minimum(room.min(axis=0), count)
        nodes = _Run(self._ledger, self._hooks, entry, best_first, capacity).take(count)
        return nodes if self._hooks.follows_from_columns(entry.kind) else _NOWHERE

    def why_not(self, task: TaskView) -> Why:
        """Return why no node is available for the task, in the wording of kube-scheduler, and the node that lacks least."""
        rejections = self._hooks.reject(task, NodesView(self._ledger, self._all))
        return judge(self._ledger, rejections, task)

    def _choose_among(self, task: TaskView, rows: Rows) -> tuple[int, bool] | None:
        if not len(rows):
            return None
        request = task.request.values
        dims = np.flatnonzero(request)
        needed = request[dims, None]
        now, later = feasible(self._hooks.reject(task, NodesView(self._ledger, rows)), len(rows))
        for room, is_free in ((self._ledger.free(dims, rows), True), (self._ledger.future[np.ix_(dims, rows)], False)):
            fit = rows[(now if is_free else later) & (room >= needed).all(axis=0)]
            if len(fit):
                if len(fit) == 1:
                    return int(fit[0]), is_free
                scores = self._hooks.score(TasksView([task]), NodesView(self._ledger, fit))[0]
                return int(fit[scores.argmax()]), is_free
        return None

    def _current(self, task: TaskView) -> NodeScores:
        entry = self._cache.entry(task)
        self._cache.complete(entry)
        return entry


class _Run:
    """Places a run of equal tasks on candidate nodes: always the node whose next place scores best, the first of equals."""

    def __init__(self, ledger: Ledger, hooks: Hooks, entry: NodeScores, nodes: Rows, capacity: Ints) -> None:
        self._ledger, self._hooks, self._entry = ledger, hooks, entry
        self._nodes, self._capacity = nodes, capacity
        self._scores: list[list[float]] = [[score] for score in entry.ranked[nodes].tolist()]

    def take(self, count: int) -> Rows:
        """Return the nodes for up to ``count`` tasks, in order."""
        deep = max(2, defaults.SCORED_PLACES // len(self._nodes))
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
            if level < len(self._scores[place]) and self._scores[place][level] != INFEASIBLE:
                heapq.heapreplace(heap, (-self._scores[place][level], row, place))
            else:
                heapq.heappop(heap)
        return np.array(chosen, dtype=np.intp)

    def _extend(self, places: Rows, more: int) -> None:
        """Compute the scores of up to ``more`` further places on each of these candidates."""
        known = np.array([len(self._scores[place]) for place in places])
        numbers = np.minimum(self._capacity[places] - known, more).clip(min=0)
        if not numbers.any():
            return
        owner = np.repeat(np.arange(len(places)), numbers)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        view = NodesView(self._ledger, self._nodes[places][owner], self._entry.kind, known[owner] + within)
        of_nodes, rejections, _ = self._hooks.answers(self._entry.kind, self._entry.tasks, view)
        scores = np.where(rejected(rejections, len(owner)), INFEASIBLE, of_nodes).tolist()
        start = 0
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            self._scores[place].extend(scores[start : start + number])
            start += number
