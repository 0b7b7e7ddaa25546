"""Reference implementation of gang placement by exhaustive search.

For worlds of a few nodes and tasks; greedy placement is compared with it.
"""

from collections.abc import Iterator, Sequence

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig


def placement_of(snapshot: Snapshot, config: SchedulerConfig, job: str) -> dict[str, str] | None:
    """Return nodes for so many pending tasks of a job that it is ready; None if there is no such placement.

    Node capacity, predicates and gang rules are checked, limits of queues are not.
    """
    session = Session(snapshot, config)
    (view,) = (item for item in map(session.cluster.job, session.job_rows.tolist()) if item.key == job)
    tasks = session.pending_tasks().get(view.row)
    if tasks is None:
        return None
    with session.statement() as statement:
        if _search(session, statement, tasks.tolist()):
            names, keys = snapshot.nodes.names, snapshot.tasks.keys
            return {
                str(keys[int(row)]): names[int(node)]
                for rows, nodes in statement.placed
                for row, node in zip(rows, nodes, strict=True)
            }
    return None


def _search(session: Session, statement: Statement, tasks: Sequence[int]) -> bool:
    """Place some of these tasks so that their job is ready."""
    job = TaskView(session.ledger, tasks[0]).job if tasks else None
    if job is not None and session.gangs.is_ready(job):
        return True
    for at, row in enumerate(tasks):
        task = TaskView(session.ledger, row)
        rest = tasks[at + 1 :]
        for node in _open_to(session, task):
            mark = statement.checkpoint()
            statement.allocate(row, node)
            own = task.job
            if (own is not None and session.gangs.is_ready(own)) or _search(session, statement, rest):
                return True
            statement.rollback(mark)
    return False


def _open_to(session: Session, task: TaskView) -> Iterator[int]:
    request = task.request.values
    for node in range(len(session.snapshot.nodes)):
        room = session.ledger.idle[:, node]
        fits = all(units <= room[dim] for dim, units in enumerate(request) if units)
        if fits and not session.placement.rejected(task, node):
            yield node
