"""capacity: queues have fixed claims, may borrow what others leave idle, and take back what is theirs."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from volcanopy.api.gates import Gate
from volcanopy.scheduler.fairshare import queue_demand
from volcanopy.scheduler.fairshare.borrowing import Commitments, bounds
from volcanopy.scheduler.fairshare.device_quota import DeviceQuota
from volcanopy.scheduler.fairshare.guarantees import sparing_guarantees
from volcanopy.scheduler.framework.plugin import PERMIT, Arguments, GangPreemptor, Plugin, Rejection, Vote, reject
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.messages import closed, not_a_leaf, not_below_root
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.quota_message import QuotaMessage
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask, Resources, dominant_share
from volcanopy.scheduler.model.snapshot import NONE


class CapacityArguments(Arguments):
    """How far up the tree of queues claims are looked at when room is taken back, and whether devices are counted."""

    level: int | None = Field(None, alias="ancestorReclaimLevel", ge=0)
    """How many levels up from a queue its ancestors must be above what they deserve to give; all if not given."""
    dynamic_resources: bool = Field(True, alias="capacity.DynamicResourceAllocationEnable")
    """Whether claims on devices count towards a queue's limits."""
    consumable: bool = Field(False, alias="capacity.DRAConsumableCapacityEnable")
    """Not built: devices are limited by their number."""

    @field_validator("consumable")
    @classmethod
    def _counts_only(cls, consumable: bool) -> bool:
        if consumable:
            raise ValueError("must be false: devices are limited by their number, not by parts of them")
        return consumable


class Capacity(Plugin[CapacityArguments]):
    """Each queue holds at most its capability, keeps its guarantee, and is owed what it deserves.

    With ``enableHierarchy`` queues form a tree: only its leaves take jobs, and what a leaf holds also counts against
    every queue above it. A capability may also limit the devices of a class that claims are for: ``deviceclass/<class>``.
    """

    name: ClassVar[str] = "capacity"
    arguments: ClassVar[type[Arguments]] = CapacityArguments

    def open(self) -> None:
        """Lay down the limits of each queue."""
        snapshot = self.cluster.snapshot
        queues = snapshot.queues
        self._devices = DeviceQuota(self.cluster) if self.args.dynamic_resources else None
        self._pods = self.cluster.axis.index["pods"]
        self._bounds = bounds(snapshot.total, queues, by_weight=False, in_tree=self.hierarchy)
        self._guarantee: Ints = self._bounds.kept
        if self.hierarchy:
            self._deserved: Ints = np.maximum(queues.deserved.values, self._guarantee)
            self._named: Mask = queues.deserved_set | (self._guarantee > 0)
            self._limit = self._limits_down_the_tree(np.where(snapshot.total > 0, snapshot.total, UNLIMITED))
            self._most: Ints = self._limits_down_the_tree(np.full(len(snapshot.total), UNLIMITED))
            self._promised = queues.rolled_up(queue_demand.reserved_for_admitted(self.cluster))
        else:
            self._limit = self._most = queue_demand.within_guarantees(snapshot.total, queues, self._bounds)
            bounded = np.where((snapshot.total > 0)[:, None] | queues.capability_set, self._limit, UNLIMITED)
            self._deserved = np.maximum(np.minimum(queues.deserved.values, bounded), self._guarantee)
            self._named = queues.deserved_set | (self._guarantee > 0)
            self._promised = queue_demand.reserved_for_admitted(self.cluster)
        kept = np.where(queues.rooted, self._guarantee, 0) if self.hierarchy else self._guarantee
        self._spoken_for: Commitments | None = None
        if kept.any():
            self._spoken_for = Commitments(queues, kept, self._limit, snapshot.total, in_tree=self.hierarchy)

    def queue_order(self, queue: QueueView) -> tuple[int, bool, tuple[tuple[float, ...], ...]]:
        """Higher priority first, leaves before others, then the smaller share, compared from the root downwards.

        Where jobs are seen from outside with a priority, that goes before the share at each level. A queue that deserves
        nothing comes after one that has as large a share.
        """
        line = [row for row in reversed(self._line(queue)) if self.cluster.snapshot.queues.names[row] != "root"]
        seen = self.cluster.precedence
        path = tuple((-seen.of(row), *self._rank(row)) if seen.matters else self._rank(row) for row in line)
        return (-queue.priority, self.hierarchy and queue.is_parent, path)

    def victim_queue_order(self, queue: QueueView, reclaimer: QueueView) -> int:
        """In a tree, the nearest relative gives first."""
        if not self.hierarchy:
            return 0
        shared = set(self._line(queue)[1:]) & set(self._line(reclaimer)[1:])
        return -len(shared)

    def queue_shares(self) -> QueueShares:
        """What is given as deserved, and never less than the queues below deserve together; what each may hold at most."""
        return QueueShares(self.cluster.snapshot.queues.covering(self._deserved), self._limit, self._bounds.kept)

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What a queue, and each queue above it, holds stays within its limit."""
        closed = self._closed(queue)
        if closed is not None:
            return closed
        asked = task.request.values * count
        held = self._held()
        for row in self._line(queue):
            short = queue_demand.first_short(held[:, row] + asked, self._limit[:, row], asked, self._pods)
            if short is not None:
                return Rejection(Gate.CAPABILITY, self._quota("capability", row, asked, each=count))
        ledger = self.cluster.ledger
        over = None
        if self._spoken_for is not None:
            over = self._spoken_for.excess(queue.row, ledger.queue_allocated, asked, ledger.moves)
        if over is not None:
            most = held[:, queue.row] + asked - over
            return Rejection(Gate.CAPABILITY, self._quota("capability", queue.row, asked, each=count, most=most))
        return self._without_devices(queue, task, count)

    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue takes back only while what it holds stays, for a resource that is asked for, within what it deserves.

        With ``ancestorReclaimLevel`` it is enough that this holds for a queue that far above it.
        """
        if self._closed(queue) is not None:
            return False
        asked = sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))
        held = self._held()
        if (
            queue_demand.first_short(held[:, queue.row] + asked, self._limit[:, queue.row], asked, self._pods)
            is not None
        ):
            return False
        wanted = asked > 0
        wanted[self._pods] = False
        return any(
            bool((wanted & (held[:, row] + asked <= self._deserved[:, row])).any())
            for row in (queue.row, *self._ancestors(queue))
        )

    def within_deserved(self, queue: QueueView, claim: Resources) -> bool:
        """As far as it may take room back (:meth:`preemptive`), the queue would hold the claim within what it deserves."""
        if self._closed(queue) is not None:
            return False
        more = claim.values - self.cluster.ledger.queue_allocated[:, queue.row]
        held, wanted = self._held(), more > 0
        wanted[self._pods] = False
        return any(
            bool((wanted & (held[:, row] + more <= self._deserved[:, row])).any())
            for row in (queue.row, *self._ancestors(queue))
        )

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Tasks of queues that hold more than they deserve, of what the reclaimer asks for; guarantees are kept."""
        own = reclaimer.job
        if own is None or self._closed(own.queue) is not None:
            return []
        table = self._held()
        held: dict[int, Ints] = {}

        def now(row: int) -> Ints:
            return held.setdefault(row, table[:, row].copy())

        asked = reclaimer.request.values
        unprotected = not self._is_owed(own.queue.row, asked)
        victims = []
        for candidate in candidates:
            job = candidate.job
            if job is None or not self._is_sound(job.queue.row):
                continue
            taken = candidate.request.values
            queue = job.queue
            if not self._share_a_resource(asked, taken):
                continue
            if ((taken > 0) & (self._guarantee[:, queue.row] > now(queue.row) - taken)).any():
                continue
            relatives = unprotected and self._are_relatives(own.queue, queue)
            if not self._gives(queue.row, now(queue.row), taken, relatives):
                continue
            above = self._to_check(own.queue, queue)
            if not all(self._gives(row, now(row), taken, False) for row in above):
                continue
            for row in (queue.row, *above):
                held[row] = now(row) - taken
            victims.append(candidate)
        return victims

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """As many as leave each queue what it is guaranteed; in a tree also each above it that the reclaimer is not below."""
        return sparing_guarantees(self.cluster, reclaimer, victims, self._guarantee, in_tree=self.hierarchy)

    def unified_evictable(self, preemptor: GangPreemptor, candidates: Sequence[TaskView]) -> Sequence[TaskView] | None:
        """Between queues, tasks of those that hold more than they deserve of what the task takes; guarantees are kept."""
        own = preemptor.task.job
        if not preemptor.across_queues or own is None:
            return None
        if self._closed(own.queue) is not None:
            return []
        table = self._held()
        held: dict[int, Ints] = {}
        victims = []
        for candidate in candidates:
            job = candidate.job
            if job is None or not self._is_sound(job.queue.row):
                continue
            row, taken = job.queue.row, candidate.request.values
            losers = [row, *self._to_check(own.queue, job.queue)]
            now = {loser: held.get(loser, table[:, loser]) for loser in losers}
            keeps_guarantee = not ((taken > 0) & (self._guarantee[:, row] > now[row] - taken)).any()
            if keeps_guarantee and all(self._gives(loser, now[loser], taken, relatives=False) for loser in losers):
                held |= {loser: now[loser] - taken for loser in losers}
                victims.append(candidate)
        return victims

    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Between queues, as :meth:`reclaimable_at_all`."""
        return self.reclaimable_at_all(preemptor.task, victims) if preemptor.across_queues else victims

    def job_enqueueable(self, job: JobView) -> Vote:
        """Whether the job's minimum fits what its queue, and each queue above it, may ever hold beside its promises."""
        queue = job.queue
        closed = self._closed(queue)
        if closed is not None:
            return reject(closed.gate, closed.reason)
        least = job.min_resources
        if least is None:
            return PERMIT
        ledger = self.cluster.ledger
        admitted = ledger.tree_inqueue if self.hierarchy else ledger.queue_inqueue
        held = self._held()
        for row in self._line(queue):
            asked = least.values + held[:, row] + self._promised[:, row] + admitted[:, row]
            short = queue_demand.first_short(asked, self._most[:, row], least.values, self._pods)
            if short is not None:
                promised = self._promised[:, row] + admitted[:, row]
                return reject(Gate.CAPABILITY, self._quota("capability", row, least.values, promised))
        return PERMIT

    # The tree

    def _limits_down_the_tree(self, whole: Ints) -> Ints:
        """(R, Q): the most that each queue may have when the root has ``whole`` at most, and guarantees are kept.

        What is handed out is part of the cluster. What is promised need not be: a cluster may grow with what waits.
        """
        queues = self.cluster.snapshot.queues
        limit = self._bounds.ceiling.copy()
        capability = limit.copy()
        root = queues.index.get("root")
        if root is not None:
            limit[:, root] = np.minimum(limit[:, root], whole)
        order = sorted(range(len(queues)), key=lambda row: len(queues.lines[row]))
        spoken_for = np.zeros_like(limit)
        below = np.flatnonzero(queues.parent != NONE)
        np.add.at(spoken_for.T, queues.parent[below], self._guarantee.T[below])
        for row in order:
            above = int(queues.parent[row])
            if above == NONE or not queues.rooted[row]:
                continue
            capability[:, row] = np.where(capability[:, row] == UNLIMITED, capability[:, above], capability[:, row])
            room = np.maximum(limit[:, above] - spoken_for[:, above], 0) + self._guarantee[:, row]
            limit[:, row] = np.minimum(room, capability[:, row])
        return limit

    def _line(self, queue: QueueView) -> list[int]:
        """The queues whose books a task of this one stands in, from the queue upwards."""
        return queue.line.tolist() if self.hierarchy else [queue.row]

    def _ancestors(self, queue: QueueView) -> list[int]:
        """The queues above this one that are looked at, the parent first; never the root."""
        line = self._line(queue)[1 : 1 + (self.args.level or 0)]
        return [row for row in line if self._name(row) != "root"]

    def _held(self) -> Ints:
        ledger = self.cluster.ledger
        held: Ints = ledger.tree_allocated if self.hierarchy else ledger.queue_allocated
        return held

    def _is_sound(self, row: int) -> bool:
        return not self.hierarchy or bool(self.cluster.snapshot.queues.rooted[row])

    def _closed(self, queue: QueueView) -> Rejection | None:
        """Why the queue takes no jobs at all."""
        if not queue.is_open:
            return Rejection(Gate.QUEUE, closed(queue.name))
        if not self._is_sound(queue.row):
            return Rejection(Gate.QUEUE, not_below_root(queue.name))
        if self.hierarchy and queue.is_parent:
            return Rejection(Gate.QUEUE, not_a_leaf(queue.name))
        return None

    def _quota(
        self, kind: str, row: int, wanted: Ints, promised: Ints | None = None, each: int = 1, most: Ints | None = None
    ) -> QuotaMessage:
        limits = self._limit if promised is None else self._most
        held, limit = self._held()[:, row].tolist(), (limits[:, row] if most is None else most).tolist()
        more = () if promised is None else tuple(promised.tolist())
        names = self.cluster.axis.names
        short = QuotaMessage(
            kind, self._name(row), names, tuple(wanted.tolist()), tuple(held), tuple(limit), more, each
        )
        short = short.of_borrower(self._bounds.borrowed(self.cluster.snapshot.queues, row))
        return short._replace(cluster=tuple(self.cluster.snapshot.total.tolist()))

    def _name(self, row: int) -> str:
        return self.cluster.snapshot.queues.names[row]

    # Claims

    def _without_devices(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Why the queue may not have the devices that ``count`` such tasks claim."""
        exceeded = self._devices.exceeded(self._line(queue), task, count) if self._devices else None
        if exceeded is None:
            return None
        row, name, limit, held, asked = exceeded
        numbers = f"requested {asked}, allocated {held}, capability {limit}"
        text = f'queue "{self._name(row)}" capability exceeded: devices of class "{name}" {numbers}'
        return Rejection(Gate.CAPABILITY, text)

    def _rank(self, row: int) -> tuple[float, bool]:
        named = self._deserved[:, row] > 0
        if not named.any():
            return (1.0, True)
        return (dominant_share(self._held()[named, row], self._deserved[named, row]), False)

    def _share_a_resource(self, one: Ints, other: Ints) -> bool:
        both = (one > 0) & (other > 0)
        both[self._pods] = False
        return bool(both.any())

    def _is_owed(self, row: int, asked: Ints) -> bool:
        """Whether the queue deserves anything of what is asked for."""
        return self._share_a_resource(self._deserved[:, row], asked)

    def _gives(self, row: int, held: Ints, taken: Ints, relatives: bool) -> bool:
        """Whether a queue can be made to give this: it deserves nothing of the kind, or holds more than it deserves."""
        if not self._is_owed(row, taken):
            return not relatives
        counts = (taken > 0) & np.where(np.arange(len(taken)) < 2, self._deserved[:, row] > 0, self._named[:, row])
        return bool((counts & (held > self._deserved[:, row])).any())

    def _are_relatives(self, own: QueueView, other: QueueView) -> bool:
        """Whether both have an ancestor in common within the levels that are looked at."""
        return bool(self.args.level and set(self._ancestors(own)) & set(self._ancestors(other)))

    def _to_check(self, own: QueueView, other: QueueView) -> list[int]:
        """The queues above the victim's that must be able to give as well: those below the nearest that both are in.

        With ``ancestorReclaimLevel`` they are the first so many above it that are not the reclaimer's at the same level.
        """
        if not self.hierarchy:
            return []
        if self.args.level is not None:
            beside = [*self._ancestors(own), *(NONE for _ in range(self.args.level))]
            return [row for row, mine in zip(self._ancestors(other), beside, strict=False) if row != mine]
        mine = {*own.line.tolist(), *(row for row in other.line.tolist() if self._name(row) == "root")}
        return [row for row in other.line.tolist()[1:] if row not in mine]
