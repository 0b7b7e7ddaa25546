"""What queues are owed and owe: the sums over jobs that several policies of queues rest on.

They are reckoned from the frozen tables of a snapshot, so they hold for a whole session; what the session itself admits
is in the ledger.
"""

import numpy as np

from volcanopy.scheduler.fairshare.borrowing import Bounds, capability
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Ints, Mask
from volcanopy.scheduler.model.snapshot import NONE, QueueTable
from volcanopy.scheduler.model.task_status import HOLDING


def within_guarantees(total: Ints, queues: QueueTable, bounds: Bounds | None = None) -> Ints:
    """(R, Q): the most of an (R,) total that each queue can have when what is kept for the others is left to them."""
    kept, ceiling = (queues.guarantee.values, capability(queues)) if bounds is None else (bounds.kept, bounds.ceiling)
    room: Ints = np.maximum(total - kept.sum(axis=1), 0)[:, None] + kept
    return np.minimum(room, ceiling)


def asked_by_admitted(cluster: Cluster) -> Ints:
    """(R, Q): what admitted jobs may still ask for, less what elastic jobs hold beyond their minimum.

    What scheduling gates hold back is not asked for.
    This is what a queue has promised beside what its jobs hold; it is negative where elastic jobs could shrink.
    """
    snapshot = cluster.snapshot
    jobs = snapshot.jobs
    least, held = jobs.min_resources.values, jobs.allocated.values
    running = jobs.counts[HOLDING].sum(axis=0)
    admitted = (jobs.phase == "Inqueue") | ((jobs.phase == "Running") & (running >= jobs.min_available))
    rest = np.where(admitted & jobs.has_min_resources, np.maximum(np.maximum(least - held, 0) - snapshot.gated, 0), 0)
    elastic = np.where(jobs.has_min_resources, np.maximum(held - least, 0), held)
    return _by_queue(cluster, rest - elastic, cluster.job_rows())


def asked_by_waiting(cluster: Cluster, limit: Ints) -> Ints:
    """(R, Q): the minimal resources of jobs that are not admitted yet, as far as no pods of theirs ask for them already.

    Jobs that an (R, Q) limit can never admit, and those of closed and stopped queues, ask for nothing: they would keep from
    others what they cannot have.
    """
    jobs, queues = cluster.snapshot.jobs, cluster.snapshot.queues
    rows = cluster.job_rows()
    serves = queues.is_open & ~held_back(queues)
    waiting = rows[(jobs.phase[rows] == "Pending") & serves[jobs.queue[rows]]]
    waiting = waiting[(jobs.min_resources.values[:, waiting] <= limit[:, jobs.queue[waiting]]).all(axis=0)]
    there = jobs.allocated.values + jobs.pending.values
    return _by_queue(cluster, np.maximum(jobs.min_resources.values - there, 0), waiting)


def outstanding(cluster: Cluster) -> Ints:
    """(R, Q): what admitted jobs may still take of their minimum, as far as they are on the way to it.

    One that was found no room for, and was promised none, is not: it does not keep the next from asking.
    """
    snapshot = cluster.snapshot
    jobs, tasks = snapshot.jobs, snapshot.tasks
    promised = np.zeros(len(jobs), dtype=np.bool_)
    promised[tasks.job[(tasks.nominated != NONE) & (tasks.job != NONE)]] = True
    rows = cluster.job_rows()
    rows = rows[~held_back(snapshot.queues)[jobs.queue[rows]]]
    rows = rows[(jobs.phase[rows] == "Inqueue") & (promised[rows] | ~jobs.unschedulable[rows])]
    return _by_queue(cluster, np.maximum(jobs.min_resources.values - jobs.allocated.values, 0), rows)


def _by_queue(cluster: Cluster, amounts: Ints, rows: Ints) -> Ints:
    sums = np.zeros((len(cluster.axis), len(cluster.snapshot.queues)), dtype=np.int64)
    np.add.at(sums.T, cluster.snapshot.jobs.queue[rows], amounts.T[rows])
    return sums


def held_back(queues: QueueTable) -> Mask:
    """(Q,): the queues that are stopped: what waits there cannot be given anything."""
    stops = queues.terms.stops
    return np.zeros(len(queues), dtype=np.bool_) if stops is None else stops.held


def first_short(asked: Ints, limit: Ints, of: Ints, pods: int) -> int | None:
    """The position of the first resource of ``of`` (but not the count of pods) of which more is asked than the limit."""
    amounts = zip(of.tolist(), asked.tolist(), limit.tolist(), strict=True)  # few: lists are quicker than arrays
    return next(
        (place for place, (own, units, most) in enumerate(amounts) if own > 0 and units > most and place != pods), None
    )
