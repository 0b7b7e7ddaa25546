"""Whether queues keep to what they may hold, and keep what they are guaranteed."""

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.checking.gangs import action_of
from volcanopy.scheduler.checking.moves import Kept, Moves
from volcanopy.scheduler.resources import UNLIMITED, Ints, Rows
from volcanopy.scheduler.snapshot import NONE, QueueTable
from volcanopy.scheduler.status import HOLDING


def beyond_limits(moves: Moves, kept: Kept) -> list[str]:
    """No queue takes more than it may of a resource that its new pods ask for.

    It may hold its capability, less what others are guaranteed; in a tree, so may each queue above it.
    """
    found = list[str]()
    if not len(moves.placed):
        return found
    queues = moves.snapshot.queues
    added, limit = _by_queue(moves, moves.placed), _capability(queues)
    held = _by_queue(moves, np.flatnonzero(HOLDING[moves.status] | moves.waits))
    if kept("proportion", "flat") or kept("capacity", "flat"):
        others = queues.guarantee.values.sum(axis=1)[:, None] - queues.guarantee.values
        room = np.minimum(limit, np.maximum(moves.snapshot.total[:, None] - others, queues.guarantee.values))
        found += _over(moves, added, held, room, limit)
    if kept("capacity", "tree"):
        room = _down_the_tree(queues, limit)
        found += _over(moves, _rolled_up(queues, added), _rolled_up(queues, held), room, limit)
    return list(dict.fromkeys(found))


def _over(moves: Moves, added: Ints, held: Ints, room: Ints, limit: Ints) -> list[str]:
    axis = moves.snapshot.axis
    over = (added > 0) & (held > room)
    over[axis.index["pods"]] = False
    found = []
    for queue, dim in zip(*np.nonzero(over.T), strict=True):
        resource = axis.names[dim]
        has, most = (quantity.text(resource, int(table[dim, queue])) for table in (held, room))
        what = "its capability" if room[dim, queue] == limit[dim, queue] else "what others' guarantees leave it"
        found.append(f"queue {moves.snapshot.queues.names[queue]} is over {what}: {has} of {most} {resource}")
    return found


def robbed(moves: Moves, kept: Kept) -> list[str]:
    """Reclaiming is between queues, spares those that say so, and takes no queue below what it is guaranteed.

    Preempting is within a queue.
    """
    queues = moves.snapshot.queues
    owners = _queue_of(moves, moves.evicted)
    found, reclaimed = [], []
    gainers = _queues_by_job(moves)
    for row, queue, evict in zip(moves.evicted.tolist(), owners.tolist(), moves.evictions, strict=True):
        action, gainer = action_of(evict.reason), gainers.get(evict.beneficiary, NONE)
        if action == "reclaim" and queue != NONE:
            reclaimed.append(row)
            if not queues.reclaimable[queue]:
                found.append(f"pod {evict.pod} is reclaimed from queue {queues.names[queue]}, which is not reclaimable")
            if queue == gainer:
                found.append(f"pod {evict.pod} is reclaimed by its own queue {queues.names[queue]}")
        elif action == "preempt" and gainer not in {queue, NONE}:
            found.append(f"pod {evict.pod} is preempted by another queue, {queues.names[gainer]}")
    if reclaimed and queues.guarantee.values.any():
        in_tree = kept("capacity", "tree")
        if kept("proportion", "reclaim") or kept("capacity", "reclaim"):
            found += _below_guarantee(moves, np.array(reclaimed, dtype=np.intp), in_tree)
    return found


def _below_guarantee(moves: Moves, reclaimed: Rows, in_tree: bool) -> list[str]:
    queues, axis = moves.snapshot.queues, moves.snapshot.axis
    lost = _by_queue(moves, reclaimed)
    left = moves.status.copy()
    others = np.setdiff1d(moves.evicted, reclaimed)
    left[others] = moves.snapshot.tasks.status[others]  # what leaves for its own queue is not taken from that
    held = _by_queue(moves, np.flatnonzero(HOLDING[left] | moves.waits))
    if in_tree:
        lost, held = _lost_to_outsiders(moves, reclaimed), _rolled_up(queues, held)
    short = (lost > 0) & (held < queues.guarantee.values)
    found = []
    for queue, dim in zip(*np.nonzero(short.T), strict=True):
        resource = axis.names[dim]
        has, owed = (quantity.text(resource, int(table[dim, queue])) for table in (held, queues.guarantee.values))
        found.append(f"queue {queues.names[queue]} is pushed below its guarantee: {has} of {owed} {resource}")
    return found


def _lost_to_outsiders(moves: Moves, reclaimed: Rows) -> Ints:
    """(R, Q): what each queue and those below it lose to queues that are not below it."""
    queues = moves.snapshot.queues
    lost = np.zeros((len(moves.snapshot.axis), len(queues)), dtype=np.int64)
    gainers = _queues_by_job(moves)
    for_whom = dict(zip(moves.evicted.tolist(), moves.evictions, strict=True))
    for row, queue in zip(reclaimed.tolist(), _queue_of(moves, reclaimed).tolist(), strict=True):
        gainer = gainers.get(for_whom[row].beneficiary, NONE)
        theirs = set() if gainer == NONE else set(queues.lines[gainer].tolist())
        own = [above for above in queues.lines[queue].tolist() if above not in theirs]
        lost[:, own] += moves.requests(np.array([row], dtype=np.intp))
    return lost


def _queue_of(moves: Moves, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    jobs = moves.snapshot.tasks.job[rows]
    return np.where(jobs == NONE, np.int32(NONE), np.append(moves.snapshot.jobs.queue, np.int32(NONE))[jobs])


def _queues_by_job(moves: Moves) -> dict[str, int]:
    """The queue of each job that is given something, by the job's key."""
    jobs = moves.snapshot.jobs
    rows = np.unique(moves.snapshot.tasks.job[moves.placed])
    return {str(jobs.keys[job]): int(jobs.queue[job]) for job in rows.tolist() if job != NONE}


def _by_queue(moves: Moves, rows: Rows) -> Ints:
    queues = _queue_of(moves, rows)
    known = queues != NONE
    return moves.sums(rows[known], queues[known].astype(np.intp), len(moves.snapshot.queues))


def _capability(queues: QueueTable) -> Ints:
    """What is not said, and cpu or memory of zero, is no limit."""
    given = queues.capability_set.copy()
    given[:2] &= queues.capability.values[:2] > 0
    return np.where(given, queues.capability.values, UNLIMITED)


def _rolled_up(queues: QueueTable, values: Ints) -> Ints:
    """(R, Q): with what the queues below hold added to each, child by child."""
    total = values.copy()
    for row in range(len(queues)):
        seen, above = {row}, int(queues.parent[row])
        while above != NONE and above not in seen:
            total[:, above] += values[:, row]
            seen.add(above)
            above = int(queues.parent[above])
    return total


def _down_the_tree(queues: QueueTable, capability: Ints) -> Ints:
    """(R, Q): what each queue may hold of what the one above it may, less what its siblings are guaranteed."""
    room = capability.copy()
    todo = [row for row in range(len(queues)) if queues.parent[row] == NONE]
    while todo:
        above = todo.pop()
        children = np.flatnonzero(queues.parent == above).tolist()
        promised = sum((queues.guarantee.values[:, child] for child in children), start=np.int64(0))
        for child in children:
            own = queues.guarantee.values[:, child]
            left = np.maximum(room[:, above] - promised, 0) + own
            room[:, child] = np.minimum(room[:, child], left)
        todo += children
    return room
