"""Invariants of queues: limits, guarantees, and stop policies: nothing starts in held queues, only drained ones are drained."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.invariants.plan_outcome import STARTED, Moves, action_of
from volcanopy.scheduler.invariants.queue_bounds import Bounds, bounds
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable, Snapshot


def beyond_limits(moves: Moves) -> list[str]:
    """Return the queues that exceed their limit in a resource that their new pods request.

    The limit is the capability, or the fair share and borrowing limit, less what is reserved for others; in a tree
    the ancestors are checked as well.
    """
    result = list[str]()
    if not len(moves.placed):
        return result
    added = _by_queue(moves, moves.placed)
    held = _by_queue(moves, np.flatnonzero(STARTED[moves.status] | moves.waits))
    for model in _models(moves, ("flat", "tree")):
        result += _beyond(moves, added, held, model)
    return list(dict.fromkeys(result))


class _Model(NamedTuple):
    """The queue model of a plugin: tree or flat, and the bounds of queues."""

    in_tree: bool
    bounds: Bounds


def _models(moves: Moves, parts: Iterable[str]) -> list[_Model]:
    """The models of the plugins that enforce one of these parts."""
    snapshot, queues, parts = moves.snapshot, moves.snapshot.queues, tuple(parts)
    result = []
    if any(moves.enforces("proportion", part) for part in parts):
        result.append(_Model(queues.nested, bounds(snapshot, by_weight=True, in_tree=queues.nested)))
    if any(moves.enforces("capacity", part) for part in parts):
        shapes = [shape for shape in ("flat", "tree") if moves.enforces("capacity", shape)]
        in_trees = [shape == "tree" for shape in shapes or ["flat"]]
        result += [_Model(in_tree, bounds(snapshot, by_weight=False, in_tree=in_tree)) for in_tree in in_trees]
    if any(moves.enforces("drf", part) for part in parts) and _any_lending(queues):
        result.append(_Model(True, bounds(snapshot, by_weight=True, in_tree=True, alone=True)))
    return result


def _any_lending(queues: QueueTable) -> bool:
    specs = [queue.spec for queue in queues.objects if queue is not None]
    return any(spec.borrowing_limit or spec.lending_limit for spec in specs)


def _beyond(moves: Moves, added: Ints, held: Ints, model: _Model) -> Iterator[str]:
    queues, limits, least = moves.snapshot.queues, model.bounds.limit, model.bounds.reserved
    if model.in_tree:
        available = _down_the_tree(queues, limits, least)
        return _over(moves, _rolled_up(queues, added), _rolled_up(queues, held), available, limits)
    others = least.sum(axis=1)[:, None] - least
    available = np.minimum(limits, np.maximum(moves.snapshot.total[:, None] - others, least))
    return _over(moves, added, held, available, limits)


def _over(moves: Moves, added: Ints, held: Ints, available: Ints, limit: Ints) -> Iterator[str]:
    axis = moves.snapshot.axis
    over = (added > 0) & (held > available)
    over[axis.index["pods"]] = False
    for queue, dim, amounts in _amounts(moves, over, held, available):
        what = "its capability" if available[dim, queue] == limit[dim, queue] else "what others' guarantees leave it"
        yield f"queue {moves.snapshot.queues.names[queue]} is over {what}: {amounts}"


def _amounts(moves: Moves, where: Mask, held: Ints, bound: Ints) -> Iterator[tuple[int, int, str]]:
    """Yield the queues and resources of an (R, Q) mask, with the text of what is held and of its bound."""
    for queue, dim in zip(*np.nonzero(where.T), strict=True):
        resource = moves.snapshot.axis.names[dim]
        has, most = (quantity.text(resource, int(table[dim, queue])) for table in (held, bound))
        yield int(queue), int(dim), f"{has} of {most} {resource}"


def wrongly_reclaimed(moves: Moves) -> list[str]:
    """Return reclaims within a queue, from unreclaimable queues or below a guarantee, and preemptions across queues."""
    queues = moves.snapshot.queues
    result, reclaimed = [], []
    preemptors, owners = _queues_by_job(moves), moves.queue_of(moves.evicted).tolist()
    for (row, evict), queue in zip(moves.victims, owners, strict=True):
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
        for model in _models(moves, ("reclaim",)):
            if model.bounds.reserved.any():
                result += _below_guarantee(moves, np.array(reclaimed, dtype=np.intp), model)
    return list(dict.fromkeys(result))


def _below_guarantee(moves: Moves, reclaimed: Rows, model: _Model) -> list[str]:
    least = model.bounds.reserved
    queues = moves.snapshot.queues
    lost = _by_queue(moves, reclaimed)
    left = moves.status.copy()
    others = np.setdiff1d(moves.evicted, reclaimed)
    left[others] = moves.snapshot.tasks.status[others]  # evictions for the own queue are not losses
    held = _by_queue(moves, np.flatnonzero(STARTED[left] | moves.waits))
    if model.in_tree:
        lost, held = _lost_to_outsiders(moves, reclaimed), _rolled_up(queues, held)
    short = _amounts(moves, (lost > 0) & (held < least), held, least)
    return [f"queue {queues.names[queue]} drops below its guarantee: {amounts}" for queue, _, amounts in short]


def _lost_to_outsiders(moves: Moves, reclaimed: Rows) -> Ints:
    """(R, Q): what each queue and those below it lose to queues that are not below it."""
    queues = moves.snapshot.queues
    lost = np.zeros((len(moves.snapshot.axis), len(queues)), dtype=np.int64)
    preemptors = _queues_by_job(moves)
    for_whom = dict(moves.victims)
    for row, queue in zip(reclaimed.tolist(), moves.queue_of(reclaimed).tolist(), strict=True):
        preemptor = preemptors.get(for_whom[row].preemptor, NONE)
        theirs = set() if preemptor == NONE else set(queues.lines[preemptor].tolist())
        own = [above for above in queues.lines[queue].tolist() if above not in theirs]
        lost[:, own] += moves.requests(np.array([row], dtype=np.intp))
    return lost


def _queues_by_job(moves: Moves) -> dict[str, int]:
    """The queue of each job that gets nodes, by the job's key."""
    return {key: int(moves.snapshot.jobs.queue[job]) for key, job in moves.placed_jobs.items()}


def _by_queue(moves: Moves, rows: Rows) -> Ints:
    return moves.sums(rows, moves.queue_of(rows), len(moves.snapshot.queues))


def _rolled_up(queues: QueueTable, values: Ints) -> Ints:
    """(R, Q): amounts of queues, each with those of its descendants."""
    total = np.zeros_like(values)
    for row, line in enumerate(queues.line_lists):
        total[:, line] += values[:, row, None]
    return total


def _down_the_tree(queues: QueueTable, ceiling: Ints, least: Ints) -> Ints:
    """(R, Q): the limit of each queue within that of its parent, less what is reserved for its siblings."""
    available = ceiling.copy()
    todo = [row for row in range(len(queues)) if queues.above[row] == NONE]
    while todo:
        above = todo.pop()
        children = np.flatnonzero(queues.above == above)
        own = least[:, children]
        left = np.maximum(available[:, above] - own.sum(axis=1), 0)[:, None] + own
        available[:, children] = np.minimum(available[:, children], left)
        todo += children.tolist()
    return available


def started_in_held_queue(moves: Moves) -> Iterator[str]:
    """Yield admissions and placements in held queues, and drain evictions in queues that are not drained."""
    snapshot = moves.snapshot
    tasks, jobs = snapshot.tasks, snapshot.jobs
    rows = range(len(snapshot.queues))
    stopped = {row: by for row in rows if (by := _stopped_by(snapshot, row, ("Hold", "HoldAndDrain")))}
    for queue, (_, evict) in zip(moves.queue_of(moves.evicted).tolist(), moves.victims, strict=True):
        if evict.reason == "drain" and not _stopped_by(snapshot, queue, ("HoldAndDrain",)):
            yield f"pod {evict.pod} is drained although none of its queues is"
    if not stopped:
        return
    placed = np.concatenate((moves.bound, moves.nominated))
    for row, queue in zip(placed.tolist(), moves.queue_of(placed).tolist(), strict=True):
        if queue in stopped:
            yield f"pod {tasks.keys[row]} is placed although queue {stopped[queue]} is held"
    for row, effect in moves.groups.items():
        held = stopped.get(int(jobs.queue[row]))
        if held and effect.phase == "Inqueue" and jobs.phase[row] == "Pending":
            yield f"job {effect.pod_group} is admitted although queue {held} is held"


def _stopped_by(snapshot: Snapshot, queue: int, policies: tuple[str, ...]) -> str:
    """The first queue of a queue's line with one of these stop policies; the root queue is ignored."""
    queues = snapshot.queues
    for row in queues.lines[queue].tolist() if queue != NONE else ():
        result = queues.objects[row]
        if result is not None and queues.names[row] != "root" and result.spec.stop_policy in policies:
            return str(queues.names[row])
    return ""
