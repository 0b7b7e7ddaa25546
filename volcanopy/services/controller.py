"""What every controller of a kind has in common: a queue of keys, workers that look at one at a time, and patience.

A controller is told of changes, adds keys, and says what a look at one is. What goes wrong in a look is told to people and
the look repeated after a pause that grows.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, ClassVar

from volcanopy.kube.client import Client
from volcanopy.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from volcanopy.kube.events import EventRecorder, ObjectReference
from volcanopy.kube.kinds import Json, Kind
from volcanopy.services.jobcache import key_of, uid_of
from volcanopy.services.jobeffects import OutdatedError, TakenError
from volcanopy.services.workqueue import WorkQueue

log = logging.getLogger(__name__)

LEAST_PAUSE = 0.05


class Controller(ABC):
    """Brings the objects of one kind to what they ask for."""

    kind: ClassVar[Kind[Json]]
    """The kind that is looked after."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime]) -> None:
        self.client, self.recorder, self.now = client, recorder, now
        self.queue = WorkQueue()
        self.found: dict[str, Json] = {}
        """The objects by ``namespace/name`` as they were seen last."""
        self.trouble: dict[str, str] = {}
        """What the server said last against what was to be done for an object, by its uid."""
        self._random = Random()

    @abstractmethod
    async def look(self, raw: Json) -> datetime | None:
        """Do what is to be done for one object; when to look again if nothing changes before."""

    def watched(self) -> Sequence[Kind[Any]]:
        """The kinds that this controller wants to be told of."""
        return (self.kind,)

    def told(self, event: str | None, found: Json) -> None:
        """An object was listed, added, changed or deleted."""
        if found.get("kind") == self.kind.kind:
            self.changed(event, found)

    def changed(self, event: str | None, found: Json) -> None:
        """An object of our own kind was listed, added, changed or deleted."""
        key, known = key_of(found), self.found.get(key_of(found))
        if event == "DELETED":
            if known is not None and uid_of(known) == uid_of(found):
                del self.found[key]
                self.trouble.pop(uid_of(found), None)
        elif known is not None and uid_of(known) == uid_of(found) and _version(found) <= _version(known):
            return
        else:
            self.found[key] = found
        self.queue.add(key)

    async def work(self) -> None:
        """One worker: take a key, look at the object; for ever."""
        while True:
            key = await self.queue.get()
            try:
                await self._attempt(key)
            finally:
                self.queue.done(key)

    async def _attempt(self, key: str) -> None:
        raw = self.found.get(key)
        if raw is None:
            self.queue.forget(key)
            return
        try:
            again = await self.look(raw)
        except OutdatedError:
            self.queue.add(key)
        except (KubeError, TakenError) as fault:
            if isinstance(fault, (Forbidden, Invalid, TakenError)):
                self.trouble[uid_of(raw)] = str(fault)
            pause = self.queue.failed(key, self._random.random)
            self.recorder.record(self.about(raw), "Warning", "FailedSync", str(fault))
            log.warning("%s %s is tried again in %.2f s: %s", self.kind.kind, key, pause, fault)
        except Exception:
            # A fault of ours in one object must not stop all others; it stays in the log and in the object's events.
            log.exception("%s %s could not be worked on", self.kind.kind, key)
            self.recorder.record(self.about(raw), "Warning", "InternalError", "the controller failed: see its log")
            self.queue.failed(key, self._random.random)
        else:
            self.queue.succeeded(key)
            if self.trouble.pop(uid_of(raw), None):
                self.queue.add(key)
            if again is not None:
                self.queue.add(key, max((again - self.now()).total_seconds(), LEAST_PAUSE))

    def about(self, raw: Json) -> ObjectReference:
        """The object as the subject of Events."""
        meta = raw["metadata"]
        return ObjectReference(
            api_version=self.kind.api_version,
            kind=self.kind.kind,
            name=meta["name"],
            namespace=meta.get("namespace", ""),
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
        )

    async def write_status(self, raw: Json, status: Json) -> Json:
        """Replace the status of an object as it was looked at. Raises OutdatedError when it has changed or is gone."""
        meta, key = raw["metadata"], key_of(raw)
        try:
            written = await self.client.update_status(
                self.kind, meta.get("namespace"), meta["name"], {**raw, "status": status}
            )
        except NotFound as gone:
            self.found.pop(key, None)
            raise OutdatedError from gone
        except Conflict as conflict:
            try:
                self.found[key] = await self.client.get(self.kind, meta.get("namespace"), meta["name"])
            except NotFound:
                self.found.pop(key, None)
            raise OutdatedError from conflict
        self.found[key] = written
        return written

    async def create_owned(self, kind: Kind[Json], owner: str, manifest: Json) -> Json:
        """Make an object; one of that name that belongs to the owner already is as good. Raises TakenError otherwise."""
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        try:
            return await self.client.create(kind, namespace, manifest)
        except AlreadyExists:
            found = await self.client.get(kind, namespace, name)
            owners = found["metadata"].get("ownerReferences") or ()
            if any(one.get("uid") == owner and one.get("controller") for one in owners):
                return found
            raise TakenError(
                f"{kind.kind} {name} exists and was not made by this {self.kind.kind}: delete it"
            ) from None

    async def remove(self, kind: Kind[Any], namespace: str, name: str, uid: str) -> None:
        """Delete an object and what belongs to it, if it is still the one with this uid."""
        try:
            await self.client.delete(kind, namespace, name, uid=uid, propagation="Background")
        except (NotFound, Conflict):
            log.debug("%s %s/%s is gone already", kind.kind, namespace, name)


def utc_now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


def _version(found: Json) -> int:
    return int(found["metadata"]["resourceVersion"])
