"""shuffle: evict running tasks that plugins name as victims, such as those on overloaded nodes."""

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import breaks_new_gang
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import NoArguments
from volcanopy.scheduler.policy.registry import action

REASON = "shuffle"


@action(REASON)
def shuffle(session: Session, _: NoArguments) -> None:
    """Evict the running tasks that plugins name as victims, unless a plugin protects them or they are not preemptable."""
    table = session.snapshot.tasks
    takes_part = np.isin(table.job, session.job_rows)
    rows = np.flatnonzero((session.ledger.status == Status.RUNNING) & table.preemptable & takes_part)
    victims = session.hooks.evicts(rows)
    victims = victims[np.argsort(table.keys[victims].astype(np.str_), kind="stable")]
    with session.statement() as statement:
        for victim in session.hooks.evictable([TaskView(session.ledger, row) for row in victims.tolist()]):
            if not breaks_new_gang(session, (victim.row,)):
                statement.evict(victim.row, REASON)
        session.commit(statement)
