"""The end of a session: what becomes of pod groups and queues, and why who waits.

Only what changed, and what waits, is looked at one by one.
"""

from collections.abc import Iterator

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler import reading
from volcanopy.scheduler.plan import Effect, Explain, GroupCondition, Nominate, SetPodGroup, SetQueue
from volcanopy.scheduler.plugin import Denial
from volcanopy.scheduler.resources import Ints, Rows
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.snapshot import NONE
from volcanopy.scheduler.status import SCHEDULED, Status
from volcanopy.scheduler.views import JobView, TaskView

_REPORTED = np.array([int(Status.RUNNING), int(Status.SUCCEEDED), int(Status.FAILED)])


def close(session: Session) -> list[Effect]:
    """All effects of a session, in order of application."""
    return [*session.effects, *_nominations(session), *_groups(session), *_homeless(session), *_queues(session)]


def _nominations(session: Session) -> Iterator[Effect]:
    """Where room is kept for whom, as far as that changed.

    Tasks of a gang that waits for room that is being freed keep the free room that the others of it found as well.
    """
    table, names = session.snapshot.tasks, session.snapshot.nodes.names
    groups = session.snapshot.jobs.keys
    status = session.ledger.status
    waits = (status == Status.PIPELINED) | (status == Status.ALLOCATED)
    wanted = np.where(waits, session.ledger.node, NONE)
    rows = np.flatnonzero((waits | (status == Status.PENDING)) & (wanted != table.nominated))
    for row in sorted(rows.tolist(), key=lambda row: str(table.keys[row])):
        node = "" if wanted[row] == NONE else names[wanted[row]]
        yield Nominate(str(table.keys[row]), node, str(groups[table.job[row]]))


def _groups(session: Session) -> Iterator[Effect]:
    jobs = session.snapshot.jobs
    rows = session.job_rows
    phases = _phases(session, rows)
    counts = session.ledger.job_counts
    reported = counts[np.ix_(_REPORTED, rows)]
    changed = (phases != jobs.phase[rows]) | (reported != jobs.reported[:, rows]).any(axis=0)
    # what ended or runs with all its pods placed has no more to say
    waits = (counts[Status.PENDING, rows] + counts[Status.PIPELINED, rows] + counts[Status.ALLOCATED, rows]) > 0
    waits |= (phases == "Pending") | (phases == "Unknown")
    look = np.flatnonzero(changed | waits | jobs.unschedulable[rows])
    for place in sorted(look.tolist(), key=lambda place: str(jobs.keys[rows[place]])):
        yield from _group(session, JobView(session.ledger, int(rows[place])), str(phases[place]))


def _phases(session: Session, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """The phase of each of these jobs, before conditions are looked at (Volcano's rules 2 to 4)."""
    counts = session.ledger.job_counts[:, rows]
    over = counts[Status.SUCCEEDED] + counts[Status.FAILED]
    scheduled = counts[np.flatnonzero(SCHEDULED)].sum(axis=0) + counts[Status.RELEASING]
    enough = (scheduled >= session.snapshot.jobs.min_available[rows]) & (scheduled > 0)
    phases = np.where(session.ledger.phase[rows] == "Inqueue", "Inqueue", "Pending").astype(object)
    phases[enough] = "Running"
    phases[enough & (scheduled == over)] = "Completed"
    return phases


def _group(session: Session, job: JobView, phase: str) -> Iterator[Effect]:
    condition = session.hooks.job_condition(job)
    waits = condition is not None and condition.type == "Unschedulable"
    explain = _explain(session, job) if waits or phase == "Pending" or job.row in session.why else None
    if waits and condition is not None and explain is not None:
        condition = GroupCondition(condition.type, condition.reason, explain.message)
        if job.count(Status.RUNNING) > 0:
            phase = "Unknown"
    elif phase == "Pending" and explain is not None and job.row in session.why:
        condition = GroupCondition("Unschedulable", "NotAdmitted", explain.message)
    group = job.group
    counts = (job.count(Status.RUNNING), job.count(Status.SUCCEEDED), job.count(Status.FAILED))
    said = reading.condition(group, "Unschedulable")
    noted = None if said is None else (said.reason, said.message)
    wanted = (condition.reason, condition.message) if condition and condition.type == "Unschedulable" else None
    status = group.status
    before = ((status.phase or "Pending"), (status.running, status.succeeded, status.failed), noted)
    if (phase, counts, wanted) != before:
        yield SetPodGroup(job.key, phase, condition, *counts)
    if explain is not None:
        yield explain


def _explain(session: Session, job: JobView) -> Explain | None:
    """Why a job waits, in one sentence and in numbers; None if no action had a reason to look at it."""
    denial, found = session.why.get(job.row), session.why_nodes.get(job.row)
    pods = [str(session.snapshot.tasks.keys[row]) for row in job.tasks(Status.PENDING, Status.ALLOCATED).tolist()]
    fitted, needed = session.fitted.get(job.row, 0), max(job.min_available, 1)
    before = (
        f"{needed} pods must start together, {fitted} of them fit: for the next, "
        if fitted and not job.is_ready
        else ""
    )
    if found is not None:
        task, why = TaskView(session.ledger, found[0]), found[1]
        sentence = f"{before}{why}"
        return Explain(
            job=job.key,
            gate="nodes",
            message=sentence,
            numbers={"needed": str(needed), "fit": str(fitted), "request": str(task.request)},
            nodes=why.counts,
            unblock=session.placement.smallest_gap(task),
            pods=dict.fromkeys(pods, sentence),
        )
    if denial is not None:
        sentence = f"{before}{denial.reason}"
        return Explain(job.key, denial.gate, sentence, pods=dict.fromkeys(pods, sentence))
    if job.waiting_count and not job.is_ready:
        sentence = f"waits for room that is being freed for {job.waiting_count} of its pods"
        return Explain(job.key, "nodes", sentence, pods=dict.fromkeys(pods, sentence))
    return None


def _homeless(session: Session) -> Iterator[Effect]:
    """Pod groups whose queue does not exist."""
    jobs, queues = session.snapshot.jobs, session.snapshot.queues
    rows = np.flatnonzero(jobs.queue != NONE)
    missing = np.array([queue is None for queue in queues.objects], dtype=np.bool_)
    if not missing.any():
        return
    for row in sorted(rows[missing[jobs.queue[rows]]].tolist(), key=lambda row: str(jobs.keys[row])):
        if jobs.groups[row] is None:
            continue
        job = JobView(session.ledger, row)
        session.refuse(job, Denial("queue", f"queue {job.queue.name} does not exist"))
        explain = _explain(session, job)
        said = reading.condition(job.group, "Unschedulable")
        if explain is not None:
            if said is None or said.message != explain.message:
                condition = GroupCondition("Unschedulable", "NoQueue", explain.message)
                status = job.group.status
                counts = (status.running, status.succeeded, status.failed)
                yield SetPodGroup(job.key, status.phase or "Pending", condition, *counts)
            yield explain


def _queues(session: Session) -> Iterator[Effect]:
    """What each queue and the queues below it hold, where its status says otherwise."""
    queues, axis = session.snapshot.queues, session.snapshot.axis
    held = session.ledger.queue_allocated - _pipelined(session)
    rolled = queues.rolled_up(held)
    for name, row in sorted(queues.index.items()):
        queue = queues.objects[row]
        if queue is None:
            continue
        now = {axis.names[position]: int(units) for position, units in enumerate(rolled[:, row]) if units}
        before = {name: units for name, units in quantity.amounts(queue.status.allocated).items() if units}
        if now != before:
            yield SetQueue(name, quantity.texts(now))


def _pipelined(session: Session) -> Ints:
    """(R, Q): what tasks ask for that have a place only on room that is being freed."""
    table, jobs = session.snapshot.tasks, session.snapshot.jobs
    sums = np.zeros_like(session.ledger.queue_allocated)
    for row in np.flatnonzero(session.ledger.status == Status.PIPELINED).tolist():
        sums[:, jobs.queue[table.job[row]]] += session.ledger.request(row)
    return sums
