"""Which cpus of the nodes are free: by what their agents report, by what bound pods were told to have, and by the session."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from volcanopy.api import names, nodeinfo_read, quantity
from volcanopy.scheduler.filters.cpus import cpu_assignment
from volcanopy.scheduler.filters.cpus.cpu_assignment import Cpus, Layout
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.assigned_devices import AssignedPod
from volcanopy.scheduler.model.task_status import Status

CPU = "cpu"


@dataclass(frozen=True, eq=False)
class Report:
    """What the agent of a node reports."""

    source: nodeinfo_read.NumaTopology

    @cached_property
    def layout(self) -> Layout:
        """Where the cpus are; empty if the report cannot be read."""
        places = []
        for number, one in self.source.spec.cpu_detail.items():
            if number.isascii() and number.isdigit() and int(number) < cpu_assignment.MOST:
                places.append((int(number), (one.numa, one.socket, one.core)))
        return cpu_assignment.layout(tuple(sorted(places)))

    @cached_property
    def policy(self) -> str:
        """The policy of the topology manager."""
        return self.source.spec.policies.get("TopologyManagerPolicy", "") or cpu_assignment.NONE

    @cached_property
    def is_static(self) -> bool:
        """Whether containers are given cpus of their own."""
        return self.source.spec.policies.get("CPUManagerPolicy") == "static"

    @cached_property
    def reserved(self) -> Cpus:
        """What the kubelet keeps for the system."""
        try:
            units = quantity.amount(CPU, self.source.spec.res_reserved.get(CPU, 0))
        except quantity.QuantityError:
            units = 0
        return cpu_assignment.reserved(self.layout, -(-units // 1000))

    @cached_property
    def given(self) -> Mapping[str, Cpus]:
        """What each pod has been given, by its uid."""
        result: dict[str, Cpus] = {}
        for pod in self.source.spec.pod_allocations:
            texts = [one.allocations.get(CPU, "") for one in pod.container_allocations]
            result[pod.uid] = cpu_assignment.union(_read(text) for text in texts)
        return result

    @cached_property
    def free(self) -> Cpus:
        """What nobody was given, as far as the agent knows."""
        said = self.source.spec.numares.get(CPU)
        left = self.layout.all & _read(said.allocatable) if said else 0
        return left & ~self.reserved & ~cpu_assignment.union(self.given.values())


def _read(text: str) -> Cpus:
    """A list of cpus; what cannot be read is none."""
    try:
        return cpu_assignment.parse(text)
    except ValueError:
        return 0


def decision(layout: Layout, cpus: Mapping[str, Cpus]) -> str:
    """The annotation that says what containers were given: the cpus of each, and how many on each NUMA node."""
    used = layout.used(cpu_assignment.union(cpus.values()))
    said = {
        "cpus": {name: cpu_assignment.text(own) for name, own in cpus.items() if own},
        "numa": {str(number): {CPU: str(count)} for number, count in used.items()},
    }
    return json.dumps(said, separators=(",", ":"), sort_keys=True)


def decided(note: str) -> Cpus:
    """The cpus that such an annotation names; what cannot be read names none."""
    try:
        said = json.loads(note)["cpus"]
        return cpu_assignment.union(_read(text) for text in said.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0


class AssignedCpus(NamedTuple):
    """The cpus of each container of a task."""

    cpus: tuple[Cpus, ...]
    policy: str


class SessionCpus:
    """The cpus of all nodes in a session."""

    def __init__(
        self, cluster: Cluster, reports: Mapping[int, Report], counts: Callable[[int], tuple[int, ...]]
    ) -> None:
        """``reports`` by the rows of nodes; ``counts`` tells how many cpus each container of a task wants."""
        self._cluster, self._reports, self._counts = cluster, reports, counts
        self._now: dict[int, Cpus] = {}
        self._later: dict[int, Cpus] = {}
        self._bases: dict[int, tuple[Cpus, Cpus]] = {}
        self._returning: dict[int, Cpus] = {}

    def free(self, node: int, waits: bool) -> Cpus:
        """The free cpus of a node, now or (``waits``) when those that leave have left."""
        base, coming = self._base(node)
        later = (base | coming | self._returning.get(node, 0)) & ~self._later.get(node, 0)
        return later if waits else later & base & ~self._now.get(node, 0)

    def ask(self, node: int, counts: tuple[int, ...], waits: bool) -> tuple[Cpus, ...] | None:
        """What containers that want so many cpus would be given; None if the node's policy does not admit them."""
        report = self._reports[node]
        return cpu_assignment.assign(report.layout, self.free(node, waits), counts, report.policy)

    def ask_empty(self, node: int, counts: tuple[int, ...]) -> bool:
        """Whether they would be admitted if nobody else were there."""
        report = self._reports[node]
        return (
            cpu_assignment.assign(report.layout, report.layout.all & ~report.reserved, counts, report.policy)
            is not None
        )

    def choose(self, task: int, node: int, waits: bool, before: AssignedCpus | None) -> AssignedCpus | None:
        """The cpus for a task; none on a node that does not align."""
        report = self._reports.get(node)
        if report is None or not report.is_static or report.policy == cpu_assignment.NONE:
            return None
        if before is not None and not cpu_assignment.union(before.cpus) & ~self.free(node, waits):
            return before
        cpus = self.ask(node, self._counts(task), waits)
        return None if cpus is None else AssignedCpus(cpus, report.policy)

    def count(self, node: int, given: AssignedCpus, waits: bool, sign: int) -> None:
        """Take the cpus, or (-1) give them back."""
        cpus = cpu_assignment.union(given.cpus)
        for taken in (self._later,) if waits else (self._later, self._now):
            known = taken.get(node, 0)
            taken[node] = known | cpus if sign > 0 else known & ~cpus

    def leaves(self, task: int, sign: int) -> None:
        """What an evicted pod has is free later."""
        tasks = self._cluster.snapshot.tasks
        node = int(tasks.node[task])
        if node not in self._reports or tasks.status[task] == Status.RELEASING:
            return
        cpus = self._of(node, task)
        known = self._returning.get(node, 0)
        self._returning[node] = known | cpus if sign > 0 else known & ~cpus

    def _of(self, node: int, task: int) -> Cpus:
        """What a pod on a node has been given: by its agent's report, else by what it was told."""
        pod = self._cluster.snapshot.tasks.pods[task]
        cpus = self._reports[node].given.get(pod.metadata.uid, 0)
        for one in self._holders(node):
            if one.row == task:
                cpus |= decided(one.notes.get(names.TOPOLOGY_DECISION, ""))
        return cpus & ~self._reports[node].reserved

    def _holders(self, node: int) -> tuple[AssignedPod, ...]:
        return self._cluster.snapshot.nodes.holders[node] or ()

    def _base(self, node: int) -> tuple[Cpus, Cpus]:
        """What is free at the start of the session, and what those have that are on their way out."""
        known = self._bases.get(node)
        if known is None:
            report, status = self._reports[node], self._cluster.snapshot.tasks.status
            free, coming = report.free, 0
            for one in self._holders(node):
                if one.pod.metadata.uid not in report.given:
                    free &= ~decided(one.notes.get(names.TOPOLOGY_DECISION, ""))
                if status[one.row] == Status.RELEASING:
                    coming |= self._of(node, one.row)
            known = self._bases[node] = (free, coming)
        return known
