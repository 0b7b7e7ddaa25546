"""Fair shares that queues inherit: what the children of a queue leave of its share is for those of them that request more.

From the root down, for each resource of which a queue has a share:

1. Each child keeps of its own share what it requests, and its guarantee.
2. The rest is divided by weight among the children that request more, at most what they request.
3. A child's share is the larger of its own and what 1 and 2 give it.
"""

import numpy as np

from volcanopy.scheduler.model.queue_shares import divided
from volcanopy.scheduler.model.resources import Ints, Mask
from volcanopy.scheduler.model.snapshot import QueueTable


def inherited_shares(
    queues: QueueTable, own: Ints, named: Mask, requested: Ints, guaranteed: Ints
) -> tuple[Ints, Mask]:
    """Return the (R, Q) shares with what queues inherit, and for which resources queues have a share.

    ``own`` are the shares of the queues themselves, of the resources ``named``; ``requested`` includes descendants.
    """
    shares, has_share = own.copy(), named.copy()
    for row, children in queues.families:
        if queues.names[row] == "root":
            continue
        for dim in np.flatnonzero(has_share[:, row]).tolist():
            demand = requested[dim, children]
            kept = np.maximum(np.minimum(own[dim, children], demand), guaranteed[dim, children])
            rest = int(shares[dim, row] - kept.sum())
            more = np.maximum(demand - kept, 0)
            given = kept + divided(max(rest, 0), queues.weight[children], np.zeros_like(more), more)
            shares[dim, children] = np.maximum(own[dim, children], given)
            has_share[dim, children] = True
    return shares, has_share
