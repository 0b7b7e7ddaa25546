"""backfill: place the tasks that request nothing."""

from collections.abc import Iterator

from volcanopy.scheduler.actions.allocate.running_gangs import place_first
from volcanopy.scheduler.actions.withdrawal import Withdrawal
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.policy.plugin import NoArguments
from volcanopy.scheduler.policy.registry import action


@action("backfill")
def backfill(session: Session, _: NoArguments) -> None:
    """Place tasks without requests on any feasible node: they need no share of a queue."""
    place_first(session)
    if not len(session.ledger.unsettled_tasks):
        return
    table, shapes = session.snapshot.tasks, session.snapshot.shapes
    rows = session.pending()
    tasks = session.by_job(rows[shapes.best_effort[table.shape[rows]]])
    if not tasks:
        return
    Withdrawal(session).withdraw_excess()
    jobs = [job for job in session.waiting_jobs() if job.row in tasks and job.phase != "Pending"]
    for job in session.valid_in_order(jobs):
        rows = iter(tasks[job.row].tolist())
        while _place(session, job, rows):
            pass


def _place(session: Session, job: JobView, tasks: Iterator[int]) -> bool:
    """Place tasks of a job until it is ready, and return whether it is: one that cannot start keeps no place on a node."""
    with session.statement() as statement:
        for row in tasks:
            task = TaskView(session.ledger, row)
            if session.exceeds_limit(task, job):
                continue
            chosen = session.placement.choose(task)
            if chosen is None or not chosen[1]:
                session.reject_nodes(job, task, len(statement))
                continue
            statement.allocate(task.row, chosen[0])
            if session.gangs.is_ready(job):
                session.bind_reserved(job)
                session.commit(statement)
                return True
        if len(statement) and session.gangs.is_pipelined(job):
            session.reserve(job, statement)
    return False
