"""The cluster cache of admission: queues, PodGroups, jobs, namespaces, nodes, priority classes, from own watches."""

from collections import ChainMap, Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from volcanopy.admission.context import AdmissionPolicy, Context, MakePod, PluginCheck
from volcanopy.admission.feasibility import maximal
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.api import names
from volcanopy.api.core import Meta, Node, NodeStatus, PodGroup
from volcanopy.api.scheduling import PodGroupPhase
from volcanopy.api.translation import read_with_own_names
from volcanopy.kube.cache.followed_kinds import HYPER_NODES, NAMESPACES, NODES, POD_GROUPS, PRIORITY_CLASSES, QUEUES
from volcanopy.kube.cache.object_counts import ObjectCounts
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector, each_alone
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.kinds import Kind
from volcanopy.services.admission.waiting_jobs import JOBS, WaitingJobs, slim_job, slim_meta
from volcanopy.services.process.supervisor import Supervisor

T = TypeVar("T")
_Shape = tuple[tuple[str, str | int | float], ...]


class ClusterCache:
    """Watch caches for the admission rules. :meth:`context` returns their content."""

    def __init__(
        self,
        apis: ApiViews,
        check_plugins: PluginCheck,
        policy: Callable[[], AdmissionPolicy] = AdmissionPolicy,
        make_pod: MakePod | None = None,
    ) -> None:
        """``apis``: those that are served, of which only the first must be installed."""
        self._apis, client = apis, next(iter(apis))
        self._check_plugins, self._policy, self._make_pod = check_plugins, policy, make_pod
        self.queues = self._followed(QUEUES)
        self._groups = self._followed(POD_GROUPS, _slim_group)
        self._namespaces = Reflector(client, NAMESPACES, transform=self._named)
        self._nodes: Reflector[Node] = Reflector(client, NODES, transform=_slim_node)
        self._classes = Reflector(client, PRIORITY_CLASSES)
        self._hyper_nodes = self._followed(HYPER_NODES)
        self._sizes = NodeSizes()
        self._jobs = self._followed(JOBS, slim_job)
        self._unfinished = UnfinishedPodGroups()
        self._waiting = WaitingJobs()
        self._is_complete = False

    def _followed(
        self, kind: Kind[T], transform: Callable[[T], T] | None = None
    ) -> tuple[Reflector[T] | OptionalReflector[T], ...]:
        """Return the watches of a kind in all served APIs."""

        first, *others = self._apis
        return (
            Reflector(first, kind, transform=transform),
            *(OptionalReflector(other, kind, transform=transform) for other in others),
        )

    def _named(self, item: T) -> T:
        return read_with_own_names(item, self._apis.bindings)

    def watch(self, supervisor: Supervisor) -> None:
        """Start the watches."""
        followed: list[tuple[Sequence[Any], Callable[[list[Change[Any]]], object]]] = [
            (self.queues, _nothing),
            (self._groups, self._take_groups),
            (self._jobs, self._waiting.take_jobs),
            ((self._namespaces,), _nothing),
            ((self._nodes,), self._sizes.take),
            ((self._classes,), _nothing),
            (self._hyper_nodes, _nothing),
        ]
        for reflectors, sink in followed:
            for number, reflector in enumerate(reflectors):
                name = f"watch {reflector.kind.plural}{'' if not number else f'.{reflector.kind.group}'}"
                supervisor.add(name, partial(reflector.run, each_alone(sink)))

    @property
    def watches(self) -> tuple[Reflector[Any] | OptionalReflector[Any], ...]:
        """The watches of required kinds."""
        return (*self.queues, *self._groups, *self._jobs, self._namespaces, self._nodes, self._classes)

    def _take_groups(self, changes: list[Change[PodGroup]]) -> None:
        self._unfinished.take(changes)
        self._waiting.take_groups(changes)

    @property
    def is_complete(self) -> bool:
        """Whether the watches of required kinds are synced, which they stay."""
        self._is_complete = self._is_complete or _synced(self.watches)
        return self._is_complete

    async def complete(self) -> None:
        """Wait until the watches of required kinds are synced."""
        for watch in self.watches:
            await watch.synced.wait()

    def context(self) -> Context:
        """Return the current content."""
        return Context(
            queues=_objects(self.queues),
            check_plugins=self._check_plugins,
            policy=self._policy(),
            namespaces=self._namespaces.objects if self._namespaces.synced.is_set() else None,
            largest_nodes=self._sizes.largest() if self._nodes.synced.is_set() else (),
            cluster=self._sizes.total() if self._nodes.synced.is_set() else {},
            priority_classes=self._classes.objects if self._classes.synced.is_set() else None,
            pod_groups=_objects(self._groups),
            unfinished=self._unfinished.counts,
            hyper_nodes=_objects(self._hyper_nodes),
            queued_jobs=self._waiting.count if _synced(self._groups) and _synced(self._jobs) else None,
            make_pod=self._make_pod,
        )


def _synced(watches: Sequence[Reflector[Any] | OptionalReflector[Any]]) -> bool:
    return all(watch.synced.is_set() for watch in watches)


def _objects(watches: Sequence[Reflector[T] | OptionalReflector[T]]) -> Mapping[str, T] | None:
    """Return the objects of all APIs by key, None if they are not synced. An object of the first API hides others."""
    if not _synced(watches):
        return None
    views = [watch.objects for watch in watches if watch.objects] or [{}]
    return views[0] if len(views) == 1 else ChainMap(*cast("list[dict[str, T]]", views))


class NodeSizes:
    """The allocatable sizes of nodes, of which only the largest matter."""

    def __init__(self) -> None:
        self._sizes = ObjectCounts[_Shape]()
        self._largest: tuple[Amounts, ...] | None = ()
        self._total: Amounts | None = None

    def take(self, changes: Sequence[Change[Node]]) -> None:
        """Take changes of nodes."""
        for change in changes:
            gone = change.type is ChangeType.DELETED
            shape = None if gone else tuple(sorted(change.object.status.allocatable.items()))
            for changed in self._sizes.put(change.object.metadata.name, shape):
                self._total = None
                if self._sizes.counts[changed] == (changed == shape):  # the first node of this size, or the last
                    self._largest = None

    def largest(self) -> tuple[Amounts, ...]:
        """Return the maximal sizes: no other node has more of every resource."""
        if self._largest is None:
            self._largest = maximal(amounts_of(dict(shape)) for shape in self._sizes.counts)
        return self._largest

    def total(self) -> Amounts:
        """Return the sum over all nodes."""
        if self._total is None:
            total: Counter[str] = Counter()
            for shape, count in self._sizes.counts.items():
                for name, units in amounts_of(dict(shape)).items():
                    total[name] += units * count
            self._total = dict(total)
        return self._total


class UnfinishedPodGroups(ObjectCounts[str]):
    """The number of unfinished PodGroups by queue."""

    def take(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take changes of PodGroups."""
        for change in changes:
            group = change.object
            over = change.type is ChangeType.DELETED or group.status.phase == PodGroupPhase.COMPLETED
            self.put(group.metadata.key, None if over else group.spec.queue or names.DEFAULT_QUEUE)


def _nothing(_: Sequence[Change[Any]]) -> None:
    """Only the cache of the watch is read."""


def _slim_node(node: Node) -> Node:
    meta = Meta(name=node.metadata.name, uid=node.metadata.uid, resource_version=node.metadata.resource_version)
    return Node(metadata=meta, status=NodeStatus(allocatable=node.status.allocatable))


def _slim_group(group: PodGroup) -> PodGroup:
    spec = type(group.spec)(queue=group.spec.queue)
    status = type(group.status)(phase=group.status.phase)
    return PodGroup(api_version=group.api_version, metadata=slim_meta(group.metadata), spec=spec, status=status)
