"""What preempt and reclaim have in common: who lacks tasks, and the turn of a job that may take room from others."""

from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import Worth
from volcanopy.scheduler.actions.evict.victim_search import RoomMaker, Rule
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session


@dataclass
class Starving:
    """The jobs that lack tasks, by queue in order, with their pending tasks."""

    session: Session
    tasks: dict[int, Rows]
    queues: list[tuple[QueueView, list[JobView]]]
    _failed: set[object] = field(default_factory=set)

    def turn(self, job: JobView, tasks: Rows, rule: Rule, worth: Worth) -> bool:
        """Take room from others for a job; whether anything was evicted. All of its minimum gets its room, or none.

        A job that is in every respect like one for which nothing was found since the last eviction is not tried.
        """
        session = self.session
        kind = (rule.among, self._kind(job, tasks))
        if kind in self._failed:
            return False
        session.attempts[rule.reason] += 1
        with session.statement() as statement:
            maker = RoomMaker(session, statement, job, rule, worth)
            for row in tasks.tolist():
                if not session.hooks.job_starving(job):
                    break
                task = TaskView(session.ledger, row)
                if task.pod.spec.preemption_policy != "Never" and rule.may_take(task):
                    maker.make_room(task)
            will_start = maker.placed and session.hooks.will_start(job)
            if will_start and maker.victims and maker.settle():
                session.commit(statement, job.key)
                self._failed.clear()
                return True
            if will_start and not maker.victims and not self._allocates_later(rule.reason):
                session.reserve(job, statement)
                return False
        self._failed.add(kind)
        return False

    def _allocates_later(self, action: str) -> bool:
        """Whether tasks that fit without evictions still get their turn: then they are left alone here."""
        actions = self.session.config.actions
        return action in actions and "allocate" in actions[actions.index(action) :]

    def _kind(self, job: JobView, tasks: Rows) -> object:
        likeness = self.session.hooks.likeness
        kinds = tuple(sorted({hash(likeness(TaskView(self.session.ledger, row))) for row in tasks.tolist()}))
        return (
            job.queue.row,
            None if self.session.limits is None else self.session.limits.limit_class(job.row),
            job.priority,
            job.preemptable,
            job.min_available - job.ready_count,
            len(tasks),
            kinds,
            job.allocated.values.tobytes(),
        )


def starving(session: Session) -> Starving:
    """Find who lacks tasks: admitted jobs, of which enough pods exist, with pending ones."""
    table = session.snapshot.tasks
    tasks = session.by_job(np.flatnonzero((session.ledger.status == Status.PENDING) & ~table.gated))
    queues: dict[int, list[JobView]] = {}
    for job in session.waiting_jobs():
        hooks = session.hooks
        if job.row in tasks and job.phase != "Pending" and hooks.job_starving(job) and hooks.job_valid(job) is None:
            queues.setdefault(job.queue.row, []).append(job)
    for jobs in queues.values():
        jobs.sort(key=session.job_key)
    ordered = sorted((session.cluster.queue(row) for row in queues), key=session.queue_key)
    return Starving(session, tasks, [(queue, queues[queue.row]) for queue in ordered])
