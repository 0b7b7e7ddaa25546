"""What the page shows of a cluster, kept up to date by watches, with a number that grows with every change."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from volcanopy.api import core, topology_read
from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.ui.decisions import Decisions
from volcanopy.cli.ui.node_usage import NodeUsage
from volcanopy.cli.ui.samples import PERIOD, Samples
from volcanopy.client.errors import is_forbidden
from volcanopy.kube.cache.followed_kinds import HYPER_NODES, NODES, POD_GROUPS, PODS, QUEUES, slim, slimming
from volcanopy.kube.cache.name_conflicts import precedence
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews, api_views
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.services.scheduler.state import statuses

FIRST_LISTS = 10.0
"""Longest time in seconds for the first lists before pages are shown without those that failed."""


T = TypeVar("T")
_Watches = Sequence[Reflector[T] | OptionalReflector[T]]
"""The watches of a kind, one for each API in their order."""


class ClusterView:
    """The objects of a cluster, of one namespace or (None) of all; queues and nodes have none.

    Queues, pod groups and jobs are those of volcanopy's API and of Volcano's, if the cluster has it.
    """

    def __init__(self, client: Client, namespace: str | None, now: Callable[[], datetime]) -> None:
        self.namespace, self._now = namespace, now
        self.usage, self.decisions, self.samples = NodeUsage(), Decisions(), Samples()
        self.revision = 1
        """Grows with every change of an object."""
        self._changed = asyncio.Event()
        self._apis = api_views(client)
        self._queues = _watches(self._apis, QUEUES, None)
        self._groups = _watches(self._apis, POD_GROUPS, namespace)
        self._jobs = _watches(self._apis, JOBS.of(BatchJob), namespace)
        self._hyper_nodes = _watches(self._apis, HYPER_NODES, None)
        self._nodes = Reflector(client, NODES, transform=slim)
        self._pods = Reflector(client, PODS, namespace, transform=slimming(PODS, self._apis.bindings))

    @property
    def queues(self) -> Sequence[core.Queue]:
        """The queues."""
        return list(_merged(self._queues).values())

    @property
    def groups(self) -> Mapping[str, core.PodGroup]:
        """The pod groups by ``namespace/name``."""
        return _merged(self._groups)

    @property
    def jobs(self) -> Sequence[tuple[str, BatchJob]]:
        """The jobs with the name of the API of each. Those of two APIs may have the same name."""
        return [
            (view.api, job)
            for view, watch in zip(self._apis, self._jobs, strict=True)
            for job in watch.objects.values()
        ]

    @property
    def nodes(self) -> Sequence[core.Node]:
        """The nodes in the order of their names."""
        return [self._nodes.objects[name] for name in sorted(self._nodes.objects)]

    @property
    def hyper_nodes(self) -> Mapping[str, topology_read.HyperNode]:
        """The network topology, empty if there is none."""
        return _merged(self._hyper_nodes)

    @property
    def pod_count(self) -> int:
        """The number of pods."""
        return len(self._pods.objects)

    def missing(self) -> dict[str, str]:
        """Return the kinds that are not up to date, and why: their watch fails, or the user may not read them."""
        return {watch.kind.plural: watch.fault for watch in self._required if watch.fault}

    def problems(self) -> tuple[list[str], str]:
        """Return why kinds are not up to date, each reason once, and which kinds the user may not list."""
        kinds: dict[str, list[str]] = {}
        for kind, message in self.missing().items():
            kinds.setdefault("" if is_forbidden(message) else message, []).append(kind)
        forbidden = ", ".join(kinds.pop("", ()))
        reasons = [f"{', '.join(names)}: {message}" for message, names in kinds.items()]
        return reasons, f"you may not list {forbidden}" if forbidden else ""

    @property
    def unknown(self) -> list[str]:
        """The kinds of which no object is known because their watch fails: that there are none would be untrue."""
        return [watch.kind.plural for watch in self._required if watch.fault and not watch.objects]

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run(self._take_pods))
            for groups in self._groups:
                tasks.create_task(groups.run(partial(self._take_groups, groups.synced)))
            others: tuple[Reflector[Any] | OptionalReflector[Any], ...]
            others = (*self._queues, *self._jobs, *self._hyper_nodes, self._nodes)
            for reflector in others:
                tasks.create_task(reflector.run(self._take))
            tasks.create_task(self._sample())

    async def started(self) -> None:
        """Wait until every kind was listed, or its first list has failed."""
        try:
            async with asyncio.timeout(FIRST_LISTS):
                for watch in self._required:
                    if isinstance(watch, Reflector):
                        await watch.answered.wait()
                    elif not self.missing():
                        await watch.synced.wait()
        except TimeoutError:
            return

    @property
    def _required(self) -> Sequence[Reflector[Any] | OptionalReflector[Any]]:
        return (*self._queues, *self._groups, *self._jobs, self._nodes, self._pods)

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

    def _take_groups(self, synced: asyncio.Event, changes: Sequence[Change[core.PodGroup]]) -> None:
        now = self._now()
        for change in changes:
            if synced.is_set() and change.type is not ChangeType.DELETED:
                group = change.object
                self.decisions.take_group(change.old, group, job_name(group), now)
        self._take(changes)

    async def _sample(self) -> None:
        while True:
            self.samples.add(self.queues, self._now())
            await asyncio.sleep(PERIOD)


def _watches(apis: ApiViews, kind: Kind[T], namespace: str | None) -> _Watches[T]:
    """Return the watches of a kind in each API; the cluster may lack the others than volcanopy's."""
    client, *others = apis
    return (
        Reflector(client, kind, namespace, transform=slim),
        *(OptionalReflector(other, kind, namespace, transform=slim) for other in others),
    )


def _merged(watches: _Watches[T]) -> Mapping[str, T]:
    """Return the objects of all APIs by key; of several with one name that which the scheduler takes."""
    first, *others = (watch.objects for watch in watches)
    if not any(others):
        return first
    result = dict(first)
    for objects in others:
        for key, item in objects.items():
            result[key] = min(result[key], item, key=precedence) if key in result else item
    return result


def job_name(group: core.PodGroup) -> str:
    """Return ``namespace/name`` of the job of a pod group; of the pod group itself if it belongs to none."""
    return f"{group.metadata.namespace}/{statuses.job_name(group)}"
