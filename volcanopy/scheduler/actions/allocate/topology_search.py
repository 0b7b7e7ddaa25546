"""Placement of jobs with a network topology or with sub-groups: a search through the domains (hypernodes).

1. Group the feasible domains of the job, lowest tiers first, unless a plugin orders them otherwise.
2. Try the domains of a group by score: place the sub-groups in order, those that the minimum needs first, each in the best
   feasible domain within this one, until the job is ready. Domains whose nodes cannot hold the first of them are left out.
   In a domain where unequal tasks do not fit one by one, try other orders of them (:mod:`.gang_repack`).
3. Take the first domain in which the job becomes ready or pipelined.

Each trial is rolled back; the placements of the best one are repeated in the end.
"""

import heapq
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.allocate.gang_repack import Repacking
from volcanopy.scheduler.actions.allocate.job_queues import allowed_count, can_start_without, run_ends
from volcanopy.scheduler.actions.allocate.topology_fit_error import TopologyFitError
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE


@dataclass(frozen=True)
class Move:
    """Placements of tasks on idle resources or, of one task, on resources that are being freed."""

    tasks: Rows
    nodes: Rows
    is_free: bool

    def apply(self, statement: Statement) -> None:
        """Add the placements to a statement."""
        if not self.is_free:
            statement.pipeline(int(self.tasks[0]), int(self.nodes[0]))
        elif len(self.tasks) == 1:
            statement.allocate(int(self.tasks[0]), int(self.nodes[0]))
        else:
            statement.allocate_run(self.tasks, self.nodes)


@dataclass
class Placements:
    """The moves of a job or a sub-group, and the tasks that are left over."""

    moves: list[Move] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


@dataclass
class _PendingPart:
    """The pending tasks of a sub-group; ``required``: the job needs it to start."""

    part: SubJobView
    tasks: list[int]
    ends: list[int]
    """The positions after the last task of each run of equal tasks."""
    required: bool


def place_by_topology(
    session: Session, queue: QueueView, job: JobView, tasks: list[int], is_last: bool = False
) -> list[int]:
    """Place a job, or more of a ready one; return the tasks to consider again, none if the job is not to be.

    A ready job gets one more task or, if it is the last job, as many as its best domain takes.
    """
    search = _Search(session, queue, job, tasks, is_last and session.gangs.is_ready(job))
    with session.statement() as statement:
        placements = search.find(statement)
        if placements is None:
            search.fit_error.record(search.failed)
            return []
        for move in placements.moves:
            move.apply(statement)
        if session.gangs.is_ready(job):
            session.commit(statement)
            return placements.left
        session.reserve(job, statement)
    return []


class _Search:
    """One search for the placements of a job."""

    def __init__(self, session: Session, queue: QueueView, job: JobView, tasks: list[int], many: bool) -> None:
        self._session, self._queue, self._job, self._many = session, queue, job, many
        self._hooks, self._gangs = session.hooks, session.gangs
        self._table = session.snapshot.hypernodes
        self._divides = bool(job.group.spec.sub_group_policy)
        self._pending = self._by_part(tasks)
        self._infeasible: set[tuple[str, int]] = set()
        """Sub-groups with domains in which they do not fit even when placed first."""
        self._too_small: dict[tuple[str, int], tuple[int, _PendingPart]] = {}
        """Those with domains that cannot hold them, by the number of pods that fit on their nodes; they were not tried."""
        self._capacities: dict[str, Ints] = {}
        self.failed: TaskView | None = None
        """The task without a feasible node in the domain that took most tasks."""
        self.fit_error = TopologyFitError(session, job)

    def _by_part(self, tasks: list[int]) -> list[_PendingPart]:
        waiting, pending = set(tasks), []
        for part, required in self._gangs.parts_by_need(self._job, self._is_ready):
            inside = waiting.intersection(part.rows.tolist())
            rest = [task for task in tasks if task in inside]
            if rest:
                pending.append(self._pending_part(part, rest, required))
        return pending

    def _pending_part(self, part: SubJobView, tasks: list[int], required: bool) -> _PendingPart:
        return _PendingPart(part, tasks, run_ends(self._session, np.array(tasks, dtype=np.intp)), required)

    def _key(self, part: SubJobView) -> tuple[object, ...]:
        return (self._gangs.subjob_key(part), part.order, part.key)

    def _is_ready(self, part: SubJobView) -> bool:
        return self._gangs.is_subjob_ready(part) if self._divides else self._gangs.is_ready(self._job)

    def _is_pipelined(self, part: SubJobView) -> bool:
        return self._gangs.is_subjob_pipelined(part) if self._divides else self._gangs.is_pipelined(self._job)

    def find(self, statement: Statement) -> Placements | None:
        """Return the placements in the first domain where the job can start, None if there is none; the ledger is unchanged."""
        for group in self._session.hypernodes.groups(self._job, self._table.top):
            for domain in self._by_score(group):
                placements = self._within(statement, domain)
                if placements is not None:
                    return placements
        # The reason names the domain that takes most tasks, which may be one that was not tried.
        self.fit_error.is_late = True
        for (_, domain), (capacity, pending) in sorted(self._too_small.items(), key=lambda entry: -entry[1][0]):
            if capacity <= self.fit_error.most:
                break
            self._fill(statement, pending, domain)
        return None

    def _by_score(self, group: Rows) -> list[int]:
        """Return the domains in descending order of the sum of their scores for the sub-groups."""
        scores = np.zeros(len(group), dtype=np.float64)
        for pending in self._pending:
            scores += self._session.hypernodes.scores(pending.part, group)
        order: list[int] = group[np.argsort(-scores, kind="stable")].tolist()
        return order

    def _within(self, statement: Statement, domain: int) -> Placements | None:
        """Return the placements of the job in a domain, None if it cannot start there; the ledger is unchanged."""
        mark = statement.checkpoint()
        whole = Placements()
        heap = [self._entry(pending) for pending in self._pending]
        heapq.heapify(heap)
        while heap:
            pending = heapq.heappop(heap)[-1]
            placements = self._part_within(statement, pending, domain, first=not whole.moves)
            if placements is None:
                continue
            whole.moves += placements.moves
            if placements.left:
                heapq.heappush(heap, self._entry(self._pending_part(pending.part, placements.left, pending.required)))
            if self._gangs.is_ready(self._job):
                break
        starts = whole.moves and (self._gangs.is_ready(self._job) or self._gangs.is_pipelined(self._job))
        statement.rollback(mark)
        whole.left = [task for entry in heap for task in entry[-1].tasks]
        return whole if starts else None

    def _entry(self, pending: _PendingPart) -> tuple[bool, tuple[object, ...], int, _PendingPart]:
        return (not pending.required, self._key(pending.part), pending.tasks[0], pending)

    def _part_within(self, statement: Statement, pending: _PendingPart, domain: int, first: bool) -> Placements | None:
        """Place a sub-group in the feasible domain within ``domain`` that has the highest score."""
        for group in self._session.hypernodes.groups(pending.part, domain):
            left = self._large_enough(pending, group) if first and pending.part.key in self._capacities else group
            while len(left):
                scores = self._session.hypernodes.scores(pending.part, left)
                best = int(scores.argmax())
                inner = int(left[best])
                key = (pending.part.key, inner)
                placements = None if first and key in self._infeasible else self._fill(statement, pending, inner)
                if placements is not None:
                    return placements
                left = np.delete(left, best)
                if first:
                    self._infeasible.add(key)
                    # The first one is tried whatever its size: so the queue is asked what it may allocate of each kind.
                    left = self._large_enough(pending, left)
        return None

    def _large_enough(self, pending: _PendingPart, group: Rows) -> Rows:
        """Return the domains whose nodes have what a sub-group needs to start, by free and freed resources alone."""
        part = pending.part
        capacities = self._capacities.get(part.key)
        if capacities is None:
            capacities = self._capacities[part.key] = self._capacities_for(pending)
        least = self._gangs.placements_needed(self._job, part if self._divides else None)
        is_enough = capacities[group] >= least
        for domain in group[~is_enough].tolist():
            self._too_small.setdefault((part.key, domain), (int(capacities[domain]), pending))
        return group[is_enough]

    def _capacities_for(self, pending: _PendingPart) -> Ints:
        """(H,): how many pods fit in each domain at most, each of the least that any pending task requests."""
        session, count = self._session, len(pending.tasks)
        least = session.snapshot.requests(pending.tasks).min(axis=1)
        dims = np.flatnonzero(least)
        of_nodes = np.minimum.reduce(session.ledger.future[dims] // least[dims, None], axis=0, initial=count)
        sums: Ints = self._table.sums(np.maximum(of_nodes, 0)[None])[0]
        return sums

    def _fill(self, statement: Statement, pending: _PendingPart, domain: int) -> Placements | None:
        """Place a sub-group on the nodes of one hypernode; None, with the ledger unchanged, if it cannot start there."""
        session, part, tasks = self._session, pending.part, pending.tasks
        everywhere = domain == self._table.top
        placement = (
            session.placement if everywhere else Placement(session.ledger, self._hooks, self._table.nodes(domain))
        )
        mark, placements, failed = statement.checkpoint(), Placements(), set[int]()
        placed, at = 0, 0
        while at < len(tasks):
            task = TaskView(session.ledger, tasks[at])
            run = pending.ends[bisect_right(pending.ends, at)] - at
            if task.role in failed and session.snapshot.roles.names[task.role]:
                at += run
                continue
            shortfall = part.shortfall if self._divides else self._gangs.shortfall(self._job)
            needed = run if self._many else min(run, max(1, shortfall))
            count = allowed_count(session, self._queue, task, needed, placed)
            move = self._move(placement, task, tasks[at : at + count], part) if count else None
            if move is not None:
                move.apply(statement)
                placements.moves.append(move)
                placed += len(move.tasks)
                at += len(move.tasks)
                if self._is_ready(part) and not self._many:
                    break
                continue
            if self._many and placements.moves:
                break  # the next domain may take it
            at += run
            if not count:
                continue
            failed.add(task.role)
            if self.fit_error.add(domain, placed):
                self.failed = task
            if not self._can_start_without(part, failed):
                break
        if placements.moves and (self._is_ready(part) or self._is_pipelined(part)):
            placements.left = tasks[at:]
            return placements
        statement.rollback(mark)
        return self._repack(statement, pending, placement)

    def _repack(self, statement: Statement, pending: _PendingPart, placement: Placement) -> Placements | None:
        """Place a sub-group in another order than one by one; None if that does not help."""
        session, tasks = self._session, pending.tasks
        is_uniform = len(pending.ends) == 1 and not self._hooks.couples_nodes(TaskView(session.ledger, tasks[0]))
        if self._many or is_uniform:
            return None
        part = pending.part if self._divides else None
        left = Repacking(session, self._queue, self._job, statement, placement, part).place(tasks)
        placed = np.array([task for task in tasks if task not in left], dtype=np.intp)
        if not len(placed):
            return None
        nodes = session.ledger.node[placed].astype(np.intp)
        moves = [Move(placed[at : at + 1], nodes[at : at + 1], is_free=True) for at in range(len(placed))]
        return Placements(moves, left)

    def _move(self, placement: Placement, task: TaskView, tasks: list[int], part: SubJobView) -> Move | None:
        """Return the placement of the task and of equal ones, as long as the spanned hypernode stays the same."""
        spanned = part.spanned
        if spanned != NONE:
            nodes = placement.choose_run(task, len(tasks))
            outside = np.flatnonzero(~self._table.holds[spanned, self._table.of_node[nodes]])
            if len(outside):
                nodes = nodes[: int(outside[0]) + 1]
            if len(nodes):
                return Move(np.array(tasks[: len(nodes)]), nodes, is_free=True)
        chosen = placement.choose(task)
        return None if chosen is None else Move(np.array([task.row]), np.array([chosen[0]]), chosen[1])

    def _can_start_without(self, part: SubJobView, failed: set[int]) -> bool:
        """Return whether the job can become ready without further tasks of the failed roles."""
        if part.min_available >= len(part) or self._job.min_available == self._job.count():
            return False
        return self._divides or can_start_without(self._job, failed)
