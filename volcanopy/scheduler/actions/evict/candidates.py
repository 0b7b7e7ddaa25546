"""The candidates of one job's search: who may be evicted for it by which rule, by cost; and what searches share."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.actions.evict.counter_evictions import CounterEvictions
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts, structured
from volcanopy.scheduler.actions.evict.rules import Rule, candidates
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Floats, Index, Ints, Mask, Rows, sums_by
from volcanopy.scheduler.model.task_status import HOLDING, READY

Cost = tuple[float, ...]
"""The cost of a set of victims, as :mod:`.eviction_cost` defines it; then what a search adds, such as the score of a node."""
NO_COST: Cost = (0.0,) * 8  # The least of each part of a cost.
_SUMS = (3, 4, 6, 7)
"""The parts of a cost that are sums over the victims: lost work, size, number and time."""


class Candidates:
    """The candidates of the rules of a job, the cheapest first. Those of an earlier rule are in lower classes."""

    def __init__(
        self, session: Session, costs: EvictionCosts, rules: Sequence[Rule], task: TaskView, breaks_gangs: bool
    ) -> None:
        """``task``: one of the job's tasks; ``breaks_gangs``: whole gangs may be evicted too."""
        self.rules = rules
        self._session, self._costs, self._breaks_gangs = session, costs, breaks_gangs
        table, count = session.snapshot.tasks, len(session.snapshot.tasks)
        self.rule_of: NDArray[np.int8] = np.full(count, len(rules), dtype=np.int8)
        """(T,): the number of the rule by which each task is a candidate; as many as there are rules where by none."""
        classes: Ints = np.zeros(count, dtype=np.int64)  # Tasks of one class are equally important.
        parts, first = [np.empty(0, dtype=np.intp)], 0
        for number, rule in enumerate(rules):
            rows = candidates(session, rule, task, rule.rows())
            rows = rows[session.ledger.evictable(rows) & (self.rule_of[rows] == len(rules))]
            if not len(rows):
                continue
            order = costs.order(rule.order)
            rows = rows[np.argsort(order.ranks[rows], kind="stable")]  # mostly sorted already
            self.rule_of[rows] = number
            classes[rows] = order.classes[rows] + first
            first = int(classes[rows].max()) + 1
            parts.append(rows)
        self.rows: Rows = np.concatenate(parts)  # All of them in order.
        self.rank: Ints = np.full(count, count, dtype=np.int64)  # (T,): the position of each in this order.
        self.rank[self.rows] = np.arange(len(self.rows))
        self._in_order, self.by_node = self.rows, _grouped(self.rows, session.ledger.node)  # Those of a node by cost.
        self.ends: Rows = np.bincount(session.ledger.node[self.rows], minlength=len(session.snapshot.nodes)).cumsum()
        """(N,): where those of each node end in ``by_node``."""
        self._by_job = _grouped(self.by_node, table.job)  # By job, those of a job by node, those of a node by cost.
        self._owners = table.job[self._by_job]
        self._own = int(table.job[task.row])
        own, queues = int(session.snapshot.jobs.queue[self._own]), np.bincount(costs.queue[self.rows]).nonzero()[0]
        losers = {queue: costs.losses.losers(queue, own) for queue in queues.tolist()}
        self.losers = {queue: losing for queue, losing in losers.items() if losing}
        """By queue of candidates, if there are any, the queues that lose what is evicted and may fall below their shares."""
        self._simple: Mask = ~structured(session)
        no_cost = np.zeros(count)
        parts_of_cost = (no_cost, classes, no_cost, costs.lost_work, costs.size, no_cost, np.ones(count), costs.seconds)
        self.alone: Floats = np.stack(parts_of_cost, dtype=np.float64)
        """(8, T): the cost of the eviction of each task alone, without what queues lose."""
        self.least_cost: Floats = self.alone.copy()
        """(8, T): the least of each part of the cost of an eviction of a candidate."""
        self.varies: Mask = np.array([(part != part[:1]).any() for part in (part[self.rows] for part in self.alone)])
        """(8,): which of these parts may differ between candidates."""
        self.is_evictable: Mask = np.zeros(count, dtype=np.bool_)
        """(T,): the candidates without those that are needed by a gang which may not be broken."""
        self.amounts: Ints = np.zeros((len(session.snapshot.axis), len(session.snapshot.nodes)), dtype=np.int64)
        """(R, N): the requests of the evictable candidates on each node."""
        self._moves, self._stale = 0, np.ones(len(session.snapshot.jobs), dtype=np.bool_)
        self.update()

    def update(self) -> None:
        """Leave out the candidates that were evicted since, and compute anew what depends on the tasks of their jobs."""
        session, ledger, owner = self._session, self._session.ledger, self._session.snapshot.tasks.job
        self._stale[owner[ledger.moved.since(self._moves)]] = True
        self._moves = len(ledger.moved)
        if not self._stale.any():
            return
        runs = ledger.evictable()
        self.rows = self._in_order[runs[self._in_order]]
        self.breakable: Mask = np.zeros(len(self._stale), dtype=np.bool_)
        """(J,): whether the gang of a job may be broken: all its members with a node are candidates."""
        if self._breaks_gangs:
            counted = np.bincount(owner[self.rows], minlength=len(self._stale))
            self.breakable = counted == ledger.job_counts[HOLDING].sum(axis=0)
            self.breakable[self._own] = False
        rows, before = self._by_job[self._stale[self._owners]], self.is_evictable.copy()
        self.is_evictable[rows] = False
        self._set_bounds(rows[runs[rows]])
        self._set_share_losses()
        self._stale[:] = False
        rows = np.flatnonzero(before != self.is_evictable)
        requests = session.snapshot.requests(rows) * np.where(before[rows], -1, 1)
        self.amounts = self.amounts + sums_by(ledger.node[rows], requests, len(session.snapshot.nodes))

    def _set_bounds(self, rows: Rows) -> None:
        """Compute for each of these candidates of some jobs, sorted by job and node, lower bounds of the cost of its bundle.

        They follow from its position among those of its job on its node, in order of cost.
        """
        table, jobs, ledger = self._session.snapshot.tasks, self._session.snapshot.jobs, self._session.ledger
        owners, nodes = table.job[rows].astype(np.intp), ledger.node[rows]
        surplus = (ledger.job_counts[READY].sum(axis=0) - jobs.min_available)[owners]
        is_first = np.ones(len(rows), dtype=np.bool_)
        is_first[1:] = (owners[1:] != owners[:-1]) | (nodes[1:] != nodes[:-1])
        starts = np.flatnonzero(is_first)
        here = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
        breaks = (surplus >= 0) & (here >= surplus) & self._simple[owners]
        broke = rows[self.least_cost[2, rows] > 0]
        self.least_cost[:, broke] = self.alone[:, broke]
        self.least_cost[2, rows] = breaks
        self.varies[[2, *_SUMS]] |= breaks.any()
        for part in _SUMS if breaks.any() else ():
            whole = np.bincount(owners, weights=self.alone[part, rows], minlength=len(jobs))
            self.least_cost[part, rows[breaks]] = whole[owners[breaks]]
        self.is_evictable[rows] = ~breaks | self.breakable[owners]

    def _set_share_losses(self) -> None:
        """Compute whether a queue falls below its share by the eviction of each candidate, or of its job if that breaks."""
        snapshot, count = self._session.snapshot, len(self._session.snapshot.jobs)
        for queue, losers in self.losers.items():
            rows = self.rows[self._costs.queue[self.rows] == queue]
            lost, breaks, owners = snapshot.requests(rows), self.least_cost[2, rows] > 0, snapshot.tasks.job[rows]
            if breaks.any():
                lost = np.where(breaks, sums_by(owners, lost, count)[:, owners], lost)
            self.least_cost[0, rows] = self._costs.losses.costs(dict.fromkeys(losers, lost.T))[0]
            self.varies[0] = True

    def remaining(self) -> tuple[Mask, Ints]:
        """(T,) and (R, N): the evictable candidates without those evicted since the last update, and their requests by node."""
        ledger, snapshot = self._session.ledger, self._session.snapshot
        moved = np.unique(ledger.moved.since(self._moves))
        evicted = moved[self.is_evictable[moved] & ~ledger.evictable(moved)]
        if not len(evicted):
            return self.is_evictable, self.amounts
        mask = self.is_evictable.copy()
        mask[evicted] = False
        return mask, self.amounts - sums_by(ledger.node[evicted], snapshot.requests(evicted), len(snapshot.nodes))

    def are_few(self, within: Mask) -> bool:
        """Return whether there are so few on these (N,) nodes, and so few nodes, that sets for a whole gang are compared."""
        nodes = self._session.ledger.node[self.rows]
        return max(int(within.sum()), int(within[nodes].sum())) <= defaults.COMPARED_CANDIDATES

    def share_losses(self, rows: Sequence[int]) -> tuple[float, float]:
        """Return how many of the queues of these evicted tasks are below their shares, and what they lack."""
        queues = set(self._costs.queue[list(rows)].tolist()) if self.losers else ()
        losers = dict.fromkeys(loser for queue in sorted(queues) for loser in self.losers.get(queue, ()))
        if not losers:
            return (0.0, 0.0)
        none = np.zeros((1, len(self._session.snapshot.axis)), dtype=np.int64)
        below, lacking = self._costs.losses.costs(dict.fromkeys(losers, none))
        return (float(below[0]), float(lacking[0]))


def _grouped(rows: Rows, owner: Index) -> Rows:
    """Return these tasks sorted by the (T,) number from 0 of their owner, those of one owner in their order."""
    owners = owner[rows]  # numpy sorts small types by radix
    return rows[np.argsort(owners.astype(np.min_scalar_type(owners.max(initial=0))), kind="stable")]


@dataclass(frozen=True, eq=False)
class Searches:
    """What the searches of one action share."""

    session: Session
    action: str
    costs: EvictionCosts
    counter: CounterEvictions
    most_domains: int  # How many hypernodes are tried.
    breaks_gangs: bool  # Whether gangs may be broken.
    _candidates: dict[Hashable, Candidates] = field(default_factory=dict)

    def candidates(self, rules: Sequence[Rule], task: TaskView, jobs: Hashable) -> Candidates:
        """Return the candidates for a task; ``jobs`` is a key of jobs without tasks on nodes that have the same, or None."""
        if jobs is None:
            return Candidates(self.session, self.costs, rules, task, self.breaks_gangs)
        key = (tuple(rules), jobs, task.best_effort)
        known = self._candidates.get(key)
        if known is None:
            if len(self._candidates) == defaults.CANDIDATE_LISTS:
                del self._candidates[next(iter(self._candidates))]
            known = self._candidates[key] = Candidates(self.session, self.costs, rules, task, self.breaks_gangs)
        known.update()
        return known

    @once
    def placement(self, domain: int) -> Placement:
        """Return the placement on the nodes of a hypernode."""
        return self.session.placement_in(domain)


def equivalence(session: Session, job: JobView, shapes: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return a key that is equal for jobs for which the same evictions are possible, given how many tasks they lack.

    ``shapes`` are the cache keys of their tasks.
    """
    return (
        job.queue.row,
        None if session.limits is None else session.limits.limit_class(job.row),
        job.priority,
        job.preemptable,
        job.allocated.values.tobytes(),
        frozenset(shapes),
    )


@dataclass
class Trace:
    """What the searches for a job met, for messages."""

    is_tried: bool = False
    has_evictable: bool = False  # Whether the plugins allowed to evict any bundle.
    is_rejected_at_once: bool = False
    """Whether the plugins allowed to evict nothing for the first task, before any was placed."""
    is_preempted_back: bool = False  # Whether an eviction was rejected because a victim could preempt back.
