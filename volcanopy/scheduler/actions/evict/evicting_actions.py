"""preempt, reclaim, gangpreempt and gangreclaim: evictions for jobs that lack tasks. They differ in their rules (:mod:`.rules`).

1. Place nominated tasks, and the lost members of running gangs.
2. For each job that cannot start, in order, running gangs first, evict for its minimum, whole or not at all.
3. For each job whose minimum runs, in order, evict for its other tasks, as many as a rule allows. What was evicted for the
   minimum may suffice for them: they are for a later cycle.
4. Restore the victims that evictions for later jobs make needless.
5. Take the victims that this session binds out of the plan: they do not start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from volcanopy.api.gates import Gate
from volcanopy.scheduler.actions.allocate.running_gangs import RunningGangs, place_first
from volcanopy.scheduler.actions.evict.candidates import Searches, equivalence
from volcanopy.scheduler.actions.evict.counter_evictions import CounterEvictions
from volcanopy.scheduler.actions.evict.domain_search import DomainSearch
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.needless_evictions import CommittedEvictions, restore_needless
from volcanopy.scheduler.actions.evict.rejected_requests import RejectedRequests
from volcanopy.scheduler.actions.evict.rules import Rule, all_rules, of_own_queue, rules_for
from volcanopy.scheduler.actions.gang_need import idle_tasks
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.messages import reserved_for
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import Arguments, NoArguments, Rejection
from volcanopy.scheduler.policy.registry import action


class GangArguments(Arguments):
    """The number of hypernodes that are tried, and whether gangs may be broken."""

    most_domains: int = Field(8, alias="maxDomains", ge=1)
    whole: bool = Field(True, alias="allowWholeBundle")


@dataclass
class _Failures:
    """The jobs, by what distinguishes them, for which no victims were found, with the reason; valid until an eviction."""

    evictions: int = 0
    reasons: dict[object, str] = field(default_factory=dict)
    rejected: RejectedRequests = field(default_factory=RejectedRequests)
    """The requests for which the plugins allow to evict no candidate at all."""


class _GangEviction:
    """The evictions of one action in one session, for one job after the other.

    1. List the hypernodes that the topology of the job allows (without one the whole cluster), those that lack least first.
    2. In each, place the tasks that must start together, those for the minima of roles first, and evict bundles by cost where
       necessary; then restore what is not needed.
    3. Take the hypernode with the cheapest victims, of equals the closest one. If there is none, nothing is evicted.
    """

    def __init__(self, session: Session, action: str, arguments: GangArguments, queue: QueueView) -> None:
        """``queue``: any queue with waiting jobs."""
        self.session, self.action, self.arguments = session, action, arguments
        self.costs = EvictionCosts(session)
        counter = CounterEvictions(session, all_rules(session, self.costs, queue))
        self._searches = Searches(session, action, self.costs, counter, arguments.most_domains, arguments.whole)
        self._failures = session.state(_Failures)
        actions = session.config.actions
        self._position = actions.index(action) if action in actions else len(actions)

    def evict_for(self, job: JobView, tasks: Rows, rules: Sequence[Rule]) -> None:
        """Evict for the minimum of a job or, if it has that, for more tasks.

        A job equal to one for which no victims were found since the last eviction is not tried.
        """
        session = self.session
        pending = tasks[session.ledger.status[tasks] == Status.PENDING].tolist()
        eligible = [row for row in pending if session.snapshot.tasks.pods[row].spec.preemption_policy != "Never"]
        explains = self.action.startswith("gang")  # to the users of these actions
        if not eligible:
            if pending and explains:
                session.rejections.note(job.row, f"{self.action}: not eligible: preemptionPolicy is Never")
            return
        if self._failures.evictions != len(session.ledger.evictions):
            self._failures.evictions = len(session.ledger.evictions)
            self._failures.reasons.clear()
            self._failures.rejected.clear()
        key = self._key(job, eligible, rules)
        reason = self._failures.reasons.get(key)
        if reason is None:
            reason = self._evict(job, eligible, rules)
            if not reason:
                return
            self._failures.reasons[key] = reason
        if explains:
            session.rejections.note(job.row, reason)

    def _evict(self, job: JobView, rows: Sequence[int], rules: Sequence[Rule]) -> str:
        """Apply the cheapest exchange for these tasks; if there is none, return the reason."""
        session = self.session
        session.attempts[self.action] += 1
        own_queue = of_own_queue(rules)
        with session.statement() as statement:
            search = DomainSearch(self._searches, statement, job, rows, rules)
            applied = search.apply_cheapest(self._failures.rejected)
            if not applied and search.is_feasible and 0 < len(own_queue) < len(rules):
                # perhaps its queue may not reclaim all that it needs
                search = DomainSearch(self._searches, statement, job, rows, own_queue)
                applied = search.apply_cheapest(self._failures.rejected)
            if not applied:
                if tie := search.tie():
                    session.rejections.note(job.row, tie)
                return search.reason()
            if statement.evicted:
                session.state(CommittedEvictions).add(session, job, statement)
                session.commit(statement, job.key)
                for row, _ in statement.evicted:
                    session.evicted_for[int(session.snapshot.tasks.job[row])] = job.queue.name
            elif "allocate" not in session.config.actions[self._position :]:  # else it places what fits
                session.reserve(job, statement)
        return ""

    def _key(self, job: JobView, rows: Sequence[int], rules: Sequence[Rule]) -> object:
        session = self.session
        distinct = session.snapshot.jobs.structured[job.row] or any(role.minimum > 0 for role in job.roles)
        distinct |= any(rule.victims_of == "the job itself" for rule in rules) and job.ready_count > 0
        lacking = job.min_available - job.ready_count - job.waiting_count
        names = tuple((rule.reason, rule.victims_of) for rule in rules)
        shapes = session.hooks.by_cache_key(rows)
        idle = tuple(session.hooks.cache_key(TaskView(session.ledger, row)) for row in idle_tasks(session, job))
        return (names, job.row if distinct else None, lacking, len(rows), idle, *equivalence(session, job, shapes))


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
    eviction = _GangEviction(session, action, arguments, waiting[0][0])
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
