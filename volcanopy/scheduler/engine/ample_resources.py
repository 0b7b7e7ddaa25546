"""Whether enough is free for everything that waits: then it does not matter who gets which node, and nothing is reserved."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from volcanopy.scheduler.engine.reservation_planner import Part, has_capacity
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.model.task_status import Status


def is_ample(cluster: Cluster, free: Ints, jobs: Sequence[int]) -> bool:
    """Return whether (R, N) free resources suffice for all pending tasks, in any order, on nodes that suit all of these jobs.

    As many tasks fit as of the largest request of each resource: whichever is placed first takes the place of one at most.
    """
    snapshot = cluster.snapshot
    table = snapshot.tasks
    pending = np.flatnonzero(table.status == Status.PENDING)
    largest = snapshot.shapes.request.values[:, table.shape[pending]].max(axis=1, initial=0)
    part = Part(largest, len(pending), np.ones(free.shape[1], dtype=np.bool_))
    if not has_capacity(part, free):
        return False
    rows = pending[np.isin(table.job[pending], jobs)]
    for row in rows[np.unique(table.shape[rows], return_index=True)[1]].tolist():
        part = replace(part, nodes=part.nodes & ~cluster.queries.infeasible_nodes(cluster.task(row)))
    return has_capacity(part, free)
