"""Search of victims for the tasks of one job, as all evicting actions do it.

1. Place a task without evictions if a node has the free resources.
2. Otherwise sort the candidates by cost and the nodes by a lower bound of their cost.
3. On the cheapest node evict candidates in the ledger, the cheapest first, until every rule allows the task there; then
   restore each victim that is not needed. Take the node with the cheapest victims.
4. Reject an eviction that a victim could undo by preempting back: the two jobs would evict each other for ever.
5. When all tasks of the job are placed, restore each victim that the whole placement does not need (:meth:`finish`).
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts, breaks_new_gang
from volcanopy.scheduler.framework.plugin import Scope
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE
from volcanopy.scheduler.placement.node_selection import Placement
from volcanopy.scheduler.session.session import Session

Cost = tuple[float, ...]
"""Cost of a set of victims: highest class, lost work, broken gangs, count; then the node's score and row."""
TaskGroup = tuple[int, ...]
"""Tasks that are evicted together or not at all."""
_Victims = tuple[Cost, list[int]]
"""A set of victims with its cost."""


@dataclass(frozen=True)
class Rule:
    """Which tasks an action may evict for which."""

    reason: str
    """The reason of its evictions: the name of the action."""
    victims_of: str
    """Whose tasks the victims are, for messages."""
    candidates: Callable[[TaskView], Rows]
    """The tasks that may be considered as victims for a task."""
    is_candidate: Callable[[TaskView, TaskView], bool]
    """The same for one task (first) and one candidate (second), whatever the status of the candidate."""
    evictable: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    """The candidates that the plugins allow to evict for a task."""
    is_eligible: Callable[[TaskView], bool]
    """Whether evictions for the task are allowed at all."""
    queue_ranks: Ints | None = None
    """(Q,): the order of queues as victims; None where all victims are of one queue."""
    counter_rules: "tuple[Rule, ...]" = ()
    """The rules of other configured actions by which a victim could preempt back."""
    victim_order: Ints | None = None
    """(T,): the order of victims that goes before that of queues."""


@dataclass
class _NodeCandidates:
    """The candidates for tasks of one shape by node, and a heap of nodes by a lower bound of their cost."""

    by_node: dict[int, Rows]
    classes: Ints
    """(T,): the class of each candidate."""
    scores: Floats
    """(N,): the score of each node for the task."""
    heap: list[tuple[Cost, int]] = field(default_factory=list)
    known: dict[int, tuple[int, _Victims | None]] = field(default_factory=dict)
    """The victims on a node, with the number of changes made before they were computed."""


class VictimSearch:
    """Places the tasks of one job in one statement, evicting where necessary."""

    def __init__(self, session: Session, statement: Statement, job: JobView, rule: Rule, costs: EvictionCosts) -> None:
        self._session, self._statement, self._job, self._rule, self._costs = session, statement, job, rule, costs
        self._by_shape: dict[Hashable, _NodeCandidates] = {}
        self._infeasible: set[Hashable] = set()
        self._excluded_jobs: set[int] = set()
        self._changes = 0
        self.placed: list[tuple[int, int]] = []
        """The placed tasks, each with its node."""

    @property
    def victims(self) -> list[int]:
        """The evicted tasks."""
        return [row for row, _ in self._statement.evicted]

    def place(self, task: TaskView) -> bool:
        """Place a task without evictions if possible, else where these are cheapest; return whether it is placed."""
        if self._place_without_evictions(task):
            return True
        key = self._shape_key(task)
        if key in self._infeasible:
            return False
        if key not in self._by_shape:
            if self._exceeds_limit(task):
                self._infeasible.add(key)
                return False
            self._by_shape[key] = self._sort_nodes(task)
        if self._place_with_evictions(task, self._by_shape[key]):
            return True
        self._infeasible.add(key)
        return False

    def finish(self) -> bool:
        """Restore the victims that are not needed; return False if a victim could preempt back."""
        for group in self._victim_groups():
            self._restore_if_possible(group)
        placed = [TaskView(self._session.ledger, row) for row, _ in self.placed]
        return self._job_preempting_back(placed, self.victims) is None

    # Overridden in searches for gangs

    def _shape_key(self, task: TaskView) -> Hashable:
        """Return a key that is equal for tasks with the same victims."""
        return self._session.hooks.cache_key(task)

    def _placement(self, task: TaskView) -> Placement:
        """Return the placement on the nodes that the task may use."""
        return self._session.placement

    def _candidates(self, task: TaskView) -> tuple[Rows, Ints]:
        """Return the candidates, the cheapest first, each with its class."""
        rows = self._rule.candidates(task)
        rows = rows[EVICTABLE[self._session.ledger.status[rows]]]
        return self._costs.cheapest_first(rows, self._rule.queue_ranks, self._rule.victim_order)

    def _evictable_groups(self, task: TaskView, rows: Rows) -> list[TaskGroup]:
        """Return those of these candidates that the plugins allow, in order, as groups that are evicted together."""
        views = [TaskView(self._session.ledger, row) for row in rows.tolist() if self._may_be_evicted(row)]
        return [(victim.row,) for victim in self._rule.evictable(task, views)] if views else []

    def _cost(self, groups: Sequence[TaskGroup]) -> Cost:
        """Return the cost of these groups: lost work, broken gangs, count."""
        rows = [row for group in groups for row in group]
        lost_work = float(self._costs.lost_work(np.array(rows, dtype=np.intp)).sum())
        return lost_work, float(self._costs.broken_gangs(rows)), len(rows)

    def _least_work(self, rows: Rows) -> Floats:
        """Return the least work that is lost with the eviction of each of these."""
        return self._costs.lost_work(rows)

    def _victim_groups(self) -> list[TaskGroup]:
        """Return the victims in the order in which they are restored if possible."""
        return [(row,) for row in reversed(self.victims)]

    def _exceeds_limit(self, task: TaskView) -> bool:
        """Return whether a limit of the task's user or group rejects it, whatever is evicted."""
        limits = self._session.limits
        return limits is not None and limits.evictions_do_not_help(task, self._candidates(task)[0])

    # One task

    def _place_without_evictions(self, task: TaskView) -> bool:
        session = self._session
        if session.hooks.allocatable(self._job.queue, task, 1) is not None:
            return False
        chosen = self._placement(task).choose(task)
        if chosen is None:
            return False
        self._pipeline(task, chosen[0])
        return True

    def _pipeline(self, task: TaskView, node: int) -> None:
        self._statement.pipeline(task.row, node)
        self.placed.append((task.row, node))

    def _fits(self, task: TaskView, node: int) -> bool:
        session = self._session
        dims = np.flatnonzero(task.request.values)
        if (task.request.values[dims] > session.ledger.future[dims, node]).any():
            return False
        if session.hooks.allocatable(self._job.queue, task, 1) is not None:
            return False
        return not session.placement.rejected(task, node)

    def _place_with_evictions(self, task: TaskView, candidates: _NodeCandidates) -> bool:
        heap = candidates.heap
        while heap:
            _, node = heapq.heappop(heap)
            cheapest = self._cheapest_on(task, node, candidates)
            if cheapest is None:
                continue
            cost, victims = cheapest
            if heap and cost > heap[0][0]:
                heapq.heappush(heap, (cost, node))
                continue
            mark = self._statement.checkpoint()
            changed = {node, *self._session.ledger.node[victims].tolist()}
            for victim in victims:
                self._statement.evict(victim, self._rule.reason)
            self._pipeline(task, node)
            job = self._job_preempting_back([task], victims)
            self._changes += 1
            if job is not None:
                self._excluded_jobs.add(job)
                self._statement.rollback(mark)
                self.placed.pop()
                self._requeue(node, candidates)
                continue
            for each in sorted(changed):
                for others in self._by_shape.values():
                    self._requeue(each, others)
            return True
        return False

    def _requeue(self, node: int, candidates: _NodeCandidates) -> None:
        """Put a changed node back into the heap, with the least cost of its candidates."""
        if node in candidates.by_node:
            rows = np.array(
                [row for row in candidates.by_node[node].tolist() if self._may_be_evicted(row)], dtype=np.intp
            )
            if len(rows):
                bound = (float(candidates.classes[rows].min()), float(self._least_work(rows).min()))
                heapq.heappush(candidates.heap, (bound, node))

    def _cheapest_on(self, task: TaskView, node: int, candidates: _NodeCandidates) -> _Victims | None:
        """Return the cheapest victims that allow the task on the node, None if there are none."""
        known = candidates.known.get(node)
        if known is None or known[0] != self._changes:
            candidates.known[node] = known = (self._changes, self._try(task, node, candidates))
        return known[1]

    def _try(self, task: TaskView, node: int, candidates: _NodeCandidates) -> _Victims | None:
        """Evict group by group until the task fits, then restore what is not needed; the ledger is unchanged in the end."""
        statement = self._statement
        mark = statement.checkpoint()
        evicted: list[TaskGroup] = []
        fits = False
        for group in self._evictable_groups(task, candidates.by_node[node]):
            if breaks_new_gang(self._session, group):
                continue
            self._evict(group)
            evicted.append(group)
            fits = self._fits(task, node)
            if fits:
                break
        needed = evicted[-1:]
        for group in reversed(evicted[:-1]) if fits else ():
            self._restore(group)
            if not self._fits(task, node):
                self._evict(group)
                needed.append(group)
        result = None
        if fits:
            rows = [row for group in reversed(needed) for row in group]
            highest, score = float(candidates.classes[rows].max()), float(candidates.scores[node])
            result = ((highest, *self._cost(needed), -score, node), rows)
        statement.rollback(mark)
        return result

    def _evict(self, group: TaskGroup) -> None:
        for row in group:
            self._statement.evict(row, self._rule.reason)

    def _restore(self, group: TaskGroup) -> None:
        for row in reversed(group):
            self._statement.spare(row)

    def _may_be_evicted(self, row: int) -> bool:
        return (
            bool(EVICTABLE[self._session.ledger.status[row]])
            and int(self._session.snapshot.tasks.job[row]) not in self._excluded_jobs
            and not breaks_new_gang(self._session, (row,))
        )

    # All nodes

    def _sort_nodes(self, task: TaskView) -> _NodeCandidates:
        """Return the candidates by node, and a heap of the nodes by a lower bound of their cost."""
        session, ledger = self._session, self._session.ledger
        rows, classes = self._candidates(task)
        nodes = ledger.node[rows].astype(np.intp)
        by_node = np.argsort(nodes, kind="stable")
        parts = np.split(by_node, np.flatnonzero(np.diff(nodes[by_node])) + 1) if len(rows) else []
        of_class = np.zeros(len(session.snapshot.tasks), dtype=np.int64)
        of_class[rows] = classes
        scores = self._placement(task).scores(task)
        candidates = _NodeCandidates({int(nodes[part[0]]): rows[part] for part in parts}, of_class, scores.copy())
        count = len(session.snapshot.nodes)
        fewest = self._least_victims(task, rows, nodes, count)
        infeasible = session.placement.infeasible_nodes(task)
        least_work, least_group_work = np.full(count, np.inf), np.full(count, np.inf)
        np.minimum.at(least_work, nodes, self._costs.lost_work(rows))
        np.minimum.at(least_group_work, nodes, self._least_work(rows))
        for node, members in candidates.by_node.items():
            if not infeasible[node] and np.isfinite(fewest[node]):
                victims = float(fewest[node])
                work = max(victims * float(least_work[node]), float(least_group_work[node]))
                bound = (float(of_class[members[0]]), work, 0.0, victims, -float(scores[node]), node)
                candidates.heap.append((bound, node))
        heapq.heapify(candidates.heap)
        return candidates

    def _least_victims(self, task: TaskView, rows: Rows, nodes: Rows, count: int) -> Floats:
        """(N,): the least number of victims that could free enough; infinite where all candidates together cannot."""
        session = self._session
        dims = np.flatnonzero(task.request.values)
        fewest: Floats = np.ones(count, dtype=np.float64)
        requests = session.snapshot.shapes.request.values[:, session.snapshot.tasks.shape[rows]]
        for dim in dims.tolist():
            missing = task.request.values[dim] - session.ledger.future[dim]
            largest, whole = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
            np.maximum.at(largest, nodes, requests[dim])
            np.add.at(whole, nodes, requests[dim])
            needed = np.divide(missing, largest, out=np.full(count, np.inf), where=largest > 0)
            fewest = np.maximum(fewest, np.where(missing > 0, np.ceil(needed), 0.0))
            fewest[whole < missing] = np.inf
        return fewest

    # The whole job

    def _restore_if_possible(self, group: TaskGroup) -> None:
        """Restore a group of victims if every placed task still finds a node with it there."""
        session, statement = self._session, self._statement
        nodes = set(session.ledger.node[list(group)].tolist())
        placed = [(TaskView(session.ledger, row), node) for row, node in self.placed]
        coupled = any(session.hooks.scope(task) is Scope.CLUSTER for task, _ in placed)
        moved = [(task, node) for task, node in placed if coupled or node in nodes] or placed
        mark, before = statement.checkpoint(), list(self.placed)
        for task, _ in moved:
            statement.withdraw(task.row)
        rows = {task.row for task, _ in moved}
        self.placed = [(row, node) for row, node in self.placed if row not in rows]
        self._restore(group)
        for task, node in moved:
            if self._fits(task, node):
                self._pipeline(task, node)
            elif not self._place_without_evictions(task):
                statement.rollback(mark)
                self.placed = before
                return

    def _job_preempting_back(self, preemptors: Sequence[TaskView], victims: Iterable[int]) -> int | None:
        """Return the job of a victim that could evict a preemptor once the preemptors run, None if there is none."""
        session, statement = self._session, self._statement
        mark = statement.checkpoint()
        for preemptor in preemptors:
            node = preemptor.node
            statement.withdraw(preemptor.row)
            statement.run(preemptor.row, node)
        seen: set[tuple[int, Hashable]] = set()
        evicted: list[TaskView] = []
        for row in victims:
            statement.withdraw(row)
            victim = TaskView(session.ledger, row)
            key = (int(session.snapshot.tasks.job[row]), session.hooks.cache_key(victim))
            if key not in seen:
                seen.add(key)
                evicted.append(victim)
        # By then the victims have terminated, and disruption budgets allow as many evictions again.
        evictions, session.ledger.evictions = session.ledger.evictions, {}
        result = next((task.job.row for task in evicted if task.job and self._can_preempt_back(task, preemptors)), None)
        session.ledger.evictions = evictions
        statement.rollback(mark)
        return result

    def _can_preempt_back(self, victim: TaskView, preemptors: Sequence[TaskView]) -> bool:
        job = victim.job
        if job is None or not self._session.hooks.job_starving(job):
            return False
        return any(_allows(rule, victim, preemptors) for rule in (self._rule, *self._rule.counter_rules))


def _allows(rule: Rule, task: TaskView, others: Sequence[TaskView]) -> bool:
    """Return whether a rule allows to evict any of the others for a task."""
    if not rule.is_eligible(task):
        return False
    candidates = [other for other in others if rule.is_candidate(task, other)]
    return bool(candidates) and bool(rule.evictable(task, candidates))
