"""Evictions for one job, by need: its minimum whole, or as many more tasks as possible of a job that has its minimum.

1. List the hypernodes that the topology of the job allows (without one the whole cluster), those that lack least first.
2. In each, place the tasks that must start together, those for the minima of roles first, and evict bundles by cost where
   necessary; then restore what is not needed.
3. Take the hypernode with the cheapest victims, of equals the closest one. If there is none, nothing is evicted.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from volcanopy.api import quantity
from volcanopy.scheduler.actions.allocate.topology_search import gradient
from volcanopy.scheduler.actions.evict.candidates import Candidates, Domains
from volcanopy.scheduler.actions.evict.counter_evictions import CounterEvictions
from volcanopy.scheduler.actions.evict.eviction_bundles import Cost
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.rules import Rule, all_rules
from volcanopy.scheduler.actions.evict.victim_search import Trace, VictimSearch
from volcanopy.scheduler.actions.gang_need import gang_need, idle_tasks
from volcanopy.scheduler.framework.plugin import Arguments, Purpose, Scope
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.session.session import Session


class GangArguments(Arguments):
    """The number of hypernodes that are tried, and whether gangs may be broken; the cache cannot be switched off."""

    most_domains: int = Field(8, alias="maxDomains", ge=1)
    whole: bool = Field(True, alias="allowWholeBundle")
    cache: bool = Field(True, alias="predicateErrorCacheEnable")


ARGUMENTS = tuple(field.alias or name for name, field in GangArguments.model_fields.items())


@dataclass(frozen=True)
class Exchange:
    """Victims with the reasons and their cost, and the nodes of the job's tasks."""

    cost: Cost
    evicted: tuple[tuple[int, str], ...]
    placed: tuple[tuple[int, int], ...]


@dataclass
class _Failures:
    """The jobs, by what distinguishes them, for which no victims were found, with the reason; valid until an eviction."""

    evictions: int = 0
    reasons: dict[object, str] = field(default_factory=dict)


class GangEviction:
    """The evictions of one action in one session."""

    def __init__(self, session: Session, action: str, arguments: GangArguments, queue: QueueView) -> None:
        """``queue``: any queue with waiting jobs."""
        self.session, self.action, self.arguments = session, action, arguments
        self.costs = EvictionCosts(session)
        self.domains = Domains(session)
        self.counter = CounterEvictions(session, self.costs, all_rules(session, self.costs, queue))
        self._failures = session.state(_Failures)
        self._infeasible: dict[Hashable, Mask] = {}

    def infeasible_nodes(self, task: TaskView) -> Mask:
        """(N,): the nodes on which a task cannot run, whatever is evicted there."""
        session = self.session
        if not session.hooks.rejections_are_static(task):
            return session.placement.infeasible_nodes(task)
        key = session.hooks.cache_key(task)
        known = self._infeasible.get(key)
        if known is None:
            known = self._infeasible[key] = session.placement.infeasible_nodes(task)
        return known

    def evict_for(self, job: JobView, tasks: Rows, rules: Sequence[Rule]) -> None:
        """Evict for the minimum of a job or, if it has that, for more tasks.

        A job equal to one for which no victims were found since the last eviction is not tried.
        """
        session = self.session
        pending = [row for row in tasks.tolist() if session.ledger.status[row] == Status.PENDING]
        eligible = [row for row in pending if session.snapshot.tasks.pods[row].spec.preemption_policy != "Never"]
        if not eligible:
            if pending:
                self._note(job, f"{self.action}: not eligible: preemptionPolicy is Never")
            return
        if self._failures.evictions != len(session.ledger.evictions):
            self._failures.evictions = len(session.ledger.evictions)
            self._failures.reasons.clear()
        key = self._key(job, eligible, rules)
        reason = self._failures.reasons.get(key)
        if reason is None:
            reason = self._evict(job, eligible, rules)
            if not reason:
                return
            self._failures.reasons[key] = reason
        self._note(job, reason)

    def _evict(self, job: JobView, rows: Sequence[int], rules: Sequence[Rule]) -> str:
        """Apply the cheapest exchange for these tasks; if there is none, return the reason."""
        session = self.session
        session.attempts[self.action] += 1
        own_queue = [rule for rule in rules if rule.order is None]
        with session.statement() as statement:
            search = _DomainSearch(self, statement, job, rows, rules)
            exchange = search.cheapest()
            if exchange is None and search.is_feasible and 0 < len(own_queue) < len(rules):
                # perhaps its queue may not reclaim all that it needs
                search = _DomainSearch(self, statement, job, rows, own_queue)
                exchange = search.cheapest()
            if exchange is None:
                return search.reason()
            for row, reason in exchange.evicted:
                statement.evict(row, reason)
            for row, node in exchange.placed:
                statement.pipeline(row, node)
            if exchange.evicted:
                session.commit(statement, job.key)
                for row, _ in exchange.evicted:
                    session.evicted_for[int(session.snapshot.tasks.job[row])] = job.queue.name
            elif not _allocates_later(session, self.action):  # else allocate places what fits without evictions
                session.reserve(job, statement)
        return ""

    def _note(self, job: JobView, reason: str) -> None:
        """Explain to the user of an action for gangs why nothing was evicted."""
        if self.action.startswith("gang"):
            self.session.rejections.note(job.row, reason)

    def _key(self, job: JobView, rows: Sequence[int], rules: Sequence[Rule]) -> object:
        session = self.session
        distinct = session.snapshot.jobs.structured[job.row] or any(role.minimum > 0 for role in job.roles)
        distinct |= any(rule.victims_of == "the job itself" for rule in rules) and job.ready_count > 0
        lacking = job.min_available - job.ready_count - job.waiting_count
        names = tuple((rule.reason, rule.victims_of) for rule in rules)
        idle = tuple(session.hooks.cache_key(TaskView(session.ledger, row)) for row in idle_tasks(session, job))
        return (names, job.row if distinct else None, lacking, len(rows), idle, *_equivalence(session, job, rows))


class _DomainSearch:
    """One search for the cheapest exchange."""

    def __init__(
        self, eviction: GangEviction, statement: Statement, job: JobView, rows: Sequence[int], rules: Sequence[Rule]
    ) -> None:
        session = eviction.session
        self._eviction = eviction
        self._session, self._statement, self._job, self._rules = session, statement, job, rules
        self._table = session.snapshot.hypernodes
        requesting = [row for row in rows if not TaskView(session.ledger, row).best_effort]
        first = TaskView(session.ledger, [*requesting, *rows][0])
        self._candidates = Candidates(session, eviction.costs, rules, first, eviction.arguments.whole)
        self._starts = session.hooks.will_start(job)
        need = gang_need(session, job, requesting)
        self._rows = [*need.idle, *need.members, *need.others]
        listed = set(self._rows)
        self._rows += [row for row in rows if row not in listed]
        lacking = session.hooks.shortfall(job) - job.waiting_count
        self._needed_count = 1 if self._starts else max(1, lacking, len(need.idle) + len(need.members))
        self._trace = Trace()
        self._eligible = True
        self.is_feasible = True
        """Whether the tasks could be placed if all candidates were gone."""

    def cheapest(self) -> Exchange | None:
        """Return the cheapest exchange, None if there is none; the ledger is unchanged."""
        needed = [TaskView(self._session.ledger, row) for row in self._rows[: self._needed_count]]
        self._eligible = any(rule.is_eligible(self._job.queue, needed) for rule in self._rules)
        self.is_feasible = len(needed) == self._needed_count and self._could_fit()
        if not self._eligible or not self.is_feasible:
            return None
        best: Exchange | None = None
        for bound, position, domain in self._domains():
            if best is not None and bound > best.cost[:3]:
                break
            mark = self._statement.checkpoint()
            search = self._search_in(domain)
            if self._fill(search, domain) and search.finish():
                cost = (*search.cost, float(self._table.tiers[domain]), float(position))
                if best is None or cost < best.cost:
                    best = Exchange(cost, tuple(self._statement.evicted), tuple(search.placed))
            self._statement.rollback(mark)
        return best

    def reason(self) -> str:
        """Return the sentence why there is no exchange."""
        action, victims_of = self._eviction.action, " or ".join(rule.victims_of for rule in self._rules)
        count = len(self._candidates.rows)
        pods = f"{'1 pod' if count == 1 else f'{count} pods'} of {victims_of}"
        if not self._eligible:
            queue = self._job.queue
            is_over = self._session.hooks.overused(queue) is not None
            of_queue = f'queue "{queue.name}" is not under its fair share'
            of_job = f'request exceeds the fair share of queue "{queue.name}"'
            return f"{action}: not eligible to reclaim: {of_queue if is_over else of_job}"
        if not count:
            return f"{action}: no preemption victims in {victims_of}"
        if self._trace.is_preempted_back:
            return f"{action}: preemption rejected: victims could preempt back"
        if not self._trace.has_evictable and not self._has_capacity():
            return f"{action}: still unschedulable after evicting {pods}: {self._missing_amounts()} missing"
        if self._trace.is_tried and not self._trace.has_evictable:
            return f"{action}: {pods} may not be evicted"
        return f"{action}: still unschedulable after evicting {pods}"

    # Feasibility

    def _could_fit(self) -> bool:
        """Return whether the tasks that must start together could be placed if all candidates were gone.

        Amounts are compared node by node; tasks whose placements depend on each other are placed on trial.
        """
        session = self._session
        room = self._free() + self._candidates.amounts()
        slots, is_coupled = 0, False
        of_shape: dict[Hashable, list[TaskView]] = {}
        for row in self._rows:
            task = TaskView(session.ledger, row)
            of_shape.setdefault(session.hooks.cache_key(task), []).append(task)
        for tasks in of_shape.values():
            if slots >= self._needed_count and not is_coupled:
                break
            request = tasks[0].request.values
            dims = np.flatnonzero(request)
            fitting = (room[dims] // request[dims, None]).min(axis=0, initial=len(tasks)).clip(min=0)
            fitting[self._eviction.infeasible_nodes(tasks[0])] = 0
            slots += min(int(fitting.sum()), len(tasks))
            is_coupled |= session.hooks.scope(tasks[0]) is Scope.CLUSTER
        return slots >= self._needed_count and (not is_coupled or self._fits_without_candidates(of_shape.values()))

    def _fits_without_candidates(self, of_shape: Iterable[list[TaskView]]) -> bool:
        """Return whether the tasks could be placed with all candidates evicted, given the tasks by shape.

        Round by round each feasible node gets one task: at least as many as in any real placement, where tasks of a round
        may exclude each other.
        """
        session, statement, count = self._session, self._statement, self._needed_count
        mark = statement.checkpoint()
        for row in self._candidates.rows[~self._candidates.is_bound[self._candidates.rows]].tolist():
            statement.evict(row, "")
        waiting = [list(tasks) for tasks in of_shape]
        progress = True
        while count > 0 and progress:
            progress = False
            for tasks in waiting:
                nodes = session.placement.nodes_later(tasks[0])[: len(tasks)].tolist() if tasks else []
                for node in nodes:
                    statement.pipeline(tasks.pop().row, node)
                count -= len(nodes)
                progress |= bool(nodes)
        statement.rollback(mark)
        return count <= 0

    # Domains

    def _domains(self) -> list[tuple[Cost, int, int]]:
        """Return the hypernodes to try by lower bound of their cost: the bound, the position by lack, the hypernode."""
        groups = gradient(self._session, self._job, self._table.top, Purpose.EVICT)
        rows = _flat(groups)
        if not len(rows) and not topology.is_hard(self._job.group.spec.network_topology, self._table):
            rows = np.array([self._table.top], dtype=np.intp)
        least = self._least_request(self._rows, self._needed_count)
        free = self._table.sums(self._free())
        domains = enumerate(self._domains_to_try(rows, least))
        bound, nodes = self._candidates.bound, self._eviction.domains.nodes
        return sorted((bound(nodes(domain), least - free[:, domain]), position, domain) for position, domain in domains)

    def _domains_to_try(self, domains: Rows, least: Ints) -> list[int]:
        """Return the domains that could have enough with evictions, those that lack least first, at most ``maxDomains``."""
        free, evictable = self._table.sums(self._free()), self._table.sums(self._candidates.amounts())
        dims = np.flatnonzero(least)
        requested, cells = least[dims, None], np.ix_(dims, domains)
        could: Mask = np.all(free[cells] + evictable[cells] >= requested, axis=0)
        missing = (np.maximum(requested - free[cells], 0) / requested).sum(axis=0)
        order = np.argsort(missing, kind="stable")
        return [int(domains[position]) for position in order if could[position]][
            : self._eviction.arguments.most_domains
        ]

    def _free(self) -> Ints:
        """(R, N): what is or will be idle on each node."""
        return np.maximum(self._session.ledger.future, 0)

    def _least_request(self, rows: Iterable[int], count: int) -> Ints:
        """(R,): a lower bound of the request of ``count`` of the tasks."""
        snapshot = self._session.snapshot
        requests = np.sort(snapshot.shapes.request.values[:, snapshot.tasks.shape[list(rows)]], axis=1)
        least: Ints = requests[:, :count].sum(axis=1)
        return least

    def _missing(self) -> Ints:
        """(R,): what the whole cluster lacks with all candidates evicted; at most 0 where it does not."""
        least = self._least_request(self._rows, self._needed_count)
        missing: Ints = least - self._free().sum(axis=1) - self._candidates.amounts().sum(axis=1)
        return missing

    def _has_capacity(self) -> bool:
        return bool((self._missing() <= 0).all())

    def _missing_amounts(self) -> str:
        names, missing = self._session.snapshot.axis.names, self._missing()
        short = [f"{quantity.text(names[dim], int(missing[dim]))} {names[dim]}" for dim in np.flatnonzero(missing > 0)]
        return " and ".join(short)

    # One domain

    def _search_in(self, domain: int) -> VictimSearch:
        eviction = self._eviction
        return VictimSearch(
            self._session,
            self._statement,
            self._job,
            eviction.costs,
            self._candidates,
            eviction.domains,
            domain,
            eviction.counter,
            self._trace,
        )

    def _is_enough(self, search: VictimSearch) -> Callable[[], bool]:
        """Return the predicate whether the job starts; of a job that starts already, whether all its tasks are placed."""
        if self._starts:
            return lambda: (
                len(search.placed) == len(self._rows) or not any(rule.may_ask(self._job) for rule in self._rules)
            )
        return lambda: self._session.hooks.will_start(self._job)

    def _fill(self, search: VictimSearch, domain: int) -> bool:
        """Place the tasks that must start together in a domain; of a job that starts already, as many as possible."""
        enough = self._is_enough(search)
        if not self._job.group.spec.sub_group_policy:
            return search.fill(self._rows, enough, self._needed_count) or (self._starts and bool(search.placed))
        waiting = self._parts()
        while waiting and not enough():
            part, rows = waiting.pop(0)
            if self._fill_part(search, part, rows, domain):
                left = [row for row in rows if self._session.ledger.status[row] == Status.PENDING]
                if left:
                    waiting.append((part, left))
        return enough() or (self._starts and bool(search.placed))

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

    def _fill_part(self, search: VictimSearch, part: SubJobView, rows: Sequence[int], domain: int) -> bool:
        """Place a sub-group, or one more task of a ready one, in the cheapest hypernode within the domain."""
        count = max(1, part.shortfall - part.waiting_count)
        inner_domains = _flat(gradient(self._session, part, domain, Purpose.EVICT))
        before, best = len(self._statement.evicted), None
        least = self._least_request(rows, count)
        for position, inner in enumerate(self._domains_to_try(inner_domains, least)):
            mark = self._statement.checkpoint()
            trial = self._search_in(domain)
            trial.follow(search)
            trial.restrict(rows, inner)
            if trial.fill(rows, lambda: len(trial.placed) >= count, count):  # noqa: B023 - called at once
                trial.record(before)
                cost = (*trial.cost, float(self._table.tiers[inner]), float(position))
                if best is None or cost < best[0]:
                    best = cost, trial, inner
            self._statement.rollback(mark)
        if best is None:
            return False
        search.restrict(rows, best[2])
        search.repeat(best[1])
        return True


def _flat(groups: Sequence[Rows]) -> Rows:
    """Return the hypernodes of all groups in order, without duplicates."""
    return np.array(list(dict.fromkeys(row for group in groups for row in group.tolist())), dtype=np.intp)


def _allocates_later(session: Session, action: str) -> bool:
    """Return whether allocate runs after this action: then tasks that fit without evictions are left to it."""
    actions = session.config.actions
    return action in actions and "allocate" in actions[actions.index(action) :]


def _equivalence(session: Session, job: JobView, tasks: Iterable[int]) -> tuple[Hashable, ...]:
    """Return a key that is equal for jobs for which the same evictions are possible, given how many tasks they lack."""
    return (
        job.queue.row,
        None if session.limits is None else session.limits.limit_class(job.row),
        job.priority,
        job.preemptable,
        job.allocated.values.tobytes(),
        frozenset(session.hooks.cache_key(TaskView(session.ledger, row)) for row in tasks),
    )
