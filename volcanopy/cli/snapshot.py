"""``volcanopy snapshot``: what the scheduler sees and how it is configured, as a file that ``volcanopy plan`` replays."""

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from volcanopy.api import quantity
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.options import Cluster
from volcanopy.kube.cache import cluster_reader
from volcanopy.kube.cache.store import Store
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.scheduler.framework.config import DEFAULT, ConfigError, SchedulerConfig, parse
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.services.process.entry_points import ThirdPartyError, registry
from volcanopy.services.scheduler import node_load_sources
from volcanopy.services.scheduler.dump import objects
from volcanopy.services.scheduler.node_load_sources import LoadError
from volcanopy.services.scheduler.replay import CycleContext

CONFIG_MAPS: Kind[Json] = Kind("", "v1", "ConfigMap", "configmaps", True, dict)
USUAL_MAP = "volcanopy-system/volcanopy-scheduler"
"""Where the chart keeps the scheduler's configuration."""
KEY = "scheduler.yaml"
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")


async def snapshot(
    cluster: Cluster, config: Path | None, config_map: str, scheduler_name: str, default_queue: str
) -> None:
    """Print the snapshot, and on standard error what is in it and what could not be had."""
    if config is not None and config_map:
        raise CommandError("give --config or --config-map, not both", 2)
    text = _file(config) if config is not None else ""
    async with cluster.client() as client:
        store = Store(scheduler_names=(scheduler_name,), default_queue=default_queue)
        hidden = await cluster_reader.take(client, store)
        text = text or await _from_map(client, config_map)
        for plural in hidden:
            _note(f"{plural} may not be read by you and are left out: pods that need them will seem to wait")
        await _measure(client, store, text)
    now = datetime.now(UTC)
    taken = store.snapshot(now, f"snapshot-{now:%Y%m%d-%H%M%S}")
    circumstances = CycleContext(scheduler_name, default_queue, _PASSWORD.sub("", text))
    for piece in document(taken, circumstances):
        sys.stdout.write(piece)
    sys.stdout.flush()
    _note(
        f"{_counts(taken)} as of {now:%Y-%m-%dT%H:%M:%SZ}; `volcanopy plan -f FILE` makes the same plan of it anywhere"
    )


def document(taken: Snapshot, circumstances: CycleContext) -> Iterator[str]:
    """The snapshot as a List, an object a line."""
    yield '{"apiVersion":"v1","kind":"List","items":[\n'
    for number, thing in enumerate(objects(taken, circumstances)):
        yield (",\n" if number else "") + msgspec.json.encode(thing).decode()
    yield "\n]}\n"


def _file(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        raise CommandError(f"--config: {config} cannot be read: {why}", 2) from None


async def _from_map(client: Client, asked: str) -> str:
    """The configuration in a ConfigMap: the one asked for, or the usual one, or else the default of this version."""
    namespace, slash, name = (asked or USUAL_MAP).partition("/")
    if not slash:
        namespace, name = client.connection.namespace, namespace
    try:
        data = (await client.get(CONFIG_MAPS, namespace, name)).get("data") or {}
    except (NotFound, Forbidden) as fault:
        if asked:
            why = "there is none" if isinstance(fault, NotFound) else "it may not be read by you"
            raise CommandError(f"--config-map: {namespace}/{name}: {why}") from None
        _note(
            f"the scheduler's configuration was not found in ConfigMap {namespace}/{name}, so the default one stands "
            "in the snapshot; --config FILE or --config-map NAMESPACE/NAME gives another"
        )
        return DEFAULT
    if KEY in data:
        return str(data[KEY])
    if len(data) == 1:
        return str(next(iter(data.values())))
    raise CommandError(f"--config-map: {namespace}/{name} has no key {KEY}, but {', '.join(sorted(data)) or 'nothing'}")


async def _measure(client: Client, store: Store, text: str) -> None:
    """How busy the nodes are, if the configuration says where that is to be asked."""
    config = _parsed(text)
    if config is None or config.metrics is None:
        return
    state = store.state
    nodes = [state.nodes.plain["objects"][row] for row in state.node_rows()]
    rooms = {one.metadata.name: quantity.amounts(one.status.capacity or one.status.allocatable) for one in nodes}
    try:
        async with node_load_sources.source(config.metrics, client, lambda: rooms) as asked:
            state.set_usage(await asked.measure(), config.metrics.interval)
    except LoadError as fault:
        _note(f"the nodes' load is not in the snapshot: {fault}")


def _parsed(text: str) -> SchedulerConfig | None:
    try:
        return parse(text, registry())
    except (ConfigError, ThirdPartyError) as fault:
        _note(f"the scheduler's configuration is in the snapshot, but cannot be used here: {fault}")
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
