"""Search of victims for a gang in one hypernode: bundles are evicted whole."""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_bundles import Bundle, Bundles
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.victim_search import Cost, Rule, TaskGroup, VictimSearch
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE
from volcanopy.scheduler.placement.node_selection import Placement
from volcanopy.scheduler.session.session import Session

_FEW = 64
"""For gangs up to this size, restoring a bundle is also tried with all members placed anew."""


class Domains:
    """The hypernodes of one action, each with its nodes and the placement on these."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._placements = {session.snapshot.hypernodes.top: session.placement}
        self._masks: dict[int, Mask] = {}

    def placement(self, domain: int) -> Placement:
        """Return the placement on the nodes of a hypernode."""
        known = self._placements.get(domain)
        if known is None:
            nodes = self._session.snapshot.hypernodes.nodes(domain)
            known = self._placements[domain] = Placement(self._session.ledger, self._session.hooks, nodes)
        return known

    def nodes(self, domain: int) -> Mask:
        """(N,): the nodes of a hypernode."""
        known = self._masks.get(domain)
        if known is None:
            table = self._session.snapshot.hypernodes
            known = self._masks[domain] = table.holds[domain, table.of_node]
        return known


class GangCandidates:
    """The candidates of a rule for a job by cost, with their classes."""

    def __init__(
        self, session: Session, costs: EvictionCosts, rule: Rule, task: TaskView, domains: Domains, whole: bool
    ) -> None:
        """``whole``: bundles that break gangs are included."""
        self._session, self._costs, self._all_domains, self._whole = session, costs, domains, whole
        rows = rule.candidates(task)
        rows = rows[EVICTABLE[session.ledger.status[rows]]]
        self.rows, classes = costs.cheapest_first(rows, rule.queue_ranks, rule.victim_order)
        self.classes: Ints = np.zeros(len(session.snapshot.tasks), dtype=np.int64)
        """(T,): the class of each candidate."""
        self.classes[self.rows] = classes
        self._bundles: dict[int, tuple[Rows, Bundles]] = {}

    def bound(self, domain: int, missing: Ints) -> tuple[float, float]:
        """Return a lower bound of the cost of freeing these (R,) amounts in a hypernode: highest class, lost work."""
        if not (missing > 0).any():
            return (-1.0, 0.0)
        table, shapes = self._session.snapshot.tasks, self._session.snapshot.shapes
        rows = self.rows[self._all_domains.nodes(domain)[self._session.ledger.node[self.rows]]]
        largest = shapes.request.values[:, table.shape[rows]].max(axis=1, initial=0)
        count = max(
            -(-int(units) // int(most)) for units, most in zip(missing, largest, strict=True) if units > 0 and most
        )
        return (float(self.classes[rows].min()), count * float(self._costs.lost_work(rows).min()))

    def within(self, domain: int) -> tuple[Rows, Bundles]:
        """Return the candidates in a hypernode by cost, and their bundles."""
        known = self._bundles.get(domain)
        if known is None:
            rows = self.rows[self._all_domains.nodes(domain)[self._session.ledger.node[self.rows]]]
            bundles = Bundles(self._session, self._costs, rows)
            if not self._whole and bundles.whole:
                bound = {row for bundle in bundles.whole.values() for row in bundle.rows}
                rows = np.array([row for row in rows.tolist() if row not in bound], dtype=np.intp)
            known = self._bundles[domain] = (rows, bundles)
        return known


class GangVictimSearch(VictimSearch):
    """Search of victims for a gang, or a part of it, within one hypernode; bundles are evicted whole."""

    def __init__(
        self,
        session: Session,
        statement: Statement,
        job: JobView,
        rule: Rule,
        costs: EvictionCosts,
        candidates: GangCandidates,
        domains: Domains,
        domain: int,
    ) -> None:
        super().__init__(session, statement, job, rule, costs)
        self._gang_candidates, self._all_domains, self._domain = candidates, domains, domain
        self._rows, self._bundles = candidates.within(domain)
        self._inner_domains: dict[int, int] = {}
        self.has_evictable = False
        """Whether the plugins allowed to evict any bundle."""
        self._is_unstable = False

    def restrict(self, tasks: Iterable[int], domain: int) -> None:
        """Restrict these tasks to a hypernode within that of the search."""
        self._inner_domains.update(dict.fromkeys(tasks, domain))

    def fill(self, tasks: Iterable[int], enough: Callable[[], bool]) -> bool:
        """Place tasks in order until ``enough`` returns True; return whether it did."""
        for row in tasks:
            if enough():
                return True
            self.place(TaskView(self._session.ledger, row))
        return enough()

    def repeat(self, evicted: Iterable[int], placed: Iterable[tuple[int, int]]) -> None:
        """Apply the result of another search in the same hypernode."""
        self._evict(tuple(evicted))
        for row, node in placed:
            self._pipeline(TaskView(self._session.ledger, row), node)

    def finish(self) -> bool:
        """Restore the victims that are not needed; return False if a victim could preempt back."""
        self._is_unstable = not super().finish()
        return not self._is_unstable

    @property
    def is_preempted_back(self) -> bool:
        """Whether an eviction was rejected because a victim could preempt back."""
        return self._is_unstable or bool(self._excluded_jobs)

    @property
    def cost(self) -> Cost:
        """Cost of all victims: highest class, lost work, broken gangs, count."""
        victims = self.victims
        if not victims:
            return (-1.0, 0.0, 0.0, 0.0)
        return (float(self._gang_candidates.classes[victims].max()), *self._cost(self._victim_groups()))

    def _shape_key(self, task: TaskView) -> Hashable:
        return (super()._shape_key(task), self._domain_of(task))

    def _placement(self, task: TaskView) -> Placement:
        return self._all_domains.placement(self._domain_of(task))

    def _domain_of(self, task: TaskView) -> int:
        return self._inner_domains.get(task.row, self._domain)

    def _candidates(self, task: TaskView) -> tuple[Rows, Ints]:
        ledger, domain = self._session.ledger, self._domain_of(task)
        rows = self._rows[EVICTABLE[ledger.status[self._rows]]]
        if domain != self._domain:
            rows = rows[self._all_domains.nodes(domain)[ledger.node[rows]]]
        return rows, self._gang_candidates.classes[rows]

    def _evictable_groups(self, task: TaskView, rows: Rows) -> list[TaskGroup]:
        """Return the bundles of these candidates that the plugins allow to evict as a whole, the cheapest first."""
        bundles = list(dict.fromkeys(self._bundles.of(row) for row in rows.tolist()))
        bundles = [bundle for bundle in bundles if all(self._may_be_evicted(row) for row in bundle.rows)]
        bundles.sort(key=self._bundle_cost)
        while bundles:
            views = [TaskView(self._session.ledger, row) for bundle in bundles for row in bundle.rows]
            allowed = {view.row for view in self._rule.evictable(task, views)}
            complete = [bundle for bundle in bundles if allowed.issuperset(bundle.rows)]
            partial = len(allowed) > sum(len(bundle.rows) for bundle in complete)
            if not partial:  # else repeat without partial bundles: what they used up is available to the others
                self.has_evictable = self.has_evictable or bool(complete)
                return [bundle.rows for bundle in complete]
            bundles = [bundle for bundle in bundles if bundle in complete or allowed.isdisjoint(bundle.rows)]
        return []

    def _bundle_cost(self, bundle: Bundle) -> tuple[float, float, bool]:
        return (float(self._gang_candidates.classes[list(bundle.rows)].max()), bundle.lost_work, bundle.breaks)

    def _cost(self, groups: Sequence[TaskGroup]) -> Cost:
        bundles = [self._bundles.of(rows[0]) for rows in groups]
        count = sum(len(bundle.rows) for bundle in bundles)
        return self._bundles.work(bundles), float(sum(bundle.breaks for bundle in bundles)), float(count)

    def _least_work(self, rows: Rows) -> Floats:
        return self._bundles.lost_work[rows]

    def _victim_groups(self) -> list[TaskGroup]:
        bundles = list(dict.fromkeys(self._bundles.of(row) for row in self.victims))
        return [bundle.rows for bundle in sorted(bundles, key=self._bundle_cost, reverse=True)]

    def _restore_if_possible(self, group: TaskGroup) -> None:
        if not self._leaves_capacity(group):
            return
        before = len(self.victims)
        super()._restore_if_possible(group)
        if len(self.victims) == before and 1 < len(self.placed) <= _FEW:
            self._restore_with_all_moved(group)

    def _leaves_capacity(self, group: TaskGroup) -> bool:
        """Return whether the free amounts suffice for all placed tasks with this group restored, on any nodes."""
        ledger, table = self._session.ledger, self._session.snapshot.tasks
        requests = self._session.snapshot.shapes.request.values
        rows, nodes = (np.array(column, dtype=np.intp) for column in zip(*self.placed, strict=True))
        placed = requests[:, table.shape[rows]]
        dims = np.flatnonzero(placed.any(axis=1))
        free = ledger.future[dims]
        np.add.at(free.T, nodes, placed[dims].T)
        restored = np.array(group, dtype=np.intp)
        np.subtract.at(free.T, ledger.node[restored], requests[dims][:, table.shape[restored]].T)
        free = np.maximum(free[:, self._all_domains.nodes(self._domain)], 0)
        if (free.sum(axis=1) < placed[dims].sum(axis=1)).any():
            return False
        least = placed[dims].min(axis=1)
        counts = least > 0
        return not counts.any() or bool((free[counts] // least[counts, None]).min(axis=0).sum() >= len(rows))

    def _restore_with_all_moved(self, group: TaskGroup) -> None:
        """Restore a group if all placed tasks can be placed anew with it there."""
        statement, placed = self._statement, list(self.placed)
        mark = statement.checkpoint()
        for row, _ in placed:
            statement.withdraw(row)
        self.placed = []
        self._restore(group)
        for row, _ in placed:
            if not self._place_without_evictions(TaskView(self._session.ledger, row)):
                statement.rollback(mark)
                self.placed = placed
                return
