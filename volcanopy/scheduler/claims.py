"""What queues are owed and owe: the sums over jobs that several policies of queues rest on.

They are reckoned from the frozen tables of a snapshot, so they hold for a whole session; what the session itself admits
is in the ledger.
"""

import numpy as np

from volcanopy.scheduler.cluster import Cluster
from volcanopy.scheduler.resources import UNLIMITED, Ints, Mask
from volcanopy.scheduler.snapshot import QueueTable
from volcanopy.scheduler.status import HOLDING


def capability(queues: QueueTable) -> Ints:
    """(R, Q): the most that each queue may hold; what is not given, and cpu or memory of zero, is no limit."""
    unlimited = ~queues.capability_set
    unlimited[:2] |= queues.capability.values[:2] <= 0
    limit: Ints = np.where(unlimited, UNLIMITED, queues.capability.values)
    return limit


def within_guarantees(total: Ints, queues: QueueTable) -> Ints:
    """(R, Q): the most of an (R,) total that each queue can have when the guarantees of the others are kept."""
    guarantee = queues.guarantee.values
    room: Ints = np.maximum(total - guarantee.sum(axis=1), 0)[:, None] + guarantee
    return np.minimum(room, capability(queues))


def asked_by_admitted(cluster: Cluster) -> Ints:
    """(R, Q): what admitted jobs may still ask for, less what elastic jobs hold beyond their minimum.

    This is what a queue has promised beside what its jobs hold; it is negative where elastic jobs could shrink.
    """
    snapshot = cluster.snapshot
    jobs = snapshot.jobs
    least, held = jobs.min_resources.values, jobs.allocated.values
    running = jobs.counts[HOLDING].sum(axis=0)
    admitted = (jobs.phase == "Inqueue") | ((jobs.phase == "Running") & (running >= jobs.min_available))
    rest = np.where(admitted & jobs.has_min_resources, np.maximum(least - held, 0), 0)
    elastic = np.where(jobs.has_min_resources, np.maximum(held - least, 0), held)
    return _by_queue(cluster, rest - elastic, cluster.job_rows())


def asked_by_waiting(cluster: Cluster) -> Ints:
    """(R, Q): the minimal resources of jobs that are not admitted yet, as far as no pods of theirs ask for them already."""
    jobs = cluster.snapshot.jobs
    rows = cluster.job_rows()
    waiting = rows[jobs.phase[rows] == "Pending"]
    there = jobs.allocated.values + jobs.pending.values
    return _by_queue(cluster, np.maximum(jobs.min_resources.values - there, 0), waiting)


def _by_queue(cluster: Cluster, amounts: Ints, rows: Ints) -> Ints:
    sums = np.zeros((len(cluster.axis), len(cluster.snapshot.queues)), dtype=np.int64)
    np.add.at(sums.T, cluster.snapshot.jobs.queue[rows], amounts.T[rows])
    return sums


def first_short(asked: Ints, limit: Ints, of: Ints, pods: int) -> int | None:
    """The position of the first resource of ``of`` (but not the count of pods) of which more is asked than the limit."""
    over: Mask = (of > 0) & (asked > limit)
    over[pods] = False
    positions = np.flatnonzero(over)
    return int(positions[0]) if len(positions) else None
