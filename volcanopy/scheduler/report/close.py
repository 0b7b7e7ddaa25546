"""The end of a session: nominations, statuses of pod groups and queues, and explanations of waiting jobs.

Only changed and waiting jobs are handled one by one.
"""

import operator
from collections.abc import Iterator

import numpy as np

from volcanopy.api import core
from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.eviction_record import EVICTED, running_seconds
from volcanopy.scheduler.model.messages import evicted_for_queue, missing_queue, quantities, short
from volcanopy.scheduler.model.plan import Effect, Explain, GroupCondition, Nominate, SetPodGroup, readable
from volcanopy.scheduler.model.resources import Resources
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import SCHEDULED, Status
from volcanopy.scheduler.policy.plugin import Rejection
from volcanopy.scheduler.report.explanation import Explainer
from volcanopy.scheduler.report.queue_status import queue_statuses

_REPORTED = operator.itemgetter(Status.RUNNING, Status.SUCCEEDED, Status.FAILED)
_SCHEDULED = operator.itemgetter(*SCHEDULED.nonzero()[0].tolist(), Status.RELEASING)
_PLACED = operator.itemgetter(Status.PIPELINED, Status.ALLOCATED, Status.BINDING)
_WAITING = operator.itemgetter(Status.PENDING, Status.PIPELINED, Status.ALLOCATED)


def close(session: Session) -> list[Effect]:
    """Return all effects of a session in the order of application."""
    _end_reservations(session)
    explainer = Explainer(session)
    groups = [*_groups(session, explainer), *_without_queue(session, explainer), *_without_group(session)]
    statuses = queue_statuses(session)
    session.observer.queues(statuses)
    return [*session.effects, *_nominations(session, explainer), *groups, *statuses.effects()]


def _end_reservations(session: Session) -> None:
    """End what is reserved for members of gangs that cannot start when evicted pods have terminated: it is for one cycle."""
    for row in session.reserved:
        job = JobView(session.ledger, row)
        if not (session.gangs.is_ready(job) or session.gangs.is_pipelined(job)):
            with session.statement() as statement:
                statement.withdraw_all(job.tasks(Status.ALLOCATED, Status.PIPELINED))
                statement.keep()


def _nominations(session: Session, explainer: Explainer) -> Iterator[Effect]:
    """Yield the changed nominations: of pipelined tasks, and of allocated tasks whose gang waits for pipelined ones.

    As in Volcano, not behind pods that end by themselves: nothing is reserved there beyond this cycle. They may take long, a job
    that comes first may need the node, and autoscalers disregard nominated pods.
    """
    table, names = session.snapshot.tasks, session.snapshot.nodes.names
    groups = session.snapshot.jobs.keys
    rows = session.ledger.unsettled_tasks
    if not len(rows):
        return
    status = session.ledger.status[rows]
    waits = (status == Status.PIPELINED.value) | (status == Status.ALLOCATED.value)
    waiting = waits.nonzero()[0]
    waits[waiting] = [job not in explainer.waits_for_ends for job in table.job[rows[waiting]].tolist()]
    nominated = np.where(waits, session.ledger.node[rows], NONE)
    changed = (waits | (status == Status.PENDING.value)) & (nominated != table.nominated[rows])
    nodes = dict(zip(rows[changed].tolist(), nominated[changed].tolist(), strict=True))
    for row in sorted(nodes, key=lambda row: str(table.keys[row])):
        node = "" if nodes[row] == NONE else names[nodes[row]]
        yield Nominate(str(table.keys[row]), node, str(groups[table.job[row]]))


def _groups(session: Session, explainer: Explainer) -> Iterator[Effect]:
    jobs = session.snapshot.jobs
    moves = _moves(session)
    rows = session.unsettled_jobs()
    moved = {pod.job for pod in session.snapshot.moves.pods}
    others = {*moves, *session.evicted_for, *moved}
    if others:
        rows = np.union1d(rows, session.cluster.taking_part(np.array(sorted(others), dtype=np.intp)))
    keys = jobs.keys[rows].tolist()
    rows = rows[sorted(range(len(rows)), key=keys.__getitem__)]
    columns = zip(
        rows.tolist(),
        jobs.groups[rows].tolist(),
        session.ledger.phase[rows].tolist(),
        zip(*session.ledger.job_counts[:, rows].tolist(), strict=True),
        jobs.phase[rows].tolist(),
        zip(*jobs.reported[:, rows].tolist(), strict=True),
        jobs.min_available[rows].tolist(),
        jobs.unschedulable[rows].tolist(),
        strict=True,
    )
    for row, group, before, counts, reported_phase, reported, least, is_unschedulable in columns:
        stays = row in moved or not session.snapshot.queues.is_open[jobs.queue[row]]
        phase, now = _phase(before, counts, least, stays, group), _REPORTED(counts)
        changes = phase != reported_phase or now != reported or row in moves
        # nothing changes for jobs that have ended or run with all their pods
        waits = phase in {"Pending", "Unknown"} or any(_WAITING(counts))
        if changes or waits or is_unschedulable or row in session.evicted_for:
            job = JobView(session.ledger, row)
            yield from _group(session, job, (phase, now), moves.get(row), group.status, explainer)


def _moves(session: Session) -> dict[int, tuple[core.PodMove, ...]]:
    """Return the moved pods of the jobs whose status names others: those of this session, and those that do not run yet."""
    snapshot, result = session.snapshot, dict[int, tuple[core.PodMove, ...]]()
    for job in snapshot.moves.jobs:
        pods = (moved for moved in snapshot.moves.pods if moved.job == job)
        left = tuple(
            moved.move for moved in pods if moved.task == NONE or session.ledger.status[moved.task] != Status.BINDING
        )
        if left != snapshot.jobs.groups[job].status.moves:
            result[job] = left
    for task, node in session.moves.items():
        pod, request = snapshot.tasks.pods[task], Resources(snapshot.axis, session.ledger.request(task))
        move = core.PodMove(pod=pod.metadata.name, node=snapshot.nodes.names[node], requests=request.texts())
        job = int(snapshot.tasks.job[task])
        result[job] = (*result.get(job, ()), move)
    return result


def _phase(before: str, counts: tuple[int, ...], least: int, stays: bool, group: core.PodGroup) -> str:
    """Return the phase of a job by Volcano's rules 2 to 4, without regard to conditions.

    An admitted job with placed tasks stays admitted: otherwise evictions for it could have no effect. So does a job of which
    pods run or have ended, and one that ``stays``: with moved pods, whose resources are reserved, or in a queue that admits
    none again. A running job that lacks pods is Unknown if no controller makes them again.
    """
    scheduled = sum(_SCHEDULED(counts))
    if before == "Completed" and not any(counts):
        return before
    ended = scheduled == counts[Status.SUCCEEDED] + counts[Status.FAILED]
    if scheduled and scheduled >= least and not (ended and (any(_WAITING(counts)) or counts[Status.BINDING])):
        return "Completed" if ended else "Running"
    placed = any(_PLACED(counts))
    lacks = before in {"Running", "Unknown"} and counts[Status.RUNNING] and not placed and not counts[Status.PENDING]
    if lacks and group.metadata.controller is None:
        return "Unknown"
    kept = placed or stays or scheduled > counts[Status.RELEASING]
    return "Inqueue" if before == "Inqueue" or (before != "Pending" and kept) else "Pending"


def _group(
    session: Session,
    job: JobView,
    now: tuple[str, tuple[int, ...]],
    moves: tuple[core.PodMove, ...] | None,
    status: core.PodGroupStatus,
    explainer: Explainer,
) -> list[Effect]:
    """Return the status, if it changed, and the explanation of a job with this phase and these reported counts."""
    phase, counts = now
    condition = session.gangs.condition(job)
    waits = condition is not None and condition.type == "Unschedulable"
    explain = explainer.explain(job)
    if waits and condition is not None and explain is not None:
        # Pods may exist before the admission.
        reason = "NotAdmitted" if phase == "Pending" else condition.reason
        condition = GroupCondition(condition.type, reason, explain.message)
        if counts[0]:
            phase = "Unknown"
    elif phase == "Pending" and explain is not None:
        condition, waits = GroupCondition("Unschedulable", "NotAdmitted", explain.message), True
    existing = (
        pod_fields.condition(job.group, "Unschedulable") if session.snapshot.jobs.unschedulable[job.row] else None
    )
    before = None if existing is None else (existing.reason, existing.message)
    after = (condition.reason, readable(job.key, condition.message)) if waits and condition is not None else None
    reported = (status.phase or "Pending", (status.running, status.succeeded, status.failed), before)
    effects: list[Effect] = []
    preemptor = session.evicted_for.get(job.row)
    evicted = None if preemptor is None else GroupCondition(EVICTED, "PodsEvicted", evicted_for_queue(preemptor))
    if (phase, counts, after) != reported or moves is not None or evicted is not None:
        running, succeeded, failed = counts
        alternative = session.alternatives.selected.get(job.row)
        seconds = 0
        if evicted is not None:
            victims = [row for row in job.tasks().tolist() if row in session.ledger.evictions]
            seconds = int(running_seconds(session.snapshot, np.array(victims, dtype=np.intp)).max(initial=0))
        is_ready = condition is not None and condition.type == "Scheduled"
        ready = quantities(session.snapshot.axis.names, tuple(job.allocated.values.tolist())) if is_ready else None
        group = job.key, phase, condition, running, succeeded, failed
        effects.append(SetPodGroup(*group, moves, evicted, seconds, alternative, ready))
    if explain is not None:
        effects.append(explain)
    return effects


def _without_queue(session: Session, explainer: Explainer) -> Iterator[Effect]:
    """Yield the statuses and explanations of jobs that wait for pods or nodes, and whose queue does not exist."""
    jobs, queues = session.snapshot.jobs, session.snapshot.queues
    if None not in queues.objects:
        return
    rows = (jobs.grouped & (jobs.queue != NONE) & ~queues.exists[jobs.queue]).nonzero()[0]
    for row in sorted(rows.tolist(), key=lambda row: str(jobs.keys[row])):
        job = JobView(session.ledger, row)
        if job.is_ready and not session.ledger.job_counts[Status.PENDING, row] and job.phase != "Pending":
            continue
        name = job.queue.name
        session.reject(job, Rejection(Gate.QUEUE, missing_queue(name)))
        explain = explainer.explain(job)
        existing = pod_fields.condition(job.group, "Unschedulable")
        if explain is not None:
            if existing is None or existing.message != readable(job.key, explain.message):
                condition = GroupCondition("Unschedulable", "NoQueue", explain.message)
                status = job.group.status
                counts = (status.running, status.succeeded, status.failed)
                yield SetPodGroup(job.key, status.phase or "Pending", condition, *counts)
            yield explain


def _without_group(session: Session) -> Iterator[Effect]:
    """Yield the explanations of pods whose pod group does not exist."""
    jobs, counts = session.snapshot.jobs, session.ledger.job_counts
    rows = session.ledger.unsettled_jobs
    rows = rows[~jobs.grouped[rows] & (counts[Status.PENDING, rows] > 0)]
    for row in sorted(rows.tolist(), key=lambda row: str(jobs.keys[row])):
        key, job = str(jobs.keys[row]), JobView(session.ledger, row)
        sentence = f'podgroup "{short(key)}" not found'
        pods = sorted(str(session.snapshot.tasks.keys[task]) for task in job.tasks(Status.PENDING).tolist())
        unblocked_by = f'creating podgroup "{short(key)}"'
        yield Explain(key, Gate.GANG, sentence, pods=dict.fromkeys(pods, sentence), unblocked_by=unblocked_by)
