"""The controller of PodGroups for pods that belong to no job.

The pods of one owner are reconciled together: one PodGroup is created, then its name is written to the pods concurrently.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import structlog

from volcanopy.api import names
from volcanopy.api.core import Meta, OwnerReference, PodGroup, ReadModel
from volcanopy.jobcontroller.jobset_podgroups import JobSet, JobSetGang, gang_of_job_set, is_job_set
from volcanopy.jobcontroller.workload_podgroups import (
    GroupObserved,
    Owner,
    WorkloadPod,
    changes_group,
    group_annotations,
    group_name,
    is_ours,
    owner_of,
    reconcile_group,
    slim,
)
from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import served_kinds
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.kube.writes.round_robin import namespace_of
from volcanopy.services.controllers.gangs import GangController
from volcanopy.services.controllers.group_worker import SETTLE, WORKLOAD_PODS, GroupWorker
from volcanopy.services.controllers.worker import Followed

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
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class _Read(NamedTuple):
    at: float
    owner: Owner | None


REPLICA_SETS = Kind("apps", "v1", "ReplicaSet", "replicasets", True, Workload)
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets", True, Workload)


class WorkloadOwners:
    """The owners of pods. ``changed`` is called with the namespace and the uid of a workload whose settings changed.

    ReplicaSets and StatefulSets are watched, because they may change while their pods stay. An owner of any other kind is read
    when one of its pods comes, and with a Job the JobSet that controls it.
    """

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
        status = {key: value for key, value in workload.status.items() if key == "succeeded"}
        return msgspec.structs.replace(workload, metadata=slim, status=status)

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
    at_once = spec.replicas if spec.parallelism is None else spec.parallelism
    completions, succeeded = spec.completions, workload.status.get("succeeded", 0)
    return Owner(group_annotations(workload.metadata.annotations), spec.replicas, at_once, completions, succeeded)


class GroupController(GroupWorker):
    """Creates PodGroups for pods without one. ``now`` is injected by tests; ``at_once`` limits the requests in flight."""

    noun = "PodGroup"

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        scheduler_name: str = names.SCHEDULER,
        now: Callable[[], datetime] = machine.utc_now,
        at_once: int = 48,
        queue_labels: Sequence[str] = (),
        gangs: GangController | None = None,
    ) -> None:
        """``client``: the view of the API of the PodGroups; ``queue_labels``: labels of workloads that name the queue.

        ``gangs`` has the pods that name a PodGroup of another gang API.
        """
        super().__init__(client, recorder, now, at_once)
        self._gangs = gangs
        self._owners = WorkloadOwners(client, self._owner_changed, queue_labels)
        ours = f"spec.schedulerName={scheduler_name}"
        self._watches: tuple[tuple[Reflector[Any], Callable[[Any], None]], ...] = (
            (
                Reflector(
                    client, WORKLOAD_PODS, transform=slim, label_selector=f"!{names.JOB_NAME}", field_selector=ours
                ),
                self.pod_changes,
            ),
            (Reflector(client, REPLICA_SETS, transform=self._owners.slim), self._owners.changes),
            (Reflector(client, STATEFUL_SETS, transform=self._owners.slim), self._owners.changes),
        )

    def followed(self) -> Sequence[Followed]:
        """Return the watches of pods and workloads. PodGroups come through :meth:`group_changes`."""
        return [Followed(f"{watch.kind.plural} without a job", watch, take) for watch, take in self._watches]

    # Changes

    def pod_changes(self, changes: Sequence[Change[WorkloadPod]]) -> None:
        """Take changes of pods that belong to no job."""
        for change in changes:
            pod = change.object
            key, name = _key(pod), pod.metadata.name
            known = self._pods[key].get(name) if key in self._pods else None
            of_gang = self._gangs is not None and self._gangs.take_pod(change)
            if change.type is ChangeType.DELETED or of_gang or not is_ours(pod):
                self._lose(key, pod)
            elif known is None or known.metadata.uid != pod.metadata.uid:
                self._pods[key][name] = pod
                # A pod without owner that has a group needs nothing, and there may be very many.
                if not pod.group or key not in self._groups or pod.metadata.controller is not None:
                    self.queue.add(key, SETTLE)
            elif int(pod.metadata.resource_version) > int(known.metadata.resource_version):
                self._pods[key][name] = pod
                if (pod.lives and not pod.group) or changes_group(known, pod):
                    self.queue.add(key, SETTLE)

    def _lose(self, key: str, pod: WorkloadPod) -> None:
        pods = self._pods.get(key, {})
        known = pods.get(pod.metadata.name)
        if known is None or known.metadata.uid != pod.metadata.uid:
            return
        del pods[pod.metadata.name]
        if not pods:
            del self._pods[key]
        if pod.metadata.controller is not None:  # it may run fewer pods now; it is not read more often than that
            self.queue.add(key, GOOD_FOR if pods else SETTLE)

    def group_changes(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take changes of PodGroups, including those of jobs."""
        for change in changes:
            group, key = change.object, change.object.metadata.key
            owner = group.metadata.controller
            if owner is None or group.metadata.name != group_name(owner.uid):
                continue
            if self._gangs is not None and self._gangs.take_group(change):
                continue
            if change.type is not ChangeType.DELETED:
                self._group_seen(group)
            elif (known := self._groups.get(key)) is not None and known.metadata.uid == group.metadata.uid:
                del self._groups[key]
                for affected in (key, *self._jobs_in(group)):
                    self.queue.add(affected)

    def _jobs_in(self, group: PodGroup) -> list[str]:
        """Return the keys of the Jobs whose pods are in the PodGroup of a JobSet."""
        owner, name = group.metadata.controller, group.metadata.name
        if owner is None or not is_job_set(owner):
            return []
        return [key for key, pods in self._pods.items() if any(pod.group == name for pod in pods.values())]

    def _group_seen(self, group: PodGroup) -> None:
        key = group.metadata.key
        known = self._groups.get(key)
        if known is None or int(known.metadata.resource_version) < int(group.metadata.resource_version):
            self._groups[key] = group
        if known is None and key not in self._pods:
            # Its pods may have been deleted while no controller was running.
            self.queue.add(key, SETTLE)

    def _owner_changed(self, namespace: str, uid: str) -> None:
        key = f"{namespace}/{group_name(uid)}"
        if key in self._pods or key in self._groups:
            self.queue.add(key, SETTLE)

    # Reconciles

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile the pods of one owner."""
        pods, group = tuple(self._pods.get(key, {}).values()), self._groups.get(key)
        owner, again = await self._owner(key, pods, group)
        of_gang = f"{key.partition('/')[0]}/{owner.group}" if owner is not None and owner.group else key
        seen = GroupObserved(tuple(self._pods.get(key, {}).values()), owner, self._groups.get(of_gang))
        await self._carry_out(key, reconcile_group(seen))
        return self.now() + timedelta(seconds=again) if again else None

    async def _owner(self, key: str, pods: Sequence[WorkloadPod], group: PodGroup | None) -> tuple[Owner | None, float]:
        """Return the owner, and the seconds after which to read it again (0: it is watched)."""
        of_group = None if group is None else group.metadata.controller
        reference: OwnerReference | None = owner_of(pods[0]) if pods else of_group
        if reference is None:
            return None, 0.0
        if (reference.api_version, reference.kind) == ("v1", "Pod"):
            return Owner() if pods else None, 0.0
        return await self._owners.of(reference, namespace_of(key))


def _key(pod: WorkloadPod) -> str:
    return f"{pod.metadata.namespace}/{group_name(owner_of(pod).uid)}"
