"""Metrics of the scheduler: latencies of cycles, results, evictions, waiting jobs, amounts of queues.

Values that follow from the current state are computed at each scrape, not in each cycle.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from volcanopy.api import core, names
from volcanopy.api.builtin.pod_requests import pod_requests, resources_of
from volcanopy.kube import machine
from volcanopy.kube.metrics import registry
from volcanopy.kube.metrics.metric_types import Labels
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Plan, SetPodGroup
from volcanopy.scheduler.model.resources import UNLIMITED, Ints
from volcanopy.scheduler.policy.observer import Observer, Part, QueueAmounts
from volcanopy.services.scheduler.state.store import Store

Values = Iterable[tuple[Labels, float]]

_PREEMPTING = frozenset({"preempt", "gangpreempt"})
_RECLAIMING = frozenset({"reclaim", "gangreclaim"})
OUTCOME_TIMEOUT = 600.0
"""Seconds after which evictions count as wasted if their preemptor is not bound; longer than usual grace periods."""
_COUNTED = 2
"""Leading resources of the axis with own metrics: cpu and memory."""


class SchedulerMetrics(Observer):
    """Observes the cycles of one scheduler. ``now`` is injected by tests."""

    def __init__(
        self, store: Store, writes_waiting: Callable[[], int] = lambda: 0, now: Callable[[], datetime] = machine.utc_now
    ) -> None:
        self._store, self._writes_waiting, self._now = store, writes_waiting, now
        self._books: QueueAmounts | None = None
        self._waiting: list[Explain] = []
        """The explanations of the last plan."""
        self._phases: tuple[int, QueueAmounts, dict[str, Ints]] | None = None
        self.outcomes = EvictionOutcomes(store.groups.__contains__, machine.monotonic)

    # Called in the thread of a cycle

    @contextmanager
    def _timed(self, observe: Callable[[float], None]) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            observe(time.perf_counter() - begun)

    def during(self, part: Part, name: str = "") -> AbstractContextManager[None]:
        """Measure this part."""
        match part:
            case "open":
                return self._timed(registry.OPEN_SESSION.observe)
            case "plugin":
                return self._timed(registry.PLUGIN_LATENCY.labels(name, "OnSessionOpen").observe)
            case "action":
                return self._timed(registry.ACTION_LATENCY.labels(name).observe)
        return self.stage("close")

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measure this stage of a cycle."""
        return self._timed(registry.CYCLE_LATENCY.labels(name).observe)

    def tried(self, attempts: Mapping[str, int]) -> None:
        """Count attempts of preemption and reclaim."""
        for action, times in attempts.items():
            if action in _PREEMPTING:
                registry.PREEMPTION_ATTEMPTS.inc(times)
            elif action in _RECLAIMING:
                registry.RECLAIM_ATTEMPTS.inc(times)

    def queues(self, books: QueueAmounts) -> None:
        """Keep the amounts of queues for the next scrape."""
        self._books = books

    # Results of a cycle

    def failed(self, kind: str) -> None:
        """Count a failed cycle: ``error`` or ``broken`` plan."""
        registry.CYCLE_FAULTS.labels(kind).inc()

    def decided(self, plan: Plan) -> None:
        """Measure a plan before it is applied; the store does not expect it yet."""
        now = self._now()
        binds: list[Bind] = plan.of(Bind)
        assumed = registry.TASK_LATENCY.labels("Assumed")
        for bind in binds:
            pod = self._store.pods.get(bind.pod)
            if pod is not None:
                assumed.observe(_since(pod.metadata, now))
        self._started(plan, now)
        evicts: list[Evict] = plan.of(Evict)
        if evicts:
            _count_evictions(evicts)
            self._lost(evicts, now)
        self._waiting = plan.of(Explain)
        registry.ATTEMPTS.labels("unschedulable").inc(sum(len(explain.pods) for explain in self._waiting))
        self.outcomes.review()

    def _started(self, plan: Plan, now: datetime) -> None:
        """Measure the waiting time of the pod groups that start with this plan."""
        gates: dict[str, str] | None = None
        for effect in plan.of(SetPodGroup):
            group = self._store.groups.get(effect.pod_group)
            if effect.phase != "Running" or group is None or self._store.phase_of(effect.pod_group) in _STARTED:
                continue
            if gates is None:
                gates = {explain.job: explain.gate for explain in self._waiting}
            waited = _since(group.metadata, now)
            registry.JOB_LATENCY.observe(waited)
            registry.WAITED.labels(gates.get(effect.pod_group, "none")).observe(waited)

    def _lost(self, evicts: list[Evict], now: datetime) -> None:
        """Count the work that these evictions lose."""
        for evict in evicts:
            pod = self._store.pods.get(evict.pod)
            if pod is None or pod.status.start_time is None:
                continue
            seconds = max((now - pod.status.start_time).total_seconds(), 0.0)
            milli_cpus = pod_requests(resources_of(pod.spec)).get("cpu", 0)
            registry.EVICTED_SECONDS.labels(evict.reason).inc(seconds)
            registry.EVICTED_CPU_SECONDS.labels(evict.reason).inc(seconds * milli_cpus / 1000)

    def carried_out(self, plan: Plan, failed: Iterable[str], seconds: float) -> None:
        """Measure the results of a plan's effects on pods; ``failed`` are the pods without success."""
        binds, evicts = plan.of(Bind), plan.of(Evict)
        if binds or evicts:
            registry.E2E_LATENCY.observe(seconds)
        lost = set(failed)
        unbound = sum(bind.pod in lost for bind in binds)
        registry.ATTEMPTS.labels("error").inc(unbound)
        registry.ATTEMPTS.labels("scheduled").inc(len(binds) - unbound)
        self.outcomes.bound(bind.group for bind in binds if bind.pod not in lost)
        self.outcomes.evicted(evict for evict in evicts if evict.pod not in lost)

    # Values at a scrape

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Serve the gauges from this object during the block."""
        sources = {
            registry.UNSCHEDULED_TASKS: lambda: self._by_queue(lambda explain: len(explain.pods)),
            registry.UNSCHEDULED_JOBS: lambda: self._by_queue(lambda _: 1),
            registry.WAITING_JOBS: self._by_gate,
            registry.LONGEST_WAIT: self._longest,
            registry.QUEUE_SHARE: lambda: self._of_queues(lambda books: books.share),
            registry.QUEUE_WEIGHT: lambda: self._of_queues(lambda books: books.queues.weight),
            registry.QUEUE_OVERUSED: lambda: self._of_queues(_overused),
            registry.WRITES_WAITING: lambda: [((), float(self._writes_waiting()))],
        }
        with ExitStack() as stack:
            for gauge, source in sources.items():
                stack.enter_context(gauge.read_from(source))
            for kind, (cpu, memory, others) in registry.QUEUE_AMOUNTS.items():
                stack.enter_context(cpu.read_from(partial(self._amounts, kind, "cpu")))
                stack.enter_context(memory.read_from(partial(self._amounts, kind, "memory")))
                stack.enter_context(others.read_from(partial(self._others, kind)))
            for phase, gauge in registry.POD_GROUPS.items():
                stack.enter_context(gauge.read_from(partial(self._in_phase, phase)))
            yield

    def _queue_of(self, job: str) -> str:
        group = self._store.groups.get(job)
        return (group.spec.queue if group is not None else "") or names.DEFAULT_QUEUE

    def _by_queue(self, count: Callable[[Explain], int]) -> Values:
        sums: Counter[str] = Counter()
        for explain in self._waiting:
            sums[self._queue_of(explain.job)] += count(explain)
        return [((queue,), float(number)) for queue, number in sums.items()]

    def _by_gate(self) -> Values:
        gates = Counter(explain.gate for explain in self._waiting)
        return [((gate,), float(number)) for gate, number in gates.items()]

    def _longest(self) -> Values:
        now = self._now()
        longest: defaultdict[str, float] = defaultdict(float)
        for explain in self._waiting:
            group = self._store.groups.get(explain.job)
            if group is not None:
                longest[explain.gate] = max(longest[explain.gate], _since(group.metadata, now))
        return [((gate,), waited) for gate, waited in longest.items()]

    def _rows(self, books: QueueAmounts) -> list[tuple[int, str]]:
        """Return the existing queues, each with its row."""
        return [(row, name) for row, name in enumerate(books.queues.names) if books.queues.objects[row] is not None]

    def _of_queues(self, column_of: Callable[[QueueAmounts], Any]) -> Values:
        """Return the value of each queue, from a column with the rows of the queues; none without it."""
        books = self._books
        if books is None or (column := column_of(books)) is None:
            return []
        return [((name,), float(column[row])) for row, name in self._rows(books)]

    def _amounts(self, kind: str, resource: str) -> Values:
        books = self._books
        table = None if books is None else _table(books, kind)
        if books is None or table is None:
            return []
        column = table[books.axis.index[resource]]
        divisor = 1000.0 if resource == "cpu" else 1.0  # columns have milli-cpu
        return [((name,), column[row] / divisor) for row, name in self._rows(books) if 0 <= column[row] < UNLIMITED]

    def _others(self, kind: str) -> Values:
        """Return other resources of queues that use or limit them."""
        books = self._books
        table = None if books is None else _table(books, kind)
        if books is None or table is None:
            return []
        concerned = (books.allocated > 0) | (books.waiting > 0) | books.queues.capability_set
        if books.fair_share is not None:
            concerned |= books.fair_share > 0
        return [
            ((name, books.axis.names[place]), float(table[place, row]))
            for row, name in self._rows(books)
            for place in range(_COUNTED, len(books.axis))
            if concerned[place, row] and 0 <= table[place, row] < UNLIMITED
        ]

    def _in_phase(self, phase: str) -> Values:
        books = self._books
        if books is None:
            return []
        version = self._store.state.version
        if self._phases is None or self._phases[0] != version or self._phases[1] is not books:
            self._phases = (version, books, _phases(books, list(self._store.groups.values())))
        counts = self._phases[2][phase]
        return [((name,), float(counts[row])) for row, name in self._rows(books)]


_STARTED = frozenset({"Running", "Unknown", "Completed"})


def _since(meta: core.Meta, now: datetime) -> float:
    """Return the age of an object in seconds (the server stores whole seconds)."""
    return max((now - meta.creation_timestamp).total_seconds(), 0.0) if meta.creation_timestamp is not None else 0.0


def _count_evictions(evicts: list[Evict]) -> None:
    pods = Counter(evict.reason for evict in evicts)
    for reason, number in pods.items():
        registry.EVICTIONS.labels(reason).inc(number)
    for reason, _ in {(evict.reason, evict.preemptor) for evict in evicts if evict.preemptor}:
        registry.EVICTION_TRANSACTIONS.labels(reason).inc()
    registry.PREEMPTION_VICTIMS.set(sum(pods[reason] for reason in _PREEMPTING))
    registry.RECLAIM_VICTIMS.set(sum(pods[reason] for reason in _RECLAIMING))


def _overused(books: QueueAmounts) -> Any:
    return None if books.borrowed is None else books.borrowed.any(axis=0)


def _table(books: QueueAmounts, kind: str) -> Ints | None:
    """Return the amounts of a kind; negative where there are none."""
    match kind:
        case "request":
            return books.allocated + books.waiting
        case "capacity":
            given: Ints = books.queues.capability.values.copy()
            given[~books.queues.capability_set] = UNLIMITED
            return given
        case "real_capacity":
            return books.limit
        case "guarantee":
            return books.guaranteed
    table: Ints | None = getattr(books, kind)
    return table


def _phases(books: QueueAmounts, groups: list[core.PodGroup]) -> dict[str, Ints]:
    """Return the number of pod groups by phase and queue, descendants included."""
    index, order = books.queues.index, list(registry.POD_GROUPS)
    counts = np.zeros((len(order), len(index)), dtype=np.int64)
    places = {phase: place for place, phase in enumerate(order)}
    for group in groups:
        row = index.get(group.spec.queue or names.DEFAULT_QUEUE)
        place = places.get(group.status.phase or "Pending")
        if row is not None and place is not None:
            counts[place, row] += 1
    return dict(zip(order, books.queues.rolled_up(counts), strict=True))


@dataclass
class _Open:
    """The evictions for a job: the time of the first (seconds), and the number of pods by reason."""

    since: float
    pods: Counter[str] = field(default_factory=Counter)


class EvictionOutcomes:
    """Evictions that are neither useful nor wasted yet, by the job of the preemptor or reclaimer."""

    def __init__(self, exists: Callable[[str], bool], clock: Callable[[], float]) -> None:
        """``exists`` returns whether there is a pod group of a key; ``clock`` returns seconds."""
        self._exists, self._clock = exists, clock
        self._open: dict[str, _Open] = {}

    def __len__(self) -> int:
        """The number of jobs with open evictions."""
        return len(self._open)

    def evicted(self, evictions: Iterable[Evict]) -> None:
        """Add evictions that the server has accepted; those without a preemptor have no outcome."""
        for eviction in evictions:
            if eviction.preemptor:
                self._open.setdefault(eviction.preemptor, _Open(self._clock())).pods[eviction.reason] += 1

    def bound(self, groups: Iterable[str]) -> None:
        """Count the evictions for these groups, which have been bound, as useful."""
        for group in set(groups) & self._open.keys() if self._open else ():
            self._close(group, useful=True)

    def review(self) -> None:
        """Count the evictions for jobs that are gone or have waited too long as wasted."""
        latest = self._clock() - OUTCOME_TIMEOUT
        for group in [key for key, entry in self._open.items() if entry.since < latest or not self._exists(key)]:
            self._close(group, useful=False)

    def _close(self, group: str, *, useful: bool) -> None:
        counter = registry.USEFUL_EVICTIONS if useful else registry.WASTED_EVICTIONS
        for action, pods in self._open.pop(group).pods.items():
            counter.labels(action).inc(pods)
