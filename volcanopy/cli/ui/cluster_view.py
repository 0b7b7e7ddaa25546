"""What the page shows of a cluster, kept up to date by watches, with a number that grows with every change."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from volcanopy.api import core, topology_read
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.bindings import BINDINGS
from volcanopy.cli.ui.decisions import Decisions
from volcanopy.cli.ui.node_usage import NodeUsage
from volcanopy.cli.ui.samples import PERIOD, Samples
from volcanopy.kube.cache import statuses
from volcanopy.kube.cache.followed_kinds import HYPER_NODES, NODES, POD_GROUPS, PODS, QUEUES, slim, slimming
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import JOBS

FIRST_LISTS = 10.0
"""Longest time in seconds for the first lists before pages are shown without those that failed."""


@dataclass(frozen=True)
class Missing:
    """A kind whose objects are not up to date, and why."""

    kind: str
    message: str


class ClusterView:
    """The objects of a cluster, of one namespace or (None) of all; queues and nodes have none."""

    def __init__(self, client: Client, namespace: str | None, now: Callable[[], datetime]) -> None:
        self._now = now
        self.usage, self.decisions, self.samples = NodeUsage(), Decisions(), Samples()
        self.revision = 1
        """Grows with every change of an object."""
        self._changed = asyncio.Event()
        self._queues = Reflector(client, QUEUES, transform=slim)
        self._groups = Reflector(client, POD_GROUPS, namespace, transform=slim)
        self._jobs = Reflector(client, JOBS.of(BatchJob), namespace, transform=slim)
        self._nodes = Reflector(client, NODES, transform=slim)
        self._pods = Reflector(client, PODS, namespace, transform=slimming(PODS, BINDINGS))
        self._hyper_nodes = Reflector(client, HYPER_NODES, transform=slim)

    @property
    def queues(self) -> Sequence[core.Queue]:
        """The queues."""
        return list(self._queues.objects.values())

    @property
    def groups(self) -> Mapping[str, core.PodGroup]:
        """The pod groups by ``namespace/name``."""
        return self._groups.objects

    @property
    def jobs(self) -> Mapping[str, BatchJob]:
        """The jobs by ``namespace/name``."""
        return self._jobs.objects

    @property
    def nodes(self) -> Sequence[core.Node]:
        """The nodes in the order of their names."""
        return [self._nodes.objects[name] for name in sorted(self._nodes.objects)]

    @property
    def hyper_nodes(self) -> Mapping[str, topology_read.HyperNode]:
        """The network topology, empty if there is none."""
        return self._hyper_nodes.objects

    @property
    def pod_count(self) -> int:
        """The number of pods."""
        return len(self._pods.objects)

    def missing(self) -> list[Missing]:
        """Return the kinds that are not up to date: their watch fails, or the user may not read them."""
        required = (self._queues, self._groups, self._jobs, self._nodes, self._pods)
        reflectors: tuple[Reflector[Any], ...] = required
        return [Missing(each.kind.plural, each.fault) for each in reflectors if each.fault]

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run(self._take_pods))
            tasks.create_task(self._groups.run(self._take_groups))
            others: tuple[Reflector[Any], ...] = (self._queues, self._jobs, self._nodes, self._hyper_nodes)
            for reflector in others:
                tasks.create_task(reflector.run(self._take))
            tasks.create_task(self._sample())

    async def started(self) -> None:
        """Wait until every kind was listed, or its first list has failed."""
        reflectors: tuple[Reflector[Any], ...] = (self._queues, self._groups, self._jobs, self._nodes, self._pods)
        try:
            async with asyncio.timeout(FIRST_LISTS):
                for reflector in reflectors:
                    await reflector.answered.wait()
        except TimeoutError:
            return

    async def change_after(self, revision: int) -> int:
        """Wait for a change after this revision; return the new one."""
        while self.revision <= revision:
            await self._changed.wait()
        return self.revision

    def _take(self, changes: Sequence[Change[Any]]) -> None:
        self.revision += len(changes)
        self._changed.set()
        self._changed = asyncio.Event()

    def _take_pods(self, changes: Sequence[Change[core.Pod]]) -> None:
        now, listed = self._now(), self._pods.synced.is_set()
        for change in changes:
            if change.type is ChangeType.DELETED:
                self.usage.remove(change.object.metadata.key)
                continue
            self.usage.take(change.object)
            if listed:
                self.decisions.take_pod(change.old, change.object, now)
        self._take(changes)

    def _take_groups(self, changes: Sequence[Change[core.PodGroup]]) -> None:
        now, listed = self._now(), self._groups.synced.is_set()
        for change in changes:
            if listed and change.type is not ChangeType.DELETED:
                group = change.object
                self.decisions.take_group(change.old, group, job_name(group), now)
        self._take(changes)

    async def _sample(self) -> None:
        while True:
            self.samples.add(self._queues.objects.values(), self._now())
            await asyncio.sleep(PERIOD)


def job_name(group: core.PodGroup) -> str:
    """Return ``namespace/name`` of the job of a pod group; of the pod group itself if it belongs to none."""
    return f"{group.metadata.namespace}/{statuses.job_name(group)}"
