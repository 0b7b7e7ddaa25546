"""Invariants of stop policies: nothing starts in held queues, and only drained queues are drained."""

from volcanopy.scheduler.invariants.plan_outcome import Moves
from volcanopy.scheduler.model.plan import Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import NONE, Snapshot


def started_in_held_queue(moves: Moves, plan: Plan) -> list[str]:
    """Return admissions and placements in held queues, and drain evictions in queues that are not drained."""
    snapshot, result = moves.snapshot, list[str]()
    tasks, jobs = snapshot.tasks, snapshot.jobs
    stopped = {
        row: by for row in range(len(snapshot.queues)) if (by := _stopped_by(snapshot, row, ("Hold", "HoldAndDrain")))
    }
    for row, evict in zip(moves.evicted.tolist(), moves.evictions, strict=True):
        if evict.reason == "drain" and not _stopped_by(snapshot, _queue_of(snapshot, row), ("HoldAndDrain",)):
            result.append(f"pod {evict.pod} is drained although none of its queues is")
    if not stopped:
        return result
    for row in moves.bound.tolist() + moves.nominated.tolist():
        by = stopped.get(_queue_of(snapshot, row), "")
        if by:
            result.append(f"pod {tasks.keys[row]} is placed although queue {by} is held")
    admitted = {effect.pod_group for effect in plan.of(SetPodGroup) if effect.phase == "Inqueue"}
    for row, key in enumerate(jobs.keys.tolist()) if admitted else ():
        if key in admitted and jobs.phase[row] == "Pending" and int(jobs.queue[row]) in stopped:
            result.append(f"job {key} is admitted although queue {stopped[int(jobs.queue[row])]} is held")
    return result


def _queue_of(snapshot: Snapshot, task: int) -> int:
    job = int(snapshot.tasks.job[task])
    return NONE if job == NONE else int(snapshot.jobs.queue[job])


def _stopped_by(snapshot: Snapshot, queue: int, policies: tuple[str, ...]) -> str:
    """The first queue of a queue's line with one of these stop policies; the root queue is ignored."""
    queues = snapshot.queues
    for row in queues.lines[queue].tolist() if queue != NONE else ():
        result = queues.objects[row]
        if result is not None and queues.names[row] != "root" and result.spec.stop_policy in policies:
            return str(queues.names[row])
    return ""
