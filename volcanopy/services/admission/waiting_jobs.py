"""How many jobs wait for admission, by queue and by who asked for them: counted as what admission watches changes.

A PodGroup waits until the scheduler admits it. A BatchJob that has no PodGroup yet waits as well.
"""

import sys
from collections import Counter
from collections.abc import Sequence

from volcanopy.admission.request import User
from volcanopy.admission.submitter import KEYS, submitter_in
from volcanopy.api import names
from volcanopy.api.batch_read import QueuedJob, QueuedJobSpec
from volcanopy.api.core import Meta, OwnerReference, PodGroup
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.kinds import Kind

JOBS: Kind[QueuedJob] = Kind(names.BATCH, "v1alpha1", "BatchJob", "batchjobs", True, QueuedJob)

Waiter = tuple[str, User]
"""A queue, and whoever asked for a job in it."""


class WaitingJobs:
    """How many wait of each queue and user."""

    def __init__(self) -> None:
        self.count: Counter[Waiter] = Counter()
        self._groups: dict[str, Waiter | None] = {}
        self._jobs: dict[str, Waiter | None] = {}
        self._owner: dict[str, str] = {}
        self._grouped: Counter[str] = Counter()

    def take_groups(self, changes: Sequence[Change[PodGroup]]) -> None:
        """PodGroups have changed."""
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
        """Jobs have changed."""
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
        """A job has got a PodGroup, or one less: with one it is that which waits."""
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

    def _put(self, table: dict[str, Waiter | None], key: str, thing: PodGroup | None) -> None:
        before = table.pop(key, None)
        if thing is not None:
            table[key] = waiter = _waiter(thing)
            self.count[waiter] += 1
        if before is not None:
            self._less(before)

    def _less(self, waiter: Waiter) -> None:
        self.count[waiter] -= 1
        if not self.count[waiter]:
            del self.count[waiter]


def slim_job(job: QueuedJob) -> QueuedJob:
    """A job without what nobody counts."""
    return QueuedJob(
        metadata=slim_meta(job.metadata), spec=QueuedJobSpec(queue=sys.intern(job.spec.queue)), status=job.status
    )


def slim_meta(was: Meta) -> Meta:
    """What is to be known of an object: which it is, whose, and who asked for it."""
    return Meta(
        name=was.name,
        namespace=was.namespace,
        uid=was.uid,
        resource_version=was.resource_version,
        deletion_timestamp=was.deletion_timestamp,
        annotations={key: sys.intern(was.annotations[key]) for key in KEYS if key in was.annotations},
        owner_references=tuple(
            OwnerReference(api_version=one.api_version, kind=one.kind, name=one.name)
            for one in was.owner_references
            if one.kind == JOBS.kind
        ),
    )


def _job_of(group: PodGroup) -> str:
    """The key of the job that a PodGroup is of; empty if it is of none."""
    meta = group.metadata
    owners = (one for one in meta.owner_references if one.kind == JOBS.kind and one.api_version.startswith(names.BATCH))
    return next((f"{meta.namespace}/{one.name}" for one in owners), "")


def _waiter(thing: PodGroup | QueuedJob) -> Waiter:
    return (thing.spec.queue or names.DEFAULT_QUEUE, submitter_in(thing.metadata.annotations))
