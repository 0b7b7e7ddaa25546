"""Jobs whose pods are being created: a mandatory plugin that leaves them what they would preempt for.

An admitted job gets its pods some moments later. With an action that preempts, pods of jobs of lower priority of its queue that
start meanwhile would be evicted at once. They wait until its pods exist or are gone (:meth:`.JobTable.blocked`), unless so
much is free that they cannot be in its way. Its pods are taken to be equal, and to run on every node without taints.
"""

from typing import ClassVar

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.shares.queue_quota import Limiter
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import reserved_for
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import READY, VALID
from volcanopy.scheduler.nodes.traits.taints import untolerated
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin, Rejection


def applies(snapshot: Snapshot) -> bool:
    """Whether pods of a job are or may be being created while pods of a job of lower priority wait."""
    jobs = snapshot.jobs
    waiting = jobs.priority[snapshot.tasks.job[snapshot.tasks.pending]]
    return bool(len(waiting)) and bool((jobs.priority[_lacking_pods(snapshot)] > waiting.min()).any())


def _lacking_pods(snapshot: Snapshot) -> Rows:
    """Return the jobs without pods on nodes of which fewer pods exist than their minimum, the first by priority first."""
    jobs, rows = snapshot.jobs, snapshot.jobs.unsettled_rows
    rows = rows[jobs.has_min_resources[rows] & jobs.grouped[rows] & ~snapshot.unreservable[rows]]
    counts = jobs.counts[:, rows]
    rows = rows[(counts[VALID].sum(axis=0) < jobs.min_available[rows]) & ~counts[READY].any(axis=0)]
    return rows[np.argsort(-jobs.priority[rows], kind="stable")]


class PodCreation(Plugin[NoArguments], Limiter):
    """No pod starts that an admitted job of higher priority would evict as soon as its pods are created."""

    name: ClassVar[str] = "podcreation"

    def open(self) -> None:
        """Get the ledger itself: limits are no answers about nodes, and what they read is not recorded."""
        self._ledger = self.cluster.reads.ledger

    @cached_property
    def _rows(self) -> Rows:
        snapshot = self._ledger.snapshot
        return _lacking_pods(snapshot) if self.cluster.queries.preempts else np.empty(0, dtype=np.intp)

    def limit_rejection(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Reject pods that would be in the way of the pods of an admitted job of higher priority in the queue."""
        rows, job = self._rows, task.job
        if not len(rows) or job is None or not task.preemptable or task.nominated != NONE:
            return None
        jobs = self._ledger.snapshot.jobs
        admitted = rows[self._ledger.phase[rows] == "Inqueue"]
        others = admitted[jobs.queue[admitted] != queue.row]
        rows = admitted[(jobs.queue[admitted] == queue.row) & (jobs.priority[admitted] > job.priority)]
        if not len(rows) or self.cluster.queries.comes_first(task.row):
            return None
        request = task.request.values * count
        if self._exceeds_limits(queue, job.row, rows, request):
            return self._rejection(int(rows[0]), Gate.CAPABILITY)
        blocked = self._without_nodes(others, rows, task.request.values, count)
        return None if blocked == NONE else self._rejection(blocked, Gate.NODES)

    def _exceeds_limits(self, queue: QueueView, job: int, rows: Rows, request: Ints) -> bool:
        """Return whether a limit of the queue or of the users does not allow the request beside the minima of these jobs."""
        snapshot, ledger = self._ledger.snapshot, self._ledger
        minima = snapshot.jobs.min_resources.values[:, rows]
        together = minima.sum(axis=1)
        counts = (request > 0) & (together > 0)
        line = queue.line
        used = ledger.tree_allocated[:, line] + (together + request)[:, None]
        if (counts[:, None] & (used > snapshot.queues.capability.values[:, line])).any():
            return True
        pools = ledger.pools
        if pools is None:
            return False
        for pool in pools.bounding[int(pools.kind[job])]:
            same = [pool in pools.bounding[int(kind)] for kind in pools.kind[rows].tolist()]
            most = minima[:, same].sum(axis=1)
            for (dim, limit), held in zip(pools.caps[pool].amounts, pools.held[pool], strict=True):
                if request[dim] and most[dim] and held + most[dim] + request[dim] > limit:
                    return True
        return False

    def _without_nodes(self, others: Rows, rows: Rows, request: Ints, count: int) -> int:
        """Return one of the jobs ``rows`` for whose pods the nodes may have too little left beside ``count`` pods; NONE if none.

        The pods of the jobs ``others`` may be created before.
        """
        jobs = self._ledger.snapshot.jobs
        free = np.where(self._usable, np.maximum(self._ledger.future, 0), 0)
        fits = (free >= request[:, None]).all(axis=0)
        for number, row in enumerate([*others.tolist(), *rows.tolist()]):
            pods = max(int(jobs.min_available[row]), 1)
            least = -(-jobs.min_resources.values[:, row] // pods)
            dims = np.flatnonzero(least)
            if not len(dims):
                continue
            slots = (free[dims] // least[dims, None]).min(axis=0)
            beside = (np.maximum(free[dims] - count * request[dims, None], 0) // least[dims, None]).min(axis=0)
            loss = int((slots - beside)[fits].max(initial=0))
            if number >= len(others) and int(slots.sum()) - loss * count < pods:
                return int(row)
            before = np.cumsum(slots) - slots
            free = free - np.clip(pods - before, 0, slots) * least[:, None]
        return NONE

    @cached_property
    def _usable(self) -> Mask:
        """(N,): the nodes without taints that are not cordoned."""
        nodes = self._ledger.snapshot.nodes.traits.objects
        usable = [not node.spec.unschedulable and untolerated((), node.spec) is None for node in nodes]
        return np.array(usable, dtype=np.bool_)

    def _rejection(self, row: int, gate: Gate) -> Rejection:
        return Rejection(gate, reserved_for(str(self._ledger.snapshot.jobs.keys[row]), are_created=False))
