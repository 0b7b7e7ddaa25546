"""Invariants of gangs: whole gangs are bound, and evictions have a preemptor that can start."""

import numpy as np

from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.resources import Ints, Mask
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import READY, Status

_WITH_PREEMPTOR = ("preempt", "reclaim")
"""The actions whose evictions have a preemptor."""


def action_of(reason: str) -> str:
    """Return the action of an eviction reason; ``gangpreempt`` counts as ``preempt``."""
    return reason.removeprefix("gang")


def split(moves: Moves) -> list[str]:
    """Return the jobs with bound pods that do not reach their minimum, or that of their tasks."""
    snapshot, jobs, roles = moves.snapshot, moves.snapshot.jobs, moves.snapshot.roles
    affected = np.unique(snapshot.tasks.job[moves.bound])
    affected = affected[affected != NONE]
    if not len(affected):
        return []
    ready, idle = READY[moves.status], _idle(moves)
    there, may_follow = _count(snapshot.tasks.job, ready, len(jobs)), _count(snapshot.tasks.job, idle, len(jobs))
    of_role = _count(snapshot.tasks.role, ready | idle, len(roles.names))
    minimum = jobs.min_available[affected]
    result = [
        f"gang {jobs.keys[job]} is split: {there[job]}/{jobs.min_available[job]} required pods have a node"
        for job in affected[there[affected] + may_follow[affected] < minimum].tolist()
    ]
    short = np.flatnonzero((of_role < roles.minimum) & np.isin(roles.job, affected))
    for role in short.tolist():
        job = int(roles.job[role])
        if jobs.min_available[job] >= sum(int(roles.minimum[other]) for other in jobs.roles[job]):
            result.append(
                f"gang {jobs.keys[job]} is split: {of_role[role]}/{roles.minimum[role]} required pods of task"
                f" {roles.names[role]} have a node"
            )  # task minimums do not apply if they exceed minAvailable in sum
    return result


def without_preemptor(moves: Moves, whole: bool) -> list[str]:
    """Return the evictions whose preemptor gets no node, or, with ``whole``, does not reach its minimum."""
    snapshot, jobs = moves.snapshot, moves.snapshot.jobs
    result, preemptors = [], dict[str, str]()
    for evict in moves.evictions:
        if evict.preemptor:
            preemptors.setdefault(evict.preemptor, evict.pod)
        elif action_of(evict.reason) in _WITH_PREEMPTOR:
            result.append(f"pod {evict.pod} is evicted without a preemptor")
    if not preemptors:
        return result
    placed = {str(jobs.keys[job]): job for job in np.unique(snapshot.tasks.job[moves.placed]).tolist() if job != NONE}
    enough = READY[moves.status] | moves.waits | _idle(moves)
    counts = _count(snapshot.tasks.job, enough, len(jobs))
    for preemptor, pod in sorted(preemptors.items()):
        job = placed.get(preemptor)
        if job is None:
            result.append(f"pod {pod} is evicted for {preemptor}, which gets no node")
        elif whole and counts[job] < jobs.min_available[job]:
            result.append(
                f"pod {pod} is evicted for {preemptor}, which cannot start: {counts[job]}/{jobs.min_available[job]}"
                " required pods have a node"
            )
    return result


def _idle(moves: Moves) -> Mask:
    """The pending tasks that request nothing: they count for their gang before they have a node."""
    tasks, shapes = moves.snapshot.tasks, moves.snapshot.shapes
    idle: Mask = (moves.status == Status.PENDING) & shapes.best_effort[tasks.shape]
    return idle


def _count(owners: np.ndarray[tuple[int], np.dtype[np.int32]], counted: Mask, size: int) -> Ints:
    """(size,): how many of the counted tasks each owner has."""
    rows = owners[counted]
    return np.bincount(rows[rows != NONE], minlength=size).astype(np.int64)
