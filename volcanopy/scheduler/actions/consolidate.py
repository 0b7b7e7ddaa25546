"""consolidate: move running pods to other nodes, so that a gang that waits for nodes starts and every moved job runs again.

1. Take the waiting gangs in order, those that lack members, have waited ``after``, and whose total fits the free resources.
2. Rank the nodes by the least work that is lost when movable pods free enough there for a pod of the gang.
3. Add the movable pods of one node after the other, up to ``maxPods``, until the gang and all of them have nodes by
   their amounts (:mod:`.allocate.vector_packing`). Leave out each unit without which this is still so.
4. Give up if more work is lost than ``maxLostWork`` for each pod of the gang that starts.
5. In one statement evict the moved pods, reserve their new nodes for their replacements, and nominate the gang's pods.

Moved pods are of jobs of no higher priority than the gang's, in any queue: each has its node again as soon as it has
terminated, and the shares of queues do not change.

Movable are the pods of jobs whose pod group has the annotation ``volcanopy.io/movable: "true"`` or
``volcanopy.io/preemptable: "true"``. A pod above the minimum of its job is a unit of its own; without such pods the job is
moved whole: a gang of which some members are missing loses the work of the others as well.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from pydantic import Field

from volcanopy.api import names
from volcanopy.scheduler.actions.allocate.running_gangs import place_first
from volcanopy.scheduler.actions.allocate.vector_packing import packing
from volcanopy.scheduler.actions.evict.eviction_cost import TaskCosts
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.durations import Duration, seconds
from volcanopy.scheduler.policy.plugin import Arguments
from volcanopy.scheduler.policy.registry import action

REASON = "consolidate"


class ConsolidateArguments(Arguments):
    """How much may be moved, and when."""

    most_pods: int = Field(8, alias="maxPods", ge=1)
    """The most pods that are moved for one gang."""
    after: Duration = "1m"
    """The time from the creation of a job until pods are moved for it."""
    cooldown: Duration = "1h"
    """The time until the pods of a job are moved again."""
    most_work: Duration = Field("1h", alias="maxLostWork")
    """The most running time of moved pods that is lost for each pod of the gang."""


@dataclass(frozen=True, eq=False)
class _Unit:
    """Tasks of one job that are moved together, with their nodes, requests and lost work."""

    rows: Rows
    nodes: Rows
    requests: Ints
    """(R, k)"""
    seconds: int
    """How long the tasks have been running, in sum."""
    work: int
    """The work that is lost with them, as :mod:`volcanopy.scheduler.actions.evict.eviction_cost` defines it."""
    priority: int


@dataclass(frozen=True, eq=False)
class _Move:
    """Nodes for the tasks of a gang and of the units that are moved for it."""

    units: tuple[_Unit, ...]
    tasks: Rows
    nodes: Rows


@action("consolidate", ConsolidateArguments)
def consolidate(session: Session, arguments: ConsolidateArguments) -> None:
    """Move running pods of movable jobs so that a waiting gang fits."""
    place_first(session)
    search = _Search(session, arguments)
    waiting = [job for job in session.waiting_jobs() if job.phase != "Pending" and session.gangs.is_starving(job)]
    for job in session.valid_in_order(waiting):
        if job.waiting_count or session.snapshot.jobs.structured[job.row]:
            continue
        move = search.move_for(job)
        if move is not None and _apply(session, job, move):
            return


@dataclass(eq=False)
class _Search:
    """The search for moves in one session."""

    session: Session
    arguments: ConsolidateArguments
    _failed: set[Hashable] = field(default_factory=set)
    """The gangs without a move, by their shapes and priority."""

    @cached_property
    def _units(self) -> list[_Unit]:
        return _movable_units(self.session, seconds(self.arguments.cooldown))

    @cached_property
    def _tasks(self) -> dict[int, Rows]:
        return self.session.pending_tasks()

    def move_for(self, job: JobView) -> _Move | None:
        """Return a move that lets a gang start, None if there is none."""
        session = self.session
        if session.snapshot.now.timestamp() < job.created + seconds(self.arguments.after):
            return None
        tasks = self._needed_tasks(job)
        if tasks is None or session.hooks.queue_verdict(job.queue) is not None:
            return None
        shapes, requests = session.snapshot.tasks.shape, session.snapshot.shapes.request.values
        if (requests[:, shapes[tasks]].sum(axis=1) > np.maximum(session.ledger.future, 0).sum(axis=1)).any():
            return None
        key = (job.priority, tuple(sorted(shapes[tasks].tolist())))
        if key in self._failed or len(self._failed) == defaults.CONSOLIDATED_GANGS:
            return None
        if self._packed(tasks, ()) is not None:
            return None  # it fits without: allocate places it
        move = self._search(job, tasks)
        if move is None:
            self._failed.add(key)
        return move

    def _search(self, job: JobView, tasks: Rows) -> _Move | None:
        units: list[_Unit] = []
        for more in self._by_node(job, tasks):
            units += [unit for unit in more if unit not in units]
            if sum(len(unit.rows) for unit in units) > self.arguments.most_pods:
                return None
            if self._packed(tasks, units) is not None:
                return self._smallest(tasks, units, len(tasks) * seconds(self.arguments.most_work))
        return None

    def _smallest(self, tasks: Rows, units: Sequence[_Unit], most_work: float) -> _Move | None:
        """Return the move without the units that it does not need; None if more than ``most_work`` is lost."""
        needed = list(units)
        for unit in sorted(units, key=lambda unit: -unit.work):
            fewer = [other for other in needed if other is not unit]
            if self._packed(tasks, fewer) is not None:
                needed = fewer
        move = self._packed(tasks, needed)
        return move if sum(unit.seconds for unit in needed) <= most_work else None

    def _packed(self, tasks: Rows, units: Sequence[_Unit]) -> _Move | None:
        """Return nodes for the tasks of a gang and of these units, None if there are none."""
        session = self.session
        rows = np.concatenate([tasks, *(unit.rows for unit in units)])
        infeasible = session.placement.infeasible_nodes
        feasible = ~np.array([infeasible(TaskView(session.ledger, row)) for row in rows.tolist()])
        request = session.snapshot.requests(rows)
        dims, nodes = np.flatnonzero(request.any(axis=1)), np.flatnonzero(feasible.any(axis=0))
        free = np.maximum(session.ledger.future, 0)
        for unit in units:
            np.add.at(free.T, unit.nodes, unit.requests.T)
        scale = session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1)
        for balanced in (False, True):
            chosen, _ = packing(free[np.ix_(dims, nodes)], request[dims], feasible[:, nodes], scale, balanced=balanced)
            if chosen is not None:
                return _Move(tuple(units), rows, nodes[chosen])
        return None

    def _by_node(self, job: JobView, tasks: Rows) -> list[list[_Unit]]:
        """Return by node the units that free enough there for a pod of the gang, those with the least lost work first."""
        session, snapshot = self.session, self.session.snapshot
        by_node: dict[int, list[_Unit]] = {}
        for unit in self._units:
            if unit.priority <= job.priority and snapshot.tasks.job[unit.rows[0]] != job.row:
                for node in np.unique(unit.nodes).tolist():
                    by_node.setdefault(node, []).append(unit)
        _, first = np.unique(snapshot.tasks.shape[tasks], return_index=True)
        scale = snapshot.nodes.allocatable.values.max(axis=1, initial=1)
        by_shape = tasks[np.sort(first)].tolist()
        largest = sorted(by_shape, key=lambda row: -float((session.ledger.request(row) / scale).sum()))
        ranked = []
        for row in largest[: defaults.CONSOLIDATED_SHAPES]:
            task = TaskView(session.ledger, row)
            feasible = ~session.placement.infeasible_nodes(task)
            for node, units in sorted(by_node.items()):
                chosen = _enough(units, node, task.request.values - np.maximum(session.ledger.future[:, node], 0))
                if feasible[node] and chosen:
                    ranked.append((sum(unit.work for unit in chosen), node, chosen))
        return [units for _, _, units in sorted(ranked, key=lambda entry: entry[:2])]

    def _needed_tasks(self, job: JobView) -> Rows | None:
        """Return the tasks that the minimum of a job lacks, first those of roles with a minimum; None if others decide."""
        session = self.session
        tasks = self._tasks.get(job.row)
        missing = session.gangs.shortfall(job)
        if tasks is None or not 0 < missing <= len(tasks):
            return None
        rows = job.needed(tasks.tolist())
        if not all(session.hooks.follows_from_columns(TaskView(session.ledger, row)) for row in rows):
            return None
        return np.array(rows, dtype=np.intp)


def _enough(units: Sequence[_Unit], node: int, lacking: Ints) -> list[_Unit]:
    """Return the first units that free as much of a node as is lacking, none if all together do not."""
    chosen: list[_Unit] = []
    for unit in units:
        if (lacking <= 0).all():
            break
        chosen.append(unit)
        lacking = lacking - unit.requests[:, unit.nodes == node].sum(axis=1)
    return chosen if (lacking <= 0).all() else []


def _apply(session: Session, job: JobView, move: _Move) -> bool:
    """Evict the moved pods, reserve their new nodes, and place the gang there; return whether all rules allow it."""
    evicted = {int(row) for unit in move.units for row in unit.rows}
    places = dict(zip(move.tasks.tolist(), move.nodes.tolist(), strict=True))
    with session.statement() as statement:
        for row in sorted(evicted):
            statement.evict(row, REASON)
        for row, node in places.items():
            task = TaskView(session.ledger, row)
            dims = np.flatnonzero(task.request.values)
            lacks = (task.request.values[dims] > session.ledger.future[dims, node]).any()
            if lacks or session.placement.rejected(task, node):
                return False
            if row in evicted:
                statement.hold(int(session.snapshot.tasks.job[row]), node, task.request.values)
            elif session.quotas.allocatable(job.queue, task, 1) is not None:
                return False
            else:
                statement.pipeline(row, node)
        if not session.gangs.will_start(job):
            return False
        session.commit(statement, job.key, moves={row: places[row] for row in sorted(evicted)})
    return True


def _movable_units(session: Session, cooldown: float) -> list[_Unit]:
    """Return the units of all movable jobs, those with the least lost work first; of jobs that rested ``cooldown`` seconds."""
    snapshot = session.snapshot
    running = np.flatnonzero((session.ledger.status == Status.RUNNING) & np.isin(snapshot.tasks.job, session.job_rows))
    costs = TaskCosts(snapshot, running)
    units = [unit for row in session.job_rows.tolist() for unit in _of_job(session, costs, row, cooldown)]
    keys = snapshot.tasks.keys
    return sorted(units, key=lambda unit: (unit.priority, unit.work, str(keys[unit.rows[0]])))


def _of_job(session: Session, costs: TaskCosts, row: int, cooldown: float) -> Sequence[_Unit]:
    snapshot, job = session.snapshot, JobView(session.ledger, row)
    if not _is_movable(session, job, cooldown):
        return ()
    rows = session.ordered(job.tasks(Status.BINDING, Status.BOUND, Status.RUNNING))
    surplus = job.ready_count - job.min_available
    if any(role.minimum > 0 for role in job.roles):
        surplus = 0
    parts = [rows[at : at + 1] for at in range(len(rows) - min(surplus, len(rows)), len(rows))] or [rows]
    return [
        _Unit(
            rows=part,
            nodes=session.ledger.node[part].astype(np.intp),
            requests=snapshot.requests(part),
            seconds=int(costs.seconds[part].sum()),
            work=int(costs.lost_work[part].sum()),
            priority=job.priority,
        )
        for part in parts
        if len(part) and _can_move(session, part)
    ]


def _is_movable(session: Session, job: JobView, cooldown: float) -> bool:
    """Return whether a job is declared movable, runs whole, is in no held queue, and was not moved within the cooldown."""
    snapshot, group, now = session.snapshot, job.group, session.snapshot.now.timestamp()
    declared = job.preemptable or pod_fields.flag(group.metadata, names.MOVABLE, absent=False)
    if not declared or snapshot.jobs.structured[job.row] or job.row in snapshot.moves.jobs:
        return False
    if job.count(Status.RELEASING, Status.PENDING, Status.PIPELINED, Status.ALLOCATED) or not job.count(Status.RUNNING):
        return False
    stops = snapshot.queues.terms.stops
    if stops is not None and stops.held[snapshot.jobs.queue[job.row]]:
        return False
    return group.status.moved_at is None or now >= group.status.moved_at.timestamp() + cooldown


def _can_move(session: Session, rows: Rows) -> bool:
    """Return whether all of these tasks run, may be evicted, and could run on other nodes by their amounts alone."""
    snapshot = session.snapshot
    if (session.ledger.status[rows] != Status.RUNNING).any() or not snapshot.tasks.preemptable[rows].all():
        return False
    tasks = [TaskView(session.ledger, row) for row in rows.tolist()]
    plain = all(
        task.shape not in snapshot.shapes.claiming and session.hooks.follows_from_columns(task) for task in tasks
    )
    return plain and len(session.hooks.evictable(tasks)) == len(tasks)
