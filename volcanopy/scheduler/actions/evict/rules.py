"""Rules of the evicting actions: which jobs may evict, whose tasks are candidates, and in which order.

Two families of actions have one rule within a queue and one between queues each: ``preempt`` and ``reclaim``, and
``gangpreempt`` and ``gangreclaim``. If both actions of a family are configured, a job searches with both rules at once: the
fair share of its queue is reclaimed first, and jobs of its own queue are evicted for the rest. A job that was preempted
where its queue could reclaim would reclaim in the next cycle: two evictions where one does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain

import numpy as np

from volcanopy.api import names
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts, VictimKeys
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.roles import Purpose


@dataclass(frozen=True, eq=False)
class Rule:
    """Which tasks an action may evict for which."""

    reason: str  # The reason of its evictions: the name of the action.
    victims_of: str  # Whose tasks the victims are, for messages.
    may_ask: Callable[..., bool]
    """Whether a job lacks tasks for which the action evicts; with True, may lack some once evicted ones are pending."""
    is_eligible: Callable[[QueueView, Sequence[TaskView]], bool]
    """Whether the action may evict for these tasks of a queue, placed together."""
    rows: Callable[[], Rows]  # The running tasks that may be victims for any task of the queue.
    are_candidates: Callable[[TaskView, Rows], Mask]
    """(M,): which of these tasks, whatever their status, may be considered as victims for a task."""
    evictable: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    """The candidates that the plugins allow to evict for a task."""
    order: VictimKeys | None = None  # What orders candidates before their priorities do; None where nothing does.


MakeRule = Callable[[Session, EvictionCosts, QueueView], Rule]  # Makes the rule of an action for the jobs of a queue.


def within_job(session: Session, costs: EvictionCosts, queue: QueueView) -> Rule:
    """Of ``preempt``: tasks of lower priority of the same job; equal priority would not help the job."""
    table = session.snapshot.tasks

    def are_candidates(task: TaskView, rows: Rows) -> Mask:
        lower = table.priority[rows] < table.priority[task.row]
        return lower & (table.job[rows] == table.job[task.row])

    def evictable(task: TaskView, victims: Sequence[TaskView]) -> list[TaskView]:
        lower = [victim for victim in victims if victim.priority < task.priority]
        return session.hooks.victims[Purpose.PREEMPT](task, lower)

    rows = partial(costs.of_queue, queue.row)
    return Rule("preempt", "the job itself", session.gangs.is_starving, always, rows, are_candidates, evictable)


def within_queue(session: Session, costs: EvictionCosts, queue: QueueView) -> Rule:
    """Of ``preempt``: tasks of other jobs of the same queue, for jobs that plugins call starving."""
    table, jobs, hooks = session.snapshot.tasks, session.snapshot.jobs, session.hooks

    def are_candidates(task: TaskView, rows: Rows) -> Mask:
        own, others = int(table.job[task.row]), table.job[rows]
        return (others != own) & (jobs.queue[others] == jobs.queue[own])

    starving, victims = session.gangs.is_starving, hooks.victims[Purpose.PREEMPT]
    rows = partial(costs.of_queue, queue.row)
    return Rule("preempt", "other jobs", starving, always, rows, are_candidates, victims)


def between_queues(session: Session, costs: EvictionCosts, queue: QueueView) -> Rule:
    """Of ``reclaim``: running tasks of other queues that are reclaimable, for jobs within the share of their queue.

    Jobs above their minimum are included: the fair share of a queue is for any of its pods. Tasks that started again
    within the cooldown of :mod:`volcanopy.scheduler.model.eviction_record` are no candidates: queues must not evict a job
    again and again. Queues lose tasks in the order of their ranks as victims.
    """
    queues, status, hooks = session.snapshot.queues, session.ledger.status, session.hooks
    ranks: Callable[[], Ints] = cache(lambda: costs.queue_ranks(queue))

    def is_eligible(own: QueueView, tasks: Sequence[TaskView]) -> bool:
        return hooks.queue_verdict(own) is None and session.quotas.may_reclaim(own, tasks)

    def running() -> Rows:
        rows: Rows = costs.rows[status[costs.rows] == Status.RUNNING]
        return rows[~costs.is_protected(rows)]

    def are_candidates(task: TaskView, rows: Rows) -> Mask:
        owners = costs.queue[rows]
        return (owners != costs.queue[task.row]) & queues.reclaimable[owners]

    def order(rows: Rows) -> Ints:
        return ranks()[costs.queue[rows]][None]

    def has_pending(job: JobView, more: bool = False) -> bool:
        return more or job.count(Status.PENDING) > 0

    victims = hooks.victims[Purpose.RECLAIM]
    return Rule("reclaim", "other queues", has_pending, is_eligible, running, are_candidates, victims, order)


def gangs_within_queue(session: Session, costs: EvictionCosts, queue: QueueView) -> Rule:
    """Of ``gangpreempt``: tasks of jobs of lower priority in the same queue, unless their pod group specifies otherwise."""
    rule = _for_gangs(session, within_queue(session, costs, queue), Purpose.GANG_PREEMPT)
    priority, owner = session.snapshot.jobs.priority, session.snapshot.tasks.job

    def are_candidates(task: TaskView, rows: Rows) -> Mask:
        lower: Mask = priority[owner[rows]] < priority[owner[task.row]]
        return lower & rule.are_candidates(task, rows)

    victims_of = f'lower-priority jobs of queue "{queue.name}"'
    return replace(rule, reason="gangpreempt", victims_of=victims_of, are_candidates=are_candidates)


def gangs_between_queues(session: Session, costs: EvictionCosts, queue: QueueView) -> Rule:
    """Of ``gangreclaim``: as of ``reclaim``, unless the pod group of the victim specifies otherwise."""
    rule = _for_gangs(session, between_queues(session, costs, queue), Purpose.GANG_RECLAIM)
    return replace(rule, reason="gangreclaim")


FAMILIES: tuple[Mapping[str, tuple[MakeRule, ...]], ...] = (
    {"reclaim": (between_queues,), "preempt": (within_queue, within_job)},
    {"gangreclaim": (gangs_between_queues,), "gangpreempt": (gangs_within_queue,)},
)
"""The rules of each action, in the order in which their candidates are evicted."""


def rules_for(session: Session, costs: EvictionCosts, queue: QueueView, action: str) -> tuple[Rule, ...]:
    """Return the rules by which a job of a queue searches when an action runs: those of the action's configured family."""
    return _made(session, costs, queue, next(family for family in FAMILIES if action in family), action)


def all_rules(session: Session, costs: EvictionCosts, queue: QueueView) -> tuple[Rule, ...]:
    """Return the rules of all configured actions, by which a job could evict in a later cycle."""
    return tuple(rule for family in FAMILIES for rule in _made(session, costs, queue, family))


def of_own_queue(rules: Sequence[Rule]) -> list[Rule]:
    """Return those rules by which a job evicts in its own queue."""
    return [rule for rule in rules if rule.order is None]


def _made(
    session: Session, costs: EvictionCosts, queue: QueueView, family: Mapping[str, tuple[MakeRule, ...]], *also: str
) -> tuple[Rule, ...]:
    makers = [family[action] for action in family if action in (*session.config.actions, *also)]
    return tuple(make(session, costs, queue) for make in chain.from_iterable(makers))


def _for_gangs(session: Session, rule: Rule, purpose: Purpose) -> Rule:
    """Return a rule restricted to jobs that may be evicted in bundles, with the answers of plugins for these."""
    owner = session.snapshot.tasks.job

    @cache
    def allowed(job: int) -> bool:
        return pod_fields.flag(session.snapshot.jobs.groups[job].metadata, names.PREEMPTABLE, absent=True)

    def are_candidates(task: TaskView, rows: Rows) -> Mask:
        jobs = np.unique(owner[rows])
        jobs = jobs[np.fromiter((allowed(int(job)) for job in jobs), np.bool_, len(jobs))]
        return rule.are_candidates(task, rows) & np.isin(owner[rows], jobs)

    return replace(rule, are_candidates=are_candidates, evictable=session.hooks.victims[purpose])


def always(_: QueueView, __: Sequence[TaskView]) -> bool:
    """Where every job may evict."""
    return True


def candidates(session: Session, rule: Rule, task: TaskView, rows: Rows) -> Rows:
    """Return those of these tasks that may be victims for a task; without requests only those that have none either."""
    rows = rows[rule.are_candidates(task, rows)]
    if not task.best_effort:
        return rows
    return rows[session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[rows]]]
