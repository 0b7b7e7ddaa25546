"""Invariant of network topology: no bind spreads a job or sub-group over a higher tier than it allows.

It follows the parents of nodes one by one and shares only the table with the scheduling code.
"""

from collections.abc import Iterable, Iterator

from volcanopy.api import core
from volcanopy.scheduler.invariants.plan_outcome import STARTED
from volcanopy.scheduler.model.plan import Bind, Evict, Plan
from volcanopy.scheduler.model.snapshot import NONE, Snapshot


def topology_crossed(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return the jobs and sub-groups whose pods span a tier above the highest allowed after the binds."""
    tasks, jobs = snapshot.tasks, snapshot.jobs
    bound_to: dict[int, dict[int, int]] = {}
    """By job: the tasks that are bound, each with its node."""
    for bind in plan.of(Bind):
        task = snapshot.task_row(bind.pod)
        node = snapshot.nodes.index.get(bind.node)
        if task is not None and node is not None and tasks.job[task] != NONE and jobs.structured[tasks.job[task]]:
            bound_to.setdefault(int(tasks.job[task]), {})[task] = node
    evicted = {snapshot.task_row(evict.pod) for evict in plan.of(Evict)} if bound_to else set()
    return [text for job, binds in sorted(bound_to.items()) for text in _of_job(snapshot, job, binds, evicted)]


def _of_job(snapshot: Snapshot, job: int, binds: dict[int, int], evicted: set[int | None]) -> Iterator[str]:
    tasks, spec = snapshot.tasks, snapshot.jobs.groups[job].spec
    where = dict(binds)
    for task in snapshot.members(job).tolist():
        if STARTED[tasks.status[task]] and task not in evicted and task not in where:
            where[task] = int(tasks.node[task])
    key = str(snapshot.jobs.keys[job])
    yield from _of_group(snapshot, key, spec.network_topology, [where[task] for task in sorted(where)])
    for number, policy in enumerate(spec.sub_group_policy):
        marks = {int(tasks.mark[task]) for task in binds if tasks.mark[task] != NONE}
        for mark in sorted(mark for mark in marks if tasks.marks[mark].policy == number):
            nodes = [node for task, node in sorted(where.items()) if tasks.mark[task] == mark]
            name = "-".join((policy.name, *tasks.marks[mark].values))
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
