"""Invariants of stop policies: nothing starts in held queues, and only drained queues are drained."""

import numpy as np

from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.snapshot import NONE, Snapshot


def started_in_held_queue(moves: Moves) -> list[str]:
    """Return admissions and placements in held queues, and drain evictions in queues that are not drained."""
    snapshot, result = moves.snapshot, list[str]()
    tasks, jobs = snapshot.tasks, snapshot.jobs
    stopped = {
        row: by for row in range(len(snapshot.queues)) if (by := _stopped_by(snapshot, row, ("Hold", "HoldAndDrain")))
    }
    for queue, (_, evict) in zip(moves.queue_of(moves.evicted).tolist(), moves.victims, strict=True):
        if evict.reason == "drain" and not _stopped_by(snapshot, queue, ("HoldAndDrain",)):
            result.append(f"pod {evict.pod} is drained although none of its queues is")
    if not stopped:
        return result
    placed = np.concatenate((moves.bound, moves.nominated))
    for row, queue in zip(placed.tolist(), moves.queue_of(placed).tolist(), strict=True):
        by = stopped.get(queue, "")
        if by:
            result.append(f"pod {tasks.keys[row]} is placed although queue {by} is held")
    for row, effect in moves.groups.items():
        if effect.phase == "Inqueue" and jobs.phase[row] == "Pending" and int(jobs.queue[row]) in stopped:
            held = stopped[int(jobs.queue[row])]
            result.append(f"job {effect.pod_group} is admitted although queue {held} is held")
    return result


def _stopped_by(snapshot: Snapshot, queue: int, policies: tuple[str, ...]) -> str:
    """The first queue of a queue's line with one of these stop policies; the root queue is ignored."""
    queues = snapshot.queues
    for row in queues.lines[queue].tolist() if queue != NONE else ():
        result = queues.objects[row]
        if result is not None and queues.names[row] != "root" and result.spec.stop_policy in policies:
            return str(queues.names[row])
    return ""
