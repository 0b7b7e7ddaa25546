"""Whether a victim's gang could undo an eviction by evicting the preemptor in its turn: both would evict each other for ever.

The state is judged in which the preemptor runs and the victims wait to be created again. A victim's gang returns as it would
ask in a later cycle: with all tasks that its minimum lacks, or a gang that still has its minimum with one task; and it must
be allowed to evict a pod that the preemptor can spare, or its whole gang.
"""

from collections.abc import Sequence

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import structured
from volcanopy.scheduler.actions.evict.rules import Rule, candidates
from volcanopy.scheduler.actions.gang_need import gang_need
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.task_status import HOLDING, Status

_HOLDING = tuple(Status(code) for code in np.flatnonzero(HOLDING).tolist())


class CounterEvictions:
    """The check for the searches of one session."""

    def __init__(self, session: Session, rules: Sequence[Rule]) -> None:
        """``rules``: those of all configured actions."""
        self._session, self._rules = session, rules
        self._may_ask = tuple(dict.fromkeys(rule.may_ask for rule in rules))
        self._structured = structured(session)

    def returning_job(self, statement: Statement, preemptors: Sequence[TaskView], victims: Sequence[int]) -> int | None:
        """Return a job of the victims that could evict a preemptor once the preemptors run, None if there is none."""
        if not victims:
            return None
        ledger, owners = self._session.ledger, self._session.snapshot.tasks.job
        own = int(owners[preemptors[0].row])
        jobs = {row: JobView(ledger, row) for row in owners[victims].tolist()}
        asking = [row for row, job in jobs.items() if row == own or any(ask(job, True) for ask in self._may_ask)]
        if not asking:  # before any task is moved
            return None
        mark = statement.checkpoint()
        statement.withdraw_all(np.array(victims, dtype=np.intp))
        result = self._returning_among(statement, preemptors, asking)
        statement.rollback(mark)
        return result

    def _returning_among(self, statement: Statement, preemptors: Sequence[TaskView], jobs: Sequence[int]) -> int | None:
        """Return one of these jobs, whose victims are pending, that could evict a preemptor."""
        session = self._session
        statement.run_all(np.array([preemptor.row for preemptor in preemptors], dtype=np.intp))
        # By then the victims have terminated, and disruption budgets allow as many evictions again.
        evictions, session.ledger.evictions = session.ledger.evictions, {}
        result = next((row for row in jobs if self._returns(JobView(session.ledger, row), preemptors)), None)
        session.ledger.evictions = evictions
        return result

    def _returns(self, job: JobView, preemptors: Sequence[TaskView]) -> bool:
        asking = [rule for rule in self._rules if rule.may_ask(job)]
        if not asking:
            return False
        session, shapes = self._session, self._session.snapshot.shapes
        pending = session.ordered(job.tasks(Status.PENDING))
        members = pending[~shapes.best_effort[session.snapshot.tasks.shape[pending]]].tolist()
        needed = gang_need(session, job, members)[0] or members[:1]
        tasks = [TaskView(session.ledger, row) for row in needed]
        distinct = [TaskView(session.ledger, rows[0]) for rows in session.hooks.by_cache_key(needed).values()]
        return any(
            self._allows_for(rule, task, preemptors)
            for rule in asking
            if tasks and rule.is_eligible(job.queue, tasks)
            for task in distinct
        )

    def _allows_for(self, rule: Rule, task: TaskView, preemptors: Sequence[TaskView]) -> bool:
        """Return whether a rule allows to evict a bundle of the preemptor's job for a task."""
        session, job = self._session, preemptors[0].job
        rows = np.array([preemptor.row for preemptor in preemptors], dtype=np.intp)
        whole = job is not None and job.ready_count <= job.min_available and not self._structured[job.row]
        if whole and job is not None:
            rows = job.tasks(*_HOLDING)  # it can spare none: only all of them together
        others = candidates(session, rule, task, rows[session.snapshot.tasks.preemptable[rows]])
        if not len(others) or (whole and len(others) < len(rows)):
            return False
        evictable = rule.evictable(task, [TaskView(session.ledger, row) for row in others.tolist()])
        return len(evictable) == len(others) if whole else bool(evictable)
