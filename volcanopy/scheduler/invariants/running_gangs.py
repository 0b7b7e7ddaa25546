"""Invariant of running gangs: nothing starts on what would make a running gang whole.

It is checked of gangs of which only equal pods are missing, which nothing but the amounts and labels of nodes keeps from them.
"""

from collections.abc import Iterator

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.invariants import gangs, node_rules
from volcanopy.scheduler.invariants.plan_outcome import ON_NODE, PRESENT, STARTED, Moves
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status


def passed_over(moves: Moves) -> Iterator[str]:
    """Yield the running gangs that lack members although these fit on the nodes without the new starts of a plan."""
    tasks = moves.snapshot.tasks
    if not len(moves.bound) or _limits_exist(moves):
        return
    running = np.intersect1d(tasks.job[STARTED[tasks.status]], tasks.job[tasks.status == Status.PENDING]).tolist()
    lacking = {row: gangs.missing(moves, row, PRESENT[tasks.status]) for row in running if row != NONE}
    first = [row for row, text in lacking.items() if text]
    starts = moves.bound[(tasks.nominated[moves.bound] == NONE) & ~np.isin(tasks.job[moves.bound], first)]
    moved = [pod.task for pod in moves.snapshot.moves.pods]
    starts = starts[~np.isin(starts, moved)]
    if not len(starts) or not first:
        return
    free = _free(moves, starts)
    for row in first:
        members = _missing_members(moves, row)
        if len(members) and _fit(moves, members, free):
            key = moves.snapshot.jobs.keys[row]
            yield f"running gang {key} lacks members though other pods start: {lacking[row][0]}"


def _limits_exist(moves: Moves) -> bool:
    """Return whether anything but nodes limits what a queue may allocate."""
    queues = moves.snapshot.queues
    specs = [queue.spec for queue in queues.objects if queue is not None]
    return bool(queues.capability_set.any() or queues.guarantee.values.any()) or any(
        spec.limits or spec.borrowing_limit or spec.lending_limit for spec in specs
    )


def _free(moves: Moves, starts: Rows) -> Ints:
    """(R, N): what is free beside all pods and nominations but the new starts, and beside moved pods."""
    nodes = moves.snapshot.nodes
    used = ON_NODE[moves.status] | moves.waits
    used[starts] = False
    rows = np.flatnonzero(used)
    free: Ints = nodes.allocatable.values - moves.sums(rows, moves.node[rows], len(nodes))
    return free - moves.sums(moves.moved, moves.moved_to, len(nodes))


def _missing_members(moves: Moves, job: int) -> Rows:
    """Return the waiting pods that make a gang whole; none if it is whole, cannot be, or if they are not equal and plain."""
    snapshot = moves.snapshot
    tasks, jobs, shapes = snapshot.tasks, snapshot.jobs, snapshot.shapes
    none = np.empty(0, dtype=np.intp)
    members = snapshot.members(job)
    waiting = members[(moves.status[members] == Status.PENDING) & ~tasks.gated[members] & ~moves.waits[members]]
    if not len(waiting) or jobs.structured[job] or jobs.phase[job] == "Pending" or jobs.queue[job] == NONE:
        return none
    if snapshot.queues.objects[jobs.queue[job]] is None or len(np.unique(tasks.shape[waiting])) > 1:
        return none
    shape = int(tasks.shape[waiting[0]])
    ports = shapes.specs[shape].host_ports
    if shapes.terms[shape] is not None or shapes.matched[shape] or shape in shapes.claiming or ports:
        return none
    counted = PRESENT[moves.status].copy()
    if not gangs.missing(moves, job, counted):
        return none
    for count, row in enumerate(waiting.tolist(), 1):
        counted[row] = True
        if not gangs.missing(moves, job, counted):
            needed = waiting[:count]
            whole = moves.requests(np.append(members[ON_NODE[moves.status[members]]], needed)).sum(axis=1)
            ready = snapshot.axis.vector(quantity.amounts(jobs.groups[job].status.ready_resources))
            return none if ready.any() and (whole > ready).any() else needed  # it never had so much
    return none


def _fit(moves: Moves, members: Rows, free: Ints) -> bool:
    """Return whether these equal pods fit on the nodes that admit them."""
    request, nodes = moves.requests(members[:1])[:, 0], moves.snapshot.nodes.traits.objects
    pod, dims = moves.snapshot.tasks.pods[members[0]], np.flatnonzero(request)
    slots = (np.maximum(free[dims], 0) // request[dims, None]).min(axis=0)
    places = sum(int(slots[row]) for row in np.flatnonzero(slots).tolist() if node_rules.admits(nodes[row], pod))
    return places >= len(members)
