"""The columns of a ledger. Each is copied from the snapshot, or computed from it, when it is first used.

Most sessions use few of them: where nothing waits, nothing is placed.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.model.job_tables import Objects
from volcanopy.scheduler.model.resources import Index, Ints, Mask, sums_by
from volcanopy.scheduler.model.snapshot import NONE, Snapshot

Statuses = NDArray[np.int8]


class LedgerColumns:
    """The columns of T tasks, N nodes, J jobs, K roles and Q queues with R resources."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    # Columns of tasks and nodes

    @cached_property
    def status(self) -> Statuses:
        """(T,): the status of each task."""
        return self.snapshot.tasks.status.copy()

    @cached_property
    def node(self) -> Index:
        """(T,): the row of the node of each task."""
        return self.snapshot.tasks.node.copy()

    @cached_property
    def releasing(self) -> Ints:
        """(R, N): what the pods on each node have that terminate."""
        return self.snapshot.nodes.releasing.values.copy()

    @cached_property
    def pipelined(self) -> Ints:
        """(R, N): what is reserved on each node for tasks that wait there."""
        return np.zeros_like(self.snapshot.nodes.releasing.values)

    @cached_property
    def is_plain(self) -> bool:
        """Whether idle and future are equal: no pod terminates, and no task waits for one, or did in this session."""
        return not self.snapshot.nodes.releasing.values.any()

    @cached_property
    def _sheet(self) -> Ints:
        """(3R + 2, N): used, idle, future and nonzero, so that what one placement changes of a node is one addition."""
        nodes, size = self.snapshot.nodes, len(self.snapshot.axis)
        sheet: Ints = np.empty((3 * size + 2, len(nodes)), dtype=np.int64)
        used, idle, future = (sheet[part * size : (part + 1) * size] for part in range(3))
        used[:] = nodes.used.values
        np.subtract(nodes.allocatable.values, used, out=idle)
        np.add(idle, nodes.releasing.values, out=future)
        sheet[3 * size :] = nodes.nonzero
        return sheet

    @cached_property
    def used(self) -> Ints:
        """(R, N): allocated to the tasks on each node."""
        return self._sheet[: len(self.snapshot.axis)]

    @cached_property
    def idle(self) -> Ints:
        """(R, N): allocatable and not used."""
        size = len(self.snapshot.axis)
        return self._sheet[size : 2 * size]

    @cached_property
    def future(self) -> Ints:
        """(R, N): idle once evicted pods have terminated and the tasks that wait for them are placed."""
        size = len(self.snapshot.axis)
        return self._sheet[2 * size : 3 * size]

    @cached_property
    def nonzero(self) -> Ints:
        """(2, N): as in :class:`~volcanopy.scheduler.model.snapshot.NodeTable`."""
        return self._sheet[3 * len(self.snapshot.axis) :]

    # Columns of jobs, roles and queues

    @cached_property
    def job_counts(self) -> Ints:
        """(statuses, J): tasks by status."""
        return self.snapshot.jobs.counts.copy()

    @cached_property
    def job_best_effort(self) -> Ints:
        """(J,): pending tasks that request nothing and have no scheduling gate."""
        return self.snapshot.jobs.best_effort.copy()

    @cached_property
    def job_allocated(self) -> Ints:
        """(R, J): allocated to the tasks of each job."""
        return self.snapshot.jobs.allocated.values.copy()

    @cached_property
    def role_counts(self) -> Ints:
        """(statuses, K): tasks by status."""
        return self.snapshot.roles.counts.copy()

    @cached_property
    def role_best_effort(self) -> Ints:
        """(K,): as ``job_best_effort``."""
        return self.snapshot.roles.best_effort.copy()

    @cached_property
    def phase(self) -> Objects:
        """(J,): the phase of each pod group."""
        return self.snapshot.jobs.phase.copy()

    @cached_property
    def unadmitted(self) -> Mask:
        """(J,): the jobs that are not admitted yet."""
        return self.snapshot.jobs.in_phase("Pending").copy()

    @cached_property
    def queue_allocated(self) -> Ints:
        """(R, Q): allocated to the own jobs of each queue."""
        return self.snapshot.jobs.queue_allocated.copy()

    @cached_property
    def tree_allocated(self) -> Ints:
        """(R, Q): allocated to each queue and the queues below it."""
        return self.snapshot.queues.rolled_up(self.snapshot.jobs.queue_allocated)

    @cached_property
    def queue_pending(self) -> Ints:
        """(R, Q): requested by the tasks of its own jobs that were pending when the session began and could be placed."""
        jobs, queues = self.snapshot.jobs, len(self.snapshot.queues)
        rows = jobs.unsettled_rows  # others have no pending tasks
        rows = rows[jobs.queue[rows] != NONE]
        return sums_by(jobs.queue[rows], jobs.pending.values[:, rows] - self.snapshot.gated[:, rows], queues)

    @cached_property
    def queue_inqueue(self) -> Ints:
        """(R, Q): the minimal resources of its own jobs that were enqueued in this session."""
        return np.zeros((len(self.snapshot.axis), len(self.snapshot.queues)), dtype=np.int64)

    @cached_property
    def tree_inqueue(self) -> Ints:
        """(R, Q): the same for each queue together with the queues below it."""
        return np.zeros((len(self.snapshot.axis), len(self.snapshot.queues)), dtype=np.int64)
