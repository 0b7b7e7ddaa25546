"""Placement of jobs with a network topology or with sub-groups: a search through the domains (hypernodes).

1. Group the feasible domains of the job, lowest tiers first, unless a plugin orders them otherwise.
2. Try the domains of a group by score: place the sub-groups in order, those that the minimum needs first, each in the best
   feasible domain within this one, until the job is ready. Domains whose nodes cannot hold the first of them are left out.
   In a domain where unequal tasks do not fit one by one, try other orders of them (:mod:`.gang_repack`).
3. Take the first domain in which the job becomes ready or pipelined.

A trial that fails is rolled back.
"""

import heapq
from dataclasses import dataclass, replace

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.actions.allocate.gang_repack import Repacking
from volcanopy.scheduler.actions.allocate.job_queues import PendingJob, Placing, run_ends
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.topology_constraint import REASON
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.messages import Message, sum_text
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import Rejection


@dataclass(eq=False, slots=True, kw_only=True)
class _PendingPart(PendingJob):
    """The pending tasks of a sub-group; ``required``: the job needs it to start."""

    part: SubJobView
    required: bool


def place_by_topology(
    session: Session, queue: QueueView, job: JobView, tasks: list[int], is_last: bool = False
) -> list[int]:
    """Place a job, or more of a ready one; return the tasks to consider again, none if the job is not to be.

    A ready job gets one more task or, if it is the last job, as many as its best domain takes.
    """
    search = _Search(session, queue, job, tasks, is_last and session.gangs.is_ready(job))
    with session.statement() as statement:
        left = search.find(statement)
        if left is None:
            search.fit_error.record(search.failed)
            return []
        if session.gangs.is_ready(job):
            session.commit(statement)
            return left
        session.reserve(job, statement)
    return []


class _Search:
    """One search for the placements of a job."""

    def __init__(self, session: Session, queue: QueueView, job: JobView, tasks: list[int], many: bool) -> None:
        self._session, self._queue, self._job, self._many = session, queue, job, many
        self._gangs = session.gangs
        self._table = session.snapshot.hypernodes
        self._pending = self._by_part(tasks)
        self._infeasible: set[tuple[str, int]] = set()
        """Sub-groups with domains in which they do not fit even when placed first."""
        self._too_small: dict[tuple[str, int], tuple[int, _PendingPart]] = {}
        """Those with domains that cannot hold them, by the number of pods that fit on their nodes; they were not tried."""
        self._capacities: dict[str, Ints] = {}
        self.failed: TaskView | None = None  # The task without a feasible node in the domain that took most tasks.
        self.fit_error = TopologyFitError(session, job)

    def _by_part(self, tasks: list[int]) -> list[_PendingPart]:
        gangs, job = self._gangs, self._job
        return [
            _PendingPart(
                job, rows, run_ends(self._session, np.array(rows, dtype=np.intp)), part=part, required=required
            )
            for part, rows, required in gangs.pending_parts(job, tasks, lambda part: gangs.is_ready(job, part))
        ]

    def find(self, statement: Statement) -> list[int] | None:
        """Place the job in the first domain where it can start, and return the tasks left over; None if there is none."""
        for group in self._session.hypernodes.groups(self._job, self._table.top):
            for domain in self._by_score(group):
                left = self._within(statement, domain)
                if left is not None:
                    return left
        # The reason names the domain that takes most tasks, which may be one that was not tried.
        self.fit_error.is_late = True
        for (_, domain), (capacity, pending) in sorted(self._too_small.items(), key=lambda entry: -entry[1][0]):
            if capacity <= self.fit_error.most:
                break
            self._fill(statement, replace(pending), domain)
            statement.rollback()
        return None

    def _by_score(self, group: Rows) -> list[int]:
        """Return the domains in descending order of the sum of their scores for the sub-groups."""
        scores = np.zeros(len(group), dtype=np.float64)
        for pending in self._pending:
            scores += self._session.hypernodes.scores(pending.part, group)
        return group[np.argsort(-scores, kind="stable")].tolist()

    def _within(self, statement: Statement, domain: int) -> list[int] | None:
        """Place the job in a domain, and return the tasks left over; None, with nothing placed, if it cannot start there."""
        session, gangs, job = self._session, self._gangs, self._job
        heap = [self._entry(replace(pending)) for pending in self._pending]
        heapq.heapify(heap)
        while heap:
            pending = heapq.heappop(heap)[-1]
            if not self._part_within(statement, pending, domain):
                continue
            if pending.left:
                heapq.heappush(heap, self._entry(pending))
            if gangs.is_ready(job):
                break
        if len(statement) and (gangs.is_ready(job) or gangs.is_pipelined(job)):
            return [task for entry in heap for task in entry[-1].rest]
        statement.rollback()
        # Sub-groups that may run anywhere can take each other's nodes, although the whole gang fits.
        if self._many or len(self._pending) < 2 or any(pending.part.topology for pending in self._pending):
            return None
        tasks = [task for pending in self._pending for task in pending.tasks]
        left = Repacking(session, self._queue, job, statement, session.placement_in(domain)).place(tasks)
        parts = [pending.part for pending in self._pending if not set(pending.tasks).issubset(left)]
        if parts and all(gangs.is_ready(job, part) for part in parts):
            return left
        statement.rollback()
        return None

    def _entry(self, pending: _PendingPart) -> tuple[bool, tuple[object, ...], int, _PendingPart]:
        part = pending.part
        key = (self._gangs.subjob_key(part), part.order, part.key)
        return (not pending.required, key, pending.tasks[pending.at], pending)

    def _part_within(self, statement: Statement, pending: _PendingPart, domain: int) -> bool:
        """Place a sub-group in the feasible domain within ``domain`` that has the highest score; return whether it is placed."""
        first = not len(statement)
        for group in self._session.hypernodes.groups(pending.part, domain):
            left = self._large_enough(pending, group) if first and pending.part.key in self._capacities else group
            while len(left):
                scores = self._session.hypernodes.scores(pending.part, left)
                best = int(scores.argmax())
                inner = int(left[best])
                key = (pending.part.key, inner)
                if not (first and key in self._infeasible) and self._fill(statement, pending, inner):
                    return True
                left = np.delete(left, best)
                if first:
                    self._infeasible.add(key)
                    # The first one is tried whatever its size: so the queue is asked what it may allocate of each kind.
                    left = self._large_enough(pending, left)
        return False

    def _large_enough(self, pending: _PendingPart, group: Rows) -> Rows:
        """Return the domains whose nodes have what a sub-group needs to start, by free and freed resources alone."""
        part = pending.part
        capacities = self._capacities.get(part.key)
        if capacities is None:
            capacities = self._capacities[part.key] = self._capacities_for(pending)
        is_enough = capacities[group] >= self._gangs.placements_needed(part)
        for domain in group[~is_enough].tolist():
            self._too_small.setdefault((part.key, domain), (int(capacities[domain]), pending))
        return group[is_enough]

    def _capacities_for(self, pending: _PendingPart) -> Ints:
        """(H,): how many pods fit in each domain at most, each of the least that any pending task requests."""
        session, count = self._session, len(pending.tasks)
        least = session.snapshot.requests(pending.tasks).min(axis=1)
        dims = np.flatnonzero(least)
        of_nodes = np.minimum.reduce(session.ledger.future[dims] // least[dims, None], axis=0, initial=count)
        return self._table.sums(np.maximum(of_nodes, 0)[None])[0]

    def _fill(self, statement: Statement, pending: _PendingPart, domain: int) -> bool:
        """Place a sub-group on the nodes of one hypernode; return False, with nothing changed, if it cannot start there."""
        session, gangs, job, part = self._session, self._gangs, self._job, pending.part

        def reject(task: TaskView, placed: int) -> None:
            if self.fit_error.add(domain, placed):
                self.failed = task

        placement, mark, at = session.placement_in(domain), statement.checkpoint(), pending.at
        placing = Placing(session, self._queue, statement, placement, self._many, reject, part)
        if placing.place(pending) and (gangs.is_ready(job, part) or gangs.is_pipelined(job, part)):
            return True
        statement.rollback(mark)
        pending.at = at
        tasks = pending.rest
        is_uniform = pending.is_uniform and not session.hooks.couples_nodes(TaskView(session.ledger, tasks[0]))
        if self._many or is_uniform:
            return False
        left = Repacking(session, self._queue, job, statement, placement, part).place(tasks)
        pending.tasks, pending.at = left, 0
        pending.ends = run_ends(session, np.array(left, dtype=np.intp)) if left else []
        return len(left) < len(tasks)


class TopologyFitError:
    """The domain that took most tasks of a job, and the reason made of it why none takes the job."""

    def __init__(self, session: Session, job: JobView) -> None:
        self._session, self._job = session, job
        self._table = session.snapshot.hypernodes
        self._best = (-1, NONE)  # The most tasks that found a place in one domain, and that domain.
        self.is_late = False  # Whether domains are tried out of their order, after all others.

    @property
    def most(self) -> int:
        """The most tasks that were placed in one domain; -1 before the first."""
        return self._best[0]

    def add(self, domain: int, placed: int) -> bool:
        """Record how many tasks were placed in a domain; return whether that is more than in any domain before."""
        (most, best), tiers = self._best, self._table.tiers
        # A domain that is tried late may precede the best one in the order in which domains are tried.
        precedes = self.is_late and (int(tiers[domain]), domain) < (int(tiers[best]), best)
        if placed < most or (placed == most and not precedes):
            return False
        self._best = (placed, domain)
        return True

    def record(self, failed: TaskView | None) -> None:
        """Reject the job: by the nodes for the task that failed, by a sub-group without enough pods, or by its topology."""
        session, job, spec = self._session, self._job, self._job.group.spec
        required = (spec.network_topology, *(policy.network_topology for policy in spec.sub_group_policy))
        hard = any(topology.is_hard(each, self._table) for each in required)
        fitted = max(self._best[0], 0)
        short = next((part for part in session.cluster.parts(job) if part.valid_count < part.min_available), None)
        if failed is not None and (not hard or (not fitted and self._fits_nowhere(failed))):
            session.reject_nodes(job, failed, fitted)
        elif failed is None and short is not None:
            name, numbers = short.key.rpartition("/")[2], f"{short.valid_count}/{short.min_available}"
            session.reject(job, Rejection(Gate.GANG, Message(f'sub-group "{name}": {numbers} required pods created')))
        elif hard:
            session.reject(job, Rejection(Gate.TOPOLOGY, self._message(fitted)))

    def _fits_nowhere(self, task: TaskView) -> bool:
        """Return whether no node is feasible for the task, whatever its hypernode."""
        rejections = self._session.hooks.reject(task, self._session.cluster.nodes())
        is_confined = any(rejection.reason == REASON for rejection in rejections)
        return not is_confined and self._session.placement.choose(task) is None

    def _message(self, fitted: int) -> Message:
        table, job = self._table, self._job
        asked = job.group.spec.network_topology
        tier = topology.bound(asked, table)
        if tier is None or not topology.is_hard(asked, table):
            return self._closest("no hypernode fits each sub-group", fitted, table.top, NONE)
        spanned = self._session.cluster.spanned(job.tasks())
        if spanned != NONE and table.widest(spanned, tier) == NONE:
            where = "they are in no common hypernode" if spanned == table.top else f"they span {self._name(spanned)}"
            return self._with_faults(
                f"running pods of the job exceed highestTierAllowed {tier}: {where}",
                {"tier": str(tier), "spanned": str(table.tiers[spanned])},
                "end of the pods outside one hypernode of that tier",
            )
        root = table.top if spanned == NONE else table.widest(spanned, tier)
        if not len(table.below(root, tier)):
            return self._with_faults(
                f"no hypernode of tier {tier} or lower exists", {"tier": str(tier)}, "creating a hypernode"
            )
        count = max(1, self._session.gangs.shortfall(job))
        pods = "the pod" if count == 1 else f"the {count} pods that must start together"
        if root == table.top:
            what = f"no hypernode of tier {tier} or lower fits {pods}"
        else:
            what = f"{self._name(root)}, where pods of the job run, does not fit {pods}"
        return self._closest(what, fitted, root, tier)

    def _closest(self, what: str, fitted: int, root: int, tier: int) -> Message:
        """The sentence with what comes closest: the domain in which most found a place, else the one that lacks least."""
        table = self._table
        numbers = {} if tier == NONE else {"tier": str(tier)}
        inside = root != table.top
        if fitted:
            name = self._name(self._best[1])
            if inside and self._best[1] == root:
                return self._with_faults(
                    f"{what}: it fits {fitted}", numbers | {"fits": str(fitted)}, f"free resources in {name}"
                )
            numbers |= {"closest": table.names[self._best[1]], "fits": str(fitted)}
            return self._with_faults(
                f"{what}: {name} is closest and fits {fitted}", numbers, f"free resources in {name}"
            )
        domains = np.array([root]) if inside else table.below(root, int(table.tiers[-1]) if tier == NONE else tier)
        tasks, count = self._job.tasks(Status.PENDING), max(1, self._session.gangs.shortfall(self._job))
        request = self._session.snapshot.least_request(tasks, count)
        dims = np.flatnonzero(request)
        missing = np.maximum(request[dims, None] - table.sums(self._session.ledger.future)[np.ix_(dims, domains)], 0)
        closest = int((missing / request[dims, None]).sum(axis=0).argmin())
        name = self._name(int(domains[closest]))
        names = self._session.snapshot.axis.names
        gaps = sum_text(
            [(names[dim], units) for dim, units in zip(dims, missing[:, closest].tolist(), strict=True) if units]
        )
        numbers["closest"] = table.names[int(domains[closest])]
        it = "it" if inside else f"{name} is closest and"
        if gaps:
            return self._with_faults(f"{what}: {it} lacks {gaps}", numbers, f"release of {gaps} in {name}")
        return self._with_faults(f"{what}: {it} has no fitting node", numbers, f"free resources on a node of {name}")

    def _with_faults(self, message: str, numbers: dict[str, str], unblocked_by: str) -> Message:
        faults = self._table.faults
        if faults:
            message += f"; {faults[0]}"
            message += f", {len(faults) - 1} more ignored" if len(faults) > 1 else ""
        return Message(message, numbers, {}, unblocked_by)

    def _name(self, domain: int) -> str:
        return "the whole cluster" if domain == self._table.top else f'hypernode "{self._table.names[domain]}"'
