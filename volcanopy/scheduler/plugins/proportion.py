"""proportion: queues share the cluster by weight."""

import operator
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from volcanopy.scheduler import claims
from volcanopy.scheduler.guarantees import sparing_guarantees
from volcanopy.scheduler.plugin import PERMIT, Denial, NoArguments, Plugin, Taking, Vote, reject
from volcanopy.scheduler.resources import Floats, Ints, Mask, Resources, dominant_share
from volcanopy.scheduler.views import JobView, QueueView, TaskView
from volcanopy.scheduler.words import Shortage, closed


class Proportion(Plugin[NoArguments]):
    """Each queue deserves a share of the cluster by weight: within its capability, above its guarantee, as far as it asks."""

    name: ClassVar[str] = "proportion"

    def open(self) -> None:
        """Fill the queues' shares like vessels."""
        snapshot = self.cluster.snapshot
        queues, jobs = snapshot.queues, snapshot.jobs
        self._limit = claims.within_guarantees(snapshot.total, queues)
        ledger = self.cluster.ledger
        self._allocated: Ints = ledger.queue_allocated  # a view: it moves with the session
        self._active: Mask = np.zeros(len(queues), dtype=np.bool_)
        self._active[jobs.queue[self.cluster.job_rows()]] = True
        self._requested: Ints = ledger.queue_allocated + ledger.queue_pending
        self._inqueue = claims.asked_by_admitted(self.cluster)
        self.deserved = self._fill(self._requested)
        self._shares: list[list[int]] = self.deserved.T.tolist()
        self._owed: Ints | None = None

    def queue_order(self, queue: QueueView) -> tuple[int, float]:
        """Higher priority first, then the smaller share of what is deserved."""
        held, deserved = self._held(queue), self.deserved[:, queue.row]
        return (-queue.priority, dominant_share(np.where(deserved > 0, held, 0), deserved))

    def overused(self, queue: QueueView) -> Denial | None:
        """A queue that holds all that it deserves gets no further turn."""
        deserved = self.deserved[:, queue.row]
        if any(map(operator.gt, deserved.tolist(), self._held(queue).tolist())):
            return None
        return Denial("share", self._shortage("share", queue, (), deserved))

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Denial | None:
        """What a queue holds stays within what it deserves."""
        if not queue.is_open:
            return Denial("queue", closed(queue.name))
        asked = task.request.values
        return self._beyond(queue, asked * count if count > 1 else asked, count)

    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue takes room from others only up to what it deserves."""
        asked = sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))
        return queue.is_open and self._beyond(queue, asked, 1) is None

    def entitled(self, queue: QueueView, claim: Resources) -> bool:
        """The share that a queue would deserve if its waiting jobs were admitted covers the claim."""
        if self._owed is None:
            self._owed = self._fill(self._requested + claims.asked_by_waiting(self.cluster, self._limit))
        pods = self.cluster.axis.index["pods"]
        owed = self._owed[:, queue.row]
        return queue.is_open and claims.first_short(claim.values, owed, claim.values, pods) is None

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Tasks of queues that hold more than they deserve, down to what they deserve."""
        held: dict[int, Ints] = {}
        victims = []
        for candidate in candidates:
            job = candidate.job
            if job is None:
                continue
            row = job.queue.row
            now = held.get(row, job.queue.allocated.values)
            if (now > self.deserved[:, row]).any():
                victims.append(candidate)
                held[row] = now - candidate.request.values
        return victims

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """As many as leave each queue what it is guaranteed, of what they hold."""
        return sparing_guarantees(self.cluster, reclaimer, victims)

    def unified_evictable(self, taking: Taking, candidates: Sequence[TaskView]) -> Sequence[TaskView] | None:
        """Between queues, as :meth:`reclaimable`."""
        return self.reclaimable(taking.task, candidates) if taking.across else None

    def unified_evictable_at_all(self, taking: Taking, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Between queues, as :meth:`reclaimable_at_all`."""
        return self.reclaimable_at_all(taking.task, victims) if taking.across else victims

    def job_enqueueable(self, job: JobView) -> Vote:
        """Whether the job's minimum fits what its queue may ever hold, beside what it holds and has promised."""
        queue = job.queue
        if not queue.is_open:
            return reject("queue", closed(queue.name, ": it takes no new jobs"))
        least = job.min_resources
        if least is None:
            return PERMIT
        asked = least.values + queue.allocated.values + self._inqueue[:, queue.row] + queue.inqueue.values
        limit = self._limit[:, queue.row]
        short = claims.first_short(asked, limit, least.values, self.cluster.axis.index["pods"])
        if short is None:
            return PERMIT
        promised = asked - least.values - queue.allocated.values
        return reject("capability", self._shortage("admission", queue, least.values.tolist(), limit, promised.tolist()))

    def _beyond(self, queue: QueueView, asked: Ints, count: int) -> Denial | None:
        held = self._held(queue)
        share = self._shares[queue.row]
        if not any(map(operator.gt, (held + asked).tolist(), share)):
            return None
        pods = self.cluster.axis.index["pods"]
        deserved, limit = self.deserved[:, queue.row], self._limit[:, queue.row]
        wanted = held + asked
        beyond_share = claims.first_short(wanted, deserved, asked, pods)
        if beyond_share is None:
            return None
        beyond_limit = claims.first_short(wanted, limit, asked, pods)
        if beyond_limit is not None:
            return Denial("capability", self._shortage("capability", queue, asked.tolist(), limit, each=count))
        return Denial("share", self._shortage("share", queue, asked.tolist(), deserved, each=count))

    def _shortage(
        self,
        kind: str,
        queue: QueueView,
        wanted: Iterable[int],
        limit: Ints,
        promised: Iterable[int] = (),
        each: int = 1,
    ) -> Shortage:
        held = tuple(self._held(queue).tolist())
        names = self.cluster.axis.names
        most, total = tuple(self._limit[:, queue.row].tolist()), tuple(self.cluster.snapshot.total.tolist())
        short = Shortage(kind, queue.name, names, tuple(wanted), held, tuple(limit.tolist()), tuple(promised), each)
        return short._replace(most=most, total=total)

    def _held(self, queue: QueueView) -> Ints:
        held: Ints = self._allocated[:, queue.row]
        return held

    def _fill(self, requested: Ints) -> Ints:
        snapshot = self.cluster.snapshot
        queues = snapshot.queues
        guarantee = queues.guarantee.values
        return deserved_by_weight(snapshot.total, queues.weight, requested, guarantee, self._limit, self._active)


def deserved_by_weight(total: Ints, weight: Ints, requested: Ints, guarantee: Ints, limit: Ints, active: Mask) -> Ints:
    """Water-filling: what each of Q queues deserves of an (R,) total; the tables are (R, Q).

    In each round the rest is handed out by weight among the queues that still want something; what a queue cannot use
    because of its limit or its request flows back. Volcano's rounds, in floating point, cut to whole units at the end.
    """
    deserved: Floats = np.zeros(requested.shape, dtype=np.float64)
    remaining: Floats = total.astype(np.float64)
    open_ = active.copy()
    while open_.any() and remaining.any():
        weights = np.where(open_, weight, 0).astype(np.float64)
        before = deserved.copy()
        grown = deserved + remaining[:, None] * (weights / weights.sum())[None, :]
        grown = np.minimum(np.maximum(np.minimum(grown, requested), guarantee), limit)  # a capability is never passed
        deserved[:, open_] = grown[:, open_]
        satisfied = (requested <= deserved).all(axis=0) | (np.abs(deserved - before) < _SMALL).all(axis=0)
        open_ &= ~satisfied
        rest = np.maximum(remaining - (deserved - before).sum(axis=1), 0.0)
        if (np.abs(rest - remaining) < _SMALL).all():
            break
        remaining = np.where(rest < _SMALL, 0.0, rest)
    return np.floor(deserved + _SMALL).astype(np.int64)


_SMALL = 1e-3
"""Less than any base unit: what is nearer than this is equal."""
