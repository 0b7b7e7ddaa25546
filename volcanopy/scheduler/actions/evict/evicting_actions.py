"""preempt, reclaim, gangpreempt and gangreclaim: evictions for jobs that lack tasks. They differ in their rules (:mod:`.rules`).

1. Place nominated tasks, and the lost members of running gangs.
2. For each job that cannot start, in order, running gangs first, evict for its minimum, whole or not at all.
3. For each job whose minimum runs, in order, evict for its other tasks, as many as a rule allows. What was evicted for the
   minimum may suffice for them: they are for a later cycle.
4. Restore the victims that evictions for later jobs make needless.
5. Take the victims that this session binds out of the plan: they do not start.
"""

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.actions.allocate.running_gangs import RunningGangs, place_first
from volcanopy.scheduler.actions.evict.gang_eviction import GangArguments, GangEviction
from volcanopy.scheduler.actions.evict.needless_evictions import CommittedEvictions, restore_needless
from volcanopy.scheduler.actions.evict.rules import rules_for
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, QueueView
from volcanopy.scheduler.model.messages import reserved_for
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.policy.plugin import NoArguments, Rejection
from volcanopy.scheduler.policy.registry import action


@action("preempt")
def preempt(session: Session, _: NoArguments) -> None:
    """For jobs that lack tasks, evict tasks of other jobs of their queue, then of the job itself, as the plugins allow."""
    _evict_for_waiting_jobs(session, "preempt", GangArguments())


@action("reclaim")
def reclaim(session: Session, _: NoArguments) -> None:
    """For jobs that lack tasks, evict running tasks of other queues, as far as the plugins allow."""
    _evict_for_waiting_jobs(session, "reclaim", GangArguments())


@action("gangpreempt", GangArguments)
def gangpreempt(session: Session, arguments: GangArguments) -> None:
    """For gangs that lack members, evict bundles of lower-priority jobs of their queue, in one hypernode."""
    _evict_for_waiting_jobs(session, "gangpreempt", arguments)


@action("gangreclaim", GangArguments)
def gangreclaim(session: Session, arguments: GangArguments) -> None:
    """For gangs that lack members, evict bundles of running tasks of other queues, in one hypernode."""
    _evict_for_waiting_jobs(session, "gangreclaim", arguments)


def _evict_for_waiting_jobs(session: Session, action: str, arguments: GangArguments) -> None:
    place_first(session)
    waiting = _waiting_jobs(session)
    if not waiting:
        return
    eviction = GangEviction(session, action, arguments, waiting[0][0])
    broken = session.state(RunningGangs).broken
    for has_turn in (
        lambda job: job.row in broken and not session.gangs.will_start(job),
        lambda job: job.row not in broken and not session.gangs.will_start(job),
        session.gangs.is_ready,
    ):
        for queue, jobs in waiting:
            rules = rules_for(session, eviction.costs, queue, action)
            for job, tasks in jobs:
                asking = [rule for rule in rules if rule.may_ask(job)]
                if asking and has_turn(job):
                    eviction.evict_for(job, tasks, asking)
    restore_needless(session)
    _cancel_starts(session)


def _cancel_starts(session: Session) -> None:
    """Take the binds of tasks that were evicted since out of the plan."""
    table, evictions = session.snapshot.tasks, session.ledger.evictions
    rows = np.array([row for row in evictions if session.ledger.is_new(row)], dtype=np.intp)
    jobs = dict(zip(table.keys[rows].tolist(), table.job[rows].tolist(), strict=True))
    if not jobs:
        return
    for effect in session.effects:
        if isinstance(effect, Evict) and effect.pod in jobs:
            session.rejections.add(jobs[effect.pod], Rejection(Gate.NODES, reserved_for(effect.preemptor)))
    session.effects = [effect for effect in session.effects if not (isinstance(effect, Bind) and effect.pod in jobs)]
    with session.statement() as statement:
        statement.withdraw_all(rows)
        for row in rows.tolist():
            del evictions[row]
        session.cancel_evictions(statement, rows.tolist())
    session.state(CommittedEvictions).remove(set(rows.tolist()))


def _waiting_jobs(session: Session) -> list[tuple[QueueView, list[tuple[JobView, Rows]]]]:
    """Return the admitted, valid jobs that lack tasks, by queue in order, each with its pending tasks.

    Jobs rejected at the gate of their queue are left out, such as those behind the head of a FIFO queue.
    """
    tasks = session.by_job(session.pending())
    queues: dict[int, list[tuple[JobView, Rows]]] = {}
    rejections = ((job, session.rejections.rejection(job.row)) for job in session.waiting_jobs())
    waiting = [job for job, rejection in rejections if rejection is None or rejection.gate != Gate.QUEUE]
    for job in session.valid_in_order(job for job in waiting if job.row in tasks and job.phase != "Pending"):
        queues.setdefault(job.queue.row, []).append((job, tasks[job.row]))
    return [(session.cluster.queue(row), jobs) for row, jobs in queues.items()]
