"""The hooks of a session's plugins, combined: each is one function, typed as the specification in ``plugin``."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from volcanopy.scheduler.cluster import NodesView
from volcanopy.scheduler.combine import RULES, Tiers
from volcanopy.scheduler.plan import GroupCondition
from volcanopy.scheduler.plugin import HOOKS, Denial, Invalid, Plugin, Refusal, Scope, Vote, overrides
from volcanopy.scheduler.resources import Floats, Resources, Rows
from volcanopy.scheduler.views import JobView, QueueView, TaskView

Installed = tuple[tuple[tuple[Plugin[Any], frozenset[str]], ...], ...]
"""Tiers of plugins, each with the switches that are off for it."""


class Hooks:
    """What the plugins together answer."""

    queue_order: Callable[[QueueView], tuple[Any, ...]]
    job_order: Callable[[JobView], tuple[Any, ...]]
    task_order: Callable[[Rows], list[Any]]
    job_valid: Callable[[JobView], Invalid | None]
    job_enqueueable: Callable[[JobView], Vote]
    job_enqueued: Callable[[JobView], None]
    job_ready: Callable[[JobView], bool]
    shortfall: Callable[[JobView], int]
    job_pipelined: Callable[[JobView], Vote]
    job_starving: Callable[[JobView], bool]
    job_condition: Callable[[JobView], GroupCondition | None]
    overused: Callable[[QueueView], Denial | None]
    allocatable: Callable[[QueueView, TaskView, int], Denial | None]
    preemptive: Callable[[QueueView, Sequence[TaskView]], bool]
    entitled: Callable[[QueueView, Resources], bool]
    victim_queue_order: Callable[[QueueView, QueueView], tuple[Any, ...]]
    preemptable: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    reclaimable: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    victim_tasks: Callable[[Rows], Rows]
    may_leave: Callable[[Sequence[TaskView]], list[TaskView]]
    predicate: Callable[[TaskView, NodesView], list[Refusal]]
    node_order: Callable[[TaskView, NodesView], Floats]
    bind_annotations: Callable[[TaskView, int], dict[str, str]]

    def __init__(self, installed: Installed) -> None:
        for name in HOOKS:
            setattr(self, name, RULES[HOOKS[name].rule](_answering(installed, name)))
        self._of_nodes = tuple(
            plugin
            for tier in installed
            for plugin, off in tier
            if any(overrides(plugin, name) and HOOKS[name].switch not in off for name in ("predicate", "node_order"))
        )
        self._scopes: dict[Hashable, Scope] = {}

    def likeness(self, task: TaskView) -> Hashable:
        """Equal for tasks about which every hook over nodes says the same."""
        return (task.shape, *(plugin.likeness(task) for plugin in self._of_nodes))

    def scope(self, task: TaskView) -> Scope:
        """The widest scope that a plugin claims for the task."""
        key = self.likeness(task)
        known = self._scopes.get(key)
        if known is None:
            known = max((plugin.scope(task) for plugin in self._of_nodes), default=Scope.COLUMNS)
            self._scopes[key] = known
        return known


def _answering(installed: Installed, name: str) -> Tiers:
    switch = HOOKS[name].switch
    return tuple(
        tuple(getattr(plugin, name) for plugin, off in tier if overrides(plugin, name) and switch not in off)
        for tier in installed
    )
