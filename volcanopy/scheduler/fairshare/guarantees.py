"""What reclaiming must leave: the guarantee of every queue, whichever plugins agreed on the victims."""

from collections.abc import Sequence

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints


def sparing_guarantees(
    cluster: Cluster, reclaimer: TaskView, victims: Sequence[TaskView], kept: Ints, in_tree: bool = False
) -> list[TaskView]:
    """The victims, in order, as far as no queue that loses one holds less of anything it asks for than is kept for it.

    ``kept`` (R, Q) is what each queue keeps: its guarantee, and what it does not lend.
    ``in_tree``: what a queue loses also counts against the queues above it, up to those that the reclaimer is below as well.
    """
    ledger = cluster.ledger
    if not kept.any():
        return list(victims)
    table = ledger.tree_allocated if in_tree else ledger.queue_allocated
    own = reclaimer.job
    shared = set() if own is None or not in_tree else set(own.queue.line.tolist())
    held: dict[int, Ints] = {}
    going = []
    for victim in victims:
        job = victim.job
        if job is None:
            continue
        taken = victim.request.values
        losers = [row for row in (job.queue.line.tolist() if in_tree else [job.queue.row]) if row not in shared]
        rest = {row: held.get(row, table[:, row]) - taken for row in losers}
        if all(not ((taken > 0) & (rest[row] < kept[:, row])).any() for row in losers):
            held |= rest
            going.append(victim)
    return going
