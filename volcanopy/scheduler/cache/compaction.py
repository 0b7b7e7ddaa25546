"""Compaction: a state that has numbered much of what no longer exists is built again from its objects.

Shapes, selectors, submitters, marks, resource names and the rows of queues and nodes keep their numbers for as long as the
state lives, because tables refer to them. In a process that runs for months most of them belong to deleted objects.
"""

from collections.abc import Iterator, Sized
from typing import Any

from volcanopy.api import core
from volcanopy.scheduler.cache.state_tables import StateTables

SPARE = 1_000
"""Numbers that a state may have beyond twice those that its objects need: small clusters are never compacted."""


def numbers(state: StateTables) -> int:
    """Return how many numbers the state has given that it never takes back."""
    shapes = state.shapes
    lists: tuple[Sized, ...] = (shapes.all, shapes.selectors, state.queue_rows, state.marks.all, state.submitters.all)
    return state.nodes.size + len(state.axis) + sum(map(len, lists))


def is_due(state: StateTables, nodes: int, given: int, previous: int) -> bool:
    """Return whether the state, with this number of nodes, has given twice the numbers that its objects can need.

    It must also be twice the ``previous`` numbers, those after the last compaction: that limits the cost where the estimate of
    the needed numbers is too low, since each compaction then takes twice as many changes as the one before.
    """
    needed = len(state.tasks.rows) + len(state.jobs.rows) + len(state.queues) + nodes
    return given > 2 * max(needed, previous) + SPARE


def objects(state: StateTables) -> Iterator[Any]:
    """Yield the objects of the state but for its pods, each after those that it refers to."""
    first = (state.namespaces, state.priority_classes, state.queues)
    for known in (*first, state.quotas, state.budgets, state.numa, state.hypernodes):
        yield from known.values()
    yield from (node for node in state.nodes.plain["objects"][: state.nodes.size].tolist() if node is not None)
    yield from (group for group in state.jobs.plain["groups"][: state.jobs.size].tolist() if group is not None)


def pods(state: StateTables) -> list[core.Pod]:
    """Return the pods of the state."""
    return [pod for pod in state.tasks.plain["pods"][: state.tasks.size].tolist() if pod is not None]
