"""The reservation of one job: of the rest of a limit, of the rest of the fair share of its queue, or of nodes.

1. Where a limit of its queue rejects the tasks that the job lacks, the rest of the limit is reserved, if that can ever suffice.
2. Else the start of the job on nodes is planned, unless enough is free for all.
3. Where the tasks exceed the fair share of the queue, and the job may not exceed it, the rest of the share is reserved.
4. Else the nodes of the plan are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from volcanopy.api.builtin import pod_claims, storage
from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine import reservation_planner as planner
from volcanopy.scheduler.engine.reserved_job import ReservedJob
from volcanopy.scheduler.engine.task_ends import Basis, TaskEnds
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.traits.node_affinity import domains
from volcanopy.scheduler.policy.plugin import Rejection

EqualTasks = Sequence[tuple[TaskView, int]]
"""The tasks of a job by shape: one of each, and how many there are."""


class JobReservations:
    """Computes the reservations of jobs, one after another."""

    def __init__(self, cluster: Cluster, ends: TaskEnds, basis: Basis) -> None:
        self._cluster, self._ends, self._basis = cluster, ends, basis
        self._now = cluster.now.timestamp()
        self.planned: list[ReservedJob] = []
        """The jobs with reserved nodes before the next one: their nodes are free again when they have run."""

    def of(self, job: JobView, free: Ints, is_first: bool, enough: bool) -> ReservedJob | None:
        """Return the reservation of a job; None if none helps, or none is needed. Without a plan where there is ``enough``.

        One that is overdue may exceed the fair share of its queue, and so may that of the first queue. With ``reclaim`` the
        latter only does if it is larger than the whole share: others could reclaim what it gets soon after its start.
        """
        rows, snapshot = lacking_tasks(self._cluster, job), self._cluster.snapshot
        if not len(rows):
            return None
        nominated = rows[snapshot.tasks.nominated[rows] != NONE]
        _, first, counts = np.unique(snapshot.tasks.shape[rows], return_index=True, return_counts=True)
        shapes = sorted(zip(first.tolist(), counts.tolist(), strict=True))
        equal_tasks = [(self._cluster.task(int(rows[place])), count) for place, count in shapes]
        reserved = ReservedJob(job, equal_tasks[0][0], tasks=rows)
        limit = self._exceeded_limit(job, equal_tasks)
        if limit is not None:
            return self._of_limit(reserved, limit)
        if len(nominated) == len(rows):
            return None  # the nominations of its pods are its reservation
        queries = self._cluster.queries
        usable = free + self._nominated(nominated, free) if len(nominated) else free
        overdue = queries.overdue(job)
        shares = (queries.within_share(job.queue, task, count) for task, count in equal_tasks)
        above = None if overdue else next((each for each in shares if each is not None), None)
        if not enough or overdue or above is not None:
            reserved.plan = self._plan(reserved, equal_tasks, usable)
            if reserved.plan is None:
                return None
            may_exceed = above is None or (is_first and (not queries.reclaims or above.never_passes))
            if above is not None and not may_exceed:
                return self._of_share(reserved, above, reserved.plan.until)
        if not overdue and not is_first and queries.reserved_as_first(job.queue, snapshot.requests(rows).sum(axis=1)):
            return None
        return self._of_nodes(reserved, equal_tasks, usable)

    def _exceeded_limit(self, job: JobView, equal_tasks: EqualTasks) -> Rejection | None:
        """Return the rejection of tasks by a limit other than that of the cluster, None if there is none."""
        for task, count in equal_tasks:
            rejection = self._cluster.queries.within_limits(job.queue, task, count)
            quota = None if rejection is None else rejection.reason
            is_cluster = isinstance(quota, QuotaMessage) and quota.gate == Gate.NODES
            if rejection is not None and not is_cluster:
                return rejection
        return None

    def _nominated(self, rows: Rows, free: Ints) -> Ints:
        """(R, N): what these nominated tasks request, which is not free for others."""
        own = np.zeros_like(free)
        np.add.at(own.T, self._cluster.snapshot.tasks.nominated[rows], self._cluster.snapshot.requests(rows).T)
        return own

    def _plan(self, reserved: ReservedJob, equal_tasks: EqualTasks, usable: Ints) -> planner.Hold | None:
        """Return when and where a job starts on (R, N) usable resources; None if it never does."""
        infeasible = self._cluster.queries.infeasible_nodes
        parts = [planner.Part(task.request.values, count, ~infeasible(task)) for task, count in equal_tasks]
        return planner.hold(usable, parts, self._leaving(reserved), self._now)

    # The three outcomes

    def _of_limit(self, reserved: ReservedJob, rejection: Rejection) -> ReservedJob | None:
        """Reserve the rest of a queue's limit, if it can ever suffice."""
        quota = rejection.reason
        if not isinstance(quota, QuotaMessage) or rejection.never_passes:
            return None
        quota = quota.binding()
        reserved.reserve_limit(self._cluster, rejection, self._limited_jobs(reserved.job, quota))
        reserved.until = self._released(reserved, quota, 0.0)
        return reserved

    def _limited_jobs(self, job: JobView, quota: QuotaMessage) -> Mask:
        """(J,): the jobs to which a limit on a job applies: those of a user or group, or of its queue and the queues below."""
        pools = self._cluster.reads.ledger.pools
        if pools is not None and quota.pool >= 0:
            return pools.members(quota.pool)
        queues, own = self._cluster.snapshot.queues, job.queue.row
        limited = queues.index[quota.queue]
        below = [own] if own == limited else [row for row, line in enumerate(queues.lines) if limited in line]
        return np.isin(self._cluster.snapshot.jobs.queue, below)

    def _of_share(self, reserved: ReservedJob, rejection: Rejection, ready: float) -> ReservedJob:
        """Reserve the rest of the fair share of a queue for its job, for which nodes are not ready before ``ready``."""
        jobs = self._cluster.snapshot.jobs
        reserved.reserve_limit(self._cluster, rejection, jobs.queue == reserved.job.queue.row)
        reserved.until = self._now
        if isinstance(rejection.reason, QuotaMessage):
            reserved.until = self._released(reserved, rejection.reason.binding(), ready)
        return reserved

    def _of_nodes(self, reserved: ReservedJob, equal_tasks: EqualTasks, usable: Ints) -> ReservedJob | None:
        """Reserve the planned nodes; None if it is not free resources that the job lacks."""
        plan = reserved.plan
        reserved.until = self._now if plan is None else plan.until
        reserved.fits = plan is None or plan.start <= self._now
        if reserved.fits_in(usable) and _is_kept_out(self._cluster, equal_tasks, usable):
            return None
        reserved.likely = plan.likely if plan and self._basis != "walltime" else 0.0
        return reserved

    # The ends of tasks

    def _released(self, reserved: ReservedJob, quota: QuotaMessage, otherwise: float) -> float:
        """Return when the tasks of the jobs to which a limit applies have released what a limit lacks (:func:`released_at`)."""
        missing, short = planner.lacking_of_quota(self._cluster.axis, quota)
        return planner.released_at(self._leaving(reserved, reserved.members), missing, short, self._now, otherwise)

    def _leaving(self, reserved: ReservedJob, members: Mask | None = None) -> planner.Leaving:
        """Return the running tasks of other jobs with their ends; those that the job can preempt end now."""
        snapshot = self._cluster.snapshot
        table, jobs = snapshot.tasks, snapshot.jobs
        # In the first half of its wait: after twice the longest run time there are none, since the half moves on with its wait.
        half = (table.created[reserved.tasks].max() + self._now) / 2
        rows, ends, known, earlier = self._ends.running_extended(half)
        owners, leaving = table.job[rows], planner.Leaving(*self._ends.released, ends, known, earlier)
        others = (owners != reserved.job.row) & (True if members is None else members[owners])
        if not others.all():
            rows, owners, leaving = rows[others], owners[others], leaving.pick(others)
        lower = (jobs.queue == reserved.job.queue.row) & (jobs.priority < reserved.job.priority)
        below = np.flatnonzero(lower[owners] & table.preemptable[rows]) if lower.any() else ()
        if len(below):
            # Disruption budgets depend on the order: by name, not by arrival.
            named = sorted(rows[below].tolist(), key=table.keys.item)
            now = np.isin(rows, self._cluster.queries.preemptable(reserved.task, named))
            leaving = leaving._replace(end=np.where(now, self._now, leaving.end), known=leaving.known | now)
        if members is not None:
            return leaving
        return leaving.joined([self._future(each) for each in self.planned if each.plan is not None])

    def _future(self, reserved: ReservedJob) -> planner.Leaving:
        """Return what a job with a reservation releases at its end, if it starts at the planned time."""
        assert reserved.plan is not None
        total, known = self._ends.run_times(reserved.tasks, np.zeros(len(reserved.tasks)))
        return reserved.plan.released(float(total.max()), bool(known.all()))


def lacking_tasks(cluster: Cluster, job: JobView) -> Rows:
    """Return the pending tasks that the job's minimum lacks, those of role minima first; none if there are too few."""
    table, best_effort = cluster.snapshot.tasks, cluster.snapshot.shapes.best_effort
    rows = job.tasks(Status.PENDING)
    rows = rows[~table.gated[rows]]
    idle = best_effort[table.shape[rows]]
    order = np.lexsort((table.keys[rows].astype(np.str_), table.ordinal[rows], ~idle))
    needed = np.array(job.needed(rows[order].tolist()), dtype=np.intp)
    roles = table.role[needed].tolist()
    if len(needed) < job.lacking or any(
        role.ready + role.pipelined + roles.count(role.row) < role.minimum for role in job.binding_roles
    ):
        return needed[:0]
    return needed[~best_effort[table.shape[needed]]]


def is_ample(cluster: Cluster, free: Ints, jobs: Sequence[int]) -> bool:
    """Return whether (R, N) free resources suffice for all pending tasks, in any order, on nodes that suit all of these jobs.

    As many tasks fit as of the largest request of each resource: whichever is placed first takes the place of one at most.
    """
    snapshot = cluster.snapshot
    table = snapshot.tasks
    pending = (table.status == Status.PENDING).nonzero()[0]
    largest = snapshot.requests(pending).max(axis=1, initial=0)
    part = planner.Part(largest, len(pending), np.ones(free.shape[1], dtype=np.bool_))
    if not planner.has_capacity(part, free):
        return False
    rows = pending[np.isin(table.job[pending], jobs)]
    for row in rows[np.unique(table.shape[rows], return_index=True)[1]].tolist():
        part = replace(part, nodes=part.nodes & ~cluster.queries.infeasible_nodes(cluster.task(row)))
    return planner.has_capacity(part, free)


def _is_kept_out(cluster: Cluster, shapes: Iterable[tuple[TaskView, int]], free: Ints) -> bool:
    """Whether host ports, anti-affinity or ReadWriteOncePod claims keep out a gang where (R, N) are free.

    ``shapes`` are a task of each shape and how many such tasks there are.
    Affinity, spread constraints and different shapes that exclude each other are not judged: they depend on the order.
    """
    return any(_slots(cluster, task, free) < count for task, count in shapes)


def _slots(cluster: Cluster, task: TaskView, free: Ints) -> float:
    """Return an upper bound on the number of equal tasks that can be placed now; infinity where pods do not matter."""
    terms = task.terms
    has_ports = bool(task.spec.host_ports)
    anti_affinity = () if terms is None else terms.anti_affinity
    claims = [cluster.snapshot.claim_tables.claims.get(claim.key) for claim in pod_claims.volumes(task.pod)]
    exclusive = any(claim is not None and storage.EXCLUSIVE in claim.spec.access_modes for claim in claims)
    if not (anti_affinity or has_ports or exclusive) or (terms is not None and (terms.affinity or terms.spread)):
        return float("inf")
    allowed = (np.maximum(free, 0) >= task.request.values[:, None]).all(axis=0)
    allowed &= ~cluster.queries.infeasible_nodes(task)
    for rejection in cluster.queries.rejections(task, cluster.nodes()):
        allowed &= ~rejection.nodes
    own = [domains(term.topology_key, cluster.traits) for term in anti_affinity if term.selector in task.matched]
    numbers = [topology.numbers[allowed] for topology in own]
    counts = [len(np.unique(each[each > 0])) + int((each == 0).sum()) for each in numbers]  # 0: nodes without the label
    slots = [*counts, *([int(allowed.sum())] if has_ports else []), *([1] if exclusive else [])]
    return min(slots, default=float("inf")) if allowed.any() else 0
