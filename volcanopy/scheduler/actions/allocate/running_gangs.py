"""What runs comes first: a gang that runs below its minimum gets nodes for its lost members before any other job starts.

1. Place nominated tasks, for which evictions freed resources, and replacements of moved pods, for which they are reserved.
2. Of each gang that runs without its minimum, in order, place the members that it lacks, all of them or none: within limits,
   without regard to fair shares and to reservations of other jobs. A gang that never had so much, as its minimum was raised or
   its pods are larger now, is no such gang: it waits as other jobs do.
3. Reserve for the gangs that are still not whole what some of these members can use, unless the gang does not fit on the
   nodes even without all other jobs: then it can never be whole again, and others may use the resources.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from volcanopy.api import quantity
from volcanopy.api.quantity import counted
from volcanopy.scheduler.actions.allocate.job_placement import place_job
from volcanopy.scheduler.actions.allocate.job_queues import PendingJob, run_ends
from volcanopy.scheduler.actions.gang_need import gang_need
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.moved_pods import MovedPod
from volcanopy.scheduler.model.resources import Rows, sums_by
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import EVICTABLE, ON_NODE, Status
from volcanopy.scheduler.nodes.traits.taints import out_of_service


@dataclass
class RunningGangs:
    """The running gangs that lack members, in one session."""

    done: bool = False  # Whether their members were placed, as far as possible.
    broken: set[int] = field(default_factory=set)  # The rows of the jobs that are still not whole.


def place_first(session: Session) -> None:
    """Place what comes before new starts; only the first call in a session has an effect."""
    gangs = session.state(RunningGangs)
    if gangs.done:
        return
    gangs.done = True
    _place_nominated(session)
    if "allocate" not in session.config.actions:
        return
    lacking = [job for job in _running(session) if not session.gangs.is_ready(job)]
    if not lacking:
        return
    lacking = session.valid_in_order(lacking)
    tasks_of, members = session.by_job(session.pending()), dict[int, list[int]]()
    for job in lacking:
        tasks = tasks_of.get(job.row)
        if tasks is not None and (job.phase != "Pending" or session.admit_without_enqueue(job)):
            chosen = _members(session, job, tasks)
            if _is_within_ready_resources(session, job, chosen):
                members[job.row] = chosen
    with session.quotas.first(row for rows in members.values() for row in rows):
        for job in lacking:
            if members.get(job.row):
                _complete(session, job, members[job.row])
        gangs.broken = {row for row in members if not session.gangs.is_ready(session.cluster.job(row))}
        for job in lacking:
            if session.snapshot.jobs.structured[job.row]:
                continue  # another domain may fit all
            if job.row in gangs.broken and not session.gangs.will_start(job):
                _reserve(session, job, members[job.row])


def _place_nominated(session: Session) -> None:
    """Allocate or pipeline nominated tasks on their nodes.

    A job that its nominations do not make ready or pipelined gets nothing here: they are void, and allocate places it.
    """
    if not len(session.ledger.unsettled_tasks):
        return
    table = session.snapshot.tasks
    moved = {pod.task: pod for pod in session.snapshot.moves.pods if pod.task != NONE}
    rows = session.pending()
    reserved = table.nominated[rows] != NONE
    if moved:
        reserved |= np.isin(rows, list(moved))
    rows = rows[reserved]
    if not len(rows):
        return
    tasks = session.by_job(rows)
    jobs = [JobView(session.ledger, row) for row in session.job_rows.tolist() if row in tasks]
    jobs.sort(key=lambda job: (session.queue_key(job.queue), session.job_key(job)))
    for job in jobs:
        if job.phase == "Pending" and ("enqueue" in session.config.actions or not session.admit_without_enqueue(job)):
            continue
        if not session.gangs.invalid_jobs(session.ledger.single(job.row)):
            _place_on_nominated(session, job, tasks[job.row].tolist(), moved)


def _place_on_nominated(session: Session, job: JobView, tasks: Iterable[int], moved: Mapping[int, MovedPod]) -> None:
    gangs, placement = session.gangs, session.placement
    with session.statement() as statement:
        for row in tasks:
            task = TaskView(session.ledger, row)
            node, mark = task.nominated, statement.checkpoint()
            if row in moved:
                node = moved[row].node
                statement.hold(job.row, node, -moved[row].request)
            rejection = session.quotas.allocatable(job.queue, task, 1)
            if rejection is not None and rejection.gate != "share":  # shares change with demand; a nomination stays
                statement.rollback(mark)
                continue
            chosen = placement.choose_on(task, node)
            if chosen is not None and chosen[1]:
                statement.allocate(row, node)
            elif chosen is not None or placement.may_fit_later(task, node):
                statement.pipeline(row, node)
            else:
                statement.rollback(mark)
        if not len(statement):
            return
        if gangs.is_ready(job):
            session.commit(statement)
        elif gangs.is_pipelined(job):
            session.reserve(job, statement)


def _running(session: Session) -> list[JobView]:
    """Return the jobs with pods on nodes and pending pods, except those in held queues."""
    rows = session.waiting()
    if len(rows):
        counts = session.ledger.job_counts[:, rows]
        rows = rows[counts[EVICTABLE].any(axis=0) & (counts[Status.PENDING] > 0)]
    return [session.cluster.job(row) for row in rows.tolist()]


def _members(session: Session, job: JobView, tasks: Rows) -> list[int]:
    """Return which of its pending tasks a gang lacks; with sub-groups all, of which the search places what it lacks."""
    if job.group.spec.sub_group_policy:
        return [*tasks.tolist()]
    best_effort = session.snapshot.shapes.best_effort[session.snapshot.tasks.shape[tasks]]
    return gang_need(session, job, tasks[~best_effort].tolist())[0]


def _is_within_ready_resources(session: Session, job: JobView, members: list[int]) -> bool:
    """Return whether a gang had when it was last whole what it would have with these members; if unknown, it had."""
    recorded = job.group.status.ready_resources
    if not recorded:
        return True
    total = job.allocated.values + session.snapshot.requests(members).sum(axis=1)
    return bool((total <= session.snapshot.axis.vector(quantity.amounts(recorded))).all())


def _complete(session: Session, job: JobView, members: list[int]) -> None:
    """Place the members that a gang lacks, all of them or none."""
    structured = session.snapshot.jobs.structured[job.row]
    ends = [] if structured else run_ends(session, np.array(members, dtype=np.intp))
    place_job(session, job.queue, PendingJob(job, members, ends), is_last=False)


def _reserve(session: Session, job: JobView, members: list[int]) -> None:
    """Reserve free resources for some members of a gang that can be whole when other jobs have ended."""
    if not _can_be_whole(session, job, members):
        more = counted(len(members), "required pod")
        session.rejections.note(
            job.row, f"the running gang can never be whole again: no node can take {more} beside it"
        )
        return
    with session.statement() as statement:
        for row in members:
            task = TaskView(session.ledger, row)
            chosen = session.placement.choose(task)
            if chosen is None or session.quotas.allocatable(job.queue, task, 1) is not None:
                continue
            place = statement.allocate if chosen[1] else statement.pipeline
            place(row, chosen[0])
        if len(statement):
            session.reserve(job, statement)


def _can_be_whole(session: Session, job: JobView, members: list[int]) -> bool:
    """Return whether each member finds a node, one after the other, when all jobs but this one have ended.

    Nodes that are cordoned or not ready count: they may return.
    """
    snapshot, ledger = session.snapshot, session.ledger
    owner = snapshot.tasks.job
    stay = np.flatnonzero(ON_NODE[ledger.status] & ((owner == job.row) | (owner == NONE)))
    used = sums_by(ledger.node[stay], snapshot.requests(stay), len(snapshot.nodes))
    free = snapshot.nodes.allocatable.values - used
    returning = out_of_service(snapshot.nodes.traits)
    for row in members:
        task = TaskView(ledger, row)
        fits = (free >= task.request.values[:, None]).all(axis=0)
        nodes: Rows = np.flatnonzero(fits & (returning | ~session.placement.infeasible_nodes(task)))
        if not len(nodes):
            return False
        free[:, nodes[0]] -= task.request.values
    return True
