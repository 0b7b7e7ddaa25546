"""Search of victims for the tasks of one job within one hypernode, as all evicting actions do it.

1. Place a task without evictions if a node has the free resources.
2. Otherwise sort the nodes by a lower bound of the cost of their candidates.
3. On the cheapest node evict bundles, the cheapest first, until every rule allows the task there; then restore each that is
   not needed, and try the sets of victims that cost less (:mod:`.cheaper_sets`). Take the node with the cheapest victims.
4. Reject an eviction that a victim's gang could undo by evicting in its turn: both would evict each other for ever.
5. When all tasks of the job are placed, check the rules for all of them together (:meth:`is_allowed`). Victims that the whole
   placement does not need are restored at the end of the action (:mod:`.needless_evictions`).

Amounts are compared before anything is tried in the ledger.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import Candidates, Cost, Searches, Trace
from volcanopy.scheduler.actions.evict.cheaper_sets import CheaperSets, Request
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle, Bundles, rows_by_job
from volcanopy.scheduler.actions.evict.eviction_cost import breaks_new_gang
from volcanopy.scheduler.actions.evict.node_candidates import (
    NodeCandidates,
    ShapeState,
    Victims,
    least_cost,
    node_candidates,
)
from volcanopy.scheduler.actions.evict.rejected_requests import allow_less_for_more
from volcanopy.scheduler.actions.evict.rules import always
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.task_status import Status


class VictimSearch:
    """Places the tasks of one job in one statement and one hypernode, evicting bundles where necessary."""

    def __init__(
        self,
        shared: Searches,
        statement: Statement,
        job: JobView,
        candidates: Candidates,
        domain: int,
        trace: Trace,
        only: AbstractSet[int] | None = None,
    ) -> None:
        """``only``: the tasks that may be evicted, all candidates if not given."""
        self._shared, self._session, self._counter = shared, shared.session, shared.counter
        self._statement, self._job, self._trace = statement, job, trace
        self._candidates, self._domain = candidates, domain
        self._bundles, self.only = Bundles(shared.session, candidates), only
        self._cheaper_sets = CheaperSets(shared.session, shared.costs, candidates)
        self._inner_domains: dict[int, int] = {}
        self._of_shape: dict[Hashable, ShapeState] = {}
        self._excluded_jobs: set[int] = set()
        placed = np.flatnonzero(shared.session.ledger.job_counts[Status.PIPELINED]).tolist()
        self._new_gangs = frozenset({job.row, *placed})  # Jobs with tasks on resources that evictions free.
        self._bundle_of: dict[int, Bundle] = {}
        self._eligible: list[bool] = []
        self.placed: list[tuple[int, int]] = []  # The placed tasks, each with its node.
        trace.is_tried = True

    @property
    def victims(self) -> list[int]:
        """The evicted tasks."""
        return [row for row, _ in self._statement.evicted]

    @property
    def cost(self) -> Cost:
        """The cost of all victims."""
        return self._bundles.cost_of(self._evicted_bundles())

    def restrict(self, tasks: Iterable[int], domain: int) -> None:
        """Restrict these tasks to a hypernode within that of the search."""
        self._inner_domains.update(dict.fromkeys(tasks, domain))

    def fill(self, tasks: Sequence[int], enough: Callable[[], bool], count: int) -> bool:
        """Place tasks in order until ``enough`` returns True, which takes ``count`` of them; return whether it did."""
        end = len(self.placed) + count
        for at, row in enumerate(tasks):
            lacking = end - len(self.placed)
            if lacking <= 0 and enough():
                return True
            if len(tasks) - at < lacking:
                return False
            self.place(TaskView(self._session.ledger, row))
        return enough()

    def within(self, tasks: Sequence[int], domain: int) -> "VictimSearch":
        """Return a search that continues this one, whose evictions stand, with these tasks restricted to an inner hypernode."""
        search = VictimSearch(
            self._shared, self._statement, self._job, self._candidates, self._domain, self._trace, self.only
        )
        search._bundle_of.update(self._bundle_of)
        search.restrict(tasks, domain)
        return search

    def repeat(self, other: "VictimSearch", evicted: Sequence[tuple[int, str]]) -> None:
        """Apply the outcome of another search in the same hypernode, after it was rolled back: its placements and evictions."""
        self._bundle_of.update(other._bundle_of)
        for row, reason in evicted:
            self._statement.evict(row, reason)
        for row, node in other.placed:
            self._pipeline(TaskView(self._session.ledger, row), node)

    def place(self, task: TaskView) -> bool:
        """Place a task without evictions if possible, else where these are cheapest; return whether it is placed."""
        self._eligible = [rule.is_eligible(self._job.queue, [task]) for rule in self._candidates.rules]
        if not any(self._eligible):
            return False
        key = (self._session.hooks.cache_key(task), self._domain_of(task))
        state = self._of_shape.get(key)
        if state is None:
            state = self._of_shape[key] = ShapeState(self._session, task)
        if self._place_without_evictions(task, state):
            return True
        if not state.is_infeasible and state.candidates is None and (limits := self._session.limits) is not None:
            state.is_infeasible = limits.evictions_do_not_help(task, self._candidates.rows)
        if state.is_infeasible:
            return False
        if state.candidates is None:
            state.candidates = self._sort_nodes(task)
        state.is_infeasible = not self._place_with_evictions(task, state, state.candidates)
        if state.is_infeasible and not self.placed:
            self._trace.is_rejected_at_once = not self._trace.has_evictable
        return not state.is_infeasible

    def may_evict(self, task: TaskView) -> bool:
        """Return whether the plugins may allow to evict a bundle for a task; they are asked node by node."""
        self._eligible = [rule.is_eligible(self._job.queue, [task]) for rule in self._candidates.rules]
        candidates, rejected = self._sort_nodes(task), set[Bundle]()
        while candidates.heap:
            rows = self._may_be_evicted(candidates.on(candidates.pop()))
            bundles = self._bundles.split(rows)
            if rejected.issuperset(bundles):
                continue
            if self._evictable(task, bundles, rejected):
                return True
            in_order = self._bundles.split(self._allowed_first(task, rows))
            if self._evictable(task, in_order, rejected):
                return True
        return False

    def _allowed_first(self, task: TaskView, rows: Sequence[int]) -> list[int]:
        """Return these tasks, first those that the plugins allow to evict: a job spares the first ones.

        They are asked about as many pods of each job at once as it can spare, the others use up nothing.
        """
        of_job = rows_by_job(self._session, rows)
        surplus, evictable = self._bundles.surplus(list(of_job)), set[int]()
        jobs = [(members, surplus[job]) for job, members in of_job.items() if 0 < surplus[job] < len(members)]
        for turn in range(max((-(-len(members) // count) for members, count in jobs), default=0)):
            block = [row for members, count in jobs for row in members[turn * count : (turn + 1) * count]]
            evictable |= self._allowed(task, block)
        return sorted(rows, key=lambda row: row not in evictable)

    def is_allowed(self) -> bool:
        """Return whether no victim could preempt back, and each rule by which there are victims allows all placed tasks."""
        placed = [TaskView(self._session.ledger, row) for row, _ in self.placed]
        job = self._counter.returning_job(self._statement, placed, self.victims)
        self._trace.is_preempted_back |= job is not None
        return job is None and self._is_eligible(placed)

    def _is_eligible(self, placed: Sequence[TaskView]) -> bool:
        statement, known, queue = self._statement, self._candidates, self._job.queue
        used = [known.rules[number] for number in {int(known.rule_of[row]) for row in self.victims}]
        if all(rule.is_eligible is always for rule in used):
            return True
        mark = statement.checkpoint()
        statement.withdraw_all(np.array([task.row for task in placed], dtype=np.intp))
        eligible = all(rule.is_eligible(queue, placed) for rule in used)
        statement.rollback(mark)
        return eligible

    def _place_without_evictions(self, task: TaskView, state: ShapeState) -> bool:
        session = self._session
        if task.nominated < 0 and state.is_still_full(session.ledger):
            return False
        if session.quotas.allocatable(self._job.queue, task, 1) is not None:
            return False
        chosen = self._shared.placement(self._domain_of(task)).choose(task)
        if chosen is None:
            state.full_since = len(session.ledger.touched)
            return False
        self._pipeline(task, chosen[0])
        return True

    def _pipeline(self, task: TaskView, node: int) -> None:
        self._statement.pipeline(task.row, node)
        self.placed.append((task.row, node))

    def _is_allowed(self, task: TaskView, node: int) -> bool:
        """Return whether a node that has the amounts may take a task."""
        is_within_quotas = self._session.quotas.allocatable(self._job.queue, task, 1) is None
        return is_within_quotas and not self._session.placement.rejected(task, node)

    def _domain_of(self, task: TaskView) -> int:
        return self._inner_domains.get(task.row, self._domain)

    def _place_with_evictions(self, task: TaskView, state: ShapeState, candidates: NodeCandidates) -> bool:
        heap = candidates.heap
        while heap:
            node = candidates.pop()
            mark, before = self._statement.checkpoint(), len(self._statement.evicted)
            victims = self._try(task, node, state, candidates)
            if victims is None or (heap and victims[0] > heap[0]):
                self._statement.rollback(mark)
                if victims is not None:
                    heapq.heappush(heap, victims[0])
                continue
            rows = [row for row, _ in self._statement.evicted[before:]]
            changed = {node, *self._session.ledger.node[rows].tolist()}
            self._pipeline(task, node)
            job = self._counter.returning_job(self._statement, [task], rows)
            if job is not None:
                self._trace.is_preempted_back = True
                self._excluded_jobs.add(job)
                self._statement.rollback(mark)
                self.placed.pop()
                self._requeue(node, candidates)
                continue
            for other in self._of_shape.values():
                if other.candidates is not None:
                    for each in sorted(changed):
                        self._requeue(each, other.candidates)
            return True
        return False

    def _requeue(self, node: int, candidates: NodeCandidates) -> None:
        """Put a changed node back into the heap, with the least cost of its candidates."""
        rows = candidates.on(node)
        rows = rows[self._session.ledger.evictable(rows)]
        if len(rows):
            heapq.heappush(candidates.heap, (*least_cost(self._candidates, rows), -np.inf, node))

    def _try(self, task: TaskView, node: int, state: ShapeState, candidates: NodeCandidates) -> Victims | None:
        """Evict the cheapest victims that allow the task on the node; return them, None if there are none."""
        mark, rows = self._statement.checkpoint(), self._may_be_evicted(candidates.on(node))
        bundles = self._bundles.split(rows)
        if state.rejected.issuperset(bundles):
            return None
        victims = self._evict_enough(task, node, state, candidates, bundles)
        if victims is None and (in_order := self._allowed_first(task, rows)) != rows:
            self._statement.rollback(mark)
            bundles = self._bundles.split(in_order)
            victims = self._evict_enough(task, node, state, candidates, bundles)
        if victims is None and not self._trace.has_evictable:
            return None
        if victims is not None and victims[1] == bundles[:1] and not (victims[0][0] or victims[0][5]):
            return victims
        self._statement.rollback(mark)
        bound = None if victims is None else victims[0]
        needed = Request.of(self._session, np.array([node]), [task.row])
        for only in self._cheaper_sets.find(*self._bundles.choices(rows), needed, bound):
            bundles = self._bundles.split([row for row in rows if row in only])
            others = self._evict_enough(task, node, state, candidates, bundles)
            if others is not None and (bound is None or others[0] < bound):
                return others
            self._statement.rollback(mark)
        for bundle in victims[1] if victims is not None else ():
            self._evict(bundle)
        return victims

    def cheaper_sets(self, placed: Sequence[int], cost: Cost | None) -> list[set[int]]:
        """Return sets of victims that cost less and could suffice to place these tasks."""
        within = np.flatnonzero(self._shared.placement(self._domain).is_in_reach)
        rows = self._candidates.rows
        rows = rows[self._candidates.is_evictable[rows] & np.isin(self._session.ledger.node[rows], within)]
        choices = self._bundles.choices(self._may_be_evicted(rows))
        return self._cheaper_sets.find(*choices, Request.of(self._session, within, placed), cost)

    def _evict_enough(
        self, task: TaskView, node: int, state: ShapeState, candidates: NodeCandidates, bundles: Sequence[Bundle]
    ) -> Victims | None:
        """Evict bundle by bundle until the task fits, then restore what is not needed. If it never fits all are evicted."""
        bundles = self._evictable(task, bundles, state.rejected)
        ledger, evicted, freed, fits = self._session.ledger, list[Bundle](), list[Ints](), False
        for bundle in bundles:
            if bundle.job in self._new_gangs and breaks_new_gang(self._session, bundle.rows):
                continue
            before = ledger.future[:, node].copy()
            self._evict(bundle)
            evicted.append(bundle)
            freed.append(ledger.future[:, node] - before)
            fits = state.has_amounts(ledger, node) and self._is_allowed(task, node)
            if fits:
                break
        if not fits:
            return None
        needed = evicted[-1:]
        for bundle, amounts in zip(reversed(evicted[:-1]), reversed(freed[:-1]), strict=True):
            enough = bool((ledger.future[:, node] - amounts >= state.needed).all())
            # The other pods of a gang that is evicted as well must not run alone.
            if enough and (
                bundle.breaks or all(each.job != bundle.job for each in self._evicted_bundles() if each.breaks)
            ):
                checkpoint = self._statement.checkpoint()
                self._restore(bundle)
                if self._is_allowed(task, node):
                    continue
                self._statement.rollback(checkpoint)
            needed.append(bundle)
        return (*self._bundles.cost_of(needed), -float(candidates.scores[node]), node), needed[::-1]

    def _evictable(self, task: TaskView, bundles: Sequence[Bundle], rejected: set[Bundle]) -> list[Bundle]:
        """Return those of these bundles that the plugins allow to evict, else the first gang that they allow alone.

        ``rejected`` gets the gangs that they do not allow alone: nor do they beside more candidates, which use up what may be
        evicted, or for a task whose job has more.
        """
        bundles = [bundle for bundle in bundles if bundle not in rejected]
        evictable = self._allowed_bundles(task, bundles)
        gangs = [bundle for bundle in bundles if bundle.breaks]
        if evictable or not gangs or not allow_less_for_more(self._session.hooks.victim_policies):
            return evictable
        for gang in gangs:
            if len(bundles) > 1 and (evictable := self._allowed_bundles(task, [gang])):
                return evictable
            rejected.add(gang)
        return self._allowed_bundles(task, [bundle for bundle in bundles if not bundle.breaks])

    def _allowed_bundles(self, task: TaskView, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Return those of these bundles that the plugins allow to evict as a whole."""
        while bundles:
            allowed = self._allowed(task, list(dict.fromkeys([row for bundle in bundles for row in bundle.rows])))
            complete = [bundle for bundle in bundles if allowed.issuperset(bundle.rows)]
            if len(complete) == len(bundles) or not allowed.difference(*[bundle.rows for bundle in complete]):
                self._trace.has_evictable |= bool(complete)
                return complete
            # Repeat without partial bundles: what they used up is available to the others.
            bundles = [bundle for bundle in bundles if bundle in complete or allowed.isdisjoint(bundle.rows)]
        return []

    def _allowed(self, task: TaskView, rows: Sequence[int]) -> set[int]:
        """Return those of these tasks that the rules and the plugins allow to evict for a task."""
        ledger, allowed = self._session.ledger, set[int]()
        numbers = self._candidates.rule_of[rows].tolist()
        for number, rule in enumerate(self._candidates.rules):
            if self._eligible[number] and number in numbers:
                asked = [TaskView(ledger, row) for row, own in zip(rows, numbers, strict=True) if own == number]
                allowed.update([view.row for view in rule.evictable(task, asked)])
        return allowed

    def _evict(self, bundle: Bundle) -> None:
        """Evict those tasks of a bundle that still run."""
        known, rows = self._candidates, np.array(bundle.rows, dtype=np.intp)
        for row in rows[self._session.ledger.evictable(rows)].tolist():
            self._bundle_of[row] = bundle
            self._statement.evict(row, known.rules[known.rule_of[row]].reason)

    def _restore(self, bundle: Bundle) -> None:
        """Cancel the evictions for a bundle."""
        evicted = set(self.victims)
        for row in reversed(bundle.rows):
            if row in evicted and self._bundle_of[row] is bundle:
                self._statement.restore(row)

    def _may_be_evicted(self, rows: Rows) -> list[int]:
        """Return those of these tasks that run, except those of gangs that the search must not touch."""
        rows = rows[self._session.ledger.evictable(rows)]
        jobs = self._session.snapshot.tasks.job[rows].tolist()
        excluded, placed, only = self._excluded_jobs, self._new_gangs, self.only
        return [
            row
            for row, job in zip(rows.tolist(), jobs, strict=True)
            if (only is None or row in only)
            and job not in excluded
            and not (job in placed and breaks_new_gang(self._session, (row,)))
        ]

    def _sort_nodes(self, task: TaskView) -> NodeCandidates:
        placement = self._shared.placement(self._domain_of(task))
        return node_candidates(self._session, self._candidates, task, placement)

    def _evicted_bundles(self) -> list[Bundle]:
        return list(dict.fromkeys(self._bundle_of[row] for row in self.victims))
