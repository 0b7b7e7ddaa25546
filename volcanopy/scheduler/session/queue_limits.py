"""The limits of queues on jobs, users and groups, kept whatever the configuration says and whichever action decides.

How many jobs of whom may be admitted is asked when a job is admitted, or, where nobody admits jobs, when it would begin.
What users and groups may hold is asked whenever a task is given a place. Nothing of this is there, and nothing is asked,
where no queue limits anybody.
"""

from typing import ClassVar

import numpy as np

from volcanopy.scheduler.framework.plugin import NoArguments, Plugin, Rejection
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.user_usage import Pools
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.limit_messages import Overlimit
from volcanopy.scheduler.model.resources import Ints, Rows

GATE = "limits"
_AHEAD = 3
"""So many of those who are in a job's way are named."""


class Limiting(Plugin[NoArguments]):
    """What a user or a group holds in a queue and those below it stays within what the queue lets them hold."""

    name: ClassVar[str] = "limits"

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """The limits of all queues from the task's own upwards."""
        return self.limits.denied(task, count)

    limits: "Gate"

    @classmethod
    def by(cls, gate: "Gate", cluster: Cluster) -> "Limiting":
        """The plugin that a session installs beside those of its configuration."""
        made = cls(NoArguments(), cluster)
        made.limits = gate
        return made


class Gate:
    """What the limits say in one session."""

    def __init__(self, ledger: Ledger, pools: Pools, displaces: bool) -> None:
        """``displaces``: less important jobs of the same queue can be made to leave."""
        self._ledger, self._pools, self._displaces = ledger, pools, displaces
        self._shape = ledger.snapshot.tasks.shape
        self._job = ledger.snapshot.tasks.job
        self._spare: dict[tuple[int, int, int, int], Ints] = {}
        self._named: dict[tuple[int, bool], tuple[str, ...]] = {}

    def kind(self, job: int) -> int:
        """Equal for jobs that are subject to the same limits."""
        return int(self._pools.kind[job])

    def denied(self, task: TaskView, count: int) -> Rejection | None:
        """Why there may not be ``count`` more tasks equal to this one."""
        job, shape = int(self._job[task.row]), int(self._shape[task.row])
        pool = self._pools.exceeded(job, shape, count)
        if pool is None:
            return None
        asked = self._ledger.snapshot.shapes.request.values[:, shape] * count
        return Rejection(GATE, self._overlimit(pool, asked, count))

    def inadmissible(self, job: JobView) -> Rejection | None:
        """Why the job may not be admitted."""
        return self.full(job) or self.unpromisable(job)

    def full(self, job: JobView) -> Rejection | None:
        """Why the job may not be admitted beside those that are."""
        pool = self._pools.full(job.row)
        if pool is None:
            return None
        subject, most = self._pools.subjects[pool], self._pools.caps[pool].jobs
        assert most is not None
        name = self._ledger.snapshot.queues.names[subject.queue]
        return Rejection(
            GATE, Overlimit(name, subject.kind, subject.name, pool, jobs=(most, self._pools.admitted[pool]))
        )

    def unpromisable(self, job: JobView) -> Rejection | None:
        """Why what the job needs to start cannot be promised to its user or group."""
        if not self._ledger.snapshot.jobs.has_min_resources[job.row]:
            return None
        spared = (lambda pool: self._lesser(pool, job)) if self._displaces else None
        pool = self._pools.promises_too_much(job.row, spared)
        if pool is None:
            return None
        return Rejection(GATE, self._overlimit(pool, self._pools.asks[:, job.row], 1, promised=True))

    def blocks_only_itself(self, denial: Rejection | None) -> bool:
        """Whether a job that is denied this waits for a limit of its user or group, which others need not share."""
        return denial is not None and isinstance(denial.reason, Overlimit) and denial.reason.kind != "queue"

    def frees_nothing(self, task: TaskView, victims: Rows) -> bool:
        """Whether a limit keeps the task out and no victim holds anything that counts for that limit."""
        pool = self._pools.exceeded(int(self._job[task.row]), int(self._shape[task.row]), 1)
        return pool is not None and not self._pools.members(pool)[self._job[victims]].any()

    def ahead(self, reason: Overlimit) -> tuple[str, ...]:
        """Whom a job waits for: the queue whose limit it is, or the oldest of the jobs that use the user's or group's up."""
        if reason.kind == "queue":
            return (f"queue {reason.queue}",)
        key = (reason.pool, reason.jobs is None)
        known = self._named.get(key)
        if known is None:
            jobs, pools = self._ledger.snapshot.jobs, self._pools
            allocated = self._ledger.job_allocated
            rows = pools.holding_in(reason.pool, allocated) if key[1] else pools.admitted_in(reason.pool)
            first = sorted(rows.tolist(), key=lambda row: (float(jobs.created[row]), str(jobs.keys[row])))[:_AHEAD]
            known = self._named[key] = tuple(f"job {jobs.keys[row]}" for row in first)
        return known

    def _overlimit(self, pool: int, asked: Ints, count: int, promised: bool = False) -> Overlimit:
        snapshot, pools = self._ledger.snapshot, self._pools
        subject, amounts = pools.subjects[pool], pools.caps[pool].amounts
        return Overlimit(
            snapshot.queues.names[subject.queue],
            subject.kind,
            subject.name,
            pool,
            names=tuple(snapshot.axis.names[dim] for dim, _ in amounts),
            limit=tuple(most for _, most in amounts),
            held=tuple(pools.held[pool]),
            wanted=tuple(int(asked[dim]) for dim, _ in amounts),
            promised=tuple(pools.promised[pool]) if promised else (),
            each=count,
        )

    def _lesser(self, pool: int, job: JobView) -> Ints:
        """(R,): what less important jobs of the job's queue hold that counts for the pool."""
        jobs = self._ledger.snapshot.jobs
        key = (pool, job.queue.row, job.priority, len(self._ledger.moved))
        if key not in self._spare:
            lesser = (jobs.queue == key[1]) & (jobs.priority < key[2]) & self._pools.members(pool)
            self._spare[key] = np.asarray(self._ledger.job_allocated[:, lesser].sum(axis=1))
        return self._spare[key]
