"""Lending: what queues may be allocated beyond their fair shares.

1. A queue below its share claims the rest of it for its waiting jobs, admitted or not: for those that fit into the rest, and
   at most what is free on nodes that their pods may use; not for those that wait for a reservation, which cannot use it now.
   If pods can be reclaimed, it claims the rest for each job that its whole share covers, whatever waits for a reservation:
   otherwise what is lent would be reclaimed as soon as its other jobs end. Of the queues with
   larger jobs only the first claims for them: several would keep the cluster idle for one another. What this session's
   evictions free is not claimed: it is for the jobs that they are for, which must not evict more so as to leave it free.
2. Other queues may be allocated the free resources that no claim covers.
3. A job with a known run time is backfilled beyond that, without regard to the claims of queues that have reserved nodes for
   a job: their jobs had the first choice in this cycle and cannot use what is left now, and the reservation keeps its start.
   Not where pods can be reclaimed: what is lent would be taken back.
"""

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.queue_demand import held_queues
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.run_times import shortest
from volcanopy.scheduler.model.snapshot import NONE, TaskTable
from volcanopy.scheduler.model.task_status import READY, Status


class Lending:
    """The claims of queues below their fair shares; computed at first use, when they have been allocated what fits."""

    def __init__(self, cluster: Cluster, fair_share: Ints) -> None:
        """``fair_share`` (R, Q) is the share of each queue's own jobs."""
        self._cluster, self._fair_share = cluster, fair_share
        self._pods = cluster.axis.index["pods"]

    def lends(self, queue: int, task: TaskView, count: int) -> bool:
        """Return whether ``count`` tasks equal to this one of a queue leave what the other queues claim."""
        request = task.request.values * count
        return self._leaves(request, self._sum - self._claims[:, queue]) or (
            self._is_backfilled[task.row]
            and self._leaves(request, self._unprotected.sum(axis=1) - self._unprotected[:, queue])
        )

    def _leaves(self, request: Ints, others: Ints) -> bool:
        """Return whether an (R,) request leaves (R,) claims of others free."""
        requested = (request > 0) & (others > 0)
        requested[self._pods] = False
        if not requested.any():
            return True
        return bool((self._free[requested] - request[requested] >= others[requested]).all())

    @property
    def _free(self) -> Ints:
        """(R,): what is free, or will be when terminating pods are gone."""
        return np.maximum(self._cluster.ledger.future, 0).sum(axis=1)

    @cached_property
    def _is_backfilled(self) -> Mask:
        """(T,): the tasks of jobs with a known run time, where nothing is reclaimed."""
        tasks, jobs = self._cluster.snapshot.tasks, self._cluster.snapshot.jobs
        known = (shortest(jobs.walltime, jobs.estimate)[tasks.job] > 0) | (tasks.runtime > 0)
        return known & (tasks.job != NONE) & (not self._cluster.queries.reclaims)

    @cached_property
    def _unprotected(self) -> Ints:
        """(R, Q): the claims of queues without reserved nodes."""
        snapshot = self._cluster.snapshot
        protected = np.zeros(len(snapshot.queues), dtype=np.bool_)
        protected[snapshot.jobs.queue[list(self._cluster.queries.jobs_with_reserved_nodes())]] = True
        return np.where(protected, 0, self._claims)

    @cached_property
    def _sum(self) -> Ints:
        return self._claims.sum(axis=1)

    @cached_property
    def _claims(self) -> Ints:
        """(R, Q): the claims."""
        cluster, ledger = self._cluster, self._cluster.ledger
        jobs, queues = cluster.snapshot.jobs, cluster.snapshot.queues
        rows = cluster.job_rows()
        has_pending = ledger.job_counts[Status.PENDING, rows] > 0
        unmade = (jobs.in_phase("Pending") | jobs.in_phase("Inqueue"))[rows]  # it may have no pods yet
        waits = (has_pending | unmade) & ~cluster.queries.unplaceable()[rows]
        rows = rows[waits & (queues.is_open & ~held_queues(queues))[jobs.queue[rows]]]
        evicted = np.array(list(ledger.evictions), dtype=np.intp)
        before = ledger.queue_allocated.copy()
        np.add.at(before.T, jobs.queue[cluster.snapshot.tasks.job[evicted]], cluster.snapshot.requests(evicted).T)
        room = np.maximum(self._fair_share - before, 0)
        allocated = ledger.job_allocated[:, rows]
        pending = jobs.allocated.values[:, rows] + jobs.pending.values[:, rows] - cluster.snapshot.gated[:, rows]
        pending = np.maximum(pending - allocated, 0)
        ready = ledger.job_counts[np.flatnonzero(READY)][:, rows].sum(axis=0) >= jobs.min_available[rows]
        minimum = np.maximum(jobs.min_resources.values[:, rows] - allocated, 0)
        lacking = np.where(minimum.any(axis=0), minimum, pending)
        # Where pods can be reclaimed, what is lent would be taken back for any job that the whole share covers.
        usable = self._fair_share if cluster.queries.reclaims else room
        fits = lacking <= usable[:, jobs.queue[rows]]
        fits[self._pods] = True
        can_use = fits.all(axis=0) | ready  # a job above its minimum grows pod by pod
        if not cluster.queries.reclaims:
            can_use &= ~cluster.queries.behind_reservations()[rows]
        elif not can_use.all():
            larger = map(cluster.queue, np.unique(jobs.queue[rows[~can_use]]).tolist())
            can_use |= jobs.queue[rows] == min(larger, key=cluster.queries.queue_key).row
        rows, lacking = rows[can_use], lacking[:, can_use]
        amounts = np.zeros_like(jobs.min_resources.values)
        amounts[:, rows] = lacking
        free = ledger.future.copy()
        np.subtract.at(free.T, ledger.node[evicted], cluster.snapshot.requests(evicted).T)
        return np.minimum(self._usable(amounts, rows, np.maximum(free, 0)), room)

    def _usable(self, amounts: Ints, rows: Rows, future: Ints) -> Ints:
        """(R, Q): the sums of these jobs' amounts by queue, those of pods of one shape at most what is free on their nodes.

        ``future`` (R, N) is what is free on each node.
        """
        cluster = self._cluster
        tasks = cluster.snapshot.tasks
        groups: dict[tuple[int, int], list[int]] = {}
        first: dict[int, int] = {}
        for row in rows.tolist():
            pending, shape = cluster.job(row).tasks(Status.PENDING), NONE
            if len(pending):
                task = _first(tasks, pending)
                shape = int(tasks.shape[task])
                if len(first) < defaults.COMPARED_SHAPES:
                    first.setdefault(shape, task)
            group = int(cluster.snapshot.jobs.queue[row]), shape if shape in first else NONE
            groups.setdefault(group, []).append(row)
        free = {
            shape: future[:, ~cluster.queries.infeasible_nodes(cluster.task(task))].sum(axis=1)
            for shape, task in first.items()
        }
        sums = np.zeros((len(amounts), len(cluster.snapshot.queues)), dtype=np.int64)
        for (queue, shape), members in groups.items():
            claimed = amounts[:, members].sum(axis=1)
            sums[:, queue] += np.minimum(claimed, free[shape]) if shape in free else claimed
        return sums


def _first(tasks: TaskTable, rows: Rows) -> int:
    """Return the first of some tasks of a job, whatever the order of arrival."""
    least = rows[tasks.ordinal[rows] == tasks.ordinal[rows].min()]
    return int(least[0]) if len(least) == 1 else int(min(least.tolist(), key=lambda row: str(tasks.keys[row])))
