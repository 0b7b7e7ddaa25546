"""shuffle: let tasks leave that would be better off elsewhere, or must not stay."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import undoes_a_start
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session


class Shuffle:
    """Evict the running tasks that plugins name as victims and that no plugin, nor the task itself, protects."""

    name: ClassVar[str] = "shuffle"
    arguments: ClassVar[tuple[str, ...]] = ()

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Evict who shall leave."""
        table = session.snapshot.tasks
        takes_part = np.zeros(
            len(session.snapshot.jobs) + 1, dtype=np.bool_
        )  # the last entry serves tasks without a job
        takes_part[session.job_rows] = True
        rows = np.flatnonzero((session.ledger.status == Status.RUNNING) & table.preemptable & takes_part[table.job])
        named = session.hooks.victim_tasks(rows)
        named = named[np.argsort(table.keys[named].astype(np.str_), kind="stable")]
        with session.statement() as statement:
            for victim in session.hooks.evictable([TaskView(session.ledger, row) for row in named.tolist()]):
                if not undoes_a_start(session, (victim.row,)):
                    statement.evict(victim.row, self.name)
            session.commit(statement)
