"""Victims of reclaim: tasks of queues above their fair share.

1. A task is a victim while its queue is above its fair share and what its credit protects; so must be the ancestors of the
   queue that are not also ancestors of the reclaimer's queue. Earlier victims count as evicted for later ones.
2. A gang that a victim breaks is a victim as a whole, if that makes the shares fairer.
"""

import operator
from collections.abc import Sequence

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.credit import has_more_credit
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, TaskView, with_jobs
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.queue_shares import Shares
from volcanopy.scheduler.model.resources import Ints, dominant_share, largest_ratio

Account = tuple[bool, int]  # Whether the amounts are those of the own jobs of a queue, and its row.


class Reclaim:
    """The victims that the shares of one policy allow. There are few resources: lists are faster than arrays."""

    def __init__(self, cluster: Cluster, shares: Shares, lines: Sequence[list[int]]) -> None:
        """``lines``: each queue with the ancestors for which its tasks count."""
        ledger, queues = cluster.ledger, cluster.snapshot.queues
        self._snapshot, self._shares, self._lines = cluster.snapshot, shares, lines
        self._pods = cluster.axis.index["pods"]
        self._total: list[int] = cluster.snapshot.total.tolist()
        self._root = queues.index.get("root", -1)
        self._named = np.ones(shares.fair.shape, dtype=np.bool_) if shares.named is None else shares.named
        allocated: Ints = ledger.tree_allocated if shares.tree else ledger.queue_allocated
        protected = np.zeros_like(shares.fair) if shares.protected is None else shares.protected
        self._tables = {False: (allocated, shares.fair, shares.fair + protected)}
        self._tables[True] = self._tables[False]
        if shares.own is not None:
            parents = sorted({self._root, *(row for line in lines for row in line[1:])} - {-1})
            protected = protected.copy()
            protected[:, parents] = 0
            self._tables[True] = ledger.queue_allocated, shares.own, shares.own + protected
        self._protected = protected

    def victims(self, reclaimer: TaskView, job: JobView, candidates: Sequence[TaskView], alone: bool) -> list[TaskView]:
        """Return the victims among the candidates for a task of a job; unless ``alone``, for its whole gang."""
        reclaims = self._shares.reclaims
        considered = candidates if reclaims is None else reclaims(reclaimer, candidates)
        request = reclaimer.request.values.tolist() if alone else None
        victims = self._above_share(job.queue.row, request, considered)
        return self._with_whole_gangs(candidates, victims, job)

    def _with_whole_gangs(
        self, candidates: Sequence[TaskView], victims: Sequence[TaskView], reclaimer: JobView
    ) -> list[TaskView]:
        """Return the victims with the rest of each gang that they break, in the order of the candidates.

        Pods cannot be taken from a gang one by one down to the fair share of its queue: the rest would run without purpose. Its
        eviction is allowed if it makes the shares fairer: the queue that loses the gang then lacks less of its fair share than
        the reclaiming queue did before. If it lacks as much, it is evicted if the reclaiming queue has more credit.
        What the reclaimer's own job has does not count for its queue.
        """
        chosen = {victim.row for victim in victims}
        if len(chosen) == len(candidates):
            return list(victims)
        of_job: dict[int, list[TaskView]] = {}
        for candidate, job in with_jobs(candidates):
            of_job.setdefault(job.row, []).append(candidate)
        lost: dict[int, Ints] = {}
        for victim, job in with_jobs(victims):
            lost[job.queue.row] = lost.get(job.queue.row, 0) + victim.request.values
        own = reclaimer.queue.row
        before = self._missing_share(own, reclaimer, reclaimer.allocated.values)
        for members in of_job.values():
            owner = members[0].job
            rest = [member for member in members if member.row not in chosen]
            count = len(members) - len(rest)
            if owner is None or not rest or not count or owner.ready_count - count >= owner.min_available:
                continue
            amounts: Ints = np.sum([member.request.values for member in rest], axis=0) + lost[owner.queue.row]
            after = self._missing_share(own, owner, amounts)
            is_tie = abs(after - before) < defaults.EQUAL_FRACTIONS
            if has_more_credit(self._snapshot, own, owner.queue.row, before) if is_tie else after < before:
                lost[owner.queue.row] = amounts
                chosen.update(member.row for member in rest)
        return [candidate for candidate in candidates if candidate.row in chosen]

    def considered_ancestors(self, row: int) -> list[int]:
        """Return the ancestors within the levels that reclaim considers, the parent first, without the root."""
        return [above for above in self._lines[row][1 : 1 + (self._shares.levels or 0)] if above != self._root]

    @once
    def _losing(self, own: int, row: int) -> list[Account]:
        """Return a queue, with its ancestors that lose their share with it to the queue ``own``."""
        above = self._lines[row][1:] if self._shares.levels is None else self.considered_ancestors(row)
        outside = [parent for parent in above if parent != self._root and parent not in self._lines[own]]
        return [(True, row), *((False, parent) for parent in outside if self._named[:, parent].any())]

    def _above_share(self, own: int, request: list[int] | None, candidates: Sequence[TaskView]) -> list[TaskView]:
        """Return the candidates of queues above their fair share of what is requested; None for everything."""
        shares, rooted = self._shares, self._snapshot.queues.rooted
        single_request = request if shares.any_resource else None
        guarantee: dict[int, list[int]] = {}
        has_no_share = single_request is not None and not self._overlap(shares.fair[:, own].tolist(), single_request)
        left: dict[Account, list[int]] = {}
        victims, ancestors = [], set(self.considered_ancestors(own))
        for candidate, job in with_jobs(candidates):
            row, requested = job.queue.row, candidate.request.values.tolist()
            if (shares.leaves_only and not rooted[row]) or (
                single_request and not self._overlap(single_request, requested)
            ):
                continue
            accounts = self._losing(own, row)
            for account in accounts:
                if account not in left:
                    left[account] = self._tables[account[0]][0][:, account[1]].tolist()
            if shares.any_resource:
                if row not in guarantee:
                    guarantee[row] = shares.guarantee[:, row].tolist()
                rest = zip(requested, guarantee[row], left[accounts[0]], strict=True)
                if any(more > 0 and least > amount - more for more, least, amount in rest):
                    continue
            relative = has_no_share and not ancestors.isdisjoint(self.considered_ancestors(row))
            if all(self._is_above(each, left[each], requested, relative and each[0]) for each in accounts):
                for account in accounts:
                    left[account] = list(map(operator.sub, left[account], requested))
                victims.append(candidate)
        return victims

    def _is_above(self, account: Account, allocated: list[int], requested: list[int], relative: bool) -> bool:
        """Return whether a queue is above its fair share and what its credit protects, or has none of what is requested.

        A ``relative`` of the reclaimer loses only resources of which it has a fair share.
        """
        row, shares = account[1], self._shares
        if shares.fractions is not None:
            share = largest_ratio(allocated, self._total) - largest_ratio(self._protected[:, row].tolist(), self._total)
            return share > float(shares.fractions[row]) + defaults.EQUAL_DOMINANT_SHARES
        kept = self._kept(*account)
        if not shares.any_resource:
            return any(map(operator.gt, allocated, kept))
        fair = shares.fair[:, row].tolist()
        if not self._overlap(fair, requested):
            return not relative
        has_share = [share > 0 for share in fair[:2]] + self._named[2:, row].tolist()
        amounts = zip(requested, has_share, allocated, kept, strict=True)
        return any(more > 0 and has and amount > most for more, has, amount, most in amounts)

    @once
    def _kept(self, own: bool, row: int) -> list[int]:
        """(R,): what a queue, or its own jobs, keep: the fair share, and what its credit protects."""
        return list(self._tables[own][2][:, row].tolist())

    def _overlap(self, amounts: Sequence[int], others: Sequence[int]) -> bool:
        """Return whether there is a resource of both, other than the number of pods."""
        pairs = enumerate(zip(amounts, others, strict=True))
        return any(amount > 0 and other > 0 and dim != self._pods for dim, (amount, other) in pairs)

    def _missing_share(self, own: int, job: JobView, without: Ints) -> float:
        """Return the largest fraction of the cluster that a queue, or one above it, lacks of its share without some amounts."""
        share, fractions = 0.0, self._shares.fractions
        for is_own, row in self._losing(own, job.queue.row):
            allocated, fair = (table[:, row] for table in self._tables[is_own][:2])
            if fractions is not None:
                share = max(share, float(fractions[row]) - largest_ratio((allocated - without).tolist(), self._total))
                continue
            missing = np.where(fair > 0, np.maximum(fair - allocated + without, 0), 0)
            if not self._shares.any_resource:
                missing[self._pods] = 0
            share = max(share, dominant_share(missing, self._snapshot.total))
        return share


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
