"""The controller of HyperNodes: it keeps those that are discovered from labels of nodes, and counts the nodes of all."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from volcanopy.api import core, topology_read
from volcanopy.api.decoding import convert
from volcanopy.jobcontroller.topology_discovery import Discovery, HyperNodeChanges, changes, parse
from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import AlreadyExists, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import HYPER_NODES
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.services.controllers.steps import FIRST_WRITES
from volcanopy.services.controllers.worker import Worker
from volcanopy.services.process.watched_file import RereadFile

PACE = 0.2
"""Seconds in which changes of nodes and HyperNodes are merged into one reconcile."""
CONFIG_PERIOD = 2.0
"""Seconds between two checks of the configuration file."""
Write = Callable[[], Awaitable[object]]
_KEY = "topology"
"""The only key: one HyperNode depends on the others."""


class ControllerConfigFile(RereadFile[Discovery]):
    """The configuration file of the controller; ``current`` is the last valid one."""

    def __init__(self, path: Path | None) -> None:
        """Read the file; raises ConfigError. Without a path nothing is discovered."""
        super().__init__(path, "controller configuration", parse, Discovery)


class HyperNodeController(Worker):
    """Reconciles the network topology as a whole. ``now`` is injected by tests."""

    noun = "HyperNode"

    def __init__(
        self,
        apis: ApiViews,
        recorder: EventRecorder,
        config: ControllerConfigFile,
        nodes: Reflector[core.Node],
        now: Callable[[], datetime] = machine.utc_now,
    ) -> None:
        """``apis``: those whose HyperNodes are counted; new ones are created in the last. Others run ``nodes``."""
        super().__init__(next(iter(apis)), recorder, now)
        self._apis = apis
        self._config = config
        self._hyper_nodes: dict[tuple[str, str], Json] = {}
        self._remaining: list[Write] = []
        """The writes of the last plan that the next step continues with; none after an error."""
        self.nodes = nodes
        self._look()

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the kinds of HyperNodes."""
        return self._apis.kinds(HYPER_NODES)

    def event(self, event: str | None, manifest: Json) -> None:
        """Take a HyperNode that was listed, added, changed or deleted."""
        key = (manifest["apiVersion"], manifest["metadata"]["name"])
        if event == "DELETED":
            self._hyper_nodes.pop(key, None)
        else:
            self._hyper_nodes[key] = manifest
        self._look()

    def _look(self) -> None:
        """Reconcile soon, if there is anything to do."""
        if self._hyper_nodes or self._config.current.types is not None:
            self.queue.add(_KEY, PACE)

    async def follow_config(self) -> None:
        """Read the configuration file again when it changes, for ever."""
        while True:
            await asyncio.sleep(CONFIG_PERIOD)
            if await asyncio.to_thread(self._config.reload):
                self._look()

    def node_changes(self, changed: Sequence[Change[core.Node]]) -> None:
        """Take changes of nodes."""
        if any(_matters(change) for change in changed):
            self._look()

    def exists(self, key: str) -> bool:
        """Whether the nodes are known; their list wakes the controller."""
        return self.nodes.synced.is_set()

    def subject(self, key: str) -> ObjectReference | None:
        """Return None: errors concern no single object."""
        return None

    async def reconcile(self, key: str) -> datetime | None:
        """Write the HyperNodes that differ from the labels and the counts that have changed, a part of them at a time."""
        writes, self._remaining = self._remaining or await self._plan(), []
        for write in writes[:FIRST_WRITES]:
            self.queue.progress(key)
            with contextlib.suppress(AlreadyExists, NotFound):  # the watch shows what another process did
                await write()
        if len(writes) > FIRST_WRITES:
            self._remaining = writes[FIRST_WRITES:]
            self.queue.again(key)
        return None

    async def _plan(self) -> list[Write]:
        nodes = [self.nodes.objects[name] for name in sorted(self.nodes.objects)]
        hyper_nodes = [self._hyper_nodes[key] for key in sorted(self._hyper_nodes)]
        types = self._config.current.types
        writes: list[Write] = []
        if types is not None:
            labels = {node.metadata.name: node.metadata.labels for node in nodes}
            api_version = self.kinds()[-1].api_version
            writes += self._writes(await asyncio.to_thread(changes, types, labels, hyper_nodes, api_version))
        counts = await asyncio.to_thread(_counts, hyper_nodes, nodes)
        for item in hyper_nodes:
            name, count = item["metadata"]["name"], counts.get(item["metadata"]["name"], 0)
            if count != (item.get("status") or {}).get("nodeCount", 0):
                patch = {"status": {"nodeCount": count}}
                writes.append(partial(self._apis.of(item).patch_status, HYPER_NODES, None, name, patch))
        return writes

    def _writes(self, changed: HyperNodeChanges) -> Iterator[Write]:
        for item in changed.create:
            yield partial(self._apis.of(item).create, HYPER_NODES, None, item)
        for item in changed.change:
            content = {"metadata": {"labels": item["metadata"]["labels"]}, "spec": item["spec"]}
            yield partial(self._apis.of(item).patch, HYPER_NODES, None, item["metadata"]["name"], content)
        for item in changed.delete:
            meta = item["metadata"]
            yield partial(self._apis.of(item).delete, HYPER_NODES, None, meta["name"], uid=meta["uid"])


def _counts(hyper_nodes: Sequence[Json], nodes: Sequence[core.Node]) -> Mapping[str, int]:
    """Return the number of nodes of each HyperNode that the scheduler uses."""
    from volcanopy.scheduler.model.topology import forest  # noqa: PLC0415 - with numpy, 30 MiB that few clusters need

    declared = {item["metadata"]["name"]: convert(item, topology_read.HyperNode) for item in hyper_nodes}
    table = forest(declared, nodes)
    return {name: len(table.nodes(row)) for row, name in enumerate(table.names)}


def _matters(change: Change[core.Node]) -> bool:
    if change.type is not ChangeType.MODIFIED or change.old is None:
        return True
    return change.old.metadata.labels != change.object.metadata.labels
