"""``volcanopy snapshot``: the objects that the scheduler reads and its configuration, as a file for ``volcanopy plan``."""

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from volcanopy.api import names
from volcanopy.api.config_file import ConfigError
from volcanopy.api.model import Json
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.client.durations import local_time
from volcanopy.client.errors import CommandError
from volcanopy.client.files import text_of
from volcanopy.client.scheduler_config import KEY, chart_map
from volcanopy.client.volcano_objects import ApiObjects, own_job, served, unfinished_jobs
from volcanopy.installed.entry_points import ThirdPartyError
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.kube.cache import cluster_reader
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.raw_kinds import CONFIG_MAPS
from volcanopy.scheduler.model.measures import Measured
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, parse
from volcanopy.services.scheduler import measure_sources
from volcanopy.services.scheduler.dump import objects
from volcanopy.services.scheduler.node_load_sources import LoadError
from volcanopy.services.scheduler.replay import CycleContext
from volcanopy.services.scheduler.state.store import Store

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PRIVATE = frozenset(
    {"args", "command", "env", "envFrom", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}
)
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")


async def snapshot(
    cluster: ClusterOptions,
    config: Path | None,
    config_map: str,
    scheduler_name: str,
    *,
    api: str = "",
) -> None:
    """Print the snapshot, and on standard error its size and what could not be read."""
    if config is not None and config_map:
        raise CommandError("give --config or --config-map, not both", 2)
    text = text_of(config, "--config") if config is not None else ""
    async with cluster.client() as client:
        taken, pieces = await read_snapshot(client, text, config_map, scheduler_name, api=api)
    for piece in pieces:
        sys.stdout.write(piece)
    sys.stdout.flush()
    _note(f"{_counts(taken)} as of {local_time(taken.now)}; replay it with `volcanopy plan -f FILE`")


async def read_snapshot(
    client: Client,
    text: str = "",
    config_map: str = "",
    scheduler_name: str = names.SCHEDULER,
    *,
    api: str = "",
) -> tuple[Snapshot, Iterator[str]]:
    """Return the snapshot of a cluster and the pieces of its document.

    ``text`` is the scheduler's configuration, by default that of the ConfigMap.
    ``api`` names the API groups to read; by default those that volcanopy handles.
    """
    apis = api_views(client, api)
    objects = ApiObjects()
    hidden = await cluster_reader.read_all(apis, objects.take)
    text = text or await _from_map(client, config_map)
    jobs = {view.api: await _jobs(view) for view in apis}
    if not api:
        apis = served(apis, [body for bodies in jobs.values() for body in bodies], objects.items)
    others = [name for name in apis.scheduler_names if name != names.SCHEDULER]
    schedulers = tuple(dict.fromkeys((scheduler_name, *others)))
    store = Store(scheduler_names=schedulers)
    store.take(Change(ChangeType.ADDED, item) for item in objects.of(apis))
    for plural in hidden:
        _note(f"you may not read {plural}: not included, so pods that need them appear unschedulable")
    await _measure(client, store, text)
    now = datetime.now(UTC)
    taken = store.snapshot(now, f"snapshot-{now:%Y%m%d-%H%M%S}")
    context = CycleContext(schedulers, names.DEFAULT_QUEUE, _PASSWORD.sub("", text))
    bodies = [own_job(stripped(body)) for view in apis for body in jobs[view.api]]
    return taken, document(taken, context, bodies)


def document(taken: Snapshot, circumstances: CycleContext, jobs: Sequence[Json] = ()) -> Iterator[str]:
    """Yield the snapshot as a List, one object per line, followed by jobs."""
    bodies = [*objects(taken, circumstances), *jobs]
    yield '{"apiVersion":"v1","kind":"List","items":[\n'
    for number, body in enumerate(bodies):
        yield (",\n" if number else "") + msgspec.json.encode(body).decode()
    yield "\n]}\n"


async def _jobs(client: Client) -> list[Json]:
    """Return the unfinished jobs of an API; none if they may not be read."""
    try:
        return await unfinished_jobs(client)
    except (NotFound, Forbidden):
        _note("you may not read batchjobs: not included, so pods that are not created yet are not planned")
        return []


def stripped(job: Json) -> Json:
    """Return a job without commands and environment of its containers, and without kubectl's annotation."""
    metadata = {key: value for key, value in job["metadata"].items() if key != "managedFields"}
    if notes := metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in notes.items() if key != LAST_APPLIED}
    tasks = [task | {"template": _bare_template(task.get("template") or {})} for task in job["spec"].get("tasks") or ()]
    return (
        {"apiVersion": names.BATCH_V1ALPHA1, "kind": "BatchJob"}
        | job
        | {
            "metadata": metadata,
            "spec": job["spec"] | {"tasks": tasks},
        }
    )


def _bare_template(template: Json) -> Json:
    spec = dict(template.get("spec") or {})
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [
                {key: value for key, value in container.items() if key not in _PRIVATE} for container in spec[kind]
            ]
    return template | {"spec": spec}


async def _from_map(client: Client, given: str) -> str:
    """Return the configuration in the ConfigMap, or in that of the chart; without one the default configuration."""
    namespace, slash, name = (given or chart_map()).partition("/")
    if not slash:
        namespace, name = client.connection.namespace, namespace
    try:
        data = (await client.get(CONFIG_MAPS, namespace, name)).get("data") or {}
    except (NotFound, Forbidden) as fault:
        if given:
            why = "not found" if isinstance(fault, NotFound) else "you may not read it"
            raise CommandError(f"--config-map: {namespace}/{name}: {why}") from None
        _note(
            f"scheduler configuration not found in ConfigMap {namespace}/{name}: the snapshot has the default one; "
            "specify another with --config FILE or --config-map NAMESPACE/NAME"
        )
        return DEFAULT
    if KEY in data:
        return str(data[KEY])
    if len(data) == 1:
        return str(next(iter(data.values())))
    raise CommandError(
        f"--config-map: {namespace}/{name} has no key {KEY}, only {', '.join(sorted(data)) or 'nothing'}"
    )


async def _measure(client: Client, store: Store, text: str) -> None:
    """Add the measures to the snapshot, if the configuration has a source of them."""
    config = _parsed(text)
    if config is None or config.metrics is None:
        return
    try:
        async with measure_sources.source(config.metrics, client, store.state) as source:
            answer = await source.measure()
    except LoadError as fault:
        _note(f"measures are not included: {fault}")
        return
    if answer.problem:
        _note(f"some measures are not included: {answer.problem}")
    settings = config.metrics
    store.state.set_measures(Measured(answer.nodes, settings.interval, settings.max_age))


def _parsed(text: str) -> SchedulerConfig | None:
    try:
        return parse(text, registry())
    except (ConfigError, ThirdPartyError) as fault:
        _note(f"the scheduler configuration is included, but not valid here: {fault}")
        return None


def _counts(taken: Snapshot) -> str:
    there = {
        "node": len(taken.nodes),
        "pod": sum(pod is not None for pod in taken.tasks.pods),
        "pod group": sum(group is not None for group in taken.jobs.groups),
        "queue": sum(queue is not None for queue in taken.queues.objects),
    }
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in there.items())


def _note(sentence: str) -> None:
    print(f"volcanopy: {sentence}", file=sys.stderr)
