"""Amounts of a snapshot whose sums fit an int64, and guarantees that do not exceed the cluster.

Single amounts are bounded where they are read (:data:`volcanopy.api.quantity.LIMIT`). Thousands of them may still sum up to
more than an int64: then the largest are reduced, so that no sum wraps around. No cluster of real machines comes near.
"""

from copy import copy as shallow

import numpy as np

from volcanopy.scheduler.model.job_tables import JobTable
from volcanopy.scheduler.model.resources import Columns, Ints, frozen, sums_by
from volcanopy.scheduler.model.snapshot import NONE, QueueTable

MOST = 2**60
"""The largest sum of a column: sums of several columns fit an int64 as well."""


def within_sum(values: Ints) -> Ints:
    """Return (R, N) amounts, with the largest reduced in the rows whose sum is greater than MOST; the same array without any."""
    if int(values.max(initial=0)) * values.shape[1] <= MOST:  # quicker than sums, and enough for real machines
        return values
    large = values.sum(axis=1, dtype=np.float64) > MOST
    if large.any():
        values = values.copy()
        values[large] = np.clip(values[large], 0, MOST // values.shape[1])
    return values


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
    table = shallow(queues)
    object.__setattr__(table, "guarantee", Columns(queues.guarantee.axis, values))
    return table
