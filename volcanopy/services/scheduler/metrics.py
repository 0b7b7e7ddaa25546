"""What the scheduler measures of its own work: how long cycles take, what they come to, who waits, and what queues have.

Numbers that follow from the state of things are reckoned when somebody asks for the metrics, not in each cycle.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial

import numpy as np

from volcanopy.api import core, names
from volcanopy.kube.cache.store import Store
from volcanopy.kube.metrics import registry
from volcanopy.kube.metrics.metric_types import Labels
from volcanopy.scheduler.framework.observer import Observer, Part, QueueAmounts
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Plan, SetPodGroup
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask
from volcanopy.services.scheduler.eviction_outcomes import EvictionOutcomes

Values = Iterable[tuple[Labels, float]]

_PREEMPTING = frozenset({"preempt", "gangpreempt"})
_RECLAIMING = frozenset({"reclaim", "gangreclaim"})
_COUNTED = 2
"""How many of the axis' resources have a metric of their own: cpu and memory come first."""


def utc_now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


class SchedulerMetrics(Observer):
    """Watches the cycles of one scheduler. ``now`` is there for tests."""

    def __init__(
        self, store: Store, writes_waiting: Callable[[], int] = lambda: 0, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._store, self._writes_waiting, self._now = store, writes_waiting, now
        self._books: QueueAmounts | None = None
        self._waiting: list[Explain] = []
        """Why those wait that the last plan left waiting."""
        self._phases: tuple[int, QueueAmounts, dict[str, Ints]] | None = None
        self.exchanges = EvictionOutcomes(store.groups.__contains__, time.monotonic)

    # What a cycle tells while it decides, in its own thread

    @contextmanager
    def _timed(self, observe: Callable[[float], None]) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            observe((time.perf_counter() - begun) * 1000)

    def during(self, part: Part, name: str = "") -> AbstractContextManager[None]:
        """Time this part."""
        match part:
            case "open":
                return self._timed(registry.OPEN_SESSION.observe)
            case "plugin":
                return self._timed(registry.PLUGIN_LATENCY.labels(name, "OnSessionOpen").observe)
            case "action":
                return self._timed(registry.ACTION_LATENCY.labels(name).observe)
        return self.stage("close")

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Time this stage of a cycle."""
        return self._timed(registry.CYCLE_LATENCY.labels(name).observe)

    def tried(self, attempts: Mapping[str, int]) -> None:
        """Count who had room made for."""
        for action, times in attempts.items():
            if action in _PREEMPTING:
                registry.PREEMPTION_ATTEMPTS.inc(times)
            elif action in _RECLAIMING:
                registry.RECLAIM_ATTEMPTS.inc(times)

    def queues(self, books: QueueAmounts) -> None:
        """Keep the books until they are asked for."""
        self._books = books

    # What comes of a cycle

    def failed(self, kind: str) -> None:
        """A cycle came to nothing, by an ``error`` or a ``broken`` plan."""
        registry.CYCLE_FAULTS.labels(kind).inc()

    def decided(self, plan: Plan) -> None:
        """A plan is about to be carried out; the store does not know of it yet."""
        now = self._now()
        binds: list[Bind] = plan.of(Bind)
        assumed = registry.TASK_LATENCY.labels("Assumed")
        for bind in binds:
            pod = self._store.pods.get(bind.pod)
            if pod is not None:
                assumed.observe(_since(pod.metadata, now) * 1000)
        self._started(plan, now)
        evicts: list[Evict] = plan.of(Evict)
        if evicts:
            _count_evictions(evicts)
        self._waiting = plan.of(Explain)
        registry.ATTEMPTS.labels("unschedulable").inc(sum(len(explain.pods) for explain in self._waiting))
        self.exchanges.review()

    def _started(self, plan: Plan, now: datetime) -> None:
        """Note how long those have waited that have what they need to start from now on."""
        gates: dict[str, str] | None = None
        for effect in plan.of(SetPodGroup):
            group = self._store.groups.get(effect.pod_group)
            if effect.phase != "Running" or group is None or self._store.phase_of(effect.pod_group) in _STARTED:
                continue
            if gates is None:
                gates = {explain.job: explain.gate for explain in self._waiting}
            waited = _since(group.metadata, now)
            registry.JOB_LATENCY.observe(waited * 1000)
            registry.WAITED.labels(gates.get(effect.pod_group, "none")).observe(waited)

    def carried_out(self, plan: Plan, failed: Iterable[str], seconds: float) -> None:
        """The server has answered to all that a plan does to pods; with the pods for which it came to nothing."""
        binds, evicts = plan.of(Bind), plan.of(Evict)
        if binds or evicts:
            registry.E2E_LATENCY.observe(seconds * 1000)
        lost = set(failed)
        unbound = sum(bind.pod in lost for bind in binds)
        registry.ATTEMPTS.labels("error").inc(unbound)
        registry.ATTEMPTS.labels("scheduled").inc(len(binds) - unbound)
        self.exchanges.bound(bind.group for bind in binds if bind.pod not in lost)
        self.exchanges.evicted(one for one in evicts if one.pod not in lost)

    # What is reckoned when it is asked for

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Have the metrics show what is known here for as long as the block lasts."""
        sources = {
            registry.UNSCHEDULED_TASKS: lambda: self._by_queue(lambda explain: len(explain.pods)),
            registry.UNSCHEDULED_JOBS: lambda: self._by_queue(lambda _: 1),
            registry.WAITING_JOBS: self._by_gate,
            registry.LONGEST_WAIT: self._longest,
            registry.QUEUE_SHARE: self._shares,
            registry.QUEUE_WEIGHT: self._weights,
            registry.QUEUE_OVERUSED: self._overused,
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
        """The queues that there are, each with its row."""
        return [(row, name) for row, name in enumerate(books.queues.names) if books.queues.objects[row] is not None]

    def _shares(self) -> Values:
        books = self._books
        if books is None or books.share is None:
            return []
        return [((name,), float(books.share[row])) for row, name in self._rows(books)]

    def _weights(self) -> Values:
        books = self._books
        return [] if books is None else [((name,), float(books.queues.weight[row])) for row, name in self._rows(books)]

    def _overused(self) -> Values:
        books = self._books
        if books is None or books.borrowed is None:
            return []
        over: Mask = np.asarray(books.borrowed.any(axis=0))
        return [((name,), float(over[row])) for row, name in self._rows(books)]

    def _amounts(self, kind: str, resource: str) -> Values:
        books = self._books
        table = None if books is None else _table(books, kind)
        if books is None or table is None:
            return []
        column = table[books.axis.index[resource]]
        return [((name,), float(column[row])) for row, name in self._rows(books) if 0 <= column[row] < UNLIMITED]

    def _others(self, kind: str) -> Values:
        """Other resources, where the queue has to do with them at all."""
        books = self._books
        table = None if books is None else _table(books, kind)
        if books is None or table is None:
            return []
        concerned = (books.allocated > 0) | (books.waiting > 0) | books.queues.capability_set
        if books.deserved is not None:
            concerned |= books.deserved > 0
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
    """Seconds since an object was made, which the server notes to the second."""
    return max((now - meta.creation_timestamp).total_seconds(), 0.0) if meta.creation_timestamp is not None else 0.0


def _count_evictions(evicts: list[Evict]) -> None:
    pods = Counter(evict.reason for evict in evicts)
    for reason, number in pods.items():
        registry.EVICTIONS.labels(reason).inc(number)
    for reason, _ in {(evict.reason, evict.preemptor) for evict in evicts if evict.preemptor}:
        registry.EVICTION_TRANSACTIONS.labels(reason).inc()
    registry.PREEMPTION_VICTIMS.set(sum(pods[reason] for reason in _PREEMPTING))
    registry.RECLAIM_VICTIMS.set(sum(pods[reason] for reason in _RECLAIMING))


def _table(books: QueueAmounts, kind: str) -> Ints | None:
    """The amounts of a kind; below zero where there are none."""
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
    """How many pod groups of each queue and of those below it are in each phase."""
    index, order = books.queues.index, list(registry.POD_GROUPS)
    counts = np.zeros((len(order), len(index)), dtype=np.int64)
    places = {phase: place for place, phase in enumerate(order)}
    for group in groups:
        row = index.get(group.spec.queue or names.DEFAULT_QUEUE)
        place = places.get(group.status.phase or "Pending")
        if row is not None and place is not None:
            counts[place, row] += 1
    return dict(zip(order, books.queues.rolled_up(counts), strict=True))
