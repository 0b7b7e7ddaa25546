"""The controller process: the job controller, and those of flows, cron jobs, queues and PodGroups.

A job has one reconcile at a time; changes during it,
and bursts of changes, are merged into the next one.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import structlog

from volcanopy.api.translation import with_names_of_its_api
from volcanopy.installed.job_plugins import job_registry
from volcanopy.kube.cache.followed_kinds import NODES, PRIORITY_CLASSES
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.api_controllers import ApiControllers, api_controllers
from volcanopy.services.controllers.gangs import GangController
from volcanopy.services.controllers.group_worker import GroupWorker
from volcanopy.services.controllers.hyper_nodes import ControllerConfigFile, HyperNodeController
from volcanopy.services.controllers.job_cache import with_labels_and_readiness
from volcanopy.services.controllers.jobs import JobController, JobControllerSettings
from volcanopy.services.controllers.kopf_edge import kopf_edge
from volcanopy.services.controllers.queues import QueueController
from volcanopy.services.controllers.run_times import RunTimes
from volcanopy.services.controllers.user_kinds import Edge, Sink, UserKinds, WatchedKind, wait_for_kinds
from volcanopy.services.controllers.worker import Followed, Worker
from volcanopy.services.controllers.workqueue import WorkQueue
from volcanopy.services.process.election import Candidate, candidacy, home
from volcanopy.services.process.health import Health, stale_watches, unsynced
from volcanopy.services.process.installed_apis import InstalledApis
from volcanopy.services.process.settings import scheduler_names
from volcanopy.services.process.supervisor import Supervisor
from volcanopy.services.process.volcano_processes import VolcanoProcesses

log = structlog.get_logger(__name__)

Watch = Reflector[Any] | OptionalReflector[Any] | WatchedKind

_PRUNE = 60.0
"""Seconds between two removals of deleted objects from the queue of a follower."""


async def run(
    connection: Connection,
    settings: JobControllerSettings | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    *,
    health: Health | None = None,
    edge: Edge | None = None,
) -> None:
    """Run the controllers until ``stop`` is set. ``ready`` is set when the caches are synced and the workers run.

    With an election in the settings the caches follow the cluster from the start, the workers run from leadership on.
    ``health`` gets the checks. ``edge`` watches the kinds that users write, with kopf if none is given: kopf cannot run in
    virtual time. Raises ThirdPartyError when an installed job plugin or kopf cannot be used, ConfigError, VolcanoRunsError,
    LostLeadership.
    """
    edge = edge or kopf_edge(connection)
    settings = settings or JobControllerSettings()
    plugins, config = job_registry(), ControllerConfigFile(settings.config)
    stop = stop or asyncio.Event()
    async with (
        candidacy(connection, settings.election, "controller") as candidate,
        Client(connection, fence=candidate.may_act) as client,
        EventRecorder(client, "volcanopy-controller") as recorder,
    ):
        namespace = (settings.election.namespace if settings.election else "") or home(connection)
        run_times = RunTimes(client, namespace)
        apis_of_cluster = InstalledApis(api_views(client, settings.api))
        views = await apis_of_cluster.installed(stop)
        gangs = _gangs(client, recorder, settings)
        apis = []
        for view, binding in zip(views, views.bindings, strict=True):
            [scheduler_name] = scheduler_names(settings.scheduler_name, (binding,))[:1]
            apis.append(api_controllers(view, recorder, settings, scheduler_name, plugins, run_times, gangs))
        groups = [*(api.loose for api in apis), gangs]

        def opened(queue: str) -> None:
            for group in groups:
                group.queue_opened(queue)

        queues = QueueController(views, recorder, opened)
        nodes = Reflector(client, NODES, transform=with_labels_and_readiness)
        hyper_nodes = HyperNodeController(views, recorder, config, nodes)
        workers: list[Worker] = [*(api.jobs for api in apis), queues, hyper_nodes]
        workers += [*(worker for api in apis for worker in (*api.others, api.loose)), gangs]

        supervisor = Supervisor()
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(stop.wait())
            followed = [_priorities(client, apis)]
            followed += [*(entry for api in apis for entry in api.followed(queues.contents)), *gangs.followed()]
            seen_first = [entry.watch for entry in followed]
            required = tuple(kind for api in apis for kind in api.jobs.kinds())
            kinds = sorted({*(kind for worker in workers for kind in worker.kinds())}, key=_plural_and_group)
            users = UserKinds(client, kinds, required, _dispatch(workers), edge)
            work = [worker.queue for worker in workers]
            _watch_over(
                health or Health(), candidate, (*seen_first, *users.required), required, work, supervisor, settings
            )
            for entry in followed:
                supervisor.add(f"watch {entry.name}", entry.run)
            supervisor.add("watch nodes", partial(nodes.run, partial(_node_changes, apis, hyper_nodes)))
            if settings.config is not None:
                supervisor.add("configuration", hyper_nodes.follow_config)
            apis_of_cluster.watch(supervisor)
            serving = _serve(
                apis, groups, workers, run_times, users, client, settings, seen_first, candidate, supervisor, ready
            )
            main = tasks.create_task(serving)
            supervising = tasks.create_task(supervisor.run())
            await ending
            await _finish(work, settings.shutdown)
            for task in (main, supervising):
                task.cancel()


def _dispatch(workers: Sequence[Worker]) -> Sink:
    """Return the function that passes an event on to the workers of its kind."""
    workers_of: dict[tuple[str, str], dict[Worker, None]] = {}
    for worker in workers:
        for kind in worker.kinds():
            workers_of.setdefault((kind.group, kind.kind), {})[worker] = None

    def dispatch(event: str, manifest: Json) -> None:
        manifest = with_names_of_its_api(manifest)
        for worker in workers_of[manifest["apiVersion"].rpartition("/")[0], manifest["kind"]]:
            worker.event(event, manifest)

    return dispatch


def _plural_and_group(kind: Kind[Any]) -> tuple[str, str]:
    return kind.plural, kind.group


def _gangs(client: Client, recorder: EventRecorder, settings: JobControllerSettings) -> GangController:
    """Return the controller of gangs of other APIs; without such an API it does nothing."""
    return GangController(
        next(iter(api_views(client, settings.api))),
        recorder,
        settings.gang_apis,
        at_once=settings.pods_at_once,
        queue_labels=settings.queue_labels,
    )


def _priorities(client: Client, apis: Sequence[ApiControllers]) -> Followed:
    """Return the watch of PriorityClasses."""

    def take(changes: Sequence[Change[Any]]) -> None:
        for api in apis:
            api.jobs.cache.priority_changes(changes)

    return Followed("priorityclasses", Reflector(client, PRIORITY_CLASSES), take)


def _node_changes(
    apis: Sequence[ApiControllers], hyper_nodes: HyperNodeController, changes: Sequence[Change[Any]]
) -> None:
    hyper_nodes.node_changes(changes)
    for api in apis:
        api.jobs.cache.node_changes(changes)


def _watch_over(
    health: Health,
    candidate: Candidate,
    watches: Sequence[Watch],
    with_leadership: Collection[Kind[Any]],
    work: Sequence[WorkQueue],
    supervisor: Supervisor,
    settings: JobControllerSettings,
) -> None:
    def stuck() -> str:
        key, seconds = max((queue.longest() for queue in work), key=lambda longest: longest[1])
        limit = settings.stuck_after
        return (
            ""
            if seconds <= limit
            else f"reconcile of {key} has made no progress for {seconds:.0f} s (limit {limit:g} s)"
        )

    supervisor.check("work", stuck)
    health.live |= {
        "work": stuck,
        "watches": stale_watches(lambda: watches),
        "parts": supervisor.problem,
    }
    seen_first = [watch for watch in watches if watch.kind not in with_leadership]
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


async def _stand_by(candidate: Candidate, groups: Sequence[GroupWorker]) -> None:
    """Wait for leadership; meanwhile changes are queued, and deleted objects leave the queue."""

    async def prune() -> None:
        while True:
            await asyncio.sleep(_PRUNE)
            for group in groups:
                group.queue.prune(group.exists)

    async with asyncio.TaskGroup() as tasks:
        pruning = tasks.create_task(prune())
        await candidate.lead()
        pruning.cancel()


async def _serve(
    apis: Sequence[ApiControllers],
    groups: Sequence[GroupWorker],
    workers: Sequence[Worker],
    run_times: RunTimes,
    users: UserKinds,
    client: Client,
    settings: JobControllerSettings,
    watches: Sequence[Watch],
    candidate: Candidate,
    supervisor: Supervisor,
    ready: asyncio.Event | None,
) -> None:
    """Once the watches are synced and this process leads, watch what users write and start the workers."""
    await wait_for_kinds(client, [kind for api in apis for kind in api.jobs.kinds()])
    for reflector in watches:
        await reflector.synced.wait()
    volcano = VolcanoProcesses(client, "controller", api_views(client, settings.api).bindings)
    await volcano.ensure_none()
    await _stand_by(candidate, groups)
    volcano.watch(supervisor)
    supervisor.add("watches of the kinds that users write", users.run)
    await users.listed()
    await run_times.load()
    await _keep_records(apis, run_times, supervisor)
    numbers: Counter[str] = Counter()
    for worker in workers:
        for _ in range(settings.workers if isinstance(worker, JobController) else settings.workers_for_others):
            supervisor.add(f"{worker.noun} worker {numbers[worker.noun]}", worker.work)
            numbers[worker.noun] += 1
    if ready is not None:
        ready.set()


async def _keep_records(apis: Sequence[ApiControllers], run_times: RunTimes, supervisor: Supervisor) -> None:
    """Record the jobs that end, where the API has records, and learn their run times."""

    def wake(key: str) -> None:
        for api in apis:
            api.jobs.wake(key)

    for api in apis:
        if api.jobs.history is not None:
            await api.jobs.history.start()
            supervisor.add("job history", partial(api.jobs.history.run, api.jobs.cache.manifests))
    supervisor.add(
        "learnt run times",
        partial(run_times.run, lambda: [job for api in apis for job in api.jobs.cache.manifests()], wake),
    )
