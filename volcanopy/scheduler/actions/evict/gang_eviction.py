"""Evictions of gangpreempt and gangreclaim for one gang: whole bundles, in one hypernode.

1. List the hypernodes that the topology of the gang allows (without one the whole cluster), those that lack least first.
2. In each, evict bundles by cost until all tasks that must start together are placed, then restore what is not needed.
3. Take the hypernode with the cheapest victims, of equals the closest one. If there is none, nothing is evicted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from volcanopy.api import quantity
from volcanopy.scheduler.actions.allocate.topology_search import gradient
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.gang_victim_search import Domains, GangCandidates, GangVictimSearch
from volcanopy.scheduler.actions.evict.starving_jobs import allocates_later, equivalence
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
    """The number of hypernodes that are tried, and whether gangs may be broken; the cache cannot be switched off."""

    most_domains: int = Field(8, alias="maxDomains", ge=1)
    whole: bool = Field(True, alias="allowWholeBundle")
    cache: bool = Field(True, alias="predicateErrorCacheEnable")


Eligible = Callable[[Sequence[TaskView]], bool]
ARGUMENTS = tuple(field.alias or name for name, field in GangArguments.model_fields.items())


@dataclass(frozen=True)
class Exchange:
    """Victims with their cost, and the nodes of the gang's tasks."""

    cost: Cost
    evicted: tuple[int, ...]
    placed: tuple[tuple[int, int], ...]


class GangEviction:
    """The evictions of one action in one session."""

    def __init__(self, session: Session, arguments: GangArguments) -> None:
        self.session = session
        self.arguments = arguments
        self.costs = EvictionCosts(session)
        self._domains = Domains(session)
        self._failed: dict[object, str] = {}

    def evict_for(self, job: JobView, tasks: Rows, rule: Rule, is_eligible: Eligible) -> None:
        """Evict for a job until it lacks no tasks or no further victims are found.

        ``is_eligible`` returns whether evictions for these tasks together are allowed.
        A job equal to one for which no victims were found since the last eviction is not tried.
        """
        session = self.session
        rows = [row for row in tasks.tolist() if not TaskView(session.ledger, row).best_effort]
        eligible = [row for row in rows if session.snapshot.tasks.pods[row].spec.preemption_policy != "Never"]
        if rows and not eligible:
            session.rejections.note(job.row, f"{rule.reason}: not eligible: preemptionPolicy is Never")
        while eligible and session.hooks.job_starving(job):
            key = self._key(job, eligible, rule)
            if key not in self._failed:
                reason = self._evict_once(job, eligible, rule, is_eligible)
                if reason:
                    self._failed[key] = reason
            if key in self._failed:
                session.rejections.note(job.row, self._failed[key])
                return
            left = [row for row in eligible if session.ledger.status[row] == Status.PENDING]
            if len(left) == len(eligible):
                return  # it fits without evictions: allocate places it
            eligible = left

    def _evict_once(self, job: JobView, rows: Sequence[int], rule: Rule, is_eligible: Eligible) -> str:
        """Apply the cheapest exchange for the tasks that must start together; if there is none, return the reason."""
        session = self.session
        session.attempts[rule.reason] += 1
        with session.statement() as statement:
            search = _DomainSearch(self, statement, job, rows, rule, is_eligible, self._domains)
            exchange = search.cheapest()
            if exchange is None:
                return search.reason()
            for row in exchange.evicted:
                statement.evict(row, rule.reason)
            for row, node in exchange.placed:
                statement.pipeline(row, node)
            if exchange.evicted:
                session.commit(statement, job.key)
                self._failed.clear()
            elif not allocates_later(session, rule.reason):
                session.reserve(job, statement)
        return ""

    def _key(self, job: JobView, rows: Sequence[int], rule: Rule) -> object:
        session = self.session
        distinct = session.snapshot.jobs.structured[job.row] or any(role.minimum > 0 for role in job.roles)
        lacking = job.min_available - job.ready_count - job.waiting_count
        return (rule.reason, job.row if distinct else None, lacking, len(rows), *equivalence(session, job, rows))


class _DomainSearch:
    """One search for the cheapest exchange."""

    def __init__(
        self,
        eviction: GangEviction,
        statement: Statement,
        job: JobView,
        rows: Sequence[int],
        rule: Rule,
        is_eligible: Eligible,
        domains: Domains,
    ) -> None:
        session = eviction.session
        self._session, self._statement, self._job, self._rows = session, statement, job, rows
        self._rule, self._is_eligible, self._all_domains = rule, is_eligible, domains
        self._costs, self._arguments = eviction.costs, eviction.arguments
        self._table = session.snapshot.hypernodes
        first = TaskView(session.ledger, rows[0])
        self._candidates = GangCandidates(session, self._costs, rule, first, domains, self._arguments.whole)
        self._starts = session.hooks.will_start(job)
        self._eligible = True
        self._is_tried = self._has_evictable = self._is_preempted_back = False

    def cheapest(self) -> Exchange | None:
        """Return the cheapest exchange, None if there is none; the ledger is unchanged."""
        needed = self._by_need()[: self._needed_count()]
        self._eligible = self._is_eligible([TaskView(self._session.ledger, row) for row in needed])
        if not self._eligible:
            return None
        best: Exchange | None = None
        for bound, position, domain in self._domains():
            if best is not None and bound > best.cost[:2]:
                break
            mark = self._statement.checkpoint()
            search = self._search_in(domain)
            if self._fill(search, domain) and search.finish():
                cost = (*search.cost, float(self._table.tiers[domain]), float(position))
                if best is None or cost < best.cost:
                    best = Exchange(cost, tuple(search.victims), tuple(search.placed))
            self._record(search)
            self._statement.rollback(mark)
        return best

    def reason(self) -> str:
        """Return the sentence why there is no exchange."""
        action, victims_of = self._rule.reason, self._rule.victims_of
        count = len(self._candidates.rows)
        pods = f"{'1 pod' if count == 1 else f'{count} pods'} of {victims_of}"
        if not self._eligible:
            queue = self._job.queue.name
            return f'{action}: not eligible to reclaim: request exceeds the deserved share of queue "{queue}"'
        if not count:
            return f"{action}: no preemption victims in {victims_of}"
        if self._is_preempted_back:
            return f"{action}: preemption rejected: victims could preempt back"
        if not self._has_evictable and not self._has_capacity():
            return f"{action}: still unschedulable after evicting {pods}: {self._missing_amounts()} missing"
        if self._is_tried and not self._has_evictable:
            return f"{action}: {pods} may not be evicted"
        return f"{action}: still unschedulable after evicting {pods}"

    def _record(self, search: GangVictimSearch) -> None:
        self._is_tried = True
        self._has_evictable |= search.has_evictable
        self._is_preempted_back |= search.is_preempted_back

    # Domains

    def _domains(self) -> list[tuple[Cost, int, int]]:
        """Return the hypernodes to try by lower bound of their cost: the bound, the position by lack, the hypernode."""
        groups = gradient(self._session, self._job, self._table.top, Purpose.EVICT)
        rows = _flat(groups)
        if not len(rows) and not topology.is_hard(self._job.group.spec.network_topology, self._table):
            rows = np.array([self._table.top], dtype=np.intp)
        least = self._least_request(self._rows, self._needed_count())
        free = self._table.sums(self._free())
        domains = enumerate(self._domains_to_try(rows, least))
        bound = self._candidates.bound
        return sorted((bound(domain, least - free[:, domain]), position, domain) for position, domain in domains)

    def _needed_count(self) -> int:
        """Return how many tasks must be placed together."""
        return 1 if self._starts else max(1, self._session.hooks.shortfall(self._job) - self._job.waiting_count)

    def _domains_to_try(self, domains: Rows, least: Ints) -> list[int]:
        """Return the domains that could have enough with evictions, those that lack least first, at most ``maxDomains``."""
        free, evictable = self._table.sums(self._free()), self._table.sums(self._evictable_amounts())
        dims = np.flatnonzero(least)
        requested, cells = least[dims, None], np.ix_(dims, domains)
        could: Mask = np.all(free[cells] + evictable[cells] >= requested, axis=0)
        missing = (np.maximum(requested - free[cells], 0) / requested).sum(axis=0)
        order = np.argsort(missing, kind="stable")
        return [int(domains[position]) for position in order if could[position]][: self._arguments.most_domains]

    def _free(self) -> Ints:
        """(R, N): what is or will be idle on each node."""
        return np.maximum(self._session.ledger.future, 0)

    def _evictable_amounts(self) -> Ints:
        """(R, N): the requests of the candidates on each node."""
        snapshot, sums = self._session.snapshot, np.zeros_like(self._session.ledger.future)
        rows = self._candidates.rows
        np.add.at(sums.T, self._session.ledger.node[rows], snapshot.shapes.request.values.T[snapshot.tasks.shape[rows]])
        return sums

    def _least_request(self, rows: Iterable[int], count: int) -> Ints:
        """(R,): a lower bound of the request of ``count`` of the tasks."""
        snapshot = self._session.snapshot
        requests = np.sort(snapshot.shapes.request.values[:, snapshot.tasks.shape[list(rows)]], axis=1)
        least: Ints = requests[:, :count].sum(axis=1)
        return least

    def _missing(self) -> Ints:
        """(R,): what the whole cluster lacks with all candidates evicted; at most 0 where it does not."""
        least = self._least_request(self._rows, self._needed_count())
        missing: Ints = least - self._free().sum(axis=1) - self._evictable_amounts().sum(axis=1)
        return missing

    def _has_capacity(self) -> bool:
        return bool((self._missing() <= 0).all())

    def _missing_amounts(self) -> str:
        names, missing = self._session.snapshot.axis.names, self._missing()
        short = [f"{quantity.text(names[dim], int(missing[dim]))} {names[dim]}" for dim in np.flatnonzero(missing > 0)]
        return " and ".join(short)

    # One domain

    def _search_in(self, domain: int) -> GangVictimSearch:
        return GangVictimSearch(
            self._session,
            self._statement,
            self._job,
            self._rule,
            self._costs,
            self._candidates,
            self._all_domains,
            domain,
        )

    def _fill(self, search: GangVictimSearch, domain: int) -> bool:
        """Place the tasks that must start together in a domain; of a ready job one more task or sub-group."""

        def enough() -> bool:
            return bool(search.placed) if self._starts else self._session.hooks.will_start(self._job)

        if not self._job.group.spec.sub_group_policy:
            return search.fill(self._by_need(), enough)
        waiting = self._parts()
        while waiting and not enough():
            part, rows = waiting.pop(0)
            if self._fill_part(search, part, rows, domain):
                left = [row for row in rows if self._session.ledger.status[row] == Status.PENDING]
                if left:
                    waiting.append((part, left))
        return enough()

    def _by_need(self) -> list[int]:
        """Return the tasks in order, first those that the minima of roles need."""
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
        """Return the sub-groups with their pending tasks, first those that the job needs."""
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

    def _fill_part(self, search: GangVictimSearch, part: SubJobView, rows: Sequence[int], domain: int) -> bool:
        """Place a sub-group, or one more task of a ready one, in the cheapest hypernode within the domain."""
        count = max(1, part.shortfall - part.waiting_count)
        inner_domains = _flat(gradient(self._session, part, domain, Purpose.EVICT))
        before, best = len(self._statement.evicted), None
        cheapest = -1
        least = self._least_request(rows, count)
        for position, inner in enumerate(self._domains_to_try(inner_domains, least)):
            mark = self._statement.checkpoint()
            trial = self._search_in(domain)
            trial.restrict(rows, inner)
            if trial.fill(rows, lambda: len(trial.placed) >= count):  # noqa: B023 - called at once
                cost = (*trial.cost, float(self._table.tiers[inner]), float(position))
                if best is None or cost < best.cost:
                    best, cheapest = Exchange(cost, tuple(trial.victims[before:]), tuple(trial.placed)), inner
            self._record(trial)
            self._statement.rollback(mark)
        if best is None:
            return False
        search.restrict(rows, cheapest)
        search.repeat(best.evicted, best.placed)
        return True


def _flat(groups: Sequence[Rows]) -> Rows:
    """Return the hypernodes of all groups in order, without duplicates."""
    return np.array(list(dict.fromkeys(row for group in groups for row in group.tolist())), dtype=np.intp)
