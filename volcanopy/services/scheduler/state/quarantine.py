"""Exclusion of single objects that the scheduler's state cannot take, so that all others are scheduled.

An excluded object is treated as absent until its content changes. What an excluded pod uses on its node is unknown, so that
node offers nothing meanwhile. Jobs of an excluded queue wait, as do the pods of an excluded PodGroup.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from volcanopy.api import core, topology_read
from volcanopy.api.builtin import policy
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.metrics import registry
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.model import observed_queue_status, pod_fields

log = Logger(__name__)

Identity = tuple[type[Any], str]
_TRIED = (core.Queue, policy.ResourceQuota, topology_read.NumaTopology, topology_read.HyperNode)
"""Kinds whose content is read when a snapshot is taken: a snapshot with only this object is taken first."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Excluded(NamedTuple):
    """An excluded object and the error that it causes."""

    object: Any
    error: str
    held: bool = False
    """Whether it stays excluded when its content changes, until it is readmitted."""
    readable: bool = True
    """Whether the object is whole; otherwise fields that cannot be read are missing."""

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return type(self.object).__name__

    @property
    def key(self) -> str:
        """``namespace/name``, or the name."""
        return str(self.object.metadata.key)


class Quarantine:
    """Changes a state object by object and excludes those that it cannot take.

    ``reported`` is called with each object that is excluded because of its content.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._excluded: dict[Identity, Excluded] = {}
        self._blocking: dict[str, set[str]] = defaultdict(set)
        """Node name to the keys of the excluded pods on it."""
        self._blocked: dict[str, core.Node] = {}
        """The nodes that offer nothing, as they are."""
        self._recent: dict[type[Any], dict[str, Object]] = defaultdict(dict)
        self.reported: Callable[[Excluded], object] = lambda _: None
        registry.QUARANTINED.follow(self, _by_kind)

    def entries(self) -> list[Excluded]:
        """Return the excluded objects."""
        return list(self._excluded.values())

    def excludes(self, kind: type[Object], key: str) -> bool:
        """Whether an object of this name is excluded."""
        return (kind, key) in self._excluded

    def recent(self) -> list[Object]:
        """Return the objects of the state that have changed since :meth:`settle`."""
        return [
            item
            for kind, items in self._recent.items()
            for key, item in items.items()
            if (kind, key) not in self._excluded
        ]

    def settle(self) -> None:
        """Forget which objects have changed: a cycle with all of them has succeeded."""
        self._recent.clear()

    def upsert(self, item: Object) -> bool:
        """Insert or update an object, or exclude it. Returns whether it was excluded and is not any more."""
        identity = _identity(item)
        known = self._excluded.get(identity)
        self._recent[identity[0]][identity[1]] = item
        if known is not None and (known.held or (known.readable and _content(known.object) == _content(item))):
            self._excluded[identity] = known._replace(object=item)
            return False
        try:
            if isinstance(item, core.Queue) and _only_status_differs(self._state.queues.get(item.metadata.name), item):
                observed_queue_status.columns(self._state.axis, [item])
            elif isinstance(item, _TRIED):
                _try(item)
            if isinstance(item, core.Node) and item.metadata.name in self._blocking:
                self._blocked[item.metadata.name] = item
                item = _offering_nothing(item)
            self._state.upsert(item)
        except Exception as error:
            # Whatever it is, it is about this object, and everything else must go on.
            self.exclude(item, f"{type(error).__name__}: {error}"[:500])
            self.reported(self._excluded[identity])
            return False
        if known is not None:
            del self._excluded[identity]
            self._unblock(known.object)
            log.info("object readmitted", kind=known.kind, key=known.key)
        return known is not None

    def load(self, pods: Mapping[str, core.Pod]) -> None:
        """Insert or update many pods, by their keys."""
        try:
            self._state.load(pods.values())
        except Exception:
            for pod in pods.values():  # one of them cannot be taken
                self.upsert(pod)
        else:
            self._recent[core.Pod].update(pods)

    def delete(self, item: Object) -> bool:
        """Remove an object. Returns whether it was excluded."""
        identity = _identity(item)
        self._recent[identity[0]].pop(identity[1], None)
        known = self._excluded.pop(identity, None)
        self._state.delete(item)
        if known is not None:
            self._unblock(known.object)
        if isinstance(item, core.Node):
            self._blocked.pop(item.metadata.name, None)
        return known is not None

    def exclude(self, item: Object, error: str, held: bool = False) -> None:
        """Remove an object from the state until its content changes, unless ``held``, or it is readmitted."""
        item = self._blocked.get(item.metadata.name, item) if isinstance(item, core.Node) else item
        item = self._recent[type(item)].get(item.metadata.key, item)  # it may have changed since the caller saw it
        known = self._excluded.get(_identity(item))
        self._excluded[_identity(item)] = Excluded(item, error, held)
        self._state.delete(item)
        node = item.spec.node_name if isinstance(item, core.Pod) and not pod_fields.is_over(item) else ""
        if known is not None and isinstance(known.object, core.Pod) and known.object.spec.node_name != node:
            self._unblock(known.object)  # it has ended, or is another one of this name
        if node:
            self._block(node, item.metadata.key)

    def exclude_unreadable(self, part: Object, error: str) -> None:
        """Exclude an object of which only a part can be read, until it is whole."""
        known = self._excluded.get(_identity(part))
        self.exclude(part, error)
        entry = self._excluded[_identity(part)] = Excluded(part, error, readable=False)
        if known is None or known.error != error:
            self.reported(entry)

    def readmit(self, items: Iterable[Object]) -> None:
        """Insert excluded objects again."""
        for item in items:
            known = self._excluded.pop(_identity(item), None)
            if known is not None:
                self._unblock(known.object)
                self.upsert(known.object)

    def _block(self, name: str, pod: str) -> None:
        self._blocking[name].add(pod)
        row = self._state.nodes.rows.get(name)
        node = None if row is None else self._state.nodes.plain["objects"][row]
        if node is not None and name not in self._blocked:
            self._blocked[name] = node
            self._state.upsert(_offering_nothing(node))

    def _unblock(self, item: Any) -> None:
        if not isinstance(item, core.Pod) or item.spec.node_name not in self._blocking:
            return
        name = item.spec.node_name
        self._blocking[name].discard(item.metadata.key)
        if not self._blocking[name]:
            del self._blocking[name]
            if (node := self._blocked.pop(name, None)) is not None:
                self.upsert(node)


def _identity(item: Any) -> Identity:
    return type(item), item.metadata.key


def _content(item: Any) -> Any:
    """Return what a user changes to correct an object; statuses of pods, groups and queues are written by others."""
    meta = item.metadata
    if isinstance(item, core.Pod | core.PodGroup | core.Queue):
        placed = (item.spec, pod_fields.is_over(item)) if isinstance(item, core.Pod) else item.spec
        return meta.uid, meta.labels, meta.annotations, placed
    return replace(item, metadata=replace(meta, resource_version=""))


def _only_status_differs(known: core.Queue | None, queue: core.Queue) -> bool:
    """Whether the queue was tried before with this content: queues' statuses change often, and a trial takes a millisecond."""
    return known is not None and _content(known) == _content(queue)


def _try(item: Object) -> None:
    state = State()
    state.upsert(item)
    _ = state.snapshot(_EPOCH).queues.terms


def _offering_nothing(node: core.Node) -> core.Node:
    return replace(node, status=replace(node.status, allocatable={}, capacity={}))


def _by_kind(quarantine: Quarantine) -> list[tuple[tuple[str, ...], float]]:
    counts: dict[str, int] = defaultdict(int)
    for entry in quarantine.entries():
        counts[entry.kind] += 1
    return [((kind,), count) for kind, count in sorted(counts.items())]
