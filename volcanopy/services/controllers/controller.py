"""The base of the controllers of one kind: a cache of its objects, and the reconciles of changed ones."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from volcanopy.api.model import InvalidObjectError, Model
from volcanopy.jobcontroller.plan import EffectT, Plan
from volcanopy.kube.cache.read_your_writes import WriteTracker, version
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import is_of
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.owned_objects import OutdatedError
from volcanopy.services.controllers.steps import FIRST_WRITES
from volcanopy.services.controllers.worker import Worker

ModelT = TypeVar("ModelT", bound=Model)


class Controller(Worker):
    """Reconciles the objects of one kind."""

    of_kind: ClassVar[Kind[Json]]
    """The kind, in volcanopy's API."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime]) -> None:
        """``client``: the view of the API whose objects are reconciled."""
        super().__init__(client, recorder, now)
        self.kind = client.of_api(self.of_kind)
        self.noun = self.queue.name = self.kind.kind
        self.objects: dict[str, Json] = {}
        """The cached objects by ``namespace/name`` (or ``name``)."""
        self.writes = WriteTracker()
        self.errors: dict[str, str] = {}
        """By uid: the server's last rejection of a write for the object."""

    @abstractmethod
    async def reconcile_object(self, manifest: Json) -> datetime | None:
        """Reconcile an object; returns the time of the next reconcile without a change before, if there is one."""

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the own kind."""
        return (self.kind,)

    def event(self, event: str | None, manifest: Json) -> None:
        """Take an object of the own kind."""
        if is_of(self.kind, manifest):
            self.object_event(event, manifest)

    def object_event(self, event: str | None, manifest: Json) -> None:
        """Take an object of the own kind that was listed, added, changed or deleted."""
        key, uid = key_of(manifest), uid_of(manifest)
        known = self.objects.get(key)
        same = known is not None and uid_of(known) == uid
        if event == "DELETED":
            self.writes.deleted(uid)
            if same:
                del self.objects[key]
                self.errors.pop(uid, None)
        elif known is not None and same and not self.writes.event(uid, version(manifest), version(known)):
            return
        else:
            self.objects[key] = manifest
        self.queue.add(key)

    def exists(self, key: str) -> bool:
        """Whether there is an object of this key."""
        return key in self.objects

    def subject(self, key: str) -> ObjectReference | None:
        """Return the object itself."""
        manifest = self.objects.get(key)
        return None if manifest is None else self.reference(manifest)

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile the cached object."""
        return await self.reconcile_object(self.objects[key])

    def step(self, manifest: Json, plan: Plan[EffectT]) -> tuple[EffectT, ...]:
        """Return the first effects of a plan, which are written one after another; the object is queued again for the others."""
        step, remaining = plan.cut(FIRST_WRITES)
        if remaining.effects:
            self.queue.again(key_of(manifest))
        return step.effects

    def rejected(self, key: str, error: Exception) -> None:
        """Keep the server's message for the object's status."""
        if manifest := self.objects.get(key):
            self.errors[uid_of(manifest)] = str(error)

    def succeeded(self, key: str) -> None:
        """Reconcile once more after an error, so that it leaves the status."""
        if (manifest := self.objects.get(key)) and self.errors.pop(uid_of(manifest), None):
            self.queue.add(key)

    def reference(self, manifest: Json) -> ObjectReference:
        """Return an object of the own kind as the subject of Events."""
        return ObjectReference.of(self.kind, manifest)

    def readable(self, model: type[ModelT], manifest: Json) -> ModelT | None:
        """Return the model of an object; None, with an event, if it is not valid."""
        try:
            return model.read(manifest)
        except InvalidObjectError as error:
            self.record(manifest, "Warning", "Unreadable", str(error))
            return None

    def record(self, manifest: Json, event_type: Any, reason: str, message: str) -> None:
        """Record an event of an object of the own kind."""
        self.recorder.record(self.reference(manifest), event_type, reason, message)

    async def write_status(self, manifest: Json, status: Json) -> Json:
        """Replace the status of an object as it was read. Raises OutdatedError when it has changed or is gone."""
        return await self.checked(manifest, self.client.update_status(self.kind, manifest, status))

    async def checked(self, manifest: Json, write: Any) -> Json:
        """Await a write of an object and cache the response; on a conflict cache the current object.

        Raises OutdatedError when the object has changed or is gone.
        """
        meta, key = manifest["metadata"], key_of(manifest)
        try:
            written: Json = await write
        except NotFound as gone:
            self.objects.pop(key, None)
            raise OutdatedError from gone
        except Conflict as conflict:
            try:
                self.objects[key] = await self.client.get(self.kind, meta.get("namespace"), meta["name"])
            except NotFound:
                self.objects.pop(key, None)
            raise OutdatedError from conflict
        known = self.objects.get(key)
        if known is not None and self.writes.response(
            self.kind.plural, uid_of(written), version(written), version(known)
        ):
            self.objects[key] = written
        return written
