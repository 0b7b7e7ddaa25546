"""Invariants of evictions: they start a whole gang, break gangs whole, and none is needless."""

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.invariants.gangs import may_follow, missing
from volcanopy.scheduler.invariants.plan_outcome import (
    ON_NODE,
    PRESENT,
    STARTED,
    WITH_PREEMPTOR,
    IsEnforced,
    Moves,
    action_of,
)
from volcanopy.scheduler.model.plan import Evict
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

_SHARES = (("capacity", "flat"), ("capacity", "tree"), ("drf", "tree"))
"""The parts of plugins that limit what a queue may allocate if a queue has limits."""


def without_preemptor(moves: Moves, is_enforced: IsEnforced) -> list[str]:
    """Return the evictions whose preemptor gets no node, or, where gangs are enforced, does not reach a minimum."""
    result, preemptors = [], dict[str, str]()
    for evict in moves.evictions:
        if evict.preemptor:
            preemptors.setdefault(evict.preemptor, evict.pod)
        elif action_of(evict.reason) in WITH_PREEMPTOR:
            result.append(f"pod {evict.pod} is evicted without a preemptor")
    if not preemptors:
        return result
    placed = _placed_jobs(moves)
    for preemptor, pod in sorted(preemptors.items()):
        job = placed.get(preemptor)
        if job is None:
            result.append(f"pod {pod} is evicted for {preemptor}, which gets no node")
        elif is_enforced("gang", "ready"):
            present = PRESENT[moves.status] | moves.waits | may_follow(moves, job, is_enforced)
            lacking = missing(moves, job, present)
            result += [f"pod {pod} is evicted for {preemptor}, which cannot start: {text}" for text in lacking]
    return result


def broken_in_part(moves: Moves) -> list[str]:
    """Return the gangs that evictions for another job bring below a minimum while some of their pods go on running."""
    snapshot, tasks = moves.snapshot, moves.snapshot.tasks
    before, after = PRESENT[tasks.status], PRESENT[moves.status] | moves.waits
    victims: dict[int, str] = {}
    for row, evict in zip(moves.evicted.tolist(), moves.evictions, strict=True):
        job = int(tasks.job[row])
        if action_of(evict.reason) in WITH_PREEMPTOR and job != NONE and snapshot.jobs.keys[job] != evict.preemptor:
            victims.setdefault(job, evict.preemptor)
    result = []
    for job, preemptor in sorted(victims.items()):
        running = int(STARTED[moves.status[snapshot.members(job)]].sum())
        if running and not missing(moves, job, before) and (lacking := missing(moves, job, after)):
            result.append(
                f"gang {snapshot.jobs.keys[job]} is broken for {preemptor}, but {running} of its pods stay: {lacking[0]}"
            )
    return result


def wrongly_moved(moves: Moves) -> list[str]:
    """Return the pods that are moved without a new node, for a job of lower priority, or as a part of their gang."""
    snapshot, jobs, tasks = moves.snapshot, moves.snapshot.jobs, moves.snapshot.tasks
    placed = _placed_jobs(moves)
    result, owners = [], set[int]()
    for row, evict in zip(moves.evicted.tolist(), moves.evictions, strict=True):
        if evict.reason != "consolidate":
            continue
        own, preemptor = int(tasks.job[row]), placed.get(evict.preemptor, NONE)
        owners.add(own)
        if not evict.moved_to:
            result.append(f"pod {evict.pod} is moved without a new node")
        if NONE not in {own, preemptor} and jobs.priority[own] > jobs.priority[preemptor]:
            result.append(f"pod {evict.pod} is moved for {evict.preemptor}, which is of lower priority")
    for job in sorted(owners - {NONE}):
        running = int(STARTED[moves.status[snapshot.members(job)]].sum())
        if running and missing(moves, job, PRESENT[moves.status]):
            result.append(f"gang {jobs.keys[job]} is moved in part: {running} of its pods stay")
    return result


def wrongly_restarted(moves: Moves, is_enforced: IsEnforced) -> list[str]:
    """Return the gangs that are evicted as stale although they have their minimum, or not as a whole."""
    snapshot, result, owners = moves.snapshot, list[str](), set[int]()
    for row, evict in zip(moves.evicted.tolist(), moves.evictions, strict=True):
        if evict.reason == "stalegangeviction":
            owners.add(int(snapshot.tasks.job[row]))
    for job in sorted(owners - {NONE}):
        before = PRESENT[snapshot.tasks.status] | may_follow(moves, job, is_enforced)
        if is_enforced("gang", "ready") and not missing(moves, job, before):
            result.append(f"gang {snapshot.jobs.keys[job]} is evicted as stale although it has its required pods")
        running = int(STARTED[moves.status[snapshot.members(job)]].sum())
        if running:
            result.append(f"gang {snapshot.jobs.keys[job]} is evicted as stale in part: {running} of its pods stay")
    return result


def needless(moves: Moves, is_enforced: IsEnforced) -> list[str]:
    """Return victims without which every placement of the plan would still fit on its node.

    Judged are evictions that only amounts can justify: of other queues than the preemptor's, where no share limits the
    preemptor, and of pods without ports, claims and terms about other pods; not in plans that nominate a part of a gang,
    for the rest of which the scheduler reserves nodes that no effect names. Pods of a gang that the plan breaks are judged
    together.
    """
    if not len(moves.evicted) or any(
        queue is not None and queue.spec.limits for queue in moves.snapshot.queues.objects
    ):
        return []
    if any(moves.snapshot.shapes.with_terms) or moves.snapshot.numa or moves.snapshot.shapes.claiming:
        return []
    specs = [queue.spec for queue in moves.snapshot.queues.objects if queue is not None]
    limits = any(spec.capability or spec.guarantee.resource or spec.deserved or spec.borrowing_limit for spec in specs)
    limited = limits and any(is_enforced(plugin, part) for plugin, part in _SHARES)
    limited |= is_enforced("proportion", "flat")
    waiting = np.unique(moves.snapshot.tasks.job[moves.waits]).tolist()
    if any(missing(moves, job, PRESENT[moves.status] | moves.waits) for job in waiting if job != NONE):
        return []
    result, placed = [], set(_placed_jobs(moves))
    for rows, evict in _units(moves):
        if evict.preemptor not in placed:
            continue  # reported as such
        if limited and _shares_a_limit(moves, int(rows[0]), evict):
            continue
        if all(_is_plain(moves.snapshot.tasks.pods[row]) for row in rows.tolist()) and _fits_beside(moves, rows):
            pods = " and ".join(moves.key(row) for row in rows.tolist())
            result.append(f"pod {pods} is evicted for {evict.preemptor}, although all placed pods fit without it")
    return result


def _placed_jobs(moves: Moves) -> dict[str, int]:
    """The jobs that get nodes, by key."""
    jobs = moves.snapshot.jobs
    rows = np.unique(moves.snapshot.tasks.job[moves.placed]).tolist()
    return {str(jobs.keys[job]): job for job in rows if job != NONE}


def _units(moves: Moves) -> Iterator[tuple[Rows, Evict]]:
    """Yield the victims that are judged together, with the eviction of the first: single pods, or those of a broken gang."""
    tasks, after = moves.snapshot.tasks, PRESENT[moves.status] | moves.waits
    pairs = [
        (int(tasks.job[row]), row, evict)
        for row, evict in zip(moves.evicted.tolist(), moves.evictions, strict=True)
        if action_of(evict.reason) in WITH_PREEMPTOR and evict.preemptor
    ]
    for job, members in groupby(sorted(pairs, key=lambda pair: pair[:2]), key=lambda pair: pair[0]):
        victims = list(members)
        if job != NONE and missing(moves, job, after):
            yield np.array([row for _, row, _ in victims], dtype=np.intp), victims[0][2]
        else:
            for _, row, evict in victims:
                yield np.array([row], dtype=np.intp), evict


def _fits_beside(moves: Moves, rows: Rows) -> bool:
    """Return whether all pods that this plan places fit on their nodes with these victims there."""
    nodes = np.unique(moves.snapshot.tasks.node[rows])
    stays = (ON_NODE[moves.status] & (moves.status != Status.RELEASING)) | moves.waits
    at = moves.node.copy()
    at[moves.moved] = moves.moved_to
    stays[moves.moved] = True
    at[rows] = moves.snapshot.tasks.node[rows]
    stays[rows] = True
    placed = np.setdiff1d(np.concatenate((moves.placed, moves.moved)), rows)
    for node in nodes.tolist():
        there = np.flatnonzero(stays & (at == node))
        newcomers = placed[at[placed] == node]
        requested = moves.requests(newcomers).sum(axis=1)
        taken = moves.requests(there).sum(axis=1)
        if ((requested > 0) & (taken > moves.snapshot.nodes.allocatable.values[:, node])).any():
            return False
    return True


def _shares_a_limit(moves: Moves, victim: int, evict: Evict) -> bool:
    """Return whether a queue below the root contains both the victim and its preemptor."""
    tasks, jobs, queues = moves.snapshot.tasks, moves.snapshot.jobs, moves.snapshot.queues
    theirs, own = _placed_jobs(moves).get(evict.preemptor, NONE), int(tasks.job[victim])
    if NONE in {theirs, own} or NONE in {int(jobs.queue[theirs]), int(jobs.queue[own])}:
        return True
    lines = [{queues.names[row] for row in queues.lines[jobs.queue[job]].tolist()} for job in (theirs, own)]
    return bool((lines[0] & lines[1]) - {"root"})


def _is_plain(pod: core.Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    ports = any(port.host_port for container in containers for port in container.ports)
    return not ports and not pod.spec.volumes and not pod.spec.resource_claims
