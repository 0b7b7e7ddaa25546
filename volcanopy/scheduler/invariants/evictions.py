"""Invariants of evictions: they start a whole gang, and break gangs whole."""

from collections.abc import Iterator

from volcanopy.scheduler.invariants.gangs import may_follow, missing
from volcanopy.scheduler.invariants.plan_outcome import PRESENT, STARTED, WITH_PREEMPTOR, Moves, action_of
from volcanopy.scheduler.model.snapshot import NONE


def without_preemptor(moves: Moves) -> Iterator[str]:
    """Yield the evictions whose preemptor gets no node, or, where gangs are enforced, does not reach a minimum."""
    preemptors = dict[str, str]()
    for evict in moves.evictions:
        if evict.preemptor:
            preemptors.setdefault(evict.preemptor, evict.pod)
        elif action_of(evict.reason) in WITH_PREEMPTOR:
            yield f"pod {evict.pod} is evicted without a preemptor"
    if not preemptors:
        return
    placed = moves.placed_jobs
    for preemptor, pod in sorted(preemptors.items()):
        job = placed.get(preemptor)
        if job is None:
            yield f"pod {pod} is evicted for {preemptor}, which gets no node"
        elif moves.enforces("gang", "ready"):
            present = PRESENT[moves.status] | moves.waits | may_follow(moves, job)
            lacking = missing(moves, job, present)
            yield from (f"pod {pod} is evicted for {preemptor}, which cannot start: {text}" for text in lacking)


def broken_in_part(moves: Moves) -> Iterator[str]:
    """Yield the gangs that evictions for another job bring below a minimum while some of their pods go on running."""
    snapshot, tasks = moves.snapshot, moves.snapshot.tasks
    before, after = PRESENT[tasks.status], PRESENT[moves.status] | moves.waits
    victims: dict[int, str] = {}
    for row, evict in moves.victims:
        job = int(tasks.job[row])
        if action_of(evict.reason) in WITH_PREEMPTOR and job != NONE and snapshot.jobs.keys[job] != evict.preemptor:
            victims.setdefault(job, evict.preemptor)
    for job, preemptor in sorted(victims.items()):
        running = _staying(moves, job)
        if running and not missing(moves, job, before) and (lacking := missing(moves, job, after)):
            yield (
                f"gang {snapshot.jobs.keys[job]} is broken for {preemptor}, but {running} of its pods stay: {lacking[0]}"
            )


def wrongly_moved(moves: Moves) -> Iterator[str]:
    """Yield the pods that are moved without a new node, for a job of lower priority, or as a part of their gang."""
    jobs, tasks, placed = moves.snapshot.jobs, moves.snapshot.tasks, moves.placed_jobs
    owners = set[int]()
    for row, evict in moves.victims:
        if evict.reason != "consolidate":
            continue
        own, preemptor = int(tasks.job[row]), placed.get(evict.preemptor, NONE)
        owners.add(own)
        if not evict.moved_to:
            yield f"pod {evict.pod} is moved without a new node"
        if NONE not in {own, preemptor} and jobs.priority[own] > jobs.priority[preemptor]:
            yield f"pod {evict.pod} is moved for {evict.preemptor}, which is of lower priority"
    for job in sorted(owners - {NONE}):
        running = _staying(moves, job)
        if running and missing(moves, job, PRESENT[moves.status]):
            yield f"gang {jobs.keys[job]} is moved in part: {running} of its pods stay"


def wrongly_restarted(moves: Moves) -> Iterator[str]:
    """Yield the gangs that are evicted as stale although they have their minimum, or not as a whole."""
    snapshot = moves.snapshot
    owners = {int(snapshot.tasks.job[row]) for row, evict in moves.victims if evict.reason == "stalegangeviction"}
    for job in sorted(owners - {NONE}):
        before = PRESENT[snapshot.tasks.status] | may_follow(moves, job)
        if moves.enforces("gang", "ready") and not missing(moves, job, before):
            yield f"gang {snapshot.jobs.keys[job]} is evicted as stale although it has its required pods"
        if running := _staying(moves, job):
            yield f"gang {snapshot.jobs.keys[job]} is evicted as stale in part: {running} of its pods stay"


def _staying(moves: Moves, job: int) -> int:
    """Return how many pods of a job run on, or start."""
    return int(STARTED[moves.status[moves.snapshot.members(job)]].sum())
