"""Objects of the same name in several APIs: the scheduler sees one of them.

A queue of either API is the same queue to the scheduler, and a pod names its PodGroup without a group. So only one of two objects
with the same name can be meant: the older one, and of two as old the one of volcanopy's API. The other one is reported, and is
taken when the first is deleted. The root and default queue exist in each API with the same content, and that of volcanopy's
API is taken.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volcanopy.api import core, names, topology_read
from volcanopy.kube.cache.watch import Change, ChangeType

_GROUPS = tuple(f"{group}/" for group in (names.SCHEDULING, names.TOPOLOGY, names.NODEINFO))
KINDS = (core.PodGroup, core.Queue, topology_read.HyperNode, topology_read.NumaTopology)
"""The types of objects that exist in several APIs."""


class NameConflicts:
    """Passes on the changes of one object for each name.

    ``reported`` is called with an object that is not taken and the one that is.
    """

    def __init__(self) -> None:
        self.reported: Callable[[Any, Any], object] = lambda _, __: None
        self._known: dict[tuple[type[Any], str], tuple[Any, ...]] = {}

    def resolve(self, changes: Iterable[Change[Any]]) -> Iterator[Change[Any]]:
        """Yield the changes of the objects that are taken."""
        for change in changes:
            if isinstance(change.object, KINDS) and change.type is not ChangeType.UNREADABLE:
                yield from self._resolve(change)
            else:
                yield change

    def _resolve(self, change: Change[Any]) -> Iterator[Change[Any]]:
        item = change.object
        identity = (type(item), item.metadata.key)
        before = self._known.get(identity, ())
        others = tuple(known for known in before if known.api_version != item.api_version)
        after = others if change.type is ChangeType.DELETED else tuple(sorted((*others, item), key=precedence))
        if after:
            self._known[identity] = after
        else:
            self._known.pop(identity, None)
        was, now = before[0] if before else None, after[0] if after else None
        if was is None or now is None or was.api_version == now.api_version:
            if now is None or now is item or (was is not None and item.api_version == was.api_version):
                yield change
        else:
            yield Change(ChangeType.DELETED, was)
            yield Change(ChangeType.ADDED, now)
        if (
            now is not None
            and change.type is not ChangeType.DELETED
            and len(after) > len(before)
            and not is_shared(now)
        ):
            for other in after[1:]:
                self.reported(other, now)


def precedence(item: Any) -> tuple[float, bool]:
    """Return the key of an object among those of the same name: the least one is taken."""
    created = None if is_shared(item) else item.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, not item.api_version.startswith(_GROUPS))


def is_shared(item: Any) -> bool:
    """Whether this is a queue that exists in every API."""
    return isinstance(item, core.Queue) and item.metadata.name in names.SHARED_QUEUES
