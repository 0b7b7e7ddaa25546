"""The cost of evictions, one definition for every action that selects victims.

Compared are, one after the other:

1. how many queues fall below their fair share that were above it (:class:`ShareLosses`)
2. the class of the victims: the rule, the rank of their queue and their priority
3. how many gangs break
4. the lost work: the size of each evicted pod times the time that it has been running, evicted runs before that
   included, so that others are the next victims (:mod:`volcanopy.scheduler.model.eviction_record`)
5. the size of what is evicted: what frees more than is needed is larger
6. what the queues of the victims lack of their fair shares
7. the number of evicted pods, and the sum of the times that they have been running

The size of a pod is its dominant share of the cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.eviction_record import protected_since, run_began, running_seconds
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import READY, Status


class TaskCosts:
    """What the eviction of each task costs by itself."""

    def __init__(self, snapshot: Snapshot, rows: Rows) -> None:
        """``rows``: the tasks that could be evicted; of others nothing is computed."""
        self.size: Ints = _sizes(snapshot)[snapshot.tasks.shape]
        """(T,): the dominant share of each task in units of ``defaults.SIZE_UNIT``."""
        self.seconds: Ints = np.zeros(len(snapshot.tasks), dtype=np.int64)
        """(T,): how long each task has been running, evicted runs included; nothing where it starts in this session."""
        running = rows[snapshot.tasks.status[rows] != Status.PENDING]
        self.seconds[running] = running_seconds(snapshot, running)
        self.lost_work: Ints = self.size * self.seconds  # (T,): the work that is lost with each task.


def _sizes(snapshot: Snapshot) -> Ints:
    """(S,): the largest fraction of the cluster that tasks of each shape request of a resource; the number of pods is none."""
    total = snapshot.total.copy()
    total[snapshot.axis.index["pods"]] = 0
    counted = total > 0
    shares = snapshot.shapes.request.values[counted] / (total[counted, None] * defaults.SIZE_UNIT)
    return np.ceil(shares.max(axis=0, initial=0.0).clip(max=1 / defaults.SIZE_UNIT)).astype(np.int64)


VictimKeys = Callable[[Rows], Ints]  # (K, M): keys that order M tasks as victims before their priorities do.


@dataclass(frozen=True, eq=False)
class VictimOrder:
    """The order of all tasks that could be evicted, the cheapest first."""

    ranks: Ints  # (T,): the position of each by cost.
    classes: Ints  # (T,): the class of each: tasks of one class are equally important.


class ShareLosses:
    """The fair shares of queues that have more, and what is left of them when their tasks are evicted for another queue.

    A queue falls below its fair share of a resource if it was allocated more than that at the beginning of the action and is
    allocated less after the evictions. Resources of which it had no more than its share do not count: it lost them before, or
    there is enough of them. In a tree the same applies to the queue and its ancestors that are not also ancestors of the
    reclaiming queue.
    """

    def __init__(self, shares: QueueShares | None, ledger: Ledger, snapshot: Snapshot) -> None:
        """``shares``: None without a policy that computes any; then no queue loses any."""
        self._ledger, self._queues, self._total = ledger, snapshot.queues, snapshot.total
        self._fair_share = np.zeros_like(ledger.tree_allocated) if shares is None else shares.fair_share
        above = ledger.tree_allocated > self._fair_share
        above[snapshot.axis.index["pods"]] = False
        above[snapshot.total <= 0] = False
        self._kept: Ints = np.where(above, self._fair_share, 0)
        """(R, Q): the fair share of what queues have more of, else 0."""

    def lacking(self, queue: int, jobs: Rows) -> Floats:
        """(M,): the largest fraction of the cluster that a queue lacks of its fair share without each of these jobs."""
        counted = (self._total > 0) & (self._fair_share[:, queue] > 0)
        missing = (self._fair_share - self._ledger.tree_allocated)[counted, queue, None]
        missing = missing + self._ledger.job_allocated[counted][:, jobs]
        return (missing / self._total[counted, None]).max(axis=0, initial=0.0)

    def losers(self, victim: int, reclaimer: int) -> list[int]:
        """Return the queues that lose what is evicted in one queue for another, and may fall below their shares."""
        if victim == reclaimer:
            return []
        own = set(self._queues.lines[reclaimer].tolist())
        return [row for row in self._queues.lines[victim].tolist() if row not in own and self._kept[:, row].any()]

    def costs(self, lost: Mapping[int, Ints]) -> tuple[Ints, Floats]:
        """(C,) twice: how many queues fall below their shares, and the sum of the fractions of the cluster that they lack.

        ``lost``: for each queue the (C, R) amounts that it loses in C cases beside those that are evicted already.
        """
        count = len(next(iter(lost.values())))
        below, lacking = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.float64)
        for queue, amounts in lost.items():
            kept = self._kept[:, queue]
            dims = np.flatnonzero(kept)
            missing = np.maximum(kept[dims] - self._ledger.tree_allocated[dims, queue] + amounts[:, dims], 0)
            below += missing.any(axis=1)
            lacking += (missing / self._total[dims]).max(axis=1, initial=0.0)
        return below, lacking


class EvictionCosts(TaskCosts):
    """The costs of all tasks that could be evicted, as of the beginning of an action."""

    def __init__(self, session: Session) -> None:
        self._session = session
        table = session.snapshot.tasks
        takes_part = np.isin(table.job, session.job_rows)
        rows = np.flatnonzero(session.ledger.evictable() & table.preemptable & takes_part)
        super().__init__(session.snapshot, rows)
        self.rows: Rows = rows
        """The preemptable tasks with a node, of jobs that take part in the session, the cheapest first."""
        self.queue: NDArray[np.int32] = session.snapshot.jobs.queue[table.job]
        """(T,): the queue of each task; undefined for tasks without a job."""
        self.losses = ShareLosses(session.quotas.reported(), session.ledger, session.snapshot)
        """What queues lose of their fair shares."""
        self.rows = rows[np.argsort(self.order(None).ranks[rows])]

    @once
    def of_queue(self, queue: int) -> Rows:
        """Return those of ``rows`` in a queue."""
        return self.rows[self.queue[self.rows] == queue]

    def is_protected(self, rows: Rows) -> Mask:
        """(M,): which of these tasks started again within the cooldown of an eviction: they are not reclaimed."""
        tasks = self._session.snapshot.tasks
        return run_began(tasks, rows) >= self._protected_since[tasks.job[rows]]

    @cached_property
    def _protected_since(self) -> Floats:
        """(J,): since when tasks of each job must have started so as to be protected; infinite without an eviction."""
        snapshot = self._session.snapshot
        result: Floats = np.full(len(snapshot.jobs), np.inf)
        for row in np.unique(snapshot.tasks.job[self.rows]).tolist():
            since = protected_since(snapshot.jobs.groups[row].status, snapshot.now)
            if since is not None:
                result[row] = since.timestamp()
        return result

    def queue_ranks(self, reclaimer: QueueView) -> Ints:
        """(Q,): the order of queues as victims of a reclaiming queue, from 0; of equal ones their jobs are compared."""
        session, victims = self._session, np.unique(self.queue[self.rows]).tolist()
        keys = {row: session.queue_key(session.cluster.queue(row))[:-2] for row in victims}
        order = {row: session.quotas.victim_queue_order(session.cluster.queue(row), reclaimer) for row in keys}
        rows = sorted(keys, key=keys.__getitem__, reverse=True)
        rows.sort(key=order.__getitem__)
        queue_ranks, rank = np.zeros(len(session.snapshot.queues), dtype=np.int64), 0
        for row, previous in zip(rows, [*rows[:1], *rows[:-1]], strict=True):
            rank += (keys[row], order[row]) != (keys[previous], order[previous])
            queue_ranks[row] = rank
        return queue_ranks

    @once
    def order(self, keys: VictimKeys | None) -> VictimOrder:
        """Return the order of the rows by cost; sorted at the first use of ``keys``.

        Compared are the columns of ``keys``, if given, the priorities of job and task, lost work, size and time; of equals,
        tasks of younger jobs and the last tasks of a job come first.
        """
        snapshot, rows = self._session.snapshot, self.rows
        jobs = snapshot.tasks.job[rows]
        importance = np.stack([snapshot.jobs.priority[jobs], snapshot.tasks.priority[rows]]).astype(np.int64)
        if keys is not None:
            importance = np.concatenate([keys(rows), importance])
        classes, ranks = np.zeros((2, len(snapshot.tasks)), dtype=np.int64)
        classes[rows] = _ranked(importance)
        age = -snapshot.jobs.created[snapshot.tasks.job]
        of_tasks = (self._last_first, age, self.seconds, self.size, self.lost_work, classes)
        rows = rows[np.lexsort([key[rows] for key in of_tasks])]
        ranks[rows] = np.arange(len(rows))
        return VictimOrder(ranks, classes)

    @cached_property
    def _last_first(self) -> Ints:
        """(T,): the position of each of the rows in the order of tasks, the last one first; the same for all ``keys``."""
        positions = np.zeros(len(self._session.snapshot.tasks), dtype=np.int64)
        positions[self._session.ordered(self.rows)[::-1]] = np.arange(len(self.rows))
        return positions


def _ranked(columns: Ints) -> Ints:
    """(M,): the rank of each of M columns of numbers in lexicographic order; equal columns have equal ranks."""
    order = np.lexsort(columns[::-1])
    queue_ranks = np.zeros(len(order), dtype=np.int64)
    queue_ranks[order[1:]] = (columns[:, order[1:]] != columns[:, order[:-1]]).any(axis=0).cumsum()
    return queue_ranks


def breaks_new_gang(session: Session, rows: Sequence[int]) -> bool:
    """Return whether the eviction of these tasks of one job breaks a gang for which this session evicted others."""
    job, counts = int(session.snapshot.tasks.job[rows[0]]), session.ledger.job_counts
    if not counts[Status.PIPELINED, job]:
        return False
    evicted = sum(bool(READY[session.ledger.status[row]]) for row in rows)
    placed = counts[READY, job].sum() + counts[Status.PIPELINED, job]
    return bool(placed - evicted < session.snapshot.jobs.min_available[job])


def structured(session: Session) -> Mask:
    """(J,): the jobs with sub-groups, or with roles that have a minimum."""
    mask: Mask = session.snapshot.jobs.structured.copy()
    roles = session.snapshot.roles
    mask[roles.job[roles.minimum > 0]] = True
    return mask
