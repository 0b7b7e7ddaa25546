"""Evictions without which every placement of a plan would still fit: an invariant that only tests can afford to judge."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.invariants import check, plan_outcome
from volcanopy.scheduler.invariants.gangs import missing
from volcanopy.scheduler.invariants.plan_outcome import ON_NODE, PRESENT, WITH_PREEMPTOR, Moves, action_of
from volcanopy.scheduler.model.plan import Evict, Plan
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status

LIMITING_SHARES = ("capacity", "capacity:flat", "capacity:tree", "drf", "drf:tree")
"""The invariants of plugins that limit what a queue may allocate if a queue has limits."""
LIMITING = ("proportion", "proportion:flat")
"""Those that always limit it."""


def violations(snapshot: Snapshot, plan: Plan, enforced: Iterable[str]) -> list[str]:
    """Return the violations of a plan, and its needless evictions."""
    enforced = frozenset(enforced)
    moves, _ = plan_outcome.read(snapshot, plan)
    return [*check.violations(snapshot, plan, enforced), *needless(moves, enforced)]


def needless(moves: Moves, enforced: frozenset[str]) -> list[str]:
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
    limited = limits and not enforced.isdisjoint(LIMITING_SHARES)
    limited |= not enforced.isdisjoint(LIMITING)
    waiting = np.unique(moves.snapshot.tasks.job[moves.waits]).tolist()
    if any(missing(moves, job, PRESENT[moves.status] | moves.waits) for job in waiting if job != NONE):
        return []
    result, placed = [], set(moves.placed_jobs)
    for rows, evict in _units(moves):
        if evict.preemptor not in placed:
            continue  # reported as such
        if limited and _shares_a_limit(moves, int(rows[0]), evict):
            continue
        if all(_is_plain(moves.snapshot.tasks.pods[row]) for row in rows.tolist()) and _fits_beside(moves, rows):
            pods = " and ".join(moves.key(row) for row in rows.tolist())
            result.append(f"pod {pods} is evicted for {evict.preemptor}, although all placed pods fit without it")
    return result


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
    theirs, own = moves.placed_jobs.get(evict.preemptor, NONE), int(tasks.job[victim])
    if NONE in {theirs, own} or NONE in {int(jobs.queue[theirs]), int(jobs.queue[own])}:
        return True
    lines = [{queues.names[row] for row in queues.lines[jobs.queue[job]].tolist()} for job in (theirs, own)]
    return bool((lines[0] & lines[1]) - {"root"})


def _is_plain(pod: core.Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    ports = any(port.host_port for container in containers for port in container.ports)
    return not ports and not pod.spec.volumes and not pod.spec.resource_claims
