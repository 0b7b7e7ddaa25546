"""Jobs that must stay close together in the network, or that divide into gangs of their own.

Such a job is tried in one domain (a hypernode) after the other, the closest first: of the domains of one tier in which
it can start, the one that suits it best is taken. Within a domain each of its sub-groups looks for its own in the same
way. A trial moves the ledger and takes everything back; what was found is then done again for good.
"""

import heapq
from dataclasses import dataclass, field

import numpy as np

from volcanopy.scheduler.actions.allocate.queue_allowance import how_many
from volcanopy.scheduler.actions.allocate.topology_fit_error import Farness
from volcanopy.scheduler.framework.plugin import Purpose
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView, job_tier
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.placement.node_selection import Placement
from volcanopy.scheduler.session.session import Session


@dataclass(frozen=True)
class Move:
    """Tasks that found places: on room that is free, or (one task) that is being freed."""

    tasks: Rows
    nodes: Rows
    is_free: bool

    def make(self, statement: Statement) -> None:
        """Do it."""
        if not self.is_free:
            statement.pipeline(int(self.tasks[0]), int(self.nodes[0]))
        elif len(self.tasks) == 1:
            statement.allocate(int(self.tasks[0]), int(self.nodes[0]))
        else:
            statement.allocate_run(self.tasks, self.nodes)


@dataclass
class Found:
    """Where a job or a sub-group can go: the moves, and the tasks that are left over."""

    moves: list[Move] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


@dataclass
class _Sheet:
    """A sub-group and what is left to place of it."""

    part: SubJobView
    tasks: list[int]
    required: bool


def gradient(session: Session, requester: JobView | SubJobView, root: int, purpose: Purpose) -> list[Rows]:
    """In which hypernodes below ``root`` a job or sub-group can be placed: groups, the best first.

    It is ``[[root]]`` where nothing limits it. What is placed already limits where the rest can go.
    """
    table = session.snapshot.hypernodes
    if isinstance(requester, SubJobView):
        tier, held = requester.tier, requester.spanned
    else:
        tier, held = job_tier(session.ledger, requester), session.cluster.spanned(requester.tasks())
    if tier is None:
        return [np.array([root], dtype=np.intp)]
    if held != NONE:
        held = table.widest(held, tier)
        if held == NONE or not (table.holds[held, root] or table.holds[root, held]):
            return []
        root = root if table.holds[held, root] else held
    rows = table.below(root, tier)
    groups = session.hooks.hypernode_gradient(requester, rows, purpose) if len(rows) else []
    return table.by_tier(rows) if groups is None else list(groups)


def take_turn(session: Session, queue: QueueView, job: JobView, tasks: list[int], alone: bool = False) -> list[int]:
    """Place a job, or more of one that runs; what is left for another turn, nothing if it is to have none.

    A job that runs gets one more task in a turn, or if it is ``alone`` as many as its best domain takes.
    """
    turn = _Turn(session, queue, job, tasks, alone and session.hooks.job_ready(job))
    with session.statement() as statement:
        found = turn.find(statement)
        if found is None:
            turn.farness.explain(turn.failed)
            return []
        for move in found.moves:
            move.make(statement)
        if session.hooks.job_ready(job):
            session.commit(statement)
            return found.left
        session.keep(job, statement)
    return []


class _Turn:
    """One search for places."""

    def __init__(self, session: Session, queue: QueueView, job: JobView, tasks: list[int], many: bool) -> None:
        self._session, self._queue, self._job, self._many = session, queue, job, many
        self._hooks = session.hooks
        self._table = session.snapshot.hypernodes
        self._divides = bool(job.group.spec.sub_group_policy)
        self._sheets = self._by_part(tasks)
        self._hopeless: set[tuple[str, int]] = set()
        """Sub-groups and domains: those cannot be placed there even as the first."""
        self.failed: TaskView | None = None
        """The first task that found no place, where it came furthest."""
        self.farness = Farness(session, job)

    def _by_part(self, tasks: list[int]) -> list[_Sheet]:
        waiting = set(tasks)
        parts = self._session.cluster.parts(self._job)
        lacking: dict[int, int] = {}
        for number, policy in enumerate(self._job.group.spec.sub_group_policy):
            ready = sum(1 for part in parts if part.number == number and self._is_ready(part))
            lacking[number] = (policy.min_sub_groups or 0) - ready
        sheets = []
        for part in sorted(parts, key=self._key):
            required = not self._is_ready(part) and lacking.get(part.number, 0) > 0
            if required:
                lacking[part.number] -= 1
            inside = waiting.intersection(part.rows.tolist())
            rest = [task for task in tasks if task in inside]
            if rest:
                sheets.append(_Sheet(part, rest, required))
        return sheets

    def _key(self, part: SubJobView) -> tuple[object, ...]:
        return (self._hooks.subjob_order(part), part.order, part.key)

    def _is_ready(self, part: SubJobView) -> bool:
        return self._hooks.subjob_ready(part) if self._divides else self._hooks.job_ready(self._job)

    def _is_pipelined(self, part: SubJobView) -> bool:
        vote = self._hooks.subjob_pipelined(part) if self._divides else self._hooks.job_pipelined(self._job)
        return vote.value >= 0

    def find(self, statement: Statement) -> Found | None:
        """Where the job can go, if anywhere; the ledger is as before."""
        for group in gradient(self._session, self._job, self._table.top, Purpose.ALLOCATE):
            for domain in self._promising(group):
                found = self._within(statement, domain)
                if found is not None:
                    return found
        return None

    def _promising(self, group: Rows) -> list[int]:
        """The domains in the order of how well they suit the sub-groups together: the first that takes the job is taken."""
        scores = np.zeros(len(group), dtype=np.float64)
        for sheet in self._sheets:
            scores += self._hooks.hypernode_order(sheet.part, group)
        order: list[int] = group[np.argsort(-scores, kind="stable")].tolist()
        return order

    def _within(self, statement: Statement, domain: int) -> Found | None:
        """Where in a domain the job can go; the ledger is as before."""
        mark = statement.checkpoint()
        whole = Found()
        heap = [self._entry(sheet) for sheet in self._sheets]
        heapq.heapify(heap)
        while heap:
            sheet = heapq.heappop(heap)[-1]
            found = self._part_within(statement, sheet, domain, first=not whole.moves)
            if found is None:
                continue
            whole.moves += found.moves
            if found.left:
                heapq.heappush(heap, self._entry(_Sheet(sheet.part, found.left, sheet.required)))
            if self._hooks.job_ready(self._job):
                break
        starts = whole.moves and (self._hooks.job_ready(self._job) or self._hooks.job_pipelined(self._job).value >= 0)
        statement.rollback(mark)
        whole.left = [task for entry in heap for task in entry[-1].tasks]
        return whole if starts else None

    def _entry(self, sheet: _Sheet) -> tuple[bool, tuple[object, ...], int, _Sheet]:
        return (not sheet.required, self._key(sheet.part), sheet.tasks[0], sheet)

    def _part_within(self, statement: Statement, sheet: _Sheet, domain: int, first: bool) -> Found | None:
        """Place a sub-group in a domain, in the part of it that suits it best."""
        for group in gradient(self._session, sheet.part, domain, Purpose.ALLOCATE):
            left = group
            while len(left):
                scores = self._hooks.hypernode_order(sheet.part, left)
                best = int(scores.argmax())
                place = int(left[best])
                key = (sheet.part.key, place)
                found = None if first and key in self._hopeless else self._fill(statement, sheet, place)
                if found is not None:
                    return found
                if first:
                    self._hopeless.add(key)
                left = np.delete(left, best)
        return None

    def _fill(self, statement: Statement, sheet: _Sheet, domain: int) -> Found | None:
        """Place a sub-group on the nodes of one hypernode; if it cannot start there, the ledger is as before."""
        session, part = self._session, sheet.part
        everywhere = domain == self._table.top
        placement = (
            session.placement if everywhere else Placement(session.ledger, self._hooks, self._table.nodes(domain))
        )
        mark, found, failed = statement.checkpoint(), Found(), set[int]()
        fitted, at = 0, 0
        while at < len(sheet.tasks):
            task = TaskView(session.ledger, sheet.tasks[at])
            run = self._run(sheet.tasks, at)
            if task.role in failed and session.snapshot.roles.names[task.role]:
                at += run
                continue
            short = part.shortfall if self._divides else self._hooks.shortfall(self._job)
            wanted = run if self._many else min(run, max(1, short))
            count = how_many(session, self._queue, task, wanted, fitted)
            move = self._move(placement, task, sheet.tasks[at : at + count], part) if count else None
            if move is not None:
                move.make(statement)
                found.moves.append(move)
                fitted += len(move.tasks)
                at += len(move.tasks)
                if self._is_ready(part) and not self._many:
                    break
                continue
            if self._many and found.moves:
                break  # the next domain may take it
            at += run
            if not count:
                continue
            failed.add(task.role)
            if self.farness.note(domain, fitted):
                self.failed = task
            if not self._may_do_without(part, failed):
                break
        if found.moves and (self._is_ready(part) or self._is_pipelined(part)):
            found.left = sheet.tasks[at:]
            return found
        statement.rollback(mark)
        return None

    def _run(self, tasks: list[int], at: int) -> int:
        """How many tasks from here on are equal."""
        table = self._session.snapshot.tasks
        end = at + 1
        while end < len(tasks) and all(
            column[tasks[end]] == column[tasks[at]] for column in (table.shape, table.role, table.nominated)
        ):
            end += 1
        return end - at

    def _move(self, placement: Placement, task: TaskView, tasks: list[int], part: SubJobView) -> Move | None:
        """Where the task can go, and those that are equal to it, as far as what is near to them stays the same."""
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

    def _may_do_without(self, part: SubJobView, failed: set[int]) -> bool:
        """Whether the job can still become ready when tasks of the failed roles find no place."""
        job = self._job
        if job.min_available == job.count() or part.min_available >= len(part):
            return False
        if self._divides:
            return True
        roles = job.roles
        if job.min_available < sum(role.minimum for role in roles):
            rest = sum(role.pending for role in roles if role.row not in failed)
            return job.ready_count + rest >= job.min_available
        return not any(role.row in failed and role.minimum > 0 and role.holding < role.minimum for role in roles)
