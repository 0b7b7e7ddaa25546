"""Read-only views of tasks, jobs, roles and queues.

A view is a row number with a property for each column. It shows the ledger as it is at the time of the call.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.resources import Ints, Resources, Rows
from volcanopy.scheduler.model.snapshot import NONE, ShapeTable, Terms
from volcanopy.scheduler.model.task_status import HOLDING, READY, SCHEDULED, VALID, Status

_READY: list[int] = np.flatnonzero(READY).tolist()
_VALID: list[int] = np.flatnonzero(VALID).tolist()
_HOLDING = np.flatnonzero(HOLDING)
_SCHEDULED = np.flatnonzero(SCHEDULED)


class TaskView:
    """A task: one pod of a job."""

    __slots__ = ("_ledger", "row")

    def __init__(self, ledger: Ledger, row: int) -> None:
        self._ledger = ledger
        self.row = row

    @property
    def key(self) -> str:
        """``namespace/name`` of the pod."""
        return str(self._ledger.snapshot.tasks.keys[self.row])

    @property
    def pod(self) -> core.Pod:
        """The pod itself, for what is not in a column."""
        pod: core.Pod = self._ledger.snapshot.tasks.pods[self.row]
        return pod

    @property
    def tables(self) -> ShapeTable:
        """The table of all shapes."""
        return self._ledger.snapshot.shapes

    @property
    def shape(self) -> int:
        """The number of the task's shape: equal for tasks of equal requests and constraints."""
        return int(self._ledger.snapshot.tasks.shape[self.row])

    @property
    def spec(self) -> core.PodSpec:
        """A pod spec of the task's shape."""
        return self._ledger.snapshot.shapes.specs[self.shape]

    @property
    def terms(self) -> Terms | None:
        """Inter-pod affinity and spread terms of the task, if any."""
        return self._ledger.snapshot.shapes.terms[self.shape]

    @property
    def matched(self) -> frozenset[int]:
        """The numbers of the selectors that this task matches."""
        return self._ledger.snapshot.shapes.matched[self.shape]

    @property
    def request(self) -> Resources:
        """The resources that the task requests."""
        return Resources(self._ledger.snapshot.axis, self._ledger.request(self.row))

    @property
    def nonzero(self) -> Ints:
        """(2,): cpu and memory requested, with kube-scheduler's defaults for containers that request none."""
        return self._ledger.snapshot.shapes.nonzero[:, self.shape]

    @property
    def best_effort(self) -> bool:
        """Whether the task requests nothing."""
        return bool(self._ledger.snapshot.shapes.best_effort[self.shape])

    @property
    def status(self) -> Status:
        """The current status."""
        return Status(int(self._ledger.status[self.row]))

    @property
    def node(self) -> int:
        """The row of the task's node, NONE without one."""
        return int(self._ledger.node[self.row])

    @property
    def nominated(self) -> int:
        """The row of the node that the task is nominated to, NONE without one."""
        return int(self._ledger.snapshot.tasks.nominated[self.row])

    @property
    def priority(self) -> int:
        """The task's priority within its job."""
        return int(self._ledger.snapshot.tasks.priority[self.row])

    @property
    def created(self) -> float:
        """When the pod was created, in seconds."""
        return float(self._ledger.snapshot.tasks.created[self.row])

    @property
    def ordinal(self) -> int:
        """The number that the pod's name ends with, NONE if there is none."""
        return int(self._ledger.snapshot.tasks.ordinal[self.row])

    @property
    def preemptable(self) -> bool:
        """Whether the pod may be evicted at all."""
        return bool(self._ledger.snapshot.tasks.preemptable[self.row])

    @property
    def gated(self) -> bool:
        """Whether the pod has a scheduling gate."""
        return bool(self._ledger.snapshot.tasks.gated[self.row])

    @property
    def role(self) -> int:
        """The row of the task's role in its job, NONE without one."""
        return int(self._ledger.snapshot.tasks.role[self.row])

    @property
    def job(self) -> "JobView | None":
        """The job that the task belongs to."""
        row = int(self._ledger.snapshot.tasks.job[self.row])
        return None if row == NONE else JobView(self._ledger, row)


class RoleView:
    """A role: one task template of a job."""

    __slots__ = ("_ledger", "row")

    def __init__(self, ledger: Ledger, row: int) -> None:
        self._ledger = ledger
        self.row = row

    @property
    def name(self) -> str:
        """The template's name."""
        return self._ledger.snapshot.roles.names[self.row]

    @property
    def minimum(self) -> int:
        """How many tasks of it the job needs."""
        return int(self._ledger.snapshot.roles.minimum[self.row])

    @property
    def valid(self) -> int:
        """Tasks that exist and have not failed."""
        return int(self._ledger.role_counts[_VALID, self.row].sum())

    @property
    def ready(self) -> int:
        """Tasks that have a node, have succeeded, or request nothing and have no scheduling gate."""
        ledger = self._ledger
        return int(ledger.role_counts[_READY, self.row].sum() + ledger.role_best_effort[self.row])

    @property
    def holding(self) -> int:
        """Tasks with allocated resources."""
        return int(self._ledger.role_counts[_HOLDING, self.row].sum())

    @property
    def pending(self) -> int:
        """Tasks without a node."""
        return int(self._ledger.role_counts[Status.PENDING, self.row])

    @property
    def pipelined(self) -> int:
        """Tasks that wait for evicted pods to terminate."""
        return int(self._ledger.role_counts[Status.PIPELINED, self.row])


class JobView:
    """A job: a pod group and its tasks. The definitions of ready, pipelined and starving are Volcano's."""

    __slots__ = ("_ledger", "row")

    def __init__(self, ledger: Ledger, row: int) -> None:
        self._ledger = ledger
        self.row = row

    @property
    def key(self) -> str:
        """``namespace/name`` of the pod group."""
        return str(self._ledger.snapshot.jobs.keys[self.row])

    @property
    def group(self) -> core.PodGroup:
        """The pod group itself, for what is not in a column."""
        group: core.PodGroup = self._ledger.snapshot.jobs.groups[self.row]
        return group

    @property
    def queue(self) -> "QueueView":
        """The queue that the job is in."""
        return QueueView(self._ledger, int(self._ledger.snapshot.jobs.queue[self.row]))

    @property
    def priority(self) -> int:
        """The value of the job's priority class."""
        return int(self._ledger.snapshot.jobs.priority[self.row])

    @property
    def created(self) -> float:
        """When the pod group was created, in seconds."""
        return float(self._ledger.snapshot.jobs.created[self.row])

    @property
    def phase(self) -> str:
        """The pod group's phase, as this session has moved it."""
        return str(self._ledger.phase[self.row])

    @property
    def min_available(self) -> int:
        """How many tasks must run together."""
        return int(self._ledger.snapshot.jobs.min_available[self.row])

    @property
    def preemptable(self) -> bool:
        """Whether the pod group is declared preemptable."""
        return bool(self._ledger.snapshot.jobs.preemptable[self.row])

    @property
    def min_resources(self) -> Resources | None:
        """What the gang needs to start, None if the pod group does not specify it."""
        jobs = self._ledger.snapshot.jobs
        return jobs.min_resources.row(self.row) if jobs.has_min_resources[self.row] else None

    @property
    def allocated(self) -> Resources:
        """Allocated to the job's tasks, including those that wait for evicted pods to terminate."""
        return Resources(self._ledger.snapshot.axis, self._ledger.job_allocated[:, self.row].copy())

    @property
    def roles(self) -> list[RoleView]:
        """The job's task templates."""
        return [RoleView(self._ledger, row) for row in self._ledger.snapshot.jobs.roles[self.row]]

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

    @property
    def ready_count(self) -> int:
        """Tasks that have a node or have succeeded."""
        counts = self._ledger.job_counts[:, self.row].tolist()
        return sum([counts[status] for status in _READY])

    @property
    def valid_count(self) -> int:
        """Tasks that count for the gang, or can still do so."""
        counts = self._ledger.job_counts[:, self.row].tolist()
        return sum([counts[status] for status in _VALID])

    @property
    def scheduled_count(self) -> int:
        """Tasks that are bound or finished according to the API server."""
        return int(self._ledger.job_counts[_SCHEDULED, self.row].sum())

    @property
    def waiting_count(self) -> int:
        """Tasks that wait for evicted pods to terminate."""
        return int(self._ledger.job_counts[Status.PIPELINED, self.row])

    @property
    def best_effort_pending(self) -> int:
        """Pending tasks that request nothing and have no scheduling gate: they can always follow."""
        return int(self._ledger.job_best_effort[self.row])

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have a node for the gang to start."""
        return self.ready_count + self.best_effort_pending >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether the gang can start once evicted pods have terminated."""
        return self.waiting_count + self.ready_count + self.best_effort_pending >= self.min_available

    @property
    def is_starving(self) -> bool:
        """Whether the gang lacks members even with those that wait for evicted pods to terminate."""
        return self.waiting_count + self.ready_count < self.min_available

    def tasks(self, *statuses: Status) -> Rows:
        """The rows of the job's tasks that have one of these statuses (of all of them if none is named)."""
        rows = self._ledger.snapshot.members(self.row)
        return rows[np.isin(self._ledger.status[rows], statuses)] if statuses else rows


class QueueView:
    """A queue."""

    __slots__ = ("_ledger", "row")

    def __init__(self, ledger: Ledger, row: int) -> None:
        self._ledger = ledger
        self.row = row

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._ledger.snapshot.queues.names[self.row]

    @property
    def object(self) -> core.Queue | None:
        """The queue itself, None where jobs name a queue that does not exist."""
        return self._ledger.snapshot.queues.objects[self.row]

    @property
    def created(self) -> float:
        """When the queue was created, in seconds."""
        return float(self._ledger.snapshot.queues.created[self.row])

    @property
    def priority(self) -> int:
        """Larger comes first."""
        return int(self._ledger.snapshot.queues.priority[self.row])

    @property
    def is_open(self) -> bool:
        """Whether the queue accepts jobs."""
        return bool(self._ledger.snapshot.queues.is_open[self.row])

    @property
    def in_turn(self) -> bool:
        """Whether the queue is FIFO: while its first job cannot be placed, no other is."""
        queue = self.object
        return queue is not None and queue.spec.dequeue_strategy == "fifo"

    @property
    def line(self) -> Rows:
        """The rows of this queue, its parent, the parent's parent and so on."""
        return self._ledger.snapshot.queues.lines[self.row]

    @property
    def is_parent(self) -> bool:
        """Whether other queues are below this one."""
        return bool(self._ledger.snapshot.queues.is_parent[self.row])

    @property
    def reclaimable(self) -> bool:
        """Whether other queues may reclaim from this one."""
        return bool(self._ledger.snapshot.queues.reclaimable[self.row])

    @property
    def allocated(self) -> Resources:
        """Allocated to the queue's own jobs, including tasks that wait for evicted pods to terminate."""
        return Resources(self._ledger.snapshot.axis, self._ledger.queue_allocated[:, self.row].copy())

    @property
    def inqueue(self) -> Resources:
        """The minimal resources of the jobs that were enqueued in this session."""
        return Resources(self._ledger.snapshot.axis, self._ledger.queue_inqueue[:, self.row].copy())


def with_jobs(tasks: Iterable[TaskView]) -> Iterator[tuple[TaskView, JobView]]:
    """Yield the tasks that belong to a job, each with its job."""
    for task in tasks:
        job = task.job
        if job is not None:
            yield task, job
