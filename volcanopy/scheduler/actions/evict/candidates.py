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
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows, sums_by
from volcanopy.scheduler.model.task_status import HOLDING, READY

Cost = tuple[float, ...]
"""The cost of a set of victims, as :mod:`.eviction_cost` defines it; then what a search adds, such as the score of a node."""
NO_COST: Cost = (0.0,) * 8  # The least of each part of a cost.


class Candidates:
    """The candidates of the rules of a job, the cheapest first. Those of an earlier rule are in lower classes."""

    def __init__(
        self, session: Session, costs: EvictionCosts, rules: Sequence[Rule], task: TaskView, breaks_gangs: bool
    ) -> None:
        """``task``: one of the job's tasks; ``breaks_gangs``: whole gangs may be evicted too."""
        self.rules = rules
        self._session, self._costs = session, costs
        count = len(session.snapshot.tasks)
        self.rule_of: NDArray[np.int8] = np.full(count, len(rules), dtype=np.int8)
        """(T,): the number of the rule by which each task is a candidate; as many as there are rules where by none."""
        self.classes: Ints = np.zeros(count, dtype=np.int64)
        """(T,): the class of each candidate: tasks of one class are equally important."""
        parts: list[Rows] = []
        first = 0
        for number, rule in enumerate(rules):
            rows = candidates(session, rule, task, rule.rows())
            rows = rows[session.ledger.evictable(rows) & (self.rule_of[rows] == len(rules))]
            if not len(rows):
                continue
            order = costs.order(rule.order)
            rows = rows[np.argsort(order.ranks[rows], kind="stable")]  # mostly sorted already
            self.rule_of[rows] = number
            self.classes[rows] = order.classes[rows] + first
            first = int(self.classes[rows].max()) + 1
            parts.append(rows)
        self.rows: Rows = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)  # All of them in order.
        self.rank: Ints = np.full(count, count, dtype=np.int64)  # (T,): the position of each in this order.
        self.rank[self.rows] = np.arange(len(self.rows))
        self.breakable: Mask = self._breakable(int(session.snapshot.tasks.job[task.row]), breaks_gangs)
        """(J,): whether the gang of a job may be broken: all its members with a node are candidates."""
        self._queue = int(session.snapshot.jobs.queue[session.snapshot.tasks.job[task.row]])
        self._losers: dict[int, list[int]] = {}
        self._set_bounds()
        self.amounts: Ints = self._amounts()
        """(R, N): the requests of the candidates on each node, without those that can never be evicted."""

    def _breakable(self, own: int, breaks_gangs: bool) -> Mask:
        ledger, jobs = self._session.ledger, len(self._session.snapshot.jobs)
        if not breaks_gangs:
            return np.zeros(jobs, dtype=np.bool_)
        there = ledger.job_counts[HOLDING].sum(axis=0)
        counted = np.bincount(self._session.snapshot.tasks.job[self.rows], minlength=jobs)
        breakable: Mask = counted == there
        breakable[own] = False
        return breakable

    def _set_bounds(self) -> None:
        """Compute for each candidate lower bounds of the cost of its bundle, from its position among those of its node."""
        session, rows = self._session, self.rows
        table, jobs, ledger = session.snapshot.tasks, session.snapshot.jobs, session.ledger
        count = len(table)
        self.least_cost: Floats = np.zeros((len(NO_COST), count), dtype=np.float64)
        """(8, T): the least of each part of the cost of an eviction of a candidate."""
        self.is_bound: Mask = np.zeros(count, dtype=np.bool_)
        """(T,): whether a candidate can never be evicted: it is needed by a gang that may not be broken."""
        rows = rows[np.lexsort((ledger.node[rows], table.job[rows]))]  # those of one node in order of cost
        owners, nodes = table.job[rows].astype(np.intp), ledger.node[rows]
        surplus = ledger.job_counts[READY].sum(axis=0) - jobs.min_available
        starts = np.flatnonzero((np.diff(owners, prepend=-1) != 0) | (np.diff(nodes, prepend=-1) != 0))
        here = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
        simple = ~structured(session)[owners]
        breaks = (surplus[owners] >= 0) & (here >= surplus[owners]) & simple
        self.least_cost[:3, rows] = self._least_below(rows, owners, breaks), self.classes[rows], breaks
        count_each = np.ones(len(rows), dtype=np.int64)
        parts = {3: self._costs.lost_work[rows], 4: self._costs.size[rows], 6: count_each, 7: self._costs.seconds[rows]}
        for number, part in parts.items():
            whole = np.bincount(owners, weights=part, minlength=len(jobs))
            self.least_cost[number, rows] = np.where(breaks, whole[owners], part)
        self.is_bound[rows] = breaks & ~self.breakable[owners]

    def _least_below(self, rows: Rows, owners: Rows, breaks: Mask) -> Ints:
        """(M,): whether a queue falls below its share by the eviction of each task alone, or of its job if that breaks."""
        snapshot, jobs = self._session.snapshot, self._session.snapshot.jobs
        below = np.zeros(len(rows), dtype=np.int64)
        queues = jobs.queue[owners]
        for queue in np.unique(queues).tolist():
            if losers := self.losers(queue):
                those = np.flatnonzero(queues == queue)
                alone = snapshot.requests(rows[those])
                whole = sums_by(owners[those], alone, len(jobs))[:, owners[those]]
                lost = np.where(breaks[those], whole, alone)
                below[those] = self._costs.losses.costs(dict.fromkeys(losers, lost.T))[0]
        return below

    def are_few(self, within: Mask) -> bool:
        """Return whether there are so few on these (N,) nodes, and so few nodes, that sets for a whole gang are compared."""
        nodes = self._session.ledger.node[self.rows]
        return max(int(within.sum()), int(within[nodes].sum())) <= defaults.COMPARED_CANDIDATES

    def losers(self, queue: int) -> list[int]:
        """Return the queues that lose what is evicted in a queue, and may fall below their shares."""
        if queue not in self._losers:
            self._losers[queue] = self._costs.losses.losers(queue, self._queue)
        return self._losers[queue]

    def share_losses(self, rows: Sequence[int]) -> tuple[float, float]:
        """Return how many of the queues of these evicted tasks are below their shares, and what they lack."""
        queues = set(self._costs.queue[list(rows)].tolist())
        losers = dict.fromkeys(loser for queue in sorted(queues) for loser in self.losers(queue))
        if not losers:
            return (0.0, 0.0)
        none = np.zeros((1, len(self._session.snapshot.axis)), dtype=np.int64)
        below, lacking = self._costs.losses.costs(dict.fromkeys(losers, none))
        return (float(below[0]), float(lacking[0]))

    def _amounts(self) -> Ints:
        snapshot = self._session.snapshot
        rows = self.rows[~self.is_bound[self.rows]]
        return sums_by(self._session.ledger.node[rows], snapshot.requests(rows), len(snapshot.nodes))


@dataclass(frozen=True, eq=False)
class Searches:
    """What the searches of one action share."""

    session: Session
    action: str
    costs: EvictionCosts
    counter: CounterEvictions
    most_domains: int  # How many hypernodes are tried.
    breaks_gangs: bool  # Whether gangs may be broken.
    _candidates: dict[Hashable, tuple[int, Candidates]] = field(default_factory=dict)
    _placements: dict[int, Placement] = field(default_factory=dict)

    def candidates(self, rules: Sequence[Rule], task: TaskView, jobs: Hashable) -> Candidates:
        """Return the candidates for a task; ``jobs`` is a key of jobs without tasks on nodes that have the same, or None."""
        if jobs is None:
            return Candidates(self.session, self.costs, rules, task, self.breaks_gangs)
        key, moves = (jobs, task.best_effort), len(self.session.ledger.moved)
        known = self._candidates.get(key)
        if known is None or known[0] != moves:
            known = moves, Candidates(self.session, self.costs, rules, task, self.breaks_gangs)
            self._candidates[key] = known
        return known[1]

    def placement(self, domain: int) -> Placement:
        """Return the placement on the nodes of a hypernode."""
        if domain not in self._placements:
            self._placements[domain] = self.session.placement_in(domain)
        return self._placements[domain]


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
