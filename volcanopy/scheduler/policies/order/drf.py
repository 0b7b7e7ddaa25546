"""drf: dominant resource fairness between jobs, and with ``enableHierarchy`` between queues in a tree."""

import operator
from collections.abc import Sequence
from typing import ClassVar, Self, cast

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.credit import Due, queue_credit
from volcanopy.scheduler.engine.shares.hierarchical_drf import Tree, path
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.queue_shares import Levels, Shares, bounds
from volcanopy.scheduler.model.resources import Floats, Ints, Rows, largest_ratio
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.plugin import ABSTAIN, NoArguments, Plugin, Vote
from volcanopy.scheduler.policy.roles import Purpose, Quota, Victims

_PAYBACK = defaults.QUEUE_PAYBACK * 4 / 3
"""Seconds over which credit is paid back: no share limits how much a queue is allocated for it meanwhile."""


class Drf(Plugin[NoArguments], Victims, roles.Order):
    """The job with the smallest dominant share of the cluster comes first."""

    name: ClassVar[str] = "drf"

    def __new__(cls, args: NoArguments, cluster: Cluster, hierarchy: bool = False) -> Self:  # noqa: ARG004
        """Create a :class:`HierarchicalDrf`, which answers more hooks, with the switch ``enableHierarchy``."""
        return cast("Self", object.__new__(HierarchicalDrf if hierarchy else cls))

    def open(self) -> None:
        """Get the total of the cluster."""
        self._total = self.cluster.total
        self._requests: dict[int, list[int]] = {}
        """(R,): the requests of shapes."""

    def jobs(self, jobs: Rows) -> Floats:
        """Smaller share first."""
        allocated = self.cluster.ledger.job_allocated[:, jobs]
        share = np.zeros(len(jobs), dtype=np.float64)
        for part, whole in zip(allocated, self._total.values.tolist(), strict=True):
            np.maximum(share, part / whole if whole > 0 else (part > 0).astype(np.float64), out=share)
        return share

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """For preempt, tasks of jobs whose share without the task is at least that of the preemptor's job with its task."""
        if purpose is not Purpose.PREEMPT:
            return None
        own = preemptor.job
        if own is None:
            return []
        share = (own.allocated + preemptor.request).share_of(self._total)
        table, requests, total = self.cluster.snapshot.tasks, self._requests, self._total.values.tolist()
        # There are few resources: lists are faster than arrays.
        left: dict[int, list[int]] = {}
        victims = []
        rows = [candidate.row for candidate in candidates]
        for candidate, job, shape in zip(candidates, table.job[rows].tolist(), table.shape[rows].tolist(), strict=True):
            if job == NONE:
                continue
            if job not in left:
                left[job] = self.cluster.ledger.job_allocated[:, job].tolist()
            if shape not in requests:
                requests[shape] = candidate.request.values.tolist()
            rest = left[job] = list(map(operator.sub, left[job], requests[shape]))
            other = largest_ratio(rest, total)
            if share < other or abs(share - other) <= defaults.EQUAL_DOMINANT_SHARES:
                victims.append(candidate)
        return victims


class HierarchicalDrf(Drf, Quota, roles.Gate):
    """Queues form a tree: at each level the part with the smallest share by weight comes first (HDRF).

    The path of a queue is its annotation ``volcanopy.io/hierarchy``, with ``volcanopy.io/hierarchy-weights``; without
    them it follows ``spec.parent``, with the weights of the queues. Borrowing and lending limits are relative to the
    fair shares by ``spec``.
    """

    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.ENQUEUED})

    def open(self) -> None:
        """Compute the limits, which apply if any queue has borrowing or lending limits."""
        super().open()
        self._known: dict[object, list[bool]] = {}
        self._change = -1
        queues, total = self.cluster.snapshot.queues, self.cluster.snapshot.total
        self._bounds = bounds(total, queues, by_weight=True, in_tree=True, alone=True)
        self._reserved: Ints | None = None if queues.terms.lending is None else self._bounds.reserved

    @cached_property
    def _tree(self) -> Tree:
        """The tree by allocated resources."""
        jobs = self.cluster.snapshot.jobs
        requested = jobs.allocated.values + jobs.pending.values - self.cluster.snapshot.gated
        return self._tree_of(requested, self.cluster.ledger.job_allocated)

    @cached_property
    def _due(self) -> Floats:
        """(N,): what the parts of the tree get beside their shares, or give, for their credit: fractions of the cluster."""
        return self._tree.of_parts(self._payback)

    @cached_property
    def _payback(self) -> Floats:
        """(Q,): what queues get beside their fair shares, or give, for their credit: fractions of the cluster."""
        snapshot, most = self.cluster.snapshot, self._fair_shares
        used = snapshot.nodes.used.values.sum(axis=1) / np.maximum(snapshot.total, 1)
        credit = queue_credit(snapshot)[int(used.argmax())] / _PAYBACK  # of the scarcest resource
        return np.clip(credit, -most, most)

    @cached_property
    def _own_shares(self) -> Floats:
        """(Q,): the fractions of the cluster that the own jobs of queues get by their weights."""
        return np.array([self._admission_tree.fair_share(row) for row in range(len(self.cluster.snapshot.queues))])

    @cached_property
    def _fair_shares(self) -> Floats:
        """(Q,): the fractions of the cluster that queues with their descendants get by their weights."""
        tree, queues = self._admission_tree, self.cluster.snapshot.queues
        return np.array([tree.fair_share(row, with_descendants=True) for row in range(len(queues))])

    def shares(self) -> Shares:
        """The shares by weight among the parts of the tree with requests."""
        queues, total, limits = self.cluster.snapshot.queues, self.cluster.snapshot.total[:, None], self._bounds
        jobs = np.bincount(self.cluster.snapshot.jobs.queue[self.cluster.job_rows()], minlength=len(queues))
        used = self.cluster.ledger.tree_allocated.any(axis=0) | (queues.rolled_up(jobs[None, :])[0] > 0)
        fair = np.rint(np.where(used, self._fair_shares, 0.0) * total).astype(np.int64)
        own = np.rint(self._own_shares * total).astype(np.int64)
        most = np.ceil((self._own_shares + np.maximum(self._payback, 0.0)) * total).astype(np.int64)
        limit, guarantee = limits.limit, queues.guarantee.values
        if self._reserved is not None:
            limit, guarantee = Levels(queues).limits(total[:, 0], self._reserved, limit), self._reserved
        return Shares(
            fair,
            limit,
            guarantee,
            tree=True,
            protected=Due(self.cluster.snapshot, fair).protected,
            own=own,
            own_paid_back=most - own,
            fractions=self._own_shares,
            named=np.zeros(fair.shape, dtype=np.bool_),
            bounds=limits,
            enforced=self._reserved is not None,
            binding=self.cluster.queries.reclaims,
            reclaims=self._reclaims,
        )

    @cached_property
    def _admission_tree(self) -> Tree:
        """The tree with what admitted jobs lack counted as allocated, and what waiting jobs need as requested."""
        snapshot = self.cluster.snapshot
        jobs = snapshot.jobs
        admitted = self.cluster.ledger.job_allocated + self.cluster.queries.lacking()
        minimum = np.where(snapshot.are_too_large(np.arange(len(jobs))), 0, jobs.min_resources.values)
        requested = np.maximum(jobs.allocated.values + jobs.pending.values - snapshot.gated, minimum)
        return self._tree_of(np.maximum(requested, admitted), admitted)

    def _tree_of(self, requested: Ints, allocated: Ints) -> Tree:
        """Return the tree of jobs with these (R, J) amounts."""
        snapshot, rows = self.cluster.snapshot, self.cluster.job_rows()
        jobs, queues = snapshot.jobs, snapshot.queues
        queue_of = np.full(len(jobs), NONE, dtype=np.intp)
        queue_of[rows] = jobs.queue[rows]
        within = jobs.allocated.values[:, rows].sum(axis=1)
        used = (snapshot.nodes.used.values - snapshot.nodes.releasing.values).sum(axis=1)
        return Tree(
            [path(queues, row) for row in range(len(queues))],
            queue_of,
            requested,
            allocated,
            snapshot.total,
            np.maximum(used - within, 0),
        )

    def _now(self) -> Tree:
        changes = self.cluster.ledger.changes
        if changes != self._change:
            self._change = changes
            if self._tree.update(self.cluster.ledger.job_allocated):
                self._known.clear()
        return self._tree

    @property
    def _ordered_tree(self) -> Tree:
        return self._admission_tree if self.cluster.admission else self._now()

    def order_tree(self) -> tuple[int, Sequence[Sequence[int]]]:
        """The paths of the queues; all shares change when a resource of the cluster is used up."""
        tree = self._ordered_tree
        return tree.rebuilds, tree.lines

    def queue(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """From the root down: unsaturated before saturated parts, then the smaller share by weight."""
        return self._ordered_tree.share_path(queue.row, self._due)

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Count the minimum of an admitted job."""
        least = job.min_resources
        if least is not None:
            rest = np.maximum(least.values - job.allocated.values, 0)
            self._admission_tree.add(np.array([job.row]), rest[:, None])
        return ABSTAIN

    def _reclaims(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Return tasks of queues that without them still come after the reclaimer's queue with its task.

        Earlier victims count as evicted for later ones.
        """
        own = reclaimer.job
        if own is None:
            return []
        tree = self._now()
        jobs = [candidate.job for candidate in candidates]
        shapes = tuple((-1 if job is None else job.row, task.shape) for job, task in zip(jobs, candidates, strict=True))
        key = (own.row, reclaimer.shape, shapes)
        if key not in self._known:
            self._known[key] = _behind(tree, own, reclaimer, jobs, candidates)
        return [task for task, evict in zip(candidates, self._known[key], strict=True) if evict]


def _behind(
    tree: Tree, own: JobView, reclaimer: TaskView, jobs: Sequence[JobView | None], candidates: Sequence[TaskView]
) -> list[bool]:
    def add(job: int, amount: Ints) -> None:
        tree.add(np.array([job]), amount[:, None])

    evicted: list[tuple[int, Ints]] = []
    result = []
    rejected: set[tuple[int, int]] = set()
    add(own.row, reclaimer.request.values)
    for job, candidate in zip(jobs, candidates, strict=True):
        evict = False
        if job is not None and (job.row, candidate.shape) not in rejected:
            request = candidate.request.values
            add(job.row, -request)
            evict = tree.is_before(own.queue.row, job.queue.row)
            if evict:
                rejected.clear()
                evicted.append((job.row, request))
            else:
                add(job.row, request)
                rejected.add((job.row, candidate.shape))
        result.append(evict)
    for row, request in (*reversed(evicted), (own.row, -reclaimer.request.values)):
        add(row, request)
    return result
