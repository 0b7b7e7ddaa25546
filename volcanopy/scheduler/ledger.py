"""The session's mutable columns: who is where, and all the sums that follow from it.

A ledger starts as a copy of its snapshot's columns. Every total that a policy may want is kept here once, per node, job,
role and queue; no plugin keeps its own books. Only :mod:`volcanopy.scheduler.statement` writes it, through
:meth:`Ledger.move` and :meth:`Ledger.place`, and each write can be taken back exactly.
"""

import numpy as np

from volcanopy.scheduler.resources import Columns, Ints, Rows
from volcanopy.scheduler.snapshot import NONE, Snapshot
from volcanopy.scheduler.status import HOLDING, ON_NODE, Status


class Ledger:
    """The state of a session that placing, evicting and admitting change."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        tasks, nodes, jobs, roles = snapshot.tasks, snapshot.nodes, snapshot.jobs, snapshot.roles
        axis = snapshot.axis
        self.status = tasks.status.copy()
        self.node = tasks.node.copy()
        self.used: Ints = nodes.used.values.copy()
        self.releasing: Ints = nodes.releasing.values.copy()
        self.pipelined: Ints = np.zeros_like(self.used)
        self.idle: Ints = nodes.allocatable.values - self.used
        self.future: Ints = self.idle + self.releasing
        self.nonzero: Ints = nodes.nonzero.copy()
        self.job_counts: Ints = jobs.counts.copy()
        self.job_best_effort: Ints = jobs.best_effort.copy()
        self.job_allocated: Ints = jobs.allocated.values.copy()
        self.role_counts: Ints = roles.counts.copy()
        self.role_best_effort: Ints = roles.best_effort.copy()
        self.phase = jobs.phase.copy()
        known = np.flatnonzero(jobs.queue != NONE)
        self.queue_allocated: Ints = np.zeros((len(axis), len(snapshot.queues)), dtype=np.int64)
        self.queue_pending: Ints = np.zeros_like(self.queue_allocated)
        np.add.at(self.queue_allocated.T, jobs.queue[known], jobs.allocated.values.T[known])
        np.add.at(self.queue_pending.T, jobs.queue[known], jobs.pending.values.T[known])
        self.tree_allocated: Ints = snapshot.queues.rolled_up(self.queue_allocated)
        """What each queue holds together with the queues below it."""
        self.queue_inqueue: Ints = np.zeros_like(self.queue_allocated)
        """What jobs that were enqueued in this session will ask for: their minimal resources."""
        self.tree_inqueue: Ints = np.zeros_like(self.queue_allocated)
        """The same for each queue together with the queues below it."""
        self.touched: list[int] = []
        """The nodes whose columns changed, in the order of the changes: what was asked of them before is stale."""
        self.evictions: dict[int, str] = {}
        """The tasks that this session evicts, each with the reason."""
        self._request = snapshot.shapes.request.values
        self._shape_nonzero = snapshot.shapes.nonzero
        self._best_effort = snapshot.shapes.best_effort

    def request(self, task: int) -> Ints:
        """The (R,) request of a task."""
        return self._request[:, self.snapshot.tasks.shape[task]]

    def move(self, task: int, status: Status, node: int = NONE) -> tuple[int, int]:
        """Give a task a status and a node; returns the status and node that it had."""
        before, node_before = int(self.status[task]), int(self.node[task])
        self._count(task, before, node_before, -1)
        self.status[task] = status
        self.node[task] = node
        self._count(task, int(status), node, +1)
        return before, node_before

    def place(self, tasks: Rows, nodes: Rows, status: Status) -> None:
        """Move pending tasks of one shape, role and job to nodes, all at once: as :meth:`move` for each would."""
        self._move_run(tasks, nodes, Status.PENDING, status, +1)
        self.status[tasks] = status
        self.node[tasks] = nodes

    def unplace(self, tasks: Rows, nodes: Rows, status: Status) -> None:
        """Take :meth:`place` back."""
        self._move_run(tasks, nodes, Status.PENDING, status, -1)
        self.status[tasks] = Status.PENDING
        self.node[tasks] = NONE

    def relabel(self, tasks: Rows, before: Status, after: Status) -> None:
        """Change the status of tasks of one job and role between statuses that hold the same room."""
        table, first = self.snapshot.tasks, int(tasks[0])
        job, role = int(table.job[first]), int(table.role[first])
        self.status[tasks] = after
        self.job_counts[before, job] -= len(tasks)
        self.job_counts[after, job] += len(tasks)
        if role != NONE:
            self.role_counts[before, role] -= len(tasks)
            self.role_counts[after, role] += len(tasks)

    def _move_run(self, tasks: Rows, nodes: Rows, before: Status, after: Status, sign: int) -> None:
        table, first = self.snapshot.tasks, int(tasks[0])
        shape, job, role = int(table.shape[first]), int(table.job[first]), int(table.role[first])
        request = self._request[:, shape]
        where, times = np.unique(nodes, return_counts=True)
        amounts = request[:, None] * (times * sign)[None, :]
        if after == Status.PIPELINED:
            self.pipelined[:, where] += amounts
            self.future[:, where] -= amounts
        else:
            self.used[:, where] += amounts
            self.idle[:, where] -= amounts
            self.future[:, where] -= amounts
            self.nonzero[:, where] += self._shape_nonzero[:, shape, None] * (times * sign)[None, :]
        self.touched.extend(where.tolist())
        count = len(tasks) * sign
        total = request * count
        self.job_counts[before, job] -= count
        self.job_counts[after, job] += count
        if role != NONE:
            self.role_counts[before, role] -= count
            self.role_counts[after, role] += count
        if self._best_effort[shape]:
            self.job_best_effort[job] -= count
            if role != NONE:
                self.role_best_effort[role] -= count
        queue = int(self.snapshot.jobs.queue[job])
        self.job_allocated[:, job] += total
        if queue != NONE:
            self._hold(queue, total)

    def _count(self, task: int, status: int, node: int, sign: int) -> None:
        table = self.snapshot.tasks
        shape, job = int(table.shape[task]), int(table.job[task])
        request = self._request[:, shape] * sign
        if node != NONE:
            if status == Status.PIPELINED:
                self.pipelined[:, node] += request
                self.future[:, node] -= request
            elif ON_NODE[status]:
                self.used[:, node] += request
                self.idle[:, node] -= request
                self.nonzero[:, node] += self._shape_nonzero[:, shape] * sign
                if status == Status.RELEASING:
                    self.releasing[:, node] += request
                else:
                    self.future[:, node] -= request
            self.touched.append(node)
        if job == NONE:
            return
        role, queue = int(table.role[task]), int(self.snapshot.jobs.queue[job])
        self.job_counts[status, job] += sign
        if role != NONE:
            self.role_counts[status, role] += sign
        if status == Status.PENDING and self._best_effort[shape]:
            self.job_best_effort[job] += sign
            if role != NONE:
                self.role_best_effort[role] += sign
        if HOLDING[status] or status == Status.PIPELINED:
            self.job_allocated[:, job] += request
            if queue != NONE:
                self._hold(queue, request)

    def _hold(self, queue: int, amount: Ints) -> None:
        self.queue_allocated[:, queue] += amount
        self.tree_allocated[:, self.snapshot.queues.lines[queue]] += amount[:, None]

    def promise(self, queue: int, amount: Ints) -> None:
        """Count what a job that is enqueued will ask for."""
        self.queue_inqueue[:, queue] += amount
        self.tree_inqueue[:, self.snapshot.queues.lines[queue]] += amount[:, None]

    def free(self, dims: Rows, nodes: Rows) -> Ints:
        """(dims, nodes): the room that can be taken now: idle, and not spoken for by tasks that wait for other room."""
        where = np.ix_(dims, nodes)
        return np.minimum(self.idle[where], self.future[where])

    def columns(self, values: Ints) -> Columns:
        """One of the ledger's tables with names."""
        return Columns(self.snapshot.axis, values)
