"""Read-only views of the cluster for plugins: nodes and tasks as columns, and everything else by name.

They show the session as it is at the time of the call.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

import numpy as np

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.reads import LedgerView, RecordedLedger, Scope
from volcanopy.scheduler.ledger.subjob_views import SubJobView, spanned
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.extender_port import Extender
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Axis, Columns, Floats, Ints, Mask, Resources, Rows, frozen
from volcanopy.scheduler.model.snapshot import NONE, Snapshot

T = TypeVar("T")


class TasksView:
    """A block of S tasks as columns of shape (S, 1), which broadcast against the (N,) columns of a :class:`NodesView`."""

    __slots__ = ("_computed", "_tasks", "nonzero", "request", "shapes")

    def __init__(self, tasks: Sequence[TaskView]) -> None:
        table, axis = tasks[0].tables, tasks[0].request.axis
        self._tasks = tuple(tasks)
        self._computed: dict[object, Any] = {}
        self.shapes: Rows = np.array([task.shape for task in tasks], dtype=np.intp)
        """(S,): the number of each task's shape."""
        # ``take`` gives each resource a contiguous column, which numpy broadcasts several times as fast.
        self.request = Columns(axis, table.request.values.take(self.shapes, axis=1)[:, :, None])
        """What each task requests."""
        self.nonzero: Ints = table.nonzero.take(self.shapes, axis=1)[:, :, None]
        """(2, S, 1): cpu and memory requested, with kube-scheduler's defaults for containers that request none."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[TaskView]:
        return iter(self._tasks)

    def once(self, owner: object, compute: "Callable[[TasksView], T]") -> T:
        """``compute(tasks)``, computed once for each owner: what follows from the tasks alone, however often they are scored."""
        if owner not in self._computed:
            self._computed[owner] = compute(self)
        return self._computed[owner]

    def each(self, score: Callable[[TaskView], Floats]) -> Floats:
        """(S, N): the (N,) scores of each task, for policies that need more of a task than its columns."""
        return np.stack([score(task) for task in self._tasks])


class NodeColumns(Columns):
    """Amounts of nodes that note in ``read`` the positions of the resources that were read."""

    __slots__ = ("_read", "_table")

    def __init__(self, axis: Axis, table: Ints, read: set[int]) -> None:
        self.axis, self._table, self._read = axis, table, read

    @property
    def values(self) -> Ints:  # type: ignore[override]
        """(R, M): all of them."""
        self._read.update(range(len(self._table)))
        return self._table

    def at(self, position: int) -> Ints:
        """The (M,) column of the resource at this position of the axis."""
        self._read.add(position)
        return self._table[position]

    def of(self, positions: Sequence[int]) -> Ints:
        """(P, M): the columns of the resources at these positions."""
        self._read.update(positions)
        return self._table.take(positions, axis=0)

    @property
    def cpu_and_memory(self) -> Ints:
        """(2, M): the first two resources of every axis."""
        self._read.update((0, 1))
        return self._table[:2]


class NodesView:
    """Some nodes, as columns.

    A row may be in a view several times, each time with another number of equal tasks counted as placed on it: this is how a run
    of equal tasks is scored in one call. A hook that reads only the columns need not care.
    """

    def __init__(self, ledger: Ledger, rows: Rows, task: TaskView | None = None, extra: Ints | None = None) -> None:
        self._ledger = ledger
        self._rows = rows
        self.without_limits = False
        """Whether ``reject`` leaves out the limits that ``domain_limits`` returns: then the engine checks them."""
        self.rows_read = False
        """Whether a hook read the row numbers: else its result follows from the columns alone."""
        self.read: set[int] = set()
        """The positions of the resources that a hook read: its result follows from these and ``nonzero``."""
        self._extra = None if task is None or extra is None else (task, extra)
        self._reads_nonzero = False

    def __len__(self) -> int:
        return len(self._rows)

    def forget(self) -> tuple[set[int], bool]:
        """Forget which resources and whether rows were read, and return it."""
        before = self.read.copy(), self.rows_read
        self.read.clear()
        self.rows_read = self._reads_nonzero = False
        return before

    @property
    def scope(self) -> Scope:
        """The scope of what was read of these columns."""
        return Scope.COLUMNS if self.read or self._reads_nonzero else Scope.STATIC

    @property
    def placed(self) -> Ints | int:
        """(M,): how many tasks equal to the one that is placed are counted on each node besides those of the ledger."""
        return 0 if self._extra is None else self._extra[1]

    @property
    def rows(self) -> Rows:
        """The row number of each node."""
        self.rows_read = True
        return self._rows

    @cached_property
    def allocatable(self) -> Columns:
        """Allocatable resources of each node."""
        return self._columns(self._of(self._ledger.snapshot.nodes.allocatable.values))

    def all_have(self, position: int) -> bool:
        """Whether every node of the cluster, not only of this view, has some of the resource at this position of the axis."""
        return self._ledger.snapshot.nodes.allocatable.everywhere[position]

    @cached_property
    def used(self) -> Columns:
        """Allocated to the tasks on each node."""
        return self._columns(self._with_extra(self._of(self._ledger.used), +1))

    @property
    def idle(self) -> Columns:
        """Allocatable and not used."""
        return self._columns(self._with_extra(self._of(self._ledger.idle), -1))

    @property
    def future_idle(self) -> Columns:
        """Idle once evicted pods have terminated and the tasks that wait for them are placed."""
        return self._columns(self._with_extra(self._of(self._ledger.future), -1))

    @property
    def nonzero(self) -> Ints:
        """(2, M): cpu and memory requested, with kube-scheduler's defaults for containers that request none."""
        self._reads_nonzero = True
        return self._nonzero

    @cached_property
    def _nonzero(self) -> Ints:
        nonzero = self._of(self._ledger.nonzero)
        return nonzero if self._extra is None else nonzero + self._extra[0].nonzero[:, None] * self._extra[1]

    def _columns(self, values: Ints) -> Columns:
        return NodeColumns(self._ledger.snapshot.axis, values, self.read)

    def _of(self, table: Ints) -> Ints:
        """Return the columns of these nodes. All rows are valid: the mode spares numpy a copy of them."""
        return table.take(self._rows, axis=1, mode="clip")

    def _with_extra(self, values: Ints, sign: int) -> Ints:
        if self._extra is None:
            return values
        return values + self._extra[0].request.values[:, None] * (sign * self._extra[1])


@dataclass(frozen=True)
class PluginQueries:
    """Combined results of all plugins of a session, for a plugin that depends on the others."""

    preempts: bool
    """Whether an action preempts pods of jobs of lower priority."""
    reclaims: bool
    """Whether an action reclaims pods from queues above their share."""
    unplaceable: Callable[[], Mask]
    """(J,): the jobs that cannot start and reserve nothing: too large, on no set of nodes, or with rejected pods."""
    lacking: Callable[[], Ints]
    """(R, J): what admitted jobs lack of their minimum, without gated pods and jobs that are too large."""
    infeasible_nodes: Callable[[TaskView], Mask]
    """(N,): the nodes on which the task cannot run, whatever is evicted there."""
    rejections: Callable[[TaskView, "NodesView"], Sequence[Any]]
    """The NodeRejections of the task by all plugins, as the session stands."""
    comes_first: Callable[[int], bool]
    """Whether the task is being placed for a running gang that lacks it: reservations of others do not apply."""
    within_limits: Callable[[QueueView, TaskView, int], Any]
    """A Rejection if so many more tasks equal to this one exceed the limits of the queue, else None."""
    within_share: Callable[[QueueView, TaskView, int], Any]
    """A Rejection if so many more tasks equal to this one exceed the fair share of the queue, else None."""
    reserved_as_first: Callable[[QueueView, Ints], bool]
    """Whether nodes are reserved for a (R,) request only while its queue is the first."""
    queue_key: Callable[[QueueView], tuple[Any, ...]]
    """The sort key of a queue."""
    job_keys: Callable[[Rows], list[tuple[Any, ...]]]
    """The sort keys of jobs within their queues."""
    overdue: Callable[[JobView], bool]
    """Whether the job must start as soon as possible."""
    behind_reservations: Callable[[], Mask]
    """(J,): the jobs that a reservation keeps from starting now: the one that it is for, or those behind it."""
    jobs_with_reserved_nodes: Callable[[], frozenset[int]]
    """The rows of the jobs with reserved nodes."""
    card_ranking: Any
    """The plugin that orders GPU cards (:class:`~volcanopy.scheduler.policy.roles.CardRanking`), None without any."""
    gpu_cards: Callable[[], Any]
    """The GPU cards of all nodes (:class:`~volcanopy.scheduler.ledger.gpu_cards.GpuCards`), None without any."""
    claim_preferences: Callable[[TaskView, Rows], Floats | None]
    """How preferred what the claims of the task get on each node is, 0 to 100; None where they have no preference."""
    preemptable: Callable[[TaskView, Sequence[int]], list[int]]
    """Those of some tasks of its queue, in this order, that the task may preempt."""


class Cluster:
    """All that a plugin may read: the tables of the snapshot, and views of the current state of the session."""

    queries: PluginQueries
    """The other plugins; not available in ``open``."""
    admission = False
    """Whether queues are ordered for admission: what admitted jobs lack of their minimum counts as allocated."""

    def __init__(self, ledger: Ledger, extender: Extender | None = None) -> None:
        self.reads = RecordedLedger(ledger)
        """Records what plugins read of the session."""
        self.ledger = LedgerView(self.reads)
        """The session's columns over all rows, read-only."""
        self._ledger = cast("Ledger", self.reads)
        self.snapshot: Snapshot = ledger.snapshot
        """The frozen tables."""
        self.axis: Axis = ledger.snapshot.axis
        """The resources that are counted."""
        self.now: datetime = ledger.snapshot.now
        """The time of the snapshot."""
        self.traits: NodeTraits = ledger.snapshot.nodes.traits
        """Labels, taints and images of the nodes, with a memo that is valid as long as they do not change."""
        self.extender = extender
        """Asks a program outside; None where nothing outside may be asked."""
        self.packs_resources: Callable[[], bool] = lambda: False
        """Whether a plugin decides which resources of nodes are filled first; not available in ``open``."""

    @property
    def total(self) -> Resources:
        """The sum of the allocatable resources of all nodes."""
        return Resources(self.axis, self.snapshot.total)

    @contextmanager
    def by_state(self, nodes: NodesView, state: object) -> Iterator[None]:
        """Within, read what follows from the columns of the nodes and from ``state``, the ``node_state`` of the policy if any."""
        if state is None:
            yield
            return
        rows_read = nodes.rows_read
        with self.reads.counted_as(Scope.STATE):
            yield
        nodes.rows_read = rows_read

    def task(self, row: int) -> TaskView:
        """Return one task."""
        return TaskView(self._ledger, row)

    def tasks(self, rows: Iterable[int]) -> list[TaskView]:
        """Return some tasks."""
        ledger = self._ledger
        return [TaskView(ledger, row) for row in rows]

    def job(self, row: int) -> JobView:
        """Return one job."""
        return JobView(self._ledger, row)

    def parts(self, job: JobView) -> tuple[SubJobView, ...]:
        """Return the sub-groups of a job in the order of their keys; a job without sub-groups is one itself."""
        if not job.group.spec.sub_group_policy:
            return (SubJobView(self._ledger, job, NONE, job.tasks()),)
        marks = self.snapshot.parts(job.row).items()
        parts = [SubJobView(self._ledger, job, mark, rows) for mark, rows in marks]
        return tuple(sorted(parts, key=lambda part: (part.number, part.key)))

    def part_of(self, task: TaskView) -> SubJobView | None:
        """Return a task's sub-group."""
        job = task.job
        if job is None:
            return None
        if not job.group.spec.sub_group_policy:
            return SubJobView(self._ledger, job, NONE, job.tasks())
        mark = int(self.snapshot.tasks.mark[task.row])
        return SubJobView(self._ledger, job, mark, self.snapshot.parts(job.row)[mark])

    def spanned(self, tasks: Rows) -> int:
        """Return the lowest hypernode that contains all of these tasks that have a node; NONE if none has."""
        return spanned(self._ledger, tasks)

    def queue(self, row: int) -> QueueView:
        """Return one queue."""
        return QueueView(self._ledger, row)

    def nodes(self, rows: Rows | None = None) -> NodesView:
        """Return some nodes, by default all."""
        return NodesView(self.reads.ledger, np.arange(len(self.snapshot.nodes)) if rows is None else rows)

    def jobs(self) -> Iterator[JobView]:
        """The jobs that have a pod group and a queue that exists."""
        return (JobView(self._ledger, int(row)) for row in self.job_rows())

    @once
    def job_rows(self) -> Rows:
        """The rows of the jobs that have a pod group and a queue that exists."""
        return frozen(self.taking_part(self.snapshot.jobs.grouped.nonzero()[0]))

    @cached_property
    def unsettled_job_rows(self) -> Rows:
        """Those of :meth:`job_rows` that were unsettled when the session began: of others nothing is to be decided."""
        return frozen(self.taking_part(self.snapshot.jobs.unsettled_rows))

    def taking_part(self, jobs: Rows) -> Rows:
        """Return those of some jobs that are among :meth:`job_rows`."""
        table = self.snapshot.jobs
        return jobs[table.grouped[jobs] & self.snapshot.queues.exists[table.queue[jobs]]]
