"""Snapshot of the cluster: frozen tables.

A snapshot is made by :class:`~volcanopy.scheduler.cache.cluster_cache.State` in the time it takes to copy a few arrays. Rows
of tasks, jobs and queues keep their place while the object exists, so there may be gaps (status ABSENT, no object); rows of
nodes are in the order of their names, so that the first of equals is the first by name. Nothing here can be written.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanopy.api import core, topology_read
from volcanopy.api.builtin import pod_claims, policy
from volcanopy.scheduler.model import queue_policy
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.claim_tables import AssignedPods, ClaimTables
from volcanopy.scheduler.model.job_tables import JobTable, Objects, RoleTable
from volcanopy.scheduler.model.measures import MeasureTable, Series, columns
from volcanopy.scheduler.model.moved_pods import Moves
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.observed_queue_status import ObservedStatuses
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Allocatable, Axis, Columns, Index, Ints, Mask, Rows, sums_by
from volcanopy.scheduler.model.selectors import Terms
from volcanopy.scheduler.model.subgroups import Mark
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.model.topology import HyperNodeTable, without

NONE = -1
"""In a column of row numbers: there is none."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class NodeTable:
    """N nodes, ordered by name. ``used`` counts every pod on the node now; ``releasing`` those of them that leave."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    traits: NodeTraits
    allocatable: Allocatable
    used: Columns
    releasing: Columns
    nonzero: Ints
    """(2, N): cpu and memory in use, counting 100m and 200Mi for containers that request none."""
    excess: Ints
    """(R,): what pods use beyond the allocatable amounts of their nodes, in sum."""
    assigned_pods: tuple[AssignedPods | None, ...] = ()
    """(N,): the pods on each node that hold particular cards or cpus of it; None where there never were any."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class ShapeTable:
    """S shapes: the requests of tasks, once for all of equal shape."""

    request: Columns
    nonzero: Ints
    """(2, S): cpu and memory requested, counting 100m and 200Mi for containers that request none."""
    best_effort: Mask
    specs: tuple[core.PodSpec, ...]
    namespaces: tuple[str, ...]
    """(S,): the namespace for shapes whose answer depends on it, else empty."""
    matched: tuple[frozenset[int], ...]
    """(S,): the selectors of pod affinity and spread terms, anywhere in the cluster, that such a task matches."""
    terms: tuple["Terms | None", ...]
    """(S,): the task's own affinity and spread terms."""

    @cached_property
    def with_terms(self) -> tuple[int, ...]:
        """The shapes that have pod affinity, anti-affinity or spread terms of their own."""
        return tuple(number for number, terms in enumerate(self.terms) if terms is not None)

    @cached_property
    def by_selector(self) -> Mapping[int, list[int]]:
        """By the number of a selector: the shapes of the tasks that match it."""
        shapes: dict[int, list[int]] = {}
        for shape, numbers in enumerate(self.matched):
            for number in numbers:
                shapes.setdefault(number, []).append(shape)
        return shapes

    @cached_property
    def requests(self) -> Ints:
        """(S, R): the requests, those of a shape side by side."""
        return np.ascontiguousarray(self.request.values.T)

    @cached_property
    def taken(self) -> Ints:
        """(S, 3R + 2): what a task of each shape takes: its request, the same twice negative, and ``nonzero``."""
        requests = self.request.values
        return np.ascontiguousarray(np.concatenate((requests, -requests, -requests, self.nonzero)).T)

    @cached_property
    def claiming(self) -> frozenset[int]:
        """The shapes of tasks behind which there are claims, on volumes or on devices."""
        return frozenset(number for number, spec in enumerate(self.specs) if pod_claims.anything(spec))


@dataclass(frozen=True, eq=False)
class TaskTable:
    """T rows of tasks."""

    keys: Objects
    pods: Objects
    status: NDArray[np.int8]
    job: Index
    role: Index
    shape: Index
    node: Index
    nominated: Index
    priority: Ints
    created: NDArray[np.float64]
    started: NDArray[np.float64]
    """When the pod began to run, in seconds; 0 before."""
    runtime: NDArray[np.float64]
    """The longest that the pod runs, in seconds; 0 if not limited."""
    ordinal: Ints
    """The number that the pod's name ends with, NONE if it does not end with one."""
    preemptable: Mask
    gated: Mask
    mark: Index
    """The number of the sub-group mark that the pod carries in its job, NONE without one."""
    marks: tuple[Mark, ...]
    hints: Mapping[str, int] = field(default_factory=dict)
    """Where each task's row was last seen, by key: it may be newer than the table, so the caller verifies it."""

    def __len__(self) -> int:
        return len(self.status)

    @cached_property
    def pending(self) -> Rows:
        """The rows of the pending tasks."""
        return (self.status == Status.PENDING.value).nonzero()[0]


@dataclass(frozen=True, eq=False)
class QueueTable:
    """Q rows of queues; ``objects`` has None for a queue that jobs name but that does not exist."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    objects: tuple[core.Queue | None, ...]
    parent: Index
    weight: Ints
    priority: Ints
    is_open: Mask
    reclaimable: Mask
    created: NDArray[np.float64]
    capability: Columns
    """UNLIMITED where not set."""
    capability_set: Mask
    """(R, Q): where a capability is given."""
    deserved: Columns
    deserved_set: Mask
    guarantee: Columns
    observed: ObservedStatuses
    """Their statuses, as they were observed."""

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def lines(self) -> tuple[Rows, ...]:
        """(Q,): each queue's row, its parent's, the parent's parent's and so on up; without parents if that runs in a circle."""
        return tuple(np.array(self._line(row), dtype=np.intp) for row in range(len(self)))

    @cached_property
    def line_lists(self) -> tuple[list[int], ...]:
        """(Q,): the lines as lists."""
        return tuple(line.tolist() for line in self.lines)

    @cached_property
    def rooted(self) -> Mask:
        """(Q,): whether the line of parents ends at the queue ``root``."""
        return np.array([self.names[line[-1]] == "root" for line in self.lines], dtype=np.bool_)

    @cached_property
    def is_parent(self) -> Mask:
        """(Q,): whether other queues are below the queue."""
        return np.isin(np.arange(len(self)), self.parent)

    @cached_property
    def above(self) -> Index:
        """(Q,): the parent of each queue; NONE also for those whose line of parents runs in a circle, which stand alone."""
        return np.array([line[1] if len(line) > 1 else NONE for line in self.line_lists], dtype=np.int32)

    @cached_property
    def nested(self) -> bool:
        """Whether there are queues below others than the root."""
        return any(self.names[parent] != "root" for parent, _ in self.families)

    @cached_property
    def terms(self) -> queue_policy.Terms:
        """Settings that few queues have."""
        return queue_policy.terms(self.capability.axis, self.objects, self.lines)

    @cached_property
    def exists(self) -> Mask:
        """(Q + 1,): the queues that exist; the last one stands for the queue of jobs without one."""
        return np.array([queue is not None for queue in self.objects] + [False], dtype=np.bool_)

    @cached_property
    def _lasting(self) -> dict[object, tuple[tuple[object, ...], Any]]:
        return {}

    def lasting(self, name: object, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """``compute()``, computed again when one of the inputs is another object, or a queue changes more than its status.

        The result must follow from the inputs and from the specifications of the queues.
        """
        known = self._lasting.get(name)
        if known is None or not all(map(operator.is_, known[0], inputs)):
            known = self._lasting[name] = (inputs, compute())
        return known[1]

    @cached_property
    def families(self) -> tuple[tuple[int, Rows], ...]:
        """Each queue with others right below it, and these, from the top down: every walk of the tree follows them."""
        parents = sorted({*self.above.tolist()} - {NONE}, key=lambda row: len(self.line_lists[row]))
        return tuple((row, np.flatnonzero(self.above == row)) for row in parents)

    def rolled_up(self, values: Ints) -> Ints:
        """(R, Q) amounts of queues with those of all queues below them added to each."""
        rolled = values.copy()
        for parent, children in reversed(self.families):
            rolled[:, parent] += rolled[:, children].sum(axis=1)
        return rolled

    def covering(self, claims: Ints, where: Mask | None = None) -> Ints:
        """(R, Q) claims of queues, each raised to what the queues right below it claim together.

        ``where`` (R, Q): only those of these queues and of queues above them; None for all.
        """
        covered, affected = claims.copy(), None if where is None else where.copy()
        for parent, children in reversed(self.families):
            raised = np.maximum(claims[:, parent], covered[:, children].sum(axis=1))
            if affected is None:
                covered[:, parent] = raised
            else:
                affected[:, parent] |= affected[:, children].any(axis=1)
                covered[:, parent] = np.where(affected[:, parent], raised, claims[:, parent])
        return covered

    def _line(self, row: int) -> list[int]:
        line = [row]
        above = int(self.parent[row])
        while above != NONE:
            if above in line:
                return [row]
            line.append(above)
            above = int(self.parent[above])
        return line


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that a cycle decides upon."""

    axis: Axis
    now: datetime
    version: int
    session: str
    nodes: NodeTable
    tasks: TaskTable
    shapes: ShapeTable
    jobs: JobTable
    roles: RoleTable
    queues: QueueTable
    namespaces: Mapping[str, core.Namespace] = field(default_factory=dict)
    quotas: tuple[policy.ResourceQuota, ...] = ()
    """Ordered by namespace and name, as are the budgets."""
    budgets: tuple[policy.PodDisruptionBudget, ...] = ()
    numa: Mapping[str, topology_read.NumaTopology] = field(default_factory=dict)
    """What the agents of nodes report of their cpus, by the nodes' names."""
    priority_classes: Mapping[str, core.PriorityClass] = field(default_factory=dict)
    measures: MeasureTable = field(default_factory=MeasureTable)
    """What was measured of nodes, of whatever age; :meth:`measure` is for plugins."""
    previous: datetime | None = None
    """The moment of the cycle before this one; None for the first."""
    hypernodes: HyperNodeTable = field(default_factory=lambda: without(0))
    """The network that the nodes stand in."""
    claim_tables: ClaimTables = field(default_factory=ClaimTables)
    """The volumes and devices that pods may claim, and the claims on them."""
    moves: Moves = field(default_factory=Moves)
    declared: tuple[topology_read.HyperNode, ...] = ()
    """The HyperNodes that declare it, by name."""

    def begins(self, period: timedelta) -> bool:
        """Whether a new period began since the cycle before, periods being counted from 1970; not in the first cycle.

        This is how something is done once in a while without remembering when it was done last.
        """
        if self.previous is None:
            return False
        return self.now.timestamp() // period.total_seconds() > self.previous.timestamp() // period.total_seconds()

    def measure(self, name: str) -> Series:
        """A measure of the nodes; values that are missing or too old are NaN."""
        series = self.measures.nodes.get(name)
        if series is None:
            return columns([None] * len(self.nodes))
        return series.not_older_than((self.now - self.measures.measured.max_age).timestamp())

    @cached_property
    def total(self) -> Ints:
        """(R,): what all nodes together can hand out, and what pods use on a node beyond that, which others need not free."""
        sums, excess = self.nodes.allocatable.sums, self.nodes.excess
        return sums + excess if excess.any() else sums  # the same object: what follows from it lasts

    @cached_property
    def blocked(self) -> Mask:
        """(J,): the jobs without pods on nodes that cannot start because of gated, rejected or missing pods."""
        table, rows = self.tasks, self._pending
        gated = np.bincount(table.job[rows[table.gated[rows]]], minlength=len(self.jobs))
        newest = np.zeros(len(self.jobs))
        np.maximum.at(newest, table.job[rows], table.created[rows])
        return self.jobs.blocked(gated, newest, self.now)

    @cached_property
    def _pending(self) -> Rows:
        return self.tasks.pending[self.tasks.job[self.tasks.pending] != NONE]

    @cached_property
    def gated(self) -> Ints:
        """(R, J): the requests of each job's pods that cannot be placed yet: of gated ones, or all if the job is blocked."""
        table, rows = self.tasks, self._pending
        rows = rows[table.gated[rows] | self.blocked[table.job[rows]]]
        return sums_by(table.job[rows], self.requests(rows), len(self.jobs))

    @cached_property
    def too_large(self) -> Mask:
        """(J,): :meth:`are_too_large` of the jobs that are unsettled or lack minimal resources; of others nothing is decided."""
        jobs, rows = np.zeros(len(self.jobs), dtype=np.bool_), self.jobs.starting_rows
        jobs[rows] = self.are_too_large(rows)
        return jobs

    @cached_property
    def unreservable(self) -> Mask:
        """(J,): the jobs that are too large or blocked: nothing is reserved for them."""
        return self.too_large | self.blocked

    def are_too_large(self, rows: Rows) -> Mask:
        """(M,): of which jobs the minimum exceeds the cluster, or the pods are on average larger than every node.

        No job is meant where there are no nodes: they may be added when jobs wait.
        """
        if not len(self.nodes) or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        minimum, pods = self.jobs.min_resources.values[:, rows], np.maximum(self.jobs.min_available[rows], 1)
        of_a_pod, largest = -(-minimum // pods), self.nodes.allocatable.largest
        return np.logical_or.reduce((minimum > self.total[:, None]) | (of_a_pod > largest[:, None]), axis=0)

    def task_row(self, key: str) -> int | None:
        """The row of a task; None if there is no such task."""
        row = self.tasks.hints.get(key)
        if row is not None and row < len(self.tasks) and self.tasks.keys[row] == key:
            return row
        return self.task_rows.get(key)

    @cached_property
    def task_rows(self) -> Mapping[str, int]:
        """The row of each task by its key."""
        return {key: row for row, key in enumerate(self.tasks.keys) if key is not None}

    @cached_property
    def _members(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.tasks.job, kind="stable")
        starts = np.searchsorted(self.tasks.job[order], np.arange(len(self.jobs) + 1))
        return order, starts

    @property
    def is_sorted_by_job(self) -> bool:
        """Whether the tasks were sorted by job for :meth:`members`, which then costs little."""
        return "_members" in self.__dict__

    def members(self, job: int) -> Rows:
        """The rows of a job's tasks."""
        order, starts = self._members
        return order[starts[job] : starts[job + 1]]

    def requests(self, tasks: Rows | Sequence[int]) -> Ints:
        """(R, M): what M tasks request."""
        return self.shapes.request.values.take(self.tasks.shape[np.asarray(tasks, dtype=np.intp)], axis=1)

    def least_request(self, tasks: Rows | Sequence[int], count: int) -> Ints:
        """(R,): a lower bound of the request of ``count`` of these tasks together."""
        requests = np.sort(self.requests(tasks), axis=1)
        return requests[:, :count].sum(axis=1)

    @once
    def parts(self, job: int) -> Mapping[int, Rows]:
        """The rows of a job's tasks by the number of their mark: its sub-groups, and with NONE who is in none of them."""
        rows = self.members(job)
        marks = self.tasks.mark[rows]
        return {mark: rows[marks == mark] for mark in np.unique(marks).tolist()}
