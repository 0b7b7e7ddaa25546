"""With which of its alternatives a job is expected to finish first.

1. When the nodes have enough for its minimum: now, or when running tasks have ended (the rule of reservations).
2. When the work before it is done: the admitted jobs that wait, and those that were considered before it in this session. It
   is done in their order, on the resource of which the alternative needs the largest part.
3. When a limit of its queue that it exceeds now permits it, after the work before it in the queues with this limit.
4. The start is the latest of these. The finish is the start plus the running time with the alternative.

A running time that is not known is that of the PodGroup, or else assumed to be the same with each alternative: then the
earliest start counts. This greedy rule is that of moldable jobs in OAR, and "earliest finish time" in the literature.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

import numpy as np

from volcanopy.api import core
from volcanopy.api.gates import Gate
from volcanopy.api.times import format_time
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.reservation_planner import Leaving, Part, hold
from volcanopy.scheduler.engine.task_ends import TaskEnds
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import QuotaMessage
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.run_times import expected_or
from volcanopy.scheduler.nodes.traits import node_affinity, taints
from volcanopy.scheduler.policy.durations import seconds
from volcanopy.scheduler.policy.plugin import Rejection

_ASSUMED = seconds(defaults.ASSUMED_RUN_TIME)


@dataclass(frozen=True)
class Finish:
    """The expected start and finish of a job with an alternative, in seconds; infinite if it does not start."""

    name: str
    start: float
    finish: float
    known: bool  # Whether the running time is known.

    @property
    def text(self) -> str:
        """When it starts and finishes."""
        if self.start == inf:
            return "does not start"
        return f"starts {_time(self.start)}" + (f", finishes {_time(self.finish)}" if self.known else "")

    def __str__(self) -> str:
        return f"{self.name} {self.text}"


def _time(moment: float) -> str:
    return format_time(datetime.fromtimestamp(moment, UTC))


@dataclass(frozen=True)
class _Work:
    """What an earlier job requests (R,), on which (N,) nodes, and for how many seconds."""

    queue: int
    request: Ints
    nodes: Mask | None
    run_time: float


class _Pool:
    """One resource of some nodes over time: which amounts become free when."""

    def __init__(self, now: float, free: int, ends: Floats, amounts: Ints) -> None:
        order = np.argsort(ends, kind="stable")
        self.total = free + int(amounts.sum())
        self._times: list[tuple[float, float]] = [
            (now, float(max(free, 0))),
            *zip(np.maximum(ends[order], now).tolist(), amounts[order].astype(float).tolist(), strict=True),
        ]

    def start(self, amount: float) -> float:
        """When so much is free; infinite if it never is."""
        for time, units in self._times:
            amount -= units
            if amount <= 0:
                return time
        return inf

    def take(self, amount: float, run_time: float) -> None:
        """Do work that needs so much as soon as it is free."""
        left, count, start = amount, 0, 0.0
        while left > 0 and count < len(self._times):
            start, units = self._times[count]
            left -= units
            count += 1
        taken = amount - max(left, 0.0)
        rest = [(start, -left)] if left < 0 else []
        self._times[:count] = rest
        if taken > 0:
            insort(self._times, (start + run_time, taken))


class Alternatives:
    """Selects the alternatives of the jobs of one session."""

    def __init__(self, ledger: Ledger, cluster: Cluster) -> None:
        self._ledger, self._cluster = ledger, cluster
        self._now = cluster.now.timestamp()
        self._pools: dict[tuple[int, bytes], tuple[_Pool, int]] = {}
        """By resource and nodes: the pool, and how many of the earlier jobs are in it."""
        self._limits: dict[tuple[str, int], tuple[_Pool, Rows, int]] = {}
        """Of limits, by queue and resource: the pool, the queues that it applies to, and how many of the jobs are in it."""
        self._starts: dict[tuple[object, ...], float] = {}
        self._finishes: dict[int, list[Finish]] = {}
        self.selected: dict[int, core.SelectedAlternative] = {}
        """The jobs that were admitted in this session with an alternative."""

    def of(self, job: JobView) -> tuple[core.PodGroupAlternative, ...]:
        """Return the alternatives of a job of which none is selected yet."""
        group = job.group
        return group.spec.alternatives if group.spec.alternatives and group.status.alternative is None else ()

    def first_to_finish(
        self, job: JobView, alternatives: Sequence[tuple[core.PodGroupAlternative, Rejection | None]]
    ) -> core.PodGroupAlternative:
        """Return the alternative with which the job is expected to finish first, of equal ones the first.

        Each comes with the reason why the job cannot be admitted with it now. One that a limit rejects for good, or a limit
        whose release is not known, such as a ResourceQuota, counts only if there is no other.
        """
        finishes = [self._finish(job, *each) for each in alternatives]
        best = min(range(len(finishes)), key=lambda number: (round(finishes[number].finish, 0), number))
        self._finishes[job.row] = finishes
        return alternatives[best][0]

    def admitted(self, job: JobView, alternative: core.PodGroupAlternative) -> None:
        """Note that a job is admitted with an alternative."""
        message = "; ".join(map(str, self._finishes.get(job.row, ())))
        self.selected[job.row] = core.SelectedAlternative(name=alternative.name, message=message[:1024])

    def numbers(self, job: JobView) -> dict[str, str]:
        """Return the alternative with which a waiting job is considered, and the expected finishes, for its explanation."""
        considered = self._ledger.alternatives.get(job.row)
        if considered is None:
            return {}
        finishes = {f"alternative.{each.name}": each.text for each in self._finishes.get(job.row, ())}
        return {"alternative": considered[0].name, **finishes}

    def starts_before(self, rejection: Rejection | None) -> bool:
        """Return whether a job that is rejected so starts before the next ones, as far as is known."""
        return self._start_within_limits(rejection) < inf

    def add_before(self, job: JobView) -> None:
        """Count the job among those before the next ones."""
        minimum, considered = job.min_resources, self._ledger.alternatives.get(job.row)
        if minimum is None:
            return
        nodes, run_time = None, self._run_times[job.row]
        if considered is not None:
            parts, run_time = self._parts(considered[0]), self._run_time(job, considered[0])
            nodes = np.logical_or.reduce([part.nodes for part in parts]) if parts else None
        self._before.append(_Work(job.queue.row, minimum.values, nodes, run_time))

    def _run_time(self, job: JobView, alternative: core.PodGroupAlternative) -> float:
        """Return the expected running time of a job with an alternative, in seconds, at most its walltime."""
        run_time = seconds(alternative.running_estimate) or float(self._run_times[job.row])
        return min(run_time, float(self._cluster.snapshot.jobs.walltime[job.row]) or inf)

    # The expected finish

    def _finish(self, job: JobView, alternative: core.PodGroupAlternative, rejection: Rejection | None) -> Finish:
        minimum = self._cluster.axis.vector(pod_fields.countable(alternative.min_resources))
        parts = self._parts(alternative)
        start = self._start_within_limits(rejection)
        if start < inf and parts:
            start = max(start, self._start_on_nodes(parts), self._start_after_others(minimum, parts))
        jobs = self._cluster.snapshot.jobs
        known = seconds(alternative.running_estimate) or jobs.walltime[job.row] or jobs.estimate[job.row]
        return Finish(alternative.name, start, start + self._run_time(job, alternative), start < inf and bool(known))

    def _parts(self, alternative: core.PodGroupAlternative) -> list[Part]:
        axis, traits = self._cluster.axis, self._cluster.traits
        parts = []
        for task in alternative.tasks:
            affinity = core.Affinity(node_affinity=task.node_affinity)
            spec = core.PodSpec(node_selector=task.node_selector, affinity=affinity, tolerations=task.tolerations)
            nodes = taints.tolerated_nodes(task.tolerations, traits)
            labelled, cordoned = node_affinity.eligible(spec, traits), taints.cordoned(task.tolerations, traits)
            nodes = nodes if labelled is None else nodes & labelled
            nodes = nodes if cordoned is None else nodes & ~cordoned
            request = axis.vector(pod_fields.countable({**task.requests, "pods": 1}))
            if task.pods:
                parts.append(Part(request, task.pods, nodes))
        return parts

    def _start_on_nodes(self, parts: Sequence[Part]) -> float:
        """When the nodes have enough, if no other job takes it before."""
        key = tuple((part.request.tobytes(), part.count, part.nodes.tobytes()) for part in parts)
        known = self._starts.get(key)
        if known is None:
            if len(self._starts) >= defaults.PLANNED_KINDS:
                return self._now
            plan = hold(self._ends.free, parts, self._leaving, self._now)
            known = self._starts[key] = inf if plan is None else plan.start
        return known

    def _start_after_others(self, minimum: Ints, parts: Sequence[Part]) -> float:
        """When the work before it is done on the resource of which the alternative needs the largest part."""
        nodes: Mask = np.logical_or.reduce([part.nodes for part in parts])
        capacity = self._cluster.snapshot.nodes.allocatable.values[:, nodes].sum(axis=1)
        dims = [dim for dim in np.flatnonzero(minimum).tolist() if self._cluster.axis.names[dim] != "pods"]
        if not dims:
            return self._now
        if any(minimum[dim] > capacity[dim] for dim in dims):
            return inf
        dim = max(dims, key=lambda each: minimum[each] / capacity[each])
        return self._pool(dim, nodes).start(float(minimum[dim]))

    def _pool(self, dim: int, nodes: Mask) -> _Pool:
        key, snapshot = (dim, nodes.tobytes()), self._cluster.snapshot
        if key not in self._pools:
            free = int(np.maximum(self._ends.free[dim, nodes], 0).sum())
            self._pools[key] = self._new_pool(dim, free, nodes[snapshot.tasks.node[self._ends.running[0]]]), 0
        pool, done = self._pools[key]
        allocatable = snapshot.nodes.allocatable.values[dim]
        for each in self._before[done:]:
            amount = float(each.request[dim])
            if not amount:
                continue
            # Of what others request, the part of their nodes that these are.
            reach = allocatable if each.nodes is None else allocatable[each.nodes]
            common = allocatable[nodes if each.nodes is None else each.nodes & nodes]
            whole = int(reach.sum())
            if whole and common.any():
                pool.take(amount * int(common.sum()) / whole, each.run_time)
        self._pools[key] = pool, len(self._before)
        return pool

    def _start_within_limits(self, rejection: Rejection | None) -> float:
        """When the limit that rejects the job now permits it; infinite if that is not known."""
        if rejection is None or rejection.gate == Gate.OVERCOMMIT:
            return self._now
        quota = rejection.reason
        if not isinstance(quota, QuotaMessage) or quota.kind == "limits" or rejection.never_passes:
            return inf
        quota = quota.binding()
        if quota.is_cluster:
            return self._now
        starts = [self._limit(quota, place).start(float(quota.requested[place])) for place in quota.short]
        return max(starts, default=self._now)

    def _limit(self, quota: QuotaMessage, place: int) -> _Pool:
        """The limit of a queue on a resource over time."""
        snapshot, name = self._cluster.snapshot, quota.names[place]
        dim, key = snapshot.axis.index[name], (quota.queue, snapshot.axis.index[name])
        known = self._limits.get(key)
        if known is None:
            limited, lines = snapshot.queues.index[quota.queue], snapshot.queues.lines
            members = np.array([row for row, line in enumerate(lines) if limited in line], dtype=np.intp)
            there = np.isin(snapshot.jobs.queue[snapshot.tasks.job[self._ends.running[0]]], members)
            known = self._new_pool(dim, quota.limit[place] - quota.allocated[place], there), members, 0
        pool, members, done = known
        for each in self._before[done:]:
            if each.request[dim] and each.queue in members:
                pool.take(float(each.request[dim]), each.run_time)
        self._limits[key] = pool, members, len(self._before)
        return pool

    def _new_pool(self, dim: int, free: int, there: Mask) -> _Pool:
        """Return the pool of a resource of which so much is free, and which some of the running tasks use."""
        rows, ends, _ = self._ends.running
        amounts = self._cluster.snapshot.requests(rows)[dim]
        there = there & (amounts > 0)
        return _Pool(self._now, free, ends[there], amounts[there])

    @cached_property
    def _ends(self) -> TaskEnds:
        return TaskEnds(self._cluster.snapshot, "estimate", _ASSUMED)

    @cached_property
    def _leaving(self) -> Leaving:
        rows, ends, known = self._ends.running
        nodes: Rows = self._cluster.snapshot.tasks.node[rows].astype(np.intp)
        return Leaving(nodes, self._cluster.snapshot.requests(rows), ends, known, np.zeros(len(rows), dtype=np.bool_))

    @cached_property
    def _run_times(self) -> list[float]:
        """(J,): the expected running times of jobs in seconds."""
        jobs = self._cluster.snapshot.jobs
        return expected_or(_ASSUMED, jobs.walltime, jobs.estimate).tolist()

    @cached_property
    def _before(self) -> list[_Work]:
        """The jobs that were admitted in earlier sessions and wait, the oldest first; then those of this session."""
        jobs, lacking = self._cluster.snapshot.jobs, self._cluster.queries.lacking()
        rows = np.flatnonzero(jobs.in_phase("Inqueue") & (lacking > 0).any(axis=0))
        rows = rows[np.argsort(jobs.created[rows], kind="stable")].tolist()
        return [_Work(int(jobs.queue[row]), lacking[:, row], None, self._run_times[row]) for row in rows]
