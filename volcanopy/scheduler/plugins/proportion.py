"""proportion: queues share the cluster by weight."""

import operator
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.fairshare import queue_demand
from volcanopy.scheduler.fairshare.borrowing import Commitments, bounds
from volcanopy.scheduler.fairshare.guarantees import sparing_guarantees
from volcanopy.scheduler.fairshare.weighted_shares import Levels, deserved_by_weight
from volcanopy.scheduler.framework.plugin import PERMIT, GangPreemptor, NoArguments, Plugin, Rejection, Vote, reject
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.messages import closed
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.quota_message import QuotaMessage
from volcanopy.scheduler.model.resources import Ints, Mask, Resources, dominant_share
from volcanopy.scheduler.model.snapshot import NONE


class Proportion(Plugin[NoArguments]):
    """Each queue deserves a share of the cluster by weight: within its capability, above its guarantee, as far as it asks.

    Queues below others divide what the queue above them deserves, level by level.
    """

    name: ClassVar[str] = "proportion"

    def open(self) -> None:
        """Fill the queues' shares like vessels."""
        snapshot = self.cluster.snapshot
        queues, jobs, ledger = snapshot.queues, snapshot.jobs, self.cluster.ledger
        self._levels = Levels(queues) if queues.nested else None
        self._bounds = bounds(snapshot.total, queues, by_weight=True, in_tree=queues.nested)
        if self._levels is None:
            self._limit = queue_demand.within_guarantees(snapshot.total, queues, self._bounds)
        else:
            self._limit = self._levels.limits(snapshot.total, self._bounds.kept, self._bounds.ceiling)
        self._parents = np.zeros(len(queues), dtype=np.bool_) if self._levels is None else self._levels.parents
        self._spoken_for: Commitments | None = None
        if self._bounds.kept.any():
            tree = self._levels is not None
            self._spoken_for = Commitments(queues, self._bounds.kept, self._limit, snapshot.total, in_tree=tree)
        self._allocated: Ints = ledger.queue_allocated  # a view: it moves with the session
        self._below: Ints = ledger.tree_allocated
        self._active: Mask = np.zeros(len(queues), dtype=np.bool_)
        self._active[jobs.queue[self.cluster.job_rows()]] = True
        pending: Ints = np.where(queue_demand.held_back(queues), 0, ledger.queue_pending)
        self._requested: Ints = ledger.queue_allocated + pending
        self._inqueue = self._with_those_below(queue_demand.reserved_for_admitted(self.cluster))
        self.deserved, self._own = self._fill(self._requested)
        self._shares: list[list[int]] = self._own.T.tolist()
        self._owed: Ints | None = None

    def queue_order(self, queue: QueueView) -> tuple[tuple[float, ...], ...]:
        """Higher priority first, then the smaller share of what is deserved; in a tree compared from the root downwards.

        Where jobs are seen from outside with a priority, that goes between the two.
        """
        return tuple(self._rank(row) for row in reversed(self._line(queue)))

    def victim_queue_order(self, queue: QueueView, reclaimer: QueueView) -> int:
        """In a tree, the nearest relative gives first."""
        if self._levels is None:
            return 0
        return -len(set(self._line(queue)[1:]) & set(self._line(reclaimer)[1:]))

    def overused(self, queue: QueueView) -> Rejection | None:
        """A queue that holds all that it deserves gets no further turn."""
        held: Ints = self._allocated[:, queue.row]
        if any(map(operator.gt, self._shares[queue.row], held.tolist())):
            return None
        return Rejection(Gate.SHARE, self._quota("share", queue.row, held, (), self._own[:, queue.row]))

    def queue_shares(self) -> QueueShares:
        """The shares, and what capability and the guarantees of others leave each queue."""
        queues = self.cluster.snapshot.queues
        deserved = self.deserved if self._levels is not None else queues.rolled_up(self.deserved)
        return QueueShares(deserved, self._limit, self._bounds.kept)

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What a queue, and each queue above it, holds stays within what it deserves."""
        if not queue.is_open:
            return Rejection(Gate.QUEUE, closed(queue.name))
        asked = task.request.values
        asked = asked * count if count > 1 else asked
        denial = self._beyond(queue, asked, count)
        if denial is not None:
            return denial
        for row in self._line(queue) if self._levels is not None else ():
            held, deserved = self._of(row, own=False)
            denial = self._too_much(row, held, asked, deserved, count)
            if denial is not None:
                return denial
        return self._taken_from_others(queue.row, asked, count)

    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue takes room from others only up to what it deserves."""
        asked = sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))
        return queue.is_open and self._beyond(queue, asked, 1) is None

    def within_deserved(self, queue: QueueView, claim: Resources) -> bool:
        """The share that a queue would deserve if its waiting jobs were admitted covers the claim."""
        if self._owed is None:
            self._owed = self._fill(self._requested + queue_demand.requested_by_waiting(self.cluster, self._limit))[1]
        pods = self.cluster.axis.index["pods"]
        owed = self._owed[:, queue.row]
        return queue.is_open and queue_demand.first_short(claim.values, owed, claim.values, pods) is None

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Tasks of queues that hold more than they deserve, down to what they deserve.

        In a tree so must all queues above that the reclaimer is not below: nothing leaves a part of it that has no more
        than it deserves.
        """
        held: dict[tuple[int, bool], Ints] = {}
        victims = []
        own = reclaimer.job
        spared = set[int]() if own is None else set(self._line(own.queue))
        for candidate in candidates:
            job = candidate.job
            if job is None:
                continue
            leaf = job.queue.row
            losers = [(leaf, True), *((row, False) for row in self._line(job.queue)[1:] if row not in spared)]
            now = {loser: held[loser] if loser in held else self._of(*loser)[0] for loser in losers}
            if all((amounts > self._of(*loser)[1]).any() for loser, amounts in now.items()):
                victims.append(candidate)
                held |= {loser: amounts - candidate.request.values for loser, amounts in now.items()}
        return victims

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """As many as leave each queue what it is guaranteed, of what they hold."""
        return sparing_guarantees(self.cluster, reclaimer, victims, self._bounds.kept, self._levels is not None)

    def unified_evictable(self, preemptor: GangPreemptor, candidates: Sequence[TaskView]) -> Sequence[TaskView] | None:
        """Between queues, as :meth:`reclaimable`."""
        return self.reclaimable(preemptor.task, candidates) if preemptor.across_queues else None

    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Between queues, as :meth:`reclaimable_at_all`."""
        return self.reclaimable_at_all(preemptor.task, victims) if preemptor.across_queues else victims

    def job_enqueueable(self, job: JobView) -> Vote:
        """Whether the job's minimum fits what its queue may ever hold, and each above it, beside what is held and promised."""
        queue = job.queue
        if not queue.is_open:
            return reject(Gate.QUEUE, closed(queue.name))
        least = job.min_resources
        if least is None:
            return PERMIT
        ledger = self.cluster.ledger
        admitted = ledger.queue_inqueue if self._levels is None else ledger.tree_inqueue
        for row in self._line(queue):
            held, limit = self._of(row, self._levels is None)[0], self._limit[:, row]
            promised = self._inqueue[:, row] + admitted[:, row]
            asked = least.values + held + promised
            if queue_demand.first_short(asked, limit, least.values, self.cluster.axis.index["pods"]) is not None:
                short = self._quota("capability", row, held, least.values.tolist(), limit, promised.tolist())
                return reject(Gate.CAPABILITY, short)
        return PERMIT

    # The tree

    def _line(self, queue: QueueView) -> list[int]:
        """The queues that this one is part of, itself first, the root left out; where none are nested only itself."""
        if self._levels is None:
            return [queue.row]
        queues = self.cluster.snapshot.queues
        line, row = [queue.row], int(queues.above[queue.row])
        while row != NONE and queues.names[row] != "root":
            line.append(row)
            row = int(queues.above[row])
        return line

    def _of(self, row: int, own: bool) -> tuple[Ints, Ints]:
        """What a queue holds and what it deserves: its ``own`` jobs, or with all below it."""
        if own or not self._parents[row]:
            return self._allocated[:, row], self._own[:, row]
        return self._below[:, row], self.deserved[:, row]

    def _rank(self, row: int) -> tuple[float, ...]:
        """The place of a queue among its siblings."""
        held, deserved = self._of(row, own=False)
        share = dominant_share(np.where(deserved > 0, held, 0), deserved)
        priority, seen = -int(self.cluster.snapshot.queues.priority[row]), self.cluster.precedence
        return (priority, -seen.of(row), share) if seen.matters else (priority, share)

    def _with_those_below(self, values: Ints) -> Ints:
        return values if self._levels is None else self._levels.rolled_up(values)

    def _fill(self, requested: Ints) -> tuple[Ints, Ints]:
        """(R, Q) twice: what each queue deserves with all below it, and what its own jobs do."""
        snapshot = self.cluster.snapshot
        kept, limit, active = self._bounds.kept, self._limit, self._active
        if self._levels is not None:
            return self._levels.fill(snapshot.total, requested, kept, limit, active)
        queues = snapshot.queues
        shares = deserved_by_weight(snapshot.total, queues.weight, requested, kept, limit, active, queues.names)
        return shares, shares

    # What a queue lacks

    def _beyond(self, queue: QueueView, asked: Ints, count: int) -> Rejection | None:
        held: Ints = self._allocated[:, queue.row]
        if not any(map(operator.gt, (held + asked).tolist(), self._shares[queue.row])):
            return None
        return self._too_much(queue.row, held, asked, self._own[:, queue.row], count)

    def _too_much(self, row: int, held: Ints, asked: Ints, deserved: Ints, count: int) -> Rejection | None:
        pods = self.cluster.axis.index["pods"]
        wanted, limit = held + asked, self._limit[:, row]
        beyond_share = queue_demand.first_short(wanted, deserved, asked, pods)
        if beyond_share is None:
            return None
        beyond_limit = queue_demand.first_short(wanted, limit, asked, pods)
        if beyond_limit is not None:
            return Rejection(Gate.CAPABILITY, self._quota("capability", row, held, asked.tolist(), limit, each=count))
        return Rejection(Gate.SHARE, self._quota("share", row, held, asked.tolist(), deserved, each=count))

    def _taken_from_others(self, row: int, asked: Ints, count: int) -> Rejection | None:
        if self._spoken_for is None:
            return None
        over = self._spoken_for.excess(row, self._allocated, asked, self.cluster.ledger.moves)
        if over is None:
            return None
        held: Ints = self._allocated[:, row]
        short = self._quota("capability", row, held, asked.tolist(), held + asked - over, each=count)
        return Rejection(Gate.CAPABILITY, short)

    def _quota(
        self,
        kind: str,
        row: int,
        held: Ints,
        wanted: Iterable[int],
        limit: Ints,
        promised: Iterable[int] = (),
        each: int = 1,
    ) -> QuotaMessage:
        snapshot = self.cluster.snapshot
        names, queue = self.cluster.axis.names, snapshot.queues.names[row]
        most, total = tuple(self._limit[:, row].tolist()), tuple(snapshot.total.tolist())
        amounts = (tuple(wanted), tuple(held.tolist()), tuple(limit.tolist()))
        short = QuotaMessage(kind, queue, names, *amounts, tuple(promised), each)
        return short.of_borrower(self._bounds.borrowed(snapshot.queues, row))._replace(capability=most, cluster=total)
