"""Whether a victim's gang could undo an eviction by evicting the preemptor in its turn: both would evict each other for ever.

The state is judged in which the preemptor runs and the victims wait to be created again. A victim's gang returns as it would
ask in a later cycle: with all tasks that its minimum lacks, or a gang that still has its minimum with one task; and it must
be allowed to evict a pod that the preemptor can spare, or its whole gang.
"""

from collections.abc import Sequence

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import structured
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.rules import Rule
from volcanopy.scheduler.actions.gang_need import gang_need
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.task_status import HOLDING, Status
from volcanopy.scheduler.session.session import Session

_HOLDING = tuple(Status(code) for code in np.flatnonzero(HOLDING).tolist())


class CounterEvictions:
    """The check for the searches of one session."""

    def __init__(self, session: Session, costs: EvictionCosts, rules: Sequence[Rule]) -> None:
        """``rules``: those of all configured actions."""
        self._session, self._costs, self._rules = session, costs, rules
        self._structured = structured(session)

    def returning_job(self, statement: Statement, preemptors: Sequence[TaskView], victims: Sequence[int]) -> int | None:
        """Return a job of the victims that could evict a preemptor once the preemptors run, None if there is none."""
        if not victims:
            return None
        session = self._session
        mark = statement.checkpoint()
        for preemptor in preemptors:
            node = preemptor.node
            statement.withdraw(preemptor.row)
            statement.run(preemptor.row, node)
        for row in victims:
            statement.withdraw(row)
        # By then the victims have terminated, and disruption budgets allow as many evictions again.
        evictions, session.ledger.evictions = session.ledger.evictions, {}
        jobs = dict.fromkeys(int(session.snapshot.tasks.job[row]) for row in victims)
        result = next((row for row in jobs if self._returns(JobView(session.ledger, row), preemptors)), None)
        session.ledger.evictions = evictions
        statement.rollback(mark)
        return result

    def _returns(self, job: JobView, preemptors: Sequence[TaskView]) -> bool:
        asking = [rule for rule in self._rules if rule.may_ask(job)]
        if not asking:
            return False
        ledger = self._session.ledger
        shapes = self._session.snapshot.shapes
        pending = self._session.ordered(job.tasks(Status.PENDING))
        members = pending[~shapes.best_effort[self._session.snapshot.tasks.shape[pending]]].tolist()
        need = gang_need(self._session, job, members)
        rows = [*need.idle, *need.members] or members[:1]
        tasks = [TaskView(ledger, row) for row in rows]
        return any(self._allows(rule, job, tasks, preemptors) for rule in asking)

    def _allows(self, rule: Rule, job: JobView, tasks: Sequence[TaskView], preemptors: Sequence[TaskView]) -> bool:
        """Return whether a rule allows to evict a bundle of the preemptor's job for any of these tasks of a job."""
        if not tasks or not rule.is_eligible(job.queue, tasks):
            return False
        keys = {self._session.hooks.cache_key(task): task for task in reversed(tasks)}
        return any(self._allows_for(rule, task, preemptors) for task in keys.values())

    def _allows_for(self, rule: Rule, task: TaskView, preemptors: Sequence[TaskView]) -> bool:
        job = preemptors[0].job
        others = list(preemptors)
        if job is not None and job.ready_count <= job.min_available and not self._structured[job.row]:
            rows = job.tasks(*_HOLDING).tolist()  # it can spare none: only all of them together
            others = [TaskView(self._session.ledger, row) for row in rows]
            if not all(rule.is_candidate(task, other) for other in others):
                return False
            return len(rule.evictable(task, others)) == len(others)
        others = [other for other in others if rule.is_candidate(task, other)]
        return bool(others) and bool(rule.evictable(task, others))
