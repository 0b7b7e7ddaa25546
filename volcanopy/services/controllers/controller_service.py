"""The job controller as a service: what changes wakes a job, a job is looked at, its plan is carried out.

Jobs and Commands come from kopf, pods and PodGroups through our own watches. One reconcile per job runs at a time;
changes that come meanwhile, or in a burst, are one more. Beside it work the controllers of what makes jobs (flows and
cron jobs), of queues, and of PodGroups for pods that are no job's.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.core import PodGroup
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, Registry
from volcanopy.jobcontroller.reconcile import reconcile
from volcanopy.kube.apply.event_writer import EventRecorder
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import Forbidden, Invalid, KubeError, NotLeading
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.metrics import registry
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.cron_jobs import CronController
from volcanopy.services.controllers.effects import (
    COMMANDS,
    JOBS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    JobEffects,
    NameTakenError,
    OutdatedError,
    reference,
)
from volcanopy.services.controllers.flows import FlowController
from volcanopy.services.controllers.job_cache import JobCache, uid_of
from volcanopy.services.controllers.kopf_watches import KopfWatches, wait_for_kinds
from volcanopy.services.controllers.pod_groups import GroupController
from volcanopy.services.controllers.queues import QueueController
from volcanopy.services.controllers.reconcile_metrics import jobs_by_phase, track_reconcile
from volcanopy.services.controllers.workqueue import WorkQueue
from volcanopy.services.process.election import Candidate, candidacy
from volcanopy.services.process.entry_points import job_registry
from volcanopy.services.process.health import Health, stale_watches, unsynced
from volcanopy.services.process.settings import Election

log = logging.getLogger(__name__)

_PRUNE = 60.0
"""Seconds between two looks at what a follower need not remember."""


@dataclass(frozen=True)
class JobControllerSettings:
    """How hard the controller works. Times are in seconds."""

    workers: int = 16
    """Jobs that are worked on at once."""
    workers_for_others: int = 4
    """Flows that are worked on at once; likewise cron jobs, queues, and PodGroups of pods that are no job's."""
    pods_at_once: int = 48
    """Pod requests in flight at once."""
    scheduler_name: str = names.SCHEDULER
    """Pods that give this ``spec.schedulerName`` and are no job's get a PodGroup."""
    settle: float = 0.02
    """How long a pod's change waits for others of its job."""
    pace: float = 0.2
    """The least time between two looks at a job because of its pods."""
    election: Election | None = None
    """What decides which of several controllers acts; None: this is the only one."""
    shutdown: float = 20.0
    """For finishing what is being worked on, once the end is asked for."""
    stuck_after: float = 600.0
    """With an object that has been worked on for so long, the process counts as unhealthy."""
    stale_watch_after: float = 300.0
    """With a watch that has failed for so long, likewise."""


class JobController:
    """The controller at work. ``now`` is there for tests."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        settings: JobControllerSettings,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        plugins: Registry = JOB_PLUGINS,
    ) -> None:
        self._settings, self._now, self._recorder, self._plugins = settings, now, recorder, plugins
        self.queue = WorkQueue("BatchJob")
        self._looked: dict[str, tuple[float, float]] = {}
        """When a job was last looked at, and how long that took."""
        self._random = Random()
        self.reconciles = 0
        self.cache = JobCache(self.wake)
        registry.JOBS.follow(self.cache, jobs_by_phase)
        self._effects = JobEffects(client, self.cache, recorder, now, settings.pods_at_once)

    def wake(self, key: str, burst: bool = False) -> None:
        """Have a job looked at; a little later where more changes are likely to follow."""
        if not burst:
            self.queue.add(key)
            return
        looked, took = self._looked.get(key, (0.0, 0.0))
        # A large job takes longer to look at, and is looked at less often: a tenth of the time at most.
        pace = max(self._settings.pace, took * 10)
        self.queue.add(key, max(self._settings.settle, looked + pace - asyncio.get_running_loop().time()))

    def told(self, event: str | None, found: Json) -> None:
        """What kopf tells."""
        if found.get("kind") == "Command":
            self.cache.command_event(event, found)
        else:
            self.cache.job_event(event, found)

    async def work(self) -> None:
        """One worker: take a key, look at the job, do what is to be done; for ever."""
        while True:
            key = await self.queue.get()
            try:
                with track_reconcile("BatchJob", key) as look:
                    look.outcome = await self._look(key)
            finally:
                self.queue.done(key)

    async def _look(self, key: str) -> str:
        """Do what is to be done for a job; what came of it, in a word."""
        raw = self.cache.jobs.get(key)
        if raw is None:
            self.queue.forget(key)
            self._looked.pop(key, None)
            return "done"
        try:
            job = BatchJob.read(raw)
        except InvalidObjectError as error:
            self._recorder.record(reference(raw), "Warning", "Unreadable", str(error))
            log.warning("job %s is left alone: %s", key, error)
            return "failed"
        self.reconciles += 1
        try:
            begun = asyncio.get_running_loop().time()
            plan = reconcile(job, self.cache.observed(key), self._now(), self._plugins)
            self._looked[key] = (begun, asyncio.get_running_loop().time() - begun)
            await self._effects.carry_out(raw, plan)
        except NotLeading:
            raise  # there is nothing to be tried again: this process ends
        except OutdatedError:
            self.queue.add(key)
            return "outdated"
        except (KubeError, NameTakenError) as fault:
            if isinstance(fault, (Forbidden, Invalid, NameTakenError)):
                self.cache.errors[uid_of(raw)] = str(fault)
            pause = self.queue.failed(key, self._random.random)
            self._recorder.record(reference(raw), "Warning", "FailedSync", str(fault))
            log.warning("job %s is tried again in %.2f s: %s", key, pause, fault)
            return "failed"
        except Exception:
            # A fault of ours in one job must not stop all others; it stays in the log and in the job's events.
            log.exception("job %s could not be worked on", key)
            self._recorder.record(reference(raw), "Warning", "InternalError", "the controller failed: see its log")
            self.queue.failed(key, self._random.random)
            return "error"
        self.queue.succeeded(key)
        if self.cache.errors.pop(uid_of(raw), None):
            self.queue.add(key)
        if plan.again is not None:
            self.queue.add(key, max((plan.again - self._now()).total_seconds(), 0.05))
        return "done"


async def run(
    connection: Connection,
    settings: JobControllerSettings | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    *,
    health: Health | None = None,
) -> None:
    """Control jobs until ``stop`` is set. ``ready`` is set when everything that exists has been seen, and it works.

    With an election in the settings it follows the cluster from the start and works from when it leads; ``health`` is
    told what to look at. Raises ThirdPartyError when an installed package with job plugins is broken, LostLeadership.
    """
    settings = settings or JobControllerSettings()
    plugins = job_registry()
    stop = stop or asyncio.Event()
    async with (
        candidacy(connection, settings.election, "controller") as candidate,
        Client(connection, fence=candidate.may_act) as client,
        EventRecorder(client, "volcanopy-controller") as recorder,
    ):
        controller = JobController(client, recorder, settings, plugins=plugins)
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
            for told in (cache.pod_group_changes, queues.contents.pod_group_changes, loose.group_changes):
                told(changes)

        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(stop.wait())
            seen_first: tuple[Reflector[Any], ...] = (pods, groups, priorities, *loose.watches)
            work = (controller.queue, *(one.queue for one in (*others, loose)))
            if health is not None:
                _watch_over(health, candidate, seen_first, work, settings)
            serving = _serve(controller, others, loose, connection, client, settings, seen_first, candidate, ready)
            main = tasks.create_task(serving)
            watches: list[asyncio.Task[Any]] = [
                tasks.create_task(pods.run(cache.pod_changes)),
                tasks.create_task(groups.run(group_changes)),
                tasks.create_task(priorities.run(cache.priority_changes)),
                *map(tasks.create_task, loose.following()),
            ]
            await ending
            await _finish(work, settings.shutdown)
            for task in (main, *watches):
                task.cancel()


def _watch_over(
    health: Health,
    candidate: Candidate,
    watches: Sequence[Reflector[Any]],
    work: Sequence[WorkQueue],
    settings: JobControllerSettings,
) -> None:
    def stuck() -> str:
        key, seconds = max((queue.longest() for queue in work), key=lambda one: one[1])
        limit = settings.stuck_after
        return "" if seconds <= limit else f"{key} has been worked on for {seconds:.0f} s (limit {limit:g} s)"

    health.live |= {"work": stuck, "watches": stale_watches(lambda: watches, settings.stale_watch_after)}
    health.ready["caches"] = unsynced(lambda: [(one.kind.plural, one.synced) for one in watches])
    health.facts["leader"] = candidate.told


async def _finish(work: Sequence[WorkQueue], seconds: float) -> None:
    """Begin nothing new, and finish what is being worked on. What is left then is done by whoever leads next."""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(queue.drain() for queue in work))
    except TimeoutError:
        log.warning("not everything could be finished in time: the next leader goes on with it")


async def _stand_by(candidate: Candidate, loose: GroupController) -> None:
    """Wait to lead. What is told meanwhile is kept; what is no more by then need not be looked at."""

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
    connection: Connection,
    client: Client,
    settings: JobControllerSettings,
    watches: Sequence[Reflector[Any]],
    candidate: Candidate,
    ready: asyncio.Event | None,
) -> None:
    """Once our watches have seen what exists, have kopf tell of what users write, and work on it."""
    wanted = {JOBS, COMMANDS}.union(*(other.watched() for other in others))
    kinds = sorted(wanted, key=lambda kind: kind.plural)
    await wait_for_kinds(client, kinds)
    for reflector in watches:
        await reflector.synced.wait()
    await _stand_by(candidate, loose)

    def told(event: str | None, found: Json) -> None:
        kind = found.get("kind")
        if kind in {JOBS.kind, COMMANDS.kind}:
            controller.told(event, found)
        for other in others:
            if any(one.kind == kind for one in other.watched()):
                other.told(event, found)

    users = KopfWatches(connection, kinds, told)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(users.run())
        await users.started.wait()
        for _ in range(settings.workers):
            tasks.create_task(controller.work())
        for other in (*others, loose):
            for _ in range(settings.workers_for_others):
                tasks.create_task(other.work())
        if ready is not None:
            ready.set()
