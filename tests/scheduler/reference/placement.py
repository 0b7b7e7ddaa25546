"""The built-in actions, and a canonical form of snapshots."""

from collections.abc import Mapping
from typing import Any

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.policy.registry import Action


def actions() -> Mapping[str, Action[Any]]:
    """The actions, for tests that run them on sessions of their own."""
    return builtin().actions


def canonical(seen: Snapshot) -> dict[str, Any]:
    """A snapshot without its row numbers: equal for equal worlds."""
    axis, nodes, tasks, jobs, queues = seen.axis, seen.nodes, seen.tasks, seen.jobs, seen.queues

    def amounts(table: Any, row: int) -> dict[str, int]:
        return {name: int(units) for name, units in zip(axis.names, table.values[:, row], strict=True) if units}

    def name_of(table: Any, row: int) -> str:
        return "" if row == NONE else str(table[row])

    return {
        "nodes": {
            name: (
                amounts(nodes.allocatable, row),
                amounts(nodes.used, row),
                amounts(nodes.releasing, row),
                nodes.nonzero[:, row].tolist(),
            )
            for row, name in enumerate(nodes.names)
        },
        "tasks": {
            key: (
                int(tasks.status[row]),
                name_of(jobs.keys, tasks.job[row]),
                "" if tasks.role[row] == NONE else seen.roles.names[tasks.role[row]],
                name_of(nodes.names, tasks.node[row]),
                int(tasks.priority[row]),
                amounts(seen.shapes.request, tasks.shape[row]),
                bool(tasks.gated[row]),
            )
            for row, key in enumerate(tasks.keys)
            if key is not None
        },
        "jobs": {
            key: (
                queues.names[jobs.queue[row]],
                int(jobs.priority[row]),
                int(jobs.min_available[row]),
                jobs.phase[row],
                jobs.submitters[jobs.submitter[row]],
                jobs.counts[:, row].tolist(),
                int(jobs.best_effort[row]),
                amounts(jobs.allocated, row),
                amounts(jobs.pending, row),
                sorted(
                    (seen.roles.names[role], int(seen.roles.minimum[role]), seen.roles.counts[:, role].tolist())
                    for role in jobs.roles[row]
                    if seen.roles.minimum[role] or seen.roles.counts[:, role].any()
                ),
            )
            for row, key in enumerate(jobs.keys)
            if key is not None and jobs.groups[row] is not None
        },
        "queues": {
            name: (
                int(queues.weight[row]),
                amounts(queues.capability, row) if queues.capability_set[:, row].any() else {},
            )
            for row, name in enumerate(queues.names)
            if queues.objects[row] is not None
        },
    }
