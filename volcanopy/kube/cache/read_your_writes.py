"""Read-your-writes consistency: responses to own writes enter a cache before the watch shows them.

A controller or scheduler that decides from a cache must not decide the same twice because the watch is late. A
:class:`WriteTracker` decides which states of objects a cache may take:

1. **Responses.** :meth:`WriteTracker.response` accepts the state in a response if it is newer than the cached one, and
   expects that version of the watch.
2. **Watch events.** :meth:`WriteTracker.event` rejects a state that is older than the expected version. With the version
   that the cache has already, it also rejects a state that is not newer than that.
3. **Deletions.** After :meth:`WriteTracker.deleted` every state of the object is rejected, late responses included.
4. **Lists.** An object that was created by a response, that no watch event has shown, and that a later list does not
   contain, is gone: :meth:`WriteTracker.listed` returns those.
5. **Expiry.** The expectation of a version ends with the watch event that reaches it. Deletions are remembered for the
   last 20,000 objects.

Objects are identified by any hashable value that contains the uid. Versions are resource versions: growing integers.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from volcanopy.kube import machine
from volcanopy.kube.metrics import registry

REMEMBERED_DELETIONS = 20_000


class _Write(NamedTuple):
    resource: str
    version: int
    at: float
    created: bool


class WriteTracker:
    """The versions that responses have shown and watches have not. ``clock`` returns seconds (for the lag metric)."""

    def __init__(self, clock: Callable[[], float] = machine.monotonic) -> None:
        self._clock = clock
        self._expected: dict[Hashable, _Write] = {}
        self._deleted: OrderedDict[Hashable, None] = OrderedDict()
        self._listed: dict[str, int] = {}

    def __contains__(self, identity: Hashable) -> bool:
        """Whether the watch has yet to reach a version of this object."""
        return identity in self._expected

    def response(
        self, resource: str, identity: Hashable, version: int, known: int = -1, *, created: bool = False
    ) -> bool:
        """Whether to take the state in a response to a write; ``known`` is the cached version, -1 without one.

        ``created`` marks an object that did not exist before the write, see :meth:`listed`.
        """
        if identity in self._deleted:
            return False
        if version <= known:
            registry.WATCH_LAG.labels(resource).observe(0.0)
            return False
        if created and version <= self._listed.get(resource, 0):
            self.deleted(identity)  # a list after its creation does not contain it
            return False
        self._expected[identity] = _Write(resource, version, self._clock(), created)
        return True

    def event(self, identity: Hashable, version: int, known: int = -1) -> bool:
        """Whether to take the state in a watch event or list; ``known`` is the cached version, -1 without one."""
        if identity in self._deleted:
            return False
        write = self._expected.get(identity)
        if write is not None:
            if version < write.version:
                return False
            del self._expected[identity]
            registry.WATCH_LAG.labels(write.resource).observe(max(self._clock() - write.at, 0.0))
        return version > known

    def is_deleted(self, identity: Hashable) -> bool:
        """Whether the object has been deleted."""
        return identity in self._deleted

    def forget(self, identity: Hashable) -> None:
        """Expect no version of this object any more, because the watch, the only source of new objects, deleted it."""
        self._expected.pop(identity, None)

    def deleted(self, identity: Hashable) -> None:
        """Reject all further states of this object."""
        self._expected.pop(identity, None)
        self._deleted[identity] = None
        if len(self._deleted) > REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)

    def listed(self, resource: str, version: int) -> list[Any]:
        """Note a complete list at this version; return the created objects that it should contain and no watch has shown.

        They have been deleted, and no watch event will show it. Call it after the list has been taken into the cache.
        """
        self._listed[resource] = version
        missing = [
            identity
            for identity, write in self._expected.items()
            if write.created and write.resource == resource and write.version <= version
        ]
        for identity in missing:
            self.deleted(identity)
        return missing


def version(item: Any) -> int:
    """Return the resource version of an object, a struct or plain JSON."""
    if isinstance(item, dict):
        return int(item["metadata"].get("resourceVersion") or 0)
    return int(item.metadata.resource_version or 0)
