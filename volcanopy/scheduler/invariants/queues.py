"""Invariants of queues: limits and guarantees."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.invariants.gangs import action_of
from volcanopy.scheduler.invariants.plan_outcome import Kept, Moves
from volcanopy.scheduler.model.queue_shares import Bounds, bounds
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable
from volcanopy.scheduler.model.task_status import HOLDING


def beyond_limits(moves: Moves, kept: Kept) -> list[str]:
    """No queue takes more than it may of a resource that its new pods request.

    Its limit is its capability, or its deserved share and borrowing limit, less what is reserved for others; in a tree the
    same is true for each queue above it.
    """
    result = list[str]()
    if not len(moves.placed):
        return result
    added = _by_queue(moves, moves.placed)
    held = _by_queue(moves, np.flatnonzero(HOLDING[moves.status] | moves.waits))
    for model in _models(moves, kept, ("flat", "tree")):
        result += _beyond(moves, added, held, model)
    return list(dict.fromkeys(result))


class _Model(NamedTuple):
    """How a plugin sees queues: as a tree or flat, and between which bounds."""

    in_tree: bool
    bounds: Bounds


def _models(moves: Moves, kept: Kept, parts: Iterable[str]) -> list[_Model]:
    """The models of the plugins that enforce one of these parts."""
    queues, total, parts = moves.snapshot.queues, moves.snapshot.total, tuple(parts)
    result = []
    if any(kept("proportion", part) for part in parts):
        result.append(_Model(queues.nested, bounds(total, queues, by_weight=True, in_tree=queues.nested)))
    if any(kept("capacity", part) for part in parts):
        shapes = [shape for shape in ("flat", "tree") if kept("capacity", shape)]
        in_trees = [shape == "tree" for shape in shapes or ["flat"]]
        result += [_Model(in_tree, bounds(total, queues, by_weight=False, in_tree=in_tree)) for in_tree in in_trees]
    if any(kept("drf", part) for part in parts) and queues.terms.lending is not None:
        result.append(_Model(True, bounds(total, queues, by_weight=True, in_tree=True, alone=True)))
    return result


def _beyond(moves: Moves, added: Ints, held: Ints, model: _Model) -> list[str]:
    queues, limits, least = moves.snapshot.queues, model.bounds.limit, model.bounds.reserved
    if model.in_tree:
        room = _down_the_tree(queues, limits, least)
        return _over(moves, _rolled_up(queues, added), _rolled_up(queues, held), room, limits)
    others = least.sum(axis=1)[:, None] - least
    room = np.minimum(limits, np.maximum(moves.snapshot.total[:, None] - others, least))
    return _over(moves, added, held, room, limits)


def _over(moves: Moves, added: Ints, held: Ints, room: Ints, limit: Ints) -> list[str]:
    axis = moves.snapshot.axis
    over = (added > 0) & (held > room)
    over[axis.index["pods"]] = False
    result = []
    for queue, dim in zip(*np.nonzero(over.T), strict=True):
        resource = axis.names[dim]
        has, most = (quantity.text(resource, int(table[dim, queue])) for table in (held, room))
        what = "its capability" if room[dim, queue] == limit[dim, queue] else "what others' guarantees leave it"
        result.append(f"queue {moves.snapshot.queues.names[queue]} is over {what}: {has} of {most} {resource}")
    return result


def robbed(moves: Moves, kept: Kept) -> list[str]:
    """Reclaiming is between queues, spares queues that are not reclaimable, and takes no queue below what it is guaranteed.

    Preempting is within a queue.
    """
    queues = moves.snapshot.queues
    owners = _queue_of(moves, moves.evicted)
    result, reclaimed = [], []
    preemptors = _queues_by_job(moves)
    for row, queue, evict in zip(moves.evicted.tolist(), owners.tolist(), moves.evictions, strict=True):
        action, preemptor = action_of(evict.reason), preemptors.get(evict.preemptor, NONE)
        if action == "reclaim" and queue != NONE:
            reclaimed.append(row)
            if not queues.reclaimable[queue]:
                result.append(
                    f"pod {evict.pod} is reclaimed from queue {queues.names[queue]}, which is not reclaimable"
                )
            if queue == preemptor:
                result.append(f"pod {evict.pod} is reclaimed by its own queue {queues.names[queue]}")
        elif action == "preempt" and preemptor not in {queue, NONE}:
            result.append(f"pod {evict.pod} is preempted by another queue, {queues.names[preemptor]}")
    if reclaimed:
        for model in _models(moves, kept, ("reclaim",)):
            if model.bounds.reserved.any():
                result += _below_guarantee(moves, np.array(reclaimed, dtype=np.intp), model)
    return list(dict.fromkeys(result))


def _below_guarantee(moves: Moves, reclaimed: Rows, model: _Model) -> list[str]:
    least = model.bounds.reserved
    queues, axis = moves.snapshot.queues, moves.snapshot.axis
    lost = _by_queue(moves, reclaimed)
    left = moves.status.copy()
    others = np.setdiff1d(moves.evicted, reclaimed)
    left[others] = moves.snapshot.tasks.status[others]  # what leaves for its own queue is not taken from that
    held = _by_queue(moves, np.flatnonzero(HOLDING[left] | moves.waits))
    if model.in_tree:
        lost, held = _lost_to_outsiders(moves, reclaimed), _rolled_up(queues, held)
    short = (lost > 0) & (held < least)
    result = []
    for queue, dim in zip(*np.nonzero(short.T), strict=True):
        resource = axis.names[dim]
        has, owed = (quantity.text(resource, int(table[dim, queue])) for table in (held, least))
        result.append(f"queue {queues.names[queue]} drops below its guarantee: {has} of {owed} {resource}")
    return result


def _lost_to_outsiders(moves: Moves, reclaimed: Rows) -> Ints:
    """(R, Q): what each queue and those below it lose to queues that are not below it."""
    queues = moves.snapshot.queues
    lost = np.zeros((len(moves.snapshot.axis), len(queues)), dtype=np.int64)
    preemptors = _queues_by_job(moves)
    for_whom = dict(zip(moves.evicted.tolist(), moves.evictions, strict=True))
    for row, queue in zip(reclaimed.tolist(), _queue_of(moves, reclaimed).tolist(), strict=True):
        preemptor = preemptors.get(for_whom[row].preemptor, NONE)
        theirs = set() if preemptor == NONE else set(queues.lines[preemptor].tolist())
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


def _rolled_up(queues: QueueTable, values: Ints) -> Ints:
    """(R, Q): with what the queues below hold added to each, child by child."""
    total = values.copy()
    for row in range(len(queues)):
        seen, above = {row}, int(queues.above[row])
        while above != NONE and above not in seen:
            total[:, above] += values[:, row]
            seen.add(above)
            above = int(queues.above[above])
    return total


def _down_the_tree(queues: QueueTable, ceiling: Ints, least: Ints) -> Ints:
    """(R, Q): the limit of each queue within that of its parent, less what is reserved for its siblings."""
    room = ceiling.copy()
    todo = [row for row in range(len(queues)) if queues.above[row] == NONE]
    while todo:
        above = todo.pop()
        children = np.flatnonzero(queues.above == above).tolist()
        promised = sum((least[:, child] for child in children), start=np.int64(0))
        for child in children:
            own = least[:, child]
            left = np.maximum(room[:, above] - promised, 0) + own
            room[:, child] = np.minimum(room[:, child], left)
        todo += children
    return room
