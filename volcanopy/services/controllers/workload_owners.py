"""The workloads that own pods, and their settings for PodGroups.

ReplicaSets and StatefulSets are watched, because they may change while their pods stay. An owner of any other kind is read
when one of its pods comes, and with a Job the JobSet that controls it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import structlog

from volcanopy.api import names
from volcanopy.api.core import Meta, OwnerReference, ReadModel
from volcanopy.jobcontroller.jobset_podgroups import JobSet, JobSetGang, gang_of_job_set, is_job_set
from volcanopy.jobcontroller.workload_podgroups import Owner, group_annotations
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.discovery import served_kinds
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Kind

log = structlog.get_logger(__name__)

GOOD_FOR = 5.0
"""Seconds for which an owner that was read is cached."""
_REMEMBERED = 10_000


class WorkloadSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """The numbers of pods of a workload; None if it has no such field."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None


class Workload(ReadModel, frozen=True, kw_only=True, gc=False):
    """The fields of a workload that determine its PodGroup."""

    metadata: Meta
    spec: WorkloadSpec = WorkloadSpec()


class _Read(NamedTuple):
    at: float
    owner: Owner | None


REPLICA_SETS = Kind("apps", "v1", "ReplicaSet", "replicasets", True, Workload)
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets", True, Workload)


class WorkloadOwners:
    """The owners of pods. ``changed`` is called with the namespace and the uid of a workload whose settings changed."""

    def __init__(self, client: Client, changed: Callable[[str, str], None], queue_labels: Sequence[str] = ()) -> None:
        """``queue_labels``: labels that name the queue."""
        self._client, self._changed = client, changed
        self._queue_labels = queue_labels
        self._watched: dict[str, Workload] = {}
        self._read: OrderedDict[str, _Read] = OrderedDict()
        self._kinds: dict[tuple[str, str], Kind[Workload] | None] = {}

    def slim(self, workload: Workload) -> Workload:
        """Return a workload with only the fields that determine its PodGroup."""
        meta = workload.metadata
        slim = msgspec.structs.replace(meta, annotations=self._annotations(meta), labels={})
        return msgspec.structs.replace(workload, metadata=slim)

    def _annotations(self, meta: Meta) -> dict[str, str]:
        """Return the annotations of a workload that determine its PodGroup, with the queue that a label names."""
        notes = group_annotations(meta.annotations)
        labelled = next((meta.labels[key] for key in self._queue_labels if meta.labels.get(key)), "")
        return {names.POD_QUEUE_NAME: labelled} | notes if labelled else notes

    def changes(self, changes: Sequence[Change[Workload]]) -> None:
        """Take changes of ReplicaSets or StatefulSets."""
        for change in changes:
            now, meta = change.object, change.object.metadata
            if change.type is ChangeType.DELETED:
                self._watched.pop(meta.uid, None)
                continue
            before = self._watched.get(meta.uid)
            self._watched[meta.uid] = now
            if before is None or _owner(before) != _owner(now):
                self._changed(meta.namespace, meta.uid)

    async def of(self, reference: OwnerReference, namespace: str) -> tuple[Owner | None, float]:
        """Return an owner, None if it is gone, and the seconds after which to read it again (0: it is watched).

        Raises KubeError. An owner of a kind that is not served or not readable has no settings.
        """
        watched = self._watched.get(reference.uid)
        if watched is not None:
            return _owner(watched), 0.0
        now = asyncio.get_running_loop().time()
        known = self._read.get(reference.uid)
        if known is not None and now - known.at < GOOD_FOR:
            # It may have changed, and is not watched.
            return known.owner, known.at + GOOD_FOR - now
        known = self._read[reference.uid] = _Read(now, await self._look_up(reference, namespace))
        self._read.move_to_end(reference.uid)
        if len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)
        return known.owner, 0.0

    async def _look_up(self, reference: OwnerReference, namespace: str) -> Owner | None:
        kind = await self._kind(reference)
        if kind is None:
            return Owner()
        try:
            workload = await self._client.get(kind, namespace if kind.namespaced else None, reference.name)
        except NotFound:
            return None
        except Forbidden as fault:
            log.warning(
                "owner not readable, its annotations are ignored",
                kind=kind.kind,
                key=f"{namespace}/{reference.name}",
                error=str(fault),
            )
            return Owner()
        owner = _owner(self.slim(workload)) if workload.metadata.uid == reference.uid else None
        above = workload.metadata.controller
        if owner is None or above is None or not is_job_set(above):
            return owner
        return replace(owner, gang=await self._gang(above, namespace))

    async def _gang(self, reference: OwnerReference, namespace: str) -> JobSetGang | None:
        """Return the gang of a JobSet; None without one, or if the JobSet is gone or not readable."""
        kind = await self._kind(reference)
        if kind is None:
            return None
        try:
            job_set = await self._client.get(kind.of(JobSet), namespace, reference.name)
        except NotFound:
            return None
        except Forbidden as fault:
            log.warning("JobSet not readable, it is no gang", key=f"{namespace}/{reference.name}", error=str(fault))
            return None
        meta = job_set.metadata
        return gang_of_job_set(job_set, reference, self._annotations(meta)) if meta.uid == reference.uid else None

    async def _kind(self, reference: OwnerReference) -> Kind[Workload] | None:
        """Return the served kind of an owner, None if it is not served."""
        about = reference.api_version, reference.kind
        if about not in self._kinds:
            group, _, version = reference.api_version.rpartition("/")
            try:
                kinds = await served_kinds(self._client, reference.api_version)
            except Forbidden:
                return None
            resource = next((item for item in kinds if item.kind == reference.kind), None)
            if resource is None:
                return None
            self._kinds[about] = Kind(group, version, resource.kind, resource.name, resource.namespaced, Workload)
        return self._kinds[about]


def _owner(workload: Workload) -> Owner | None:
    """Return the settings of a workload; a terminating one counts as gone, since its PodGroup is deleted with it."""
    if workload.metadata.deletion_timestamp is not None:
        return None
    spec = workload.spec
    at_once = spec.replicas if spec.parallelism is None else min(spec.parallelism, spec.completions or spec.parallelism)
    return Owner(group_annotations(workload.metadata.annotations), spec.replicas, at_once)
