"""The base of the controllers of flows and cron jobs: a cache of the jobs that they create, by owner."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.phases import FINISHED
from volcanopy.jobcontroller.plan import CreateJob, DeleteJob, RecordEvent
from volcanopy.kube import machine
from volcanopy.kube.cache.read_your_writes import WriteTracker, version
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import JOBS, is_of
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.job_cache import uid_of
from volcanopy.services.controllers.owned_objects import create_owned, delete_same, is_controlled


class OwnedJobs:
    """Jobs by owner, an object of a kind. ``wake`` is called with the key of an owner one of whose jobs has changed.

    ``exists`` returns whether there is an owner of a key with a uid.
    """

    def __init__(self, owner: str, wake: Callable[[str], None], exists: Callable[[str, str], bool]) -> None:
        self._kind, self._wake, self._exists = owner, wake, exists
        self._by_owner: dict[str, dict[str, BatchJob]] = {}
        self.ended: dict[str, dict[str, BatchJob]] = {}
        """By owner: its finished jobs that are deleted, until it has been reconciled with them: it would create them again."""
        self._by_template: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        """By namespace and template: the names of jobs, in the order in which they were seen."""
        self._versions: dict[str, int] = {}
        self._writes = WriteTracker()

    def of(self, owner: str) -> dict[str, BatchJob]:
        """Return the jobs of the owner with this uid, by name."""
        return self.ended.get(owner, {}) | self._by_owner.get(owner, {})

    def of_template(self, namespace: str, template: str) -> Iterable[str]:
        """Return the names of the jobs created from a template, in the order in which they were seen."""
        return self._by_template.get((namespace, template), ())

    def event(self, event: str | None, manifest: Json) -> None:
        """Take a job that was listed, added, changed or deleted."""
        uid = uid_of(manifest)
        if not (owner := self._owner(manifest)):
            return
        if event == "DELETED":
            key, name = _key(manifest, owner), manifest["metadata"]["name"]
            job = self._remove(owner["uid"], name, uid)
            if job is not None and job.status.state.phase in FINISHED and self._exists(key, owner["uid"]):
                gone = job.metadata.model_copy(update={"deletion_timestamp": job.metadata.creation_timestamp})
                ended = self.ended.get(owner["uid"], {}) | {name: job.model_copy(update={"metadata": gone})}
                self.ended[owner["uid"]] = ended
            self._wake(key)
        elif self._writes.event(uid, version(manifest), self._versions.get(uid, 0)):
            self._take(manifest, owner)

    def response(self, manifest: Json) -> None:
        """Take a job from the response to its creation."""
        owner, uid = self._owner(manifest), uid_of(manifest)
        if owner and self._writes.response("batchjobs", uid, version(manifest), self._versions.get(uid, 0)):
            self._take(manifest, owner)

    def _take(self, manifest: Json, owner: Json) -> None:
        try:
            job = BatchJob.read(manifest)
        except InvalidObjectError:
            return  # its own controller reports it; for its owner it is a job without progress
        jobs, name = self._by_owner.setdefault(owner["uid"], {}), job.metadata.name
        source = _template_of(job)
        if name in jobs and _template_of(jobs[name]) != source:
            self._leave_template(jobs[name])
        if source[1]:
            self._by_template[source][name] = None
        jobs[name] = job
        self._versions[uid_of(manifest)] = version(manifest)
        self._wake(_key(manifest, owner))

    def _remove(self, owner: str, name: str, uid: str) -> BatchJob | None:
        self._versions.pop(uid, None)
        self._writes.deleted(uid)
        jobs, job = self._by_owner.get(owner, {}), None
        if name in jobs and jobs[name].metadata.uid == uid:
            self._leave_template(job := jobs.pop(name))
        if not jobs:
            self._by_owner.pop(owner, None)
        return job

    def _leave_template(self, job: BatchJob) -> None:
        source = _template_of(job)
        self._by_template[source].pop(job.metadata.name, None)
        if not self._by_template[source]:
            del self._by_template[source]

    def _owner(self, manifest: Json) -> Json | None:
        owners = manifest["metadata"].get("ownerReferences") or ()
        return next((item for item in owners if item.get("controller") and item.get("kind") == self._kind), None)


def _key(job: Json, owner: Json) -> str:
    return f"{job['metadata']['namespace']}/{owner['name']}"


def _template_of(job: BatchJob) -> tuple[str, str]:
    """Return the namespace and the template that a job was created from, which is empty without one."""
    namespace, annotations = job.metadata.namespace, job.metadata.annotations or {}
    return namespace, annotations.get(names.CREATED_BY_TEMPLATE, "").removeprefix(f"{namespace}.")


class JobOwnerController(Controller):
    """A controller of objects that own jobs: it reconciles an object when one of its jobs changes."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime] = machine.utc_now) -> None:
        super().__init__(client, recorder, now)
        self.job_kind = client.of_api(JOBS)
        self._creating: set[str] = set()
        """The uids of the owners for which a job has been created since their last reconcile began."""
        self.jobs = OwnedJobs(self.of_kind.kind, self.queue.add, self._is_known)

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the own kind and that of jobs."""
        return (self.kind, self.job_kind)

    def event(self, event: str | None, manifest: Json) -> None:
        """Take an object or a job that was listed, added, changed or deleted."""
        if is_of(self.job_kind, manifest):
            self.jobs.event(event, manifest)
        else:
            super().event(event, manifest)
            if event == "DELETED":
                self.jobs.ended.pop(uid_of(manifest), None)
                self._creating.discard(uid_of(manifest))

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile the cached object, and once more without the jobs that had finished when they were deleted."""
        uid = uid_of(self.objects[key])
        ended = self.jobs.ended.get(uid)
        self._creating.discard(uid)
        again = await super().reconcile(key)
        # A cron job writes no status with a plan that creates a job, but with the next one: its response queues that.
        if ended is not None and uid not in self._creating and self.jobs.ended.get(uid) is ended:
            del self.jobs.ended[uid]
            self.queue.add(key)
        return again

    def _is_known(self, key: str, uid: str) -> bool:
        """Whether the object of this key is the one with this uid."""
        return key in self.objects and uid_of(self.objects[key]) == uid

    async def apply(self, owner: Json, effect: CreateJob | DeleteJob | RecordEvent, reason: str) -> None:
        """Write a job of an owner, or an event. ``reason`` is that of the event of a new job. Raises NameTakenError."""
        namespace = owner["metadata"]["namespace"]
        match effect:
            case CreateJob():
                await self._create_job(uid_of(owner), namespace, effect.manifest)
                self.record(owner, "Normal", reason, str(effect))
            case DeleteJob():
                await delete_same(self.client, self.job_kind, namespace, effect.name, effect.uid)
            case RecordEvent():
                self.record(owner, effect.type, effect.reason, effect.message)

    async def _create_job(self, owner: str, namespace: str, manifest: Json) -> None:
        """Create a job of the owner with this uid, unless it exists."""

        def owned(existing: Json) -> bool:
            return is_controlled(existing, owner)

        self._creating.add(owner)
        job, _ = await create_owned(self.client, self.job_kind, namespace, manifest, owned, self.kind.kind)
        self.jobs.response(job)
