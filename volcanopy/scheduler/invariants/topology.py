"""Invariant of network topology: no bind spreads a job or sub-group over a higher tier than it allows.

It follows the parents of nodes one by one and shares only the table with the scheduling code.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.invariants.plan_outcome import STARTED, Moves
from volcanopy.scheduler.model.snapshot import NONE, Snapshot


def topology_crossed(moves: Moves) -> list[str]:
    """Return the jobs and sub-groups whose pods span a tier above the highest allowed after the binds."""
    jobs = np.unique(moves.snapshot.tasks.job[moves.bound])
    jobs = jobs[(jobs != NONE) & moves.snapshot.jobs.structured[jobs]]
    return [text for job in jobs.tolist() for text in _of_job(moves, job)]


def _of_job(moves: Moves, job: int) -> Iterator[str]:
    snapshot = moves.snapshot
    tasks, spec, key = snapshot.tasks, snapshot.jobs.groups[job].spec, str(snapshot.jobs.keys[job])
    members = snapshot.members(job)
    there = members[STARTED[moves.status[members]]]
    yield from _of_group(snapshot, key, spec.network_topology, moves.node[there].tolist())
    for mark in np.unique(tasks.mark[moves.bound[tasks.job[moves.bound] == job]]).tolist():
        if mark != NONE:
            policy = spec.sub_group_policy[tasks.marks[mark].policy]
            name = "-".join((policy.name, *tasks.marks[mark].values))
            nodes = moves.node[there[tasks.mark[there] == mark]].tolist()
            yield from _of_group(snapshot, f"{key}/{name}", policy.network_topology, nodes)


def _of_group(
    snapshot: Snapshot, name: str, topology: core.NetworkTopology | None, nodes: Iterable[int]
) -> Iterator[str]:
    tier = _highest_tier(snapshot, topology)
    if tier is None:
        return
    spans = _tier_of(snapshot, {int(snapshot.hypernodes.of_node[node]) for node in nodes if node != NONE})
    if spans is not None and spans > tier:
        yield f"{name} spans network tier {spans}, highestTierAllowed is {tier}"


def _highest_tier(snapshot: Snapshot, topology: core.NetworkTopology | None) -> int | None:
    """The tier that pods may span, by number or name; None where that is not limited."""
    if topology is None or topology.mode == "soft":
        return None
    if topology.highest_tier_allowed is None:
        return snapshot.hypernodes.tier_numbers.get(topology.highest_tier_name)
    return topology.highest_tier_allowed


def _tier_of(snapshot: Snapshot, rows: set[int]) -> int | None:
    """The tier of the lowest hypernode that contains all of these; None of none."""
    if not rows:
        return None
    lines = [_line(snapshot, row) for row in sorted(rows)]
    shared = set(lines[0]).intersection(*lines[1:])
    return int(snapshot.hypernodes.tiers[next(row for row in lines[0] if row in shared)])


def _line(snapshot: Snapshot, row: int) -> list[int]:
    line, parent = [row], snapshot.hypernodes.parent
    while parent[line[-1]] != NONE:
        line.append(int(parent[line[-1]]))
    return line
