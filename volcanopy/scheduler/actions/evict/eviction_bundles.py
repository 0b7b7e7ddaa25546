"""In which pieces running jobs can leave: pod by pod as long as the gang stays whole, and beyond that all at once.

A pod above its job's minimum leaves by itself, and so does any pod of a gang that is broken already. A sub-group that its
job can do without leaves together. The rest of a job is its gang: when one of these pods leaves the others have nothing
to do any more, so they leave together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.actions.evict.eviction_cost import Worth
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.task_status import HOLDING, READY
from volcanopy.scheduler.session.session import Session

_READY = np.flatnonzero(READY)


@dataclass(frozen=True)
class Bundle:
    """Pods of one job that leave together."""

    rows: tuple[int, ...]
    work: float
    """The seconds of work that are lost: with a gang that breaks, those of all its pods, wherever they are."""
    breaks: bool = False
    """Whether the job falls below its minimum."""


class Bundles:
    """The bundles of some candidates, the cheapest of each job leaving first; each candidate is in one of them."""

    def __init__(self, session: Session, worth: Worth, rows: Rows) -> None:
        """``rows`` are the candidates, the cheapest first."""
        self._session, self._worth = session, worth
        self._of: dict[int, Bundle] = {}
        self.whole: dict[int, Bundle] = {}
        """The gangs that would break, by job."""
        table, jobs = session.snapshot.tasks, session.snapshot.jobs
        owners = table.job[rows].astype(np.intp)
        surplus = session.ledger.job_counts[_READY].sum(axis=0) - jobs.min_available
        intricate = jobs.structured.copy()
        roles = session.snapshot.roles
        intricate[roles.job[roles.minimum > 0]] = True
        bound = (surplus[owners] >= 0) & ((_nth(owners) >= surplus[owners]) | intricate[owners])
        for job in np.unique(owners[bound]).tolist():
            members = rows[owners == job].tolist()
            if intricate[job]:
                self._divide(JobView(session.ledger, job), members)
            else:
                self._break(job, members[max(int(surplus[job]), 0) :])

        self.losses: Floats = np.zeros(len(table), dtype=np.float64)
        """(T,): the work that is lost when the bundle of each candidate leaves."""
        self.losses[rows] = worth.work(rows)
        for bundle in set(self._of.values()):
            self.losses[list(bundle.rows)] = bundle.work

    def of(self, row: int) -> Bundle:
        """The bundle that a candidate is in."""
        known = self._of.get(row)
        if known is None:
            known = self._of[row] = Bundle((row,), float(self._worth.work(np.array([row]))[0]))
        return known

    def work(self, bundles: Iterable[Bundle]) -> float:
        """The work that is lost with these bundles; of a gang that breaks nothing counts twice."""
        table, bundles = self._session.snapshot.tasks, list(bundles)
        broken = {int(table.job[one.rows[0]]) for one in bundles if one.breaks}
        return sum(one.work for one in bundles if one.breaks or int(table.job[one.rows[0]]) not in broken)

    def _break(self, job: int, rows: Sequence[int]) -> None:
        """These are what keeps the gang whole: they leave together."""
        if rows:
            members = self._session.snapshot.members(job)
            running = members[HOLDING[self._session.ledger.status[members]]]
            bundle = Bundle(tuple(rows), float(self._worth.work(running).sum()), breaks=True)
            self.whole[job] = bundle
            self._of.update(dict.fromkeys(rows, bundle))

    def _together(self, rows: Sequence[int]) -> None:
        bundle = Bundle(tuple(rows), float(self._worth.work(np.array(rows)).sum()))
        self._of.update(dict.fromkeys(rows, bundle))

    def _divide(self, job: JobView, rows: Sequence[int]) -> None:
        """Go through a job with minima of roles or with sub-groups: who can leave without breaking it, leaves alone."""
        surplus = job.ready_count - job.min_available
        bound = [role for role in job.roles if role.minimum > 0]
        if job.min_available < sum(role.minimum for role in bound):
            bound = []  # content with fewer than its roles together, so they do not bind
        of_role = {role.row: role.ready - role.minimum for role in bound}
        parts = _Parts(self._session, job)
        table = self._session.snapshot.tasks
        rest: list[int] = []
        for row in rows:
            role = int(table.role[row])
            if surplus > 0 and of_role.get(role, 1) > 0 and parts.spares(row):
                surplus -= 1
                if role in of_role:
                    of_role[role] -= 1
            else:
                rest.append(row)
        for members in parts.spared(rest):
            roles = [int(table.role[row]) for row in members]
            if len(members) <= surplus and all(of_role.get(role, len(roles)) >= roles.count(role) for role in roles):
                surplus -= len(members)
                for role in roles:
                    if role in of_role:
                        of_role[role] -= 1
                self._together(members)
                rest = [row for row in rest if row not in members]
        self._break(job.row, rest)


class _Parts:
    """What the sub-groups of a job can spare: pods above their size, and sub-groups above the number that is needed."""

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

    def spares(self, row: int) -> bool:
        """Whether the pod can leave without breaking its sub-group, or that is broken already; then it counts as gone."""
        part = self._part_of.get(row)
        if part is None or not part.is_ready:
            return True
        above = self._above[part.key] = self._above[part.key] - 1
        return above >= 0

    def spared(self, rows: Iterable[int]) -> Iterable[list[int]]:
        """Sub-groups that the job can do without, as far as these pods are theirs."""
        found: dict[str, list[int]] = {}
        for row in rows:
            part = self._part_of.get(row)
            if part is not None:
                found.setdefault(part.key, []).append(row)
        for members in found.values():
            number = self._part_of[members[0]].number
            if self._surplus[number] > 0:
                self._surplus[number] -= 1
                yield members


def _nth(owners: Rows) -> Rows:
    """The how manieth of its job each one is, from 0."""
    order = np.argsort(owners, kind="stable")
    ordered = owners[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(owners) else np.empty(0, np.intp)
    nth = np.empty(len(owners), dtype=np.intp)
    nth[order] = np.arange(len(owners)) - np.repeat(starts, np.diff(np.append(starts, len(owners))))
    return nth
