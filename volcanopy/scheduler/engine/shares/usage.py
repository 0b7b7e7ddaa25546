"""Usage of queues and of their users over time, as in Slurm's fair-share tree: allocated amounts by seconds, with a half-life.

It is in the status of queues, by resource: in core-seconds, byte-seconds and device-seconds. The usage of a queue is the sum of
its users', and that of a parent the sum of its children's, because their allocated amounts are.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.api.queue_fields import seconds
from volcanopy.scheduler.engine.shares.decay import decay, decayed_users, queue_decay
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, frozen
from volcanopy.scheduler.model.snapshot import Snapshot


@once
def queue_usage(snapshot: Snapshot) -> Floats:
    """(R, Q): the usage of each queue with its descendants at the time of the snapshot."""
    queues = snapshot.queues
    remaining, counted = queue_decay(snapshot)
    allocated = np.maximum(queues.observed.reported[0], 0) / _units(snapshot.axis)[:, None]
    return frozen(queues.observed.usage * remaining + allocated * counted)


def user_usages(snapshot: Snapshot, queue: int) -> dict[str, Floats]:
    """(R,) each: the usage of the users in the status of a queue, by name, at the time of the snapshot."""
    axis = snapshot.axis
    result = {}
    for user, remaining, counted in decayed_users(snapshot, queue):
        usage = _summed(user.usage, user.allocated, remaining, counted)
        result[user.name] = np.array([usage.get(name, 0.0) for name in axis.names], dtype=np.float64)
    return result


def dominant_seconds(usage: Floats, snapshot: Snapshot) -> float:
    """Return for how many seconds the whole cluster gives an (R,) usage, of the resource where that is most."""
    total: Ints = snapshot.total
    counts = total > 0
    return float((usage[counts] * _units(snapshot.axis)[counts] / total[counts]).max(initial=0.0))


def usage_at(
    usage: Mapping[str, str], allocated: core.Quantities, since: datetime | None, now: datetime
) -> dict[str, float]:
    """Return the usage now by resource, of a queue or user with these fields in a status of the time ``since``."""
    return _summed(usage, allocated, *(decay((now - since).total_seconds()) if since is not None else (1.0, 0.0)))


def _summed(usage: Mapping[str, str], allocated: core.Quantities, remaining: float, counted: float) -> dict[str, float]:
    sums = {resource: seconds(text) * remaining for resource, text in usage.items()}
    for resource, text in allocated.items():
        try:
            units = quantity.amount(resource, text)
        except quantity.QuantityError:
            continue
        sums[resource] = sums.get(resource, 0.0) + units / quantity.base_units(resource) * counted
    return sums


def usage_texts(axis: Axis, usage: Floats) -> dict[str, str]:
    """Return the texts of an (R,) usage by resource, to the millionth; resources without usage are left out."""
    texts = ((name, _text(amount)) for name, amount in zip(axis.names, usage.tolist(), strict=True) if amount > 0)
    return {name: text for name, text in sorted(texts) if text != "0"}


def _text(amount: float) -> str:
    return np.format_float_positional(amount, precision=6, trim="-")


@lru_cache(maxsize=64)
def _units(axis: Axis) -> Ints:
    """(R,): base units in one of each resource."""
    return frozen(np.array([quantity.base_units(name) for name in axis.names], dtype=np.int64))
