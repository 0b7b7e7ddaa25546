"""reservation: room is kept for big jobs that have waited, and is not idle meanwhile."""

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
from volcanopy.scheduler.model.messages import Message, message_of, short
from volcanopy.scheduler.model.quota_message import QuotaMessage
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, READY, Status
from volcanopy.scheduler.placement.reservation_planner import Hold, Leaving, Part, hold

_NAMED = 5


class ReservationArguments(Arguments):
    """For whom room is kept."""

    queues: tuple[str, ...] = Field((), description="The queues whose first jobs get room kept; all if none is named.")
    after: str = Field("10m", description="How long a job waits, from its creation, before room is kept for it.")
    heads: int = Field(1, ge=1, description="For how many jobs of a queue.")
    assumed: str = Field(
        "1h", alias="assumedRuntime", description="How long a pod is assumed to run that does not say; to choose nodes."
    )

    @field_validator("queues", mode="before")
    @classmethod
    def _listed(cls, said: Any) -> Any:
        return tuple(name.strip() for name in said.split(",") if name.strip()) if isinstance(said, str) else said

    @field_validator("after", "assumed")
    @classmethod
    def _is_a_duration(cls, text: str) -> str:
        if text != "0s" and pod_fields.duration(text) is None:
            raise ValueError("must be a duration such as 10m or 1h30m")
        return text


@dataclass(eq=False)
class _Head:
    """A job that room is kept for: on nodes, or under the limit of a queue."""

    job: JobView
    task: TaskView
    until: float = 0.0
    """Who has ended by this moment, in seconds, is not in its way."""
    room: Hold | None = None
    tasks: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """Its pending tasks that the room is for."""
    denial: Rejection | None = None
    """What its queue's limit says, where that is what it waits for."""
    members: frozenset[int] = frozenset()
    """The queues that take their room from that limit."""
    ripe: bool = False
    """It fits this moment: nobody is let in any more."""
    yielding: dict[tuple[int, bool], bool] = field(default_factory=dict)
    """Whether tasks of a job, preemptable ones or others, could be made to leave for it."""


class Reservation(Plugin[ReservationArguments]):
    """The first waiting jobs of a queue get room kept until they fit; who is gone in time, or can be made to go, uses it.

    Nothing is remembered: each session finds the same jobs and the same nodes again from what is there. A pod's end is
    known from ``spec.activeDeadlineSeconds`` or from its annotation ``volcanopy.io/max-runtime``. What has no such end
    makes no way for others on the nodes that the job waits for, unless ``preempt`` could make it leave again.
    """

    name: ClassVar[str] = "reservation"
    arguments: ClassVar[type[Arguments]] = ReservationArguments

    def open(self) -> None:
        """Find out who has waited long enough; what room they need is reckoned when someone asks about it."""
        self._now = self.cluster.now.timestamp()
        self._admitted, waiting = self._lines()
        self._waiting = {row for line in waiting.values() for row in line[: self.args.heads]}
        self._known: list[_Head] | None = None
        if not self._admitted:
            self.cache_key = per_shape  # type: ignore[method-assign]  # nothing is reserved on nodes

    def _lines(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """By queue the jobs that have waited long enough, the most important first, then the oldest: admitted, and not."""
        jobs, queues = self.cluster.snapshot.jobs, self.cluster.snapshot.queues
        rows = self.cluster.job_rows()
        patience = pod_fields.duration(self.args.after) or timedelta(0)
        waits = self._now - jobs.created[rows] >= patience.total_seconds()
        waits &= queues.is_open[jobs.queue[rows]]
        if self.args.queues:
            waits &= np.isin(
                jobs.queue[rows], [queues.index[name] for name in self.args.queues if name in queues.index]
            )
        unadmitted = np.fromiter((phase == "Pending" for phase in jobs.phase[rows]), np.bool_, len(rows))
        lacks = jobs.counts[READY][:, rows].sum(axis=0) + jobs.best_effort[rows] < jobs.min_available[rows]
        pending = jobs.counts[Status.PENDING, rows] > 0
        found: list[dict[int, list[int]]] = []
        for which in (waits & ~unadmitted & lacks & pending, waits & unadmitted):
            line: dict[int, list[int]] = {}
            chosen = rows[which]
            order = np.lexsort((jobs.keys[chosen].astype(np.str_), jobs.created[chosen], -jobs.priority[chosen]))
            for row in chosen[order].tolist():
                line.setdefault(int(jobs.queue[row]), []).append(row)
            found.append(line)
        return found[0], found[1]

    def scope(self, task: TaskView) -> Scope:
        """What must stay free is compared with a node's columns."""
        return Scope.COLUMNS

    def cache_key(self, task: TaskView) -> Hashable:
        """From whose room the task is kept."""
        return tuple(self._binds(head, task) for head in self._heads())

    def predicate(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Where the task would leave less than is kept for others."""
        if not self._admitted:
            return ()
        heads = [head for head in self._heads() if head.room and self._binds(head, task)]
        if not heads:
            return ()
        request = task.request.values
        dims = np.flatnonzero(request)
        left = nodes.future_idle.values[dims] - request[dims, None]
        kept, seen, refusals = np.zeros_like(left), np.zeros(len(nodes), dtype=np.bool_), []
        for head in heads:
            key, own = head.job.key, self._kept(head)[np.ix_(dims, nodes.rows)]
            kept = kept + own
            refused = ((left < kept) & (own > 0)).any(axis=0) & ~seen
            if refused.any():
                seen |= refused
                refusals.append(
                    NodeRejection(f'node(s) had resources reserved for job "{short(key)}"', refused, reserved_for=key)
                )
        return refusals

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """What a queue has left is kept as well, where its limit is what the job waits for."""
        if not self._admitted:
            return None
        for head in self._heads():
            if (
                head.denial is not None
                and queue.row in head.members
                and task.nominated == NONE
                and self._binds(head, task)
            ):
                message, job = message_of(head.denial.reason), f'job "{short(head.job.key)}"'
                text = f'the rest of queue "{message.numbers.get("queue", queue.name)}" is reserved for {job}'
                blocked_by = (f"job {head.job.key}",)
                reason = Message(text, message.numbers, message.amounts, f"start or deletion of {job}", blocked_by)
                return Rejection(head.denial.gate, reason)
        return None

    def reservation(self, job: JobView) -> Mapping[str, str] | None:
        """Where, and from when on if that is certain."""
        if job.row in self._waiting:
            return {}
        head = next((one for one in self._heads() if one.job.row == job.row), None) if self._admitted else None
        if head is None:
            return None
        if head.room is None:
            return (
                {"reserved": f'the rest of queue "{message_of(head.denial.reason).numbers.get("queue", "")}"'}
                if head.denial
                else {}
            )
        names = self.cluster.snapshot.nodes.names
        rows = head.room.nodes.tolist()
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        known = {"reserved": ", ".join(names[row] for row in rows[:_NAMED]) + more}
        if head.room.certain and not head.ripe:
            known["expected"] = datetime.fromtimestamp(head.room.start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return known

    # Who is kept out

    def _binds(self, head: _Head, task: TaskView) -> bool:
        """Whether the room that is kept for a job is kept from this task."""
        job = task.job
        if job is None or job.row == head.job.row:
            return False
        own = job.queue.row == head.job.queue.row
        if own and job.priority > head.job.priority:
            return False
        runtime = float(self.cluster.snapshot.tasks.runtime[task.row])
        if head.ripe:
            return True
        if runtime and self._now + runtime <= head.until:
            return False
        if not own or job.priority >= head.job.priority or not task.preemptable:
            return True
        known = head.yielding.get((job.row, task.preemptable))
        if known is None:
            known = bool(self.cluster.queries.preemptable(head.task, [task]))
            head.yielding[job.row, task.preemptable] = known
        return not known

    def _kept(self, head: _Head) -> Ints:
        """(R, N): what is kept for a job still, beside what its tasks have been given in this session."""
        assert head.room is not None
        ledger = self.cluster.ledger
        status = ledger.status[head.tasks]
        placed = head.tasks[HOLDING[status] | (status == Status.PIPELINED)]
        if not len(placed):
            return head.room.kept
        kept = head.room.kept.copy()
        np.subtract.at(kept.T, ledger.node[placed], self._requests(placed).T)
        return np.maximum(kept, 0)

    # For whom, and where

    def _heads(self) -> list[_Head]:
        """The jobs that room is kept for, the most important first."""
        if self._known is None:
            self._known = []  # what the others say while this is reckoned must not count on it
            self._known = self._reckon()
        return self._known

    def _reckon(self) -> list[_Head]:
        jobs = self.cluster.snapshot.jobs
        order = sorted(
            (-int(jobs.priority[row]), float(jobs.created[row]), str(jobs.keys[row]), row)
            for line in self._admitted.values()
            for row in line[: self.args.heads + _TRIES]
        )
        free, heads = self._free.copy(), []
        slots = dict.fromkeys(self._admitted, self.args.heads)
        for *_, row in order:
            queue = int(jobs.queue[row])
            head = self._keep(self.cluster.job(row), free) if slots[queue] else None
            if head is None:
                continue
            slots[queue] -= 1
            heads.append(head)
            if head.room is not None:
                free -= head.room.needed
        return heads

    def _keep(self, job: JobView, free: Ints) -> _Head | None:
        """What is to be kept for a job; None if nothing helps it, or nothing is needed."""
        tasks = self._needed(job)
        if not tasks:
            return None
        shapes: dict[int, list[TaskView]] = {}
        for task in tasks:
            shapes.setdefault(task.shape, []).append(task)
        head = _Head(job, tasks[0], tasks=np.array([task.row for task in tasks], dtype=np.intp))
        for alike in shapes.values():
            denial = self.cluster.queries.allocatable(job.queue, alike[0], len(alike))
            if denial is not None and not (
                isinstance(denial.reason, QuotaMessage) and denial.reason.gate == Gate.NODES
            ):
                return self._under_limit(head, denial)
        parts = [
            Part(alike[0].request.values, len(alike), ~self.cluster.queries.infeasible_nodes(alike[0]))
            for alike in shapes.values()
        ]
        own = np.zeros_like(free)
        rows = [task.row for task in tasks if task.nominated != NONE]
        if len(rows) == len(tasks):
            return None  # its room is kept already, by its pods' nominations
        table = self.cluster.snapshot.tasks
        np.add.at(own.T, table.nominated[rows], self._requests(np.array(rows, dtype=np.intp)).T)
        head.room = hold(free + own, parts, self._leaving(head), self._now)
        if head.room is None:
            return None
        head.until, head.ripe = head.room.until, head.room.start <= self._now
        return head

    def _under_limit(self, head: _Head, denial: Rejection) -> _Head | None:
        """Keep what a queue's limit has left, if there can ever be enough."""
        why, queues = denial.reason, self.cluster.snapshot.queues
        if not isinstance(why, QuotaMessage):
            return None
        why = why.binding()
        if any(why.requested[place] > why.limit[place] for place in why.short):
            return None
        own, holder = head.job.queue, queues.index[why.queue]
        below = {row for row, line in enumerate(queues.lines) if holder in line}
        head.denial, head.members = denial, frozenset({own.row} if own.row == holder else below)
        missing = np.array(why.requested) + np.array(why.allocated) - np.array(why.limit)
        there = self._leaving(head, head.members)
        missing = missing - there.request[:, ~there.known].sum(axis=1)
        known = there.pick(there.known)
        known = known.pick(np.argsort(known.end, kind="stable"))
        given = np.cumsum(known.request, axis=1) >= missing[:, None]
        short = np.array(why.short)
        short = short[missing[short] > 0]
        enough = given[short].all(axis=0)
        if not len(short):
            head.until = self._now
        elif enough.any():
            head.until = float(known.end[enough.argmax()])
        return head

    def _needed(self, job: JobView) -> list[TaskView]:
        """The pending tasks that the job's minimum lacks: of each role what it lacks, then any; none if there are too few."""
        rows = job.tasks(Status.PENDING)
        table = self.cluster.snapshot.tasks
        rows = rows[~table.gated[rows] & ~self.cluster.snapshot.shapes.best_effort[table.shape[rows]]]
        order = np.lexsort((table.keys[rows].astype(np.str_), table.ordinal[rows])) if len(rows) else rows
        left = [self.cluster.task(row) for row in rows[order].tolist()]
        lacking = job.min_available - job.ready_count - job.best_effort_pending
        chosen: list[TaskView] = []
        for role in sorted(job.roles, key=lambda role: role.name):
            missing = max(role.minimum - role.ready, 0)
            of_role = [task for task in left if task.role == role.row][:missing]
            if len(of_role) < missing:
                return []
            chosen += of_role
        taken = {task.row for task in chosen}
        chosen += [task for task in left if task.row not in taken][: max(lacking - len(chosen), 0)]
        return chosen if len(chosen) >= lacking else []

    # What is there

    @cached_property
    def _free(self) -> Ints:
        """(R, N): what nodes have left when those that leave have left, and those that were promised room are in."""
        nodes, table = self.cluster.snapshot.nodes, self.cluster.snapshot.tasks
        free: Ints = nodes.allocatable.values - nodes.used.values + nodes.releasing.values
        promised = np.flatnonzero((table.nominated != NONE) & (table.status == Status.PENDING))
        np.subtract.at(free.T, table.nominated[promised], self._requests(promised).T)
        return free

    @cached_property
    def _running(self) -> tuple[Rows, Floats, Mask]:
        """The tasks of jobs that hold room, when they end (seconds), and whether that is known."""
        table = self.cluster.snapshot.tasks
        rows = np.flatnonzero(HOLDING[table.status] & (table.job != NONE) & (table.node != NONE))
        started = np.where(table.started[rows] > 0, table.started[rows], self._now)
        runtime, age = table.runtime[rows], np.maximum(self._now - started, 0.0)
        known = (runtime > 0) & (age < runtime)
        assumed = (pod_fields.duration(self.args.assumed) or timedelta(0)).total_seconds()
        # Who has outlived what was assumed is assumed to go on for as long again.
        guess = np.where(age < assumed, started + assumed, self._now + np.maximum(age, 1.0))
        return rows, np.where(known, started + runtime, guess), known

    def _leaving(self, head: _Head, queues: frozenset[int] | None = None) -> Leaving:
        """The running tasks that will make room for a job, those of it excepted; whom it can displace may go at once."""
        snapshot = self.cluster.snapshot
        table, jobs = snapshot.tasks, snapshot.jobs
        rows, ends, known = self._running
        others = table.job[rows] != head.job.row
        if queues is not None:
            others &= np.isin(jobs.queue[table.job[rows]], list(queues))
        rows, ends, known = rows[others], ends[others].copy(), known[others].copy()
        owners = table.job[rows]
        lesser = (jobs.queue[owners] == head.job.queue.row) & (jobs.priority[owners] < head.job.priority)
        lesser &= table.preemptable[rows]
        if lesser.any():
            # Who may still go can depend on who was asked before: ask in the order of names, not of arrival.
            named = rows[lesser][np.argsort(table.keys[rows[lesser]].astype(np.str_))]
            views = [self.cluster.task(row) for row in named.tolist()]
            going = [one.row for one in self.cluster.queries.preemptable(head.task, views)]
            now = np.isin(rows, going)
            ends[now], known[now] = self._now, True
        return Leaving(table.node[rows].astype(np.intp), self._requests(rows), ends, known)

    def _requests(self, rows: Rows) -> Ints:
        """(R, M): what tasks request."""
        snapshot = self.cluster.snapshot
        return snapshot.shapes.request.values[:, snapshot.tasks.shape[rows]]


_TRIES = 8
"""So many jobs that nothing helps are passed over in looking for one that room can be kept for."""
