"""What follows from the shares of queues, once for all policies that divide the cluster among queues.

1. A queue may not exceed its limit, those of its ancestors, nor what is not reserved for others (``limit_rejection``).
2. Queues are first allocated what their fair shares cover (``within_share``), then what others do not claim (``beyond_share``).
3. A queue reclaims while it stays within its fair share (``may_reclaim``), from queues above theirs (``allows``).
4. A job is admitted while the limits cover its minimum beside what is allocated and reserved (``verdict``).
"""

import operator
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares import queue_demand
from volcanopy.scheduler.engine.shares.admission_votes import AdmissionVotes
from volcanopy.scheduler.engine.shares.device_quota import DeviceQuota
from volcanopy.scheduler.engine.shares.lending import Lending
from volcanopy.scheduler.engine.shares.queue_quota import Bound, Limiter, QueueQuota, exceeds, first_exceeded
from volcanopy.scheduler.engine.shares.reclaim import Reclaim, sparing_guarantees
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import closed, not_a_leaf, not_below_root
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.queue_shares import Bounds, QueueShares, Shares
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Resources, dominant_share
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.definition import PluginError
from volcanopy.scheduler.policy.plugin import ABSTAIN, PERMIT, NoArguments, Plugin, Rejection, Vote, reject
from volcanopy.scheduler.policy.roles import Purpose, Quota, Victims

_NO_ARGUMENTS = NoArguments()


class ShareRules(Plugin[NoArguments], Limiter, Victims, roles.Gate):
    """The rules of one policy's shares. They are asked in the tier of the policy and with its switches."""

    name: ClassVar[str] = "shares"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.ENQUEUE})

    def __init__(self, policy: Quota, cluster: Cluster) -> None:
        super().__init__(_NO_ARGUMENTS, cluster)
        ledger = cluster.ledger
        self.policy = policy
        self._pods = cluster.axis.index["pods"]
        self._queue_allocated: Ints = ledger.queue_allocated  # views: they change with the session
        self._tree_allocated: Ints = ledger.tree_allocated
        self._asked: tuple[int, Purpose, int, list[int]] | None = None
        """What :meth:`allows` was asked last: the task, the purpose, the changes until then, and the candidates."""
        self._answer: list[TaskView] = []
        self._votes = AdmissionVotes(cluster, self._vote)

    @cached_property
    def shares(self) -> Shares:
        """The shares of the policy. Raises PluginError if they are no tables of all resources and queues."""
        shares = self.policy.shares()
        where = f"plugin {getattr(self.policy, 'name', '')!r}: shares()"
        if not isinstance(shares, Shares):
            raise PluginError(f"{where} returned {type(shares).__qualname__}, which must be Shares")
        shape = (len(self.cluster.axis), len(self.cluster.snapshot.queues))
        for name in ("fair", "limit", "guarantee"):
            table = np.asarray(getattr(shares, name))
            if table.shape != shape or table.dtype != np.int64:
                description = f"the shape {table.shape} and the type {table.dtype}"
                raise PluginError(f"{where} returned {name} of {description}, which must be {shape} and int64")
        return shares

    @cached_property
    def _lines(self) -> Sequence[list[int]]:
        """Each queue with the ancestors for which its tasks count."""
        queues = self.cluster.snapshot.queues
        if self.shares.lines is not None:
            return self.shares.lines
        return queues.line_lists if self.shares.tree else [[row] for row in range(len(queues))]

    @cached_property
    def _allocated(self) -> Ints:
        return self._tree_allocated if self.shares.tree else self._queue_allocated

    @cached_property
    def _quota(self) -> QueueQuota:
        shares, queues = self.shares, self.cluster.snapshot.queues
        reserved = np.where(queues.rooted, shares.guarantee, 0) if shares.leaves_only else shares.guarantee
        bounds = shares.bounds or Bounds(shares.guarantee, shares.limit)
        return QueueQuota(self.cluster, bounds, shares.limit, reserved if reserved.any() else None, in_tree=shares.tree)

    @cached_property
    def _devices(self) -> DeviceQuota | None:
        shares = self.shares
        return DeviceQuota(self.cluster, parts=shares.device_capacities) if shares.device_limits else None

    # Limits

    def limit_rejection(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The limits of the queue and its ancestors, the guarantees of others, and the limits on devices."""
        if not self.shares.enforced:
            return None
        rejection = self._position_rejection(queue)
        if rejection is not None and not self._runs(task):
            return rejection
        request = self._requested(task, count)
        exceeded = first_exceeded(self._bounds_of(queue.row)[0], request, self._pods)
        if exceeded is not None:
            row, allocated, _, limit = exceeded
        else:
            row, allocated = queue.row, self._allocated[:, queue.row]
            excess = self._quota.excess(row, request)
            if excess is None:
                devices = self._devices.exceeded(self._lines[row], task, count) if self._devices else None
                name = "" if devices is None else self.cluster.snapshot.queues.names[devices.queue]
                return devices and Rejection(Gate.CAPABILITY, f'queue "{name}" capability exceeded: {devices}')
            limit = allocated + request - excess
        message = self._quota.message("capability", row, allocated, request.tolist(), limit, parts=count)
        return Rejection(Gate.CAPABILITY, message)

    def _runs(self, task: TaskView) -> bool:
        """Return whether pods of the task's job have nodes: it goes on when its queue becomes a parent."""
        row = self.cluster.snapshot.tasks.job[task.row]
        return row != NONE and bool(self.cluster.snapshot.jobs.counts[HOLDING, row].any())

    def _position_rejection(self, queue: QueueView) -> Rejection | None:
        """Return the rejection of a queue by its position in the tree."""
        if not self.shares.leaves_only:
            return None
        if not self.cluster.snapshot.queues.rooted[queue.row]:
            return Rejection(Gate.QUEUE, not_below_root(queue.name))
        return Rejection(Gate.QUEUE, not_a_leaf(queue.name)) if queue.is_parent else None

    def _queue_rejection(self, queue: QueueView) -> Rejection | None:
        """Return the rejection of a queue that takes no jobs at all."""
        if self.shares.admission is None:
            return None
        return self._position_rejection(queue) if queue.is_open else Rejection(Gate.QUEUE, closed(queue.name))

    # Fair shares

    @cached_property
    def _bound(self) -> tuple[Ints, Ints]:
        """(R, Q) each: the fair shares of queues, and with what they are paid back; UNLIMITED where they have none."""
        shares = self.shares
        most = shares.fair if shares.paid_back is None else shares.fair + shares.paid_back
        if shares.named is None:
            return shares.fair, most
        return np.where(shares.named, shares.fair, UNLIMITED), np.where(shares.named, most, UNLIMITED)

    @cached_property
    def _own_bound(self) -> tuple[Ints, Ints]:
        """(R, Q) each: as :attr:`_bound`, for the own jobs of queues; a queue without any share may have nothing."""
        shares = self.shares
        if shares.own is not None:
            return shares.own, shares.own if shares.own_paid_back is None else shares.own + shares.own_paid_back
        fair, most = self._bound
        if shares.named is None:
            return fair, most
        has_share = shares.named.any(axis=0)
        return np.where(has_share, fair, 0), np.where(has_share, most, 0)

    @once
    def _bounds_of(self, queue: int) -> tuple[list[Bound], list[Bound]]:
        """Return the limits and the fair shares of a queue and its ancestors, its own first."""
        shares, line, whole = self.shares, self._lines[queue], self._allocated
        limits = [_bound(row, whole, shares.limit, shares.limit) for row in line]
        own = _bound(queue, whole if shares.own is None else self._queue_allocated, *self._own_bound)
        above = line[1:] if shares.own is None else line
        return limits, [own, *[_bound(row, whole, *self._bound) for row in above]]

    def queue_verdict(self, queue: QueueView) -> Rejection | None:
        """Queues with their whole fair share allocated."""
        if not self.shares.passed_over:
            return None
        _, allocated, most, fair = self._bounds_of(queue.row)[1][0]
        if any(map(operator.gt, most, allocated.tolist())):
            return None
        return Rejection(Gate.SHARE, self._quota.message("share", queue.row, allocated, (), fair))

    def within_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The fair shares of the queue and its ancestors, and what they are paid back."""
        if not self.shares.binding:
            return None
        request = self._requested(task, count)
        exceeded = first_exceeded(self._bounds_of(queue.row)[1], request, self._pods)
        if exceeded is None:
            return None
        row, allocated, _, fair = exceeded
        message = self._quota.message("share", row, allocated, request.tolist(), fair, parts=count)
        return Rejection(Gate.SHARE, message)

    def _requested(self, task: TaskView, count: int) -> Ints:
        request = self.cluster.reads.request(task.row)
        return request * count if count > 1 else request

    @cached_property
    def _lending(self) -> Lending:
        shares = self.shares
        fair = shares.fair if shares.own is None else shares.own
        paid_back = shares.paid_back if shares.own is None else shares.own_paid_back
        return Lending(self.cluster, fair if paid_back is None else fair + paid_back)

    def beyond_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What queues below their fair shares can use."""
        if not self.shares.binding or self._lending.lends(queue.row, task, count):
            return None
        return self.within_share(queue, task, count)

    def reserved_as_first(self, queue: QueueView, request: Ints) -> bool:
        """Whether nothing limits shares and its queue would exceed its own: else all would reserve as much."""
        if self.shares.binding:
            return False
        _, allocated, most, _ = self._bounds_of(queue.row)[1][0]
        return exceeds(allocated + request, most, request, self._pods)

    def queue_shares(self) -> QueueShares:
        """The fair shares, the limits, and what is reserved."""
        shares = self.shares
        fair = shares.fair if shares.reported is None else shares.reported
        devices = {} if self._devices is None else self._devices.allocated()
        return QueueShares(fair, shares.limit, shares.guarantee, devices)

    # Reclaim

    def may_reclaim(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue reclaims while it stays within its fair share, and within its limit."""
        request = self._sum(tasks)
        if self._queue_rejection(queue) is not None:
            return False
        allocated = self._allocated[:, queue.row]
        limit = self.shares.limit[:, queue.row].tolist()
        if self.shares.any_resource and exceeds(allocated + request, limit, request, self._pods):
            return False  # a share of one resource covers it, but not the limit of another
        return self._covers(queue, self._queue_allocated[:, queue.row] + request, request)

    def within_fair_share(self, queue: QueueView, claim: Resources) -> bool:
        """As :meth:`may_reclaim` for what the queue lacks of the claim, whatever its limit."""
        if self._queue_rejection(queue) is not None:
            return False
        lacking = claim.values - self._queue_allocated[:, queue.row]
        return self._covers(queue, claim.values, lacking if self.shares.any_resource else claim.values)

    def _covers(self, queue: QueueView, amounts: Ints, request: Ints) -> bool:
        """Return whether the fair share of a queue covers the amounts of its own jobs, with a request that is part of them."""
        shares = self.shares
        if shares.fractions is not None:
            fraction = float(shares.fractions[queue.row])
            return dominant_share(amounts, self.cluster.snapshot.total) <= fraction + defaults.EQUAL_DOMINANT_SHARES
        if not shares.any_resource:
            return not exceeds(amounts, self._own_bound[0][:, queue.row].tolist(), request, self._pods)
        requested = request > 0
        requested[self._pods] = False
        return any(
            bool((requested & (self._allocated[:, row] + request <= shares.fair[:, row])).any())
            for row in (queue.row, *self._reclaim.considered_ancestors(queue.row))
        )

    @cached_property
    def _reclaim(self) -> Reclaim:
        return Reclaim(self.cluster, self.shares, self._lines)

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Between queues, tasks of queues above their fair share.

        Bundles for a gang may have other resources than the task.
        """
        if not purpose.is_between_queues:
            return None
        key = (preemptor.row, purpose, self.cluster.ledger.changes, [candidate.row for candidate in candidates])
        if key != self._asked:
            job = preemptor.job
            rejected = job is None or self._queue_rejection(job.queue) is not None
            alone = not purpose.is_for_gang
            self._answer = [] if job is None or rejected else self._reclaim.victims(preemptor, job, candidates, alone)
            self._asked = key
        return self._answer

    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """Between queues, as :meth:`allows`; queues, and in a tree their ancestors, keep what is reserved for them."""
        if preemptor is None or not purpose.is_between_queues:
            return victims
        victims = self.allows(preemptor, victims, purpose) or ()
        if not self.shares.enforced:
            return victims
        return sparing_guarantees(self.cluster, preemptor, victims, self.shares.guarantee, self.shares.tree)

    def victim_queue_order(self, queue: QueueView, reclaimer: QueueView) -> int:
        """In a tree, the nearest relatives first."""
        return -len(set(self._lines[queue.row][1:]) & set(self._lines[reclaimer.row][1:]))

    # Admission

    @cached_property
    def _admitted(self) -> Ints:
        """(R, Q): what is reserved for admitted jobs, in a tree with those of descendants."""
        reserved = queue_demand.reserved_for_admitted(self.cluster)
        return self.cluster.snapshot.queues.rolled_up(reserved) if self.shares.tree else reserved

    @cached_property
    def _startable(self) -> Ints:
        """(R, Q): as :attr:`_admitted`, without jobs that wait for a reservation."""
        waiting = queue_demand.lacking(self.cluster, self.cluster.queries.behind_reservations())
        return self._admitted - (self.cluster.snapshot.queues.rolled_up(waiting) if self.shares.tree else waiting)

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """Whether the limits of the queue and its ancestors cover the job's minimum beside allocated and reserved amounts."""
        if self.shares.admission is None:
            return ABSTAIN
        return self._votes.of(job, (int(self.cluster.snapshot.jobs.queue[job.row]), job.minimum_key))

    def _vote(self, job: JobView, behind: bool) -> Vote:
        """Return the vote on a job if it waits for a reservation, or if not."""
        queue, minimum = job.queue, job.min_resources
        rejection, limits = self._queue_rejection(queue), self.shares.admission
        if rejection is not None:
            return reject(rejection.gate, rejection.reason)
        if minimum is None or limits is None:
            return PERMIT
        request = minimum.values
        ledger = self.cluster.ledger
        inqueue = ledger.tree_inqueue if self.shares.tree else ledger.queue_inqueue
        for row in self._lines[queue.row]:
            reserved = (self._admitted if behind else self._startable)[:, row] + inqueue[:, row]
            allocated, limit = self._allocated[:, row], limits[:, row]
            if exceeds(request + allocated + reserved, limit.tolist(), request, self._pods):
                shown = np.maximum(reserved, 0).tolist()  # negative where elastic jobs have more than their minimum
                message = self._quota.message("capability", row, allocated, request.tolist(), limit, shown)
                fits = not exceeds(request, limit.tolist(), request, self._pods)
                return reject(Gate.CAPABILITY, message, yields=fits and not behind)
        return PERMIT

    def _sum(self, tasks: Sequence[TaskView]) -> Ints:
        """(R,): what the tasks request together."""
        return sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))


def _bound(queue: int, allocated: Ints, stated: Ints, most: Ints) -> Bound:
    """Return the bound of a queue from (R, Q) amounts."""
    return Bound(queue, allocated[:, queue], most[:, queue].tolist(), stated[:, queue])
