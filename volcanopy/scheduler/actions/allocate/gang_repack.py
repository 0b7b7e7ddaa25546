"""A second look at gangs that found no place task by task.

Placing tasks one by one in their order can spoil the room of those that come later: small ones are spread over the nodes
that a large one would have needed, or a pod that could run anywhere takes the only node of one that could not. For a gang
that failed, as many tasks as it needs are tried again in other orders, each on the node where the least room is left over.
Gangs of equal tasks gain nothing by that and are left out, as are those for which the room would not do in any order.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.session.session import Session

MOST = 256
"""Larger gangs are not tried again: among many tasks one order does about as well as another."""
BACKTRACKS = 64
"""How often a search may take a task off its node again, beside placing each once."""


@dataclass
class _Kind:
    """Tasks of one role that are alike: a view of one of them, the rows of all, and how many are to be placed."""

    task: TaskView
    rows: list[int]
    size: float
    most: int
    needed: int = 0


def pack(session: Session, queue: QueueView, job: JobView, tasks: Sequence[int], statement: Statement) -> list[int]:
    """Place tasks of a job that found no place in their order, so that it is ready.

    Returns the tasks that are left over. Where nothing helps these are all, and the statement is as it was.
    """
    everyone = list(tasks)
    if not 1 < len(everyone) <= MOST:
        return everyone
    groups = _groups(session, everyone)
    if len(groups) < 2:
        return everyone
    missing = tuple(role.minimum - role.ready for role in job.roles)
    limited = None if session.limits is None else session.limits.kind(job.row)
    sameness = (
        queue.row,
        limited,
        session.hooks.shortfall(job),
        missing,
        *((key, len(rows)) for key, rows in groups.items()),
    )
    if session.tried_in_vain.get(sameness) == len(session.ledger.evictions):
        return everyone  # room only becomes less until somebody is evicted
    kinds = [_kind(session, rows) for rows in groups.values()]
    if _select(session, job, kinds) and _could_do(session, kinds):
        mark = statement.checkpoint()
        for order in _orders(session, kinds):
            if _search(session, queue, order, statement) and session.hooks.job_ready(job):
                return [row for row in everyone if row not in order]
            statement.rollback(mark)
    session.tried_in_vain[sameness] = len(session.ledger.evictions)
    return everyone


def _groups(session: Session, tasks: Sequence[int]) -> dict[Hashable, list[int]]:
    """The tasks by what they are and by the name of their role, in order."""
    names, groups = session.snapshot.roles.names, dict[Hashable, list[int]]()
    for row in tasks:
        task = TaskView(session.ledger, row)
        role = names[task.role] if task.role != NONE else ""
        groups.setdefault((session.hooks.likeness(task), role), []).append(row)
    return groups


def _kind(session: Session, rows: list[int]) -> _Kind:
    """Tasks that are alike: their size is the largest part that one takes of the largest node.

    ``most`` is how many of them would find room if there were no others.
    """
    task = TaskView(session.ledger, rows[0])
    request = task.request.values
    dims, nodes = np.flatnonzero(request), np.flatnonzero(session.placement.open_to(task))
    largest = session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1)
    places = (session.ledger.free(dims, nodes) // request[dims, None]).min(axis=0, initial=len(rows))
    return _Kind(task, rows, float((request[dims] / largest).max(initial=0.0)), min(int(places.sum()), len(rows)))


def _select(session: Session, job: JobView, kinds: list[_Kind]) -> bool:
    """Note how many of each kind the gang needs: what its roles must have, then the smallest; whether there are enough."""
    missing = session.hooks.shortfall(job)
    roles = [role for role in job.roles if role.minimum > 0]
    if job.min_available >= sum(role.minimum for role in roles):
        lacking = {role.row: role.minimum - role.ready for role in roles}
        for kind in sorted(kinds, key=lambda kind: kind.size):
            kind.needed = max(0, min(kind.most, lacking.get(kind.task.role, 0)))
            lacking[kind.task.role] = lacking.get(kind.task.role, 0) - kind.needed
            missing -= kind.needed
    for kind in sorted(kinds, key=lambda kind: kind.size):
        more = max(0, min(kind.most - kind.needed, missing))
        kind.needed += more
        missing -= more
    return missing <= 0 and any(kind.needed for kind in kinds)


def _could_do(session: Session, kinds: Sequence[_Kind]) -> bool:
    """Whether all that is to be placed would find enough room if that were in one piece."""
    asked = sum(
        (kind.task.request.values * kind.needed for kind in kinds), start=np.zeros(len(session.snapshot.axis), np.int64)
    )
    open_to = [session.placement.open_to(kind.task) for kind in kinds if kind.needed]
    dims, nodes = np.flatnonzero(asked), np.flatnonzero(np.logical_or.reduce(open_to))
    return bool((session.ledger.free(dims, nodes).sum(axis=1) >= asked[dims]).all())


def _orders(session: Session, kinds: Sequence[_Kind]) -> Iterator[list[int]]:
    """The needed tasks: those with the fewest nodes to choose from first, then the largest; and the largest first."""
    needed = [kind for kind in kinds if kind.needed]
    choice = {id(kind): int(session.placement.open_to(kind.task).sum()) for kind in needed}
    for key in (lambda kind: (choice[id(kind)], -kind.size), lambda kind: (-kind.size, choice[id(kind)])):
        yield [row for kind in sorted(needed, key=key) for row in kind.rows[: kind.needed]]


def _search(session: Session, queue: QueueView, order: Sequence[int], statement: Statement) -> bool:
    """Place all of these tasks; where one finds no node, the one before tries its next, for as long as there is patience."""
    patience = len(order) + BACKTRACKS
    marks: list[int] = []
    choices: list[Iterator[int]] = []
    while len(marks) < len(order):
        task = TaskView(session.ledger, order[len(marks)])
        if len(choices) == len(marks):
            allowed = session.hooks.allocatable(queue, task, 1) is None
            choices.append(_tightest(session, task) if allowed else iter(()))
        node = next((node for node in choices[-1] if _is_free(session, task, node)), None)
        if node is not None and patience and session.patience:
            patience -= 1
            session.patience -= 1
            marks.append(statement.checkpoint())
            statement.allocate(task.row, node)
        elif marks and patience and session.patience:
            choices.pop()
            statement.rollback(marks.pop())
        else:
            return False
    return True


def _tightest(session: Session, task: TaskView) -> Iterator[int]:
    """The nodes with free room for a task, where the least is left over first."""
    nodes = np.flatnonzero(session.placement.open_to(task))
    request = task.request.values
    dims = np.flatnonzero(request)
    scale = np.maximum(session.snapshot.nodes.allocatable.values[dims].max(axis=1, initial=1), 1)
    rest: Floats = ((session.ledger.free(dims, nodes) - request[dims, None]) / scale[:, None]).sum(axis=0)
    yield from nodes[np.argsort(rest, kind="stable")].tolist()


def _is_free(session: Session, task: TaskView, node: int) -> bool:
    chosen = session.placement.choose_on(task, node)
    return chosen is not None and chosen[1]
