"""proportion: queues share the cluster by weight."""

import operator
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.shares import queue_demand
from volcanopy.scheduler.engine.shares.admission_votes import AdmissionVotes
from volcanopy.scheduler.engine.shares.credit import Due
from volcanopy.scheduler.engine.shares.guarantees import sparing_guarantees
from volcanopy.scheduler.engine.shares.lending import Lending
from volcanopy.scheduler.engine.shares.queue_quota import QueueQuota, exceeds
from volcanopy.scheduler.engine.shares.whole_gangs import with_whole_gangs
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView, with_jobs
from volcanopy.scheduler.model.messages import closed
from volcanopy.scheduler.model.queue_shares import Levels, QueueShares, bounds, fair_shares_by_weight
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Resources, dominant_share
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.plugin import PERMIT, NoArguments, Plugin, Rejection, Vote, reject
from volcanopy.scheduler.policy.roles import Purpose, Victims


class Proportion(Plugin[NoArguments], Victims, roles.Gate):
    """The fair share of a queue is by weight: at most its capability and its request, at least its guarantee.

    Child queues divide the fair share of their parent, level by level.
    """

    name: ClassVar[str] = "proportion"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.ENQUEUE})

    def open(self) -> None:
        """Compute the fair shares."""
        snapshot = self.cluster.snapshot
        queues, jobs, ledger = snapshot.queues, snapshot.jobs, self.cluster.ledger
        self._levels = Levels(queues) if queues.nested else None
        limits = bounds(snapshot.total, queues, by_weight=True, in_tree=queues.nested)
        self._reserved = limits.reserved
        if self._levels is None:
            self._limit = queue_demand.within_guarantees(snapshot.total, queues, limits)
        else:
            self._limit = self._levels.limits(snapshot.total, limits.reserved, limits.limit)
        reserved = limits.reserved if limits.reserved.any() else None
        self._quota = QueueQuota(self.cluster, limits, self._limit, reserved, in_tree=queues.nested)
        self._parents = np.zeros(len(queues), dtype=np.bool_) if self._levels is None else self._levels.parents
        self._pods = self.cluster.axis.index["pods"]
        self._allocated: Ints = ledger.queue_allocated  # a view: it changes with the session
        self._tree_allocated: Ints = ledger.tree_allocated
        self._active: Mask = (jobs.queue_jobs > 0) & queues.exists[:-1]
        waiting = queue_demand.requested_by_waiting(self.cluster, self._limit)
        self._requested: Ints = ledger.queue_allocated + ledger.queue_pending + waiting
        self.fair_share, self._own = self._fill(self._requested)
        self._lines: dict[int, list[int]] = {}
        self._asked: tuple[int, int, list[int]] | None = None
        """What :meth:`_reclaimable` was asked last: the reclaimer, the changes until then, and the candidates."""
        self._answer: list[TaskView] = []

    @cached_property
    def _due(self) -> Due:
        return Due(self.cluster.snapshot, self.fair_share)

    @cached_property
    def _shares(self) -> list[list[int]]:
        return self._own.T.tolist()  # type: ignore[no-any-return]

    @cached_property
    def _lacking(self) -> Ints:
        """(R, Q): what admitted jobs lack, with those of descendants."""
        lacking = queue_demand.lacking(self.cluster)
        return lacking if self._levels is None else self._levels.rolled_up(lacking)

    @cached_property
    def _admitted(self) -> Ints:
        """(R, Q): what is reserved for admitted jobs, with those of descendants."""
        reserved = queue_demand.reserved_for_admitted(self.cluster)
        return reserved if self._levels is None else self._levels.rolled_up(reserved)

    @cached_property
    def _own_most(self) -> Ints:
        """(R, Q): the fair shares of the own jobs of queues, with what they are paid back."""
        return np.where(self._parents, self._own, self._own + self._due.paid_back)

    @cached_property
    def _tree_most(self) -> Ints:
        """(R, Q): the fair shares of queues with their descendants, with what they are paid back."""
        return self.fair_share + self._due.paid_back

    @cached_property
    def _most(self) -> list[list[int]]:
        return self._own_most.T.tolist()  # type: ignore[no-any-return]

    @cached_property
    def _lending(self) -> Lending:
        return Lending(self.cluster, self._own_most)

    def queue_order(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """Higher priority first, then the smaller ratio of allocated to fair share; in a tree compared from the root down.

        A priority seen from outside goes between the two.
        """
        return tuple(self._rank(row) for row in reversed(self._line(queue)))

    def admission_order(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """As :meth:`queue_order`, with what admitted jobs still lack of their minimum counted as allocated."""
        ledger = self.cluster.ledger
        inqueue = ledger.queue_inqueue if self._levels is None else ledger.tree_inqueue
        return tuple(self._rank(row, self._lacking[:, row] + inqueue[:, row]) for row in reversed(self._line(queue)))

    def victim_queue_order(self, queue: QueueView, reclaimer: QueueView) -> int:
        """In a tree, the nearest relatives first."""
        if self._levels is None:
            return 0
        return -len(set(self._line(queue)[1:]) & set(self._line(reclaimer)[1:]))

    def overused(self, queue: QueueView) -> Rejection | None:
        """Queues with their whole fair share allocated."""
        allocated: Ints = self._allocated[:, queue.row]
        if any(map(operator.gt, self._most[queue.row], allocated.tolist())):
            return None
        message = self._quota.message("share", queue.row, allocated, (), self._own[:, queue.row])
        return Rejection(Gate.SHARE, message)

    def queue_shares(self) -> QueueShares:
        """The fair shares, and the limits by capability and the guarantees of others."""
        queues = self.cluster.snapshot.queues
        fair_share = self.fair_share if self._levels is not None else queues.rolled_up(self.fair_share)
        return QueueShares(fair_share, self._limit, self._reserved)

    def within_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The fair shares of the queue and its ancestors."""
        request = task.request.values
        request = request * count if count > 1 else request
        rejection = self._share_rejection(queue, request, count)
        allocated = self._allocated[:, queue.row]
        if rejection is not None and exceeds(allocated + request, self._own_most[:, queue.row], request, self._pods):
            return rejection
        if self._levels is None:
            return None
        line = [row for row in self._line(queue) if self._parents[row]]
        above = ((row, self._tree_allocated[:, row], self._tree_most[:, row]) for row in line)
        exceeded = next((part for part in above if exceeds(part[1] + request, part[2], request, self._pods)), None)
        if exceeded is None:
            return None
        row, allocated, _ = exceeded
        fair_share = self.fair_share[:, row]
        return Rejection(
            Gate.SHARE, self._quota.message("share", row, allocated, request.tolist(), fair_share, (), count)
        )

    def beyond_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What queues below their fair shares can use."""
        if self._lending.lends(queue.row, task, count):
            return None
        return self.within_share(queue, task, count)

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The limits of the queue and its ancestors, and the guarantees of others."""
        request = task.request.values
        request = request * count if count > 1 else request
        for row in self._line(queue):
            allocated, limit = self._of(row, own=self._levels is None)[0], self._limit[:, row]
            if self._quota.exceeds_limit(row, allocated, request):
                message = self._quota.message("capability", row, allocated, request.tolist(), limit, parts=count)
                return Rejection(Gate.CAPABILITY, message)
        excess = self._quota.excess(queue.row, request)
        if excess is None:
            return None
        allocated = self._allocated[:, queue.row]
        limit = allocated + request - excess
        message = self._quota.message("capability", queue.row, allocated, request.tolist(), limit, parts=count)
        return Rejection(Gate.CAPABILITY, message)

    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue reclaims only within its fair share."""
        request = sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))
        return queue.is_open and self._share_rejection(queue, request, 1) is None

    def within_fair_share(self, queue: QueueView, claim: Resources) -> bool:
        """Whether the fair share of the queue covers the claim."""
        return queue.is_open and not exceeds(claim.values, self._own[:, queue.row], claim.values, self._pods)

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Between queues, tasks of queues above their fair share, as :meth:`_reclaimable`."""
        return self._reclaimable(preemptor, candidates) if purpose.is_between_queues else None

    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """Between queues, as :meth:`allows`; queues keep their guarantees."""
        if preemptor is None or not purpose.is_between_queues:
            return victims
        victims = self._reclaimable(preemptor, victims)
        return sparing_guarantees(self.cluster, preemptor, victims, self._reserved, self._levels is not None)

    def _reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Return the tasks of queues that are above their fair share and what their credit protects, down to that.

        In a tree so must be all ancestors that are not also ancestors of the reclaimer's queue. A gang that a victim
        breaks is a victim as a whole, if that makes the shares fairer.
        """
        key = (reclaimer.row, self.cluster.ledger.changes, [candidate.row for candidate in candidates])
        if key == self._asked:  # each tier of plugins asks
            return self._answer
        # There are few resources: lists are faster than arrays.
        left: dict[tuple[int, bool], list[int]] = {}
        kept: dict[tuple[int, bool], list[int]] = {}
        losing: dict[int, list[tuple[int, bool]]] = {}
        victims = []
        own = reclaimer.job
        shared = set[int]() if own is None else set(self._line(own.queue))

        def losers(queue: QueueView) -> list[tuple[int, bool]]:
            if queue.row not in losing:
                above = ((row, False) for row in self._line(queue)[1:] if row not in shared)
                losing[queue.row] = [(queue.row, True), *above]
            return losing[queue.row]

        for candidate, job in with_jobs(candidates):
            rows = losers(job.queue)
            for loser in rows:
                if loser not in left:
                    left[loser], kept[loser] = self._of(*loser)[0].tolist(), self._kept(*loser).tolist()
            if all(any(map(operator.gt, left[loser], kept[loser])) for loser in rows):
                victims.append(candidate)
                request = candidate.request.values.tolist()
                for loser in rows:
                    left[loser] = list(map(operator.sub, left[loser], request))

        def lacking(job: JobView, amounts: Ints) -> float:
            return max(self._missing_share(*self._of(*loser), amounts) for loser in losers(job.queue))

        self._asked, self._answer = key, with_whole_gangs(candidates, victims, own, lacking, self.cluster.snapshot)
        return self._answer

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Whether the limits of the queue and its ancestors cover the job's minimum beside allocated and reserved amounts."""
        return self._votes.of(job)

    @cached_property
    def _votes(self) -> AdmissionVotes:
        return AdmissionVotes(self.cluster, self._vote)

    def _vote(self, queue: QueueView, request: Ints | None) -> Vote:
        """Return the vote on the jobs of a queue with this (R,) minimum."""
        if not queue.is_open:
            return reject(Gate.QUEUE, closed(queue.name))
        if request is None:
            return PERMIT
        ledger = self.cluster.ledger
        inqueue = ledger.queue_inqueue if self._levels is None else ledger.tree_inqueue
        for row in self._line(queue):
            allocated = self._of(row, self._levels is None)[0]
            reserved = self._admitted[:, row] + inqueue[:, row]
            if self._quota.exceeds_limit(row, allocated + reserved, request):
                limit = self._limit[:, row]
                shown = np.maximum(reserved, 0).tolist()  # negative where elastic jobs have more than their minimum
                message = self._quota.message("capability", row, allocated, request.tolist(), limit, shown)
                fits = not self._quota.exceeds_limit(row, np.zeros_like(allocated), request)
                return reject(Gate.CAPABILITY, message, yields=fits)
        return PERMIT

    def _missing_share(self, allocated: Ints, fair_share: Ints, without: Ints) -> float:
        """Return the largest fraction of the cluster that is missing from a fair share without some amounts."""
        missing = np.maximum(fair_share - allocated + without, 0)
        missing[self._pods] = 0
        return dominant_share(missing, self.cluster.total.values)

    # The tree

    def _line(self, queue: QueueView) -> list[int]:
        """Return the queue and its ancestors without the root; without a tree only the queue."""
        if queue.row not in self._lines:
            self._lines[queue.row] = self._line_of(queue)
        return self._lines[queue.row]

    def _line_of(self, queue: QueueView) -> list[int]:
        if self._levels is None:
            return [queue.row]
        queues = self.cluster.snapshot.queues
        line, row = [queue.row], int(queues.above[queue.row])
        while row != NONE and queues.names[row] != "root":
            line.append(row)
            row = int(queues.above[row])
        return line

    def _of(self, row: int, own: bool) -> tuple[Ints, Ints]:
        """Return the allocated amounts and the fair share of a queue: of its ``own`` jobs, or with its descendants."""
        if own or not self._parents[row]:
            return self._allocated[:, row], self._own[:, row]
        return self._tree_allocated[:, row], self.fair_share[:, row]

    def _kept(self, row: int, own: bool) -> Ints:
        """Return what a queue keeps although others reclaim: its fair share, and what its credit protects."""
        fair_share = self._of(row, own)[1]
        return fair_share if own and self._parents[row] else fair_share + self._due.protected[:, row]

    def _rank(self, row: int, lacking: Ints | int = 0) -> tuple[float, ...]:
        """Return the sort key of a queue among its siblings; ``lacking`` counts as allocated."""
        allocated, fair_share = self._of(row, own=False)
        corrected: Floats = allocated + lacking - self._due.order[:, row]
        share = dominant_share(np.where(fair_share > 0, corrected, 0.0), fair_share)
        priority, seen = -int(self.cluster.snapshot.queues.priority[row]), self.cluster.precedence
        return (priority, -seen.of(row), share) if seen.matters else (priority, share)

    def _fill(self, requested: Ints) -> tuple[Ints, Ints]:
        """Return the fair share of each queue with its descendants, and that of its own jobs: both (R, Q)."""
        snapshot = self.cluster.snapshot
        reserved, limit, active = self._reserved, self._limit, self._active
        if self._levels is not None:
            return self._levels.fill(snapshot.total, requested, reserved, limit, active)
        queues = snapshot.queues
        shares = fair_shares_by_weight(snapshot.total, queues.weight, requested, reserved, limit, active, queues.names)
        return shares, shares

    def _share_rejection(self, queue: QueueView, request: Ints, count: int) -> Rejection | None:
        """Return the rejection by the fair share of the queue's own jobs."""
        allocated, fair_share = self._allocated[:, queue.row], self._own[:, queue.row]
        if not any(map(operator.gt, (allocated + request).tolist(), self._shares[queue.row])):
            return None
        if not exceeds(allocated + request, fair_share, request, self._pods):
            return None
        message = self._quota.message("share", queue.row, allocated, request.tolist(), fair_share, parts=count)
        return Rejection(Gate.SHARE, message)
