"""reservation: reserve nodes for jobs that have waited long, and backfill them until the jobs fit."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, field_validator

from volcanopy.api.gates import Gate
from volcanopy.scheduler.framework.plugin import Arguments, NodeRejection, Plugin, Rejection, Scope, per_shape
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.messages import Message, QuotaMessage, message_of, short
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, READY, Status
from volcanopy.scheduler.placement.reservation_planner import Hold, Leaving, Part, hold

_NAMED = 5
"""The most nodes that are named."""
_TRIES = 8
"""The most jobs without a possible reservation that are skipped."""


class ReservationArguments(Arguments):
    """The jobs with reservations."""

    queues: tuple[str, ...] = Field(
        (), description="The queues whose first jobs get reservations; all if none is named."
    )
    after: str = Field("10m", description="The time from the creation of a job to its reservation.")
    heads: int = Field(1, ge=1, description="The number of jobs of a queue with reservations.")
    assumed: str = Field(
        "1h", alias="assumedRuntime", description="The assumed run time of pods that declare none; to choose nodes."
    )

    @field_validator("queues", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value

    @field_validator("after", "assumed")
    @classmethod
    def _is_a_duration(cls, text: str) -> str:
        if text != "0s" and pod_fields.duration(text) is None:
            raise ValueError("must be a duration such as 10m or 1h30m")
        return text


@dataclass(eq=False)
class _Reserved:
    """A job with a reservation: on nodes, or of the rest of a queue's limit."""

    job: JobView
    task: TaskView
    until: float = 0.0
    """Pods that end by this moment, in seconds, may use the reservation."""
    plan: Hold | None = None
    """The reserved nodes."""
    tasks: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """The pending tasks of the job that the reservation is for."""
    rejection: Rejection | None = None
    """The rejection by the limit of its queue, where it waits for that."""
    members: frozenset[int] = frozenset()
    """The queues to which that limit applies."""
    fits: bool = False
    """Whether the job fits now: then no other pod may use the reservation."""
    preemptable: dict[tuple[int, bool], bool] = field(default_factory=dict)
    """Whether the job could preempt tasks of a job, by its row and whether the tasks are preemptable."""


class Reservation(Plugin[ReservationArguments]):
    """Reserve resources for the first waiting jobs of a queue; pods that end in time or can be preempted may use them.

    There is no state: each session finds the same jobs and nodes again. The end of a pod follows from its
    ``spec.activeDeadlineSeconds`` or its annotation ``volcanopy.io/max-runtime``. Pods without one may not use reserved
    nodes, unless ``preempt`` could evict them.
    """

    name: ClassVar[str] = "reservation"
    arguments: ClassVar[type[Arguments]] = ReservationArguments

    def open(self) -> None:
        """Find the jobs that have waited long enough; reservations are computed at first use."""
        self._now = self.cluster.now.timestamp()
        self._admitted, unadmitted = self._first_jobs()
        self._unadmitted = {row for jobs in unadmitted.values() for row in jobs[: self.args.heads]}
        self._known: list[_Reserved] | None = None
        if not self._admitted:
            self.cache_key = per_shape  # type: ignore[method-assign]  # nothing is reserved on nodes

    def _first_jobs(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Return the jobs that have waited long enough by queue, by priority and age: the admitted, and the others."""
        jobs, queues = self.cluster.snapshot.jobs, self.cluster.snapshot.queues
        rows = self.cluster.job_rows()
        after = pod_fields.duration(self.args.after) or timedelta(0)
        waits = self._now - jobs.created[rows] >= after.total_seconds()
        waits &= queues.is_open[jobs.queue[rows]]
        if self.args.queues:
            waits &= np.isin(
                jobs.queue[rows], [queues.index[name] for name in self.args.queues if name in queues.index]
            )
        unadmitted = np.fromiter((phase == "Pending" for phase in jobs.phase[rows]), np.bool_, len(rows))
        lacks = jobs.counts[READY][:, rows].sum(axis=0) + jobs.best_effort[rows] < jobs.min_available[rows]
        pending = jobs.counts[Status.PENDING, rows] > 0
        result: list[dict[int, list[int]]] = []
        for which in (waits & ~unadmitted & lacks & pending, waits & unadmitted):
            by_queue: dict[int, list[int]] = {}
            chosen = rows[which]
            order = np.lexsort((jobs.keys[chosen].astype(np.str_), jobs.created[chosen], -jobs.priority[chosen]))
            for row in chosen[order].tolist():
                by_queue.setdefault(int(jobs.queue[row]), []).append(row)
            result.append(by_queue)
        return result[0], result[1]

    def scope(self, task: TaskView) -> Scope:
        """COLUMNS: reservations are compared with the free resources of a node."""
        return Scope.COLUMNS

    def cache_key(self, task: TaskView) -> Hashable:
        """The reservations that the task may not use."""
        return tuple(self._excludes(each, task) for each in self._reservations())

    def predicate(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Nodes on which the task would use reserved resources."""
        if not self._admitted:
            return ()
        reservations = [each for each in self._reservations() if each.plan and self._excludes(each, task)]
        if not reservations:
            return ()
        request = task.request.values
        dims = np.flatnonzero(request)
        left = nodes.future_idle.values[dims] - request[dims, None]
        reserved, seen, rejections = np.zeros_like(left), np.zeros(len(nodes), dtype=np.bool_), []
        for each in reservations:
            key, own = each.job.key, self._amounts(each)[np.ix_(dims, nodes.rows)]
            reserved = reserved + own
            rejected = ((left < reserved) & (own > 0)).any(axis=0) & ~seen
            if rejected.any():
                seen |= rejected
                reason = f'node(s) had resources reserved for job "{short(key)}"'
                rejections.append(NodeRejection(reason, rejected, reserved_for=key))
        return rejections

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The reserved rest of the limit of a queue."""
        if not self._admitted or task.nominated != NONE:
            return None
        for each in self._reservations():
            if each.rejection is not None and queue.row in each.members and self._excludes(each, task):
                message, job = message_of(each.rejection.reason), f'job "{short(each.job.key)}"'
                text = f'the rest of queue "{message.numbers.get("queue", queue.name)}" is reserved for {job}'
                blocked_by = (f"job {each.job.key}",)
                reason = Message(text, message.numbers, message.amounts, f"start or deletion of {job}", blocked_by)
                return Rejection(each.rejection.gate, reason)
        return None

    def reservation(self, job: JobView) -> Mapping[str, str] | None:
        """The reserved nodes or queue, and the expected start if it is certain."""
        if job.row in self._unadmitted:
            return {}
        own = (each for each in self._reservations() if each.job.row == job.row) if self._admitted else iter(())
        reserved = next(own, None)
        if reserved is None:
            return None
        if reserved.plan is None:
            if reserved.rejection is None:
                return {}
            return {"reserved": f'the rest of queue "{message_of(reserved.rejection.reason).numbers.get("queue", "")}"'}
        names = self.cluster.snapshot.nodes.names
        rows = reserved.plan.nodes.tolist()
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        numbers = {"reserved": ", ".join(names[row] for row in rows[:_NAMED]) + more}
        if reserved.plan.certain and not reserved.fits:
            start = datetime.fromtimestamp(reserved.plan.start, UTC)
            numbers["expected"] = start.strftime("%Y-%m-%dT%H:%M:%SZ")
        return numbers

    # The use of reservations

    def _excludes(self, reserved: _Reserved, task: TaskView) -> bool:
        """Return whether the task may not use a reservation."""
        job = task.job
        if job is None or job.row == reserved.job.row:
            return False
        own = job.queue.row == reserved.job.queue.row
        if own and job.priority > reserved.job.priority:
            return False
        runtime = float(self.cluster.snapshot.tasks.runtime[task.row])
        if reserved.fits:
            return True
        if runtime and self._now + runtime <= reserved.until:
            return False
        if not own or job.priority >= reserved.job.priority or not task.preemptable:
            return True
        key = (job.row, task.preemptable)
        if key not in reserved.preemptable:
            reserved.preemptable[key] = bool(self.cluster.queries.preemptable(reserved.task, [task]))
        return not reserved.preemptable[key]

    def _amounts(self, reserved: _Reserved) -> Ints:
        """(R, N): the reserved amounts, less those that tasks of the job have been allocated in this session."""
        assert reserved.plan is not None
        ledger = self.cluster.ledger
        status = ledger.status[reserved.tasks]
        placed = reserved.tasks[HOLDING[status] | (status == Status.PIPELINED)]
        if not len(placed):
            return reserved.plan.kept
        amounts = reserved.plan.kept.copy()
        np.subtract.at(amounts.T, ledger.node[placed], self._requests(placed).T)
        return np.maximum(amounts, 0)

    # The choice of jobs and nodes

    def _reservations(self) -> list[_Reserved]:
        """Return the reservations by priority and age of their jobs."""
        if self._known is None:
            self._known = []  # other plugins are asked while these are computed, which must not depend on them
            self._known = self._compute()
        return self._known

    def _compute(self) -> list[_Reserved]:
        jobs = self.cluster.snapshot.jobs
        order = sorted(
            (-int(jobs.priority[row]), float(jobs.created[row]), str(jobs.keys[row]), row)
            for rows in self._admitted.values()
            for row in rows[: self.args.heads + _TRIES]
        )
        free, result = self._free.copy(), []
        slots = dict.fromkeys(self._admitted, self.args.heads)
        for *_, row in order:
            queue = int(jobs.queue[row])
            reserved = self._reserve(self.cluster.job(row), free) if slots[queue] else None
            if reserved is None:
                continue
            slots[queue] -= 1
            result.append(reserved)
            if reserved.plan is not None:
                free -= reserved.plan.needed
        return result

    def _reserve(self, job: JobView, free: Ints) -> _Reserved | None:
        """Return the reservation of a job; None if none helps, or none is needed."""
        tasks = self._needed(job)
        if not tasks:
            return None
        shapes: dict[int, list[TaskView]] = {}
        for task in tasks:
            shapes.setdefault(task.shape, []).append(task)
        reserved = _Reserved(job, tasks[0], tasks=np.array([task.row for task in tasks], dtype=np.intp))
        queries = self.cluster.queries
        for equal in shapes.values():
            rejection = queries.allocatable(job.queue, equal[0], len(equal))
            is_cluster = rejection is not None and (
                isinstance(rejection.reason, QuotaMessage) and rejection.reason.gate == Gate.NODES
            )
            if rejection is not None and not is_cluster:
                return self._reserve_limit(reserved, rejection)
        parts = [
            Part(equal[0].request.values, len(equal), ~queries.infeasible_nodes(equal[0])) for equal in shapes.values()
        ]
        own = np.zeros_like(free)
        rows = [task.row for task in tasks if task.nominated != NONE]
        if len(rows) == len(tasks):
            return None  # the nominations of its pods are its reservation
        table = self.cluster.snapshot.tasks
        np.add.at(own.T, table.nominated[rows], self._requests(np.array(rows, dtype=np.intp)).T)
        reserved.plan = hold(free + own, parts, self._leaving(reserved), self._now)
        if reserved.plan is None:
            return None
        reserved.until, reserved.fits = reserved.plan.until, reserved.plan.start <= self._now
        return reserved

    def _reserve_limit(self, reserved: _Reserved, rejection: Rejection) -> _Reserved | None:
        """Reserve the rest of a queue's limit, if it can ever suffice."""
        quota, queues = rejection.reason, self.cluster.snapshot.queues
        if not isinstance(quota, QuotaMessage):
            return None
        quota = quota.binding()
        if any(quota.requested[dim] > quota.limit[dim] for dim in quota.short):
            return None
        own, limited = reserved.job.queue, queues.index[quota.queue]
        below = {row for row, line in enumerate(queues.lines) if limited in line}
        reserved.rejection, reserved.members = rejection, frozenset({own.row} if own.row == limited else below)
        missing = np.array(quota.requested) + np.array(quota.allocated) - np.array(quota.limit)
        leaving = self._leaving(reserved, reserved.members)
        missing = missing - leaving.request[:, ~leaving.known].sum(axis=1)
        known = leaving.pick(leaving.known)
        known = known.pick(np.argsort(known.end, kind="stable"))
        released = np.cumsum(known.request, axis=1) >= missing[:, None]
        short_dims = np.array(quota.short)
        short_dims = short_dims[missing[short_dims] > 0]
        enough = released[short_dims].all(axis=0)
        if not len(short_dims):
            reserved.until = self._now
        elif enough.any():
            reserved.until = float(known.end[enough.argmax()])
        return reserved

    def _needed(self, job: JobView) -> list[TaskView]:
        """Return the pending tasks that the job's minimum lacks, those of role minima first; none if there are too few."""
        rows = job.tasks(Status.PENDING)
        table = self.cluster.snapshot.tasks
        rows = rows[~table.gated[rows] & ~self.cluster.snapshot.shapes.best_effort[table.shape[rows]]]
        order = np.lexsort((table.keys[rows].astype(np.str_), table.ordinal[rows])) if len(rows) else rows
        left = [self.cluster.task(row) for row in rows[order].tolist()]
        lacking = job.min_available - job.ready_count - job.best_effort_pending
        chosen: list[TaskView] = []
        for role in sorted(job.roles, key=lambda role: role.name):
            missing = max(role.minimum - role.ready - role.best_effort_pending, 0)
            of_role = [task for task in left if task.role == role.row][:missing]
            if len(of_role) < missing:
                return []
            chosen += of_role
        taken = {task.row for task in chosen}
        chosen += [task for task in left if task.row not in taken][: max(lacking - len(chosen), 0)]
        return chosen if len(chosen) >= lacking else []

    # Free resources

    @cached_property
    def _free(self) -> Ints:
        """(R, N): the free resources of nodes without terminating pods and with nominated ones."""
        nodes, table = self.cluster.snapshot.nodes, self.cluster.snapshot.tasks
        free: Ints = nodes.allocatable.values - nodes.used.values + nodes.releasing.values
        nominated = np.flatnonzero((table.nominated != NONE) & (table.status == Status.PENDING))
        np.subtract.at(free.T, table.nominated[nominated], self._requests(nominated).T)
        return free

    @cached_property
    def _running(self) -> tuple[Rows, Floats, Mask]:
        """Return the running tasks of jobs, their ends in seconds, and whether these are known."""
        table = self.cluster.snapshot.tasks
        rows = np.flatnonzero(HOLDING[table.status] & (table.job != NONE) & (table.node != NONE))
        started = np.where(table.started[rows] > 0, table.started[rows], self._now)
        runtime, age = table.runtime[rows], np.maximum(self._now - started, 0.0)
        known = (runtime > 0) & (age < runtime)
        assumed = (pod_fields.duration(self.args.assumed) or timedelta(0)).total_seconds()
        # A pod that ran longer than assumed is assumed to run as long again.
        guess = np.where(age < assumed, started + assumed, self._now + np.maximum(age, 1.0))
        return rows, np.where(known, started + runtime, guess), known

    def _leaving(self, reserved: _Reserved, queues: frozenset[int] | None = None) -> Leaving:
        """Return the running tasks of other jobs with their ends; those that the job can preempt end now."""
        snapshot = self.cluster.snapshot
        table, jobs = snapshot.tasks, snapshot.jobs
        rows, ends, known = self._running
        others = table.job[rows] != reserved.job.row
        if queues is not None:
            others &= np.isin(jobs.queue[table.job[rows]], list(queues))
        rows, ends, known = rows[others], ends[others].copy(), known[others].copy()
        owners = table.job[rows]
        lower = (jobs.queue[owners] == reserved.job.queue.row) & (jobs.priority[owners] < reserved.job.priority)
        lower &= table.preemptable[rows]
        if lower.any():
            # Disruption budgets depend on the order: by name, not by arrival.
            named = rows[lower][np.argsort(table.keys[rows[lower]].astype(np.str_))]
            views = [self.cluster.task(row) for row in named.tolist()]
            preemptable = [task.row for task in self.cluster.queries.preemptable(reserved.task, views)]
            now = np.isin(rows, preemptable)
            ends[now], known[now] = self._now, True
        return Leaving(table.node[rows].astype(np.intp), self._requests(rows), ends, known)

    def _requests(self, rows: Rows) -> Ints:
        """(R, M): the requests of tasks."""
        snapshot = self.cluster.snapshot
        return snapshot.shapes.request.values[:, snapshot.tasks.shape[rows]]
