"""The search that preempt and reclaim share: who has to leave so that waiting tasks can have their room.

Nothing is evicted on a guess. A task is placed by trying: the victims leave in the ledger, the cheapest first, until
every rule lets the task onto the node; then each of them that can stay after all stays. Of all nodes the one is taken
whose victims are cheapest. When the whole job is placed the victims are gone through once more, and the exchange is
looked at from the victims' side: if one of them could take the room back in turn, it is not made, since then the two
would throw each other out for ever.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import Worth, breaks_new_gang
from volcanopy.scheduler.framework.plugin import Scope
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE
from volcanopy.scheduler.placement.node_selection import Placement
from volcanopy.scheduler.session.session import Session

Cost = tuple[float, ...]
"""What a set of victims costs: the class of the dearest, work lost, gangs broken, count; then the node's score and row."""
Bundle = tuple[int, ...]
"""Tasks that leave together or not at all."""
_Found = tuple[Cost, list[int]]
"""A set of victims with its cost."""


@dataclass(frozen=True)
class Rule:
    """What an action may do for whom, and to whom."""

    reason: str
    """The word that evictions carry."""
    among: str
    """Whose tasks the victims are."""
    prey: Callable[[TaskView], Rows]
    """The tasks that may be looked at as victims for this task."""
    is_prey: Callable[[TaskView, TaskView], bool]
    """The same of one task (first) and one candidate (second), wherever that stands."""
    consent: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    """Which of the candidates the plugins give up for this task."""
    may_take: Callable[[TaskView], bool]
    """Whether the task may take room from others at all."""
    ranks: Ints | None = None
    """(Q,): the order in which queues give; None where all victims are of one queue."""
    returns: "tuple[Rule, ...]" = ()
    """By which rules of other actions that are configured a victim could take its room back."""
    standing: Ints | None = None
    """(T,): before the order of queues, how victims stand: near ones of low priority, as seen outside, give first."""


@dataclass
class _Field:
    """The candidates for one kind of task by node, and the nodes by the least that they may cost."""

    on: dict[int, Rows]
    classes: Ints
    """(T,): the class of each candidate."""
    scores: Floats
    """(N,): how well each node suits the task."""
    heap: list[tuple[Cost, int]] = field(default_factory=list)
    known: dict[int, tuple[int, _Found | None]] = field(default_factory=dict)
    """What was found for a node, with the number of the change after which it was."""


class RoomMaker:
    """Makes room for the tasks of one job, in one statement."""

    def __init__(self, session: Session, statement: Statement, job: JobView, rule: Rule, worth: Worth) -> None:
        self._session, self._statement, self._job, self._rule, self._worth = session, statement, job, rule, worth
        self._fields: dict[Hashable, _Field] = {}
        self._hopeless: set[Hashable] = set()
        self._untouchable: set[int] = set()
        self._changes = 0
        self.placed: list[tuple[int, int]] = []
        """The tasks that have a place, each with its node."""

    @property
    def victims(self) -> list[int]:
        """The tasks that leave."""
        return [row for row, _ in self._statement.evicted]

    def make_room(self, task: TaskView) -> bool:
        """Place a task: where it fits without evictions if there is such a node, else where they are cheapest."""
        if self._place_without_evictions(task):
            return True
        kind = self._kind(task)
        if kind in self._hopeless:
            return False
        if kind not in self._fields and self._is_limited(task):
            self._hopeless.add(kind)
            return False
        if kind not in self._fields:
            self._fields[kind] = self._survey(task)
        if self._place_with_evictions(task, self._fields[kind]):
            return True
        self._hopeless.add(kind)
        return False

    def settle(self) -> bool:
        """Spare whom the whole placement can do without; whether the exchange would last."""
        for bundle in self._leaving():
            self._spare_if_possible(bundle)
        return self._lasts([TaskView(self._session.ledger, row) for row, _ in self.placed], self.victims) is None

    # What a kind of room maker may see otherwise

    def _kind(self, task: TaskView) -> Hashable:
        """Equal for tasks that find the same victims."""
        return self._session.hooks.likeness(task)

    def _placement(self, task: TaskView) -> Placement:
        """Where the task may go."""
        return self._session.placement

    def _candidates(self, task: TaskView) -> tuple[Rows, Ints]:
        """The tasks that may have to leave for this one, the cheapest first, each with its class."""
        prey = self._rule.prey(task)
        prey = prey[EVICTABLE[self._session.ledger.status[prey]]]
        return self._worth.cheapest_first(prey, self._rule.ranks, self._rule.standing)

    def _offered(self, task: TaskView, rows: Rows) -> list[Bundle]:
        """What the plugins give up of these candidates, in order, as bundles that leave together."""
        views = [TaskView(self._session.ledger, row) for row in rows.tolist() if self._is_free_to_go(row)]
        return [(victim.row,) for victim in self._rule.consent(task, views)] if views else []

    def _price(self, bundles: Sequence[Bundle]) -> Cost:
        """What these bundles cost: work lost, gangs broken, count."""
        rows = [row for bundle in bundles for row in bundle]
        return float(self._worth.work(np.array(rows, dtype=np.intp)).sum()), float(self._worth.broken(rows)), len(rows)

    def _losses(self, rows: Rows) -> Floats:
        """The work that is lost at least when each of these leaves."""
        return self._worth.work(rows)

    def _leaving(self) -> list[Bundle]:
        """All that leave, in the order in which it is asked whether they can stay after all."""
        return [(row,) for row in reversed(self.victims)]

    def _is_limited(self, task: TaskView) -> bool:
        """Whether a limit of its user or group keeps the task out, whoever leaves."""
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
        self._put(task, chosen[0])
        return True

    def _put(self, task: TaskView, node: int) -> None:
        self._statement.pipeline(task.row, node)
        self.placed.append((task.row, node))

    def _fits(self, task: TaskView, node: int) -> bool:
        session = self._session
        dims = np.flatnonzero(task.request.values)
        if (task.request.values[dims] > session.ledger.future[dims, node]).any():
            return False
        if session.hooks.allocatable(self._job.queue, task, 1) is not None:
            return False
        return not session.placement.refused(task, node)

    def _place_with_evictions(self, task: TaskView, around: _Field) -> bool:
        heap = around.heap
        while heap:
            _, node = heapq.heappop(heap)
            found = self._cheapest_on(task, node, around)
            if found is None:
                continue
            cost, victims = found
            if heap and cost > heap[0][0]:
                heapq.heappush(heap, (cost, node))
                continue
            mark = self._statement.checkpoint()
            homes = {node, *self._session.ledger.node[victims].tolist()}
            for victim in victims:
                self._statement.evict(victim, self._rule.reason)
            self._put(task, node)
            avenger = self._lasts([task], victims)
            if avenger is not None:
                self._untouchable.add(avenger)
                self._statement.rollback(mark)
                self.placed.pop()
                self._changes += 1
                self._look_again(node, around)
                continue
            self._changes += 1
            for home in sorted(homes):
                for one in self._fields.values():
                    self._look_again(home, one)
            return True
        return False

    def _look_again(self, node: int, around: _Field) -> None:
        """Put a node that changed back into line, at the least that its cheapest candidate costs."""
        if node in around.on:
            rows = np.array([row for row in around.on[node].tolist() if self._is_free_to_go(row)], dtype=np.intp)
            if len(rows):
                least = (float(around.classes[rows].min()), float(self._losses(rows).min()))
                heapq.heappush(around.heap, (least, node))

    def _cheapest_on(self, task: TaskView, node: int, around: _Field) -> _Found | None:
        """The cheapest victims that let the task onto the node, and what they cost; None if there are none."""
        known = around.known.get(node)
        if known is None or known[0] != self._changes:
            around.known[node] = known = (self._changes, self._try(task, node, around))
        return known[1]

    def _try(self, task: TaskView, node: int, around: _Field) -> _Found | None:
        """Evict what the plugins give up bundle by bundle until the task fits; then keep whom it can do without."""
        statement = self._statement
        mark = statement.checkpoint()
        left: list[Bundle] = []
        fits = False
        for bundle in self._offered(task, around.on[node]):
            if breaks_new_gang(self._session, bundle):
                continue
            self._evict(bundle)
            left.append(bundle)
            fits = self._fits(task, node)
            if fits:
                break
        needed = left[-1:]
        for bundle in reversed(left[:-1]) if fits else ():
            self._stay(bundle)
            if not self._fits(task, node):
                self._evict(bundle)
                needed.append(bundle)
        found = None
        if fits:
            rows = [row for bundle in reversed(needed) for row in bundle]
            cost = (float(around.classes[rows].max()), *self._price(needed), -float(around.scores[node]), node)
            found = (cost, rows)
        statement.rollback(mark)
        return found

    def _evict(self, bundle: Bundle) -> None:
        for row in bundle:
            self._statement.evict(row, self._rule.reason)

    def _stay(self, bundle: Bundle) -> None:
        for row in reversed(bundle):
            self._statement.spare(row)

    def _is_free_to_go(self, row: int) -> bool:
        return (
            bool(EVICTABLE[self._session.ledger.status[row]])
            and int(self._session.snapshot.tasks.job[row]) not in self._untouchable
            and not breaks_new_gang(self._session, (row,))
        )

    # All nodes

    def _survey(self, task: TaskView) -> _Field:
        """Sort the candidates, and the nodes by a bound that their cost cannot be below."""
        session, ledger = self._session, self._session.ledger
        rows, classes = self._candidates(task)
        nodes = ledger.node[rows].astype(np.intp)
        by_node = np.argsort(nodes, kind="stable")
        parts = np.split(by_node, np.flatnonzero(np.diff(nodes[by_node])) + 1) if len(rows) else []
        of_class = np.zeros(len(session.snapshot.tasks), dtype=np.int64)
        of_class[rows] = classes
        scores = self._placement(task).scores(task)
        around = _Field({int(nodes[part[0]]): rows[part] for part in parts}, of_class, scores.copy())
        count = len(session.snapshot.nodes)
        fewest = self._fewest(task, rows, nodes, count)
        out = session.placement.infeasible_nodes(task)
        least_work, least_loss = np.full(count, np.inf), np.full(count, np.inf)
        np.minimum.at(least_work, nodes, self._worth.work(rows))
        np.minimum.at(least_loss, nodes, self._losses(rows))
        for node, members in around.on.items():
            if not out[node] and np.isfinite(fewest[node]):
                most = float(fewest[node])
                best = float(of_class[members[0]])
                work = max(most * float(least_work[node]), float(least_loss[node]))
                around.heap.append(((best, work, 0.0, most, -float(scores[node]), node), node))
        heapq.heapify(around.heap)
        return around

    def _fewest(self, task: TaskView, rows: Rows, nodes: Rows, count: int) -> Floats:
        """(N,): how many tasks must leave at least so that the room suffices; infinite where it never does."""
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

    # The whole

    def _spare_if_possible(self, bundle: Bundle) -> None:
        """Let a bundle stay if everyone who was placed still finds a place with it there."""
        session, statement = self._session, self._statement
        homes = set(session.ledger.node[list(bundle)].tolist())
        placed = [(TaskView(session.ledger, row), node) for row, node in self.placed]
        coupled = any(session.hooks.scope(task) is Scope.CLUSTER for task, _ in placed)
        moved = [one for one in placed if coupled or one[1] in homes] or placed
        mark, before = statement.checkpoint(), list(self.placed)
        for task, _ in moved:
            statement.withdraw(task.row)
        rows = {task.row for task, _ in moved}
        self.placed = [one for one in self.placed if one[0] not in rows]
        self._stay(bundle)
        for task, node in moved:
            if self._fits(task, node):
                self._put(task, node)
            elif not self._place_without_evictions(task):
                statement.rollback(mark)
                self.placed = before
                return

    def _lasts(self, takers: Iterable[TaskView], victims: Iterable[int]) -> int | None:
        """Look at the time after the exchange: the job of a victim that could then displace a taker; None if none could."""
        session, statement = self._session, self._statement
        mark = statement.checkpoint()
        takers = list(takers)
        for taker in takers:
            node = taker.node
            statement.withdraw(taker.row)
            statement.run(taker.row, node)
        seen: set[tuple[int, Hashable]] = set()
        losers: list[TaskView] = []
        for row in victims:
            statement.withdraw(row)
            loser = TaskView(session.ledger, row)
            mark_of = (int(session.snapshot.tasks.job[row]), session.hooks.likeness(loser))
            if mark_of not in seen:
                seen.add(mark_of)
                losers.append(loser)
        # By then those who are evicted now have left, and budgets let as many go again.
        evictions, session.ledger.evictions = session.ledger.evictions, {}
        found = next((loser.job.row for loser in losers if loser.job and self._could_return(loser, takers)), None)
        session.ledger.evictions = evictions
        statement.rollback(mark)
        return found

    def _could_return(self, loser: TaskView, takers: Sequence[TaskView]) -> bool:
        job = loser.job
        if job is None or not self._session.hooks.job_starving(job):
            return False
        return any(_lets(rule, loser, takers) for rule in (self._rule, *self._rule.returns))


def _lets(rule: Rule, task: TaskView, others: Sequence[TaskView]) -> bool:
    """Whether a rule lets a task have the room of one of the others."""
    if not rule.may_take(task):
        return False
    prey = [other for other in others if rule.is_prey(task, other)]
    return bool(prey) and bool(rule.consent(task, prey))
