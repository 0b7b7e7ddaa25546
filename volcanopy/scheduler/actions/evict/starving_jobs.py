"""Starving jobs, which lack tasks, and the evictions of preempt and reclaim for one of them."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.victim_search import Rule, VictimSearch
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

    def evict_for(self, job: JobView, tasks: Rows, rule: Rule, costs: EvictionCosts) -> bool:
        """Evict for a job until its whole minimum is placed, or not at all; return whether anything was evicted.

        A job equal to one for which no victims were found since the last eviction is not tried.
        """
        session = self.session
        lacking = job.min_available - job.ready_count
        key = (rule.victims_of, len(tasks), lacking, *equivalence(session, job, tasks.tolist()))
        if key in self._failed:
            return False
        session.attempts[rule.reason] += 1
        with session.statement() as statement:
            search = VictimSearch(session, statement, job, rule, costs)
            for row in tasks.tolist():
                if not session.hooks.job_starving(job):
                    break
                task = TaskView(session.ledger, row)
                if task.pod.spec.preemption_policy != "Never" and rule.is_eligible(task):
                    search.place(task)
            will_start = search.placed and session.hooks.will_start(job)
            if will_start and search.victims and search.finish():
                session.commit(statement, job.key)
                self._failed.clear()
                return True
            if will_start and not search.victims and not allocates_later(session, rule.reason):
                session.reserve(job, statement)
                return False
        self._failed.add(key)
        return False


def starving_jobs(session: Session) -> Starving:
    """Return the admitted, valid jobs with pending tasks that plugins call starving."""
    table = session.snapshot.tasks
    tasks = session.by_job(np.flatnonzero((session.ledger.status == Status.PENDING) & ~table.gated))
    queues: dict[int, list[JobView]] = {}
    hooks, waiting = session.hooks, session.waiting_jobs()
    invalid = hooks.job_valid(np.array([job.row for job in waiting], dtype=np.intp))
    for job in waiting:
        if job.row in tasks and job.phase != "Pending" and hooks.job_starving(job) and job.row not in invalid:
            queues.setdefault(job.queue.row, []).append(job)
    for jobs in queues.values():
        jobs.sort(key=session.job_key)
    ordered = sorted((session.cluster.queue(row) for row in queues), key=session.queue_key)
    return Starving(session, tasks, [(queue, queues[queue.row]) for queue in ordered])


def allocates_later(session: Session, action: str) -> bool:
    """Return whether allocate runs after this action: then tasks that fit without evictions are left to it."""
    actions = session.config.actions
    return action in actions and "allocate" in actions[actions.index(action) :]


def equivalence(session: Session, job: JobView, tasks: Iterable[int]) -> tuple[Hashable, ...]:
    """Return a key that is equal for jobs for which the same evictions are possible, given how many tasks they lack."""
    return (
        job.queue.row,
        None if session.limits is None else session.limits.limit_class(job.row),
        job.priority,
        job.preemptable,
        job.allocated.values.tobytes(),
        frozenset(session.hooks.cache_key(TaskView(session.ledger, row)) for row in tasks),
    )
