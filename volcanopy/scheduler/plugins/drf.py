"""drf: dominant resource fairness between jobs, and with ``enableHierarchy`` between queues in a tree."""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Self, cast

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.fairshare import queue_demand
from volcanopy.scheduler.fairshare.borrowing import Bounds, Commitments, bounds
from volcanopy.scheduler.fairshare.guarantees import sparing_guarantees
from volcanopy.scheduler.fairshare.hierarchical_drf import Tree, path
from volcanopy.scheduler.fairshare.weighted_shares import Levels
from volcanopy.scheduler.framework.plugin import GangPreemptor, NoArguments, Plugin, Rejection
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.quota_message import QuotaMessage
from volcanopy.scheduler.model.resources import Floats, Ints, Resources, Rows
from volcanopy.scheduler.model.snapshot import NONE

_EQUAL = 1e-6
"""Shares nearer than this count as equal when victims are chosen (Volcano's figure)."""


class Drf(Plugin[NoArguments]):
    """The job that holds the smallest dominant share of the cluster comes first."""

    name: ClassVar[str] = "drf"

    def __new__(cls, args: NoArguments, cluster: Cluster, hierarchy: bool = False) -> Self:  # noqa: ARG004
        """With the switch ``enableHierarchy`` it is a :class:`HierarchicalDrf`, which answers more hooks."""
        return cast("Self", object.__new__(HierarchicalDrf if hierarchy else cls))

    def open(self) -> None:
        """Note what shares are of."""
        self._total = self.cluster.total

    def job_order(self, jobs: Rows) -> Floats:
        """Smaller share first."""
        allocated = self.cluster.ledger.job_allocated[:, jobs]
        share = np.zeros(len(jobs), dtype=np.float64)
        for part, whole in zip(allocated, self._total.values.tolist(), strict=True):
            np.maximum(share, part / whole if whole > 0 else (part > 0).astype(np.float64), out=share)
        return share

    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Tasks of jobs whose share, without the task, is still no smaller than the preemptor's with its own."""
        own = preemptor.job
        if own is None:
            return []
        share = (own.allocated + preemptor.request).share_of(self._total)
        left: dict[int, Resources] = {}
        victims = []
        for candidate in candidates:
            job = candidate.job
            if job is None:
                continue
            rest = left.get(job.row, job.allocated) - candidate.request
            left[job.row] = rest
            other = rest.share_of(self._total)
            if share < other or abs(share - other) <= _EQUAL:
                victims.append(candidate)
        return victims


class HierarchicalDrf(Drf):
    """Queues form a tree: at each level the part that holds the smallest share for its weight comes first (HDRF).

    A queue's place in the tree is its annotation ``volcanopy.io/hierarchy``, with ``volcanopy.io/hierarchy-weights``;
    without them it is that of its ``spec.parent``, with the weights of the queues. Borrowing and lending limits are kept,
    relative to what queues deserve by their ``spec``.
    """

    def open(self) -> None:
        """Nothing is reckoned before it is asked, but for what queues borrow and lend."""
        super().open()
        self._known: dict[object, list[bool]] = {}
        self._seen = -1
        queues, total = self.cluster.snapshot.queues, self.cluster.snapshot.total
        self._bounds: Bounds | None = None
        if queues.terms.lending is not None:
            self._bounds = bounds(total, queues, by_weight=True, in_tree=True, alone=True)
            self._limit = Levels(queues).limits(total, self._bounds.kept, self._bounds.ceiling)
            self._spoken_for = Commitments(queues, self._bounds.kept, self._limit, total, in_tree=True)

    @cached_property
    def _tree(self) -> Tree:
        snapshot, ledger = self.cluster.snapshot, self.cluster.ledger
        jobs, queues = snapshot.jobs, snapshot.queues
        rows = self.cluster.job_rows()
        queue_of = np.full(len(jobs), NONE, dtype=np.intp)
        queue_of[rows] = jobs.queue[rows]
        within = jobs.allocated.values[:, rows].sum(axis=1)
        taken = (snapshot.nodes.used.values - snapshot.nodes.releasing.values).sum(axis=1)
        return Tree(
            [path(queues, row) for row in range(len(queues))],
            queue_of,
            jobs.allocated.values + jobs.pending.values - snapshot.gated,
            ledger.job_allocated,
            snapshot.total,
            np.maximum(taken - within, 0),
        )

    def _now(self) -> Tree:
        changes = self.cluster.ledger.changes
        if changes != self._seen:
            self._seen = changes
            if self._tree.update(self.cluster.ledger.job_allocated):
                self._known.clear()
        return self._tree

    def queue_order(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """From the root down: what can still grow before what is saturated, then the smaller share by weight.

        Where jobs are seen from outside with a priority, that goes first at each level of the tree of parents.
        """
        standing = self._now().share_path(queue.row)
        if not self.cluster.precedence.matters:
            return standing
        names = self.cluster.snapshot.queues.names
        line = [row for row in queue.line.tolist()[::-1] if names[row] != "root"]
        seen = [self.cluster.precedence.of(row) for row in line] if len(line) <= len(standing) else []
        seen += [0] * (len(standing) - len(seen))
        return tuple((-priority, *place) for priority, place in zip(seen, standing, strict=True))

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What a queue, and each queue above it, holds stays within what it may borrow, and what others do not lend."""
        if self._bounds is None:
            return None
        asked = task.request.values * count
        ledger, pods = self.cluster.ledger, self.cluster.axis.index["pods"]
        for row in queue.line.tolist():
            if (
                queue_demand.first_short(ledger.tree_allocated[:, row] + asked, self._limit[:, row], asked, pods)
                is not None
            ):
                return self._denied(row, asked, self._limit[:, row], count)
        over = self._spoken_for.excess(queue.row, ledger.queue_allocated, asked, ledger.moves)
        if over is None:
            return None
        return self._denied(queue.row, asked, ledger.tree_allocated[:, queue.row] + asked - over, count)

    def _denied(self, row: int, asked: Ints, limit: Ints, count: int) -> Rejection:
        snapshot = self.cluster.snapshot
        wanted, held, most = (
            tuple(amounts.tolist()) for amounts in (asked, self.cluster.ledger.tree_allocated[:, row], limit)
        )
        names, total = self.cluster.axis.names, tuple(snapshot.total.tolist())
        short = QuotaMessage(
            "capability", snapshot.queues.names[row], names, wanted, held, most, parts=count, cluster=total
        )
        borrowed = None if self._bounds is None else self._bounds.borrowed(snapshot.queues, row)
        return Rejection(Gate.CAPABILITY, short.of_borrower(borrowed))

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """As many as leave each queue what it does not lend."""
        if self._bounds is None:
            return victims
        return sparing_guarantees(self.cluster, reclaimer, victims, self._bounds.kept, in_tree=True)

    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Between queues, as :meth:`reclaimable_at_all`."""
        return self.reclaimable_at_all(preemptor.task, victims) if preemptor.across_queues else victims

    def within_deserved(self, queue: QueueView, claim: Resources) -> bool:
        """The weights of the queue, among all that ask for something, give it as large a share of the cluster."""
        return claim.share_of(self._total) <= self._tree.fair_share(queue.row)

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Tasks of queues that would, without the task, still stand worse than the reclaimer's with its own.

        Who goes first counts as gone for those after.
        """
        own = reclaimer.job
        if own is None:
            return []
        tree = self._now()
        jobs = [candidate.job for candidate in candidates]
        asked = tuple((-1 if job is None else job.row, task.shape) for job, task in zip(jobs, candidates, strict=True))
        key = (own.row, reclaimer.shape, asked)
        if key not in self._known:
            self._known[key] = _goes(tree, own, reclaimer, jobs, candidates)
        return [candidate for candidate, goes in zip(candidates, self._known[key], strict=True) if goes]

    def unified_evictable(self, preemptor: GangPreemptor, candidates: Sequence[TaskView]) -> Sequence[TaskView] | None:
        """Between queues, as :meth:`reclaimable`."""
        return self.reclaimable(preemptor.task, candidates) if preemptor.across_queues else None


def _goes(
    tree: Tree, own: JobView, reclaimer: TaskView, jobs: Sequence[JobView | None], candidates: Sequence[TaskView]
) -> list[bool]:
    done: list[tuple[int, Ints]] = []

    def move(job: int, amount: Ints) -> None:
        tree.add(np.array([job]), amount[:, None])
        done.append((job, amount))

    def back() -> None:
        job, amount = done.pop()
        tree.add(np.array([job]), -amount[:, None])

    verdicts = []
    refused: set[tuple[int, int]] = set()
    move(own.row, reclaimer.request.values)
    for job, candidate in zip(jobs, candidates, strict=True):
        goes = False
        if job is not None and (job.row, candidate.shape) not in refused:
            move(job.row, -candidate.request.values)
            goes = tree.is_before(own.queue.row, job.queue.row)
            if goes:
                refused.clear()
            else:
                back()
                refused.add((job.row, candidate.shape))
        verdicts.append(goes)
    while done:
        back()
    return verdicts
