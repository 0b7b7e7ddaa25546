"""One search for the cheapest exchange: in which hypernode a job is placed, and which victims are evicted there."""

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volcanopy.api.quantity import counted
from volcanopy.scheduler.actions.evict.candidates import Candidates, Cost, Searches, Trace, equivalence
from volcanopy.scheduler.actions.evict.rejected_requests import RejectedRequest, RejectedRequests, allow_less_for_more
from volcanopy.scheduler.actions.evict.rules import Rule, of_own_queue
from volcanopy.scheduler.actions.evict.victim_search import VictimSearch
from volcanopy.scheduler.actions.gang_need import gang_need
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.messages import short, sum_text
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import HOLDING, Status


@dataclass(frozen=True)
class Exchange:
    """Victims with the reasons and their cost, and the nodes of the job's tasks."""

    cost: Cost
    domain: int
    evicted: tuple[tuple[int, str], ...]
    placed: tuple[tuple[int, int], ...]


class DomainSearch:
    """One search for the cheapest exchange."""

    def __init__(
        self, shared: Searches, statement: Statement, job: JobView, rows: Sequence[int], rules: Sequence[Rule]
    ) -> None:
        session = shared.session
        self._shared = shared
        self._session, self._statement, self._job, self._rules = session, statement, job, rules
        self._table = session.snapshot.hypernodes
        requesting = [row for row in rows if not TaskView(session.ledger, row).best_effort]
        self._first = TaskView(session.ledger, [*requesting, *rows][0])
        self._starts = session.gangs.will_start(job)
        needed, others = gang_need(session, job, requesting)
        self._rows = list(dict.fromkeys([*needed, *others, *rows]))
        self._of_shape = session.hooks.by_cache_key(self._rows)
        lacking = session.gangs.shortfall(job) - job.waiting_count
        self._needed_count = 1 if self._starts else max(1, lacking, len(needed))
        self._jobs = self._key_of(rules)
        self._trace = Trace()
        self._eligible = True
        self._is_unrestricted = False  # Whether the whole cluster was searched at once.
        self.is_feasible = True  # Whether the tasks could be placed if all candidates were gone.

    @cached_property
    def _candidates(self) -> Candidates:
        """Who may be evicted: of jobs that may not evict at all this is not asked."""
        return self._shared.candidates(self._rules, self._first, self._jobs)

    def _key_of(self, rules: Sequence[Rule]) -> Hashable:
        """Return what jobs have in common whose tasks may evict the same candidates; None for one with tasks on nodes."""
        job = self._job
        if self._session.ledger.job_counts[HOLDING, job.row].any() or job.allocated.values.any():
            return None
        return (tuple((rule.reason, rule.victims_of) for rule in rules), *equivalence(self._session, job, ()))

    def apply_cheapest(self, rejected: RejectedRequests) -> bool:
        """Apply the cheapest exchange to the statement; return whether there is one.

        Tasks with ``rejected`` requests are only compared with free resources. The search adds to them.
        """
        needed = [TaskView(self._session.ledger, row) for row in self._rows[: self._needed_count]]
        self._eligible = any(rule.is_eligible(self._job.queue, needed) for rule in self._rules)
        if not self._eligible:
            return False
        room = self._free() + self._candidates.amounts
        self.is_feasible = len(needed) == self._needed_count and self._could_fit(room)
        if not self.is_feasible:
            return False
        # Before a search the plugins are asked only once such a request is known: where victims are found it would cost more.
        if rejected.has_any(self._jobs) and not self._could_fit(self._free()) and self._is_rejected(rejected):
            self._trace.is_tried = True
            return False
        applied = self._apply_cheapest()
        if self._trace.is_rejected_at_once and self._is_unrestricted and len(self._of_shape) == 1:
            self._reject(rejected, self._first)
        elif not applied and self._trace.is_tried and not self._trace.has_evictable:
            self._is_rejected(rejected)
        return applied

    def _is_rejected(self, rejected: RejectedRequests) -> bool:
        """Return whether the plugins allow to evict no candidate for any of the tasks, which do not fit without evictions.

        They are asked if they allow no more when some of the tasks have been placed. Else it is only
        known of requests whose search met no free resources.
        """
        if self._jobs is None:
            return False
        falls = allow_less_for_more(self._session.hooks.victim_policies)
        for shape, rows in self._of_shape.items():
            if rejected.has_shape(self._jobs, shape):
                continue
            if not falls:
                return False
            task = TaskView(self._session.ledger, rows[0])
            if not rejected.has_smaller(self._jobs, shape, self._request(task, self._rules)):
                if self._search_in(self._table.top, Trace()).may_evict(task):
                    return False
                self._reject(rejected, task)
        return True

    def _reject(self, rejected: RejectedRequests, task: TaskView) -> None:
        """Note that the plugins allow to evict no candidate for a task; what all rules do not allow some do not allow either."""
        if self._jobs is not None:
            for rules in (self._rules, of_own_queue(self._rules)):
                shape = self._session.hooks.cache_key(task)
                rejected.add(self._key_of(rules), shape, self._request(task, rules))

    def _request(self, task: TaskView, rules: Sequence[Rule]) -> RejectedRequest:
        eligible = [rule.is_eligible(self._job.queue, [task]) for rule in rules]
        return RejectedRequest(task.request.values, self._session.placement.infeasible_nodes(task), eligible)

    def _apply_cheapest(self) -> bool:
        mark = self._statement.checkpoint()
        best: Exchange | None = None
        is_applied = False  # Whether the statement contains the best exchange.
        domains = self._domains()
        self._is_unrestricted = domains == [self._table.top]
        for position, domain in enumerate(domains):
            self._statement.rollback(mark)
            best, is_applied = self._cheaper(best, domain, position, self._search_in(domain))
        if self._needed_count > 1 and (self._trace.has_evictable if best is None else best.evicted):
            for domain in domains if best is None else [best.domain]:
                if self._candidates.are_few(self._shared.placement(domain).is_in_reach):
                    self._statement.rollback(mark)
                    best, is_applied = self._improved(best, domain, mark), False
        if is_applied:
            return True
        self._statement.rollback(mark)
        for row, reason in best.evicted if best is not None else ():
            self._statement.evict(row, reason)
        for row, node in best.placed if best is not None else ():
            self._statement.pipeline(row, node)
        return best is not None

    def _cheaper(
        self, best: Exchange | None, domain: int, position: int, search: VictimSearch, least: int = 0
    ) -> tuple[Exchange | None, bool]:
        """Return the exchange of a search for ``least`` tasks if its victims cost less, else the best; and whether it does."""
        if self._fill(search, domain) and search.is_allowed() and len(search.placed) >= least:
            cost = (*search.cost, float(self._table.tiers[domain]), float(position))
            if best is None or cost < best.cost:
                return Exchange(cost, domain, tuple(self._statement.evicted), tuple(search.placed)), True
        return best, False

    def _improved(self, best: Exchange | None, domain: int, mark: int) -> Exchange | None:
        """Return an exchange in a hypernode whose victims cost less than those of the best one, if there is one.

        The search chooses victims task by task, the cheapest for each: others may be cheaper for all tasks. They may also be
        the only ones: small victims use up what a queue has above its share.
        """
        placed = self._rows[: self._needed_count] if best is None else [row for row, _ in best.placed]
        for only in self._search_in(domain).cheaper_sets(placed, None if best is None else best.cost):
            best, is_cheaper = self._cheaper(best, domain, 0, self._search_in(domain, only=only), len(placed))
            self._statement.rollback(mark)
            if is_cheaper:
                break
        return best

    def reason(self) -> str:
        """Return the sentence why there is no exchange."""
        action, victims_of = self._shared.action, " or ".join(rule.victims_of for rule in self._rules)
        if not self._eligible:
            queue = self._job.queue
            is_over = self._session.hooks.queue_verdict(queue) is not None
            of_queue = f'queue "{queue.name}" is not under its fair share'
            of_job = f'request exceeds the fair share of queue "{queue.name}"'
            return f"{action}: not eligible to reclaim: {of_queue if is_over else of_job}"
        count = len(self._candidates.rows)
        pods = f"{counted(count, 'pod')} of {victims_of}"
        if not count:
            return f"{action}: no preemption victims in {victims_of}"
        if self._trace.is_preempted_back:
            return f"{action}: preemption rejected: victims could preempt back"
        names, missing = self._session.snapshot.axis.names, self._missing()
        if not self._trace.has_evictable and (missing > 0).any():
            amounts = sum_text([(names[dim], int(missing[dim])) for dim in np.flatnonzero(missing > 0)])
            return f"{action}: still unschedulable after evicting {pods}: {amounts} missing"
        if self._trace.is_tried and not self._trace.has_evictable:
            return self.tie() or f"{action}: {pods} may not be evicted"
        return f"{action}: still unschedulable after evicting {pods}"

    def tie(self) -> str:
        """Return the sentence that another queue would lack as much of its share as this one does; empty if none would."""
        losses, own, jobs = self._shared.costs.losses, self._job.queue, self._session.snapshot.jobs
        lacking = float(losses.lacking(own.row, np.array([self._job.row]))[0])
        breakable = np.flatnonzero(self._candidates.breakable & (jobs.queue != own.row) & (lacking > 0))
        breakable = np.intersect1d(breakable, self._session.snapshot.tasks.job[self._candidates.rows])
        for queue in np.unique(jobs.queue[breakable]).tolist():
            rows = breakable[jobs.queue[breakable] == queue]
            equal = rows[np.abs(losses.lacking(queue, rows) - lacking) < defaults.EQUAL_FRACTIONS]
            if len(equal):
                job = JobView(self._session.ledger, int(equal[0]))
                without = f'{self._shared.action}: without job "{short(job.key)}" queue "{job.queue.name}"'
                equal_share = f'would lack as much of its fair share as queue "{own.name}" does'
                return f'{without} {equal_share}: waits until queue "{own.name}" has more credit'
        return ""

    # Feasibility

    def _could_fit(self, room: Ints) -> bool:
        """Return whether the tasks that must start together could be placed if these (R, N) amounts were free.

        Amounts are compared node by node; tasks whose placements depend on each other are placed on trial.
        """
        session = self._session
        slots, is_coupled = 0, False
        for rows in self._of_shape.values():
            if slots >= self._needed_count and not is_coupled:
                break
            task = TaskView(session.ledger, rows[0])
            request = task.request.values
            dims = np.flatnonzero(request)
            fitting = (room[dims] // request[dims, None]).min(axis=0, initial=len(rows)).clip(min=0)
            fitting[session.placement.infeasible_nodes(task)] = 0
            slots += min(int(fitting.sum()), len(rows))
            is_coupled |= session.hooks.couples_nodes(task)
        return slots >= self._needed_count and (not is_coupled or self._fits_without_candidates())

    def _fits_without_candidates(self) -> bool:
        """Return whether the tasks could be placed with all candidates evicted.

        Round by round each feasible node gets one task: at least as many as in any real placement, where tasks of a round
        may exclude each other.
        """
        session, statement, count = self._session, self._statement, self._needed_count
        mark = statement.checkpoint()
        statement.evict_all(self._candidates.rows[self._candidates.is_evictable[self._candidates.rows]], "")
        waiting = [list(rows) for rows in self._of_shape.values()]
        progress = True
        while count > 0 and progress:
            progress = False
            for rows in filter(None, waiting):
                nodes = session.placement.nodes_later(TaskView(session.ledger, rows[0]))[: len(rows)].tolist()
                for node in nodes:
                    statement.pipeline(rows.pop(), node)
                count -= len(nodes)
                progress |= bool(nodes)
        statement.rollback(mark)
        return count <= 0

    # Domains

    def _domains(self) -> list[int]:
        """Return the hypernodes to try."""
        groups = self._session.hypernodes.groups(self._job, self._table.top, to_evict=True)
        rows = _flat(groups)
        if not len(rows) and not topology.is_hard(self._job.group.spec.network_topology, self._table):
            rows = np.array([self._table.top], dtype=np.intp)
        return self._domains_to_try(rows, self._rows, self._needed_count)

    def _domains_to_try(self, domains: Rows, tasks: Sequence[int], count: int) -> list[int]:
        """Return at most ``maxDomains`` domains that could have enough for ``count`` tasks, those that lack least first."""
        least = self._session.snapshot.least_request(tasks, count)
        dims = np.flatnonzero(least)
        by_node = (self._free(), self._candidates.amounts)
        free, evictable = (self._table.sums(amounts[dims])[:, domains] for amounts in by_node)
        requested = least[dims, None]
        could: Mask = np.all(free + evictable >= requested, axis=0)
        missing = (np.maximum(requested - free, 0) / requested).sum(axis=0)
        order = np.argsort(missing, kind="stable")
        return [int(domains[position]) for position in order if could[position]][: self._shared.most_domains]

    def _free(self) -> Ints:
        """(R, N): what is or will be idle on each node."""
        return np.maximum(self._session.ledger.future, 0)

    def _missing(self) -> Ints:
        """(R,): what the whole cluster lacks with all candidates evicted; at most 0 where it does not."""
        least = self._session.snapshot.least_request(self._rows, self._needed_count)
        return least - self._free().sum(axis=1) - self._candidates.amounts.sum(axis=1)

    # One domain

    def _search_in(self, domain: int, trace: Trace | None = None, only: AbstractSet[int] | None = None) -> VictimSearch:
        trace = self._trace if trace is None else trace
        return VictimSearch(self._shared, self._statement, self._job, self._candidates, domain, trace, only)

    def _fill(self, search: VictimSearch, domain: int) -> bool:
        """Place the tasks that must start together in a domain; of a job that starts already, as many as possible."""

        def enough() -> bool:
            if not self._starts:
                return self._session.gangs.will_start(self._job)
            return len(search.placed) == len(self._rows) or not any(rule.may_ask(self._job) for rule in self._rules)

        if not self._job.group.spec.sub_group_policy:
            return search.fill(self._rows, enough, self._needed_count) or (self._starts and bool(search.placed))
        parts = self._session.gangs.pending_parts(self._job, self._rows, lambda part: part.is_pipelined)
        by_need = sorted(parts, key=lambda entry: not entry[2])  # first those it needs
        waiting = [(part, rows) for part, rows, _ in by_need]
        while waiting and not enough():
            part, rows = waiting.pop(0)
            if self._fill_part(search, part, rows, domain):
                left = [row for row in rows if self._session.ledger.status[row] == Status.PENDING]
                if left:
                    waiting.append((part, left))
        return enough() or (self._starts and bool(search.placed))

    def _fill_part(self, search: VictimSearch, part: SubJobView, rows: Sequence[int], domain: int) -> bool:
        """Place a sub-group, or one more task of a ready one, in the cheapest hypernode within the domain."""
        count = max(1, part.lacking)
        inner_domains = _flat(self._session.hypernodes.groups(part, domain, to_evict=True))
        before, best = len(self._statement.evicted), None
        for position, inner in enumerate(self._domains_to_try(inner_domains, rows, count)):
            mark = self._statement.checkpoint()
            trial = search.within(rows, inner)
            if trial.fill(rows, lambda: len(trial.placed) >= count, count):  # noqa: B023 - called at once
                cost = (*trial.cost, float(self._table.tiers[inner]), float(position))
                if best is None or cost < best[0]:
                    best = cost, trial, inner, self._statement.evicted[before:]
            self._statement.rollback(mark)
        if best is None:
            return False
        search.restrict(rows, best[2])
        search.repeat(best[1], best[3])
        return True


def _flat(groups: Sequence[Rows]) -> Rows:
    """Return the hypernodes of all groups in order, without duplicates."""
    return np.array(list(dict.fromkeys(row for group in groups for row in group.tolist())), dtype=np.intp)
