"""Invariants of the limits of users and groups in queues, and of maxRunningJobs.

The limits are read from the queues, entry by entry, independent of the session.
"""

from collections.abc import Iterator

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.scheduler.invariants.plan_outcome import STARTED, Moves, mask
from volcanopy.scheduler.model.job_tables import JobTable
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status

_ADMITTED = ("Inqueue", "Running", "Unknown")
_SCHEDULED = mask(Status.BOUND, Status.RUNNING, Status.RELEASING, Status.SUCCEEDED, Status.FAILED)


def beyond_limits(moves: Moves) -> Iterator[str]:
    """Yield the users and groups that exceed their limits, and the queues that exceed maxRunningJobs."""
    snapshot = moves.snapshot
    limited = [row for row, queue in enumerate(snapshot.queues.objects) if queue is not None and _limits(queue.spec)]
    if not limited:
        return
    new = np.union1d(_newly_admitted(moves), _starting(moves))
    gaining = np.unique(snapshot.tasks.job[moves.placed])
    gaining = gaining[gaining != NONE]
    if not len(new) and not len(gaining):
        return
    counted = _counted(snapshot) & ~_withdrawn(moves)
    counted[new] = True
    held, added = (
        moves.sums(rows, snapshot.tasks.job[rows], len(snapshot.jobs))
        for rows in (np.flatnonzero(STARTED[moves.status] | moves.waits), moves.placed)
    )
    for row in limited:
        queue = snapshot.queues.objects[row]
        assert queue is not None
        inside = _below(snapshot, row)
        touched = np.concatenate((new, gaining))
        for where, members, entry in _subjects(queue, snapshot.jobs, inside, touched[inside[touched]]):
            most, jobs = entry.max_running_jobs, int(counted[members].sum())
            if most is not None and members[new].any() and jobs > most:
                yield f"{where} runs {jobs} jobs, maxRunningJobs is {most}"
            yield from _over(snapshot, where, entry, held[:, members].sum(axis=1), added[:, members].sum(axis=1))


def _over(snapshot: Snapshot, where: str, entry: core.QueueLimit, held: Ints, added: Ints) -> Iterator[str]:
    for name, most in quantity.amounts(entry.resources).items():
        dim = snapshot.axis.index[name]
        if added[dim] > 0 and held[dim] > most:
            has, may = (quantity.text(name, int(units)) for units in (held[dim], most))
            yield f"{where} has {has} {name} allocated, limit is {may}"


def _limits(spec: core.QueueSpec) -> bool:
    return spec.max_running_jobs is not None or bool(spec.limits)


def _newly_admitted(moves: Moves) -> Rows:
    """Return the jobs that the plan admits: not admitted before, not blocked, nothing allocated, and not running."""
    snapshot, jobs = moves.snapshot, moves.snapshot.jobs
    scheduled = _count(snapshot, _SCHEDULED)
    runs = (scheduled >= jobs.min_available) & (scheduled > 0)
    fresh = ~_counted(snapshot) & ~runs & ~snapshot.blocked
    admitted = [row for row, effect in moves.groups.items() if fresh[row] and effect.phase in _ADMITTED]
    return np.array(admitted, dtype=np.intp)


def _starting(moves: Moves) -> Rows:
    """Return the jobs of open queues that start: admitted ones without pods on nodes and nominations of which pods are bound."""
    snapshot = moves.snapshot
    rows: Rows = np.unique(snapshot.tasks.job[moves.bound]).astype(np.intp)
    rows = rows[rows != NONE]
    nominated = np.isin(rows, snapshot.tasks.job[snapshot.tasks.nominated != NONE])
    waited = (snapshot.jobs.phase[rows] == "Inqueue") & (_count(snapshot, STARTED)[rows] == 0)
    return rows[snapshot.queues.is_open[snapshot.jobs.queue[rows]] & ~nominated & waited]


def _withdrawn(moves: Moves) -> Mask:
    """(J,): the jobs without pods on nodes whose admission the plan withdraws."""
    withdrawn: Mask = np.zeros(len(moves.snapshot.jobs), dtype=np.bool_)
    rows = [row for row, effect in moves.groups.items() if effect.phase == "Pending"]
    withdrawn[rows] = (_count(moves.snapshot, STARTED) == 0)[rows]
    return withdrawn


def _counted(snapshot: Snapshot) -> Mask:
    """(J,): the jobs that are admitted and not blocked, or have allocated resources."""
    jobs = snapshot.jobs
    admitted = np.logical_or.reduce([jobs.phase == phase for phase in _ADMITTED])
    return jobs.grouped & ((admitted & ~snapshot.blocked) | (_count(snapshot, STARTED) > 0))


def _count(snapshot: Snapshot, statuses: Mask) -> Ints:
    """(J,): the tasks of each job that have one of these statuses."""
    jobs = snapshot.tasks.job[statuses[snapshot.tasks.status]]
    return np.bincount(jobs[jobs != NONE], minlength=len(snapshot.jobs)).astype(np.int64)


def _below(snapshot: Snapshot, row: int) -> Mask:
    """(J,): the jobs in a queue and in those below it."""
    inside = np.array([row in line for line in snapshot.queues.line_lists] + [False])  # the last: jobs without a queue
    return np.asarray(inside[snapshot.jobs.queue])


def _subjects(
    queue: core.Queue, jobs: JobTable, inside: Mask, touched: Rows
) -> Iterator[tuple[str, Mask, core.QueueLimit]]:
    """The queue, and the users and groups that its entries are about and that these jobs belong to, each with its jobs."""
    spec, name = queue.spec, queue.metadata.name
    yield f"queue {name}", inside, core.QueueLimit(max_running_jobs=spec.max_running_jobs)
    if not spec.limits:
        return
    of_user = [(submitter.user, _of_user(spec, submitter.user)) for submitter in jobs.submitters]
    of_group = [_of_group(spec, submitter.groups) for submitter in jobs.submitters]
    concerned = np.unique(jobs.submitter[touched]).tolist()
    for kind, limits in (("user", of_user), ("group", of_group)):
        for subject, entry in dict(limits[number] for number in concerned).items():
            if entry is not None:
                members = np.array([other == subject for other, _ in limits], dtype=np.bool_)
                yield f"{kind} {subject} in queue {name}", inside & members[jobs.submitter], entry


def _of_user(spec: core.QueueSpec, user: str) -> core.QueueLimit | None:
    named = (entry for entry in spec.limits if user and user in entry.users)
    others = (entry for entry in spec.limits if "*" in entry.users)
    return next(named, None) or next(others, None)


def _of_group(spec: core.QueueSpec, groups: frozenset[str]) -> tuple[str, core.QueueLimit | None]:
    named = ((name, entry) for entry in spec.limits for name in entry.groups if name in groups)
    return next(named, ("", None))
