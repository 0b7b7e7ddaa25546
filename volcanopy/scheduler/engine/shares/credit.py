"""Credit of queues: what they were allocated below their fair share over time, so that it can be paid back.

A share cannot always be met at once: a large pod waits for a whole node while small pods of other queues run. What a queue
lacked in the meantime is its credit, and what others were allocated above their shares at its expense is their debt, a
negative credit. Both are in seconds of the whole cluster: a queue that lacks a tenth of all cpus for a minute has a credit of
6 seconds of cpu. They halve every ``HALF_LIFE``, so that they stay bounded. Credit is kept in the status of the queue
(:mod:`volcanopy.scheduler.engine.shares.decay`).

1. A queue lacks what it is allocated below its fair share, at most what its jobs wait for. Only resources count of which
   the request of a sibling or its own exceeds the fair share: of others there is enough for all.
2. A queue is in debt for what it is allocated above its share; together at most what its siblings lack. A queue that uses
   what no sibling needs has no debt.
3. What queues lack beyond that is idle: pods are not created yet, or do not fit. It is shared by the queues with waiting
   jobs in proportion to their fair shares, so that the credits of siblings add up to zero.
"""

import numpy as np

from volcanopy.api.queue_fields import seconds
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.decay import decayed_users, queue_decay
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Floats, Ints, frozen
from volcanopy.scheduler.model.snapshot import Snapshot

PROTECTION = defaults.QUEUE_PAYBACK / 3
"""Seconds over which a queue with credit would use it up by what it keeps above its share although others reclaim.

A job that starts for credit uses it up while it runs. It would be evicted after a minute if no more were protected than is
paid back; so it runs two thirds of ``QUEUE_PAYBACK`` first.
"""


@once
def queue_credit(snapshot: Snapshot) -> Floats:
    """(R, Q): the credit of each queue with its descendants at the time of the snapshot, in seconds of the whole cluster."""
    observed = snapshot.queues.observed
    if not observed.credit.any() and not observed.reported[-1].any():  # none to keep, and none is gained
        return np.zeros(observed.credit.shape, dtype=np.float64)
    remaining, counted = queue_decay(snapshot)
    return frozen(observed.credit * remaining + _rates(snapshot) * counted)


def user_credits(snapshot: Snapshot, queue: int) -> dict[str, float]:
    """The credit of each user in the status of a queue, by name, at the time of the snapshot; as :func:`queue_credit`."""
    return {
        user.name: seconds(user.credit) * remaining + (seconds(user.fair_share) - seconds(user.share)) * counted
        for user, remaining, counted in decayed_users(snapshot, queue)
    }


def has_more_credit(snapshot: Snapshot, queue: int, other: int, lacking: float) -> bool:
    """Return whether a queue that lacks this fraction of the cluster has more credit than another by ``PROTECTION`` of it.

    In a tree the credits of those ancestors are compared that are siblings.
    """
    lines = [snapshot.queues.lines[row].tolist() for row in (queue, other)]
    own, their = ([row for row in lines[at] if row not in lines[1 - at]] for at in (0, 1))
    if not own or not their:
        return False
    credit = queue_credit(snapshot)
    return float((credit[:, own[-1]] - credit[:, their[-1]]).max()) >= lacking * PROTECTION > 0


class Due:
    """(R, Q): what queues get beside their fair shares for their credit; at most the shares themselves.

    So no queue gets everything or nothing for its past. Fair shares are those of queues with their descendants.
    """

    def __init__(self, snapshot: Snapshot, fair_share: Ints) -> None:
        credit = queue_credit(snapshot)
        if not credit.any():
            self.order = np.zeros(credit.shape, dtype=np.float64)
            self.paid_back = self.protected = np.zeros(credit.shape, dtype=np.int64)
            return
        credit = credit * snapshot.total[:, None]
        self.order = np.clip(credit / defaults.QUEUE_PAYBACK, -fair_share, fair_share)
        """Counted in the order of queues; negative for what queues give."""
        self.paid_back = _raised(self.order)  # What queues may be allocated above their fair shares.
        self.protected = _raised(np.clip(credit / PROTECTION, 0.0, fair_share))
        """What queues keep above their fair shares although others reclaim."""


def _raised(amounts: Floats) -> Ints:
    return np.ceil(np.maximum(amounts, 0.0)).astype(np.int64)


def _rates(snapshot: Snapshot) -> Floats:
    """(R, Q): the parts of the cluster that queues lack (negative: have at the expense of their siblings)."""
    queues, observed = snapshot.queues, snapshot.queues.observed
    if not observed.reported[-1].any():  # nothing is lacking where nothing waits
        return np.zeros(observed.credit.shape, dtype=np.float64)
    allocated, fair_share, _, _, waiting = observed.reported.astype(np.float64)
    siblings = queues.above  # NONE, the last column, for those without a parent
    lacking, exceeding, whole, requesting_more = np.zeros((4, len(allocated), len(queues) + 1))
    np.add.at(requesting_more.T, siblings, (allocated + waiting > fair_share).T)
    # Without any fair share of a resource no queue is above or below its share.
    counts = fair_share.any(axis=1)[:, None] & (requesting_more[:, siblings] > 0)
    lack = np.where(counts, np.clip(fair_share - allocated, 0.0, waiting), 0.0)
    if not lack.any():
        return np.zeros(observed.credit.shape, dtype=np.float64)
    excess = np.where(counts, np.maximum(allocated - fair_share, 0.0), 0.0)
    sharing = np.where(waiting > 0, fair_share, 0.0)
    for sums, amounts in ((lacking, lack), (exceeding, excess), (whole, sharing)):
        np.add.at(sums.T, siblings, amounts.T)
    paid = np.divide(lacking, exceeding, out=np.zeros_like(lacking), where=exceeding > 0)
    unused = np.divide(np.maximum(lacking - exceeding, 0.0), whole, out=np.zeros_like(lacking), where=whole > 0)
    parts = lack - excess * np.minimum(paid, 1.0)[:, siblings] - sharing * unused[:, siblings]
    total = snapshot.total[:, None]
    return np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
