"""The table of queues in a snapshot, from their objects; guarantees of queues do not exceed the cluster."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.cache.state_tables import StateTables
from volcanopy.scheduler.model import observed_queue_status, pod_fields
from volcanopy.scheduler.model.job_tables import JobTable
from volcanopy.scheduler.model.resources import UNLIMITED, Axis, Columns, Ints, frozen, sums_by, table_of, within_sum
from volcanopy.scheduler.model.snapshot import NONE, QueueTable

_SPEC = attrgetter(
    *("spec", "status.state", "metadata.name", "metadata.uid", "metadata.creation_timestamp"),
    *("metadata.labels", "metadata.annotations"),
)


def queue_table(state: StateTables) -> QueueTable:
    """Return the table of all queues."""
    names = tuple(state.queue_rows)
    objects = tuple(state.queues.get(name) for name in names)
    default = core.Queue(metadata=core.Meta())
    known = [queue or default for queue in objects]
    axis = state.axis
    capability, capability_set = _limits(axis, [queue.spec.capability for queue in known], UNLIMITED)
    deserved, deserved_set = _limits(axis, [queue.spec.deserved for queue in known], 0, summed=True)
    guarantee, _ = _limits(axis, [queue.spec.guarantee.resource for queue in known], 0, summed=True)
    index = {name: row for row, name in enumerate(names)}
    return QueueTable(
        names=names,
        index=index,
        objects=objects,
        parent=np.array([_parent(queue, index) for queue in known], dtype=np.int32),
        weight=np.array([max(queue.spec.weight, 1) for queue in known], dtype=np.int64),
        priority=np.array([queue.spec.priority for queue in known], dtype=np.int64),
        is_open=np.array([queue.status.state in {"Open", ""} for queue in known], dtype=np.bool_),
        reclaimable=np.array([queue.spec.reclaimable for queue in known], dtype=np.bool_),
        created=np.array([pod_fields.seconds(queue.metadata.creation_timestamp) for queue in known], dtype=np.float64),
        capability=capability,
        capability_set=capability_set,
        deserved=deserved,
        deserved_set=deserved_set,
        guarantee=guarantee,
        observed=observed_queue_status.columns(axis, known),
    )


def same_spec(old: core.Queue | None, new: core.Queue | None) -> bool:
    """Return whether at most the status of a queue changed."""
    return old is not None and new is not None and bool(_SPEC(old) == _SPEC(new))


def with_statuses(known: QueueTable, objects: tuple[core.Queue | None, ...], changed: Sequence[int]) -> QueueTable:
    """Return the table with other statuses."""
    now = {row: queue for row in changed if (queue := objects[row]) is not None}
    return _updated(known, objects=objects, observed=known.observed.with_statuses(known.capability.axis, now))


def with_possible_guarantees(queues: QueueTable, total: Ints, jobs: JobTable) -> QueueTable:
    """Return the queues, where guarantees that are greater than the (R,) total of the cluster reserve only what is requested.

    A guarantee of more than the whole cluster would reserve everything for a queue that may not use it: all others would
    stop. It counts as far as the queue and those below request the resource, and at most the cluster.
    """
    guarantee = queues.guarantee.values
    excessive = guarantee > total[:, None]
    if not excessive.any():
        return queues
    known = jobs.queue != NONE
    amounts = jobs.allocated.values[:, known] + jobs.pending.values[:, known]
    requested = queues.rolled_up(sums_by(jobs.queue[known], amounts, len(queues)))
    values = frozen(np.where(excessive, np.minimum(np.minimum(guarantee, requested), total[:, None]), guarantee))
    return _updated(queues, guarantee=Columns(queues.guarantee.axis, values))


def _updated(queues: QueueTable, **columns: Any) -> QueueTable:
    """Return the table with other columns; what was computed from its columns is kept."""
    table = object.__new__(QueueTable)
    vars(table).update(vars(queues), **columns)
    return table


def _parent(queue: core.Queue, index: dict[str, int]) -> int:
    if queue.metadata.name in {"root", ""}:
        return NONE
    return index.get(queue.spec.parent or "root", NONE)


def _limits(axis: Axis, lists: list[core.Quantities], absent: int, summed: bool = False) -> tuple[Columns, Any]:
    values, given = table_of(axis, lists, absent)
    values = frozen(within_sum(values) if summed else values)
    return Columns(axis, values), given
