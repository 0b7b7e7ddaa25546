"""Free cpus of the nodes, from the reports of their agents, the annotations of bound pods, and the session."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from volcanopy.api import core, names, quantity, topology_read
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.claim_tables import AssignedPod
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.assignments import Assigner
from volcanopy.scheduler.nodes.cpus import cpu_assignment
from volcanopy.scheduler.nodes.cpus.cpu_assignment import Cpus, Layout

CPU = "cpu"


@dataclass(frozen=True, eq=False)
class NumaReport:
    """The NUMA topology reported by the agent of a node."""

    source: topology_read.NumaTopology

    @cached_property
    def layout(self) -> Layout:
        """The layout of the cpus; empty if the report is invalid."""
        locations = []
        for number, detail in self.source.spec.cpu_detail.items():
            if number.isascii() and number.isdigit() and int(number) < cpu_assignment.MAX_CPUS:
                locations.append((int(number), (detail.numa, detail.socket, detail.core)))
        return cpu_assignment.build_layout(tuple(sorted(locations)))

    @cached_property
    def policy(self) -> str:
        """The policy of the topology manager."""
        return self.source.spec.policies.get("TopologyManagerPolicy", "") or cpu_assignment.NONE

    @cached_property
    def is_static(self) -> bool:
        """Whether containers get exclusive cpus."""
        return self.source.spec.policies.get("CPUManagerPolicy") == "static"

    @cached_property
    def aligns(self) -> bool:
        """Whether the node hands out cpus of its own to containers and looks where they are."""
        return self.is_static and self.policy != cpu_assignment.NONE and bool(self.layout.all)

    @cached_property
    def reserved(self) -> Cpus:
        """The cpus that the kubelet reserves for the system."""
        try:
            units = quantity.amount(CPU, self.source.spec.res_reserved.get(CPU, 0))
        except quantity.QuantityError:
            units = 0
        return cpu_assignment.reserved(self.layout, -(-units // 1000))

    @cached_property
    def assigned(self) -> Mapping[str, Cpus]:
        """The cpus of each pod, by its uid; by namespace and name of those that the agent knows no uid of."""
        result: dict[str, Cpus] = {}
        for pod in self.source.spec.pod_allocations:
            texts = [container.allocations.get(CPU, "") for container in pod.container_allocations]
            key = pod.uid or f"{pod.namespace}/{pod.name}"
            result[key] = cpu_assignment.union(_read(text) for text in texts)
        return result

    def assigned_to(self, pod: core.Meta) -> Cpus | None:
        """The cpus of a pod; None if the report does not name it."""
        return self.assigned.get(pod.uid, self.assigned.get(pod.key))

    @cached_property
    def free(self) -> Cpus:
        """The cpus that are not assigned according to the agent."""
        resource = self.source.spec.numares.get(CPU)
        allocatable = self.layout.all & _read(resource.allocatable) if resource else 0
        return allocatable & ~self.reserved & ~cpu_assignment.union(self.assigned.values())


def _read(text: str) -> Cpus:
    """Parse a list of cpus; an invalid list has none."""
    try:
        return cpu_assignment.parse_cpus(text)
    except ValueError:
        return 0


def format_decision(layout: Layout, cpus: Mapping[str, Cpus]) -> str:
    """Return the annotation with the cpus of each container and their number on each NUMA node."""
    used = layout.used(cpu_assignment.union(cpus.values()))
    content = {
        "cpus": {name: cpu_assignment.format_cpus(own) for name, own in cpus.items() if own},
        "numa": {str(number): {CPU: str(count)} for number, count in used.items()},
    }
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def parse_decision(annotation: str) -> Cpus:
    """Return the cpus in such an annotation; none if it is invalid."""
    try:
        by_container = json.loads(annotation)["cpus"]
        return cpu_assignment.union(_read(text) for text in by_container.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0


class AssignedCpus(NamedTuple):
    """The cpus of each container of a task."""

    cpus: tuple[Cpus, ...]
    policy: str


class SessionCpus(Assigner[AssignedCpus]):
    """The cpus of all nodes in a session."""

    def __init__(
        self, cluster: Cluster, reports: Mapping[int, NumaReport], counts: Callable[[int], tuple[int, ...]]
    ) -> None:
        """``reports`` by row of the node; ``counts`` returns the requested cpus of each container of a task."""
        self._cluster, self._reports, self._counts = cluster, reports, counts
        self._taken_now: dict[int, Cpus] = {}
        self._taken_later: dict[int, Cpus] = {}
        self._evicted: dict[int, Cpus] = {}

    def free(self, node: int, pipelined: bool) -> Cpus:
        """Return the free cpus of a node, now or (``pipelined``) once terminating pods are gone."""
        initial, releasing = self._initial(node)
        later = (initial | releasing | self._evicted.get(node, 0)) & ~self._taken_later.get(node, 0)
        return later if pipelined else later & initial & ~self._taken_now.get(node, 0)

    def evaluate(self, node: int, counts: tuple[int, ...], pipelined: bool) -> tuple[Cpus, ...] | None:
        """Return the cpus that the containers would get; None if the node's policy does not admit them."""
        report = self._reports[node]
        return cpu_assignment.assign(report.layout, self.free(node, pipelined), counts, report.policy)

    def fits_empty_node(self, node: int, counts: tuple[int, ...]) -> bool:
        """Return whether the containers would be admitted on the empty node."""
        report = self._reports[node]
        free = report.layout.all & ~report.reserved
        return cpu_assignment.assign(report.layout, free, counts, report.policy) is not None

    def choose(self, task: int, node: int, pipelined: bool, previous: AssignedCpus | None) -> AssignedCpus | None:
        """Return the cpus for a task; None on a node that does not align them."""
        report = self._reports.get(node)
        if report is None or not report.aligns:
            return None
        if previous is not None and not cpu_assignment.union(previous.cpus) & ~self.free(node, pipelined):
            return previous
        cpus = self.evaluate(node, self._counts(task), pipelined)
        return None if cpus is None else AssignedCpus(cpus, report.policy)

    def count(self, node: int, assigned: AssignedCpus, pipelined: bool, sign: int) -> None:
        """Count cpus as taken, or (-1) as free."""
        cpus = cpu_assignment.union(assigned.cpus)
        for taken in (self._taken_later,) if pipelined else (self._taken_later, self._taken_now):
            known = taken.get(node, 0)
            taken[node] = known | cpus if sign > 0 else known & ~cpus

    def count_eviction(self, task: int, sign: int) -> None:
        """Count the cpus of an evicted pod as free later, or (-1) as taken."""
        tasks = self._cluster.snapshot.tasks
        node = int(tasks.node[task])
        if node not in self._reports or tasks.status[task] == Status.RELEASING:
            return
        cpus = self._cpus_of(node, task)
        known = self._evicted.get(node, 0)
        self._evicted[node] = known | cpus if sign > 0 else known & ~cpus

    def _cpus_of(self, node: int, task: int) -> Cpus:
        """Return the cpus of a pod on a node, by the agent's report and by its annotation."""
        cpus = self._reports[node].assigned_to(self._cluster.snapshot.tasks.pods[task].metadata) or 0
        for pod in self._assigned_pods(node):
            if pod.row == task:
                cpus |= parse_decision(pod.notes.get(names.TOPOLOGY_DECISION, ""))
        return cpus & ~self._reports[node].reserved

    def _assigned_pods(self, node: int) -> tuple[AssignedPod, ...]:
        return self._cluster.snapshot.nodes.assigned_pods[node] or ()

    @once
    def _initial(self, node: int) -> tuple[Cpus, Cpus]:
        """Return the cpus free at the start of the session, and those of terminating pods."""
        report, status = self._reports[node], self._cluster.snapshot.tasks.status
        free, releasing = report.free, 0
        for pod in self._assigned_pods(node):
            if report.assigned_to(pod.pod.metadata) is None:
                free &= ~parse_decision(pod.notes.get(names.TOPOLOGY_DECISION, ""))
            if status[pod.row] == Status.RELEASING:
                releasing |= self._cpus_of(node, pod.row)
        return free, releasing
