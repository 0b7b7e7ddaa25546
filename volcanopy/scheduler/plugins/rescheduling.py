"""rescheduling: move tasks from busy nodes to quiet ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from volcanopy.api.model import Duration
from volcanopy.scheduler.filters.traits import node_affinity, taints
from volcanopy.scheduler.framework.plugin import Arguments, Plugin
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE

_DIMS = ("cpu", "memory", "pods")
_FRESH = timedelta(minutes=5)
"""A measurement that is older says nothing."""


class Percentages(Arguments):
    """A limit of each dimension, in percent: of real load for cpu and memory, of their number for pods."""

    cpu: float = Field(100, ge=0, le=100)
    memory: float = Field(100, ge=0, le=100)
    pods: float = Field(100, ge=0, le=100)

    @model_validator(mode="before")
    @classmethod
    def _pod_is_pods(cls, said: Any) -> Any:
        """Volcano's files say ``pod``."""
        if isinstance(said, dict) and "pod" in said and "pods" not in said:
            return {("pods" if key == "pod" else key): value for key, value in said.items()}
        return said

    @property
    def column(self) -> Floats:
        """(3, 1)."""
        return np.array([[self.cpu], [self.memory], [self.pods]])


class LowNodeUtilization(Arguments):
    """Below all ``thresholds`` a node is quiet, above any of the ``targetThresholds`` it is busy."""

    thresholds: Percentages = Field(default_factory=Percentages)
    targets: Percentages = Field(default_factory=Percentages, alias="targetThresholds")
    node_fit: bool = Field(True, alias="nodeFit")
    """Move only what finds room on a quiet node that takes it."""
    priority_class: str = Field("", alias="thresholdPriorityClassName")
    """Move only tasks of less priority than this class."""
    number_of_nodes: int = Field(0, ge=0, alias="numberOfNodes")
    """Move only when there are more quiet nodes than this."""

    @model_validator(mode="after")
    def _are_in_order(self) -> "LowNodeUtilization":
        for name in _DIMS:
            low, high = getattr(self.thresholds, name), getattr(self.targets, name)
            if low > high:
                raise ValueError(
                    f"thresholds.{name} is {low:g}, above targetThresholds.{name}, {high:g}: exchange them"
                )
        return self


class Strategy(Arguments):
    """How to choose what moves."""

    name: Literal["lowNodeUtilization"]
    params: LowNodeUtilization = Field(default_factory=LowNodeUtilization)


class ReschedulingArguments(Arguments):
    """How often, and how."""

    interval: Duration = timedelta(minutes=5)
    """How often."""
    period: Duration = Field(timedelta(minutes=10), alias="metricsPeriod")
    """Over how long the load is averaged: whoever measures decides that, so that this is only for the reader."""
    strategies: tuple[Strategy, ...] = (Strategy(name="lowNodeUtilization"),)
    """How to choose what moves."""

    @field_validator("interval", "period")
    @classmethod
    def _is_above_zero(cls, said: timedelta) -> timedelta:
        if said <= timedelta(0):
            raise ValueError("must be a duration above zero such as 5m")
        return said


@dataclass(eq=False)
class _Balance:
    """What is where, as far as a pass has moved it: (3, N) loads in percent, and what the quiet nodes may still take."""

    load: Floats
    room: Ints
    """(3, N): what the nodes have in all."""
    budget: Ints
    """(3,): how much all quiet nodes together can take until they reach the targets."""
    free: Ints
    """(R, N): what can be requested on each node."""
    quiet: Mask
    busy: Rows


class Rescheduling(Plugin[ReschedulingArguments]):
    """Once an interval, let tasks leave nodes that are busier than the target while there are quiet nodes to take them.

    The load comes with the snapshot; nodes that were not measured in the last five minutes are left out of account. The
    first cycle of all moves nothing.
    """

    name: ClassVar[str] = "rescheduling"
    arguments: ClassVar[type[Arguments]] = ReschedulingArguments

    def victim_tasks(self, running: Rows) -> Rows:
        """The tasks to move, by all strategies."""
        if not self.cluster.snapshot.begins(self.args.interval):
            return running[:0]
        found = [self._by_utilization(running, strategy.params) for strategy in self.args.strategies]
        return np.unique(np.concatenate([running[:0], *found]))

    def _by_utilization(self, running: Rows, params: LowNodeUtilization) -> Rows:
        balance = self._balance(params)
        if balance is None:
            return running[:0]
        tasks = running[self._may_move(running, params)]
        moved: list[int] = []
        for node in balance.busy.tolist():
            moved += self._relieve(node, tasks[self.cluster.ledger.node[tasks] == node], balance, params)
        return np.array(moved, dtype=np.intp)

    def _balance(self, params: LowNodeUtilization) -> _Balance | None:
        """Which nodes are quiet and which are busy; None if there is nothing to move, or nowhere to move it."""
        snapshot = self.cluster.snapshot
        measured = snapshot.usage
        if measured is None:
            return None
        fresh = np.nan_to_num(measured.measured, nan=-np.inf) >= snapshot.now.timestamp() - _FRESH.total_seconds()
        room = np.stack([snapshot.nodes.allocatable[name] for name in _DIMS])
        load = np.stack([measured.cpu, measured.memory, 100.0 * self._pods_on() / np.maximum(room[2], 1)])
        cordoned = np.array([node.spec.unschedulable for node in snapshot.nodes.traits.objects], dtype=np.bool_)
        quiet = fresh & ~cordoned & (load < params.thresholds.column).all(axis=0)
        busy = np.flatnonzero(fresh & ~quiet & (load > params.targets.column).any(axis=0))
        if not len(busy) or quiet.sum() <= params.number_of_nodes:
            return None
        busiest_first = busy[np.argsort(-(load[0] + load[1])[busy], kind="stable")]
        spare = np.where(quiet, np.maximum(params.targets.column - np.nan_to_num(load), 0.0), 0.0) / 100.0
        budget = np.floor(spare * room).sum(axis=1).astype(np.int64)
        future = self.cluster.nodes().future_idle.values.copy()
        return _Balance(load, room, budget, future, quiet, busiest_first)

    def _pods_on(self) -> Ints:
        ledger = self.cluster.ledger
        node = ledger.node[ON_NODE[ledger.status] & (ledger.node != NONE)]
        return np.bincount(node, minlength=len(self.cluster.snapshot.nodes))

    def _may_move(self, running: Rows, params: LowNodeUtilization) -> Mask:
        """Preemptable tasks below the priority that the parameters spare."""
        table = self.cluster.snapshot.tasks
        movable: Mask = table.preemptable[running].copy()
        spared = self.cluster.snapshot.priority_classes.get(params.priority_class)
        if spared is not None:
            below = [(pod.spec.priority or 0) < spared.value for pod in table.pods[running].tolist()]
            movable &= np.array(below, dtype=np.bool_)
        return movable

    def _relieve(self, node: int, tasks: Rows, balance: _Balance, params: LowNodeUtilization) -> Iterable[int]:
        """The tasks that leave a busy node until it is no busier than the target: those that ask for what is short there."""
        moved = []
        for task in sorted((self.cluster.task(row) for row in tasks.tolist()), key=_cheapness):
            too_much = balance.load[:, node] > params.targets.column[:, 0]
            if not too_much.any():
                break
            asked = np.array([task.request[name] for name in _DIMS])
            if not asked[too_much].any() or (asked > balance.budget).any():
                continue
            if params.node_fit and not self._find_room(task, balance):
                continue
            balance.budget -= asked
            balance.load[:, node] -= 100.0 * asked / np.maximum(balance.room[:, node], 1)
            moved.append(task.row)
        return moved

    def _find_room(self, task: TaskView, balance: _Balance) -> bool:
        """Take room for the task on the first quiet node that may have it."""
        traits = self.cluster.traits
        request = task.request.values
        fits = balance.quiet & (balance.free >= request[:, None])[request > 0].all(axis=0)
        eligible = node_affinity.eligible(task.spec, traits)
        fits &= taints.free_of(task.spec.tolerations, traits) & (True if eligible is None else eligible)
        places = np.flatnonzero(fits)
        if not len(places):
            return False
        balance.free[:, places[0]] -= request
        return True


def _cheapness(task: TaskView) -> tuple[int, int, bool, float, int, str]:
    """Tasks of least priority first, then those with least claim to their resources, whose gang can spare them, the youngest."""
    job = task.job
    breaks = job is not None and job.ready_count <= job.min_available
    quality = pod_fields.quality_of_service(task.pod.spec)
    return (task.pod.spec.priority or 0, quality, breaks, -task.created, -task.ordinal, task.key)
