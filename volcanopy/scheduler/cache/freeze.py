"""The copy of the cluster state into a snapshot."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.cache.queue_columns import queue_table, same_spec, with_possible_guarantees, with_statuses
from volcanopy.scheduler.cache.row_table import Changes, Column
from volcanopy.scheduler.cache.state_tables import JOB_COLUMNS, TASK_COLUMNS, StateTables
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.claim_tables import AssignedPods
from volcanopy.scheduler.model.job_tables import JobTable, RoleTable
from volcanopy.scheduler.model.measures import Measured, MeasureTable, table
from volcanopy.scheduler.model.moved_pods import MovedPod, Moves, is_current, moved_pods
from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.resources import Allocatable, Columns, Index, Ints, Rows, frozen, sums_by, within_sum
from volcanopy.scheduler.model.snapshot import NONE, NodeTable, QueueTable, ShapeTable, Snapshot, TaskTable
from volcanopy.scheduler.model.task_status import HOLDING, SCHEDULED, Status
from volcanopy.scheduler.model.topology import HyperNodeTable, forest, looks_at_labels, without

_TASK_FIELDS = (*TASK_COLUMNS, "keys")
_JOB_FIELDS = (*(name for name in JOB_COLUMNS if name != "tasks"), "keys", "counts", "reported")
_SCHEDULED: list[int] = np.flatnonzero(SCHEDULED).tolist()
_REPORTED = int(Status.RUNNING), int(Status.SUCCEEDED), int(Status.FAILED)


class Layout:
    """The parts of a snapshot that are kept until they change: order and traits of nodes, shapes, queues, network, load."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._names: tuple[str, ...] = ()
        self._index: Mapping[str, int] = {}
        self._traits = NodeTraits(())
        self._images_current = True
        self._shapes: tuple[int, int, ShapeTable] | None = None
        self._measures: tuple[NodeTraits, Measured | None, MeasureTable] | None = None
        self._network: tuple[tuple[str, ...], NodeTraits, HyperNodeTable] | None = None
        self._queues: QueueTable | None = None
        self._allocatable: Allocatable | None = None
        self._places: Index | None = None
        self._copies: dict[str, Column] = {}
        self._assigned: tuple[int, tuple[AssignedPods | None, ...]] | None = None
        self._on_nodes: tuple[NodeTable, TaskTable] | None = None
        self._excess: tuple[Allocatable, Ints, Ints] | None = None

    def nodes_changed(self) -> None:
        """Mark the list of nodes or their traits as changed."""
        self._rows = self._allocatable = self._places = self._assigned = self._on_nodes = None

    def allocatable_changed(self) -> None:
        """Mark the allocatable resources of a node as changed."""
        self._allocatable = self._on_nodes = None

    def allocatable(self, state: StateTables, rows: Rows) -> Allocatable:
        """Return the allocatable resources of the nodes in these rows, rebuilt when they change."""
        if self._allocatable is None or self._allocatable.axis is not state.axis:
            values = frozen(within_sum(state.nodes.amounts["allocatable"].take(rows, axis=1)))
            self._allocatable = Allocatable(state.axis, values)
        return self._allocatable

    def nodes_and_tasks(self, state: StateTables) -> tuple[NodeTable, TaskTable]:
        """Return the nodes and the tasks, rebuilt when one of them changes."""
        rows, traits = self.nodes(state)
        allocatable = self.allocatable(state, rows)
        known = self._on_nodes
        same = known is not None and known[0].traits is traits and known[0].allocatable is allocatable
        if known is None or not same or state.tasks.changed or state.nodes.changed:
            known = self._on_nodes = None  # so that its columns can be used again
            everywhere = self._places is None or len(self._places) != state.nodes.size + 1
            if self._places is None or everywhere:
                self._places = np.full(state.nodes.size + 1, NONE, dtype=np.int32)  # the last entry is for row NONE
                self._places[rows] = np.arange(len(rows), dtype=np.int32)
            nodes = self._node_table(state, rows, None if everywhere else self._places, allocatable)
            known = self._on_nodes = (nodes, _task_table(state, self._places, everywhere))
        return known

    def _node_table(self, state: StateTables, rows: Rows, places: Index | None, allocatable: Allocatable) -> NodeTable:
        changes, copies = Changes(len(rows), None, rows), self._copies
        if places is not None:
            changed = np.fromiter(state.nodes.changed, dtype=np.intp)
            changed = changed[places[changed] != NONE]
            changes = Changes(len(rows), changed, rows, places[changed])
        state.nodes.changed.clear()
        changes.copy([(name, state.nodes.amounts[name]) for name in ("used", "releasing", "nonzero")], copies)
        if self._assigned is None or self._assigned[0] != state.assignments:
            self._assigned = (state.assignments, tuple(state.nodes.plain["assigned_pods"][rows].tolist()))
        return NodeTable(
            names=self._names,
            index=self._index,
            traits=self._traits,
            allocatable=allocatable,
            used=Columns(state.axis, copies["used"]),
            releasing=Columns(state.axis, copies["releasing"]),
            nonzero=copies["nonzero"],
            excess=self._excess_of(allocatable, copies["used"], changes.places),
            assigned_pods=self._assigned[1],
        )

    def _excess_of(self, allocatable: Allocatable, used: Ints, changed: Rows | None) -> Ints:
        """(R,): what pods use beyond the allocatable amounts of their nodes; computed where nodes ``changed``, None for any."""
        known = self._excess
        if changed is None or known is None or known[0] is not allocatable:
            excess: Ints = np.maximum(used - allocatable.values, 0)
            total: Ints = excess.sum(axis=1)
        else:
            _, excess, total = known
            now = np.maximum(used[:, changed] - allocatable.values[:, changed], 0)
            total = total + (now - excess[:, changed]).sum(axis=1)
            excess[:, changed] = now
        self._excess = allocatable, excess, total
        return total

    def images_or_measures_changed(self) -> None:
        """Mark the images or measures of a node as changed; caches of its other traits stay valid."""
        self._images_current = False

    def network_changed(self) -> None:
        """Mark the HyperNodes as changed."""
        self._network = None

    def hypernodes(self, state: StateTables, names: tuple[str, ...], traits: NodeTraits) -> HyperNodeTable:
        """Return the network topology, rebuilt when HyperNodes, the list of nodes or selected labels change."""
        known = self._network
        if known is not None and known[1] is not traits:
            same_shape = known[0] == names and (
                not looks_at_labels(state.hypernodes.values()) or same_labels(known[1].objects, traits.objects)
            )
            known = self._network = (names, traits, known[2]) if same_shape else None
        if known is None:
            network = forest(state.hypernodes, traits.objects) if state.hypernodes else without(len(names))
            known = self._network = (names, traits, network)
        return known[2]

    def nodes(self, state: StateTables) -> tuple[Rows, NodeTraits]:
        """Return the rows of the nodes in the order of their names, and their traits."""
        if self._rows is None:
            self._rows = state.node_rows()
            self._names = tuple(state.nodes.keys[self._rows].tolist())
            self._index = {name: row for row, name in enumerate(self._names)}
            self._traits = NodeTraits(_objects(state, self._rows), self._traits)
        elif not self._images_current:
            self._traits = self._traits.with_images_of(_objects(state, self._rows))
        self._images_current = True
        return self._rows, self._traits

    def shapes(self, state: StateTables) -> ShapeTable:
        """Return the table of shapes, rebuilt when shapes or resources were added."""
        size = (len(state.shapes.all), len(state.axis))
        if self._shapes is None or self._shapes[:2] != size:
            self._shapes = (*size, _shape_table(state))
        return self._shapes[2]

    def queues(self, state: StateTables) -> QueueTable:
        """Return the queues, rebuilt when a queue was added, removed or its spec changed; changed statuses are updated."""
        known, names = self._queues, tuple(state.queue_rows)
        if known is None or known.names != names or known.capability.axis is not state.axis:
            known = queue_table(state)
        else:
            objects = tuple(state.queues.get(name) for name in names)
            changed = [row for row, (old, new) in enumerate(zip(known.objects, objects, strict=True)) if old is not new]
            if not all(same_spec(known.objects[row], objects[row]) for row in changed):
                known = queue_table(state)
            elif changed:
                known = with_statuses(known, objects, changed)
        self._queues = known
        return known

    def measures(self, state: StateTables, traits: NodeTraits) -> MeasureTable:
        """Return what was measured, rebuilt for a new measurement, other nodes or other annotations of nodes."""
        known = self._measures
        if known is None or known[0] is not traits or known[1] is not state.measured:
            known = self._measures = (traits, state.measured, table(state.measured, traits.objects))
        return known[2]


def snapshot(state: StateTables, layout: Layout, now: datetime, session: str) -> Snapshot:
    """Return a snapshot of the state; ``layout`` has the parts of the last one."""
    axis = state.axis
    nodes, tasks = layout.nodes_and_tasks(state)
    traits, jobs = nodes.traits, _job_table(state)
    queues = with_possible_guarantees(layout.queues(state), nodes.allocatable.sums, jobs)
    return Snapshot(
        axis=axis,
        now=now,
        version=state.version,
        session=session,
        nodes=nodes,
        tasks=_gate_held_queues(tasks, state, queues),
        shapes=layout.shapes(state),
        jobs=jobs,
        roles=_role_table(state),
        queues=queues,
        namespaces=dict(state.namespaces),
        quotas=tuple(state.quotas[key] for key in sorted(state.quotas)),
        budgets=tuple(state.budgets[key] for key in sorted(state.budgets)),
        numa=dict(state.numa),
        priority_classes=dict(state.priority_classes),
        measures=layout.measures(state, traits),
        previous=state.previous,
        hypernodes=layout.hypernodes(state, nodes.names, traits),
        claim_tables=state.claims.claim_tables(),
        moves=_moves(state, now, nodes.index),
        declared=tuple(state.hypernodes[name] for name in sorted(state.hypernodes)),
    )


def _settle(state: StateTables) -> None:
    """Set the columns ``unsettled`` and ``lacking`` of the jobs that changed: mostly few, for which lists are quicker."""
    columns, jobs = state.jobs.plain, state.jobs
    counted, reported = jobs.amounts["counts"], jobs.amounts["reported"]
    minimum, allocated = jobs.amounts["min_resources"], jobs.amounts["allocated"]
    for row in jobs.changed:
        counts = counted[:, row].tolist()
        running, succeeded, failed = (counts[status] for status in _REPORTED)
        scheduled = sum(counts[status] for status in _SCHEDULED) + counts[Status.RELEASING]
        settled = (
            columns["grouped"][row]
            and scheduled > 0
            and scheduled >= columns["min_available"][row]
            and not counts[Status.PENDING]
            and columns["phase"][row] == ("Completed" if scheduled == succeeded + failed else "Running")
            and [running, succeeded, failed] == reported[:, row].tolist()
        )
        is_used = jobs.keys[row] is not None
        columns["unsettled"][row] = is_used and (not settled or columns["unschedulable"][row])
        columns["lacking"][row] = any(map(operator.gt, minimum[:, row].tolist(), allocated[:, row].tolist()))


def _moves(state: StateTables, now: datetime, nodes: Mapping[str, int]) -> Moves:
    if not state.moving:
        return Moves()
    moved: list[MovedPod] = []
    tasks = state.tasks.plain
    for job in sorted(state.moving):
        group = state.jobs.plain["groups"][job]
        if is_current(group.status, now):
            rows = np.flatnonzero(tasks["job"] == job).tolist()
            pods = {tasks["pods"][row].metadata.name: (row, Status(tasks["status"][row])) for row in rows}
            moved += moved_pods(job, group, state.axis, nodes, pods)
    return Moves(tuple(moved), tuple(sorted(state.moving)))


def same_labels(old: Sequence[core.Node], new: Sequence[core.Node]) -> bool:
    """Return whether two lists of nodes have the same labels."""
    return all(a.metadata.labels == b.metadata.labels for a, b in zip(old, new, strict=True))


def _objects(state: StateTables, rows: Rows) -> tuple[core.Node, ...]:
    return tuple(state.nodes.plain["objects"][rows].tolist())


def _task_table(state: StateTables, places: Index, everywhere: bool) -> TaskTable:
    changes = state.tasks.take_changes(everywhere)
    copies = state.tasks.copies(changes, {"node": places, "nominated": places})
    return TaskTable(
        **{name: copies[name] for name in _TASK_FIELDS}, marks=tuple(state.marks.all), hints=state.tasks.rows
    )


def _gate_held_queues(tasks: TaskTable, state: StateTables, queues: QueueTable) -> TaskTable:
    """Return the tasks, with those of held queues gated as well."""
    if queues.terms.stops is None:
        return tasks
    held = np.append(queues.terms.stops.held, False)  # the last entry is for tasks without a queue
    queue_of = np.append(state.jobs.plain["queue"][: state.jobs.size], np.int32(NONE))
    gated = frozen(tasks.gated | held[queue_of[tasks.job]])
    return replace(tasks, gated=gated)


def _job_table(state: StateTables) -> JobTable:
    _settle(state)
    changes = state.jobs.take_changes()
    copies = state.jobs.copies(changes)
    columns: dict[str, Any] = {name: copies[name] for name in _JOB_FIELDS}
    columns["queue"] = _queues_of_jobs(state, copies["queue"])
    for name in ("allocated", "pending", "min_resources"):
        columns[name] = Columns(state.axis, frozen(within_sum(copies[name])))
        if columns[name].values is not copies[name]:  # amounts were reduced
            columns["lacking"] = np.ones(state.jobs.size, dtype=np.bool_)
    queue, count = columns["queue"], len(state.queue_rows)
    allocated, minimum, grouped = columns["allocated"].values, columns["min_resources"].values, columns["grouped"]
    elastic = np.maximum(allocated - np.where(columns["has_min_resources"], minimum, 0), 0) * grouped
    # NONE is the last column, which is left out
    sums = frozen(
        sums_by(queue % (count + 1), np.concatenate((allocated, elastic, grouped[None])), count + 1)[:, :count]
    )
    size = len(state.axis)
    return JobTable(
        **columns,
        submitters=state.submitters.all,
        queue_allocated=sums[:size],
        queue_elastic=sums[size:-1],
        queue_jobs=sums[-1],
    )


def _queues_of_jobs(state: StateTables, queue: Index) -> Index:
    """Return the queue of each job: of its group, and without one of its pods on nodes, so that they count in full.

    That is the existing queue that such a pod names, the first by name, or the default queue.
    """
    tasks = state.tasks.plain
    size = state.jobs.size
    without = (queue == NONE) & (state.jobs.plain["tasks"][:size] > 0)
    if not without.any():
        return queue
    unknown = np.append(without, False)  # the last entry is for tasks without a job
    rows = np.flatnonzero(unknown[tasks["job"][: state.tasks.size]] & HOLDING[tasks["status"][: state.tasks.size]])
    if not len(rows):
        return queue
    named: dict[int, str] = {}
    for job, pod in zip(tasks["job"][rows].tolist(), tasks["pods"][rows].tolist(), strict=True):
        name = pod_fields.named_queue(pod)
        name = name if name in state.queues else state.default_queue
        named[job] = min(name, named.get(job, name))
    queue = queue.copy()
    for job, name in named.items():
        queue[job] = state.queue_rows[name] if name in state.queues else NONE
    return frozen(queue)


def _role_table(state: StateTables) -> RoleTable:
    copies = state.roles.copies(state.roles.take_changes())
    return RoleTable(**{name: copies[name] for name in ("names", "job", "minimum", "counts", "best_effort")})


def _shape_table(state: StateTables) -> ShapeTable:
    shapes, axis = state.shapes.all, state.axis
    request = np.zeros((len(axis), len(shapes)), dtype=np.int64)
    for number, shape in enumerate(shapes):
        request[:, number] = axis.vector(shape.request)
    return ShapeTable(
        request=Columns(axis, frozen(request)),
        nonzero=np.array([shape.nonzero for shape in shapes], dtype=np.int64).reshape(-1, 2).T,
        best_effort=np.array([shape.best_effort for shape in shapes], dtype=np.bool_),
        specs=tuple(shape.spec for shape in shapes),
        namespaces=tuple(shape.namespace for shape in shapes),
        matched=tuple(shape.matched for shape in shapes),
        terms=tuple(shape.terms for shape in shapes),
    )
