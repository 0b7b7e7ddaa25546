"""State of queues and their hierarchy."""

from collections import defaultdict
from collections.abc import Iterable

from volcanopy.api import graphs, names
from volcanopy.api.core import Queue

CLOSED = frozenset({"Closing", "Closed"})
COUNTS = ("pending", "inqueue", "running", "unknown", "completed")
"""Counts of a queue's pod groups by phase."""
UNFINISHED = COUNTS[:-1]
"""Counts of a queue's pod groups that are not completed."""


def state(queue: Queue) -> str:
    """Return whether the queue takes new jobs; Open before the controller has set it."""
    return queue.status.state or "Open"


def stop_policy(queue: Queue) -> str:
    """Return the stop policy of the queue; the root has none."""
    return "None" if queue.metadata.name == names.ROOT_QUEUE else queue.spec.stop_policy


def full_state(queue: Queue) -> str:
    """Return state and stop policy: ``Open, Hold``."""
    policy = stop_policy(queue)
    return state(queue) if policy == "None" else f"{state(queue)}, {policy}"


def parent_of(queue: Queue) -> str:
    """Return the name of the parent queue; empty for the root."""
    return "" if queue.metadata.name == names.ROOT_QUEUE else queue.spec.parent or names.ROOT_QUEUE


def descendants(name: str, queues: Iterable[Queue]) -> list[Queue]:
    """Return the queues below the queue of that name, at any depth, by name."""
    by_name = {queue.metadata.name: queue for queue in queues}
    below = defaultdict[str, list[str]](list)
    for child, queue in by_name.items():
        below[parent_of(queue)].append(child)
    return [by_name[child] for child in sorted(graphs.distances(below, name))]


def unfinished(queue: Queue, queues: Iterable[Queue]) -> int:
    """Return the number of unfinished pod groups, or jobs without one, in the queue and those below it."""

    def count(queue: Queue) -> int:
        groups: int = sum(getattr(queue.status, phase) for phase in UNFINISHED)
        return max(groups, queue.status.jobs)

    return sum(map(count, [queue, *descendants(queue.metadata.name, queues)]))


def ancestors(queue: Queue, queues: Iterable[Queue]) -> list[Queue]:
    """Return the queues above a queue, the nearest first, up to one that does not exist or was met before."""
    by_name = {member.metadata.name: member for member in queues}
    above = graphs.ancestors(lambda name: parent_of(by_name[name]) if name in by_name else "", queue.metadata.name)
    return [by_name[name] for name in above if name in by_name]


def stopped_by(queue: Queue, above: Iterable[Queue]) -> str:
    """Return why no new job of the queue starts, as a clause; empty if nothing stops it."""
    if state(queue) != "Open":
        return f"is {state(queue).lower()}: it accepts no new jobs"
    stopping = next((candidate for candidate in (queue, *above) if stop_policy(candidate) != "None"), None)
    if stopping is None:
        return ""
    drained = stop_policy(stopping) == "HoldAndDrain"
    effect = "no new pods start and running pods are evicted" if drained else "no new pods start"
    name = stopping.metadata.name
    by = "" if stopping is queue else f' by its ancestor "{name}"'
    return f"is {'drained' if drained else 'held'}{by}: {effect} until `volcanopy queue resume {name}`"
