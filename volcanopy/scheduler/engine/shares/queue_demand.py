"""Sums over the jobs of queues that several queue policies need.

They are computed from the snapshot and hold for a whole session; jobs admitted in the session are in the ledger.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.queue_shares import Bounds
from volcanopy.scheduler.model.resources import Ints, Mask, frozen, sums_by
from volcanopy.scheduler.model.snapshot import NONE, QueueTable
from volcanopy.scheduler.model.task_status import HOLDING

T = TypeVar("T")
_HOLDING = HOLDING.nonzero()[0]


def within_guarantees(total: Ints, queues: QueueTable, bounds: Bounds) -> Ints:
    """(R, Q): the limit of each queue in an (R,) total of which the guarantees of the others are reserved; read-only."""

    def limits() -> Ints:
        available: Ints = np.maximum(total - bounds.reserved.sum(axis=1), 0)[:, None] + bounds.reserved
        return frozen(np.minimum(available, bounds.limit))

    return queues.lasting("limits", (total, bounds), limits)


def reserved_for_admitted(cluster: Cluster) -> Ints:
    """(R, Q): what admitted jobs need for their minimum, less what elastic jobs have above theirs; it may be negative.

    Requests of gated pods are not included.
    """
    snapshot = cluster.snapshot
    return lacking(cluster) - np.where(snapshot.queues.exists[:-1], snapshot.jobs.queue_elastic, 0)


def lacking(cluster: Cluster, jobs: Mask | None = None) -> Ints:
    """(R, Q): what admitted jobs, by default all, lack of their minimum, without gated pods and jobs that are too large."""
    rows = cluster.taking_part(cluster.snapshot.jobs.starting_rows)
    return by_queue(cluster, cluster.queries.lacking(), rows if jobs is None else rows[jobs[rows]])


@once
def lacking_of_jobs(cluster: Cluster) -> Ints:
    """(R, J): as :func:`lacking`, of each job."""
    snapshot = cluster.snapshot
    jobs = snapshot.jobs
    lacking = np.zeros_like(jobs.min_resources.values)
    rows = (jobs.lacking & jobs.has_min_resources).nonzero()[0]
    rows = rows[~jobs.in_phase("Pending")[rows]]
    rows = rows[~cluster.queries.unplaceable()[rows]] if len(rows) else rows
    running = jobs.counts[_HOLDING, rows[:, None]].sum(axis=1)
    started = (jobs.phase[rows] == "Running") & (running >= jobs.min_available[rows])
    rows = rows[started | (jobs.phase[rows] == "Inqueue")]
    rest = np.maximum(jobs.min_resources.values[:, rows] - jobs.allocated.values[:, rows], 0)
    lacking[:, rows] = np.maximum(rest - snapshot.gated[:, rows], 0)
    return frozen(lacking)


@once
def unplaceable(cluster: Cluster) -> Mask:
    """(J,): the jobs that reserve nothing: too large for the cluster, blocked, or admitted and not able to start.

    Those cannot whose minimum fits on no set of empty nodes. They are judged while they have no pods on nodes.
    """
    snapshot = cluster.snapshot
    jobs, tasks = snapshot.jobs, snapshot.tasks
    impossible = snapshot.unreservable
    starting = jobs.in_phase("Inqueue") & ~jobs.counts[HOLDING].any(axis=0)
    pending = tasks.pending[(tasks.job[tasks.pending] != NONE) & ~tasks.gated[tasks.pending]]
    starting &= ~impossible
    pending = pending[starting[tasks.job[pending]]]
    if not len(pending) or not len(snapshot.nodes):
        return impossible
    first = np.full(snapshot.shapes.request.values.shape[1], NONE, dtype=np.intp)
    first[tasks.shape[pending]] = pending
    slots = np.full(len(first), len(pending), dtype=np.int64)
    for shape in (first != NONE).nonzero()[0][: defaults.COMPARED_SHAPES].tolist():
        slots[shape] = _slots(cluster, int(first[shape]), len(pending))
    if slots.min() >= jobs.min_available[starting].max():
        return impossible
    pairs = tasks.job[pending].astype(np.int64) * len(first) + tasks.shape[pending]
    pairs, counts = np.unique(pairs, return_counts=True)
    fitting = np.zeros(len(jobs), dtype=np.int64)
    np.add.at(fitting, pairs // len(first), np.minimum(counts, slots[pairs % len(first)]))
    created = np.bincount(tasks.job[pending], minlength=len(jobs))
    never: Mask = starting & (created >= jobs.min_available) & (fitting < jobs.min_available)
    return never | impossible


def _slots(cluster: Cluster, task: int, most: int) -> int:
    """Return how many pods equal to a task, at most some number, fit on the nodes that it may use, if these are empty."""
    snapshot = cluster.snapshot
    request = snapshot.requests([task])[:, 0]
    dims = request.nonzero()[0]
    usable = ~cluster.queries.infeasible_nodes(cluster.task(task))
    allocatable = np.maximum(snapshot.nodes.allocatable.values[np.ix_(dims, usable)], 0)
    return min(most, int((allocatable // request[dims, None]).min(axis=0, initial=most).sum()))


def requested_by_waiting(cluster: Cluster, limit: Ints) -> Ints:
    """(R, Q): the minimal resources of jobs that are not admitted yet, less the requests of their pods.

    Left out are jobs that an (R, Q) limit never admits, blocked jobs, jobs too large for the cluster, and jobs of closed or
    held queues.
    """
    jobs, queues = cluster.snapshot.jobs, cluster.snapshot.queues
    rows = cluster.unsettled_job_rows
    if len(rows):
        rows = rows[jobs.in_phase("Pending")[rows]]
    if not len(rows):
        return np.zeros((len(cluster.axis), len(queues)), dtype=np.int64)
    admits = queues.is_open & ~held_queues(queues)
    waiting = rows[admits[jobs.queue[rows]] & ~cluster.snapshot.unreservable[rows]]
    waiting = waiting[(jobs.min_resources.values[:, waiting] <= limit[:, jobs.queue[waiting]]).all(axis=0)]
    requested = jobs.allocated.values[:, waiting] + jobs.pending.values[:, waiting]
    minimum = jobs.min_resources.values[:, waiting]
    pods = cluster.axis.index["pods"]
    minimum[pods] = np.maximum(minimum[pods], np.maximum(jobs.min_available[waiting], 1))
    return sums_by(jobs.queue[waiting], np.maximum(minimum - requested, 0), len(queues))


def outstanding(cluster: Cluster) -> Ints:
    """(R, Q): what admitted jobs still lack of their minimum, without unschedulable jobs that have no nomination."""
    snapshot = cluster.snapshot
    jobs, tasks = snapshot.jobs, snapshot.tasks
    nominated = np.zeros(len(jobs), dtype=np.bool_)
    nominated[tasks.job[(tasks.nominated != NONE) & (tasks.job != NONE)]] = True
    rows = cluster.job_rows()
    rows = rows[~held_queues(snapshot.queues)[jobs.queue[rows]]]
    rows = rows[jobs.in_phase("Inqueue")[rows] & (nominated[rows] | ~jobs.unschedulable[rows])]
    rows = rows[~cluster.queries.unplaceable()[rows]]
    return by_queue(cluster, np.maximum(jobs.min_resources.values - jobs.allocated.values, 0), rows)


def by_queue(cluster: Cluster, amounts: Ints, rows: Ints) -> Ints:
    """(R, Q): the sums of (R, J) amounts of these jobs by queue."""
    return sums_by(cluster.snapshot.jobs.queue[rows], amounts[:, rows], len(cluster.snapshot.queues))


def held_queues(queues: QueueTable) -> Mask:
    """(Q,): the queues that are held by a stopPolicy."""
    stops = queues.terms.stops
    return np.zeros(len(queues), dtype=np.bool_) if stops is None else stops.held


class OrderedAmounts:
    """What counts as allocated to queues in their order: in admission with what admitted jobs lack of their minimum."""

    def __init__(self, cluster: Cluster, *, tree: bool) -> None:
        """``tree``: what is allocated to a queue counts for its ancestors as well."""
        ledger = cluster.ledger
        self._cluster, self._tree = cluster, tree
        self._allocated: Ints = ledger.tree_allocated if tree else ledger.queue_allocated  # views
        self._inqueue: Ints = ledger.tree_inqueue if tree else ledger.queue_inqueue
        self._ranks: dict[int, tuple[bytes, Any]] = {}

    @cached_property
    def _lacking(self) -> Ints:
        """(R, Q): what admitted jobs lacked when the session began."""
        amounts = lacking(self._cluster)
        return self._cluster.snapshot.queues.rolled_up(amounts) if self._tree else amounts

    def rank(self, row: int, rank: Callable[[int, Ints], T]) -> T:
        """Return the rank of a queue by its (R,) amounts: always by the same function, which is called when these changed."""
        amounts = self._allocated[:, row]
        if self._cluster.admission:
            amounts = amounts + self._lacking[:, row] + self._inqueue[:, row]
        content = amounts.tobytes()
        cached = self._ranks.get(row)
        if cached is None or cached[0] != content:
            cached = self._ranks[row] = content, rank(row, amounts)
        return cached[1]
