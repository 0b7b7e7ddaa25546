"""Bundles: the tasks of running jobs that are evicted together.

A task above its job's minimum is a bundle of its own, and so is any task of a gang that is below its minimum anyway. A
sub-group that its job does not need is a bundle. The rest of a job is its gang: the eviction of one of its tasks would leave
the others without purpose, so all of them are one bundle, on whatever nodes they run.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from volcanopy.scheduler.actions.evict.candidates import NO_COST, Candidates, Cost
from volcanopy.scheduler.actions.evict.eviction_cost import structured
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Rows


@dataclass(eq=False, slots=True)
class Bundle:
    """Tasks of one job that are evicted together."""

    job: int
    rows: tuple[int, ...]
    cost: Cost  # Without what queues lose.

    @property
    def breaks(self) -> bool:
        """Whether the job falls below its minimum."""
        return self.cost[2] > 0


class Bundles:
    """The division of candidates into bundles, as the session stands."""

    def __init__(self, session: Session, candidates: Candidates) -> None:
        self._session, self._candidates = session, candidates
        self.surplus = partial(session.snapshot.jobs.surplus, session.ledger.job_counts)
        self._structured = structured(session)
        self._whole_jobs: dict[int, list[Bundle]] = {}
        """The bundle of each job as a whole, after ``_moves`` changes of tasks."""
        self._moves = 0

    def split(self, rows: Sequence[int]) -> list[Bundle]:
        """Return the bundles that these candidates, in the order of cost, are in; the cheapest first.

        The bundles may have tasks beside these: those of a sub-group or of a whole gang.
        """
        of_job = rows_by_job(self._session, rows)
        bundles, single = list[Bundle](), list[int]()
        above = self.surplus(of_job)
        for row, members in of_job.items():
            surplus = above[row]
            if surplus < 0:
                single += members
            elif self._structured[row]:
                bundles += self._split_structured(JobView(self._session.ledger, row), members, surplus)
            else:
                single += members[:surplus]
                if len(members) > surplus:
                    bundles += self._whole(row)
        rank = self._candidates.rank.item
        in_order = self._single(sorted(single, key=rank))  # the order of their costs, too
        return sorted(in_order + bundles, key=lambda each: (*each.cost, rank(each.rows[0]))) if bundles else in_order

    def choices(self, rows: Sequence[int]) -> tuple[list[Bundle], dict[int, int]]:
        """Return all bundles to choose from among these candidates, and how many single ones of each job at most.

        Unlike :meth:`split`, which takes the cheapest pods that a job can spare, any of its pods may be one of those.
        """
        of_job = rows_by_job(self._session, rows)
        surplus, has_parts = self.surplus(of_job), self._session.snapshot.jobs.structured
        bundles: list[Bundle] = []
        for job, members in of_job.items():
            if has_parts[job] or not 0 < surplus[job] < len(members):
                bundles += self.split(members)
            else:
                bundles += self._single(members) + self._whole(job)
        return bundles, {job: count for job, count in surplus.items() if count > 0 and not has_parts[job]}

    def cost_of(self, bundles: Sequence[Bundle]) -> Cost:
        """Return the cost of these evicted bundles together; a task that is in two of them counts once."""
        if not bundles:
            return (0.0, -1.0, *NO_COST[2:])
        rows = list(dict.fromkeys([row for bundle in bundles for row in bundle.rows]))
        cost = self._candidates.alone.take(rows, axis=1).sum(axis=1)
        cost[1:3] = max([bundle.cost[1] for bundle in bundles]), sum([bundle.breaks for bundle in bundles])
        cost[0], cost[5] = self._candidates.share_losses(rows)
        return tuple(cost.tolist())

    def _single(self, rows: list[int]) -> list[Bundle]:
        """Return a bundle of each of these tasks."""
        jobs, costs = self._session.snapshot.tasks.job[rows].tolist(), self._candidates.alone.take(rows, axis=1)
        return [Bundle(job, (row,), tuple(cost)) for job, row, cost in zip(jobs, rows, costs.T.tolist(), strict=True)]

    def _bundle(self, job: int, rows: Sequence[int], *, breaks: bool = False) -> Bundle:
        costs = self._candidates.alone.take(rows, axis=1)
        cost = costs.sum(axis=1)
        cost[1:3] = costs[1].max(), breaks
        return Bundle(job, tuple(rows), tuple(cost.tolist()))

    def _whole(self, job: int) -> list[Bundle]:
        """Return all tasks of a job that run, as one bundle; nothing if its gang may not be broken.

        It is the same for every node until a task of the job changes.
        """
        if not self._candidates.breakable[job]:
            return []
        moves = self._session.ledger.moved
        if self._moves != len(moves):
            for owner in self._session.snapshot.tasks.job[moves.since(self._moves)].tolist():
                self._whole_jobs.pop(owner, None)
            self._moves = len(moves)
        bundles = self._whole_jobs.get(job)
        if bundles is None:
            rows = self._running(self._session.snapshot.members(job))
            bundles = self._whole_jobs[job] = [self._bundle(job, rows, breaks=True)]
        return bundles

    def _running(self, rows: Rows) -> list[int]:
        """Return those of these tasks that run, in the order of cost."""
        rows = rows[self._session.ledger.evictable(rows)]
        return rows[np.argsort(self._candidates.rank[rows], kind="stable")].tolist()

    def _split_structured(self, job: JobView, rows: Sequence[int], surplus: int) -> list[Bundle]:
        """Return the bundles of a job with role minima or sub-groups: single tasks, then sub-groups, then the whole."""
        # A role without a minimum has as much surplus as the job.
        of_role = defaultdict(lambda: surplus, {role.row: role.ready - role.minimum for role in job.binding_roles})
        parts = _SpareParts(self._session, job)
        table = self._session.snapshot.tasks
        bundles, rest = list[Bundle](), list[int]()
        for row in rows:
            role = int(table.role[row])
            if surplus > 0 and of_role[role] > 0 and parts.can_spare(row):
                surplus -= 1
                of_role[role] -= 1
                bundles.append(self._bundle(job.row, (row,)))
            else:
                rest.append(row)
        for part in parts.spare_parts(rest):
            members = self._running(part.rows)
            roles = [int(table.role[row]) for row in members]
            is_candidate = (self._candidates.rule_of[members] < len(self._candidates.rules)).all()
            fits = len(members) <= surplus and all(of_role[role] >= roles.count(role) for role in roles)
            if is_candidate and fits:
                surplus -= len(members)
                for role in roles:
                    of_role[role] -= 1
                bundles.append(self._bundle(job.row, members))
                rest = [row for row in rest if row not in members]
        return [*bundles, *(self._whole(job.row) if rest else [])]


class _SpareParts:
    """The surplus of sub-groups of a job: tasks above their size, and sub-groups above the minimum of their policy."""

    def __init__(self, session: Session, job: JobView) -> None:
        self._part_of: dict[int, SubJobView] = {}
        self._above: dict[str, int] = {}
        self._surplus: dict[int, int] = {}
        for number, policy in enumerate(job.group.spec.sub_group_policy):
            if not policy.min_sub_groups:
                continue
            parts = [part for part in session.cluster.parts(job) if part.number == number]
            for part in parts:
                self._part_of.update(dict.fromkeys(part.rows.tolist(), part))
                self._above[part.key] = part.ready_count - part.min_available
            self._surplus[number] = sum(part.is_ready for part in parts) - policy.min_sub_groups

    def can_spare(self, row: int) -> bool:
        """Return whether the task is surplus or in a sub-group below its minimum; count it as evicted."""
        part = self._part_of.get(row)
        if part is None or not part.is_ready:
            return True
        above = self._above[part.key] = self._above[part.key] - 1
        return above >= 0

    def spare_parts(self, rows: Iterable[int]) -> Iterable[SubJobView]:
        """Yield the sub-groups of these tasks that the job does not need."""
        for part in dict.fromkeys(self._part_of[row] for row in rows if row in self._part_of):
            if self._surplus[part.number] > 0:
                self._surplus[part.number] -= 1
                yield part


def rows_by_job(session: Session, rows: Sequence[int]) -> dict[int, list[int]]:
    """Return these tasks, in their order, by job."""
    of_job = defaultdict[int, list[int]](list)
    for row, job in zip(rows, session.snapshot.tasks.job[rows].tolist(), strict=True):
        of_job[job].append(row)
    return of_job
