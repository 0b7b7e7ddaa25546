"""Selection of a node for a task: feasible nodes by the predicates, the best of them by the scores.

The answers about all nodes are cached per kind of task (:mod:`.score_cache`). A run of equal tasks is placed from one table
of ranks, in which each node stands several times, with more and more of the run on it. The outcome is that of placing the
tasks one by one, because it is done only where all that the hooks read are a node's own columns, or its declared state
(:class:`~volcanopy.scheduler.ledger.reads.Scope`), and limits on pods in domains.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.fit_error import Why, judge
from volcanopy.scheduler.engine.score_cache import ScoreCache, feasible, rejected
from volcanopy.scheduler.engine.score_table import INFEASIBLE, NodeScores
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.domain_limits import RunLimits, limited
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows, frozen
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
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
        is_coupled = entry.coupling.rejections or entry.coupling.limits
        best = self._best_accepted(task, entry, entry.ranked, is_free=True) if is_coupled else self._cache.best(entry)
        if best != NONE and entry.ranked[best] != INFEASIBLE:
            return best, True
        fits = (self._ledger.future >= entry.request).all(axis=0)
        later = np.where(entry.feasible & fits, entry.score, INFEASIBLE)
        best = self._best_accepted(task, entry, later, is_free=False) if is_coupled else int(later.argmax())
        return (best, False) if best != NONE and later[best] != INFEASIBLE else None

    def _best_accepted(self, task: TaskView, entry: NodeScores, ranked: Floats, is_free: bool) -> int:
        """Return the first of the nodes that rank highest of those that no predicate rejects; NONE without one."""
        rows = (ranked != INFEASIBLE).nonzero()[0]
        if entry.coupling.limits:
            rows = rows[~limited(entry.coupling.limits, rows)]
        elif len(rows):
            rejections = self._hooks.reject(task, NodesView(self._ledger, rows))
            rows = rows[~rejected([each for each in rejections if is_free or not each.temporary], len(rows))]
        return int(rows[ranked[rows].argmax()]) if len(rows) else NONE

    def choose_on(self, task: TaskView, node: int) -> tuple[int, bool] | None:
        """As :meth:`choose`, of one node only."""
        return self._choose_among(task, np.array([node]))

    def may_fit_later(self, task: TaskView, node: int) -> bool:
        """Whether the request fits once the pods that terminate on the node are gone; what else they block is not counted."""
        dims = task.request.values.nonzero()[0]
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
        dims = request.nonzero()[0]
        fits = (self._ledger.future[dims] >= request[dims, None]).all(axis=0) & self.is_in_reach
        rejections = self._hooks.reject(task, NodesView(self._ledger, self._all))
        return (fits & feasible(rejections, len(self._all))[1]).nonzero()[0]

    def scores(self, task: TaskView) -> Floats:
        """(N,): the score of each node for the task."""
        return self._current(task).score

    def feasible_nodes(self, task: TaskView) -> Mask:
        """(N,): the nodes whose free resources the task could take, as far as the rules of nodes allow."""
        entry = self._current(task)
        mask: Mask = entry.ranked != INFEASIBLE
        if any(entry.coupling):
            mask &= feasible(self._hooks.reject(task, NodesView(self._ledger, self._all)), len(self._all))[0]
        return mask

    def choose_run(self, task: TaskView, count: int, entry: NodeScores) -> Rows:
        """Return nodes with free resources for up to ``count`` tasks equal to this one, in the order of placing them.

        Fewer where it was not seen yet what the last placement changes: to be called again after that. Empty where hooks couple
        the placements of equal tasks by more than limits, or answer by more than states: then :meth:`choose` must be called.
        ``entry`` is that of an equal task.
        """
        coupling, ledger = entry.coupling, self._ledger
        if count < 2 or task.nominated >= 0 or coupling.scores or (coupling.rejections and not coupling.limits):
            return _NOWHERE
        self._see_following(entry)
        self._cache.refresh(entry)
        scope, nodes, ranked = self._hooks.scope_without_limits(entry.kind), self._all, entry.ranked
        if scope > Scope.STATE or (scope == Scope.STATE and entry.of_states is None):
            return _NOWHERE
        if scope <= Scope.COLUMNS:
            nodes = (ranked != INFEASIBLE).nonzero()[0]
            if not coupling.limits and len(nodes) > count:
                nodes = np.sort(nodes[np.argsort(-ranked[nodes], kind="stable")[:count]])
        if not len(nodes):
            return nodes
        is_by_state = scope == Scope.STATE
        run = _RunByStates(ledger, entry, nodes) if is_by_state else _RunByColumns(ledger, self._hooks, entry, nodes)
        chosen = run.take(count, RunLimits(coupling.limits, nodes) if coupling.limits else None)
        return chosen if self._hooks.scope_without_limits(entry.kind) == scope else _NOWHERE

    def _see_following(self, entry: NodeScores) -> None:
        """Note the state after the last placement of the last run, if nothing else has changed since."""
        if entry.unseen is None or entry.of_states is None:
            return
        (before, nodes, change), entry.unseen = entry.unseen, None
        if self._ledger.touched[change:] == nodes:
            task = TaskView(self._ledger, self._ledger.moved[-1])
            if task.status is Status.ALLOCATED and self._hooks.cache_key(task) == entry.kind.key_of_kind:
                entry.following[before] = entry.of_states.key(nodes[-1])

    def why_not(self, task: TaskView) -> Why:
        """Return why no node is available for the task, in the wording of kube-scheduler, and the node that lacks least."""
        rejections = self._hooks.reject(task, NodesView(self._ledger, self._all))
        return judge(self._ledger, rejections, task)

    def _choose_among(self, task: TaskView, rows: Rows) -> tuple[int, bool] | None:
        if not len(rows):
            return None
        request = task.request.values
        dims = request.nonzero()[0]
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


class _Run(ABC):
    """Places a run of equal tasks on candidate nodes: always the node whose next place ranks highest, the first of equals."""

    def __init__(self, ledger: Ledger, entry: NodeScores, nodes: Rows) -> None:
        """``nodes`` are in the order of their rows."""
        self._ledger, self._entry, self._nodes = ledger, entry, nodes

    def take(self, count: int, limits: RunLimits | None) -> Rows:
        """Return the nodes for up to ``count`` tasks, in order, until it is not known what a placement changes."""
        ranked, chosen = self._entry.ranked[self._nodes], list[int]()
        for left in range(count - 1, -1, -1):
            allowed = ranked if limits is None else np.where(limits.rejected, INFEASIBLE, ranked)
            place = int(allowed.argmax())
            if allowed[place] == INFEASIBLE:
                break
            chosen.append(place)
            following = self._following(chosen, left) if left else None
            if following is None:
                break
            ranked[place] = following
            if limits is not None:
                limits.add(int(self._nodes[place]))
        return self._nodes[chosen]

    @abstractmethod
    def _following(self, chosen: Sequence[int], left: int) -> float | None:
        """Return the rank of the last chosen candidate with one of the ``left`` tasks there, too; None if it is not known."""


class _RunByColumns(_Run):
    """The same with answers by the columns of nodes: those for several further tasks on nodes are computed together."""

    def __init__(self, ledger: Ledger, hooks: Hooks, entry: NodeScores, nodes: Rows) -> None:
        super().__init__(ledger, entry, nodes)
        self._hooks, self._taken = hooks, [0] * len(nodes)
        self._further: list[list[float]] = []  # Of each candidate the ranks of its places after the first one.

    def _following(self, chosen: Sequence[int], left: int) -> float:
        place, more = chosen[-1], defaults.SCORED_PLACES // len(self._nodes)
        if not self._further:
            self._further = [[] for _ in self._nodes]
            room = self._ledger.free(self._entry.dims, self._nodes) // self._entry.request[self._entry.dims]
            self._capacity: Ints = room.min(axis=0, initial=left + 1)
            self._extend(np.arange(len(self._nodes)), max(1, more - 1))
        further, taken = self._further[place], self._taken[place]
        self._taken[place] += 1
        if taken == len(further):
            if taken + 1 >= self._capacity[place]:
                return INFEASIBLE
            self._extend(np.array([place]), more * 2 + 2)
        return further[taken]

    def _extend(self, places: Rows, more: int) -> None:
        """Compute the ranks of up to ``more`` further places on each of these candidates."""
        known = np.array([1 + len(self._further[place]) for place in places])
        numbers = np.minimum(self._capacity[places] - known, more).clip(min=0)
        if not numbers.any():
            return
        owner = np.repeat(np.arange(len(places)), numbers)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        view = NodesView(self._ledger, self._nodes[places][owner], self._entry.kind, known[owner] + within)
        of_nodes, rejections, _ = self._hooks.answers(self._entry.kind, self._entry.tasks, view)
        ranks = np.where(rejected(rejections, len(owner)), INFEASIBLE, of_nodes).tolist()
        start = 0
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            self._further[place].extend(ranks[start : start + number])
            start += number


class _RunByStates(_Run):
    """The same with answers by the states of nodes: which state follows on a placement was seen on a node in that state."""

    def __init__(self, ledger: Ledger, entry: NodeScores, nodes: Rows) -> None:
        super().__init__(ledger, entry, nodes)
        self._states: dict[int, Hashable] = {}  # Of chosen candidates.

    def _following(self, chosen: Sequence[int], left: int) -> float | None:
        place, entry, of_states = chosen[-1], self._entry, self._entry.of_states
        if of_states is None:
            return None
        state = self._states.get(place) or of_states.key(int(self._nodes[place]))
        following = entry.following.get(state)
        answers = None if following is None else of_states.answers.get(following)
        if answers is None:
            entry.unseen = state, self._nodes[chosen].tolist(), len(self._ledger.touched)
            return None
        self._states[place] = following
        return answers[2]
