"""capacity: queues have fixed fair shares, borrow idle resources of others and reclaim their own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.shares import queue_demand
from volcanopy.scheduler.engine.shares.admission_votes import AdmissionVotes
from volcanopy.scheduler.engine.shares.credit import Due
from volcanopy.scheduler.engine.shares.device_quota import DeviceQuota
from volcanopy.scheduler.engine.shares.guarantees import sparing_guarantees
from volcanopy.scheduler.engine.shares.inherited_shares import inherited_shares
from volcanopy.scheduler.engine.shares.lending import Lending
from volcanopy.scheduler.engine.shares.queue_quota import QueueQuota, exceeds
from volcanopy.scheduler.engine.shares.whole_gangs import with_whole_gangs
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView, with_jobs
from volcanopy.scheduler.model.messages import closed, not_a_leaf, not_below_root
from volcanopy.scheduler.model.queue_shares import QueueShares, bounds
from volcanopy.scheduler.model.resources import UNLIMITED, Floats, Ints, Mask, Resources, dominant_share
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.plugin import PERMIT, Arguments, Plugin, Rejection, Vote, reject
from volcanopy.scheduler.policy.roles import Purpose, Victims


class CapacityArguments(Arguments):
    """How many levels of ancestors reclaim considers, and whether devices are counted."""

    level: int | None = Field(None, alias="ancestorReclaimLevel", ge=0)
    """How many levels of ancestors of a victim's queue must be above their fair share; all if not given."""
    dynamic_resources: bool = Field(True, alias="capacity.DynamicResourceAllocationEnable")
    """Whether device claims count towards the capability."""
    consumable: bool = Field(False, alias="capacity.DRAConsumableCapacityEnable")
    """Whether what claims request of a capacity of devices counts towards `<capacity>.deviceclass/<class>` too."""


class Capacity(Plugin[CapacityArguments], Victims, roles.Gate):
    """Each queue is allocated at most its capability, has its guarantee reserved, and reclaims up to its fair share.

    With ``enableHierarchy`` queues form a tree: only its leaves take jobs, and the allocation of a leaf also counts for
    its ancestors. A capability may also limit the claimed devices of a class, ``deviceclass/<class>``, and what claims
    request of a capacity of those devices, ``<capacity>.deviceclass/<class>``.
    """

    name: ClassVar[str] = "capacity"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.ENQUEUE})
    arguments: ClassVar[type[Arguments]] = CapacityArguments

    def open(self) -> None:
        """Compute the limits and the fair shares."""
        snapshot = self.cluster.snapshot
        queues = snapshot.queues
        counted = self.args.dynamic_resources
        self._devices = DeviceQuota(self.cluster, parts=self.args.consumable) if counted else None
        self._pods = self.cluster.axis.index["pods"]
        self._bounds = bounds(snapshot.total, queues, by_weight=False, in_tree=self.hierarchy)
        self._reserved: Ints = self._bounds.reserved
        if self.hierarchy:
            fair_share = queues.deserved.values
            self._limit = self._tree_limits(np.where(snapshot.total > 0, snapshot.total, UNLIMITED))
            self._admission_limit: Ints = self._tree_limits(np.full(len(snapshot.total), UNLIMITED))
        else:
            self._limit = self._admission_limit = queue_demand.within_guarantees(snapshot.total, queues, self._bounds)
            bounded = np.where((snapshot.total > 0)[:, None] | queues.capability_set, self._limit, UNLIMITED)
            fair_share = np.minimum(queues.deserved.values, bounded)
        self._fair_share: Ints = np.maximum(fair_share, self._reserved)
        self._has_fair_share: Mask = queues.deserved_set | (self._reserved > 0)
        if self.hierarchy and self.args.level is None:
            self._fair_share, self._has_fair_share = inherited_shares(
                queues, self._fair_share, self._has_fair_share, self._requested(), self._reserved
            )
        self._due = Due(snapshot, self._fair_share)
        self._most: Ints = self._fair_share + self._due.paid_back
        self._lending = Lending(self.cluster, self._most)
        reserved = np.where(queues.rooted, self._reserved, 0) if self.hierarchy else self._reserved
        self._quota = QueueQuota(
            self.cluster, self._bounds, self._limit, reserved if reserved.any() else None, in_tree=self.hierarchy
        )

    def _requested(self) -> Ints:
        """(R, Q): what queues and their descendants request."""
        ledger, queues = self.cluster.ledger, self.cluster.snapshot.queues
        waiting = queue_demand.requested_by_waiting(self.cluster, self._limit)
        return queues.rolled_up(ledger.queue_allocated + ledger.queue_pending + waiting)

    @cached_property
    def _lacking(self) -> Ints:
        """(R, Q): what admitted jobs lack, with those of descendants."""
        lacking = queue_demand.lacking(self.cluster)
        return self.cluster.snapshot.queues.rolled_up(lacking) if self.hierarchy else lacking

    @cached_property
    def _admitted(self) -> Ints:
        """(R, Q): what is reserved for admitted jobs, with those of descendants."""
        reserved = queue_demand.reserved_for_admitted(self.cluster)
        return self.cluster.snapshot.queues.rolled_up(reserved) if self.hierarchy else reserved

    def queue_order(self, queue: QueueView) -> tuple[int, bool, tuple[tuple[float, ...], ...]]:
        """Higher priority first, leaves before parents, then the smaller ratio of allocated to fair share from the root down.

        A priority seen from outside goes before the ratio at each level. A queue without a fair share comes after one
        with an equal ratio.
        """
        return self._key(queue, self._allocated(), -self._due.order)

    def admission_order(self, queue: QueueView) -> tuple[int, bool, tuple[tuple[float, ...], ...]]:
        """As :meth:`queue_order`, with what admitted jobs still lack of their minimum counted as allocated."""
        return self._key(queue, self._allocated(), -self._due.order, self._lacking, self._inqueue())

    def _key(self, queue: QueueView, *amounts: Ints | Floats) -> tuple[int, bool, tuple[tuple[float, ...], ...]]:
        """Return the sort key of a queue by the sum of these (R, Q) amounts."""
        line = [row for row in reversed(self._line(queue)) if self.cluster.snapshot.queues.names[row] != "root"]
        seen = self.cluster.precedence
        ranks = [(row, self._rank(row, np.sum([table[:, row] for table in amounts], axis=0))) for row in line]
        path = tuple((-seen.of(row), *rank) if seen.matters else rank for row, rank in ranks)
        return (-queue.priority, self.hierarchy and queue.is_parent, path)

    def victim_queue_order(self, queue: QueueView, reclaimer: QueueView) -> int:
        """In a tree, the nearest relatives first."""
        if not self.hierarchy:
            return 0
        shared = set(self._line(queue)[1:]) & set(self._line(reclaimer)[1:])
        return -len(shared)

    def queue_shares(self) -> QueueShares:
        """The fair shares, at least those of the children together, and the limits."""
        shares = QueueShares(self.cluster.snapshot.queues.covering(self._fair_share), self._limit, self._reserved)
        return replace(shares, devices=self._devices.allocated()) if self._devices else shares

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The limits of the queue and its ancestors, the guarantees of others, and the limits on devices."""
        rejection = self._tree_rejection(queue)
        if rejection is not None and not self._runs(task):
            return rejection
        request = task.request.values * count
        allocated = self._allocated()
        for row in self._line(queue):
            if self._quota.exceeds_limit(row, allocated[:, row], request):
                return self._capability_rejection(row, request, self._limit[:, row], count)
        excess = self._quota.excess(queue.row, request)
        if excess is not None:
            limit = allocated[:, queue.row] + request - excess
            return self._capability_rejection(queue.row, request, limit, count)
        return self._device_rejection(queue, task, count)

    def within_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The fair shares of the queue and its ancestors, as far as they have any, and what they are paid back."""
        request, allocated = task.request.values * count, self._allocated()
        for row in self._line(queue):
            named = self._has_fair_share[:, row]
            if not named.any() and row != queue.row:
                continue
            other = UNLIMITED if named.any() else 0
            if exceeds(allocated[:, row] + request, np.where(named, self._most[:, row], other), request, self._pods):
                fair_share = np.where(named, self._fair_share[:, row], other)
                message = self._quota.message(
                    "share", row, allocated[:, row], request.tolist(), fair_share, parts=count
                )
                return Rejection(Gate.SHARE, message)
        return None

    def beyond_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What queues below their fair shares can use."""
        if self._lending.lends(queue.row, task, count):
            return None
        return self.within_share(queue, task, count)

    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue reclaims while it stays within its fair share of a requested resource.

        With ``ancestorReclaimLevel`` it is enough that an ancestor within that many levels does.
        """
        request = sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))
        if self._queue_rejection(queue) is not None:
            return False
        if self._quota.exceeds_limit(queue.row, self._allocated()[:, queue.row], request):
            return False
        return self._within_fair_share(queue, request)

    def within_fair_share(self, queue: QueueView, claim: Resources) -> bool:
        """As :meth:`preemptive` for what the queue lacks of the claim, whatever its limit."""
        if self._queue_rejection(queue) is not None:
            return False
        return self._within_fair_share(queue, claim.values - self.cluster.ledger.queue_allocated[:, queue.row])

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Between queues, tasks of queues above their fair share of what the task requests; guarantees are preserved.

        Bundles for a gang may have other resources than the task.
        """
        if not purpose.is_between_queues:
            return None
        own = preemptor.job
        if own is None or self._queue_rejection(own.queue) is not None:
            return []
        request = preemptor.request.values
        is_alone = not purpose.is_for_gang
        has_no_share = is_alone and not self._deserves(own.queue.row, request)

        def matches(candidate: TaskView) -> bool:
            return not is_alone or self._share_a_resource(request, candidate.request.values)

        def has_relative(queue: QueueView) -> bool:
            return has_no_share and self._are_relatives(own.queue, queue)

        victims = self._above_fair_share(own.queue, candidates, matches, has_relative)
        return with_whole_gangs(
            candidates, victims, own, partial(self._missing_share, own.queue), self.cluster.snapshot
        )

    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """Between queues, as :meth:`allows`; queues, and in a tree their ancestors, keep their guarantees."""
        if preemptor is None or not purpose.is_between_queues:
            return victims
        victims = self.allows(preemptor, victims, purpose) or []
        return sparing_guarantees(self.cluster, preemptor, victims, self._reserved, in_tree=self.hierarchy)

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Whether the limits of the queue and its ancestors cover the job's minimum beside allocated and reserved amounts."""
        return self._votes.of(job)

    @cached_property
    def _votes(self) -> AdmissionVotes:
        return AdmissionVotes(self.cluster, self._vote)

    def _vote(self, queue: QueueView, request: Ints | None) -> Vote:
        """Return the vote on the jobs of a queue with this (R,) minimum."""
        rejection = self._queue_rejection(queue)
        if rejection is not None:
            return reject(rejection.gate, rejection.reason)
        if request is None:
            return PERMIT
        allocated, inqueue = self._allocated(), self._inqueue()
        for row in self._line(queue):
            reserved = self._admitted[:, row] + inqueue[:, row]
            now, limit = allocated[:, row], self._admission_limit[:, row]
            if exceeds(request + now + reserved, limit, request, self._pods):
                shown = np.maximum(reserved, 0).tolist()  # negative where elastic jobs have more than their minimum
                message = self._quota.message("capability", row, now, request.tolist(), limit, shown)
                fits = not exceeds(request, limit, request, self._pods)
                return reject(Gate.CAPABILITY, message, yields=fits)
        return PERMIT

    # The tree

    def _tree_limits(self, whole: Ints) -> Ints:
        """(R, Q): the limit of each queue in an (R,) whole of which the guarantees of its siblings are reserved.

        For allocations the whole is the cluster; admission has no such limit, since a cluster may be scaled up.
        """
        queues = self.cluster.snapshot.queues
        limit = self._bounds.limit.copy()
        capability = limit.copy()
        root = queues.index.get("root")
        if root is not None:
            limit[:, root] = np.minimum(limit[:, root], whole)
        order = sorted(range(len(queues)), key=lambda row: len(queues.lines[row]))
        reserved = np.zeros_like(limit)
        below = np.flatnonzero(queues.parent != NONE)
        np.add.at(reserved.T, queues.parent[below], self._reserved.T[below])
        for row in order:
            above = int(queues.parent[row])
            if above == NONE or not queues.rooted[row]:
                continue
            capability[:, row] = np.where(capability[:, row] == UNLIMITED, capability[:, above], capability[:, row])
            available = np.maximum(limit[:, above] - reserved[:, above], 0) + self._reserved[:, row]
            limit[:, row] = np.minimum(available, capability[:, row])
        return limit

    def _line(self, queue: QueueView) -> list[int]:
        """Return the queues for which the tasks of this one count: itself and, in a tree, its ancestors."""
        return queue.line.tolist() if self.hierarchy else [queue.row]

    def _ancestors(self, queue: QueueView) -> list[int]:
        """Return the ancestors within ``ancestorReclaimLevel``, the parent first, without the root."""
        line = self._line(queue)[1 : 1 + (self.args.level or 0)]
        return [row for row in line if self._name(row) != "root"]

    def _allocated(self) -> Ints:
        ledger = self.cluster.ledger
        allocated: Ints = ledger.tree_allocated if self.hierarchy else ledger.queue_allocated
        return allocated

    def _inqueue(self) -> Ints:
        ledger = self.cluster.ledger
        inqueue: Ints = ledger.tree_inqueue if self.hierarchy else ledger.queue_inqueue
        return inqueue

    def _is_rooted(self, row: int) -> bool:
        return not self.hierarchy or bool(self.cluster.snapshot.queues.rooted[row])

    def _name(self, row: int) -> str:
        return self.cluster.snapshot.queues.names[row]

    # Rejections

    def _queue_rejection(self, queue: QueueView) -> Rejection | None:
        """Return the rejection of a queue that takes no jobs at all."""
        return self._tree_rejection(queue) if queue.is_open else Rejection(Gate.QUEUE, closed(queue.name))

    def _runs(self, task: TaskView) -> bool:
        """Return whether pods of the task's job have nodes: it goes on when its queue becomes a parent."""
        row = self.cluster.snapshot.tasks.job[task.row]
        return row != NONE and bool(self.cluster.snapshot.jobs.counts[HOLDING, row].any())

    def _tree_rejection(self, queue: QueueView) -> Rejection | None:
        """Return the rejection of a queue by its position in the tree."""
        if not self._is_rooted(queue.row):
            return Rejection(Gate.QUEUE, not_below_root(queue.name))
        if self.hierarchy and queue.is_parent:
            return Rejection(Gate.QUEUE, not_a_leaf(queue.name))
        return None

    def _capability_rejection(self, row: int, request: Ints, limit: Ints, count: int) -> Rejection:
        allocated = self._allocated()[:, row]
        message = self._quota.message("capability", row, allocated, request.tolist(), limit, parts=count)
        return Rejection(Gate.CAPABILITY, message)

    def _device_rejection(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Return the rejection of the devices that ``count`` tasks equal to this one claim."""
        exceeded = self._devices.exceeded(self._line(queue), task, count) if self._devices else None
        if exceeded is None:
            return None
        return Rejection(Gate.CAPABILITY, f'queue "{self._name(exceeded.queue)}" capability exceeded: {exceeded}')

    # Fair shares

    def _rank(self, row: int, allocated: Floats) -> tuple[float, bool]:
        named = self._fair_share[:, row] > 0
        if not named.any():
            return (1.0, True)
        return (dominant_share(allocated[named], self._fair_share[named, row]), False)

    def _within_fair_share(self, queue: QueueView, request: Ints) -> bool:
        """Return whether the queue or a considered ancestor stays within its fair share of a requested resource."""
        allocated, requested = self._allocated(), request > 0
        requested[self._pods] = False
        return any(
            bool((requested & (allocated[:, row] + request <= self._fair_share[:, row])).any())
            for row in (queue.row, *self._ancestors(queue))
        )

    def _share_a_resource(self, amounts: Ints, others: Ints) -> bool:
        both = (amounts > 0) & (others > 0)
        both[self._pods] = False
        return bool(both.any())

    def _deserves(self, row: int, request: Ints) -> bool:
        """Return whether the queue has a fair share of any requested resource."""
        return self._share_a_resource(self._fair_share[:, row], request)

    def _above_fair_share(
        self,
        own: QueueView,
        candidates: Sequence[TaskView],
        matches: Callable[[TaskView], bool],
        is_relative: Callable[[QueueView], bool],
    ) -> list[TaskView]:
        """Return the matching candidates of queues above their fair share; each counts as evicted for the next ones.

        ``is_relative`` queues are victims only of resources of which they have a fair share.
        """
        table = self._allocated()
        left: dict[int, Ints] = {}
        victims = []
        for candidate, job in with_jobs(candidates):
            row, request = job.queue.row, candidate.request.values
            if not self._is_rooted(row) or not matches(candidate):
                continue
            losers = [row, *self._ancestors_to_check(own, job.queue)]
            now = {loser: left[loser] if loser in left else table[:, loser] for loser in losers}
            if ((request > 0) & (self._reserved[:, row] > now[row] - request)).any():
                continue
            relative = is_relative(job.queue)
            if all(self._is_above(loser, now[loser], request, relative and loser == row) for loser in losers):
                left |= {loser: now[loser] - request for loser in losers}
                victims.append(candidate)
        return victims

    def _missing_share(self, reclaimer: QueueView, job: JobView, without: Ints) -> float:
        """Return the largest fraction of the cluster that a queue, or one above it, lacks of its share without some amounts."""
        allocated, total = self._allocated(), self.cluster.total.values
        share = 0.0
        for row in (job.queue.row, *self._ancestors_to_check(reclaimer, job.queue)):
            fair_share = self._fair_share[:, row]
            missing = np.where(fair_share > 0, np.maximum(fair_share - allocated[:, row] + without, 0), 0)
            share = max(share, dominant_share(missing, total))
        return share

    def _is_above(self, row: int, allocated: Ints, request: Ints, relative: bool) -> bool:
        """Return whether a queue has no fair share of what is requested, or is above it and what its credit protects."""
        if not self._deserves(row, request):
            return not relative
        has_fair_share = np.where(
            np.arange(len(request)) < 2, self._fair_share[:, row] > 0, self._has_fair_share[:, row]
        )
        kept = self._fair_share[:, row] + self._due.protected[:, row]
        return bool(((request > 0) & has_fair_share & (allocated > kept)).any())

    def _are_relatives(self, own: QueueView, other: QueueView) -> bool:
        """Return whether both have a common ancestor within ``ancestorReclaimLevel``."""
        return bool(self.args.level and set(self._ancestors(own)) & set(self._ancestors(other)))

    def _ancestors_to_check(self, own: QueueView, other: QueueView) -> list[int]:
        """Return the ancestors of the victim's queue that must be above their share too: those below the nearest common one.

        With ``ancestorReclaimLevel`` they are the ancestors within these levels that differ from the reclaimer's.
        """
        if not self.hierarchy:
            return []
        if self.args.level is not None:
            return [row for row in self._ancestors(other) if row not in own.line.tolist()]
        shared = {*own.line.tolist(), *(row for row in other.line.tolist() if self._name(row) == "root")}
        return [row for row in other.line.tolist()[1:] if row not in shared]
