"""Pods that were evicted to run on other nodes, where their requests are reserved until they run again.

They are kept in the status of their pod group: the replacement of a pod does not exist while the pod terminates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from volcanopy.api import core, quantity
from volcanopy.scheduler.model.resources import Axis, Ints
from volcanopy.scheduler.model.task_status import Status

NONE = -1
RESERVATION_TIME = timedelta(minutes=10)
"""How long resources are reserved for a moved pod."""


@dataclass(frozen=True, eq=False)
class MovedPod:
    """A reservation for a moved pod that does not run yet."""

    move: core.PodMove
    job: int
    task: int
    """Its replacement, NONE while there is none."""
    node: int
    request: Ints
    """(R,)"""


@dataclass(frozen=True)
class Moves:
    """The moved pods of all jobs."""

    pods: tuple[MovedPod, ...] = ()
    jobs: tuple[int, ...] = ()
    """The jobs whose status names moved pods, also where all of these run again or the time is over."""


def is_current(status: core.PodGroupStatus, now: datetime) -> bool:
    """Return whether resources are still reserved for the moved pods of a group."""
    return bool(status.moves) and status.moved_at is not None and now < status.moved_at + RESERVATION_TIME


def moved_pods(
    job: int, group: core.PodGroup, axis: Axis, nodes: Mapping[str, int], pods: Mapping[str, tuple[int, Status]]
) -> list[MovedPod]:
    """Return the reservations for moved pods of a group; ``pods`` are the rows and statuses of its pods by name.

    A pending pod of another name takes the reservation of a pod that is gone: its controller gave it that name.
    """
    named = {move.pod for move in group.status.moves}
    others = [row for name, (row, status) in sorted(pods.items()) if status == Status.PENDING and name not in named]
    result = []
    for move in group.status.moves:
        row, status = pods.get(move.pod, (NONE, None))
        if move.node not in nodes or status not in {None, Status.PENDING, Status.RELEASING}:
            continue
        task = row if status == Status.PENDING else NONE
        if status is None and others:
            task = others.pop(0)
        result.append(MovedPod(move, job, task, nodes[move.node], axis.vector(quantity.amounts(move.requests))))
    return result
