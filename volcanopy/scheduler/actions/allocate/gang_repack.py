"""Repacking: another search for gangs that did not fit task by task.

Placing tasks one by one in their order can fragment the cluster: small tasks are spread over the nodes that a large one
needs, or a pod that fits anywhere takes the only node of one that does not.

1. Group the tasks of the gang by shape and role; gangs larger than defaults.REPACKED_TASKS are left out, and those of one
   group unless the node of one task decides about the others, as with pod affinity.
2. Select as many tasks of each group as the minimum of the gang needs, the smallest first.
3. Stop if the free resources are insufficient in any order.
4. If amounts alone decide, assign nodes by amounts in two ways (:mod:`.vector_packing`) and place the tasks so.
5. Otherwise try two orders: fewest feasible nodes first, and largest first; with device claims others too. Place each task on
   the node where it leaves least, and backtrack a limited number of times. Where the node of one task decides about the others,
   place the first task in one set of nodes that the next one allows after the other, and the others as usual.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations

import numpy as np

from volcanopy.scheduler.actions.allocate.vector_packing import packing
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Floats, Mask
from volcanopy.scheduler.model.snapshot import NONE


@dataclass
class _Repacking:
    """The state of all repacking in one session."""

    trials: int = defaults.REPACK_TRIALS
    """How many placements may still be tried."""
    steps: int = defaults.REPACK_STEPS
    """How many steps of vector packing may still be taken."""
    failed: dict[Hashable, int] = field(default_factory=dict)
    """The gangs, by what distinguishes them, that could not be repacked, with the number of evictions until then."""


@dataclass
class _Group:
    """Tasks of equal shape and one role."""

    task: TaskView
    """The first of them."""
    rows: list[int]
    size: float
    """The largest fraction that one takes of the largest node."""
    most: int
    """How many would fit if there were no other tasks."""
    needed: int = 0


def pack(session: Session, queue: QueueView, job: JobView, tasks: Sequence[int], statement: Statement) -> list[int]:
    """Place tasks of a job in other orders, so that it is ready.

    Returns the tasks that are left over: all of them, with the statement unchanged, if no order helps.
    """
    everything = list(tasks)
    if not 1 < len(everything) <= defaults.REPACKED_TASKS:
        return everything
    rows_of = _rows_by_shape(session, everything)
    if len(rows_of) < 2 and not _is_coupled(session, everything[0]):
        return everything
    key = (
        session.quotas.is_beyond_shares,
        queue.row,
        None if session.limits is None else session.limits.limit_class(job.row),
        session.gangs.shortfall(job),
        tuple(role.minimum - role.ready for role in job.roles),
        *((shape, len(rows)) for shape, rows in rows_of.items()),
    )
    state = session.state(_Repacking)
    if state.failed.get(key) == len(session.ledger.evictions):
        return everything  # free resources only decrease until the next eviction
    groups, mark = [_group(session, rows) for rows in rows_of.values()], statement.checkpoint()
    if _select(session, job, groups) and _has_capacity(session, groups):
        for order in _attempts(session, queue, groups, statement, state):
            if session.gangs.is_ready(job):
                return [row for row in everything if row not in order]
            statement.rollback(mark)
    state.failed[key] = len(session.ledger.evictions)
    return everything


def _rows_by_shape(session: Session, tasks: Sequence[int]) -> dict[Hashable, list[int]]:
    """Return the tasks in order by shape and name of their role."""
    names, groups = session.snapshot.roles.names, dict[Hashable, list[int]]()
    for row in tasks:
        task = TaskView(session.ledger, row)
        role = names[task.role] if task.role != NONE else ""
        groups.setdefault((session.hooks.cache_key(task), role), []).append(row)
    return groups


def _group(session: Session, rows: list[int]) -> _Group:
    task = TaskView(session.ledger, rows[0])
    request = task.request.values
    dims, nodes = np.flatnonzero(request), np.flatnonzero(_usable_nodes(session, task))
    largest = session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1)
    fitting = (session.ledger.free(dims, nodes) // request[dims, None]).min(axis=0, initial=len(rows))
    return _Group(task, rows, float((request[dims] / largest).max(initial=0.0)), min(int(fitting.sum()), len(rows)))


def _select(session: Session, job: JobView, groups: list[_Group]) -> bool:
    """Set how many of each group the gang needs: the minima of its roles, then the smallest; return whether they exist."""
    missing = session.gangs.shortfall(job)
    roles = [role for role in job.roles if role.minimum > 0]
    if job.min_available >= sum(role.minimum for role in roles):
        lacking = {role.row: role.minimum - role.ready for role in roles}
        for group in sorted(groups, key=lambda group: group.size):
            group.needed = max(0, min(group.most, lacking.get(group.task.role, 0)))
            lacking[group.task.role] = lacking.get(group.task.role, 0) - group.needed
            missing -= group.needed
    for group in sorted(groups, key=lambda group: group.size):
        more = max(0, min(group.most - group.needed, missing))
        group.needed += more
        missing -= more
    return missing <= 0 and any(group.needed for group in groups)


def _has_capacity(session: Session, groups: Sequence[_Group]) -> bool:
    """Return whether the free resources of all feasible nodes together suffice."""
    needed = [group for group in groups if group.needed]
    request = sum(
        (group.task.request.values * group.needed for group in needed), np.zeros(len(session.snapshot.axis), int)
    )
    feasible = [_usable_nodes(session, group.task) for group in needed]
    dims, nodes = np.flatnonzero(request), np.flatnonzero(np.logical_or.reduce(feasible))
    return bool((session.ledger.free(dims, nodes).sum(axis=1) >= request[dims]).all())


def _attempts(
    session: Session, queue: QueueView, groups: Sequence[_Group], statement: Statement, state: _Repacking
) -> Iterator[list[int]]:
    """Place the needed tasks in the statement in one way after the other; yield the tasks of each complete placement."""
    needed = [group for group in groups if group.needed]
    mark = statement.checkpoint()
    if all(session.hooks.follows_from_columns(group.task) for group in needed):
        for balanced in (False, True):
            order = _pack_by_amounts(session, queue, needed, statement, state, balanced=balanced)
            if order:
                yield order
            statement.rollback(mark)
        return
    is_coupled = any(_is_coupled(session, group.task.row) for group in needed)
    for order in _orders(session, needed, everyone=is_coupled):
        for search in _searches(is_coupled, len(needed)):
            if search(session, queue, order, statement, state):
                yield order
            statement.rollback(mark)


def _searches(is_coupled: bool, groups: int) -> tuple[Callable[..., bool], ...]:
    """Return how the tasks of some groups are placed in an order; for equal tasks only the first node matters."""
    return ((_search_by_first_node,) if is_coupled else ()) + ((_search,) if groups > 1 else ())


def _pack_by_amounts(
    session: Session,
    queue: QueueView,
    needed: Sequence[_Group],
    statement: Statement,
    state: _Repacking,
    *,
    balanced: bool,
) -> list[int]:
    """Place the needed tasks as vector packing assigns them to nodes; return them, none if that is not possible."""
    order = [row for group in needed for row in group.rows[: group.needed]]
    if state.steps < len(order):
        return []
    groups = np.repeat(np.arange(len(needed)), [group.needed for group in needed])
    feasible = np.array([session.placement.feasible_nodes(group.task) for group in needed])
    request = np.array([group.task.request.values for group in needed]).T
    dims, nodes = np.flatnonzero(request.any(axis=1)), np.flatnonzero(feasible.any(axis=0))
    scale = np.maximum(session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1), 1)
    free, request = session.ledger.free(dims, nodes), request[dims]
    targets, steps = packing(free, request[:, groups], feasible[:, nodes][groups], scale, balanced=balanced)
    state.steps -= steps
    if targets is None or not _place_on(session, queue, order, nodes[targets].tolist(), statement):
        return []
    return order


def _place_on(
    session: Session, queue: QueueView, order: Sequence[int], nodes: Sequence[int], statement: Statement
) -> bool:
    """Place these tasks on these nodes; return False at the first one that a queue's limit or a plugin rejects there."""
    for row, node in zip(order, nodes, strict=True):
        task = TaskView(session.ledger, row)
        if session.quotas.allocatable(queue, task, 1) is not None or not _is_free(session, task, node):
            return False
        statement.allocate(row, node)
    return True


def _orders(session: Session, groups: Sequence[_Group], everyone: bool) -> Iterator[list[int]]:
    """Yield the tasks of these groups: those with the fewest feasible nodes first, then the largest; and the largest first.

    With ``everyone``, and with device claims, every order of the groups follows: the first tasks get the devices that they name
    first, and decide where others may run.
    """
    feasible = {id(group): int(session.placement.feasible_nodes(group.task).sum()) for group in groups}
    for key in (lambda group: (feasible[id(group)], -group.size), lambda group: (-group.size, feasible[id(group)])):
        yield [row for group in sorted(groups, key=key) for row in group.rows[: group.needed]]
    if everyone or any(group.task.pod.spec.resource_claims for group in groups):
        for order in islice(permutations(groups), defaults.REPACK_ORDERS):
            yield [row for group in order for row in group.rows[: group.needed]]


def _search(session: Session, queue: QueueView, order: Sequence[int], statement: Statement, state: _Repacking) -> bool:
    """Place all of these tasks; where one has no node left, the one before it tries its next node."""
    trials = len(order) + defaults.REPACK_BACKTRACKS
    marks: list[int] = []
    choices: list[Iterator[int]] = []
    while len(marks) < len(order):
        task = TaskView(session.ledger, order[len(marks)])
        if len(choices) == len(marks):
            allowed = session.quotas.allocatable(queue, task, 1) is None
            choices.append(_tightest(session, task) if allowed else iter(()))
        node = next((node for node in choices[-1] if _is_free(session, task, node)), None)
        if node is not None and trials and state.trials:
            trials -= 1
            state.trials -= 1
            marks.append(statement.checkpoint())
            statement.allocate(task.row, node)
        elif marks and trials and state.trials:
            choices.pop()
            statement.rollback(marks.pop())
        else:
            return False
    return True


def _search_by_first_node(
    session: Session, queue: QueueView, order: Sequence[int], statement: Statement, state: _Repacking
) -> bool:
    """Place all of these tasks: the first on a node of each set of nodes that it leaves to the last one, the others as usual.

    Where the last one must not be near the first, other nodes for the first do not help.
    """
    first, last, mark = TaskView(session.ledger, order[0]), TaskView(session.ledger, order[-1]), statement.checkpoint()
    if session.quotas.allocatable(queue, first, 1) is not None:
        return False
    candidates = session.placement.feasible_nodes(first)
    for node in list(_tightest(session, first)):
        if not candidates[node]:
            continue
        if state.trials <= 0:
            break
        state.trials -= len(order)
        if _is_free(session, first, node):
            statement.allocate(first.row, node)
            candidates &= ~session.placement.feasible_nodes(last)
            is_near = not session.placement.rejected(last, node)
            if is_near and all(_place_as_usual(session, queue, row, statement) for row in order[1:]):
                return True
            statement.rollback(mark)
            if not is_near:
                break
    return False


def _place_as_usual(session: Session, queue: QueueView, row: int, statement: Statement) -> bool:
    task = TaskView(session.ledger, row)
    choice = session.placement.choose(task) if session.quotas.allocatable(queue, task, 1) is None else None
    if choice is None or not choice[1]:
        return False
    statement.allocate(row, choice[0])
    return True


def _is_coupled(session: Session, row: int) -> bool:
    """Return whether placements on other nodes decide whether a node may take a task."""
    return session.hooks.coupling(TaskView(session.ledger, row)).rejections


def _usable_nodes(session: Session, task: TaskView) -> Mask:
    """(N,): the nodes that may take a task; all, where placements of others decide."""
    if _is_coupled(session, task.row):
        return np.ones(len(session.snapshot.nodes), dtype=np.bool_)
    return session.placement.feasible_nodes(task)


def _tightest(session: Session, task: TaskView) -> Iterator[int]:
    """Yield the feasible nodes, that on which the task leaves least free first."""
    nodes = np.flatnonzero(session.placement.feasible_nodes(task))
    request = task.request.values
    dims = np.flatnonzero(request)
    scale = np.maximum(session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1), 1)
    rest: Floats = ((session.ledger.free(dims, nodes) - request[dims, None]) / scale[:, None]).sum(axis=0)
    yield from nodes[np.argsort(rest, kind="stable")].tolist()


def _is_free(session: Session, task: TaskView, node: int) -> bool:
    choice = session.placement.choose_on(task, node)
    return choice is not None and choice[1]
