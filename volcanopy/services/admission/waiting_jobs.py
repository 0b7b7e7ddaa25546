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
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.kinds import Kind


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


JOBS: Kind[QueuedJob] = Kind(names.BATCH, "v1alpha1", "BatchJob", "batchjobs", True, QueuedJob)

Waiter = tuple[str, User]
"""A queue and a submitter."""


class WaitingJobs:
    """The numbers of waiting jobs by queue and submitter."""

    def __init__(self) -> None:
        self.count: Counter[Waiter] = Counter()
        self._groups: dict[str, Waiter | None] = {}
        self._jobs: dict[str, Waiter | None] = {}
        self._owner: dict[str, str] = {}
        self._grouped: Counter[str] = Counter()

    def take_groups(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take changes of PodGroups."""
        for change in changes:
            group, gone = change.object, change.type is ChangeType.DELETED
            key = group.metadata.key
            self._put(self._groups, key, None if gone or group.status.phase not in {None, "", "Pending"} else group)
            owner, before = "" if gone else _job_of(group), self._owner.pop(key, "")
            if owner:
                self._owner[key] = owner
            if owner != before:
                self._regroup(before, -1)
                self._regroup(owner, +1)

    def take_jobs(self, changes: Sequence[Change[QueuedJob]]) -> None:
        """Take changes of jobs."""
        for change in changes:
            job, gone = change.object, change.type is ChangeType.DELETED
            waits = not gone and job.status.state.phase in {"", "Pending"} and job.metadata.deletion_timestamp is None
            key = job.metadata.key
            before = self._jobs.pop(key, None)
            if before is not None and not self._grouped[key]:
                self._less(before)
            if waits:
                self._jobs[key] = waiter = _waiter(job)
                if not self._grouped[key]:
                    self.count[waiter] += 1

    def _regroup(self, job: str, change: int) -> None:
        """Count a job's PodGroup instead of the job, from its first one to its last."""
        if not job:
            return
        had = self._grouped[job] > 0
        self._grouped[job] += change
        has = self._grouped[job] > 0
        if not has:
            del self._grouped[job]
        waiter = self._jobs.get(job)
        if waiter is not None and had != has:
            if has:
                self._less(waiter)
            else:
                self.count[waiter] += 1

    def _put(self, table: dict[str, Waiter | None], key: str, group: PodGroup | None) -> None:
        before = table.pop(key, None)
        if group is not None:
            table[key] = waiter = _waiter(group)
            self.count[waiter] += 1
        if before is not None:
            self._less(before)

    def _less(self, waiter: Waiter) -> None:
        self.count[waiter] -= 1
        if not self.count[waiter]:
            del self.count[waiter]


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
