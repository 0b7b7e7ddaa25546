"""The scheduler process: it follows the cluster state, runs scheduling cycles on changes, and applies their plans.

All decisions are made by :func:`volcanopy.scheduler.core.schedule`. The process keeps no state that cannot be read from the
cluster again, so it may end at any point and another may continue.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, NamedTuple

import structlog

from volcanopy.api import names
from volcanopy.api.shared_queues import recorded
from volcanopy.installed.scheduler_plugins import registry as installed_registry
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import Backoff, answered
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import AlreadyExists, Conflict
from volcanopy.kube.client.raw_kinds import bound
from volcanopy.kube.threads import in_thread
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.extender_port import Extender
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy.scheduler.policy.registry import Registry
from volcanopy.scheduler.policy.unknown_measures import unknown_measures
from volcanopy.services.process.election import Candidate, candidacy
from volcanopy.services.process.health import Health, Heartbeat, stale_watches, unsynced
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.process.supervisor import Supervisor
from volcanopy.services.process.volcano_processes import VolcanoProcesses
from volcanopy.services.scheduler.config_file import ConfigFile
from volcanopy.services.scheduler.dump import dump
from volcanopy.services.scheduler.extender_client import HttpExtender
from volcanopy.services.scheduler.isolation import isolate
from volcanopy.services.scheduler.metrics import SchedulerMetrics
from volcanopy.services.scheduler.node_load import LoadFollower
from volcanopy.services.scheduler.quarantine_reports import QuarantineReports
from volcanopy.services.scheduler.start_estimates import EstimateQuestion, StartEstimates
from volcanopy.services.scheduler.state.quarantine import Excluded
from volcanopy.services.scheduler.state.store import Store
from volcanopy.services.scheduler.writers.applier import Applied, Applier
from volcanopy.services.scheduler.writers.recheck import recheck
from volcanopy.services.scheduler.writers.status_writer import Timing

log = structlog.get_logger(__name__)
_decisions = logging.getLogger(f"{__name__}.decisions")

_ISOLATE_AGAIN = (1.0, 60.0)
"""First and longest pause in seconds between two searches for the cause of failed cycles that find nothing."""
_RETRY = 600.0
"""Seconds after which objects that made cycles fail are tried again."""
_PAUSE_AFTER_FAULT = 1.0
"""Seconds after a failed cycle, so that a state that always fails does not keep a core busy."""

_NAMED = 20
"""Most pods named in a log line."""


async def run(
    connection: Connection,
    settings: SchedulerSettings,
    stop: asyncio.Event,
    ready: asyncio.Event | None = None,
    *,
    registry: Registry | None = None,
    timing: Timing | None = None,
    health: Health | None = None,
) -> None:
    """Schedule until ``stop`` is set, then finish the writes of plans; ``ready`` is set once cycles run.

    With an election in the settings the cache follows the cluster from the start, cycles run from leadership on.
    ``registry`` replaces the built-in and installed plugins and actions, ``timing`` the delays of status writes, ``health``
    gets the checks. Raises ConfigError when the configuration is invalid at the start, ThirdPartyError when an installed
    package is, KubeError when the queues cannot be created, VolcanoRunsError, LostLeadership.
    """
    registry = registry or installed_registry()
    configuration = ConfigFile(settings.config, registry)
    store = Store(
        scheduler_names=settings.scheduler_names, default_queue=settings.default_queue, bindings=settings.bindings
    )
    manager = f"{settings.scheduler_name}-scheduler"
    heartbeat = Heartbeat("cycle", settings.stuck_after)
    async with (
        candidacy(connection, settings.election, "scheduler") as candidate,
        Client(
            connection, connections=settings.in_flight + 32, field_manager=manager, fence=candidate.may_act
        ) as client,
        EventRecorder(client, settings.scheduler_name) as recorder,
        Applier(
            client, store, recorder, timing=timing, in_flight=settings.in_flight, pod_events=settings.pod_events
        ) as applier,
        asyncio.TaskGroup() as tasks,
    ):
        reports = QuarantineReports(client, recorder)
        store.quarantine.reported, store.conflicts.reported = reports.report, reports.conflict
        supervisor = Supervisor()
        supervisor.add("quarantine reports", reports.run)
        supervisor.add("store", lambda: store.follow(client))
        if settings.config is not None:
            supervisor.add("configuration", lambda: configuration.follow(settings.config_period))
        supervisor.add("load", LoadFollower(store, client, configuration).run)
        volcano = VolcanoProcesses(client, "scheduler", settings.bindings)
        background = [
            tasks.create_task(supervisor.run(), name="supervisor"),
            tasks.create_task(_signal_at(stop, store), name="stop"),
        ]
        _watch_over(health or Health(), candidate, store, heartbeat, supervisor)
        if await _either(_lead(candidate, client, store, settings, volcano), stop):
            volcano.watch(supervisor)
            cycles = Cycles(store, applier, configuration, registry, settings, heartbeat)
            machine.freeze_garbage_collector()

            def question() -> EstimateQuestion:
                served, queue = settings.scheduler_names, settings.default_queue
                return EstimateQuestion(configuration.current, registry, machine.utc_now(), served, queue)

            supervisor.add("estimated starts", StartEstimates(store, client, question).run)
            if ready is not None:
                ready.set()
            log.info("scheduling", scheduler=settings.scheduler_name, nodes=len(store.state.node_rows()))
            with cycles.measures.shown(), cycles.extender:
                await cycles.run(stop)
        await applier.finish(settings.shutdown)
        for task in background:
            task.cancel()


def _watch_over(
    health: Health, candidate: Candidate, store: Store, heartbeat: Heartbeat, supervisor: Supervisor
) -> None:
    supervisor.check("cycles", heartbeat.problem)
    health.live |= {
        "cycles": heartbeat.problem,
        "watches": stale_watches(lambda: store.reflectors),
        "parts": supervisor.problem,
    }
    health.ready["caches"] = unsynced(store.lists)
    health.facts["leader"] = candidate.description
    health.farewell = candidate.release_now


async def _lead(
    candidate: Candidate, client: Client, store: Store, settings: SchedulerSettings, volcano: VolcanoProcesses
) -> None:
    """Sync the caches, wait for leadership, then for the last writes of a former leader to be seen."""
    await store.synced()
    await volcano.ensure_none()
    await candidate.lead()
    if settings.election is not None:
        await asyncio.sleep(settings.settle_in)
    await answered(lambda: create_queues(client, store, settings.default_queue))


async def create_queues(client: Client, store: Store, default_queue: str) -> None:
    """Create the root queue and the default queue if missing; another process may do so at the same time."""
    specs = {names.ROOT_QUEUE: {"weight": 1, "reclaimable": False}, default_queue: {"weight": 1, "reclaimable": True}}
    kind = bound(QUEUES, store.bindings[0])
    for name, spec in specs.items():
        if name in store.queues:
            continue
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
        if kind == QUEUES and name in names.SHARED_QUEUES:
            body = recorded(body, None)
        try:
            await client.create(kind, None, body)
            made = await client.patch_status(kind, None, name, {"status": {"state": "Open"}})
            log.info("queue created", queue=name)
        except (AlreadyExists, Conflict):
            made = await client.get(kind, None, name)
        if name not in store.queues:
            # The first cycle must know it, or it would reject the groups in it.
            store.take([Change(ChangeType.ADDED, made)])


class _Decision(NamedTuple):
    """The result of a cycle's thread: the plan, its violated invariants, and the duration in milliseconds."""

    plan: Plan
    broken: list[str]
    milliseconds: float


class Cycles:
    """Runs cycles, one at a time, on changes; a plan is applied while the next cycle decides."""

    def __init__(
        self,
        store: Store,
        applier: Applier,
        config: ConfigFile,
        registry: Registry,
        settings: SchedulerSettings,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._heartbeat = heartbeat or Heartbeat("cycle", settings.stuck_after)
        self._store, self._applier, self._config = store, applier, config
        self._registry, self._settings = registry, settings
        self.measures = SchedulerMetrics(store, lambda: applier.waiting)
        self.extender = HttpExtender()
        self._unknown_measures = frozenset[str]()
        self._instance = machine.token()
        self._number = 0
        self._earliest = 0.0
        self._isolated: list[Excluded] = []
        self._isolate_from = 0.0
        self._search_pause = Backoff(machine.new_random(), *_ISOLATE_AGAIN)
        self._retry_at: tuple[float, SchedulerConfig] = (0.0, config.current)

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until ``stop`` is set (and a change signalled). The plan of a cycle running then is dropped."""
        self._heartbeat.beat()
        while not stop.is_set():
            try:
                await _either(self.cycle(), stop)
                self._heartbeat.beat()
                self._store.quarantine.settle()
            except Exception as error:
                self.measures.failed("error")
                # For example an error of a plugin. The snapshot has been dumped; the next cycle may succeed.
                log.exception("scheduling cycle failed")
                self._earliest = machine.monotonic() + _PAUSE_AFTER_FAULT
                await _either(self._isolate(error), stop)
            await self._wait_for_change(stop)

    async def _wait_for_change(self, stop: asyncio.Event) -> None:
        """Wait for a change, and a moment longer for concurrent ones."""
        settings, changed = self._settings, self._store.changed
        try:
            async with asyncio.timeout(settings.heartbeat):
                await changed.wait(settings.minor_debounce)
        except TimeoutError:
            return
        now = machine.monotonic()
        due = max((changed.since or now) + settings.debounce, self._earliest)
        if due > now and not stop.is_set():
            await _either(asyncio.sleep(due - now), stop)

    async def _isolate(self, error: Exception) -> None:
        """Exclude the objects that made a cycle fail, if they can be found."""
        if (now := machine.monotonic()) < self._isolate_from:
            return
        store = self._store

        async def attempt() -> bool:
            try:
                await in_thread(
                    schedule, store.snapshot(machine.utc_now(), "isolation"), self._config.current, self._registry
                )
            except Exception:
                return False
            return True

        excluded = await isolate(store.quarantine, attempt, f"{type(error).__name__}: {error}"[:500])
        self._isolate_from = 0.0 if excluded else now + self._search_pause.next()
        if excluded:
            self._search_pause.reset()
        for entry in excluded:
            store.quarantine.reported(entry)
        self._isolated += excluded
        self._retry_at = (machine.monotonic() + _RETRY, self._config.current)
        store.changed.set()

    def _retry_isolated(self) -> None:
        """Readmit isolated objects after some time, and for a new configuration: the fault may be gone."""
        if self._isolated and (
            machine.monotonic() > self._retry_at[0] or self._config.current is not self._retry_at[1]
        ):
            self._store.quarantine.readmit([entry.object for entry in self._isolated])
            self._isolated = []

    async def cycle(self) -> Plan:
        """Run one scheduling cycle and start to apply its plan."""
        self._number += 1
        session = f"{self._instance}-{self._number}"
        # All log lines caused by this cycle, also later ones, have its session.
        with structlog.contextvars.bound_contextvars(session=session), self.measures.stage("whole"):
            return await self._cycle(session)

    async def _cycle(self, session: str) -> Plan:
        store, started = self._store, machine.monotonic()
        store.changed.clear()
        self._retry_isolated()
        with self.measures.stage("snapshot"):
            snapshot = store.snapshot(machine.utc_now(), session)
        config = self._config.current
        try:
            decision = await in_thread(decide, snapshot, config, self._registry, self.measures, self.extender)
        except Exception as error:
            self._dump(snapshot, None, [f"{type(error).__name__}: {error}"])
            raise
        # After a long cycle the rest of the process gets as much time, up to a limit.
        ended = machine.monotonic()
        self._earliest = ended + min(ended - started, self._settings.debounce_most)
        plan = decision.plan
        self._note_unknown_measures(snapshot, config)
        if decision.broken:
            self.measures.failed("broken")
            self._dump(snapshot, plan, decision.broken)
            return Plan((), plan.version, plan.session)
        if plan.of(Bind, Evict) and store.state.version != snapshot.version:
            plan = await self._recheck(plan, snapshot, config)
        if plan.effects:
            _report(plan, store, decision.milliseconds, (machine.monotonic() - started) * 1000)
        self.measures.decided(plan)
        if plan.effects:
            store.assume(plan, machine.utc_now())
            applying = self._applier.submit(plan)
            applying.add_done_callback(lambda task: self._carried_out(plan, task, machine.monotonic() - started))
        return plan

    def _note_unknown_measures(self, snapshot: Snapshot, config: SchedulerConfig) -> None:
        """Log which measures plugins lack, once until others are lacking."""
        unknown = unknown_measures(snapshot, config)
        for name in sorted(unknown.keys() - self._unknown_measures):
            log.warning("measure unknown", measure=name, problem=unknown[name])
        self._unknown_measures = frozenset(unknown)

    def _carried_out(self, plan: Plan, task: asyncio.Task[Applied], seconds: float) -> None:
        if task.cancelled() or task.exception() is not None:
            return
        failed = task.result().failed
        self.measures.carried_out(plan, failed, seconds)
        if failed:
            named = {"pods": list(failed[:_NAMED]), "more": max(len(failed) - _NAMED, 0)}
            log.info("plan partly failed", session=plan.session, **named)

    async def _recheck(self, plan: Plan, basis: Snapshot, config: SchedulerConfig) -> Plan:
        with self.measures.stage("recheck"):
            fresh = self._store.snapshot(machine.utc_now(), plan.session)
            left = await in_thread(recheck, plan, basis, fresh, enforced_invariants(config))
        for group, why in left.dropped.items():
            log.info("group dropped by recheck", session=plan.session, group=group, reason=why)
        if left.dropped:
            self._store.changed.set()
        return left.plan

    def _dump(self, snapshot: Snapshot, plan: Plan | None, problems: list[str]) -> None:
        folder, names = self._settings.dump_dir, self._settings.scheduler_names
        try:
            file = str(dump(folder, snapshot, plan, problems, scheduler_names=names))
        except OSError as error:
            file = f"not written: {error}"
        log.error("invalid plan not applied", session=snapshot.session, problems=problems, dump=file)


def decide(
    snapshot: Snapshot,
    config: SchedulerConfig,
    registry: Registry,
    measures: SchedulerMetrics,
    extender: Extender | None = None,
) -> _Decision:
    """Decide a plan and validate it. Runs in a thread: the snapshot is immutable."""
    started = machine.monotonic()
    with measures.stage("decide"):
        plan = schedule(snapshot, config, registry, measures, extender)
    with measures.stage("judge"):
        broken = violations(snapshot, plan, enforced_invariants(config)) if plan.of(Bind, Evict) else []
    return _Decision(plan, broken, (machine.monotonic() - started) * 1000)


def _report(plan: Plan, store: Store, deciding: float, whole: float) -> None:
    binds, evicts, nominations = len(plan.of(Bind)), len(plan.of(Evict)), len(plan.of(Nominate))
    admitted = sum(
        effect.phase == "Inqueue" and store.phase_of(effect.pod_group) != "Inqueue" for effect in plan.of(SetPodGroup)
    )
    counts = {"binds": binds, "evicts": evicts, "nominations": nominations, "admitted": admitted}
    written = {"podgroups": len(plan.of(SetPodGroup))}
    if any(counts.values()) or any(written.values()):
        nonzero = {name: count for name, count in {**counts, **written}.items() if count}
        log.info("cycle", session=plan.session, **nonzero, decide_ms=round(deciding, 1), cycle_ms=round(whole, 1))
    if _decisions.isEnabledFor(logging.DEBUG):
        for effect in plan.effects:
            log.debug("decision", session=plan.session, effect=str(effect))


async def _signal_at(stop: asyncio.Event, store: Store) -> None:
    await stop.wait()
    store.changed.set()


async def _either(work: Coroutine[Any, Any, Any], stop: asyncio.Event) -> bool:
    """Await the work or the end, whichever is first; whether the work was done."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
            return True
        return False
    finally:
        doing.cancel()
        stopping.cancel()
