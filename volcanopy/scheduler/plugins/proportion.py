"""proportion: queues share the cluster by weight."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.plugin import PERMIT, Denial, NoArguments, Plugin, Vote, reject
from volcanopy.scheduler.resources import Floats, Ints, Mask, dominant_share
from volcanopy.scheduler.status import HOLDING
from volcanopy.scheduler.views import JobView, QueueView, TaskView


class Proportion(Plugin[NoArguments]):
    """Each queue deserves a share of the cluster by weight: within its capability, above its guarantee, as far as it asks."""

    name: ClassVar[str] = "proportion"

    def open(self) -> None:
        """Fill the queues' shares like vessels."""
        snapshot = self.cluster.snapshot
        queues, jobs = snapshot.queues, snapshot.jobs
        total = snapshot.total
        guarantee = queues.guarantee.values
        room = np.maximum(total - guarantee.sum(axis=1), 0)[:, None] + guarantee
        self._limit: Ints = np.minimum(room, _capability(queues.capability.values, queues.capability_set))
        ledger = self.cluster.ledger
        rows = self.cluster.job_rows()
        active = np.zeros(len(queues), dtype=np.bool_)
        active[jobs.queue[rows]] = True
        requested = ledger.queue_allocated + ledger.queue_pending
        self._inqueue = self._asked_by_admitted()
        self.deserved: Ints = deserved_by_weight(total, queues.weight, requested, guarantee, self._limit, active)

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
        short = np.flatnonzero((least.values > 0) & (asked > limit))
        short = short[short != self.cluster.axis.index["pods"]]
        if not len(short):
            return PERMIT
        name = self.cluster.axis.names[short[0]]
        has = quantity.text(name, int(limit[short[0]]))
        wants = quantity.text(name, int(asked[short[0]]))
        return reject(
            "quota", f"queue {queue.name} can hold {has} {name} at most: with this job it would have promised {wants}"
        )

    def _beyond(self, queue: QueueView, asked: Ints, count: int) -> Denial | None:
        held, deserved = self.cluster.ledger.queue_allocated[:, queue.row], self.deserved[:, queue.row]
        over = (asked > 0) & (held + asked > deserved)
        over[self.cluster.axis.index["pods"]] = False
        if not over.any():
            return None
        position = int(np.flatnonzero(over)[0])
        name = self.cluster.axis.names[position]
        has, wants = (quantity.text(name, int(units[position])) for units in (held, asked // count))
        share = quantity.text(name, int(deserved[position]))
        return Denial(
            "share", f"queue {queue.name} deserves {share} {name} and holds {has}: {wants} more is beyond its share"
        )

    def _list(self, units: Ints) -> str:
        names = self.cluster.axis.names
        shown = [f"{name} {quantity.text(name, int(value))}" for name, value in zip(names, units, strict=True) if value]
        return ", ".join(shown) or "nothing"

    def _asked_by_admitted(self) -> Ints:
        """(R, Q): what admitted jobs may still ask for, less what elastic jobs hold beyond their minimum."""
        snapshot = self.cluster.snapshot
        jobs = snapshot.jobs
        least, held = jobs.min_resources.values, jobs.allocated.values
        running = jobs.counts[HOLDING].sum(axis=0)
        admitted = (jobs.phase == "Inqueue") | ((jobs.phase == "Running") & (running >= jobs.min_available))
        rest = np.where(admitted & jobs.has_min_resources, np.maximum(least - held, 0), 0)
        elastic = np.where(jobs.has_min_resources, np.maximum(held - least, 0), held)
        sums = np.zeros((len(snapshot.axis), len(snapshot.queues)), dtype=np.int64)
        rows = self.cluster.job_rows()
        np.add.at(sums.T, jobs.queue[rows], (rest - elastic).T[rows])
        return sums


def _capability(values: Ints, given: Mask) -> Ints:
    """Capability with what is not given, and cpu or memory of zero, as no limit."""
    unlimited = ~given
    unlimited[:2] |= values[:2] <= 0
    capability: Ints = np.where(unlimited, np.iinfo(np.int64).max // 2, values)
    return capability


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
