"""Protection of the guarantees of queues in reclaim."""

from collections.abc import Sequence

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView, with_jobs
from volcanopy.scheduler.model.resources import Ints


def sparing_guarantees(
    cluster: Cluster, reclaimer: TaskView, victims: Sequence[TaskView], reserved: Ints, in_tree: bool = False
) -> list[TaskView]:
    """Return the victims, in order, whose queues stay above what is reserved for them of everything the victim requests.

    ``reserved`` (R, Q) is reserved for each queue: its guarantee, and what it does not lend. ``in_tree``: the ancestors of a
    victim's queue count as well, except those that are also ancestors of the reclaimer's.
    """
    ledger = cluster.ledger
    if not reserved.any():
        return list(victims)
    table = ledger.tree_allocated if in_tree else ledger.queue_allocated
    own = reclaimer.job
    shared = set() if own is None or not in_tree else set(own.queue.line.tolist())
    left: dict[int, Ints] = {}
    allowed = []
    for victim, job in with_jobs(victims):
        request = victim.request.values
        losers = [row for row in (job.queue.line.tolist() if in_tree else [job.queue.row]) if row not in shared]
        rest = {row: left.get(row, table[:, row]) - request for row in losers}
        if all(not ((request > 0) & (rest[row] < reserved[:, row])).any() for row in losers):
            left |= rest
            allowed.append(victim)
    return allowed
