"""reservation: reserve nodes for jobs that have waited long, and backfill them until the jobs fit."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.job_reservations import JobReservations, is_ample
from volcanopy.scheduler.engine.reserved_job import ReservedJob, exceeds_room
from volcanopy.scheduler.engine.shares import queue_demand, queue_quota
from volcanopy.scheduler.engine.task_ends import Basis, TaskEnds
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.task_kinds import TaskValue
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import Message, message_of, short
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.run_times import shortest
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import READY, Status
from volcanopy.scheduler.policy.durations import Duration, duration_or, seconds
from volcanopy.scheduler.policy.plugin import Arguments, Names, NodeRejection, Plugin, Rejection
from volcanopy.scheduler.policy.roles import Nodes

_ALL, _LEAST = 1, 2
"""Exclusions of tasks from a reservation: what the job uses must stay free, or only what its start at the planned time takes."""


class RunnableJobs:
    """The jobs whose minimum fits into idle resources that are not reserved, beside the minima of admitted jobs that start there.

    Jobs that wait for many nodes can use up the limits of admission. No job would be admitted that could be backfilled.

    Admitted jobs that fit there and did not start when they were tried count together: with a job they request at most a
    multiple of what is idle. So a few cycles after the last event no more jobs are admitted.
    """

    def __init__(self, snapshot: Snapshot, enqueued: Sequence[JobView], unlent: Callable[[float], Ints]) -> None:
        """``enqueued`` are the jobs that the session has admitted: it may grow.

        ``unlent`` returns the (R,) amounts that are reserved and not lent to a job with a run time in seconds, 0 if it is
        not known.
        """
        jobs, nodes = snapshot.jobs, snapshot.nodes
        self._run_times = shortest(jobs.walltime, jobs.estimate)
        self._unlent = unlent
        self._idle: Ints = np.maximum(nodes.allocatable.values - nodes.used.values, 0).sum(axis=1)
        admitted = (jobs.in_phase("Inqueue") & ~snapshot.blocked).nonzero()[0]
        admitted = admitted[(jobs.min_resources.values[:, admitted] <= self._idle[:, None]).all(axis=0)]
        least = jobs.min_resources.values[:, admitted]
        tried = jobs.counts[:, admitted].any(axis=0) & jobs.unschedulable[admitted]
        self._starting: Ints = least[:, ~tried].sum(axis=1)
        self._tried: Ints = least[:, tried].sum(axis=1)
        self._included: dict[tuple[bytes | None, float], bool] = {}  # By minimum and run time: until a job is admitted.
        self._enqueued, self._counted = enqueued, 0

    def includes(self, job: JobView) -> bool:
        """Return whether a job could run."""
        for admitted in self._enqueued[self._counted :]:
            self._admit(admitted)
        self._counted = len(self._enqueued)
        if job.phase != "Pending":
            return False
        key = job.minimum_key, float(self._run_times[job.row])
        included = self._included.get(key)
        if included is None:
            least = job.min_resources
            included = self._included[key] = least is not None and self._fits(least.values, key[1])
        return included

    def _fits(self, least: Ints, run_time: float) -> bool:
        """Return whether a minimum fits, of a job with a run time."""
        starting = self._starting + least
        most = defaults.TRIED_MULTIPLE * self._idle
        if not ((starting <= self._idle) & (self._tried + starting <= most))[least > 0].all():
            return False
        return bool((starting <= self._idle - self._unlent(run_time))[least > 0].all())

    def _admit(self, job: JobView) -> None:
        """Count a job that was admitted."""
        self._included.clear()
        if job.min_resources is not None and (job.min_resources.values <= self._idle).all():
            self._starting = self._starting + job.min_resources.values


class ReservationArguments(Arguments):
    """The jobs with reservations."""

    queues: Names = Field((), description="The queues whose first jobs get reservations; all if none is named.")
    after: Annotated[str, duration_or("", "never", "overdue")] = Field(
        "",
        description="The time from the creation of a job to its reservation, never, or overdue: only for jobs whose waiting time "
        "by sla is over. By default it follows from the size "
        "of the job: 10 minutes for one as large as the cluster, in proportion for others.",
    )
    heads: int = Field(1, ge=1, description="The number of jobs of a queue with reservations.")
    admit: bool | None = Field(
        None,
        alias="admitRunnable",
        description="Whether jobs that fit into idle resources, without what is reserved and not lent to them, are admitted "
        "although larger admitted jobs use up overcommit. By default they are, but not with reclaim.",
    )
    basis: Basis = Field(
        "estimate",
        description="The run times by which pods may use what is reserved until the job can start: enforced limits only, also "
        "declared and learnt estimates, or for all others also the assumed run time.",
    )
    assumed: Duration = Field(
        defaults.ASSUMED_RUN_TIME,
        alias="assumedRuntime",
        description="The run time of pods without a limit or estimate: a pod that has run longer runs as long again.",
    )


class Reservation(Nodes, Plugin[ReservationArguments], queue_quota.Limiter):
    """Reserve resources for the first waiting jobs of a queue; pods that end in time or can be preempted may use them.

    There is no state: each session finds the same jobs and nodes again. The end of a pod follows from
    ``activeDeadlineSeconds`` of its job or its own, or its annotation ``volcanopy.io/max-runtime``, else from the estimate of
    its job. Pods without any may not use reserved nodes, unless ``preempt`` could evict them. With one head of a queue this
    is EASY backfilling; with more, each is planned after those before it: conservative backfilling of the first jobs.
    """

    name: ClassVar[str] = "reservation"
    arguments: ClassVar[type[Arguments]] = ReservationArguments

    def open(self) -> None:
        """Find the jobs that have waited long enough; reservations are computed at first use."""
        self._now = self.cluster.now.timestamp()
        self._excluded: dict[Hashable, tuple[int, ...]] = {}
        """By job, run time and preemptability of tasks."""
        self._known: list[ReservedJob] | None = None
        self._by_job: dict[int, ReservedJob] = {}
        self._enqueued: list[JobView] = []  # in this session
        self._ends = TaskEnds(self.cluster.snapshot, self.args.basis, seconds(self.args.assumed))
        self._admitted = self._jobs_that_lack_pods()
        self._only = int(self._admitted[0]) if len(self._admitted) == 1 else None  # for its tasks nothing is reserved
        if not len(self._admitted):
            self._known = []
            self._exclusions_of_task = TaskValue(self._exclusions)
        else:
            self._exclusions_of_task = self.task_value(self._exclusions, columns=("runtime", "preemptable"))

    @cached_property
    def _single(self) -> JobReservations:
        return JobReservations(self.cluster, self._ends, self.args.basis)

    @cached_property
    def _runnable(self) -> RunnableJobs | None:
        """The jobs to admit because they could run; what is backfilled would be reclaimed, where pods can be."""
        admits = not self.cluster.queries.reclaims if self.args.admit is None else self.args.admit
        return RunnableJobs(self.cluster.snapshot, self._enqueued, self._unlent) if admits else None

    def _jobs_that_lack_pods(self) -> Rows:
        """Return the admitted jobs that lack pods on nodes and wait for them."""
        jobs, rows = self.cluster.snapshot.jobs, self.cluster.unsettled_job_rows
        if len(rows):
            rows = self._eligible(rows[~jobs.in_phase("Pending")[rows] & (jobs.counts[Status.PENDING.value, rows] > 0)])
        lacks: Mask = jobs.counts[:, rows][READY].sum(axis=0) + jobs.best_effort[rows] < jobs.min_available[rows]
        return rows[lacks]

    @cached_property
    def _waiting(self) -> Rows:
        """The jobs in open queues that are not admitted."""
        rows, queues = self.cluster.unsettled_job_rows, self.cluster.snapshot.queues
        rows = rows[queues.is_open[self.cluster.snapshot.jobs.queue[rows]]]
        return self._eligible(rows[self.cluster.snapshot.jobs.in_phase("Pending")[rows]])

    def _eligible(self, rows: Rows) -> Rows:
        """Return those of some jobs that may get a reservation."""
        if self.args.after == "never" or not len(rows):
            return rows[:0]
        snapshot, jobs = self.cluster.snapshot, self.cluster.snapshot.jobs
        usable = ~queue_demand.held_queues(snapshot.queues)
        if self.args.queues:
            usable &= np.isin(snapshot.queues.names, self.args.queues)
        return rows[usable[jobs.queue[rows]] & (jobs.created[rows] > 0) & ~snapshot.unreservable[rows]]

    def _have_waited(self, rows: Rows) -> Mask:
        """(M,): the jobs that have waited as long as it takes to get a reservation, or that are overdue."""
        jobs, total = self.cluster.snapshot.jobs, self.cluster.snapshot.total
        if self.args.after == "overdue":
            delay = math.inf
        elif self.args.after:
            delay = seconds(self.args.after)
        else:
            request = np.maximum(jobs.min_resources.values[:, rows], jobs.pending.values[:, rows])
            parts = np.divide(request, total[:, None], out=np.zeros(request.shape), where=total[:, None] > 0)
            parts[self.cluster.axis.index["pods"]] = 0.0
            delay = np.minimum(parts.max(axis=0), 1.0) * defaults.RESERVATION_DELAY
        overdue = [self.cluster.queries.overdue(self.cluster.job(row)) for row in rows.tolist()]
        return np.array(overdue, dtype=np.bool_) | (self._now - jobs.created[rows] >= delay)

    def _first(self, rows: Rows, count: int) -> dict[int, list[int]]:
        """Return the first ``count`` of these jobs of each queue, in their order."""
        queues = self.cluster.snapshot.jobs.queue[rows]
        grouped = np.argsort(queues, kind="stable")
        own, starts = np.unique(queues[grouped], return_index=True)
        by_queue: dict[int, list[int]] = {}
        for queue, jobs in zip(own.tolist(), np.split(rows[grouped], starts[1:]), strict=False):
            keys = self.cluster.queries.job_keys(jobs)
            by_queue[queue] = [row for _, row in sorted(zip(keys, jobs.tolist(), strict=True))[:count]]
        return by_queue

    @cached_property
    def _unadmitted(self) -> frozenset[int]:
        """Those of the first ``heads`` waiting jobs of each queue that are not admitted: later ones were admitted before them."""
        jobs, rows = self.cluster.snapshot.jobs, self.cluster.unsettled_job_rows
        admitted = rows[jobs.in_phase("Inqueue")[rows] & ~jobs.counts[:, rows].any(axis=0)]  # their pods are created
        first = self._first(np.concatenate([self._admitted, admitted, self._waiting]), self.args.heads)
        rows = np.intersect1d(np.array([*chain(*first.values())], dtype=np.intp), self._waiting)
        return frozenset(rows[self._have_waited(rows)].tolist())

    def _unlent(self, run_time: float) -> Ints:
        """(R,): what is reserved and not lent to a job with a run time, 0 if it is not known."""
        known, likely = (run_time, run_time) if run_time else (math.inf, seconds(self.args.assumed))
        amounts = np.zeros(len(self.cluster.axis), np.int64)
        for reserved in self._reservations():
            unlent = 0 if reserved.plan is None or reserved.fits else self._unlent_part(reserved, known, likely)
            if reserved.plan is not None and unlent:
                amounts += (reserved.plan.least if unlent == _LEAST else reserved.plan.kept).sum(axis=1)
        return amounts

    def enqueued(self, job: JobView) -> None:
        """Count an admitted job: what it will use is not idle for those after it."""
        self._enqueued.append(job)

    def _exclusions(self, task: TaskView) -> tuple[int, ...]:
        """Return for each reservation what of it the task may not use: 0 if it may use all. None is for its own job alone."""
        if self._known == []:  # nothing is reserved
            return ()
        row, table = task.row, self.cluster.snapshot.tasks
        if self.cluster.queries.comes_first(row) or table.job[row] == self._only or not self._reservations():
            return ()
        key = (table.job[row], table.runtime[row], table.preemptable[row])
        excluded = self._excluded.get(key)
        if excluded is None:
            times = self._ends.of_new(row)
            excluded = self._excluded[key] = tuple([self._excludes(each, task, times) for each in self._reservations()])
        return excluded

    def _excluding(self, task: TaskView) -> list[tuple[ReservedJob, int]]:
        """Return the reservations that the task may not use, and what of each."""
        exclusions = self._exclusions_of_task(task)
        if not any(exclusions):
            return []
        return [(each, what) for each, what in zip(self._reservations(), exclusions, strict=True) if what]

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Nodes on which the task would use reserved resources."""
        if not any(self._exclusions_of_task(task)):
            return ()
        with self.cluster.reads.unaffected():  # what is reserved for other jobs
            planned = [(each, what) for each, what in self._excluding(task) if each.plan]
            excluding = [(each, each.amounts(self.cluster, what == _LEAST)) for each, what in planned]
        if not excluding:
            return ()
        request, rows = task.request.values, nodes.rows
        dims = request.nonzero()[0]
        left = nodes.future_idle.values[dims] - request[dims, None]
        seen, rejections = np.zeros(len(nodes), dtype=np.bool_), []
        for each, amounts in excluding:
            own = amounts[dims].take(rows, axis=1)
            left -= own
            rejected = ((left < 0) & (own > 0)).any(axis=0) & ~seen
            if rejected.any():
                seen |= rejected
                reason = f'node(s) had resources reserved for job "{short(each.job.key)}"'
                rejections.append(NodeRejection(reason, rejected, reserved_for=each.job.key))
        return rejections

    def limit_rejection(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The reserved rest of a limit of the job."""
        if self._known == [] or task.nominated != NONE:
            return None
        row = int(self.cluster.snapshot.tasks.job[task.row])
        for each, _ in self._excluding(task):
            if each.rejection is None or not each.members[row]:
                continue
            if each.uses_limit(self.cluster, task.request.values * count):
                message, job = message_of(each.rejection.reason), f'job "{short(each.job.key)}"'
                text = f"{each.limit_name} is reserved for {job}"
                unblocked_by, blocked_by = f"start or deletion of {job}", (f"job {each.job.key}",)
                reason = Message(text, message.numbers, message.amounts, unblocked_by, blocked_by)
                return Rejection(each.rejection.gate, reason)
        return None

    def details(self, job: JobView) -> Mapping[str, str] | None:
        """Return the reserved nodes or queue of a job, and its expected start if it is certain; None without a reservation.

        Insufficient free resources are no reason not to enqueue a job with a reservation.
        """
        if job.row in self._unadmitted or (self._runnable is not None and self._runnable.includes(job)):
            return {}
        reserved = self._by_job.get(job.row) if self._reservations() else None
        return None if reserved is None else reserved.numbers(self.cluster)

    @cached_property
    def behind_reservations(self) -> Mask:
        """(J,): the jobs that cannot start now because of a reservation: its own, and of the rest of a limit those behind it."""
        jobs = self.cluster.snapshot.jobs
        run_times, result = shortest(jobs.walltime, jobs.estimate), np.zeros(len(jobs), dtype=np.bool_)
        for each in self._reservations():
            if each.rejection is not None:
                behind = each.members & (jobs.priority <= each.job.priority)
                behind[list(each.preceding)] = False
                if each.room is not None:
                    rows = behind.nonzero()[0]
                    request = np.maximum(jobs.min_resources.values[:, rows], jobs.pending.values[:, rows])
                    behind[rows] = exceeds_room(request, each.room[:, None])
                result |= behind & ((run_times == 0) | (self._now + run_times > each.until))
            result[each.job.row] |= not each.fits
        return result

    def jobs_with_reserved_nodes(self) -> frozenset[int]:
        """Return the rows of the jobs with reserved nodes: they may use these beyond the fair share of their queue."""
        return frozenset(each.job.row for each in self._reservations() if each.plan is not None)

    # The use of reservations

    def _excludes(self, reserved: ReservedJob, task: TaskView, times: tuple[float, float]) -> int:
        """Return what of a reservation a task of these run times may not use: 0 if it may use all."""
        job = task.job
        if job is None or job.row == reserved.job.row:
            return 0
        own = job.queue.row == reserved.job.queue.row
        if own and job.priority > reserved.job.priority:
            return 0
        if reserved.fits:
            return _ALL
        if reserved.plan is None and job.row in reserved.preceding:
            return 0
        excluded = self._unlent_part(reserved, *times)
        if not excluded or not own or job.priority >= reserved.job.priority or not task.preemptable:
            return excluded
        return 0 if self.cluster.queries.preemptable(reserved.task, [task.row]) else excluded

    def _unlent_part(self, reserved: ReservedJob, known: float, likely: float) -> int:
        """Return what of a reservation is not lent to a pod with a likely run time, infinite where it is not ``known``."""
        if self._now + known <= reserved.until or self._now + likely <= reserved.likely:
            return 0
        return _LEAST if math.isfinite(known) else _ALL

    # The choice of jobs and nodes

    def _reservations(self) -> list[ReservedJob]:
        """Return the reservations in the order of queues and jobs."""
        if self._known is None:
            self._known = []  # other plugins are asked while these are computed, which must not depend on them
            self._known = self._compute()
            self._by_job = {each.job.row: each for each in reversed(self._known)}
        return self._known

    def _compute(self) -> list[ReservedJob]:
        """Return the reservations of the first jobs of each queue that do not fit now, and of the first one if it fits.

        Jobs that fit start in this cycle, without a reservation where enough is free for all. They use up none, or jobs behind
        them could take what the first of the others needs. With ``reclaim``, and if they start by evictions, they do: queues
        would evict for what is reserved in others behind them.
        """
        queries, passes = self.cluster.queries, not self.cluster.queries.reclaims
        heads = self._first(self._admitted, self.args.heads + defaults.SKIPPED_JOBS + defaults.STARTING_JOBS * passes)
        waiting = np.unique(self.cluster.snapshot.jobs.queue[np.concatenate([self._admitted, self._waiting])]).tolist()
        keys = sorted((queries.queue_key(self.cluster.queue(queue)), queue) for queue in waiting)
        order = [queue for _, queue in keys if queue in heads][: defaults.RESERVING_QUEUES]
        free, result = self._ends.free.copy(), list[ReservedJob]()
        enough = passes and is_ample(self.cluster, free, [row for queue in order for row in heads[queue]])
        for queue in order:
            is_first, preceding, slots, tries = queue == keys[0][1], list[int](), self.args.heads, defaults.SKIPPED_JOBS
            starting = 0
            rows = np.array(heads[queue], dtype=np.intp)
            for row, has_waited in zip(rows.tolist(), self._have_waited(rows).tolist(), strict=True):
                if not slots or not tries:
                    break
                job = self.cluster.job(row)
                reserved = self._single.of(job, free, is_first, enough) if has_waited or passes else None
                starts = passes and reserved is not None and reserved.fits_in(free)
                if not has_waited and not starts:
                    slots -= 1
                    continue
                if reserved is None:
                    tries -= 1
                    continue
                if reserved.plan is not None:
                    free -= reserved.plan.needed
                    self._single.planned.append(reserved)
                if starts:
                    starting += 1
                    preceding.append(row)
                    if reserved.plan is None or not has_waited or starting > 1:
                        continue  # the order protects it from others of its queue, the first reservation the queue
                else:
                    is_first, slots = False, slots - 1
                    reserved.preceding = frozenset(preceding)
                    preceding.append(row)
                result.append(reserved)
        return result
