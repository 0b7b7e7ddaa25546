"""The limits of queues on jobs, users and groups: a mandatory plugin, and the questions that actions ask it.

The number of admitted jobs is checked when a job is admitted or, without the action enqueue, when it is first considered.
The resources of users and groups are checked whenever a task is placed.
"""

from typing import ClassVar

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.queue_quota import Limiter
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin, Rejection


def applies(snapshot: Snapshot) -> bool:
    """Whether any queue has limits on jobs, users or groups."""
    return snapshot.queues.terms.limits is not None


class QueueLimits(Plugin[NoArguments], Limiter):
    """The usage of users and groups in a queue and its descendants stays within the limits of that queue."""

    name: ClassVar[str] = "queuelimits"

    def open(self) -> None:
        """Get the tables."""
        ledger = self.cluster.reads.ledger
        assert ledger.pools is not None
        self._ledger, self._pools = ledger, ledger.pools
        self._shape, self._job = ledger.snapshot.tasks.shape, ledger.snapshot.tasks.job
        self._blockers: dict[tuple[int, bool], tuple[str, ...]] = {}

    def limit_rejection(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Check the limits of the task's queue and of all its ancestors."""
        job, shape = int(self._job[task.row]), int(self._shape[task.row])
        pool = self._pools.exceeded(job, shape, count)
        if pool is None:
            return None
        request = self._ledger.snapshot.shapes.request.values[:, shape] * count
        return Rejection(Gate.LIMITS, self._quota(pool, request, count))

    def limit_class(self, job: int) -> int:
        """Return a number that is equal for jobs subject to the same limits."""
        return int(self._pools.kind[job])

    def rejects_admission(self, job: JobView) -> Rejection | None:
        """Return why the job cannot be admitted, or its minimal resources be reserved, within the limits; None if they can."""
        rejection = self.exceeds_job_count(job)
        if rejection is not None or not self._ledger.snapshot.jobs.has_min_resources[job.row]:
            return rejection
        of_job = job.queue.row, job.priority, len(self._ledger.moved)
        evictable = (
            (lambda pool: self._lower_priority_allocated(pool, *of_job)) if self.cluster.queries.preempts else None
        )
        pool = self._pools.exceeding_reservations(job.row, evictable)
        if pool is None:
            return None
        return Rejection(Gate.LIMITS, self._quota(pool, self._pools.requested[:, job.row], 1, admission=True))

    def exceeds_job_count(self, job: JobView) -> Rejection | None:
        """Return the rejection by a limit on the number of admitted jobs, None if there is none."""
        pool = self._pools.full(job.row)
        if pool is None:
            return None
        jobs = self._pools.caps[pool].jobs or 0, self._pools.admitted[pool]
        return Rejection(Gate.LIMITS, self._message(pool)._replace(jobs=jobs))

    def is_submitter_limit(self, rejection: Rejection | None) -> bool:
        """Return whether a rejection is by a limit of the job's user or group, which jobs behind it need not share."""
        reason = None if rejection is None else rejection.reason
        return isinstance(reason, QuotaMessage) and reason.subject != "queue"

    def evictions_do_not_help(self, task: TaskView, victims: Rows) -> bool:
        """Return whether a limit rejects the task and no victim's usage counts towards that limit."""
        pool = self._pools.exceeded(int(self._job[task.row]), int(self._shape[task.row]), 1)
        return pool is not None and not self._pools.members(pool)[self._job[victims]].any()

    def blocked_by(self, reason: QuotaMessage) -> tuple[str, ...]:
        """Return the queue whose limit it is, or the oldest of the jobs that use the limit of the user or group."""
        if reason.subject == "queue":
            return (f"queue {reason.queue}",)
        key = (reason.pool, reason.jobs is None)
        known = self._blockers.get(key)
        if known is None:
            jobs, pools = self._ledger.snapshot.jobs, self._pools
            allocated = self._ledger.job_allocated
            rows = pools.holding_in(reason.pool, allocated) if key[1] else pools.admitted_in(reason.pool)
            oldest = sorted(rows.tolist(), key=lambda row: (float(jobs.created[row]), str(jobs.keys[row])))[
                : defaults.NAMED_BLOCKERS
            ]
            known = self._blockers[key] = tuple(f"job {jobs.keys[row]}" for row in oldest)
        return known

    def _quota(self, pool: int, request: Ints, count: int, admission: bool = False) -> QuotaMessage:
        snapshot, pools = self._ledger.snapshot, self._pools
        amounts = pools.caps[pool].amounts
        return self._message(pool)._replace(
            names=tuple(snapshot.axis.names[dim] for dim, _ in amounts),
            limit=tuple(most for _, most in amounts),
            allocated=tuple(pools.held[pool]),
            requested=tuple(int(request[dim]) for dim, _ in amounts),
            reserved=tuple(pools.reserved[pool]) if admission else (),
            parts=count,
        )

    def _message(self, pool: int) -> QuotaMessage:
        """Return the message about the limit of a pool, without amounts."""
        subject = self._pools.subjects[pool]
        name = self._ledger.snapshot.queues.names[subject.queue]
        return QuotaMessage("limits", name, subject=subject.kind, name=subject.name, pool=pool)

    @once
    def _lower_priority_allocated(self, pool: int, queue: int, priority: int, _: int) -> Ints:
        """(R,): the usage of jobs of lower priority in a queue that counts for the pool, after so many changes of tasks."""
        jobs = self._ledger.snapshot.jobs
        lower = (jobs.queue == queue) & (jobs.priority < priority) & self._pools.members(pool)
        return np.asarray(self._ledger.job_allocated[:, lower].sum(axis=1))
