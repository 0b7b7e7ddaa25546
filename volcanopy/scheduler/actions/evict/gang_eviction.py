"""What gangpreempt and gangreclaim share: a gang's turn to have the room of whole bundles, in one domain of the network.

Every hypernode in which the gang may be is tried (without demands on the network that is the whole cluster): bundles
leave, the cheapest first, until all that must start together has its place; then each bundle that can stay after all
stays. The domain whose exchange is cheapest is taken, of equals the closest. If there is none, nobody leaves.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from volcanopy.api import quantity
from volcanopy.scheduler.actions.allocate.topology_search import gradient
from volcanopy.scheduler.actions.evict.eviction_cost import Worth
from volcanopy.scheduler.actions.evict.gang_victim_search import GangRoom, Prey, Reach
from volcanopy.scheduler.actions.evict.victim_search import Cost, Rule
from volcanopy.scheduler.framework.plugin import Arguments, Purpose
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session


class GangArguments(Arguments):
    """In how many domains a gang is tried, and whether gangs may be broken; the last has nothing to switch here."""

    most_domains: int = Field(8, alias="maxDomains", ge=1)
    whole: bool = Field(True, alias="allowWholeBundle")
    cache: bool = Field(True, alias="predicateErrorCacheEnable")


Claim = Callable[[Sequence[TaskView]], bool]
ARGUMENTS = tuple(field.alias or name for name, field in GangArguments.model_fields.items())


@dataclass(frozen=True)
class Found:
    """An exchange: what it costs, who leaves, and where the gang's tasks go."""

    cost: Cost
    evicted: tuple[int, ...]
    placed: tuple[tuple[int, int], ...]


class Turns:
    """The turns of one action in one session."""

    def __init__(self, session: Session, arguments: GangArguments) -> None:
        self.session = session
        self.arguments = arguments
        self.worth = Worth(session)
        self._reach = Reach(session)
        self._failed: dict[object, str] = {}

    def take(self, job: JobView, tasks: Rows, rule: Rule, claim: Claim) -> None:
        """Let bundles leave for a job until it lacks nothing or nothing more is found; each exchange is whole.

        ``claim`` says whether the queue may take room from others for these tasks together.
        A job that is in every respect like one for which nothing was found since the last eviction is not tried.
        """
        session = self.session
        rows = [row for row in tasks.tolist() if not TaskView(session.ledger, row).best_effort]
        willing = [row for row in rows if session.snapshot.tasks.pods[row].spec.preemption_policy != "Never"]
        if rows and not willing:
            self.note(job, f"{rule.reason} leaves it alone: its pods never preempt")
        while willing and session.hooks.job_starving(job):
            key = self._key(job, willing, rule)
            if key not in self._failed:
                said = self._exchange(job, willing, rule, claim)
                if said:
                    self._failed[key] = said
            if key in self._failed:
                self.note(job, self._failed[key])
                return
            left = [row for row in willing if session.ledger.status[row] == Status.PENDING]
            if len(left) == len(willing):
                return  # it fits without evictions, and has its turn later
            willing = left

    def _exchange(self, job: JobView, rows: Sequence[int], rule: Rule, claim: Claim) -> str:
        """Make the cheapest exchange for what must start together; a sentence why not if there is none."""
        session = self.session
        session.attempts[rule.reason] += 1
        with session.statement() as statement:
            search = _Search(session, statement, job, rows, rule, claim, self.worth, self._reach, self.arguments)
            found = search.cheapest()
            if found is None:
                return search.why()
            for row in found.evicted:
                statement.evict(row, rule.reason)
            for row, node in found.placed:
                statement.pipeline(row, node)
            if found.evicted:
                session.commit(statement, job.key)
                self._failed.clear()
            elif not self._allocates_later(rule.reason):
                session.reserve(job, statement)
        return ""

    def note(self, job: JobView, said: str) -> None:
        """Remember why the action does not help a job."""
        self.session.rejections.note(job.row, said)

    def _allocates_later(self, action: str) -> bool:
        """Whether tasks that fit without evictions still get their turn: then they are left alone here."""
        actions = self.session.config.actions
        return action in actions and "allocate" in actions[actions.index(action) :]

    def _key(self, job: JobView, rows: Sequence[int], rule: Rule) -> object:
        session = self.session
        likeness = session.hooks.likeness
        by_itself = session.snapshot.jobs.structured[job.row] or any(role.minimum > 0 for role in job.roles)
        kinds = {likeness(TaskView(session.ledger, row)) for row in rows}
        lacking = job.min_available - job.ready_count - job.waiting_count
        limited = None if session.limits is None else session.limits.limit_class(job.row)
        standing = (job.queue.row, limited, job.priority, job.preemptable, job.allocated.values.tobytes(), lacking)
        return (rule.reason, job.row if by_itself else None, *standing, len(rows), frozenset(kinds))


class _Search:
    """One search for a gang's room."""

    def __init__(
        self,
        session: Session,
        statement: Statement,
        job: JobView,
        rows: Sequence[int],
        rule: Rule,
        claim: Claim,
        worth: Worth,
        reach: Reach,
        arguments: GangArguments,
    ) -> None:
        self._session, self._statement, self._job, self._rows = session, statement, job, rows
        self._rule, self._claim, self._worth, self._reach, self._arguments = rule, claim, worth, reach, arguments
        self._table = session.snapshot.hypernodes
        self._prey = Prey(session, worth, rule, TaskView(session.ledger, rows[0]), reach, arguments.whole)
        self._starts = session.hooks.will_start(job)
        self._denied = ""
        self._given_up = self._avenged = False

    def cheapest(self) -> Found | None:
        """The exchange to make, if there is one; the ledger is as before."""
        needed = self._by_need()[: 1 if self._starts else self._lacking()]
        if not self._claim([TaskView(self._session.ledger, row) for row in needed]):
            self._denied = f"{self._rule.reason} is not for it: queue {self._job.queue.name} has no claim to so much"
            return None
        best: Found | None = None
        for bound, place, domain in self._domains():
            if best is not None and bound > best.cost[:2]:
                break
            mark = self._statement.checkpoint()
            room = self._room(domain)
            if self._fill(room, domain) and room.settle():
                cost = (*room.cost, float(self._table.tiers[domain]), float(place))
                if best is None or cost < best.cost:
                    best = Found(cost, tuple(room.victims), tuple(room.placed))
            self._learn(room)
            self._statement.rollback(mark)
        return best

    def why(self) -> str:
        """Why there is none."""
        action, among = self._rule.reason, self._rule.among
        count = len(self._prey.rows)
        pods = f"{action} could evict {'1 pod' if count == 1 else f'{count} pods'} of {among}"
        if self._denied:
            return self._denied
        if not count:
            return f"{action} finds no pod of {among} that may be evicted"
        if self._avenged:
            return f"{pods}, but those could take the room back at once"
        if not self._given_up and not self._could_do():
            return f"{pods}, and {self._gaps()} would still be missing"
        if not self._given_up:
            return f"{pods}, but none of them may leave for it"
        return f"{pods}, and it would find no place all the same"

    def _learn(self, room: GangRoom) -> None:
        self._given_up |= room.given_up
        self._avenged |= room.avenged

    # Domains

    def _domains(self) -> list[tuple[Cost, int, int]]:
        """The hypernodes to try the job in, the cheapest first: the bound of their cost, their place, and which they are.

        Places are given to those that lack least first; what has none within the number of domains to try is left out.
        """
        groups = gradient(self._session, self._job, self._table.top, Purpose.EVICT)
        rows = _flat(groups)
        if not len(rows) and not topology.is_hard(self._job.group.spec.network_topology, self._table):
            rows = np.array([self._table.top], dtype=np.intp)
        least = self._least(self._rows, 1 if self._starts else self._lacking())
        there = self._table.sums(self._free())
        places = enumerate(self._promising(rows, least))
        return sorted((self._prey.bound(one, least - there[:, one]), place, one) for place, one in places)

    def _lacking(self) -> int:
        return max(1, self._session.hooks.shortfall(self._job) - self._job.waiting_count)

    def _promising(self, domains: Rows, least: Ints) -> list[int]:
        """The domains that could have the room, those that lack least first; no more than are to be tried."""
        there, more = self._table.sums(self._free()), self._table.sums(self._held())
        dims = np.flatnonzero(least)
        wanted, where = least[dims, None], np.ix_(dims, domains)
        could: Mask = np.all(there[where] + more[where] >= wanted, axis=0)
        missing = (np.maximum(wanted - there[where], 0) / wanted).sum(axis=0)
        order = np.argsort(missing, kind="stable")
        return [int(domains[place]) for place in order if could[place]][: self._arguments.most_domains]

    def _free(self) -> Ints:
        """(R, N): the room of each node that is free, or will be."""
        return np.maximum(self._session.ledger.future, 0)

    def _held(self) -> Ints:
        """(R, N): the room that those who may leave have."""
        snapshot, held = self._session.snapshot, np.zeros_like(self._session.ledger.future)
        rows = self._prey.rows
        np.add.at(held.T, self._session.ledger.node[rows], snapshot.shapes.request.values.T[snapshot.tasks.shape[rows]])
        return held

    def _least(self, rows: Iterable[int], count: int) -> Ints:
        """(R,): what ``count`` of the tasks ask for at least."""
        snapshot = self._session.snapshot
        requests = np.sort(snapshot.shapes.request.values[:, snapshot.tasks.shape[list(rows)]], axis=1)
        least: Ints = requests[:, :count].sum(axis=1)
        return least

    def _could_do(self) -> bool:
        least = self._least(self._rows, 1 if self._starts else self._lacking())
        return bool((self._free().sum(axis=1) + self._held().sum(axis=1) >= least).all())

    def _gaps(self) -> str:
        least = self._least(self._rows, 1 if self._starts else self._lacking())
        missing = least - self._free().sum(axis=1) - self._held().sum(axis=1)
        names = self._session.snapshot.axis.names
        short = [f"{quantity.text(names[dim], int(missing[dim]))} {names[dim]}" for dim in np.flatnonzero(missing > 0)]
        return " and ".join(short)

    # One domain

    def _room(self, domain: int) -> GangRoom:
        return GangRoom(
            self._session, self._statement, self._job, self._rule, self._worth, self._prey, self._reach, domain
        )

    def _fill(self, room: GangRoom, domain: int) -> bool:
        """Place what must start together in a domain; of a job that runs already one task more, or one sub-group."""

        def enough() -> bool:
            return bool(room.placed) if self._starts else self._session.hooks.will_start(self._job)

        if not self._job.group.spec.sub_group_policy:
            return room.fill(self._by_need(), enough)
        waiting = self._parts()
        while waiting and not enough():
            part, rows = waiting.pop(0)
            if self._fill_part(room, part, rows, domain):
                left = [row for row in rows if self._session.ledger.status[row] == Status.PENDING]
                if left:
                    waiting.append((part, left))
        return enough()

    def _by_need(self) -> list[int]:
        """The tasks in order, those first that roles lack for their minimum."""
        roles = [role for role in self._job.roles if role.minimum > 0]
        if self._job.min_available < sum(role.minimum for role in roles):
            return list(self._rows)
        lacking = {role.row: role.minimum - role.ready - role.pipelined for role in roles}
        first: list[int] = []
        for row in self._rows:
            role = int(self._session.snapshot.tasks.role[row])
            if lacking.get(role, 0) > 0:
                lacking[role] -= 1
                first.append(row)
        needed = set(first)
        return first + [row for row in self._rows if row not in needed]

    def _parts(self) -> list[tuple[SubJobView, list[int]]]:
        """The sub-groups with their waiting tasks: those first that the job needs."""
        hooks, parts = self._session.hooks, self._session.cluster.parts(self._job)
        lacking = {
            number: (policy.min_sub_groups or 0)
            - sum(1 for part in parts if part.number == number and part.is_pipelined)
            for number, policy in enumerate(self._job.group.spec.sub_group_policy)
        }
        first: list[tuple[SubJobView, list[int]]] = []
        rest: list[tuple[SubJobView, list[int]]] = []
        for part in sorted(parts, key=lambda part: (hooks.subjob_order(part), part.order, part.key)):
            members = set(part.rows.tolist())
            rows = [row for row in self._rows if row in members]
            needed = not part.is_pipelined and lacking.get(part.number, 0) > 0
            if needed:
                lacking[part.number] -= 1
            if rows:
                (first if needed else rest).append((part, rows))
        return first + rest

    def _fill_part(self, room: GangRoom, part: SubJobView, rows: Sequence[int], domain: int) -> bool:
        """Place a sub-group, or one task more of one that runs, in the part of the domain where that is cheapest."""
        count = max(1, part.shortfall - part.waiting_count)
        places = _flat(gradient(self._session, part, domain, Purpose.EVICT))
        before, best = len(self._statement.evicted), None
        closest = -1
        for place, within in enumerate(self._promising(places, self._least(rows, count))):
            mark = self._statement.checkpoint()
            trial = self._room(domain)
            trial.confine(rows, within)
            if trial.fill(rows, lambda: len(trial.placed) >= count):  # noqa: B023 - asked at once
                cost = (*trial.cost, float(self._table.tiers[within]), float(place))
                if best is None or cost < best.cost:
                    best, closest = Found(cost, tuple(trial.victims[before:]), tuple(trial.placed)), within
            self._learn(trial)
            self._statement.rollback(mark)
        if best is None:
            return False
        room.confine(rows, closest)
        room.adopt(best.evicted, best.placed)
        return True


def _flat(groups: Sequence[Rows]) -> Rows:
    """The hypernodes of all groups, each once, in order."""
    return np.array(list(dict.fromkeys(row for group in groups for row in group.tolist())), dtype=np.intp)
