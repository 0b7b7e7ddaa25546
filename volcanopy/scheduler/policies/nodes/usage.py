"""usage: prefer nodes with little measured load."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from volcanopy.api import quantity
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import COUNT, Status
from volcanopy.scheduler.nodes.scores.pod_load import DIMS, estimates, limits_by_shape, shown
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

CPU = "node(s) were above the limit of real cpu load"
MEMORY = "node(s) were above the limit of real memory load"

_UNSEEN = np.zeros(COUNT, dtype=np.bool_)
_UNSEEN[[Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND]] = True


class Thresholds(Arguments):
    """The percentages of load above which a node takes nothing more."""

    cpu: float = Field(80, ge=0, le=100)
    mem: float = Field(80, ge=0, le=100)


class Estimator(Arguments):
    """How much load a pod is taken to bring that no measurement shows yet."""

    request_ratio: float = Field(0.7, ge=0, le=1)
    """Of its request it uses so much,"""
    burst_ratio: float = Field(0.0, ge=0, le=1)
    """and so much of what its limit allows beyond."""
    risk_threshold: float = Field(0.6, ge=0, le=1)
    """On nodes that are loaded to this part"""
    risk_factor: float = Field(1.2, ge=1)
    """it is taken to bring so many times that."""
    be_cpu: int = Field(250, ge=0)
    """What a pod without requests uses: milli-cores,"""
    be_mem: int = Field(200, ge=0)
    """and MiB."""

    @field_validator("be_cpu", mode="before")
    @classmethod
    def _millicores(cls, value: Any) -> Any:
        return _units("cpu", value, "250m")

    @field_validator("be_mem", mode="before")
    @classmethod
    def _mebibytes(cls, value: Any) -> Any:
        units = _units("memory", value, "200Mi")
        return units if isinstance(value, int) else units // 2**20


def _units(resource: str, value: Any, example: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return quantity.amount(resource, value if isinstance(value, str) else "")
    except quantity.QuantityError:
        raise ValueError(f"must be a quantity such as {example}") from None


class UsageArguments(Arguments):
    """Weights of the score, of cpu and memory in it, and the limits of load."""

    weight: int = Field(5, ge=0, alias="usage.weight")
    """How much the plugin counts."""
    cpu: int = Field(1, ge=0, alias="cpu.weight")
    """How much the load of cpu counts in it."""
    memory: int = Field(1, ge=0, alias="memory.weight")
    """How much the load of memory counts in it."""
    thresholds: Thresholds = Field(default_factory=Thresholds)
    """The percentages of load of `cpu` and `mem` above which a node takes nothing more."""
    estimator: Estimator = Field(default_factory=Estimator)
    """How much load a pod is taken to bring that no measurement shows yet."""

    @property
    def measures_read(self) -> tuple[str, ...]:
        """Those of cpu and memory."""
        return DIMS


class Usage(Nodes, Plugin[UsageArguments]):
    """Prefer nodes with little real load, counting what new pods will bring; those above a limit take nothing more.

    The load is the measures ``cpu`` and ``memory``. The plugin has no opinion on nodes of which one of them is unknown.
    """

    name: ClassVar[str] = "usage"
    arguments: ClassVar[type[Arguments]] = UsageArguments

    def open(self) -> None:
        """Read the measurements, and find the pods that they do not show."""
        snapshot, args = self.cluster.snapshot, self.args
        cpu, memory = (snapshot.measure(name) for name in DIMS)
        self._fresh: Mask = cpu.known & memory.known
        self._has_opinion = bool(self._fresh.any())
        if not self._has_opinion:
            return
        self._real: Floats = np.where(self._fresh, np.stack([cpu.mean, memory.mean]), 0.0)
        limits = ((CPU, self._real[0], args.thresholds.cpu), (MEMORY, self._real[1], args.thresholds.mem))
        self._over = [(reason, load > limit) for reason, load, limit in limits]
        limits_of_shapes = cached_by_shapes(
            self.cluster.traits, "limits", snapshot.shapes, lambda: limits_by_shape(snapshot.shapes)
        )
        of_shape = (snapshot.shapes, limits_of_shapes, args.estimator.request_ratio, args.estimator.burst_ratio)
        best_effort = (args.estimator.be_cpu, args.estimator.be_mem * 2**20)
        self._plain: Floats = estimates(*of_shape, best_effort)
        self._risky: Floats = estimates(*of_shape, best_effort, args.estimator.risk_factor)
        self._shown: Mask = shown(snapshot, np.minimum(cpu.at, memory.at))
        self._shadow: Floats = np.zeros((4, len(snapshot.nodes)), dtype=np.float64)
        self._add(np.flatnonzero(self._is_unseen(np.arange(len(snapshot.tasks)))), np.arange(len(snapshot.nodes)))
        self._seen = self.cluster.ledger.changes

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Nodes whose real load is above a limit are full, whatever was requested there."""
        if not self._has_opinion:
            return []
        return [NodeRejection(reason, mask[nodes.rows], final=True) for reason, mask in self._over]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The weighted mean of the load that is left, measured and expected, times 100; 0 for nodes not measured."""
        args, rows = self.args, nodes.rows
        if not self._has_opinion or not args.weight or not args.cpu + args.memory:
            return np.zeros(len(nodes), dtype=np.float64)
        with self.cluster.reads.unaffected():
            self._renew()
        more = nodes.placed
        shadow, plain, risky = self._shadow[:, None, rows], self._plain[:, tasks.shapes], self._risky[:, tasks.shapes]
        usual = self._loads(nodes, shadow[:2] + plain[:, :, None] * more)
        high = self._loads(nodes, shadow[2:] + risky[:, :, None] * more)
        load = np.where(self._mean(usual) >= args.estimator.risk_threshold, high, usual)
        return np.where(self._fresh[rows], 100.0 * args.weight * (1.0 - self._mean(load)), 0.0)

    def _mean(self, load: Floats) -> Floats:
        return (load[0] * self.args.cpu + load[1] * self.args.memory) / (self.args.cpu + self.args.memory)

    def _loads(self, nodes: NodesView, expected: Floats) -> Floats:
        """(2, S, N): the fractions of cpu and memory in use, with the (2, S, N) load that is expected; 0 where there is none."""
        room = np.stack([nodes.allocatable[name] for name in DIMS]).astype(np.float64)[:, None]
        exists = np.broadcast_to(room > 0, expected.shape)
        fraction = np.divide(expected, room, out=np.zeros_like(expected), where=exists)
        return np.where(exists, np.clip(self._real[:, None, nodes.rows] / 100.0 + fraction, 0.0, 1.0), 0.0)

    def _renew(self) -> None:
        """Update the nodes that changed since."""
        ledger = self.cluster.ledger
        changes = ledger.changes
        if self._seen == changes:
            return
        touched = np.unique(ledger.touched_since(self._seen))
        self._seen = changes
        # Who can be there: who was there when the session began, and who was moved since.
        there = [self._at_first[node] for node in touched.tolist()]
        rows = np.unique(np.concatenate([*there, ledger.moved_since(0)]))
        here = np.zeros(len(self._fresh) + 1, dtype=np.bool_)  # the last entry serves tasks without a node
        here[touched] = True
        rows = rows[here[ledger.node[rows]]]
        self._add(rows[self._is_unseen(rows)], touched)

    @cached_property
    def _at_first(self) -> list[Rows]:
        """By node, the tasks that were there when the session began."""
        where = self.cluster.snapshot.tasks.node
        order = np.argsort(where, kind="stable")
        return np.split(order, np.searchsorted(where[order], np.arange(len(self._fresh) + 1)))[1:]

    def _is_unseen(self, rows: Rows) -> Mask:
        status: NDArray[np.int8] = self.cluster.ledger.status[rows]
        return _UNSEEN[status] | ((status == Status.RUNNING) & ~self._shown[rows])

    def _add(self, tasks: Rows, nodes: Rows) -> None:
        """Set these nodes' expected load to what these tasks bring."""
        tasks = tasks[self.cluster.ledger.node[tasks] != NONE]
        where, shape = self.cluster.ledger.node[tasks], self.cluster.snapshot.tasks.shape[tasks]
        size = self._shadow.shape[1]
        for place, column in enumerate((*self._plain, *self._risky)):
            self._shadow[place, nodes] = np.bincount(where, weights=column[shape], minlength=size)[nodes]
