"""What every controller of a kind has in common: it is told of objects, keeps them, and looks at those that changed."""

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from volcanopy.kube.apply.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.cache.read_your_writes import WriteTracker
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.effects import NameTakenError, OutdatedError
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.worker import Worker

log = logging.getLogger(__name__)


class Controller(Worker):
    """Brings the objects of one kind to what they ask for."""

    kind: ClassVar[Kind[Json]]
    """The kind that is looked after."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime]) -> None:
        super().__init__(client, recorder, now)
        self.noun = self.queue.name = self.kind.kind
        self.found: dict[str, Json] = {}
        """The objects by ``namespace/name`` (or ``name``) as they were seen last."""
        self.writes = WriteTracker()
        self.trouble: dict[str, str] = {}
        """What the server said last against what was to be done for an object, by its uid."""

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

    def exists(self, key: str) -> bool:
        """Whether there is an object of this key."""
        return key in self.found

    def subject(self, key: str) -> ObjectReference | None:
        """The object itself."""
        raw = self.found.get(key)
        return None if raw is None else self.about(raw)

    async def attempt(self, key: str) -> datetime | None:
        """Look at the object as it was seen last."""
        return await self.look(self.found[key])

    def refused(self, key: str, fault: Exception) -> None:
        """Keep what the server said, for the object's status."""
        if raw := self.found.get(key):
            self.trouble[uid_of(raw)] = str(fault)

    def succeeded(self, key: str) -> None:
        """Look once more when there is no more trouble, so that the status says so."""
        if (raw := self.found.get(key)) and self.trouble.pop(uid_of(raw), None):
            self.queue.add(key)

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
            raise NameTakenError(
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
