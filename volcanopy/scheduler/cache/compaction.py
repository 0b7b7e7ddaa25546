"""Compaction: a state that has numbered much of what no longer exists is built again from its objects.

Shapes, selectors, submitters, marks, resource names and the rows of queues and nodes keep their numbers for as long as the
state lives, because tables refer to them. In a process that runs for months most of them belong to deleted objects.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volcanopy.scheduler.cache.cluster_cache import State

SPARE = 1_000
"""Numbers that a state may have beyond twice those that its objects need: small clusters are never compacted."""


def numbers(state: "State") -> int:
    """Return how many numbers the state has given that it never takes back."""
    shapes = state.shapes
    lasting = (shapes.all, shapes.selectors, state.queue_rows, state.marks.all, state.submitters.all, state.axis)
    return state.nodes.size + sum(len(each) for each in lasting)


def compact_if_due(state: "State") -> None:
    """Build the state again if it has twice the numbers that its objects can need, and that it had when it was last built.

    The second condition limits the cost where the estimate of the first is too low: each compaction then takes twice as many
    changes as the one before.
    """
    needed = len(state.tasks.rows) + len(state.jobs.rows) + len(state.queues) + len(state.layout.nodes(state)[0])
    given = numbers(state)
    if given > 2 * max(needed, state.numbers_needed) + SPARE:
        state.numbers_needed = given  # not at once again, should it fail
        compact(state)
        state.numbers_needed = numbers(state)


def compact(state: "State") -> None:
    """Build the state again from its objects, with what it has assumed. Snapshots taken before stay valid."""
    fresh = type(state)(state.scheduler_names, state.default_queue)
    fresh.claims = state.claims.without_uses()
    fresh.writes = state.writes
    nodes, groups = state.nodes.plain["objects"], state.jobs.plain["groups"]
    ordered = (
        *(state.namespaces.values(), state.priority_classes.values(), state.queues.values()),
        *(state.quotas.values(), state.budgets.values(), state.numa.values(), state.hypernodes.values()),
        [node for node in nodes[: state.nodes.size].tolist() if node is not None],
        [group for group in groups[: state.jobs.size].tolist() if group is not None],
    )
    for objects in ordered:
        for item in objects:
            fresh.upsert(item)
    fresh.load([pod for pod in state.tasks.plain["pods"][: state.tasks.size].tolist() if pod is not None])
    for name in ("measured", "previous", "version", "_last_session"):
        setattr(fresh, name, getattr(state, name))
    vars(state).update(vars(fresh))
