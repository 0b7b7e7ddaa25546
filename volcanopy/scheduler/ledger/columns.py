"""The columns of a ledger. Each is copied from the snapshot, or computed from it, when it is first used.

Most sessions use few of them: where nothing waits, nothing is placed.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.resources import Ints, sums_by
from volcanopy.scheduler.model.snapshot import NONE, Snapshot

T = TypeVar("T")
Statuses = NDArray[np.int8]


def column(compute: Callable[[Snapshot], T]) -> T:
    """Return a column that is computed from the snapshot when it is first used."""
    return cast("T", cached_property(lambda ledger: compute(ledger.snapshot)))


def _part_of_sheet(number: int) -> Ints:
    def part(ledger: "LedgerColumns") -> Ints:
        size = len(ledger.snapshot.axis)
        return ledger._sheet[number * size : (number + 1) * size]

    return cast("Ints", cached_property(part))


class LedgerColumns:
    """The columns of T tasks, N nodes, J jobs, K roles and Q queues with R resources."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    # Columns of tasks and nodes

    status = column(lambda snapshot: snapshot.tasks.status.copy())
    """(T,): the status of each task."""
    node = column(lambda snapshot: snapshot.tasks.node.copy())
    """(T,): the row of the node of each task."""
    releasing = column(lambda snapshot: snapshot.nodes.releasing.values.copy())
    """(R, N): what the pods on each node have that terminate."""
    pipelined = column(lambda snapshot: np.zeros_like(snapshot.nodes.releasing.values))
    """(R, N): what is reserved on each node for tasks that wait there."""
    is_plain = column(lambda snapshot: not snapshot.nodes.releasing.values.any())
    """Whether idle and future are equal: no pod terminates, and no task waits for one, or did in this session."""

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

    used, idle, future, nonzero = (_part_of_sheet(number) for number in range(4))
    """(R, N): allocated to the tasks on each node; allocatable and not used; idle once evicted pods have terminated and the tasks
    that wait for them are placed. (2, N): as in :class:`~volcanopy.scheduler.model.snapshot.NodeTable`.
    """

    # Columns of jobs, roles and queues

    job_counts = column(lambda snapshot: snapshot.jobs.counts.copy())
    """(statuses, J): tasks by status."""
    job_best_effort = column(lambda snapshot: snapshot.jobs.best_effort.copy())
    """(J,): pending tasks that request nothing and have no scheduling gate."""
    job_allocated = column(lambda snapshot: snapshot.jobs.allocated.values.copy())
    """(R, J): allocated to the tasks of each job."""
    role_counts = column(lambda snapshot: snapshot.roles.counts.copy())
    """(statuses, K): tasks by status."""
    role_best_effort = column(lambda snapshot: snapshot.roles.best_effort.copy())
    """(K,): as ``job_best_effort``."""
    phase = column(lambda snapshot: snapshot.jobs.phase.copy())
    """(J,): the phase of each pod group."""
    unadmitted = column(lambda snapshot: snapshot.jobs.in_phase("Pending").copy())
    """(J,): the jobs that are not admitted yet."""
    queue_allocated = column(lambda snapshot: snapshot.jobs.queue_allocated.copy())
    """(R, Q): allocated to the own jobs of each queue."""
    tree_allocated = column(lambda snapshot: snapshot.queues.rolled_up(snapshot.jobs.queue_allocated))
    """(R, Q): allocated to each queue and the queues below it."""

    @cached_property
    def queue_pending(self) -> Ints:
        """(R, Q): requested by the tasks of its own jobs that were pending when the session began and could be placed."""
        jobs, queues = self.snapshot.jobs, len(self.snapshot.queues)
        rows = jobs.unsettled_rows  # others have no pending tasks
        rows = rows[jobs.queue[rows] != NONE]
        return sums_by(jobs.queue[rows], jobs.pending.values[:, rows] - self.snapshot.gated[:, rows], queues)

    queue_inqueue = column(lambda snapshot: np.zeros((len(snapshot.axis), len(snapshot.queues)), dtype=np.int64))
    """(R, Q): the minimal resources of its own jobs that were enqueued in this session."""
    tree_inqueue = column(lambda snapshot: np.zeros((len(snapshot.axis), len(snapshot.queues)), dtype=np.int64))
    """(R, Q): the same for each queue together with the queues below it."""
