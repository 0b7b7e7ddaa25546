"""How amounts in the statuses of queues change with time: what was counted halves every ``HALF_LIFE``.

Allocated amounts do not change between two statuses, so the present value follows from the last status alone: nothing is written
for the sake of it, and a restart loses none.
"""

import math
from collections.abc import Iterator

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.model.snapshot import Snapshot

_LONGEST = defaults.HALF_LIFE / math.log(2)  # For how many seconds an amount counts that was always there.


def decay(elapsed: float) -> tuple[float, float]:
    """Return the part that is left after some seconds, and for how many seconds an amount since then counts."""
    remaining = 2.0 ** (-max(elapsed, 0.0) / defaults.HALF_LIFE)
    return remaining, (1.0 - remaining) * _LONGEST


@once
def queue_decay(snapshot: Snapshot) -> tuple[Floats, Floats]:
    """(Q,), (Q,): :func:`decay` since the status of each queue; all is left, and nothing counts, without a time."""
    since = snapshot.queues.observed.credit_time
    elapsed = np.where(since > 0, np.maximum(snapshot.now.timestamp() - since, 0.0), 0.0)
    remaining: Floats = np.exp2(-elapsed / defaults.HALF_LIFE)
    return remaining, (1.0 - remaining) * _LONGEST


def decayed_users(snapshot: Snapshot, queue: int) -> Iterator[tuple[core.QueueUser, float, float]]:
    """Return the users in the status of a queue, with :func:`decay` since then; none without a time."""
    observed, since = snapshot.queues.objects[queue], float(snapshot.queues.observed.credit_time[queue])
    if observed is None or not since:
        return
    remaining, counted = decay(snapshot.now.timestamp() - since)
    for user in observed.status.users:
        yield user, remaining, counted
