"""Invariants of stop policies and priority offsets: no starts in held queues, no reclaim by jobs of lower priority."""

from volcanopy.scheduler.invariants.plan_outcome import Moves, action_of
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


def reclaimed_by_lower_priority(moves: Moves) -> list[str]:
    """Return the pods that are reclaimed for a job of lower effective priority across their queues."""
    snapshot, result = moves.snapshot, list[str]()
    specs = [queue.spec for queue in snapshot.queues.objects if queue is not None]
    if not any(spec.priority_offset or not spec.priority_fence for spec in specs):
        return result
    tasks, jobs = snapshot.tasks, snapshot.jobs
    rows = {str(jobs.keys[job]): job for job in {int(tasks.job[row]) for row in moves.placed.tolist()} if job != NONE}
    for row, evict in zip(moves.evicted.tolist(), moves.evictions, strict=True):
        preemptor, loser = rows.get(evict.preemptor), int(tasks.job[row])
        if action_of(evict.reason) != "reclaim" or preemptor is None or loser == NONE:
            continue
        theirs, its = _seen(snapshot, loser, preemptor), _seen(snapshot, preemptor, loser)
        if theirs > its:
            result.append(
                f"pod {evict.pod}, seen with priority {theirs}, is reclaimed for {evict.preemptor} with {its}"
            )
    return result


def _seen(snapshot: Snapshot, job: int, by: int) -> int:
    """Return the priority of a job for a job of another queue: with the offsets of the queues that do not contain both."""
    queues, seen = snapshot.queues, int(snapshot.jobs.priority[job])
    shared = set(queues.lines[snapshot.jobs.queue[by]].tolist())
    for row in queues.lines[snapshot.jobs.queue[job]].tolist():
        if row in shared:
            break
        queue = queues.objects[row]
        if queue is not None:
            seen = queue.spec.priority_offset + (0 if queue.spec.priority_fence else seen)
    return seen


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
