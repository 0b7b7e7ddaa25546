"""The controller process: the job controller, and those of flows, cron jobs, queues and PodGroups.

A job has one reconcile at a time; changes during it,
and bursts of changes, are merged into the next one.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.core import PodGroup
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.accounting import accounted
from volcanopy.jobcontroller.history import has_ended
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry
from volcanopy.jobcontroller.reconcile import reconcile
from volcanopy.kube import machine
from volcanopy.kube.apply.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS, PRIORITY_CLASSES
from volcanopy.kube.cache.watch import Change, Reflector, each_alone
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS
from volcanopy.kube.metrics import registry
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.cron_jobs import CronController
from volcanopy.services.controllers.effects import Ending, JobEffects, reference
from volcanopy.services.controllers.flows import FlowController
from volcanopy.services.controllers.job_cache import JobCache, uid_of
from volcanopy.services.controllers.job_history import JobHistoryWriter
from volcanopy.services.controllers.pod_groups import GroupController
from volcanopy.services.controllers.queues import QueueController
from volcanopy.services.controllers.reconcile_metrics import jobs_by_phase
from volcanopy.services.controllers.run_times import RunTimes
from volcanopy.services.controllers.user_kinds import UserKinds, wait_for_kinds
from volcanopy.services.controllers.worker import Worker
from volcanopy.services.controllers.workqueue import WorkQueue
from volcanopy.services.process.election import Candidate, candidacy, home
from volcanopy.services.process.entry_points import job_registry
from volcanopy.services.process.health import Health, stale_watches, unsynced
from volcanopy.services.process.settings import Election
from volcanopy.services.process.supervisor import Supervisor

log = structlog.get_logger(__name__)

_PRUNE = 60.0
"""Seconds between two removals of deleted objects from the queue of a follower."""


@dataclass(frozen=True)
class JobControllerSettings:
    """Settings of the controller. Times are in seconds."""

    workers: int = 16
    """Concurrent reconciles of jobs."""
    workers_for_others: int = 4
    """Concurrent reconciles of flows; likewise of cron jobs, queues, and PodGroups of pods without a job."""
    pods_at_once: int = 48
    """Concurrent pod requests."""
    scheduler_name: str = names.SCHEDULER
    """Pods with this ``spec.schedulerName`` that belong to no job get a PodGroup."""
    settle: float = 0.02
    """Delay of a reconcile after a pod's change, to merge it with others of the job."""
    pace: float = 0.2
    """Least time between two reconciles of a job because of its pods."""
    election: Election | None = None
    """The leader election; None: this is the only controller."""
    shutdown: float = 20.0
    """For finishing running reconciles at shutdown."""
    stuck_after: float = 600.0
    """The process is unhealthy when a reconcile takes this long."""
    stale_watch_after: float = 300.0
    """The process is unhealthy when a watch has failed for this long."""


class JobController(Worker):
    """The controller of jobs. ``now`` is injected by tests."""

    noun = "BatchJob"

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        settings: JobControllerSettings,
        now: Callable[[], datetime] = machine.utc_now,
        plugins: Registry = JOB_PLUGINS,
        home: str = "kube-system",
    ) -> None:
        """``home``: the namespace of the ConfigMap with learnt run times."""
        super().__init__(client, recorder, now)
        self._settings, self._plugins = settings, plugins
        self._last: dict[str, tuple[float, float]] = {}
        """By key: when a job was last reconciled, and how long its plan took."""
        self.reconciles = 0
        self.cache = JobCache(self.wake)
        registry.JOBS.follow(self.cache, jobs_by_phase)
        self.history = JobHistoryWriter(client, now)
        self.run_times = RunTimes(client, home)
        ending = Ending(self.history, self.run_times)
        self._effects = JobEffects(client, self.cache, recorder, now, settings.pods_at_once, ending)

    def wake(self, key: str, burst: bool = False) -> None:
        """Reconcile a job; a little later if more changes are likely to follow."""
        if not burst:
            self.queue.add(key)
            return
        last, took = self._last.get(key, (0.0, 0.0))
        # A large job takes longer to plan and is reconciled less often: at most a tenth of the time.
        pace = max(self._settings.pace, took * 10)
        self.queue.add(key, max(self._settings.settle, last + pace - asyncio.get_running_loop().time()))

    def event(self, event: str | None, manifest: Json) -> None:
        """Take a job or a Command."""
        if manifest.get("kind") == COMMANDS.kind:
            self.cache.command_event(event, manifest)
            return
        if event == "DELETED":
            self._record_deleted(manifest)
        self.cache.job_event(event, manifest)

    def _record_deleted(self, manifest: Json) -> None:
        try:
            job = BatchJob.read(manifest)
        except InvalidObjectError:
            return
        observed, now = self.cache.remains(manifest), self.now()
        if not has_ended(job):
            status = accounted(job, job.status, observed.members(job), None, observed.disruptions, now)
            job = job.model_copy(update={"status": status})
        self.history.deleted(job)

    def exists(self, key: str) -> bool:
        """Whether there is a job of this key."""
        if key in self.cache.jobs:
            return True
        self._last.pop(key, None)
        return False

    def subject(self, key: str) -> ObjectReference | None:
        """Return the job."""
        manifest = self.cache.jobs.get(key)
        return None if manifest is None else reference(manifest)

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile a job."""
        manifest = self.cache.jobs[key]
        try:
            job = BatchJob.read(manifest)
        except InvalidObjectError as error:
            self.recorder.record(reference(manifest), "Warning", "Unreadable", str(error))
            log.warning("invalid BatchJob ignored", key=key, error=str(error))
            return None
        self.reconciles += 1
        started = asyncio.get_running_loop().time()
        observed = replace(self.cache.observed(key), learnt=self.run_times.estimate(manifest))
        plan = reconcile(job, observed, self.now(), self._plugins)
        self._last[key] = (started, asyncio.get_running_loop().time() - started)
        await self._effects.carry_out(manifest, plan)
        return plan.again

    def rejected(self, key: str, error: Exception) -> None:
        """Keep the server's message for the job's status."""
        if manifest := self.cache.jobs.get(key):
            self.cache.errors[uid_of(manifest)] = str(error)

    def succeeded(self, key: str) -> None:
        """Reconcile once more after an error, so that it leaves the status."""
        if (manifest := self.cache.jobs.get(key)) and self.cache.errors.pop(uid_of(manifest), None):
            self.queue.add(key)


async def run(
    connection: Connection,
    settings: JobControllerSettings | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    *,
    health: Health | None = None,
) -> None:
    """Run the controllers until ``stop`` is set. ``ready`` is set when the caches are synced and the workers run.

    With an election in the settings the caches follow the cluster from the start, the workers run from leadership on.
    ``health`` gets the checks. Raises ThirdPartyError when an installed job plugin is invalid, LostLeadership.
    """
    settings = settings or JobControllerSettings()
    plugins = job_registry()
    stop = stop or asyncio.Event()
    async with (
        candidacy(connection, settings.election, "controller") as candidate,
        Client(connection, fence=candidate.may_act) as client,
        EventRecorder(client, "volcanopy-controller") as recorder,
    ):
        namespace = (settings.election.namespace if settings.election else "") or home(connection)
        controller = JobController(client, recorder, settings, plugins=plugins, home=namespace)
        cache = controller.cache
        loose = GroupController(client, recorder, settings.scheduler_name, at_once=settings.pods_at_once)
        queues = QueueController(client, recorder, loose.queue_opened)
        others = (FlowController(client, recorder, cache.pods_of), CronController(client, recorder), queues)
        pods = Reflector(client, PODS, label_selector=names.JOB_NAME)
        groups = Reflector(client, POD_GROUPS)
        priorities = Reflector(client, PRIORITY_CLASSES)
        pods.on_listed = lambda: cache.listed("pods", int(pods.resource_version))
        groups.on_listed = lambda: cache.listed("podgroups", int(groups.resource_version))

        def group_changes(changes: Sequence[Change[PodGroup]]) -> None:
            for sink in (cache.pod_group_changes, queues.contents.pod_group_changes, loose.group_changes):
                sink(changes)

        supervisor = Supervisor()
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(stop.wait())
            seen_first: tuple[Reflector[Any], ...] = (pods, groups, priorities, *loose.watches)
            work = (controller.queue, *(other.queue for other in (*others, loose)))
            users = UserKinds(client, _kinds(others), (JOBS, COMMANDS), partial(_dispatch, controller, others))
            _watch_over(health or Health(), candidate, (*seen_first, *users.required), work, supervisor, settings)
            followed: tuple[tuple[Reflector[Any], Callable[[Any], None]], ...] = (
                (pods, cache.pod_changes),
                (groups, group_changes),
                (priorities, cache.priority_changes),
            )
            for reflector, sink in followed:
                supervisor.add(f"watch {reflector.kind.plural}", partial(reflector.run, each_alone(sink)))
            for name, following in loose.following():
                supervisor.add(f"watch {name}", following)
            main = tasks.create_task(
                _serve(controller, others, loose, users, client, settings, seen_first, candidate, supervisor, ready)
            )
            supervising = tasks.create_task(supervisor.run())
            await ending
            await _finish(work, settings.shutdown)
            for task in (main, supervising):
                task.cancel()


def _kinds(others: Sequence[Controller]) -> list[Kind[Any]]:
    """Return the kinds that users write, and that the controllers need."""
    watched: set[Kind[Any]] = {JOBS, COMMANDS}.union(*(other.kinds() for other in others))
    return sorted(watched, key=lambda kind: kind.plural)


def _dispatch(controller: JobController, others: Sequence[Controller], event: str, manifest: Json) -> None:
    """Pass on an object to the controllers of its kind."""
    kind = manifest.get("kind")
    if kind in {JOBS.kind, COMMANDS.kind}:
        controller.event(event, manifest)
    for other in others:
        if any(watched.kind == kind for watched in other.kinds()):
            other.event(event, manifest)


def _watch_over(
    health: Health,
    candidate: Candidate,
    watches: Sequence[Reflector[Any]],
    work: Sequence[WorkQueue],
    supervisor: Supervisor,
    settings: JobControllerSettings,
) -> None:
    def stuck() -> str:
        key, seconds = max((queue.longest() for queue in work), key=lambda longest: longest[1])
        limit = settings.stuck_after
        return "" if seconds <= limit else f"reconcile of {key} has taken {seconds:.0f} s (limit {limit:g} s)"

    supervisor.check("work", stuck)
    health.live |= {
        "work": stuck,
        "watches": stale_watches(lambda: watches, settings.stale_watch_after),
        "parts": supervisor.problem,
    }
    seen_first = [watch for watch in watches if watch.kind not in {JOBS, COMMANDS}]  # those follow with leadership
    health.ready["caches"] = unsynced(lambda: [(watch.kind.plural, watch.synced) for watch in seen_first])
    health.facts["leader"] = candidate.description
    health.farewell = candidate.release_now


async def _finish(work: Sequence[WorkQueue], seconds: float) -> None:
    """Finish the running reconciles and start no others; the next leader does the rest."""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(queue.drain() for queue in work))
    except TimeoutError:
        log.warning("reconciles not finished at shutdown, the next leader continues")


async def _stand_by(candidate: Candidate, loose: GroupController) -> None:
    """Wait for leadership; meanwhile changes are queued, and deleted objects leave the queue."""

    async def prune() -> None:
        while True:
            await asyncio.sleep(_PRUNE)
            loose.queue.prune(loose.exists)

    async with asyncio.TaskGroup() as tasks:
        pruning = tasks.create_task(prune())
        await candidate.lead()
        pruning.cancel()


async def _serve(
    controller: JobController,
    others: Sequence[Controller],
    loose: GroupController,
    users: UserKinds,
    client: Client,
    settings: JobControllerSettings,
    watches: Sequence[Reflector[Any]],
    candidate: Candidate,
    supervisor: Supervisor,
    ready: asyncio.Event | None,
) -> None:
    """Once the watches are synced and this process leads, watch what users write and start the workers."""
    await wait_for_kinds(client, (JOBS, COMMANDS))
    for reflector in watches:
        await reflector.synced.wait()
    await _stand_by(candidate, loose)
    for name, following in users.following():
        supervisor.add(f"watch {name}", following)
    await users.listed()
    await controller.history.start()
    await controller.run_times.load()

    def jobs() -> list[Json]:
        return list(controller.cache.jobs.values())

    supervisor.add("job history", partial(controller.history.run, jobs))
    supervisor.add("learnt run times", partial(controller.run_times.run, jobs, controller.wake))
    for worker, count in (
        (controller, settings.workers),
        *((other, settings.workers_for_others) for other in (*others, loose)),
    ):
        for number in range(count):
            supervisor.add(f"{worker.noun} worker {number}", worker.work)
    if ready is not None:
        ready.set()
