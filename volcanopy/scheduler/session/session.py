"""One cycle's workplace: the snapshot, the ledger, and the plugins' combined answers.

Actions work on a session; plugins never see it. What the session decides is collected as effects.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from volcanopy.scheduler.framework.config import PluginConfig, SchedulerConfig
from volcanopy.scheduler.framework.dispatch import Hooks, Installed
from volcanopy.scheduler.framework.observer import NO_OBSERVER, Observer
from volcanopy.scheduler.framework.plugin import NoArguments, Plugin, Rejection, Scope
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.ledger.views import JobView, QueueView, TaskView
from volcanopy.scheduler.model.messages import stopped
from volcanopy.scheduler.model.plan import Bind, Effect, Evict
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.placement.fit_error import Why
from volcanopy.scheduler.placement.node_selection import Placement
from volcanopy.scheduler.session.plugin_queries import SessionQueries
from volcanopy.scheduler.session.queue_limits import Gate, Limiting
from volcanopy.scheduler.session.topology_constraint import Confinement, demanded


class Session:
    """A snapshot being decided upon."""

    def __init__(self, snapshot: Snapshot, config: SchedulerConfig, observer: Observer = NO_OBSERVER) -> None:
        self.snapshot = snapshot
        self.config = config
        self.observer = observer
        self.attempts: Counter[str] = Counter()
        """How often actions that evict have tried to make room for a job, by the word that their evictions carry."""
        self.ledger = Ledger(snapshot)
        self.cluster = Cluster(self.ledger)
        tiers: Installed = tuple(
            tuple((_opened(entry, self.cluster, observer), entry.off) for entry in tier) for tier in config.tiers
        )
        if demanded(snapshot):
            tiers = (*tiers, ((Confinement(NoArguments(), self.cluster), frozenset()),))
        self.limits: Gate | None = None
        """What queues say about jobs, users and groups; None where none says anything."""
        if self.ledger.pools is not None:
            displaces = not {"preempt", "gangpreempt"}.isdisjoint(config.actions)
            self.limits = Gate(self.ledger, self.ledger.pools, displaces)
            tiers = (((Limiting.by(self.limits, self.cluster), frozenset()),), *tiers)
        self.hooks = Hooks(tiers)
        self.placement = Placement(self.ledger, self.hooks)
        self.cluster.queries = SessionQueries(self.hooks, self.placement, config.actions)
        self.effects: list[Effect] = []
        self.job_rows: Rows = self.cluster.job_rows()
        """The jobs that take part: those with a pod group, in a queue that exists."""
        self.why: dict[int, Rejection] = {}
        """Why a job waits, as far as an action has found out."""
        self.why_nodes: dict[int, tuple[Why, int]] = {}
        """For jobs that no node takes: why not, and how many of their tasks had found a place before."""
        self.fitted: dict[int, int] = {}
        """For jobs that are denied something else: how many of their tasks had found a place before."""
        self.asides: dict[int, list[str]] = {}
        """For jobs that wait: what else was tried for them, and why it did not help."""
        self.turned_away: dict[int, None] = {}
        """The jobs that wait, in the order in which they were told so."""
        self.patience = 2000
        """How many placements may still be tried in search of better ones, in the whole session."""
        self.tried_in_vain: dict[Hashable, int] = {}
        """The kinds of gangs for which no such search helped, each with how many had been evicted then."""
        self.settled = False
        """Whether those for whom room was freed have been given it (before all others)."""
        self._kept: dict[int, list[tuple[Rows, Rows]]] = {}
        self._whys: dict[Hashable, Why] = {}
        self._refuse_stopped()

    def jobs(self) -> list[JobView]:
        """The jobs that take part, in the order of their keys."""
        rows = sorted(self.job_rows.tolist(), key=lambda row: str(self.snapshot.jobs.keys[row]))
        return [JobView(self.ledger, row) for row in rows]

    def waiting_jobs(self) -> list[JobView]:
        """The jobs with something to decide: not enqueued yet, or with pending tasks."""
        counts, rows = self.ledger.job_counts, self.job_rows
        waiting = rows[(self.ledger.phase[rows] == "Pending") | (counts[Status.PENDING, rows] > 0)]
        stops = self.snapshot.queues.terms.stops
        if stops is not None:
            waiting = waiting[~stops.held[self.snapshot.jobs.queue[waiting]]]
        return [JobView(self.ledger, row) for row in waiting.tolist()]

    def _refuse_stopped(self) -> None:
        """Tell the jobs that wait in queues which are stopped why they do; nobody looks at them after that."""
        stops, names = self.snapshot.queues.terms.stops, self.snapshot.queues.names
        if stops is None:
            return
        queues, counts, rows = self.snapshot.jobs.queue, self.ledger.job_counts, self.job_rows
        waits = (self.ledger.phase[rows] == "Pending") | (counts[Status.PENDING, rows] > 0)
        for row in rows[waits & stops.held[queues[rows]]].tolist():
            queue, by = int(queues[row]), int(stops.held_by[queues[row]])
            drained = int(stops.drained_by[queue])
            words = stopped(names[queue], names[by if drained < 0 else drained], drained >= 0)
            self.refuse(JobView(self.ledger, row), Rejection("queue", words))

    def queue_key(self, queue: QueueView) -> tuple[object, ...]:
        """The queue's place in line: the plugins' keys (if none has a say, how its jobs look outside), then age, then name."""
        if self.cluster.precedence.matters and "queue_order" in self.hooks.unanswered:
            line = [-self.cluster.precedence.of(row) for row in reversed(queue.line.tolist())]
            return (tuple(line), queue.created, queue.name)
        return (self.hooks.queue_order(queue), queue.created, queue.name)

    def job_key(self, job: JobView) -> tuple[object, ...]:
        """The job's place in the line of its queue: the plugins' keys, then age, then name."""
        return (self.hooks.job_order(job), job.created, job.key)

    def keys_of(self, jobs: Rows) -> list[tuple[object, ...]]:
        """The :meth:`job_key` of each of these jobs, given by their rows."""
        table = self.snapshot.jobs
        orders = self.hooks.job_order_of_many(jobs)
        return list(zip(orders, table.created[jobs].tolist(), map(str, table.keys[jobs].tolist()), strict=True))

    def ordered(self, tasks: Rows) -> Rows:
        """Task rows in their order within a job: the plugins' keys, then number, then age, then name."""
        if len(tasks) < 2:
            return tasks
        table = self.snapshot.tasks
        names = table.keys[tasks].astype(np.str_)
        ordinal = table.ordinal[tasks]
        numberless = ordinal < 0
        keys = self.hooks.task_order(tasks)
        return tasks[np.lexsort((names, table.created[tasks], ordinal, numberless, *reversed(keys)))]

    def pending_tasks(self) -> dict[int, Rows]:
        """The tasks that can be placed now, in order, by job: pending, not gated, and requesting something."""
        table = self.snapshot.tasks
        rows = np.flatnonzero(
            (self.ledger.status == Status.PENDING) & ~table.gated & ~self.snapshot.shapes.best_effort[table.shape]
        )
        return self.by_job(rows)

    def by_job(self, tasks: Rows) -> dict[int, Rows]:
        """Task rows by their job, in order."""
        ordered = self.ordered(tasks)
        jobs = self.snapshot.tasks.job[ordered]
        grouped = np.argsort(jobs, kind="stable")
        ordered, jobs = ordered[grouped], jobs[grouped]
        cuts = np.flatnonzero(np.diff(jobs)) + 1
        return {int(self.snapshot.tasks.job[part[0]]): part for part in np.split(ordered, cuts) if len(part)}

    def statement(self) -> Statement:
        """Operations that stand or fall together."""
        return Statement(self.ledger)

    def commit(self, statement: Statement, preemptor: str = "", cause: str = "") -> None:
        """Carry a statement out: what it decided becomes part of the plan.

        Evictions are for the job ``preemptor``, or have another ``cause``, as a sentence.
        """
        group_of = self.snapshot.jobs.keys
        table = self.snapshot.tasks
        for task, reason in statement.evicted:
            key, group = str(table.keys[task]), str(group_of[table.job[task]])
            self.effects.append(Evict(key, reason, group, cause or self._cause(reason, preemptor), preemptor))
        for tasks, nodes in statement.placed:
            self.effects.extend(self._binds(tasks, nodes))
        joined = {int(table.job[tasks[0]]) for tasks, _ in statement.placed} & set(self._kept) if self._kept else ()
        statement.commit()
        for row in sorted(joined):
            # Room was kept for the others when they could not start alone: now they can.
            job = JobView(self.ledger, row)
            if self.hooks.job_ready(job):
                self.release(job)

    def bind(self, task: int, node: int) -> None:
        """Give a task free room at once, as a statement with nothing else in it would; it asks for nothing but room."""
        table, jobs = self.snapshot.tasks, self.snapshot.jobs
        job = int(table.job[task])
        self.ledger.place_one(task, node, Status.BINDING)
        self.effects.append(Bind(table.keys[task], self.snapshot.nodes.names[node], str(jobs.keys[job])))
        if job in self._kept:
            self.release(JobView(self.ledger, job))

    @staticmethod
    def _cause(reason: str, preemptor: str) -> str:
        return f'{reason}: evicted for job "{preemptor}"' if preemptor else ""

    def keep(self, job: JobView, statement: Statement) -> None:
        """Hold the room that a statement took for a job which cannot start yet; nothing is carried out."""
        self._kept.setdefault(job.row, []).extend(statement.placed)
        statement.keep()

    def release(self, job: JobView) -> None:
        """Carry out what was kept for a job that can start after all."""
        for tasks, nodes in self._kept.pop(job.row, []):
            self.effects.extend(self._binds(tasks, nodes))
            self.ledger.relabel(tasks, Status.ALLOCATED, Status.BINDING)

    def enqueue(self, job: JobView) -> None:
        """Admit a job: its pods shall be made, and its minimal resources count as asked for."""
        self.ledger.phase[job.row] = "Inqueue"
        least = job.min_resources
        if least is not None:
            gated = self.snapshot.gated[:, job.row]  # they may be held back for ever: no room is kept for them
            self.ledger.reserve(job.queue.row, np.maximum(least.values - gated, 0))
        if self.ledger.pools is not None:
            self.ledger.pools.admit(job.row)
        self.hooks.job_enqueued(job)

    def _binds(self, tasks: Rows, nodes: Rows) -> Sequence[Bind]:
        table, names = self.snapshot.tasks, self.snapshot.nodes.names
        group = str(self.snapshot.jobs.keys[table.job[tasks[0]]])
        if table.shape[tasks[0]] in self.snapshot.shapes.claiming:
            return [self._bind(int(row), int(node), group) for row, node in zip(tasks, nodes, strict=True)]
        if "bind_annotations" in self.hooks.unanswered:
            pairs = zip(table.keys[tasks].tolist(), nodes.tolist(), strict=True)
            return [Bind(key, names[node], group) for key, node in pairs]
        return [
            Bind(key, names[node], group, self.hooks.bind_annotations(TaskView(self.ledger, row), node))
            for key, row, node in zip(table.keys[tasks].tolist(), tasks.tolist(), nodes.tolist(), strict=True)
        ]

    def _bind(self, row: int, node: int, group: str) -> Bind:
        """The bind of a task with claims."""
        task, hooks = TaskView(self.ledger, row), self.hooks
        notes, claims = hooks.bind_annotations(task, node), hooks.bind_claims(task, node)
        return Bind(task.key, self.snapshot.nodes.names[node], group, notes, claims)

    def refuse(self, job: JobView, denial: Rejection, fitted: int = 0) -> None:
        """Note why a job waits, after ``fitted`` of its tasks had found a place; the first reason found stays."""
        if job.row not in self.why:
            self.why[job.row] = denial
            self.fitted[job.row] = fitted
            self.turned_away[job.row] = None

    def refuse_nodes(self, job: JobView, task: TaskView, fitted: int, before: Hashable = None) -> None:
        """Note that no node takes a task of the job after ``fitted`` others had found one, and why not.

        ``before`` is equal for jobs that came to this point by the same placements; None if it cannot be told.
        """
        if job.row in self.why_nodes:
            return
        key = (self.hooks.likeness(task), fitted, before, self._since(task, fitted, before))
        why = self._whys.get(key)
        if why is None:
            why = self._whys[key] = self.placement.why_not(task)
        self.why_nodes[job.row] = (why, fitted)
        self.turned_away[job.row] = None

    def holds_up_nobody(self, job: JobView) -> bool:
        """Whether a job waits for what its user or group may have: nobody behind it waits for that, be they served in turn."""
        return self.limits is not None and self.limits.blocks_only_itself(self.why.get(job.row))

    def begins(self, job: JobView) -> bool:
        """Let a job begin that nobody has admitted, where no action of the configuration does; whether it may."""
        denial = None if self.limits is None else self.limits.full(job)
        if denial is not None:
            self.refuse(job, denial)
            return False
        self.ledger.phase[job.row] = "Inqueue"
        if self.ledger.pools is not None:
            self.ledger.pools.admit(job.row)
        return True

    def excuse(self, job: JobView) -> None:
        """Forget why a job waits: it found its place after all."""
        for noted in (self.why, self.why_nodes, self.fitted, self.turned_away):
            noted.pop(job.row, None)

    def _since(self, task: TaskView, fitted: int, before: Hashable) -> Hashable:
        """Equal while an answer about all nodes holds.

        Room that is found too small once stays too small, unless somebody is evicted. It is another matter if other
        placements change what is allowed, or if the job's own are part of the answer.
        """
        if self.hooks.scope(task) is Scope.CLUSTER or (fitted and before is None):
            return len(self.ledger.touched)
        return (len(self.ledger.evictions), (len(self.effects), len(self._kept)) if fitted else None)


def _opened(entry: PluginConfig, cluster: Cluster, observer: Observer) -> Plugin[Any]:
    with observer.during("plugin", entry.plugin.name):
        return entry.plugin(entry.arguments, cluster, entry.hierarchy)
