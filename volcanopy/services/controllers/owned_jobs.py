"""The base of the controllers of flows and cron jobs: a cache of the jobs that they create, by owner."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from volcanopy.api.batch import BatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.kube import machine
from volcanopy.kube.cache.read_your_writes import WriteTracker, version
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import JOBS, is_of
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.owned_objects import create_owned, is_controlled

Wake = Callable[[str], None]
"""Called with the uid of an owner one of whose jobs has changed."""


class OwnedJobs:
    """Jobs by owner; ``owners`` are the kinds of owners."""

    def __init__(self, owners: Iterable[str], wake: Wake) -> None:
        self._owners = frozenset(owners)
        self._wake = wake
        self._by_owner: dict[str, dict[str, BatchJob]] = {}
        self._versions: dict[str, int] = {}
        self._writes = WriteTracker()

    def of(self, owner: str) -> dict[str, BatchJob]:
        """Return the jobs of an owner, by name."""
        return self._by_owner.get(owner, {})

    def event(self, event: str | None, manifest: Json) -> None:
        """Take a job that was listed, added, changed or deleted."""
        owner, uid = self._owner(manifest), uid_of(manifest)
        if not owner:
            return
        if event == "DELETED":
            self._remove(owner, manifest["metadata"]["name"], uid)
        elif not self._writes.event(uid, version(manifest), self._versions.get(uid, 0)) or not self._take(manifest):
            return
        self._wake(owner)

    def response(self, manifest: Json) -> None:
        """Take a job from the response to its creation."""
        owner, uid = self._owner(manifest), uid_of(manifest)
        if not owner or not self._writes.response("batchjobs", uid, version(manifest), self._versions.get(uid, 0)):
            return
        if self._take(manifest):
            self._wake(owner)

    def _take(self, manifest: Json) -> bool:
        try:
            job = BatchJob.read(manifest)
        except InvalidObjectError:
            # Its own controller reports it; for its owner it is a job without progress.
            return False
        self._by_owner.setdefault(self._owner(manifest), {})[job.metadata.name] = job
        self._versions[uid_of(manifest)] = version(manifest)
        return True

    def _remove(self, owner: str, name: str, uid: str) -> None:
        self._versions.pop(uid, None)
        self._writes.deleted(uid)
        jobs = self._by_owner.get(owner, {})
        if name in jobs and jobs[name].metadata.uid == uid:
            del jobs[name]
        if not jobs:
            self._by_owner.pop(owner, None)

    def _owner(self, manifest: Json) -> str:
        for reference in manifest["metadata"].get("ownerReferences") or ():
            if reference.get("controller") and reference.get("kind") in self._owners:
                return str(reference.get("uid", ""))
        return ""


class JobOwnerController(Controller):
    """A controller of objects that own jobs: it reconciles an object when one of its jobs changes."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        now: Callable[[], datetime] = machine.utc_now,
    ) -> None:
        super().__init__(client, recorder, now)
        self.job_kind = client.of_api(JOBS)
        self.jobs = OwnedJobs((self.of_kind.kind,), self._wake)
        self.keys: dict[str, str] = {}
        """The keys of the objects by uid."""

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the own kind and that of jobs."""
        return (self.kind, self.job_kind)

    def event(self, event: str | None, manifest: Json) -> None:
        """Take an object or a job that was listed, added, changed or deleted."""
        if is_of(self.job_kind, manifest):
            self.jobs.event(event, manifest)
        else:
            super().event(event, manifest)

    def object_event(self, event: str | None, manifest: Json) -> None:
        """Take an object of the own kind that was listed, added, changed or deleted."""
        if event == "DELETED":
            self.keys.pop(uid_of(manifest), None)
        else:
            self.keys[uid_of(manifest)] = key_of(manifest)
        super().object_event(event, manifest)

    async def create_job(self, owner: str, manifest: Json) -> None:
        """Create a job of the owner with this uid, unless it exists. Raises NameTakenError."""
        job, _ = await create_owned(
            self.client,
            self.job_kind,
            manifest["metadata"]["namespace"],
            manifest,
            lambda existing: is_controlled(existing, owner),
            self.kind.kind,
        )
        self.jobs.response(job)

    def _wake(self, owner: str) -> None:
        if key := self.keys.get(owner):
            self.queue.add(key)
