"""proportion: queues share the cluster by weight."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler import claims
from volcanopy.scheduler.plugin import PERMIT, Denial, NoArguments, Plugin, Vote, reject
from volcanopy.scheduler.resources import Floats, Ints, Mask, Resources, dominant_share
from volcanopy.scheduler.views import JobView, QueueView, TaskView


class Proportion(Plugin[NoArguments]):
    """Each queue deserves a share of the cluster by weight: within its capability, above its guarantee, as far as it asks."""

    name: ClassVar[str] = "proportion"

    def open(self) -> None:
        """Fill the queues' shares like vessels."""
        snapshot = self.cluster.snapshot
        queues, jobs = snapshot.queues, snapshot.jobs
        self._limit = claims.within_guarantees(snapshot.total, queues)
        ledger = self.cluster.ledger
        self._active: Mask = np.zeros(len(queues), dtype=np.bool_)
        self._active[jobs.queue[self.cluster.job_rows()]] = True
        self._requested: Ints = ledger.queue_allocated + ledger.queue_pending
        self._inqueue = claims.asked_by_admitted(self.cluster)
        self.deserved = self._fill(self._requested)
        self._owed: Ints | None = None

    def queue_order(self, queue: QueueView) -> tuple[int, float]:
        """Higher priority first, then the smaller share of what is deserved."""
        held, deserved = queue.allocated.values, self.deserved[:, queue.row]
        with_share = deserved > 0
        return (-queue.priority, dominant_share(held[with_share], deserved[with_share]))

    def overused(self, queue: QueueView) -> Denial | None:
        """A queue that holds all that it deserves gets no further turn."""
        held, deserved = queue.allocated.values, self.deserved[:, queue.row]
        if (deserved > held).any():
            return None
        return Denial("share", f"queue {queue.name} holds all that it deserves: {self._list(deserved)}")

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Denial | None:
        """What a queue holds stays within what it deserves."""
        if not queue.is_open:
            return Denial("queue", f"queue {queue.name} is closed")
        return self._beyond(queue, task.request.values * count, count)

    def preemptive(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """A queue takes room from others only up to what it deserves."""
        asked = sum((task.request.values for task in tasks), start=np.zeros(len(self.cluster.axis), dtype=np.int64))
        return queue.is_open and self._beyond(queue, asked, 1) is None

    def entitled(self, queue: QueueView, claim: Resources) -> bool:
        """The share that a queue would deserve if its waiting jobs were admitted covers the claim."""
        if self._owed is None:
            self._owed = self._fill(self._requested + claims.asked_by_waiting(self.cluster))
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

    def job_enqueueable(self, job: JobView) -> Vote:
        """Whether the job's minimum fits what its queue may ever hold, beside what it holds and has promised."""
        queue = job.queue
        if not queue.is_open:
            return reject("queue", f"queue {queue.name} is closed: it takes no new jobs")
        least = job.min_resources
        if least is None:
            return PERMIT
        asked = least.values + queue.allocated.values + self._inqueue[:, queue.row] + queue.inqueue.values
        limit = self._limit[:, queue.row]
        short = claims.first_short(asked, limit, least.values, self.cluster.axis.index["pods"])
        if short is None:
            return PERMIT
        name = self.cluster.axis.names[short]
        has = quantity.text(name, int(limit[short]))
        wants = quantity.text(name, int(asked[short]))
        return reject(
            "quota", f"queue {queue.name} can hold {has} {name} at most: with this job it would have promised {wants}"
        )

    def _beyond(self, queue: QueueView, asked: Ints, count: int) -> Denial | None:
        held, pods = self.cluster.ledger.queue_allocated[:, queue.row], self.cluster.axis.index["pods"]
        deserved, limit = self.deserved[:, queue.row], self._limit[:, queue.row]
        beyond_share = claims.first_short(held + asked, deserved, asked, pods)
        if beyond_share is None:
            return None
        beyond_limit = claims.first_short(held + asked, limit, asked, pods)
        position = beyond_share if beyond_limit is None else beyond_limit
        name = self.cluster.axis.names[position]
        has, wants, share, most = (
            quantity.text(name, int(units[position])) for units in (held, asked // count, deserved, limit)
        )
        if beyond_limit is not None:
            sentence = f"queue {queue.name} may hold {most} {name} and holds {has}: {wants} more is too much"
            return Denial("capability", sentence)
        return Denial(
            "share", f"queue {queue.name} deserves {share} {name} and holds {has}: {wants} more is beyond its share"
        )

    def _list(self, units: Ints) -> str:
        names = self.cluster.axis.names
        shown = [f"{name} {quantity.text(name, int(value))}" for name, value in zip(names, units, strict=True) if value]
        return ", ".join(shown) or "nothing"

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
