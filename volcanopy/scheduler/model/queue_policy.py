"""Settings that few queues have: what they borrow and lend at most, how their jobs look outside, and who is stopped.

Each is None where no queue has it, so that nothing is computed for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.scheduler.model.queue_limits import Limits, limits
from volcanopy.scheduler.model.resources import UNLIMITED, Axis, Ints, Mask, Rows

NOBODY = -1
"""In a column of queues: there is none."""
_ROOT = "root"


@dataclass(frozen=True, eq=False)
class Lending:
    """(R, Q): how much queues borrow and lend at most; UNLIMITED where not set."""

    borrowing: Ints
    lending: Ints


@dataclass(frozen=True, eq=False)
class Offsets:
    """(Q,): how the jobs of queues look from outside: what is added to their priority, and whether nothing else is seen."""

    offset: Ints
    fenced: Mask


@dataclass(frozen=True, eq=False)
class Stops:
    """(Q,): the nearest queue, of a queue's line, that holds it; and the nearest that drains it; NOBODY if none does."""

    held_by: Rows
    drained_by: Rows

    @property
    def held(self) -> Mask:
        """(Q,): where nothing is admitted nor started. What is drained is held as well."""
        return np.asarray(self.held_by != NOBODY)

    @property
    def drained(self) -> Mask:
        """(Q,): where nothing stays."""
        return np.asarray(self.drained_by != NOBODY)


class Terms(NamedTuple):
    """All such settings; None where no queue has them."""

    lending: Lending | None
    offsets: Offsets | None
    stops: Stops | None
    limits: Limits | None = None


def terms(axis: Axis, queues: Sequence[core.Queue | None], lines: Sequence[Rows]) -> Terms:
    """The settings of these queues; ``lines`` lead from each queue upwards."""
    return Terms(_lending(axis, queues), _offsets(queues), _stops(queues, lines), limits(axis, queues, lines))


def _lending(axis: Axis, queues: Sequence[core.Queue | None]) -> Lending | None:
    """What queues borrow and lend at most."""
    if not any(queue is not None and (queue.spec.borrowing_limit or queue.spec.lending_limit) for queue in queues):
        return None
    return Lending(
        _limits(axis, queues, lambda queue: queue.spec.borrowing_limit),
        _limits(axis, queues, lambda queue: queue.spec.lending_limit),
    )


def _offsets(queues: Sequence[core.Queue | None]) -> Offsets | None:
    """How the jobs of queues look from outside; None if equal everywhere."""
    if not any(queue is not None and (queue.spec.priority_offset or not queue.spec.priority_fence) for queue in queues):
        return None
    return Offsets(
        np.array([0 if queue is None else queue.spec.priority_offset for queue in queues], dtype=np.int64),
        np.array([queue is None or queue.spec.priority_fence for queue in queues], dtype=np.bool_),
    )


def _stops(queues: Sequence[core.Queue | None], lines: Sequence[Rows]) -> Stops | None:
    """Who stops whom: a queue and all below it; the root queue is ignored. ``lines`` lead from each queue upwards."""
    holds = [_policy(queue) in {"Hold", "HoldAndDrain"} for queue in queues]
    if not any(holds):
        return None
    drains = [_policy(queue) == "HoldAndDrain" for queue in queues]

    def nearest(stopping: Sequence[bool]) -> Rows:
        result = [next((row for row in line.tolist() if stopping[row]), NOBODY) for line in lines]
        return np.array(result, dtype=np.intp)

    return Stops(nearest(holds), nearest(drains))


def _policy(queue: core.Queue | None) -> str:
    return "None" if queue is None or queue.metadata.name == _ROOT else queue.spec.stop_policy


def _limits(axis: Axis, queues: Sequence[core.Queue | None], said: Callable[[core.Queue], core.Quantities]) -> Ints:
    limits = np.full((len(axis), len(queues)), UNLIMITED, dtype=np.int64)
    for row, queue in enumerate(queues):
        for name, units in quantity.amounts(said(queue)).items() if queue is not None else ():
            limits[axis.index[name], row] = max(units, 0)
    return limits
