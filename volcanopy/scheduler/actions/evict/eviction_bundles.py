"""Bundles: the tasks of running jobs that are evicted together.

A task above its job's minimum is a bundle of its own, and so is any task of a gang below its minimum. A sub-group that
its job does not need is a bundle. The rest of a job is its gang: the eviction of one of these tasks would leave the
others without purpose, so they are one bundle.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts, positions_in_job
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.task_status import HOLDING, READY
from volcanopy.scheduler.session.session import Session

_READY = np.flatnonzero(READY)


@dataclass(frozen=True)
class Bundle:
    """Tasks of one job that are evicted together."""

    rows: tuple[int, ...]
    lost_work: float
    """Seconds of running time; where the gang breaks those of all its tasks, also outside of the bundle."""
    breaks: bool = False
    """Whether the job falls below its minimum."""


class Bundles:
    """The bundles of some candidates; each candidate is in one of them, the cheapest of a job are evicted first."""

    def __init__(self, session: Session, costs: EvictionCosts, rows: Rows) -> None:
        """``rows`` are the candidates by cost."""
        self._session, self._costs = session, costs
        self._of: dict[int, Bundle] = {}
        self.whole: dict[int, Bundle] = {}
        """The bundles that break a gang, by job."""
        table, jobs = session.snapshot.tasks, session.snapshot.jobs
        owners = table.job[rows].astype(np.intp)
        surplus = session.ledger.job_counts[_READY].sum(axis=0) - jobs.min_available
        has_parts = jobs.structured.copy()
        roles = session.snapshot.roles
        has_parts[roles.job[roles.minimum > 0]] = True
        bound = (surplus[owners] >= 0) & ((positions_in_job(owners) >= surplus[owners]) | has_parts[owners])
        for job in np.unique(owners[bound]).tolist():
            members = rows[owners == job].tolist()
            if has_parts[job]:
                self._split(JobView(session.ledger, job), members)
            else:
                self._add_whole_gang(job, members[max(int(surplus[job]), 0) :])

        self.lost_work: Floats = np.zeros(len(table), dtype=np.float64)
        """(T,): the work lost with the bundle of each candidate."""
        self.lost_work[rows] = costs.lost_work(rows)
        for bundle in set(self._of.values()):
            self.lost_work[list(bundle.rows)] = bundle.lost_work

    def of(self, row: int) -> Bundle:
        """Return the bundle of a candidate."""
        known = self._of.get(row)
        if known is None:
            known = self._of[row] = Bundle((row,), float(self._costs.lost_work(np.array([row]))[0]))
        return known

    def work(self, bundles: Iterable[Bundle]) -> float:
        """Return the work lost with these bundles; that of a broken gang counts once."""
        table, bundles = self._session.snapshot.tasks, list(bundles)
        broken = {int(table.job[bundle.rows[0]]) for bundle in bundles if bundle.breaks}
        counted = (bundle for bundle in bundles if bundle.breaks or int(table.job[bundle.rows[0]]) not in broken)
        return sum(bundle.lost_work for bundle in counted)

    def _add_whole_gang(self, job: int, rows: Sequence[int]) -> None:
        """Add the tasks whose eviction breaks the gang as one bundle."""
        if rows:
            members = self._session.snapshot.members(job)
            running = members[HOLDING[self._session.ledger.status[members]]]
            bundle = Bundle(tuple(rows), float(self._costs.lost_work(running).sum()), breaks=True)
            self.whole[job] = bundle
            self._of.update(dict.fromkeys(rows, bundle))

    def _add_bundle(self, rows: Sequence[int]) -> None:
        bundle = Bundle(tuple(rows), float(self._costs.lost_work(np.array(rows)).sum()))
        self._of.update(dict.fromkeys(rows, bundle))

    def _split(self, job: JobView, rows: Sequence[int]) -> None:
        """Add the bundles of a job with role minima or sub-groups: single tasks first, then sub-groups, then the rest."""
        surplus = job.ready_count - job.min_available
        bound = [role for role in job.roles if role.minimum > 0]
        if job.min_available < sum(role.minimum for role in bound):
            bound = []  # the job needs fewer than its roles together: their minima do not bind
        of_role = {role.row: role.ready - role.minimum for role in bound}
        parts = _SpareParts(self._session, job)
        table = self._session.snapshot.tasks
        rest: list[int] = []
        for row in rows:
            role = int(table.role[row])
            if surplus > 0 and of_role.get(role, 1) > 0 and parts.can_spare(row):
                surplus -= 1
                if role in of_role:
                    of_role[role] -= 1
            else:
                rest.append(row)
        for members in parts.spare_parts(rest):
            roles = [int(table.role[row]) for row in members]
            if len(members) <= surplus and all(of_role.get(role, len(roles)) >= roles.count(role) for role in roles):
                surplus -= len(members)
                for role in roles:
                    if role in of_role:
                        of_role[role] -= 1
                self._add_bundle(members)
                rest = [row for row in rest if row not in members]
        self._add_whole_gang(job.row, rest)


class _SpareParts:
    """The surplus of sub-groups of a job: tasks above their size, and sub-groups above the minimum of their policy."""

    def __init__(self, session: Session, job: JobView) -> None:
        self._part_of: dict[int, SubJobView] = {}
        self._above: dict[str, int] = {}
        self._surplus: dict[int, int] = {}
        for number, policy in enumerate(job.group.spec.sub_group_policy):
            parts = (
                [part for part in session.cluster.parts(job) if part.number == number] if policy.min_sub_groups else []
            )
            for part in parts:
                self._part_of.update(dict.fromkeys(part.rows.tolist(), part))
                self._above[part.key] = part.ready_count - part.min_available
            self._surplus[number] = sum(1 for part in parts if part.is_ready) - (policy.min_sub_groups or 0)

    def can_spare(self, row: int) -> bool:
        """Return whether the task is surplus or in a sub-group below its minimum; count it as evicted."""
        part = self._part_of.get(row)
        if part is None or not part.is_ready:
            return True
        above = self._above[part.key] = self._above[part.key] - 1
        return above >= 0

    def spare_parts(self, rows: Iterable[int]) -> Iterable[list[int]]:
        """Yield the sub-groups that the job does not need, of each those of these tasks that are in it."""
        by_part: dict[str, list[int]] = {}
        for row in rows:
            part = self._part_of.get(row)
            if part is not None:
                by_part.setdefault(part.key, []).append(row)
        for members in by_part.values():
            number = self._part_of[members[0]].number
            if self._surplus[number] > 0:
                self._surplus[number] -= 1
                yield members
