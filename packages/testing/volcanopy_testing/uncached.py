"""A cycle of the scheduler in which no result of a hook is kept: it must decide the same as one with cached results."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from volcanopy.scheduler.core import open_session, run
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Plan
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.plugin import Plugin
from volcanopy.scheduler.policy.registry import Action


class UncachedPlacement(Placement):
    """Selects a node for one task at a time and calls every hook for every node."""

    def choose_run(self, task: TaskView, count: int, entry: object) -> Rows:
        """No runs: each task by itself."""
        return np.empty(0, dtype=np.intp)

    def choose(self, task: TaskView, entry: object = None) -> tuple[int, bool] | None:
        """Return the best node by free resources, else by resources being freed; of equals the first by name."""
        nodes = [task.nominated] if task.nominated != NONE else []
        for rows in (nodes, list(range(len(self._ledger.snapshot.nodes)))):
            free = np.minimum(self._ledger.idle, self._ledger.future)
            for room, is_free in ((free, True), (self._ledger.future, False)):
                fit = [row for row in rows if self._fits(task, row, room) and not self._is_rejected(task, row)]
                if fit:
                    scores = self._hooks.score(TasksView([task]), NodesView(self._ledger, np.array(fit)))[0]
                    best = max(range(len(fit)), key=lambda place: (scores[place], -fit[place]))
                    return fit[best], is_free
        return None

    @staticmethod
    def _fits(task: TaskView, node: int, room: Any) -> bool:
        return all(units <= room[dim, node] for dim, units in enumerate(task.request.values) if units)

    def _is_rejected(self, task: TaskView, node: int) -> bool:
        everywhere = NodesView(self._ledger, np.arange(len(self._ledger.snapshot.nodes)))
        return any(rejection.nodes[node] for rejection in self._hooks.reject(task, everywhere))


class UncachedHooks(Hooks):
    """The hooks of a session in which rejections may change at any time, and requests are independent."""

    victim_policies = frozenset({Plugin})

    def rejections_are_static(self, task: TaskView) -> bool:
        """Return False."""
        return False


def schedule_uncached(snapshot: Snapshot, config: SchedulerConfig, actions: Mapping[str, Action[Any]]) -> Plan:
    """Return the plan of a cycle in which every hook is called for every task and node each time."""
    session = open_session(snapshot, config)
    session.hooks.__class__ = UncachedHooks
    session.placement = UncachedPlacement(session.ledger, session.hooks)
    return run(session, actions)
