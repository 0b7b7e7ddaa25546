"""Counts of jobs that wait for admission to their queue, by queue and submitter.

A PodGroup waits until the scheduler admits it; so does a BatchJob without a PodGroup.
"""

import sys
from collections import Counter
from collections.abc import Sequence

from volcanopy.admission.request import User
from volcanopy.admission.submitter import KEYS, submitter_in
from volcanopy.api import names
from volcanopy.api.core import Meta, OwnerReference, PodGroup, ReadModel
from volcanopy.kube.cache.object_counts import ObjectCounts
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client import raw_kinds


class QueuedJobSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Queue of a job."""

    queue: str = ""


class QueuedJobState(ReadModel, frozen=True, kw_only=True, gc=False):
    """Phase of a job."""

    phase: str = ""


class QueuedJobStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Observed status of a job, without its counts."""

    state: QueuedJobState = QueuedJobState()


class QueuedJob(ReadModel, frozen=True, kw_only=True, gc=False):
    """Queue and phase of a job, for counting many jobs without keeping their pod templates in memory."""

    metadata: Meta
    spec: QueuedJobSpec = QueuedJobSpec()
    status: QueuedJobStatus = QueuedJobStatus()


JOBS = raw_kinds.JOBS.of(QueuedJob)

Waiter = tuple[str, User]
"""A queue and a submitter."""


class WaitingJobs:
    """The numbers of waiting jobs by queue and submitter. A job is counted by itself while it has no PodGroup."""

    def __init__(self) -> None:
        self._waiting = ObjectCounts[Waiter]()
        self._jobs: dict[str, Waiter] = {}
        self._owner: dict[str, str] = {}
        self._grouped: Counter[str] = Counter()

    @property
    def count(self) -> Counter[Waiter]:
        """The numbers."""
        return self._waiting.counts

    def take_groups(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take changes of PodGroups."""
        for change in changes:
            group, gone = change.object, change.type is ChangeType.DELETED
            key, waits = group.metadata.key, not gone and group.status.phase in {None, "", "Pending"}
            self._waiting.put(f"PodGroup {key}", _waiter(group) if waits else None)
            owner, before = "" if gone else _job_of(group), self._owner.pop(key, "")
            if owner:
                self._owner[key] = owner
            for job, number in ((owner, 1), (before, -1)):
                self._grouped[job] += number if job else 0
            for job in {owner, before}:
                self._count(job)
                if not self._grouped[job]:
                    del self._grouped[job]

    def take_jobs(self, changes: Sequence[Change[QueuedJob]]) -> None:
        """Take changes of jobs."""
        for change in changes:
            job, key = change.object, change.object.metadata.key
            waits = job.status.state.phase in {"", "Pending"} and job.metadata.deletion_timestamp is None
            self._jobs.pop(key, None)
            if waits and change.type is not ChangeType.DELETED:
                self._jobs[key] = _waiter(job)
            self._count(key)

    def _count(self, job: str) -> None:
        self._waiting.put(f"{JOBS.kind} {job}", None if self._grouped[job] else self._jobs.get(job))


def slim_job(job: QueuedJob) -> QueuedJob:
    """Return a job with only the fields that are counted."""
    return QueuedJob(
        metadata=slim_meta(job.metadata), spec=QueuedJobSpec(queue=sys.intern(job.spec.queue)), status=job.status
    )


def slim_meta(meta: Meta) -> Meta:
    """Return the identity, owners and submitter of an object."""
    return Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        annotations={key: sys.intern(meta.annotations[key]) for key in KEYS if key in meta.annotations},
        owner_references=tuple(
            OwnerReference(api_version=owner.api_version, kind=owner.kind, name=owner.name, controller=owner.controller)
            for owner in meta.owner_references
            if owner.kind == JOBS.kind or owner.controller
        ),
    )


def _job_of(group: PodGroup) -> str:
    """Return the key of a PodGroup's job, empty if it has none."""
    meta = group.metadata
    owners = (
        owner
        for owner in meta.owner_references
        if owner.kind == JOBS.kind and owner.api_version.startswith(names.BATCH)
    )
    return next((f"{meta.namespace}/{owner.name}" for owner in owners), "")


def _waiter(item: PodGroup | QueuedJob) -> Waiter:
    return (item.spec.queue or names.DEFAULT_QUEUE, submitter_in(item.metadata.annotations))
