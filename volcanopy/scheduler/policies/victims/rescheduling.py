"""rescheduling: evict tasks from overutilized nodes while others are underutilized."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AliasChoices, Field, model_validator

from volcanopy.api.model import Duration
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE
from volcanopy.scheduler.nodes.traits import node_affinity, taints
from volcanopy.scheduler.policy.durations import above_zero
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Victims

_DIMS = ("cpu", "memory", "pods")


class Percentages(Arguments):
    """A threshold of each dimension in percent: of measured load for cpu and memory, of their number for pods."""

    cpu: float = Field(100, ge=0, le=100)
    memory: float = Field(100, ge=0, le=100)
    pods: float = Field(100, ge=0, le=100, validation_alias=AliasChoices("pods", "pod"))  # Volcano's key is pod.

    @property
    def column(self) -> Floats:
        """(3, 1)."""
        return np.array([[self.cpu], [self.memory], [self.pods]])


class LowNodeUtilization(Arguments):
    """A node is underutilized below all ``thresholds``, overutilized above any of the ``targetThresholds``."""

    thresholds: Percentages = Field(default_factory=Percentages)
    targets: Percentages = Field(default_factory=Percentages, alias="targetThresholds")
    node_fit: bool = Field(True, alias="nodeFit")
    """Evict only tasks that fit on an underutilized node."""
    priority_class: str = Field("", alias="thresholdPriorityClassName")
    """Evict only tasks of lower priority than this class."""
    number_of_nodes: int = Field(0, ge=0, alias="numberOfNodes")
    """Evict only when there are more underutilized nodes than this."""

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
    """A strategy that selects victims."""

    name: Literal["lowNodeUtilization"]
    params: LowNodeUtilization = Field(default_factory=LowNodeUtilization)


class ReschedulingArguments(Arguments):
    """The interval and the strategies."""

    interval: Annotated[Duration, above_zero("5m")] = timedelta(minutes=5)
    """The interval between evictions."""
    strategies: tuple[Strategy, ...] = Field(default_factory=lambda: (Strategy(name="lowNodeUtilization"),))
    """A strategy that selects victims."""

    @property
    def measures_read(self) -> tuple[str, ...]:
        """Those of cpu and memory."""
        return ("cpu", "memory")


@dataclass(eq=False)
class _Balance:
    """The utilization of nodes as changed by the evictions so far; ``load`` is (3, N) in percent."""

    load: Floats
    allocatable: Ints
    """(3, N)."""
    budget: Ints
    """(3,): what all underutilized nodes together can take until they reach the targets."""
    free: Ints
    """(R, N): the free resources of each node."""
    underutilized: Mask
    overutilized: Rows


class Rescheduling(Plugin[ReschedulingArguments], Victims):
    """Once an interval, evict tasks from overutilized nodes while there are underutilized nodes to take them.

    The load is the measures ``cpu`` and ``memory``; nodes of which one of them is unknown are ignored. The first cycle
    evicts nothing.
    """

    name: ClassVar[str] = "rescheduling"
    arguments: ClassVar[type[Arguments]] = ReschedulingArguments

    def evicts(self, running: Rows) -> Rows:
        """Return the victims of all strategies."""
        if not self.cluster.snapshot.begins(self.args.interval):
            return running[:0]
        victims = [self._by_utilization(running, strategy.params) for strategy in self.args.strategies]
        return np.unique(np.concatenate([running[:0], *victims]))

    def _by_utilization(self, running: Rows, params: LowNodeUtilization) -> Rows:
        balance = self._balance(params)
        if balance is None:
            return running[:0]
        tasks = running[self._may_move(running, params)]
        victims: list[int] = []
        for node in balance.overutilized.tolist():
            victims += self._victims_on(node, tasks[self.cluster.ledger.node[tasks] == node], balance, params)
        return np.array(victims, dtype=np.intp)

    def _balance(self, params: LowNodeUtilization) -> _Balance | None:
        """Return the utilization of nodes; None if no node is overutilized or too few are underutilized."""
        snapshot, ledger = self.cluster.snapshot, self.cluster.ledger
        cpu, memory = snapshot.measure("cpu"), snapshot.measure("memory")
        fresh = cpu.known & memory.known
        allocatable = np.stack([snapshot.nodes.allocatable[name] for name in _DIMS])
        pods = np.bincount(ledger.node[ON_NODE[ledger.status] & (ledger.node != NONE)], minlength=len(snapshot.nodes))
        load = np.stack([cpu.mean, memory.mean, 100.0 * pods / np.maximum(allocatable[2], 1)])
        cordoned = np.array([node.spec.unschedulable for node in snapshot.nodes.traits.objects], dtype=np.bool_)
        underutilized = fresh & ~cordoned & (load < params.thresholds.column).all(axis=0)
        overutilized = np.flatnonzero(fresh & ~underutilized & (load > params.targets.column).any(axis=0))
        if not len(overutilized) or underutilized.sum() <= params.number_of_nodes:
            return None
        by_load = overutilized[np.argsort(-(load[0] + load[1])[overutilized], kind="stable")]
        spare = np.where(underutilized, np.maximum(params.targets.column - np.nan_to_num(load), 0.0), 0.0) / 100.0
        budget = np.floor(spare * allocatable).sum(axis=1).astype(np.int64)
        future = self.cluster.nodes().future_idle.values.copy()
        return _Balance(load, allocatable, budget, future, underutilized, by_load)

    def _may_move(self, running: Rows, params: LowNodeUtilization) -> Mask:
        """Return which tasks are preemptable and below ``thresholdPriorityClassName``."""
        table = self.cluster.snapshot.tasks
        movable: Mask = table.preemptable[running].copy()
        threshold = self.cluster.snapshot.priority_classes.get(params.priority_class)
        if threshold is not None:
            below = [(pod.spec.priority or 0) < threshold.value for pod in table.pods[running].tolist()]
            movable &= np.array(below, dtype=np.bool_)
        return movable

    def _victims_on(self, node: int, tasks: Rows, balance: _Balance, params: LowNodeUtilization) -> Iterable[int]:
        """Yield tasks to evict from a node until it is within the targets: those that request what is above them."""
        for task in sorted((self.cluster.task(row) for row in tasks.tolist()), key=_eviction_order):
            exceeded = balance.load[:, node] > params.targets.column[:, 0]
            if not exceeded.any():
                return
            request = np.array([task.request[name] for name in _DIMS])
            if not request[exceeded].any() or (request > balance.budget).any():
                continue
            if params.node_fit and not self._allocate(task, balance):
                continue
            balance.budget -= request
            balance.load[:, node] -= 100.0 * request / np.maximum(balance.allocatable[:, node], 1)
            yield task.row

    def _allocate(self, task: TaskView, balance: _Balance) -> bool:
        """Deduct the task from the first underutilized node that takes it; return whether there is one."""
        traits = self.cluster.traits
        request = task.request.values
        fits = balance.underutilized & (balance.free >= request[:, None])[request > 0].all(axis=0)
        eligible = node_affinity.eligible(task.spec, traits)
        fits &= taints.tolerated_nodes(task.spec.tolerations, traits) & (True if eligible is None else eligible)
        nodes = np.flatnonzero(fits)
        if not len(nodes):
            return False
        balance.free[:, nodes[0]] -= request
        return True


def _eviction_order(task: TaskView) -> tuple[int, int, bool, float, int, str]:
    """Order by priority, quality of service, whether the gang breaks, then the youngest first."""
    job = task.job
    breaks = job is not None and job.ready_count <= job.min_available
    quality = pod_fields.quality_of_service(task.pod.spec)
    return (task.pod.spec.priority or 0, quality, breaks, -task.created, -task.ordinal, task.key)
