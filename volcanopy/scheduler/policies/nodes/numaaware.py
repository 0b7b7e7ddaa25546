"""numa-aware: exclusive cpus on few NUMA nodes, as the kubelet's managers allocate them."""

from collections.abc import Mapping
from functools import cached_property
from operator import itemgetter
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.pod_fields import Quality
from volcanopy.scheduler.model.resources import Floats, Mask
from volcanopy.scheduler.nodes.assignments import NodeAssignments, pending_tasks
from volcanopy.scheduler.nodes.cpus import cpu_assignment
from volcanopy.scheduler.nodes.cpus.free_cpus import CPU, AssignedCpus, NumaReport, SessionCpus, format_decision
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

UNREPORTED = "node(s) didn't report a NUMA topology"
NOT_STATIC = "node(s) didn't have the static cpu manager policy"
OTHER_POLICY = "node(s) had another topology manager policy"
TOO_SMALL = "node(s) didn't have enough cpus close together"
BUSY = "node(s) didn't have enough free cpus close together"


class NumaAwareArguments(Arguments):
    """How much the score counts."""

    weight: int = Field(1, ge=0)
    """How much the plugin counts."""


class NumaAware(Nodes, Plugin[NumaAwareArguments]):
    """Place pods of QoS class Guaranteed where the kubelet's topology manager admits them, on as few NUMA nodes as possible.

    The cpus that a pod is counted upon to get are written to it, and are taken until the node's agent reports what it
    has really been given.
    """

    name: ClassVar[str] = "numa-aware"
    arguments: ClassVar[type[Arguments]] = NumaAwareArguments

    def open(self) -> None:
        """Find the shapes of tasks that are given cpus of their own."""
        shapes = self.cluster.snapshot.shapes
        self._policy = self.task_value(_policy)
        self._counts = cached_by_shapes(
            self.cluster.traits, "cpus requested", shapes, lambda: _counts_by_shape(shapes.specs)
        )

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Nodes whose managers have another policy than the pod requests, or would reject it with the free cpus."""
        policy = self._policy(task)
        counts = self._counts_of(task)
        if counts is None:
            return []
        self._assignments.sync()
        rejected: dict[tuple[str, bool, bool], Mask] = {}
        for place, node in enumerate(nodes.rows.tolist()):
            why = self._rejection(node, counts, policy)
            if why is not None:
                rejected.setdefault(why, np.zeros(len(nodes), dtype=np.bool_))[place] = True
        return [
            NodeRejection(reason, mask, final, temporary)
            for (reason, final, temporary), mask in sorted(rejected.items(), key=itemgetter(0))
        ]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The fewer NUMA nodes the pod's cpus are on the better, for pods that request a policy."""
        return tasks.each(lambda task: self._score(task, nodes))

    def _score(self, task: TaskView, nodes: NodesView) -> Floats:
        scores: Floats = np.zeros(len(nodes), dtype=np.float64)
        counts = self._counts_of(task)
        if not self._policy(task) or counts is None or not self.args.weight:
            return scores
        self._assignments.sync()
        most = max((len(report.layout.numa) for report in self._reports.values()), default=0)
        for place, node in enumerate(nodes.rows.tolist()):
            if not ((report := self._reports.get(node)) and report.aligns):
                continue
            cpus = self._free_cpus.evaluate(node, counts, pipelined=False) or self._free_cpus.evaluate(
                node, counts, pipelined=True
            )
            if cpus is not None:
                used = len(report.layout.used(cpu_assignment.union(cpus)))
                scores[place] = self.args.weight * (100.0 - 100.0 * used / most)
        return scores

    def annotate(self, task: TaskView, node: int) -> dict[str, str]:
        """The cpus that the pod is counted upon to get."""
        if self._counts_of(task) is None:
            return {}
        self._assignments.sync()
        assigned = self._assignments.get(task.row)
        if assigned is None or not any(assigned.cpus):
            return {}
        named = dict(zip([container.name for container in task.pod.spec.containers], assigned.cpus, strict=True))
        return {names.TOPOLOGY_DECISION: format_decision(self._reports[node].layout, named)}

    def _rejection(self, node: int, counts: tuple[int, ...], policy: str) -> tuple[str, bool, bool] | None:
        """Why a node does not take a pod: the reason, whether it is final, and whether it passes."""
        report = self._reports.get(node)
        if policy:
            if report is None or not report.layout.all or CPU not in report.source.spec.numares:
                return UNREPORTED, True, False
            if not report.is_static:
                return NOT_STATIC, True, False
            if report.policy != policy:
                return OTHER_POLICY, True, False
        if report is None or not report.aligns:
            return None
        if self._free_cpus.evaluate(node, counts, pipelined=False) is not None:
            return None
        if self._free_cpus.evaluate(node, counts, pipelined=True) is not None:
            return BUSY, False, True
        return (BUSY, False, False) if self._free_cpus.fits_empty_node(node, counts) else (TOO_SMALL, True, False)

    def _counts_of(self, task: TaskView) -> tuple[int, ...] | None:
        """How many cpus of its own each container is given; None for pods that the plugin ignores."""
        counts = self._counts.get(task.shape)
        if counts is None or not (self._policy(task) or (any(counts) and self.cluster.snapshot.numa)):
            return None
        return counts

    @cached_property
    def _reports(self) -> Mapping[int, NumaReport]:
        """What the agents of the nodes report, by the nodes' rows."""
        memo: dict[str, NumaReport] = self.cluster.traits.memo.setdefault("numa reports", {})
        rows, reports = self.cluster.snapshot.nodes.index, {}
        for name, source in self.cluster.snapshot.numa.items():
            known = memo.get(name)
            if known is None or known.source is not source:
                known = memo[name] = NumaReport(source)
            if name in rows:
                reports[rows[name]] = known
        return reports

    @cached_property
    def _free_cpus(self) -> SessionCpus:
        shape = self.cluster.snapshot.tasks.shape
        return SessionCpus(self.cluster, self._reports, lambda task: self._counts[int(shape[task])])

    @cached_property
    def _assignments(self) -> NodeAssignments[AssignedCpus]:
        return NodeAssignments(self.cluster, pending_tasks(self.cluster.snapshot, self._counts), self._free_cpus)


def _policy(task: TaskView) -> str:
    """The policy that the pod of a task requests, empty without one."""
    policy = task.pod.metadata.annotations.get(names.NUMA_TOPOLOGY_POLICY, "")
    return "" if policy == cpu_assignment.NONE else policy


def _counts_by_shape(specs: tuple[core.PodSpec, ...]) -> dict[int, tuple[int, ...]]:
    """For shapes of guaranteed quality: how many exclusive cpus each container requests."""
    return {
        number: tuple(_whole_cpus(container) for container in spec.containers)
        for number, spec in enumerate(specs)
        if pod_fields.quality_of_service(spec) is Quality.GUARANTEED
    }


def _whole_cpus(container: core.Container) -> int:
    """How many cpus of its own a container is given: what it requests if that is a whole number, else none."""
    resources = container.resources
    milli = quantity.amount(CPU, resources.requests.get(CPU, resources.limits.get(CPU, 0)))
    return 0 if milli % 1000 else milli // 1000
