"""Writer of the job history: the record of a job is written before the status by which the job ends.

A crash between the two leaves a record without the status: the next controller ends the job again and writes the same key, the
uid of the job, again. Jobs that end at the same time share a write. Jobs without a record, such as those that ended
before the kind was installed, get one within a minute; those deleted before their end as soon as the deletion is seen.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime

import structlog

from volcanopy.api.batch import BatchJob
from volcanopy.api.history import JobRecord
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.history import (
    HistoryObject,
    has_ended,
    is_dropped,
    place_for,
    place_of,
    record,
    record_json,
    superfluous,
)
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, Invalid, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOB_HISTORIES
from volcanopy.kube.metrics import registry

log = structlog.get_logger(__name__)

PERIOD = 60.0
"""Seconds between two searches for jobs without a record."""
_FINAL = frozenset({"Completed", "Terminated", "Failed"})
_REJECTED = (Forbidden, NotFound, Invalid)
"""Errors that a retry does not change: jobs end without a record."""


def is_final(status: Json) -> bool:
    """Whether a job with this status has ended."""
    return (status.get("state") or {}).get("phase") in _FINAL


class JobHistoryWriter:
    """Writes records to the JobHistories of all namespaces. One process, the leader, has one."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client, self._now = client, now
        self._places: dict[str, HistoryObject] = {}
        """Where the record of each job is, by uid."""
        self._sizes: dict[HistoryObject, int] = {}
        self._pending: dict[str, dict[str, JobRecord]] = {}
        """Records to write, by namespace and uid."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._dropped: set[str] = set()
        """Uids of jobs that ended too long ago to have a record."""
        self._loaded = False
        self._deletions = asyncio.Event()

    async def load(self) -> None:
        """Read which jobs have records. Raises KubeError."""
        listing = await self._client.list(JOB_HISTORIES)
        for item in listing.items:
            place = place_of(str(item["metadata"].get("namespace") or ""), str(item["metadata"]["name"]))
            if place is not None:
                records = item.get("records") or {}
                self._sizes[place] = len(records)
                self._places |= dict.fromkeys(records, place)
        self._loaded = True

    async def start(self) -> None:
        """Load; if that fails it is tried again later, and jobs end without a record until then."""
        try:
            await self.load()
        except KubeError as fault:
            registry.HISTORY_FAILURES.inc()
            log.warning("job history not readable", error=str(fault))

    async def ended(self, job: BatchJob) -> None:
        """Write the record of a job whose end was decided. Raises KubeError if it should be tried again before the job ends."""
        if not self._loaded:
            return
        self._add(job, record(job))
        try:
            await self._flush(job.metadata.namespace)
        except _REJECTED as fault:
            self._failed(job.metadata.namespace, fault)

    def deleted(self, job: BatchJob) -> None:
        """Write the record of a deleted job soon, if it has none."""
        if job.metadata.uid not in self._places:
            self._add(job, record(job, None if has_ended(job) else self._now().replace(microsecond=0)))
            self._deletions.set()

    async def run(self, jobs: Callable[[], Iterable[Json]]) -> None:
        """Write missing records, for ever. ``jobs`` returns all jobs."""
        while True:
            try:
                if not self._loaded:
                    await self.load()
                self._add_missing(jobs())
                for namespace in list(self._pending):
                    try:
                        await self._flush(namespace)
                    except _REJECTED as fault:
                        self._failed(namespace, fault)
            except KubeError as fault:
                registry.HISTORY_FAILURES.inc()
                log.warning("job history not written", error=str(fault))
            self._deletions.clear()
            try:
                async with asyncio.timeout(PERIOD):
                    await self._deletions.wait()
            except TimeoutError:
                continue

    def _add_missing(self, jobs: Iterable[Json]) -> None:
        """Add the records of finished jobs that have none. Of dropped jobs only those are remembered that still exist."""
        dropped: set[str] = set()
        missing: list[Json] = []
        for manifest in jobs:
            uid = manifest["metadata"]["uid"]
            if uid in self._dropped:
                dropped.add(uid)
            elif is_final(manifest.get("status") or {}) and uid not in self._places:
                missing.append(manifest)
        self._dropped = dropped
        for manifest in missing:
            try:
                job = BatchJob.read(manifest)
            except InvalidObjectError:
                self._dropped.add(manifest["metadata"]["uid"])
                continue
            self._add(job, record(job))

    def _add(self, job: BatchJob, job_record: JobRecord) -> None:
        self._pending.setdefault(job.metadata.namespace, {})[job.metadata.uid] = job_record

    def _failed(self, namespace: str, fault: KubeError) -> None:
        """Drop the records of a namespace in which none can be written; finished jobs are found again."""
        self._pending.pop(namespace, None)
        registry.HISTORY_FAILURES.inc()
        log.warning("job history not written", namespace=namespace, error=str(fault))

    async def _flush(self, namespace: str) -> None:
        """Write the pending records of a namespace. Raises KubeError; then they are still pending."""
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            pending = self._pending.pop(namespace, {})
            try:
                while pending:
                    place, batch = self._batch(namespace, pending)
                    if batch:
                        await self._write(place, batch)
                    for uid in batch:
                        pending.pop(uid)
                        self._places[uid] = place
            except KubeError:
                self._pending[namespace] = pending | self._pending.get(namespace, {})
                raise

    def _batch(self, namespace: str, pending: dict[str, JobRecord]) -> tuple[HistoryObject, dict[str, JobRecord]]:
        """Return an object and the pending records that belong into it; records of dropped days are removed."""
        places = {uid: self._place(namespace, uid, entry) for uid, entry in pending.items()}
        place = next(iter(places.values()))
        if place not in self._sizes and is_dropped(place, self._sizes):
            self._dropped.update(uid for uid in pending if places[uid] == place)
            for uid in [uid for uid in pending if places[uid] == place]:
                del pending[uid]
            return place, {}
        return place, {uid: entry for uid, entry in pending.items() if places[uid] == place}

    def _place(self, namespace: str, uid: str, entry: JobRecord) -> HistoryObject:
        return self._places.get(uid) or place_for(namespace, entry.finished or self._now(), self._sizes)

    async def _write(self, place: HistoryObject, batch: dict[str, JobRecord]) -> None:
        records = {uid: record_json(entry) for uid, entry in batch.items()}
        await self._client.patch_or_create(JOB_HISTORIES, place.namespace, place.name, {"records": records})
        self._sizes[place] = self._sizes.get(place, 0) + len(batch.keys() - self._places.keys())
        await self._delete_oldest()

    async def _delete_oldest(self) -> None:
        for place in superfluous(self._sizes):
            with contextlib.suppress(NotFound):
                await self._client.delete(JOB_HISTORIES, place.namespace, place.name)
            self._sizes.pop(place)
            self._places = {uid: at for uid, at in self._places.items() if at != place}
