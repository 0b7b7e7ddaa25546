"""Reference implementation of placement, and a canonical form of snapshots."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.registry import Action


class OneByOne(Placement):
    """Selects a node for one task at a time and calls every hook for every node."""

    def __init__(self, ledger: Ledger, hooks: Hooks) -> None:
        super().__init__(ledger, hooks)
        self._hooks_asked = hooks

    def choose_run(self, task: TaskView, count: int) -> Rows:
        """No runs: each task by itself."""
        return np.empty(0, dtype=np.intp)

    def choose(self, task: TaskView) -> tuple[int, bool] | None:
        """Return the best node by free resources, else by resources being freed; of equals the first by name."""
        nodes = [task.nominated] if task.nominated != NONE else []
        for rows in (nodes, list(range(len(self._ledger.snapshot.nodes)))):
            free = np.minimum(self._ledger.idle, self._ledger.future)
            for room, is_free in ((free, True), (self._ledger.future, False)):
                fit = [row for row in rows if self._fits(task, row, room) and not self._refused(task, row)]
                if fit:
                    scores = self._hooks_asked.score(TasksView([task]), NodesView(self._ledger, np.array(fit)))[0]
                    best = max(range(len(fit)), key=lambda place: (scores[place], -fit[place]))
                    return fit[best], is_free
        return None

    @staticmethod
    def _fits(task: TaskView, node: int, room: Any) -> bool:
        return all(units <= room[dim, node] for dim, units in enumerate(task.request.values) if units)

    def _refused(self, task: TaskView, node: int) -> bool:
        everywhere = NodesView(self._ledger, np.arange(len(self._ledger.snapshot.nodes)))
        return any(refusal.nodes[node] for refusal in self._hooks_asked.reject(task, everywhere))


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
