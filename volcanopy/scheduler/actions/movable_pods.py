"""Running pods that consolidate may move to other nodes, in the units in which they are evicted.

Movable are the pods of jobs whose pod group has the annotation ``volcanopy.io/movable: "true"`` or
``volcanopy.io/preemptable: "true"``. A pod above the minimum of its job is a unit of its own; without such pods the job is
moved whole: a gang of which some members are missing loses the work of the others as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.api import names
from volcanopy.scheduler.actions.evict.eviction_cost import TaskCosts
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.task_status import Status


@dataclass(frozen=True, eq=False)
class Unit:
    """Tasks of one job that are moved together, with their nodes, requests and lost work."""

    rows: Rows
    nodes: Rows
    requests: Ints
    """(R, k)"""
    seconds: int
    """How long the tasks have been running, in sum."""
    work: int
    """The work that is lost with them, as :mod:`volcanopy.scheduler.actions.evict.eviction_cost` defines it."""
    priority: int


def movable_units(session: Session, cooldown: float) -> list[Unit]:
    """Return the units of all movable jobs, those with the least lost work first; of jobs that rested ``cooldown`` seconds."""
    snapshot = session.snapshot
    running = np.flatnonzero((session.ledger.status == Status.RUNNING) & np.isin(snapshot.tasks.job, session.job_rows))
    costs = TaskCosts(snapshot, running)
    units = [unit for row in session.job_rows.tolist() for unit in _of_job(session, costs, row, cooldown)]
    keys = snapshot.tasks.keys
    return sorted(units, key=lambda unit: (unit.priority, unit.work, str(keys[unit.rows[0]])))


def _of_job(session: Session, costs: TaskCosts, row: int, cooldown: float) -> Sequence[Unit]:
    snapshot, job = session.snapshot, JobView(session.ledger, row)
    if not _is_movable(session, job, cooldown):
        return ()
    rows = session.ordered(job.tasks(Status.BINDING, Status.BOUND, Status.RUNNING))
    surplus = job.ready_count - job.min_available
    if any(role.minimum > 0 for role in job.roles):
        surplus = 0
    parts = [rows[at : at + 1] for at in range(len(rows) - min(surplus, len(rows)), len(rows))] or [rows]
    return [
        Unit(
            rows=part,
            nodes=session.ledger.node[part].astype(np.intp),
            requests=snapshot.requests(part),
            seconds=int(costs.seconds[part].sum()),
            work=int(costs.lost_work[part].sum()),
            priority=job.priority,
        )
        for part in parts
        if len(part) and _can_move(session, part)
    ]


def _is_movable(session: Session, job: JobView, cooldown: float) -> bool:
    """Return whether a job is declared movable, runs whole, is in no held queue, and was not moved within the cooldown."""
    snapshot, group, now = session.snapshot, job.group, session.snapshot.now.timestamp()
    declared = job.preemptable or pod_fields.flag(group.metadata, names.MOVABLE, absent=False)
    if not declared or snapshot.jobs.structured[job.row] or job.row in snapshot.moves.jobs:
        return False
    if job.count(Status.RELEASING, Status.PENDING, Status.PIPELINED, Status.ALLOCATED) or not job.count(Status.RUNNING):
        return False
    stops = snapshot.queues.terms.stops
    if stops is not None and stops.held[snapshot.jobs.queue[job.row]]:
        return False
    return group.status.moved_at is None or now >= group.status.moved_at.timestamp() + cooldown


def _can_move(session: Session, rows: Rows) -> bool:
    """Return whether all of these tasks run, may be evicted, and could run on other nodes by their amounts alone."""
    snapshot = session.snapshot
    if (session.ledger.status[rows] != Status.RUNNING).any() or not snapshot.tasks.preemptable[rows].all():
        return False
    tasks = [TaskView(session.ledger, row) for row in rows.tolist()]
    plain = all(
        task.shape not in snapshot.shapes.claiming and session.hooks.follows_from_columns(task) for task in tasks
    )
    return plain and len(session.hooks.evictable(tasks)) == len(tasks)
