"""drf: dominant resource fairness between jobs, and with ``enableHierarchy`` between queues in a tree."""

import operator
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Self, cast

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.credit import queue_credit
from volcanopy.scheduler.engine.shares.guarantees import sparing_guarantees
from volcanopy.scheduler.engine.shares.hierarchical_drf import Tree, path
from volcanopy.scheduler.engine.shares.lending import Lending
from volcanopy.scheduler.engine.shares.queue_quota import QueueQuota, exceeds
from volcanopy.scheduler.engine.shares.whole_gangs import with_whole_gangs
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView, with_jobs
from volcanopy.scheduler.model.queue_shares import Levels, QueueShares, bounds
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Resources, Rows, largest_ratio
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.plugin import ABSTAIN, NoArguments, Plugin, Rejection, Vote
from volcanopy.scheduler.policy.roles import Purpose, Victims

_PAYBACK = defaults.QUEUE_PAYBACK * 4 / 3
"""Seconds over which credit is paid back: no share limits how much a queue is allocated for it meanwhile."""


class Drf(Plugin[NoArguments], Victims):
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

    def job_order(self, jobs: Rows) -> Floats:
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


class HierarchicalDrf(Drf, roles.Gate):
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
        self._pods = self.cluster.axis.index["pods"]
        limits = bounds(total, queues, by_weight=True, in_tree=True, alone=True)
        self._reserved: Ints | None = None if queues.terms.lending is None else limits.reserved
        limit = limits.limit if self._reserved is None else Levels(queues).limits(total, limits.reserved, limits.limit)
        self._quota = QueueQuota(self.cluster, limits, limit, self._reserved, in_tree=True)

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
        paid_back: Floats = np.clip(credit, -most, most)
        return paid_back

    @cached_property
    def _own_shares(self) -> Floats:
        """(Q,): the fractions of the cluster that the own jobs of queues get by their weights."""
        return np.array([self._admission_tree.fair_share(row) for row in range(len(self.cluster.snapshot.queues))])

    @cached_property
    def _own_most(self) -> Ints:
        """(R, Q): the fair shares of the own jobs of queues, with what they are paid back."""
        share = self._own_shares + np.maximum(self._payback, 0.0)
        most: Ints = np.ceil(share * self.cluster.snapshot.total[:, None]).astype(np.int64)
        return most

    @cached_property
    def _lending(self) -> Lending:
        return Lending(self.cluster, self._own_most)

    @cached_property
    def _fair_shares(self) -> Floats:
        """(Q,): the fractions of the cluster that queues with their descendants get by their weights."""
        tree, queues = self._admission_tree, self.cluster.snapshot.queues
        return np.array([tree.fair_share(row, with_descendants=True) for row in range(len(queues))])

    def queue_shares(self) -> QueueShares:
        """The shares by weight among the parts of the tree with requests."""
        queues, total = self.cluster.snapshot.queues, self.cluster.snapshot.total
        used = self.cluster.ledger.tree_allocated.any(axis=0) | self._has_jobs
        fair_share = np.rint(np.where(used, self._fair_shares, 0.0) * total[:, None]).astype(np.int64)
        return QueueShares(
            fair_share, self._quota.limit, queues.guarantee.values if self._reserved is None else self._reserved
        )

    @property
    def _has_jobs(self) -> Mask:
        """(Q,): the queues with jobs of their own or of descendants."""
        snapshot = self.cluster.snapshot
        jobs = np.bincount(snapshot.jobs.queue[self.cluster.job_rows()], minlength=len(snapshot.queues))
        has: Mask = snapshot.queues.rolled_up(jobs[None, :])[0] > 0
        return has

    @cached_property
    def _admission_tree(self) -> Tree:
        """The tree with what admitted jobs lack counted as allocated, and what waiting jobs need as requested."""
        snapshot = self.cluster.snapshot
        jobs = snapshot.jobs
        admitted = self.cluster.ledger.job_allocated + self.cluster.queries.lacking
        minimum = np.where(snapshot.are_too_large(np.arange(len(jobs))), 0, jobs.min_resources.values)
        requested = np.maximum(jobs.allocated.values + jobs.pending.values - snapshot.gated, minimum)
        return self._tree_of(np.maximum(requested, admitted), admitted)

    def _tree_of(self, requested: Ints, allocated: Ints) -> Tree:
        """Return the tree of jobs with these (R, J) amounts."""
        snapshot = self.cluster.snapshot
        jobs, queues = snapshot.jobs, snapshot.queues
        rows = self.cluster.job_rows()
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

    def queue_order(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """From the root down: unsaturated before saturated parts, then the smaller share by weight.

        A priority seen from outside goes first at each level of the tree of parents.
        """
        return self._key(queue, self._now())

    def admission_order(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """As :meth:`queue_order`, with what admitted jobs still lack of their minimum counted as allocated."""
        return self._key(queue, self._admission_tree)

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Count the minimum of an admitted job."""
        least = job.min_resources
        if least is not None:
            rest = np.maximum(least.values - job.allocated.values, 0)
            self._admission_tree.add(np.array([job.row]), rest[:, None])
        return ABSTAIN

    def _key(self, queue: QueueView, tree: Tree) -> tuple[tuple[float, ...], ...]:
        path_key = tree.share_path(queue.row, self._due)
        if not self.cluster.precedence.matters:
            return path_key
        names = self.cluster.snapshot.queues.names
        line = [row for row in queue.line.tolist()[::-1] if names[row] != "root"]
        priorities = [self.cluster.precedence.of(row) for row in line] if len(line) <= len(path_key) else []
        priorities += [0] * (len(path_key) - len(priorities))
        return tuple((-priority, *key) for priority, key in zip(priorities, path_key, strict=True))

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Borrowing limits of the queue and its ancestors, and lending limits of others."""
        quota, request = self._quota, task.request.values * count
        if self._reserved is None:
            return None
        tree = self.cluster.ledger.tree_allocated
        exceeded = (row for row in queue.line.tolist() if quota.exceeds_limit(row, tree[:, row], request))
        row = next(exceeded, None)
        if row is not None:
            limit = quota.limit[:, row]
        else:
            row, excess = queue.row, quota.excess(queue.row, request)
            if excess is None:
                return None
            limit = tree[:, row] + request - excess
        return Rejection(
            Gate.CAPABILITY,
            quota.message("capability", row, tree[:, row], request.tolist(), limit, parts=count),
        )

    def within_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The fair share of the queue by weight, where others could reclaim what it has above it."""
        if not self.cluster.queries.reclaims:
            return None
        request, allocated = task.request.values * count, self.cluster.ledger.queue_allocated[:, queue.row]
        if not exceeds(allocated + request, self._own_most[:, queue.row], request, self._pods):
            return None
        fair_share = np.rint(self._own_shares[queue.row] * self.cluster.snapshot.total).astype(np.int64)
        message = self._quota.message("share", queue.row, allocated, request.tolist(), fair_share, parts=count)
        return Rejection(Gate.SHARE, message)

    def reserved_as_first(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool | None:
        """Without reclaim, if its queue would exceed its fair share by weight: else all queues would reserve as much."""
        request = sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))
        allocated = self.cluster.ledger.queue_allocated[:, queue.row] + request
        return not self.cluster.queries.reclaims and exceeds(
            allocated, self._own_most[:, queue.row], request, self._pods
        )

    def beyond_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What queues below their fair shares can use."""
        if not self.cluster.queries.reclaims or self._lending.lends(queue.row, task, count):
            return None
        return self.within_share(queue, task, count)

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Between queues, tasks of queues above their fair share, as :meth:`_reclaimable`."""
        if not purpose.is_between_queues:
            return super().allows(preemptor, candidates, purpose)
        return self._reclaimable(preemptor, candidates)

    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """Between queues, as :meth:`allows`; queues keep what they do not lend."""
        if preemptor is None or not purpose.is_between_queues:
            return victims
        victims = self._reclaimable(preemptor, victims)
        if self._reserved is None:
            return victims
        return sparing_guarantees(self.cluster, preemptor, victims, self._reserved, in_tree=True)

    def within_fair_share(self, queue: QueueView, claim: Resources) -> bool:
        """Whether the share of the claim is within the fair share of the queue by weight."""
        return claim.share_of(self._total) <= float(self._own_shares[queue.row])

    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue reclaims only within its fair share by weight."""
        request = sum((task.request for task in tasks), start=queue.allocated)
        return request.share_of(self._total) <= float(self._own_shares[queue.row]) + defaults.EQUAL_DOMINANT_SHARES

    def _reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Return tasks of queues above their fair share that without them still come after the reclaimer's queue with its task.

        Earlier victims count as evicted for later ones. A gang that a victim breaks is a victim as a whole, if that makes the
        shares fairer.
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
        victims = [task for task, evict in zip(candidates, self._known[key], strict=True) if evict]
        return with_whole_gangs(
            candidates, self._above_fair_share(victims), own, self._missing_share, self.cluster.snapshot
        )

    def _above_fair_share(self, victims: Sequence[TaskView]) -> list[TaskView]:
        """Return those of queues above their fair share; each counts as evicted for the next ones."""
        left: dict[int, Resources] = {}
        chosen = []
        for victim, job in with_jobs(victims):
            row = job.queue.row
            allocated = left.get(row, job.queue.allocated)
            if allocated.share_of(self._total) > self._own_shares[row] + defaults.EQUAL_DOMINANT_SHARES:
                chosen.append(victim)
                left[row] = allocated - victim.request
        return chosen

    def _missing_share(self, job: JobView, without: Ints) -> float:
        """Return the fraction of the cluster that the queue of a job lacks of its fair share without some amounts."""
        rest = Resources(self._total.axis, job.queue.allocated.values - without)
        return max(float(self._own_shares[job.queue.row]) - rest.share_of(self._total), 0.0)


def _behind(
    tree: Tree, own: JobView, reclaimer: TaskView, jobs: Sequence[JobView | None], candidates: Sequence[TaskView]
) -> list[bool]:
    changes: list[tuple[int, Ints]] = []

    def add(job: int, amount: Ints) -> None:
        tree.add(np.array([job]), amount[:, None])
        changes.append((job, amount))

    def undo() -> None:
        job, amount = changes.pop()
        tree.add(np.array([job]), -amount[:, None])

    result = []
    rejected: set[tuple[int, int]] = set()
    add(own.row, reclaimer.request.values)
    for job, candidate in zip(jobs, candidates, strict=True):
        evict = False
        if job is not None and (job.row, candidate.shape) not in rejected:
            add(job.row, -candidate.request.values)
            evict = tree.is_before(own.queue.row, job.queue.row)
            if evict:
                rejected.clear()
            else:
                undo()
                rejected.add((job.row, candidate.shape))
        result.append(evict)
    while changes:
        undo()
    return result
