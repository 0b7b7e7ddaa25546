"""The hooks of a session's plugins, combined: each is one function, typed as the specification in ``plugin``."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from volcanopy.scheduler.framework.combine import RULES, Tiers, intersect
from volcanopy.scheduler.framework.plugin import (
    HOOKS,
    GangPreemptor,
    Invalid,
    NodeRejection,
    Plugin,
    Purpose,
    Rejection,
    Scope,
    ScoreOf,
    Vote,
    overrides,
)
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.plan import Claims, GroupCondition
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.resources import Floats, Mask, Resources, Rows

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
    subjob_order: Callable[[SubJobView], tuple[Any, ...]]
    subjob_ready: Callable[[SubJobView], bool]
    subjob_pipelined: Callable[[SubJobView], Vote]
    hypernode_gradient: Callable[[JobView | SubJobView, Rows, Purpose], Sequence[Rows] | None]
    hypernode_order: Callable[[SubJobView, Rows], Floats]
    job_starving: Callable[[JobView], bool]
    job_condition: Callable[[JobView], GroupCondition | None]
    overused: Callable[[QueueView], Rejection | None]
    allocatable: Callable[[QueueView, TaskView, int], Rejection | None]
    preemptive: Callable[[QueueView, Sequence[TaskView]], bool]
    within_deserved: Callable[[QueueView, Resources], bool]
    queue_shares: Callable[[], QueueShares | None]
    victim_queue_order: Callable[[QueueView, QueueView], tuple[Any, ...]]
    preemptable: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    reclaimable: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    preemptable_at_all: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    reclaimable_at_all: Callable[[TaskView, Sequence[TaskView]], list[TaskView]]
    unified_evictable: Callable[[GangPreemptor, Sequence[TaskView]], list[TaskView]]
    unified_evictable_at_all: Callable[[GangPreemptor, Sequence[TaskView]], list[TaskView]]
    victim_tasks: Callable[[Rows], Rows]
    evictable: Callable[[Sequence[TaskView]], list[TaskView]]
    predicate: Callable[[TaskView, NodesView], list[NodeRejection]]
    node_order: Callable[[TaskView, NodesView], Floats]
    bind_annotations: Callable[[TaskView, int], dict[str, str]]
    bind_claims: Callable[[TaskView, int], Claims | None]
    reservation: Callable[[JobView], Mapping[str, str] | None]

    def __init__(self, installed: Installed) -> None:
        for name in HOOKS:
            setattr(self, name, RULES[HOOKS[name].rule](_answering(installed, name)))
        self.preemptable = intersect(_answering(installed, "preemptable"), self.preemptable_at_all)
        self.reclaimable = intersect(_answering(installed, "reclaimable"), self.reclaimable_at_all)
        self.unified_evictable = intersect(_answering(installed, "unified_evictable"), self.unified_evictable_at_all)
        self._pipelined = tuple(method for tier in _answering(installed, "job_pipelined") for method in tier)
        self._of_nodes = tuple(
            plugin
            for tier in installed
            for plugin, off in tier
            if any(overrides(plugin, name) and HOOKS[name].switch not in off for name in ("predicate", "node_order"))
        )
        self._asked_for_likeness = tuple(one.likeness for one in self._of_nodes if not one.alike)
        self._refusing = tuple(
            _at_once(one, "is_steady", "predicate") for one in self._of_nodes if _answers(installed, one, "predicate")
        )
        scoring = [one for one in self._of_nodes if _answers(installed, one, "node_order")]
        self._scoring = tuple(_at_once(one, "score_of_many", "node_order") for one in scoring)
        self._by_columns = tuple(_at_once(one, "scores_by_columns", "score_of_many") for one in scoring)
        self._scopes: dict[Hashable, Scope] = {}
        self._ordering = _quick(installed, "job_order_of_many", "job_order")
        self._validating = _quick(installed, "surely_valid", "job_valid")
        self._readying = _quick(installed, "ready_after_one", "job_ready")
        self.unanswered = frozenset(name for name in HOOKS if not any(_answering(installed, name)))
        """The hooks that no plugin answers."""

    def job_order_of_many(self, jobs: Rows) -> Sequence[tuple[Any, ...]]:
        """``job_order`` of each of these jobs, given by their rows."""
        columns = [order(jobs) for order in self._ordering]
        return list(zip(*columns, strict=True)) if columns else [()] * len(jobs)

    def surely_valid(self, jobs: Rows) -> Mask:
        """(M,): which of these jobs are ``job_valid`` for sure."""
        return _all_of(self._validating, jobs)

    def ready_after_one(self, jobs: Rows) -> Mask:
        """(M,): which of these jobs are ``job_ready`` for sure once one task of theirs that requests something has a place."""
        return _all_of(self._readying, jobs)

    def will_start(self, job: JobView) -> bool:
        """Whether a job starts once the room that is being freed is free: whoever would wait with less, nobody objects."""
        enough = self.shortfall(job) <= job.waiting_count
        return enough and all(method(job).value >= 0 for method in self._pipelined)

    @property
    def by_shape(self) -> bool:
        """Whether every hook over nodes says the same about all tasks of one shape."""
        return not self._asked_for_likeness

    def likeness(self, task: TaskView) -> Hashable:
        """Equal for tasks about which every hook over nodes says the same."""
        shape = task.shape
        if not self._asked_for_likeness:
            return shape
        return (shape, *[likeness(task) for likeness in self._asked_for_likeness])

    def is_steady(self, task: TaskView) -> bool:
        """Whether the nodes that are refused to the task are the same, and for good, during the whole session."""
        return all(is_steady(task) for is_steady in self._refusing)

    def scores_of_many(self, tasks: Sequence[TaskView]) -> tuple[ScoreOf, ...] | None:
        """What adds up to ``node_order`` of one node for each of these tasks, None if some plugin has no quick way."""
        scores = [score_of_many(tasks) for score_of_many in self._scoring]
        found = tuple(score for score in scores if score is not None)
        return found if found and len(found) == len(scores) else None

    def scores_by_columns(self, tasks: Sequence[TaskView]) -> bool:
        """Whether :meth:`scores_of_many` says the same of nodes with equal columns."""
        return all(by_columns(tasks) for by_columns in self._by_columns)

    def scope(self, task: TaskView) -> Scope:
        """The widest scope that a plugin claims for the task."""
        key = self.likeness(task)
        known = self._scopes.get(key)
        if known is None:
            known = max((plugin.scope(task) for plugin in self._of_nodes), default=Scope.COLUMNS)
            self._scopes[key] = known
        return known


def _quick(installed: Installed, name: str, hook_name: str) -> tuple[Callable[[Rows], Any], ...]:
    switch = HOOKS[hook_name].switch
    return tuple(
        _at_once(plugin, name, hook_name)
        for tier in installed
        for plugin, off in tier
        if overrides(plugin, hook_name) and switch not in off
    )


def _at_once(plugin: Plugin[Any], name: str, hook_name: str) -> Callable[[Any], Any]:
    """A plugin's quick answer; that of :class:`Plugin` if a class derived further answers the hook anew."""
    kinds = type(plugin).__mro__
    kind = next(kind for kind in kinds if name in vars(kind) or hook_name in vars(kind))
    method: Callable[[Any], Any] = getattr(kind if name in vars(kind) else Plugin, name).__get__(plugin)
    return method


def _all_of(methods: Sequence[Callable[[Rows], Mask]], jobs: Rows) -> Mask:
    agreed = np.ones(len(jobs), dtype=np.bool_)
    for method in methods:
        agreed &= method(jobs)
    return agreed


def _answers(installed: Installed, plugin: Plugin[Any], name: str) -> bool:
    off = next(off for tier in installed for one, off in tier if one is plugin)
    return overrides(plugin, name) and HOOKS[name].switch not in off


def _answering(installed: Installed, name: str) -> Tiers:
    switch = HOOKS[name].switch
    return tuple(
        tuple(getattr(plugin, name) for plugin, off in tier if overrides(plugin, name) and switch not in off)
        for tier in installed
    )
