"""The controller of PodGroups for pods that belong to no job.

The pods of one owner are reconciled together: one PodGroup is created, then its name is written to the pods concurrently.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any

from volcanopy.api import names
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.api.core import OwnerReference, PodGroup
from volcanopy.jobcontroller.plan import CreatePodGroup, DeletePodGroup, RecordEvent, UpdatePodGroup
from volcanopy.jobcontroller.workload_podgroups import (
    GroupEffect,
    GroupObserved,
    JoinGroup,
    Owner,
    WorkloadPod,
    changes_group,
    group_name,
    is_ours,
    owner_of,
    reconcile_group,
    slim,
)
from volcanopy.kube import machine
from volcanopy.kube.apply.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, with_own_names
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector, each_alone
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import bound
from volcanopy.services.controllers import workload_owners
from volcanopy.services.controllers.owned_objects import OutdatedError, all_of, create_owned
from volcanopy.services.controllers.worker import Worker

WORKLOAD_PODS = raw_kinds.PODS.of(WorkloadPod)

SETTLE = 0.02
"""Seconds that a pod waits for other pods of its owner."""


class GroupController(Worker):
    """Creates PodGroups for pods without one. ``now`` is injected by tests; ``at_once`` limits the requests in flight."""

    noun = "PodGroup"

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        scheduler_name: str = names.SCHEDULER,
        now: Callable[[], datetime] = machine.utc_now,
        at_once: int = 48,
        binding: Binding = VOLCANOPY,
        queue_labels: Sequence[str] = (),
    ) -> None:
        """``binding``: the API of the PodGroups; ``queue_labels``: labels of workloads that name the queue."""
        super().__init__(client, recorder, now)
        self._binding, self._kind = binding, bound(POD_GROUPS, binding)
        self._owners = workload_owners.WorkloadOwners(client, self._owner_changed, (binding,), queue_labels)
        self._pods: defaultdict[str, dict[str, WorkloadPod]] = defaultdict(dict)
        """By key of the group, by name: the pods that have, or will get, a group of this controller."""
        self._groups: dict[str, PodGroup] = {}
        self._rejected: set[str] = set()
        """Keys of groups that the server rejected, usually because of a closed queue."""
        self._slots = asyncio.Semaphore(at_once)
        ours = f"spec.schedulerName={scheduler_name}"
        pods = Reflector(
            client,
            WORKLOAD_PODS,
            transform=self._slim,
            label_selector=f"!{binding.key(names.JOB_NAME)}",
            field_selector=ours,
        )
        self._reflectors: tuple[tuple[Reflector[Any], Callable[[Any], None]], ...] = (
            (pods, self.pod_changes),
            (Reflector(client, workload_owners.REPLICA_SETS, transform=self._owners.slim), self._owners.changes),
            (Reflector(client, workload_owners.STATEFUL_SETS, transform=self._owners.slim), self._owners.changes),
        )

    @property
    def watches(self) -> tuple[Reflector[Any], ...]:
        """The watches that must be synced before reconciles start."""
        return tuple(reflector for reflector, _ in self._reflectors)

    def following(self) -> Iterable[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Return the name and the work of each watch. PodGroups come through :meth:`group_changes`."""
        names = (f"{reflector.kind.plural} without a job" for reflector, _ in self._reflectors)
        works = (partial(reflector.run, each_alone(sink)) for reflector, sink in self._reflectors)
        return list(zip(names, works, strict=True))

    # Changes

    def pod_changes(self, changes: Sequence[Change[WorkloadPod]]) -> None:
        """Take changes of pods that belong to no job."""
        for change in changes:
            pod = change.object
            key, name = _key(pod), pod.metadata.name
            known = self._pods[key].get(name) if key in self._pods else None
            if change.type is ChangeType.DELETED or not is_ours(pod):
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
        if known is not None and known.metadata.uid == pod.metadata.uid:
            del pods[pod.metadata.name]
        if not pods and self._pods.pop(key, None) is not None and pod.metadata.controller is not None:
            self.queue.add(key, SETTLE)

    def group_changes(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take changes of PodGroups, including those of jobs."""
        for change in changes:
            group, key = change.object, change.object.metadata.key
            owner = group.metadata.controller
            if owner is None or group.metadata.name != group_name(owner.uid):
                continue
            if change.type is not ChangeType.DELETED:
                self._group_seen(group)
            elif (known := self._groups.get(key)) is not None and known.metadata.uid == group.metadata.uid:
                del self._groups[key]
                self.queue.add(key)

    def _group_seen(self, group: PodGroup) -> None:
        group = with_own_names(group, (self._binding,))
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

    def queue_opened(self, _: str) -> None:
        """Retry rejected groups at once, because a queue was opened."""
        for key in self._rejected:
            self.queue.add(key)

    # Reconciles

    def rejected(self, key: str, error: Exception) -> None:
        """Retry when a queue is opened."""
        self._rejected.add(key)

    def succeeded(self, key: str) -> None:
        """Forget an earlier rejection."""
        self._rejected.discard(key)

    def exists(self, key: str) -> bool:
        """Whether there are pods or a group of this key."""
        if self._pods.get(key) or key in self._groups:
            return True
        self._rejected.discard(key)
        return False

    def subject(self, key: str) -> ObjectReference | None:
        """Return the newest of the pods."""
        pods = self._pods.get(key)
        return None if not pods else _reference(next(reversed(pods.values())))

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile the pods of one owner."""
        pods, group = tuple(self._pods.get(key, {}).values()), self._groups.get(key)
        owner, again = await self._owner(key, pods, group)
        seen = GroupObserved(tuple(self._pods.get(key, {}).values()), owner, self._groups.get(key))
        for kind, effects in groupby(reconcile_group(seen), type):
            if kind is JoinGroup:
                await all_of(self._slots, partial(self._apply, key), effects)
            else:
                for effect in effects:
                    await self._apply(key, effect)
        return self.now() + timedelta(seconds=again) if again else None

    async def _owner(self, key: str, pods: Sequence[WorkloadPod], group: PodGroup | None) -> tuple[Owner | None, float]:
        """Return the owner, and the seconds after which to read it again (0: it is watched)."""
        of_group = None if group is None else group.metadata.controller
        reference: OwnerReference | None = owner_of(pods[0]) if pods else of_group
        if reference is None:
            return None, 0.0
        if (reference.api_version, reference.kind) == ("v1", "Pod"):
            return Owner() if pods else None, 0.0
        return await self._owners.of(reference, key.partition("/")[0])

    async def _apply(self, key: str, effect: GroupEffect) -> None:
        namespace = key.partition("/")[0]
        match effect:
            case CreatePodGroup():
                self._group_seen(await self._make(namespace, effect))
            case UpdatePodGroup():
                try:
                    patch = self._patch(effect.patch)
                    self._group_seen(await self.client.patch(self._kind, namespace, effect.name, patch))
                except NotFound:
                    self._groups.pop(key, None)
                    raise OutdatedError from None
            case DeletePodGroup():
                try:
                    await self.client.delete(self._kind, namespace, effect.name, uid=effect.uid)
                except NotFound:
                    return
                except Conflict as error:
                    if not error.of_uid:
                        raise
            case JoinGroup():
                await self._join(key, effect)
            case RecordEvent():
                subject = self.subject(key)
                if subject is not None:
                    self.recorder.record(subject, effect.type, effect.reason, effect.message)

    async def _make(self, namespace: str, effect: CreatePodGroup) -> PodGroup:
        owners = {reference["uid"] for reference in effect.manifest["metadata"]["ownerReferences"]}

        def owned(group: PodGroup) -> bool:
            return bool({reference.uid for reference in group.metadata.owner_references} & owners)

        manifest = self._patch(effect.manifest) | {"apiVersion": self._kind.api_version}
        group, _ = await create_owned(self.client, self._kind, namespace, manifest, owned, "owner of the pod")
        return group

    async def _join(self, key: str, effect: JoinGroup) -> None:
        patch = {"metadata": {"resourceVersion": effect.version, "annotations": {names.GROUP_NAME: effect.group}}}
        try:
            joined = await self.client.patch(WORKLOAD_PODS, key.partition("/")[0], effect.pod, patch)
        except (NotFound, Conflict):
            # The watch shows the current pod, which triggers a reconcile.
            return
        known = self._pods.get(key, {}).get(effect.pod)
        if known is not None and known.metadata.uid == joined.metadata.uid:
            self._pods[key][effect.pod] = self._slim(joined)

    def _slim(self, pod: WorkloadPod) -> WorkloadPod:
        return slim(with_own_names(pod, (self._binding,)))

    def _patch(self, patch: Json) -> Json:
        """Return a patch or manifest with the names that labels and annotations have in the API."""
        metadata = {
            part: {self._binding.key(key): value for key, value in content.items()}
            if part in {"labels", "annotations"}
            else content
            for part, content in patch.get("metadata", {}).items()
        }
        return {**patch, "metadata": metadata} if metadata else patch


def _key(pod: WorkloadPod) -> str:
    return f"{pod.metadata.namespace}/{group_name(owner_of(pod).uid)}"


def _reference(pod: WorkloadPod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference("v1", "Pod", meta.name, meta.namespace, meta.uid, meta.resource_version)
