"""Whole gangs as victims of reclaim: a gang that a victim breaks is evicted whole, even if its queue falls below its share.

Pods cannot be taken from a gang one by one down to the fair share of its queue: the rest would run without purpose. Its
eviction is allowed if it makes the shares fairer: the queue that loses the gang then lacks less of its fair share than
the reclaiming queue did before. If it lacks as much, it is evicted if the reclaiming queue has more
credit (:func:`volcanopy.scheduler.engine.shares.credit.has_more_credit`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.credit import has_more_credit
from volcanopy.scheduler.ledger.views import JobView, TaskView, with_jobs
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.model.snapshot import Snapshot


def with_whole_gangs(
    candidates: Sequence[TaskView],
    victims: Sequence[TaskView],
    reclaimer: JobView | None,
    lacking: Callable[[JobView, Ints], float],
    snapshot: Snapshot,
) -> list[TaskView]:
    """Return the victims with the rest of each gang that they break, in the order of the candidates.

    ``lacking`` returns which fraction of the cluster the queue of a job, and those above it that lose with it, lack of
    their fair shares without these (R,) amounts. What the reclaimer's own job has does not count for its queue.
    """
    chosen = {victim.row for victim in victims}
    if len(chosen) == len(candidates) or reclaimer is None:
        return list(victims)
    of_job: dict[int, list[TaskView]] = {}
    for candidate, job in with_jobs(candidates):
        of_job.setdefault(job.row, []).append(candidate)
    lost: dict[int, Ints] = {}
    for victim, job in with_jobs(victims):
        lost[job.queue.row] = lost.get(job.queue.row, 0) + victim.request.values
    before = lacking(reclaimer, reclaimer.allocated.values)
    for members in of_job.values():
        owner = members[0].job
        rest = [member for member in members if member.row not in chosen]
        count = len(members) - len(rest)
        if owner is None or not rest or not count or owner.ready_count - count >= owner.min_available:
            continue
        amounts: Ints = np.sum([member.request.values for member in rest], axis=0) + lost[owner.queue.row]
        after = lacking(owner, amounts)
        is_tie = abs(after - before) < defaults.EQUAL_FRACTIONS
        if has_more_credit(snapshot, reclaimer.queue.row, owner.queue.row, before) if is_tie else after < before:
            lost[owner.queue.row] = amounts
            chosen.update(member.row for member in rest)
    return [candidate for candidate in candidates if candidate.row in chosen]
