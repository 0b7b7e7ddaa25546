"""Guarantees of queues that do not exceed the cluster."""

from copy import copy as shallow

import numpy as np

from volcanopy.scheduler.model.job_tables import JobTable
from volcanopy.scheduler.model.resources import Columns, Ints, frozen, sums_by
from volcanopy.scheduler.model.snapshot import NONE, QueueTable


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
