"""The state of one scheduling cycle: the snapshot, the ledger, the combined plugins, and the decisions so far.

Actions work on a session; plugins never see it. Its decisions are collected as effects.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.engine.alternatives import Alternatives
from volcanopy.scheduler.engine.gangs import Gangs
from volcanopy.scheduler.engine.job_order import JobOrders
from volcanopy.scheduler.engine.network_topology import Hypernodes
from volcanopy.scheduler.engine.node_selection import Placement
from volcanopy.scheduler.engine.queue_limits import QueueLimits
from volcanopy.scheduler.engine.rejections import Rejections
from volcanopy.scheduler.engine.reservations import Reservation
from volcanopy.scheduler.engine.session_policies import installed
from volcanopy.scheduler.engine.shares.queue_demand import lacking_of_jobs, unplaceable
from volcanopy.scheduler.engine.shares.quotas import Quotas
from volcanopy.scheduler.ledger.cluster import Cluster, PluginQueries
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.extender_port import Extender
from volcanopy.scheduler.model.messages import QuotaMessage, closed, with_job_names
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.plan import Bind, Effect, Evict
from volcanopy.scheduler.model.resources import Mask, Rows
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.observer import NO_OBSERVER, Observer
from volcanopy.scheduler.policy.plugin import Rejection
from volcanopy.scheduler.policy.roles import CardRanking, CardSharing, ClaimAssignment, Moment, Purpose

T = TypeVar("T")
_NO_MOVES: Mapping[int, int] = MappingProxyType({})


class Session:
    """What the actions of one cycle and the report share."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfig,
        observer: Observer = NO_OBSERVER,
        extender: Extender | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.config = config
        self.observer = observer
        self.ledger = Ledger(snapshot)
        self.cluster = Cluster(self.ledger, extender)
        tiers = installed(config, self.cluster, observer)
        self.plugins = [plugin for tier in tiers for plugin, _ in tier]
        self.hooks = Hooks(tiers, self.cluster.reads)
        self.limits = self.hooks.first_policy(QueueLimits)
        """The limits of queues on jobs, users and groups; None if no queue has any."""
        self.reservations = self.hooks.first_policy(Reservation, "enableReservedNodes")
        """The reservations of waiting jobs; None if these are not configured."""
        reserving = frozenset if self.reservations is None else self.reservations.jobs_with_reserved_nodes
        self.quotas = Quotas(self.hooks, reserving)
        """What queues may be allocated."""
        self.gangs = Gangs(self.cluster, config, self.hooks)
        self.hypernodes = Hypernodes(self.cluster, self.hooks)
        self.card_sharing = self.hooks.first_policy(CardSharing)  # type: ignore[type-abstract]
        self.claims = self.hooks.first_policy(ClaimAssignment)  # type: ignore[type-abstract]
        packing = self.hooks.first_policy(CardRanking)  # type: ignore[type-abstract]
        if packing is not None:
            self.cluster.packs_resources = packing.packs_resources
        self.cluster.queries = _queries(self)
        self.effects: list[Effect] = []
        orders = snapshot.queues.terms.orders
        self._orders = None if orders is None else JobOrders(self.ledger, orders, self.waiting, self._configured_keys)
        self.alternatives = Alternatives(self.ledger, self.cluster)
        """The alternatives of waiting jobs."""
        self.rejections = Rejections()
        self.attempts: Counter[str] = Counter()
        """How often each evicting action searched victims for a job, by the reason of its evictions."""
        self.evicted_for: dict[int, str] = {}
        """The jobs with pods that are evicted for a job, each with the queue of the last of these jobs."""
        self.reserved: dict[int, list[tuple[Rows, Rows]]] = {}
        """The tasks of jobs that cannot start yet with their reserved nodes, by job."""
        self._unsettled: tuple[Rows | None, Rows] = None, np.empty(0, dtype=np.intp)  # all, and those that take part
        self.moves: dict[int, int] = {}
        """The evicted tasks for which resources of another node are reserved, each with that node."""

    def end(self) -> None:
        """Let go of the parts of the session, which refer to each other; it cannot be used any more.

        Its tables, and those of the snapshot, would else stay until the garbage collector runs: with 50,000 pods these are
        several MiB in each cycle.
        """
        for part in (*self.plugins, self.hooks, self.cluster.reads, self.cluster, self.ledger, self):
            vars(part).clear()

    @property
    def job_rows(self) -> Rows:
        """The jobs that take part: those with a pod group, in a queue that exists."""
        return self.cluster.job_rows()

    @cached_property
    def placement(self) -> Placement:
        """Selects nodes: made when the first task is to be placed."""
        return Placement(self.ledger, self.hooks)

    def placement_in(self, hypernode: int) -> Placement:
        """Return what selects among the nodes of a hypernode."""
        table = self.snapshot.hypernodes
        return self.placement if hypernode == table.top else Placement(self.ledger, self.hooks, table.nodes(hypernode))

    @once
    def state(self, kind: type[T]) -> T:
        """Return the state of this type that an action keeps during the session; made without arguments at first use."""
        return kind()

    def waiting_jobs(self) -> list[JobView]:
        """Return the jobs that are not admitted yet or have pending tasks, except those in held queues."""
        return [JobView(self.ledger, row) for row in self.waiting().tolist()]

    def valid_in_order(self, jobs: Iterable[JobView]) -> list[JobView]:
        """Return those of some jobs that have enough members to take part, in the order of queues and jobs."""
        rows = np.array([job.row for job in jobs], dtype=np.intp)
        invalid = self.gangs.invalid_jobs(rows)
        rows = np.array([row for row in rows.tolist() if row not in invalid], dtype=np.intp)
        if not len(rows):
            return []
        queues = self.snapshot.jobs.queue[rows].tolist()
        queue_keys = {queue: self.queue_key(self.cluster.queue(queue)) for queue in dict.fromkeys(queues)}
        ordered = sorted(zip([queue_keys[queue] for queue in queues], self.keys_of(rows), rows.tolist(), strict=True))
        return [JobView(self.ledger, row) for *_, row in ordered]

    def unsettled_jobs(self) -> Rows:
        """Return the rows of the jobs that take part and are unsettled or were changed by the session."""
        rows = self.ledger.unsettled_jobs
        if rows is not self._unsettled[0]:
            self._unsettled = rows, self.cluster.taking_part(rows)
        return self._unsettled[1]

    def unadmitted(self) -> Rows:
        """Return the rows of the waiting jobs that are not admitted yet."""
        rows = self.waiting()
        return rows[self.ledger.unadmitted[rows]]

    def waiting(self) -> Rows:
        """Return the rows of :meth:`waiting_jobs`."""
        counts, rows = self.ledger.job_counts, self.unsettled_jobs()
        if not len(rows):
            return rows
        waiting: Rows = rows[self.ledger.unadmitted[rows] | (counts[Status.PENDING.value, rows] > 0)]
        stops = self.snapshot.queues.terms.stops
        if stops is not None:
            waiting = waiting[~stops.held[self.snapshot.jobs.queue[waiting]]]
        return waiting

    def queue_key(self, queue: QueueView, *, admission: bool = False) -> tuple[object, ...]:
        """Return the sort key of a queue: the plugins' keys, age, name; for ``admission`` what was admitted is allocated."""
        # A key for admission may be the first to compute the reservations, which need keys of the other kind.
        before, self.cluster.admission = self.cluster.admission, admission
        key = (self.hooks.queue(queue), queue.created, queue.name)
        self.cluster.admission = before
        return key

    def job_key(self, job: JobView) -> tuple[object, ...]:
        """Return the sort key of a job within its queue: by the order that the queue sets, the plugins' keys, age, name."""
        return self.keys_of(self.ledger.single(job.row))[0]

    def keys_of(self, jobs: Rows) -> list[tuple[object, ...]]:
        """Return the :meth:`job_key` of each of these jobs, given by their rows."""
        if self._orders is None:
            return self._configured_keys(jobs)
        return [(first, *key) for first, key in zip(self._orders.of(jobs), self._configured_keys(jobs), strict=True)]

    def _configured_keys(self, jobs: Rows) -> list[tuple[object, ...]]:
        table = self.snapshot.jobs
        return self.hooks.job_keys(jobs, table.created[jobs], table.keys[jobs])

    def ordered(self, tasks: Rows) -> Rows:
        """Return task rows in their order within a job: by the plugins' keys, ordinal, age, name."""
        if len(tasks) < 2:
            return tasks
        table = self.snapshot.tasks
        names = table.keys[tasks].astype(np.str_)
        ordinal = table.ordinal[tasks]
        numberless = ordinal < 0
        keys = self.hooks.tasks(tasks)
        return tasks[np.lexsort((names, table.created[tasks], ordinal, numberless, *reversed(keys)))]

    def pending_tasks(self) -> dict[int, Rows]:
        """Return the tasks that can be placed now, in order, by job: pending, not gated, and requesting something."""
        table, rows = self.snapshot.tasks, self.pending()
        return self.by_job(rows[~self.snapshot.shapes.best_effort[table.shape[rows]]])

    def pending(self) -> Rows:
        """Return the rows of the pending tasks that are not gated."""
        rows = self.ledger.unsettled_tasks
        if not len(rows):
            return rows
        return rows[(self.ledger.status[rows] == Status.PENDING.value) & ~self.snapshot.tasks.gated[rows]]

    def by_job(self, tasks: Rows) -> dict[int, Rows]:
        """Return task rows in order, by job."""
        if not len(tasks):
            return {}
        ordered = self.ordered(tasks)
        jobs = self.snapshot.tasks.job[ordered]
        if (jobs == jobs[0]).all():
            return {int(jobs[0]): ordered}
        grouped = np.argsort(jobs, kind="stable")
        ordered, jobs = ordered[grouped], jobs[grouped]
        own, starts = np.unique(jobs, return_index=True)
        bounds = [*starts.tolist(), len(jobs)]
        return {job: ordered[start:end] for job, (start, end) in zip(own.tolist(), pairwise(bounds), strict=True)}

    def statement(self) -> Statement:
        """Return a new statement: operations that are carried out together or not at all."""
        return Statement(self.ledger)

    def commit(
        self, statement: Statement, preemptor: str = "", cause: str = "", moves: Mapping[int, int] = _NO_MOVES
    ) -> None:
        """Add the binds and evictions of a statement to the plan.

        Evictions are for the job ``preemptor``, or have another ``cause``, a sentence. ``moves`` are the nodes where
        resources are reserved for evicted tasks.
        """
        self.moves |= moves
        group_of = self.snapshot.jobs.keys
        table = self.snapshot.tasks
        for task, reason in statement.evicted:
            key, group = str(table.keys[task]), str(group_of[table.job[task]])
            message = cause or (with_job_names(f'{reason}: evicted for job "{preemptor}"') if preemptor else "")
            moved_to = self.snapshot.nodes.names[moves[task]] if task in moves else ""
            self.effects.append(Evict(key, reason, group, message, preemptor, moved_to))
        for tasks, nodes in statement.placed:
            self.effects.extend(self._binds(tasks, nodes))
        jobs = {int(table.job[tasks[0]]) for tasks, _ in statement.placed} if self.reserved else set[int]()
        statement.commit()
        for row in sorted(jobs & self.reserved.keys()):
            # Resources were reserved for the others when they could not start alone: now they can.
            job = JobView(self.ledger, row)
            if self.gangs.is_ready(job):
                self.bind_reserved(job)

    def cancel_evictions(self, statement: Statement, tasks: Iterable[int]) -> None:
        """Keep a statement that restores evicted tasks, and take their evictions out of the plan."""
        table = self.snapshot.tasks
        keys = {str(table.keys[task]) for task in tasks}
        self.effects = [effect for effect in self.effects if not (isinstance(effect, Evict) and effect.pod in keys)]
        evicted = {int(table.job[task]) for task in self.ledger.evictions}
        self.evicted_for = {job: queue for job, queue in self.evicted_for.items() if job in evicted}
        statement.keep()

    def bind(self, task: int, node: int) -> bool:
        """Bind a task at once if that makes its job ready, as a statement of this one operation would; return whether.

        The task needs no annotations or claims.
        """
        table, jobs, ledger = self.snapshot.tasks, self.snapshot.jobs, self.ledger
        job = int(table.job[task])
        ledger.move(task, Status.BINDING, node)
        if not self.gangs.is_ready(JobView(ledger, job)):
            ledger.move(task, Status.PENDING)
            return False
        self.effects.append(Bind(table.keys[task], self.snapshot.nodes.names[node], str(jobs.keys[job])))
        if job in self.reserved:
            self.bind_reserved(JobView(self.ledger, job))
        return True

    def reserve(self, job: JobView, statement: Statement) -> None:
        """Keep the placements of a job that cannot start yet as reservations of this session, outside the plan."""
        self.reserved.setdefault(job.row, []).extend(statement.placed)
        statement.keep()

    def bind_reserved(self, job: JobView) -> None:
        """Bind the reserved placements of a job that can start after all."""
        for tasks, nodes in self.reserved.pop(job.row, []):
            self.effects.extend(self._binds(tasks, nodes))
            self.ledger.relabel(tasks, Status.ALLOCATED, Status.BINDING)

    def enqueue(self, job: JobView) -> None:
        """Admit a job: its pods are created, and its minimal resources are reserved in its queue."""
        self._admit(job)
        least = job.min_resources
        too_large = self.snapshot.too_large[job.row] and job.row not in self.ledger.alternatives
        if least is not None and not too_large and not self.snapshot.blocked[job.row]:
            gated = self.snapshot.gated[:, job.row]  # gates may never be removed: nothing is reserved for gated pods
            self.ledger.reserve(job.queue.row, np.maximum(least.values - gated, 0))
        self.hooks.verdict(job, Moment.ENQUEUED)
        if self.reservations is not None:
            self.reservations.enqueued(job)

    def admit_without_enqueue(self, job: JobView) -> bool:
        """Admit a job where no enqueue action is configured; return whether the limits allow it."""
        rejection = None if self.limits is None else self.limits.exceeds_job_count(job)
        if not job.queue.is_open and not job.count(Status.BOUND, Status.RUNNING):
            rejection = Rejection(Gate.QUEUE, closed(job.queue.name))
        if rejection is not None:
            self.reject(job, rejection)
            return False
        if alternatives := self.alternatives.of(job):
            self.ledger.consider(
                job.row, self.alternatives.first_to_finish(job, [(each, None) for each in alternatives])
            )
        self._admit(job)
        return True

    def _admit(self, job: JobView) -> None:
        if job.row in self.ledger.alternatives:
            self.alternatives.admitted(job, self.ledger.alternatives[job.row][0])
        self.ledger.admit(job.row)

    def _binds(self, tasks: Rows, nodes: Rows) -> Sequence[Bind]:
        table, names = self.snapshot.tasks, self.snapshot.nodes.names
        group = str(self.snapshot.jobs.keys[table.job[tasks[0]]])
        claiming = table.shape[tasks[0]] in self.snapshot.shapes.claiming
        if not claiming and "annotate" in self.hooks.unanswered:
            pairs = zip(table.keys[tasks].tolist(), nodes.tolist(), strict=True)
            return [Bind(key, names[node], group) for key, node in pairs]
        views = [TaskView(self.ledger, row) for row in tasks.tolist()]
        locks = () if self.card_sharing is None else self.card_sharing.bind_locks(views[0])
        binds = []
        for task, key, node in zip(views, table.keys[tasks].tolist(), nodes.tolist(), strict=True):
            claims = self.claims.bind_claims(task) if claiming and self.claims is not None else None
            binds.append(Bind(key, names[node], group, self.hooks.annotate(task, node), claims, locks))
        return binds

    def reject(self, job: JobView, rejection: Rejection, placed: int = 0) -> None:
        """Record why a job waits, after ``placed`` of its tasks were placed; the first reason is kept."""
        self.rejections.add(job.row, self._without_tentative(job, rejection) if placed else rejection, placed)

    def _without_tentative(self, job: JobView, rejection: Rejection) -> Rejection:
        """Return the rejection with the tentative placements of the job separated from the allocated amounts."""
        quota = rejection.reason
        if not isinstance(quota, QuotaMessage) or self.rejections.rejection(job.row) is not None:
            return rejection
        rows = job.tasks(Status.ALLOCATED, Status.PIPELINED)
        if not len(rows):
            return rejection
        places = [self.snapshot.axis.index[name] for name in quota.names]
        requests = self.snapshot.requests(rows).sum(axis=1)[places]
        return replace(rejection, reason=quota.placed_tentatively(len(rows), tuple(requests.tolist())))

    def exceeds_limit(self, task: TaskView, job: JobView) -> bool:
        """Return whether a limit does not allow a user or group this task of a job, and record why."""
        rejection = None if self.limits is None else self.limits.limit_rejection(job.queue, task, 1)
        if rejection is not None:
            self.reject(job, rejection)
        return rejection is not None

    def reject_nodes(self, job: JobView, task: TaskView, placed: int, before: Hashable = None) -> None:
        """Record that no node takes a task of the job after ``placed`` others, with the reasons of the nodes.

        ``before`` is equal for jobs with the same placements up to here; None if that is not known.
        """
        if job.row not in self.rejections.reasons:
            key = (self.hooks.cache_key(task), placed, before, self._placement_version(task, placed, before))
            self.rejections.add_fit_error(job.row, placed, key, lambda: self.placement.why_not(task))

    def blocks_queue(self, job: JobView) -> bool:
        """Return whether a FIFO queue stops at a job that waits: not if it waits for its own pods, or for a limit of its user."""
        if self.snapshot.blocked[job.row]:
            return False
        return self.limits is None or not self.limits.is_submitter_limit(self.rejections.rejection(job.row))

    def _placement_version(self, task: TaskView, placed: int, before: Hashable) -> Hashable:
        """Return a value that is equal while a fit error stays valid.

        Free resources that are insufficient stay so until an eviction. This does not hold if other placements change
        the answers of predicates, or if the job's own placements are part of the answer.
        """
        if self.hooks.couples_nodes(task) or (placed and before is None):
            return len(self.ledger.touched)
        return (len(self.ledger.evictions), (len(self.effects), len(self.reserved)) if placed else None)


def _queries(session: Session) -> PluginQueries:
    """Return the combined answers of all plugins, for plugins."""
    hooks, quotas = session.hooks, session.quotas
    actions, sharing, claims = session.config.actions, session.card_sharing, session.claims

    def infeasible_nodes(task: TaskView) -> Mask:  # the placement is made when it is first used
        return session.placement.infeasible_nodes(task)

    def preemptable(preemptor: TaskView, others: Sequence[int]) -> list[int]:
        if "preempt" not in actions or preemptor.pod.spec.preemption_policy == "Never":
            return []
        candidates = session.cluster.tasks(compress(others, session.snapshot.tasks.preemptable[others].tolist()))
        return [task.row for task in hooks.victims[Purpose.PREEMPT](preemptor, candidates)] if candidates else []

    return PluginQueries(
        preempts=not {"preempt", "gangpreempt"}.isdisjoint(actions),
        reclaims=not {"reclaim", "gangreclaim"}.isdisjoint(actions),
        unplaceable=lambda: unplaceable(session.cluster),
        lacking=lambda: lacking_of_jobs(session.cluster),
        infeasible_nodes=infeasible_nodes,
        rejections=hooks.reject,
        comes_first=quotas.comes_first,
        within_limits=quotas.within_limits,
        within_share=quotas.within_share,
        reserved_as_first=quotas.reserved_as_first,
        queue_key=session.queue_key,
        job_keys=session.keys_of,
        overdue=lambda job: hooks.verdict(job, Moment.RESERVE).value > 0,
        behind_reservations=lambda: (
            np.zeros(len(session.snapshot.jobs), dtype=np.bool_)
            if session.reservations is None
            else session.reservations.behind_reservations
        ),
        jobs_with_reserved_nodes=quotas.jobs_with_reserved_nodes,
        card_ranking=hooks.first_policy(CardRanking, "enableNodeOrder"),
        gpu_cards=(lambda: None) if sharing is None else sharing.gpu_cards,
        claim_preferences=(lambda *_: None) if claims is None else claims.claim_preferences,
        preemptable=preemptable,
    )
