"""The controller of PodGroups for pods that are no job's: pods, their owners and the groups wake it.

A burst of pods of one owner is one look: one group is made, then each pod is told its name, many at a time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from volcanopy.api import names
from volcanopy.api.core import OwnerReference, PodGroup
from volcanopy.jobcontroller.plan import RecordEvent
from volcanopy.jobcontroller.workload_podgroups import (
    GroupEffect,
    GroupObserved,
    JoinGroup,
    LoosePod,
    MakeGroup,
    Owner,
    PatchGroup,
    RemoveGroup,
    group_name,
    is_ours,
    owner_of,
    reconcile_group,
    slim,
    speaks_anew,
)
from volcanopy.kube.apply.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.services.controllers import workload_owners
from volcanopy.services.controllers.controller import utc_now
from volcanopy.services.controllers.effects import POD_GROUPS, NameTakenError, OutdatedError
from volcanopy.services.controllers.worker import Worker

LOOSE_PODS = Kind("", "v1", "Pod", "pods", True, LoosePod)

SETTLE = 0.02
"""Seconds that a pod waits for others of its owner."""


class GroupController(Worker):
    """Gives PodGroups to pods that have none. ``now`` is there for tests; ``at_once`` bounds the requests in flight."""

    noun = "PodGroup"

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        scheduler_name: str = names.SCHEDULER,
        now: Callable[[], datetime] = utc_now,
        at_once: int = 48,
    ) -> None:
        super().__init__(client, recorder, now)
        self._owners = workload_owners.WorkloadOwners(client, self._owner_changed)
        self._pods: defaultdict[str, dict[str, LoosePod]] = defaultdict(dict)
        """By the key of their group, by name: the pods that have, or are to have, the group that we give them."""
        self._groups: dict[str, PodGroup] = {}
        self._refused: set[str] = set()
        """Keys of groups that the server would not take, a closed queue's as a rule."""
        self._slots = asyncio.Semaphore(at_once)
        ours = f"spec.schedulerName={scheduler_name}"
        pods = Reflector(client, LOOSE_PODS, transform=slim, label_selector=f"!{names.JOB_NAME}", field_selector=ours)
        self._reflectors: tuple[tuple[Reflector[Any], Callable[[Any], None]], ...] = (
            (pods, self.pod_changes),
            (Reflector(client, workload_owners.REPLICA_SETS, transform=workload_owners.slim), self._owners.changes),
            (Reflector(client, workload_owners.STATEFUL_SETS, transform=workload_owners.slim), self._owners.changes),
        )

    @property
    def watches(self) -> tuple[Reflector[Any], ...]:
        """What must have been seen once before work begins."""
        return tuple(reflector for reflector, _ in self._reflectors)

    def following(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The watches, to be run beside the workers. PodGroups are told to :meth:`group_changes` by others."""
        return [reflector.run(sink) for reflector, sink in self._reflectors]

    # What is told

    def pod_changes(self, changes: Sequence[Change[LoosePod]]) -> None:
        """Pods that are no job's have changed."""
        for change in changes:
            pod = change.object
            key, name = _key(pod), pod.metadata.name
            known = self._pods[key].get(name) if key in self._pods else None
            if change.type is ChangeType.DELETED or not is_ours(pod):
                self._lose(key, pod)
            elif known is None or known.metadata.uid != pod.metadata.uid:
                self._pods[key][name] = pod
                # A pod of its own with a group has nothing to say, and there may be very many.
                if not pod.group or key not in self._groups or pod.metadata.controller is not None:
                    self.queue.add(key, SETTLE)
            elif int(pod.metadata.resource_version) > int(known.metadata.resource_version):
                self._pods[key][name] = pod
                if (pod.lives and not pod.group) or speaks_anew(known, pod):
                    self.queue.add(key, SETTLE)

    def _lose(self, key: str, pod: LoosePod) -> None:
        pods = self._pods.get(key, {})
        known = pods.get(pod.metadata.name)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            del pods[pod.metadata.name]
        if not pods and self._pods.pop(key, None) is not None and pod.metadata.controller is not None:
            self.queue.add(key, SETTLE)

    def group_changes(self, changes: Sequence[Change[PodGroup]]) -> None:
        """PodGroups have changed, those of jobs among them."""
        for change in changes:
            group, key = change.object, change.object.metadata.key
            owner = group.metadata.controller
            if owner is None or group.metadata.name != group_name(owner.uid):
                continue
            if change.type is not ChangeType.DELETED:
                self._group_seen(group)
            elif (held := self._groups.get(key)) is not None and held.metadata.uid == group.metadata.uid:
                del self._groups[key]
                self.queue.add(key)

    def _group_seen(self, group: PodGroup) -> None:
        key = group.metadata.key
        known = self._groups.get(key)
        if known is None or int(known.metadata.resource_version) < int(group.metadata.resource_version):
            self._groups[key] = group
        if known is None and key not in self._pods:
            # Its pods may have gone while nobody looked.
            self.queue.add(key, SETTLE)

    def _owner_changed(self, namespace: str, uid: str) -> None:
        key = f"{namespace}/{group_name(uid)}"
        if key in self._pods or key in self._groups:
            self.queue.add(key, SETTLE)

    def queue_opened(self, _: str) -> None:
        """A queue takes pods again: what was refused need not wait out its pause."""
        for key in self._refused:
            self.queue.add(key)

    # What is done

    def refused(self, key: str, fault: Exception) -> None:
        """Remember whom to look at again when a queue opens."""
        self._refused.add(key)

    def succeeded(self, key: str) -> None:
        """It has been taken."""
        self._refused.discard(key)

    def exists(self, key: str) -> bool:
        """Whether there are pods or a group of this key."""
        if self._pods.get(key) or key in self._groups:
            return True
        self._refused.discard(key)
        return False

    def subject(self, key: str) -> ObjectReference | None:
        """The newest of the pods."""
        pods = self._pods.get(key)
        return None if not pods else _about(next(reversed(pods.values())))

    async def attempt(self, key: str) -> datetime | None:
        """Look at the pods of one owner."""
        pods, group = tuple(self._pods.get(key, {}).values()), self._groups.get(key)
        owner, again = await self._owner(key, pods, group)
        seen = GroupObserved(tuple(self._pods.get(key, {}).values()), owner, self._groups.get(key))
        for kind, effects in groupby(reconcile_group(seen), type):
            if kind is JoinGroup:
                await self._together(key, effects)
            else:
                for effect in effects:
                    await self._one(key, effect)
        return self.now() + timedelta(seconds=again) if again else None

    async def _owner(self, key: str, pods: Sequence[LoosePod], group: PodGroup | None) -> tuple[Owner | None, float]:
        """What the owner says, and in how many seconds to ask again if that may be out of date."""
        of_group = None if group is None else group.metadata.controller
        reference: OwnerReference | None = owner_of(pods[0]) if pods else of_group
        if reference is None:
            return None, 0.0
        if (reference.api_version, reference.kind) == ("v1", "Pod"):
            return Owner() if pods else None, 0.0
        return await self._owners.of(reference, key.partition("/")[0])

    async def _together(self, key: str, several: Iterable[GroupEffect]) -> None:
        async def one(effect: GroupEffect) -> None:
            async with self._slots:
                await self._one(key, effect)

        outcomes = await asyncio.gather(*map(one, several), return_exceptions=True)
        faults = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if faults:
            raise next((fault for fault in faults if not isinstance(fault, OutdatedError)), faults[0])

    async def _one(self, key: str, effect: GroupEffect) -> None:
        namespace = key.partition("/")[0]
        match effect:
            case MakeGroup():
                self._group_seen(await self._make(namespace, effect))
            case PatchGroup():
                try:
                    self._group_seen(await self.client.patch(POD_GROUPS, namespace, effect.name, effect.patch))
                except NotFound:
                    self._groups.pop(key, None)
                    raise OutdatedError from None
            case RemoveGroup():
                try:
                    await self.client.delete(POD_GROUPS, namespace, effect.name, uid=effect.uid)
                except (NotFound, Conflict):
                    return
            case JoinGroup():
                await self._join(key, effect)
            case RecordEvent():
                about = self.subject(key)
                if about is not None:
                    self.recorder.record(about, effect.type, effect.reason, effect.message)

    async def _make(self, namespace: str, effect: MakeGroup) -> PodGroup:
        name, owner = effect.manifest["metadata"]["name"], effect.manifest["metadata"]["ownerReferences"]
        try:
            return await self.client.create(POD_GROUPS, namespace, effect.manifest)
        except AlreadyExists:
            found = await self.client.get(POD_GROUPS, namespace, name)
            if not {one.uid for one in found.metadata.owner_references} & {one["uid"] for one in owner}:
                told = f"PodGroup {name} exists and does not belong to the owner of this pod: delete it"
                raise NameTakenError(told) from None
            return found

    async def _join(self, key: str, effect: JoinGroup) -> None:
        patch = {"metadata": {"resourceVersion": effect.version, "annotations": {names.GROUP_NAME: effect.group}}}
        try:
            joined = await self.client.patch(LOOSE_PODS, key.partition("/")[0], effect.pod, patch)
        except (NotFound, Conflict):
            # The watch tells what it is now, and with that comes another look.
            return
        known = self._pods.get(key, {}).get(effect.pod)
        if known is not None and known.metadata.uid == joined.metadata.uid:
            self._pods[key][effect.pod] = slim(joined)


def _key(pod: LoosePod) -> str:
    return f"{pod.metadata.namespace}/{group_name(owner_of(pod).uid)}"


def _about(pod: LoosePod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference("v1", "Pod", meta.name, meta.namespace, meta.uid, meta.resource_version)
