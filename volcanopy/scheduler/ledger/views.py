"""Read-only views of tasks, jobs, roles and queues.

A view is a row number with a property for each column. It shows the ledger as it is at the time of the call.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.resources import Ints, Mask, Resources, Rows
from volcanopy.scheduler.model.snapshot import NONE, ShapeTable
from volcanopy.scheduler.model.task_status import HOLDING, PLACED, READY, SCHEDULED, VALID, Status

T = TypeVar("T")
_PENDING = (Status.PENDING,)
_READY: list[bool] = READY.tolist()
_READY_LATER: list[bool] = (READY | PLACED).tolist()  # With the tasks that wait for evicted pods to terminate.
_HOLDING: list[bool] = HOLDING.tolist()
_PLACED: list[bool] = PLACED.tolist()
_FEW = 256
"""Up to so many unsettled tasks are searched for those of a job."""


class RowView:
    """A row of the tables of tasks, roles, jobs or queues."""

    __slots__ = ("_ledger", "row")

    def __init__(self, ledger: Ledger, row: int) -> None:
        self._ledger = ledger
        self.row = row


def cell(convert: Callable[[Any], T], column: Callable[[Ledger], Any]) -> T:
    """Return a read-only property of a view: the value of its row in a column, as a Python value."""
    return cast("T", property(lambda view: convert(column(view._ledger)[view.row])))


def of_shape(column: Callable[[ShapeTable], Sequence[T]]) -> T:
    """Return a read-only property of a task: the value of its shape in a column."""
    return cast("T", property(lambda task: column(task._ledger.snapshot.shapes)[task.shape]))


def amounts(column: Callable[[Ledger], Ints]) -> Resources:
    """Return a read-only property of a view: a copy of the amounts of its row in a column."""

    def of_row(view: RowView) -> Resources:
        return Resources(view._ledger.snapshot.axis, column(view._ledger)[:, view.row].copy())

    return cast("Resources", property(of_row))


def total(statuses: Mask, counts: Callable[[Ledger], Ints]) -> int:
    """Return a read-only property of a view: how many tasks of its row have one of these statuses."""
    selected = statuses.tolist()
    return cast("int", property(lambda view: sum(compress(counts(view._ledger)[:, view.row].tolist(), selected))))


class TaskView(RowView):
    """A task: one pod of a job."""

    __slots__ = ()

    key = cell(str, attrgetter("snapshot.tasks.keys"))
    """``namespace/name`` of the pod."""

    @property
    def pod(self) -> core.Pod:
        """The pod itself, for what is not in a column."""
        return self._ledger.snapshot.tasks.pods[self.row]

    @property
    def tables(self) -> ShapeTable:
        """The table of all shapes."""
        return self._ledger.snapshot.shapes

    shape = cell(int, attrgetter("snapshot.tasks.shape"))
    """The number of the task's shape: equal for tasks of equal requests and constraints."""

    spec = of_shape(attrgetter("specs"))
    """A pod spec of the task's shape."""
    terms = of_shape(attrgetter("terms"))
    """Inter-pod affinity and spread terms of the task, if any."""
    matched = of_shape(attrgetter("matched"))
    """The numbers of the selectors that this task matches."""

    @property
    def best_effort(self) -> bool:
        """Whether the task requests nothing."""
        return bool(self._ledger.snapshot.shapes.best_effort[self.shape])

    @property
    def request(self) -> Resources:
        """The resources that the task requests."""
        return Resources(self._ledger.snapshot.axis, self._ledger.request(self.row))

    @property
    def nonzero(self) -> Ints:
        """(2,): cpu and memory requested, with kube-scheduler's defaults for containers that request none."""
        return self._ledger.snapshot.shapes.nonzero[:, self.shape]

    status = cell(Status, attrgetter("status"))
    """The current status."""
    node = cell(int, attrgetter("node"))
    """The row of the task's node, NONE without one."""
    nominated = cell(int, attrgetter("snapshot.tasks.nominated"))
    """The row of the node that the task is nominated to, NONE without one."""
    priority = cell(int, attrgetter("snapshot.tasks.priority"))
    """The task's priority within its job."""
    created = cell(float, attrgetter("snapshot.tasks.created"))
    """When the pod was created, in seconds."""
    ordinal = cell(int, attrgetter("snapshot.tasks.ordinal"))
    """The number that the pod's name ends with, NONE if there is none."""
    preemptable = cell(bool, attrgetter("snapshot.tasks.preemptable"))
    """Whether the pod may be evicted at all."""
    gated = cell(bool, attrgetter("snapshot.tasks.gated"))
    """Whether the pod has a scheduling gate."""
    role = cell(int, attrgetter("snapshot.tasks.role"))
    """The row of the task's role in its job, NONE without one."""

    @property
    def representative(self) -> "TaskView":
        """The task itself; of a kind of tasks one of them (:mod:`volcanopy.scheduler.ledger.task_kinds`)."""
        return self

    @property
    def job(self) -> "JobView | None":
        """The job that the task belongs to."""
        row = int(self._ledger.snapshot.tasks.job[self.row])
        return None if row == NONE else JobView(self._ledger, row)


class RoleView(RowView):
    """A role: one task template of a job."""

    __slots__ = ()

    name = cell(str, attrgetter("snapshot.roles.names"))
    """The template's name."""
    minimum = cell(int, attrgetter("snapshot.roles.minimum"))
    """How many tasks of it the job needs."""

    valid = total(VALID, attrgetter("role_counts"))
    """Tasks that exist and have not failed."""
    ready = total(READY, attrgetter("role_counts"))
    """Tasks that have a node or have succeeded."""
    best_effort_pending = cell(int, attrgetter("role_best_effort"))
    """Pending tasks that request nothing."""
    holding = total(HOLDING, attrgetter("role_counts"))
    """Tasks with allocated resources."""
    pending = cell(int, lambda ledger: ledger.role_counts[Status.PENDING])
    """Tasks without a node."""
    pipelined = cell(int, lambda ledger: ledger.role_counts[Status.PIPELINED])
    """Tasks that wait for evicted pods to terminate."""


class JobView(RowView):
    """A job: a pod group and its tasks. The definitions of ready, pipelined and starving are Volcano's."""

    __slots__ = ()

    key = cell(str, attrgetter("snapshot.jobs.keys"))
    """``namespace/name`` of the pod group."""

    @property
    def group(self) -> core.PodGroup:
        """The pod group itself, for what is not in a column."""
        return self._ledger.snapshot.jobs.groups[self.row]

    @property
    def queue(self) -> "QueueView":
        """The queue that the job is in."""
        return QueueView(self._ledger, int(self._ledger.snapshot.jobs.queue[self.row]))

    priority = cell(int, attrgetter("snapshot.jobs.priority"))
    """The value of the job's priority class."""
    created = cell(float, attrgetter("snapshot.jobs.created"))
    """When the pod group was created, in seconds."""
    phase = cell(str, attrgetter("phase"))
    """The pod group's phase, as this session has moved it."""
    min_available = cell(int, attrgetter("snapshot.jobs.min_available"))
    """How many tasks must run together."""
    preemptable = cell(bool, attrgetter("snapshot.jobs.preemptable"))
    """Whether the pod group is declared preemptable."""

    @property
    def min_resources(self) -> Resources | None:
        """What the gang needs to start, None if the pod group does not specify it."""
        if self.row in self._ledger.alternatives:
            return self._ledger.alternatives[self.row][1]
        jobs = self._ledger.snapshot.jobs
        return jobs.min_resources.row(self.row) if jobs.has_min_resources[self.row] else None

    @property
    def minimum_key(self) -> bytes | None:
        """Equal for jobs with equal :attr:`min_resources`; None if the pod group does not specify any."""
        return self._ledger.minimum_keys[self.row]

    @property
    def quota_resources(self) -> core.Quantities:
        """What the gang needs to start, with the names that ResourceQuotas count."""
        considered = self._ledger.alternatives.get(self.row)
        return (core.min_resources(self.group) if considered is None else considered[0].min_resources) or {}

    allocated = amounts(attrgetter("job_allocated"))
    """Allocated to the job's tasks, including those that wait for evicted pods to terminate."""

    @property
    def roles(self) -> list[RoleView]:
        """The job's task templates."""
        return [RoleView(self._ledger, row) for row in self._ledger.snapshot.jobs.roles[self.row]]

    @property
    def binding_roles(self) -> Sequence[RoleView]:
        """The roles whose minimum binds: all with one, unless the job needs fewer than their sum (Volcano's rule)."""
        if not self._ledger.snapshot.jobs.has_minima[self.row]:
            return ()
        roles = [role for role in self.roles if role.minimum > 0]
        return roles if self.min_available >= sum(role.minimum for role in roles) else ()

    def needed(self, tasks: Sequence[int]) -> list[int]:
        """Return which of these pending tasks its minimum needs, the first ones: those for the minima of roles, then others."""
        lacking = {role.row: role.minimum - role.ready - role.pipelined for role in self.binding_roles}
        role_of = self._ledger.snapshot.tasks.role
        chosen: list[int] = []
        for row in tasks if lacking else ():
            role = int(role_of[row])
            if lacking.get(role, 0) > 0:
                lacking[role] -= 1
                chosen.append(row)
        of_roles = set(chosen)
        rest = [row for row in tasks if row not in of_roles]
        return chosen + rest[: max(self.lacking - len(chosen), 0)]

    def count(self, *statuses: Status) -> int:
        """How many of the job's tasks have one of these statuses; all of them if none is named."""
        counts = self._ledger.job_counts[:, self.row].tolist()
        return sum([counts[status] for status in statuses]) if statuses else sum(counts)

    @property
    def tally(self) -> tuple[bytes, int, int]:
        """Equal for jobs with the same minimum and the same number of tasks of each status."""
        ledger = self._ledger
        row = self.row
        least, idle = ledger.snapshot.jobs.min_available[row], ledger.job_best_effort[row]
        return (ledger.job_counts[:, row].tobytes(), int(least), int(idle))

    ready_count = total(READY, attrgetter("job_counts"))
    """Tasks that have a node or have succeeded."""
    valid_count = total(VALID, attrgetter("job_counts"))
    """Tasks that count for the gang, or can still do so."""
    scheduled_count = total(SCHEDULED, attrgetter("job_counts"))
    """Tasks that are bound or finished according to the API server."""
    waiting_count = cell(int, lambda ledger: ledger.job_counts[Status.PIPELINED])
    """Tasks that wait for evicted pods to terminate."""
    unplaced_count = total(~(READY | PLACED), attrgetter("job_counts"))
    """Tasks that have no node and wait for no evicted pods to terminate, or that terminate or have failed."""
    best_effort_pending = cell(int, attrgetter("job_best_effort"))
    """Pending tasks that request nothing and have no scheduling gate: they can always follow."""

    @property
    def shortfall(self) -> int:
        """How many more tasks need a node for the gang to start; not positive if none does."""
        return self._missing(_READY, _HOLDING)

    @property
    def lacking(self) -> int:
        """As :attr:`shortfall`, with those that wait for evicted pods to terminate as if they had a node."""
        return self._missing(_READY_LATER, _PLACED)

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have a node for the gang to start; those that have ended are not enough while others wait."""
        return self.shortfall <= 0

    @property
    def is_pipelined(self) -> bool:
        """Whether the gang can start once evicted pods have terminated."""
        return self.lacking <= 0

    def _missing(self, ready: Sequence[bool], present: Sequence[bool]) -> int:
        """How many tasks the minimum lacks besides those in statuses ``ready``.

        One at least if some have ended, others wait and none is in a status ``present``: the gang runs again.
        """
        counts = self._ledger.job_counts[:, self.row].tolist()
        missing = self.min_available - sum(compress(counts, ready))
        runs_again = counts[Status.SUCCEEDED] > 0 < counts[Status.PENDING] and not any(compress(counts, present))
        return max(missing, 1) if runs_again else missing

    def tasks(self, *statuses: Status) -> Rows:
        """The rows of the job's tasks that have one of these statuses (of all of them if none is named)."""
        if statuses == _PENDING and not self._ledger.snapshot.is_sorted_by_job:
            rows = self._ledger.unsettled_tasks
            if len(rows) <= _FEW:  # so few that the tasks of the cluster need not be sorted by job
                rows = rows[self._ledger.snapshot.tasks.job[rows] == self.row]
                return rows[self._ledger.status[rows] == Status.PENDING.value]
        rows = self._ledger.snapshot.members(self.row)
        if not statuses:
            return rows
        named = np.zeros(len(Status), dtype=np.bool_)
        named[list(statuses)] = True
        return rows[named[self._ledger.status[rows]]]


class QueueView(RowView):
    """A queue."""

    __slots__ = ()

    name = cell(str, attrgetter("snapshot.queues.names"))
    """The queue's name."""

    @property
    def object(self) -> core.Queue | None:
        """The queue itself, None where jobs name a queue that does not exist."""
        return self._ledger.snapshot.queues.objects[self.row]

    created = cell(float, attrgetter("snapshot.queues.created"))
    """When the queue was created, in seconds."""
    priority = cell(int, attrgetter("snapshot.queues.priority"))
    """Larger comes first."""
    is_open = cell(bool, attrgetter("snapshot.queues.is_open"))
    """Whether the queue accepts jobs."""

    @property
    def in_turn(self) -> bool:
        """Whether the queue is FIFO: while its first job cannot be placed, no other is."""
        queue = self.object
        return queue is not None and queue.spec.dequeue_strategy == "fifo"

    @property
    def line(self) -> Rows:
        """The rows of this queue, its parent, the parent's parent and so on."""
        return self._ledger.snapshot.queues.lines[self.row]

    is_parent = cell(bool, attrgetter("snapshot.queues.is_parent"))
    """Whether other queues are below this one."""
    reclaimable = cell(bool, attrgetter("snapshot.queues.reclaimable"))
    """Whether other queues may reclaim from this one."""

    allocated = amounts(attrgetter("queue_allocated"))
    """Allocated to the queue's own jobs, including tasks that wait for evicted pods to terminate."""
    inqueue = amounts(attrgetter("queue_inqueue"))
    """The minimal resources of the jobs that were enqueued in this session."""


def with_jobs(tasks: Iterable[TaskView]) -> Iterator[tuple[TaskView, JobView]]:
    """Yield the tasks that belong to a job, each with its job."""
    yield from ((task, job) for task in tasks if (job := task.job) is not None)
