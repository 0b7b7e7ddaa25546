"""Needless evictions of a session: victims are chosen task by task, and a gang that is evicted whole frees more than that.

1. Take the victims of all searches: single tasks, or those of a gang that was broken together.
2. Compare amounts: they must fit on their nodes beside the tasks that were placed there.
3. Restore them, those that lose the most work first, if their gang has its minimum then and every rule still allows each
   placed task on its node.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_bundles import rows_by_job
from volcanopy.scheduler.actions.evict.eviction_cost import TaskCosts
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import sums_by
from volcanopy.scheduler.model.task_status import Status


@dataclass
class CommittedEvictions:
    """The evictions of the searches of one session, and the jobs that they were for."""

    units: list[tuple[int, ...]] = field(default_factory=list)
    """The victims, those together that are restored together."""
    preemptors: list[int] = field(default_factory=list)

    def add(self, session: Session, preemptor: JobView, statement: Statement) -> None:
        """Add the evictions of a statement that is about to be committed."""
        for job, rows in rows_by_job(session, [row for row, _ in statement.evicted]).items():
            is_whole = (
                session.gangs.is_ready(JobView(session.ledger, job)) and not session.snapshot.jobs.structured[job]
            )
            self.units += [(row,) for row in rows] if is_whole else [tuple(rows)]
        if preemptor.row not in self.preemptors:
            self.preemptors.append(preemptor.row)

    def remove(self, rows: Collection[int]) -> None:
        """Leave out victims that are pending again: a later action has nothing to restore of them."""
        units = [tuple(row for row in unit if row not in rows) for unit in self.units]
        self.units = [unit for unit in units if unit]


def restore_needless(session: Session) -> None:
    """Restore the victims that no placed task needs."""
    committed, ledger = session.state(CommittedEvictions), session.ledger
    units = committed.units
    rows = np.array([row for unit in units for row in unit], dtype=np.intp)
    requests = session.snapshot.requests(rows)
    fits_alone = (ledger.future[:, ledger.node[rows]] >= requests).all(axis=0)
    perhaps = set(rows[fits_alone].tolist())
    costs = TaskCosts(session.snapshot, rows)
    for unit in sorted(units, key=lambda unit: int(costs.lost_work[list(unit)].sum()), reverse=True):
        if perhaps.issuperset(unit) and _fits(session, unit) and _restored(session, unit, committed.preemptors):
            committed.units.remove(unit)


def _fits(session: Session, unit: Sequence[int]) -> bool:
    """Return whether these tasks fit on their nodes beside all that was placed there."""
    ledger, rows = session.ledger, list(unit)
    nodes, where = np.unique(ledger.node[rows], return_inverse=True)
    return bool((ledger.future[:, nodes] >= sums_by(where, session.snapshot.requests(rows), len(nodes))).all())


def _restored(session: Session, unit: Sequence[int], preemptors: Sequence[int]) -> bool:
    """Restore these tasks if every rule still allows the placed ones on their nodes; return whether they do."""
    ledger = session.ledger
    placed = [row for job in preemptors for row in JobView(ledger, job).tasks(Status.PIPELINED).tolist()]
    nodes = ledger.node[placed].tolist()
    with session.statement() as statement:
        statement.withdraw_all(np.array(placed, dtype=np.intp))
        for row in unit:
            statement.restore(row)
        for row, node in zip(placed, nodes, strict=True):
            task = TaskView(ledger, row)
            job = task.job
            if job is None or session.quotas.allocatable(job.queue, task, 1) is not None:
                return False
            if session.placement.rejected(task, node):
                return False
            statement.pipeline(row, node)
        if not session.gangs.is_ready(JobView(ledger, int(session.snapshot.tasks.job[unit[0]]))):
            return False
        session.cancel_evictions(statement, unit)
    return True
