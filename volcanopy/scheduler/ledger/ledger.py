"""The mutable columns of a session: the status and node of each task, and all sums that follow from them.

A ledger starts as a copy of its snapshot's columns. Every total that a policy needs is kept here once, per node, job, role and
queue. Only :mod:`volcanopy.scheduler.ledger.statement` writes it, through :meth:`Ledger.move` and :meth:`Ledger.move_all`, and
each write can be undone exactly.
"""

from collections.abc import Iterable

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.columns import LedgerColumns, Statuses
from volcanopy.scheduler.ledger.user_usage import Pools
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.job_tables import JobTable
from volcanopy.scheduler.model.resources import Index, Ints, Mask, Resources, Rows, frozen
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import COUNT, EVICTABLE, ON_NODE, PLACED, Status

_ON_NODE: list[bool] = ON_NODE.tolist()
_CLAIMS = PLACED.astype(np.int64)
"""By status: 1 if what the task requests counts as allocated to its job and queue."""
_CLAIMING: list[int] = _CLAIMS.tolist()
_EVICTABLE = np.tile(EVICTABLE, (COUNT, 1))
_EVICTABLE[Status.PENDING, Status.BINDING] = True
"""Which tasks may be victims, by the status in the snapshot and the status now: a task that this session binds may."""
_EVICTABLE = _EVICTABLE.ravel()  # numpy finds entries by one number several times as fast
_ALL = slice(None)
_FEW = 256
"""Up to so many rows are united as a set: that is quicker than to sort arrays."""


class Changes(list[int]):
    """Row numbers in the order of the changes to them, once for each change."""

    def since(self, change: int) -> Rows:
        """Return the rows of all changes but so many first ones."""
        return np.array(self[change:], dtype=np.intp)


class MinimumKeys(dict[int, bytes | None]):
    """By job, computed at first use: equal for equal minimal resources, None for a job that specifies none."""

    def __init__(self, jobs: JobTable) -> None:
        super().__init__()
        self._jobs = jobs

    def __missing__(self, job: int) -> bytes | None:
        has_minimum = self._jobs.has_min_resources[job]
        key = self[job] = self._jobs.min_resources.values[:, job].tobytes() if has_minimum else None
        return key


class Ledger(LedgerColumns):
    """The state of a session that placing, evicting and admitting change."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._taken: Ints = snapshot.shapes.taken
        """(S, 3R + 2): what a task of each shape adds to the sheet of its node."""
        self.admissions = 0
        """How many jobs were counted in ``queue_inqueue``."""
        self.touched = Changes()
        """The nodes whose columns changed, in the order of the changes."""
        self.moved = Changes()
        """The tasks whose status or node changed, in the order of the changes."""
        self.pools = Pools.of(snapshot)
        """The usage of users and groups that limits in queues apply to; None without such limits."""
        self.alternatives: dict[int, tuple[core.PodGroupAlternative, Resources]] = {}
        """The jobs that are considered with an alternative, which has this minimum."""
        self.minimum_keys = MinimumKeys(snapshot.jobs)
        self.evictions: dict[int, str] = {}
        """The tasks that this session evicts, each with the reason."""
        self._unsettled: tuple[int, Rows, Rows] | None = None
        self._request = snapshot.shapes.request.values
        self._requests: Ints = snapshot.shapes.requests
        self._are_best_effort: Mask = snapshot.shapes.best_effort
        self._best_effort: list[bool] = self._are_best_effort.tolist()
        self._lines = snapshot.queues.line_lists
        self._allocated_columns: dict[int, list[Ints]] = {}  # By job, as views that change with the session.
        for moved in snapshot.moves.pods:
            self.hold(moved.job, moved.node, moved.request)

    def consider(self, job: int, alternative: core.PodGroupAlternative) -> None:
        """Consider a job with an alternative from now on."""
        axis = self.snapshot.axis
        minimum = Resources(axis, axis.vector(pod_fields.countable(alternative.min_resources)))
        self.alternatives[job] = alternative, minimum
        self.minimum_keys[job] = minimum.values.tobytes()
        if self.pools is not None:
            gated, allocated = self.snapshot.gated[:, job], self.snapshot.jobs.allocated.values[:, job]
            self.pools.requested[:, job] = np.maximum(minimum.values - allocated - gated, 0)

    def request(self, task: int) -> Ints:
        """The (R,) request of a task."""
        return self._request[:, self.snapshot.tasks.shape[task]]

    @property
    def unsettled_tasks(self) -> Rows:
        """The rows, in order, of the tasks that were pending when the session began, or that it changed."""
        return self._unsettled_rows()[1]

    @property
    def unsettled_jobs(self) -> Rows:
        """The rows, in order, of the jobs that were unsettled when the session began, and of those with changed tasks."""
        return self._unsettled_rows()[2]

    def _unsettled_rows(self) -> tuple[int, Rows, Rows]:
        known, moves = self._unsettled, len(self.moved)
        if known is None or known[0] != moves:
            tasks, jobs = self.snapshot.tasks.pending, self.snapshot.jobs.unsettled_rows
            if moves:
                moved = self.moved.since(0)
                of_moved = self.snapshot.tasks.job[moved]
                tasks, jobs = _union(tasks, moved), _union(jobs, of_moved[of_moved != NONE])
            known = self._unsettled = (moves, tasks, jobs)
        return known

    @cached_property
    def _singles(self) -> Rows:
        snapshot = self.snapshot
        return frozen(np.arange(max(len(snapshot.tasks), len(snapshot.nodes), len(snapshot.jobs))))

    def is_new(self, tasks: Rows | int | slice) -> Mask:
        """(M,): which of these tasks have been pending until this session."""
        return self.snapshot.tasks.status[tasks] == Status.PENDING

    def evictable(self, tasks: Rows | slice = _ALL) -> Mask:
        """(M,): which of these tasks may be victims: those that run or are bound, and those that this session binds."""
        return _EVICTABLE.take(self._first_evictable[tasks] + self.status[tasks])

    @cached_property
    def _first_evictable(self) -> Rows:
        """(T,): the first entry of ``_EVICTABLE`` for the status of each task in the snapshot."""
        return self.snapshot.tasks.status.astype(np.intp) * COUNT

    def single(self, row: int) -> Rows:
        """One row as an array of rows."""
        return self._singles[row : row + 1]

    def move(self, task: int, status: Status, node: int = NONE) -> tuple[int, int]:
        """Give a task a status and a node; returns the status and node that it had."""
        table = self.snapshot.tasks
        before, node_before, after = int(self.status[task]), int(self.node[task]), int(status)
        shape, job = int(table.shape[task]), int(table.job[task])
        # What it takes of its node stays: evictions are many.
        if node == node_before != NONE and _ON_NODE[before] and _ON_NODE[after]:
            if sign := (after == Status.RELEASING) - (before == Status.RELEASING):
                self._count_releasing(shape, node, sign)
            self.touched.append(node)
        else:
            if node_before != NONE:
                self._shift(shape, node_before, before, -1)
                self.touched.append(node_before)
            if node != NONE:
                self._shift(shape, node, after, +1)
                self.touched.append(node)
        self.status[task] = status
        self.node[task] = node
        self.moved.append(task)
        if job != NONE:
            self._count(job, int(table.role[task]), shape, before, after)
        return before, node_before

    def move_all(self, tasks: Rows, statuses: Statuses | Status, nodes: Rows) -> tuple[Statuses, Rows]:
        """Give each of some tasks a status and a node, as :meth:`move` for each would; returns what they had."""
        statuses = np.full(len(tasks), statuses, dtype=np.int8) if isinstance(statuses, Status) else statuses
        table = self.snapshot.tasks
        before, nodes_before = self.status[tasks], self.node[tasks].astype(np.intp)
        shapes, jobs, roles = table.shape[tasks].astype(np.intp), table.job[tasks], table.role[tasks]
        self._shift_all(shapes, nodes_before, before, -1)
        self._shift_all(shapes, nodes, statuses, +1)
        idle = (statuses == Status.PENDING).astype(np.int64) - (before == Status.PENDING)
        idle *= self._are_best_effort[shapes]
        for counts, best_effort, rows in (
            (self.job_counts, self.job_best_effort, jobs),
            (self.role_counts, self.role_best_effort, roles),
        ):
            known = rows != NONE
            np.add.at(counts, (before[known], rows[known]), -1)
            np.add.at(counts, (statuses[known], rows[known]), 1)
            np.add.at(best_effort, rows[known], idle[known])
        claims = _CLAIMS[statuses] - _CLAIMS[before]
        amounts = self._requests[shapes] * claims[:, None]
        for job in np.unique(jobs[(claims != 0) & (jobs != NONE)]).tolist():
            self._hold(job, amounts[jobs == job].sum(axis=0))
        self.status[tasks] = statuses
        self.node[tasks] = nodes
        self.moved.extend(tasks.tolist())
        return before, nodes_before

    def relabel(self, tasks: Rows, before: Status, after: Status) -> None:
        """Change the status of tasks of one job and role between statuses with the same resources of the node."""
        table, first = self.snapshot.tasks, int(tasks[0])
        self.status[tasks] = after
        self.moved.extend(tasks.tolist())
        self._recount(int(table.job[first]), int(table.role[first]), before, after, len(tasks))

    def _shift(self, shape: int, node: int, status: int, sign: int) -> None:
        """Count a task among those on a node, or no longer."""
        if _ON_NODE[status]:
            taken = self._taken[shape]
            self._sheet[:, node] += taken if sign > 0 else -taken
            if status != Status.RELEASING:
                return
        if status == Status.PIPELINED:
            request = self._requests[shape] * sign
            self.is_plain = False
            self.pipelined[:, node] += request
            self.future[:, node] -= request
        elif status == Status.RELEASING:
            self._count_releasing(shape, node, sign)

    def _count_releasing(self, shape: int, node: int, sign: int) -> None:
        """Count a task among those that terminate on a node, or no longer."""
        request = self._requests[shape] * sign
        self.is_plain = False
        self.releasing[:, node] += request
        self.future[:, node] += request

    def _shift_all(self, shapes: Rows, nodes: Rows, statuses: Statuses, sign: int) -> None:
        """Count tasks in these statuses among those on their nodes, or no longer; those without a node are left out."""
        placed = nodes != NONE
        if not placed.any():
            return
        self.touched.extend(nodes[placed].tolist())
        taking = placed & ON_NODE[statuses]
        np.add.at(self._sheet.T, nodes[taking], self._taken[shapes[taking]] * sign)
        for status, name, freed in ((Status.PIPELINED, "pipelined", -sign), (Status.RELEASING, "releasing", sign)):
            rows = (placed & (statuses == status)).nonzero()[0]
            if len(rows):
                self.is_plain = False
                requests, where = self._requests[shapes[rows]], nodes[rows]
                np.add.at(getattr(self, name).T, where, requests * sign)
                np.add.at(self.future.T, where, requests * freed)

    def _count(self, job: int, role: int, shape: int, before: int, after: int) -> None:
        self._recount(job, role, before, after, 1)
        if self._best_effort[shape]:
            idle = (after == Status.PENDING) - (before == Status.PENDING)
            self.job_best_effort[job] += idle
            if role != NONE:
                self.role_best_effort[role] += idle
        holds = _CLAIMING[after] - _CLAIMING[before]
        if holds:
            request = self._requests[shape]
            self._hold(job, request if holds > 0 else -request)

    def _recount(self, job: int, role: int, before: int, after: int, count: int) -> None:
        """Count some tasks of a job and a role in another status."""
        self.job_counts[before, job] -= count
        self.job_counts[after, job] += count
        if role != NONE:
            self.role_counts[before, role] -= count
            self.role_counts[after, role] += count

    def _hold(self, job: int, amount: Ints) -> None:
        """Count an amount as allocated to a job, its queue and the queues above."""
        columns = self._allocated_columns.get(job)
        if columns is None:
            queue = int(self.snapshot.jobs.queue[job])
            columns = self._allocated_columns[job] = [self.job_allocated[:, job]]
            if queue != NONE:
                columns += [
                    self.queue_allocated[:, queue],
                    *[self.tree_allocated[:, row] for row in self._lines[queue]],
                ]
        if self.pools is not None:
            self.pools.hold(job, amount)
        for column in columns:
            np.add(column, amount, out=column)

    def hold(self, job: int, node: int, amount: Ints) -> None:
        """Reserve an amount of a node for a job, as for a task that waits there; a negative amount to end it."""
        self.is_plain = False
        self.pipelined[:, node] += amount
        self.future[:, node] -= amount
        self.touched.append(node)
        self._hold(job, amount)

    def admit(self, job: int, *, is_admitted: bool = True) -> None:
        """Count a job as admitted, or no longer."""
        self.phase[job], self.unadmitted[job] = "Inqueue" if is_admitted else "Pending", not is_admitted
        if self.pools is not None:
            self.pools.admit(job, is_admitted)

    def reserve(self, queue: int, amount: Ints) -> None:
        """Count the minimal resources of a job that is enqueued."""
        self.admissions += 1
        self.queue_inqueue[:, queue] += amount
        self.tree_inqueue[:, self.snapshot.queues.lines[queue]] += amount[:, None]

    def positions_of(self, resources: Iterable[int]) -> Rows:
        """Return where the columns of nodes have what :meth:`columns_of` reads: amounts of these resources, and ``nonzero``."""
        size = len(self.snapshot.axis)
        amounts = sorted(part * size + resource for part in range(3) for resource in resources)
        return np.array([*amounts, 3 * size, 3 * size + 1], dtype=np.intp)

    def columns_of(self, node: int, positions: Rows) -> bytes:
        """Return a key that is equal for nodes with the same allocatable, used and future amounts there."""
        return self._sheet[:, node].take(positions).tobytes()

    def free(self, dims: Rows, nodes: Rows) -> Ints:
        """(dims, nodes): the resources that can be allocated now: idle, and not needed by pipelined tasks."""
        where = dims[:, None], nodes
        return self.idle[where] if self.is_plain else np.minimum(self.idle[where], self.future[where])

    def free_of(self, nodes: Rows) -> Ints:
        """(R, M): as :meth:`free`, of every resource."""
        idle = self.idle.take(nodes, axis=1, mode="clip")
        return idle if self.is_plain else np.minimum(idle, self.future.take(nodes, axis=1, mode="clip"))


def _union(rows: Rows, others: Rows | Index) -> Rows:
    """Return the rows that are in one of two arrays, in order."""
    if len(rows) + len(others) > _FEW:
        return np.union1d(rows, others)
    return np.array(sorted({*rows.tolist(), *others.tolist()}), dtype=np.intp)
