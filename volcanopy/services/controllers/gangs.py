"""The controller of gangs of other APIs: pods that name a PodGroup of Kubernetes, of the coscheduling plugin or of KAI.

Each such PodGroup gets a PodGroup of volcanopy, which the scheduler reads, and its status is written as its clients expect.
A pod may come before the PodGroup that it names, and an API before its definition.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from volcanopy.api.core import OwnerReference, PodGroup
from volcanopy.api.gang_apis import GANG_APIS, GangApi, GangGroup
from volcanopy.jobcontroller.gang_podgroups import GangObserved, PatchGangStatus, reconcile_gang
from volcanopy.jobcontroller.workload_podgroups import WorkloadPod, gang_of
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.services.controllers.group_worker import SETTLE, GroupWorker
from volcanopy.services.controllers.worker import Followed

_DISCOVERY = 10.0
"""Seconds between two searches for an API that is switched on and not served."""


class GangController(GroupWorker):
    """Reconciles the gangs of some APIs. ``now`` is injected by tests; ``at_once`` limits the requests in flight."""

    noun = "gang"

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        apis: Sequence[str],
        now: Callable[[], datetime] = machine.utc_now,
        at_once: int = 48,
        queue_labels: Sequence[str] = (),
    ) -> None:
        """``apis``: names of gang APIs; ``client``: the view of the PodGroups' API; ``queue_labels``: queue labels."""
        super().__init__(client, recorder, now, at_once)
        self._apis = tuple(api for name, api in GANG_APIS.items() if name in apis)
        self._queue_labels = tuple(queue_labels)
        self._gangs: dict[str, GangGroup] = {}
        """By key: the PodGroups of the other APIs."""
        self._key_of: dict[str, str] = {}
        """The key of each pod, by its namespace and name."""
        self._reflectors = {
            api.name: OptionalReflector(client, _kind(api), discovery_period=_DISCOVERY) for api in self._apis
        }

    def followed(self) -> Sequence[Followed]:
        """Return the watches of the APIs. Pods and PodGroups of volcanopy come from the other controllers."""
        return [
            Followed(f"podgroups of {api.group}", self._reflectors[api.name], partial(self._gang_changes, api))
            for api in self._apis
        ]

    # Changes

    def take_pod(self, change: Change[WorkloadPod]) -> bool:
        """Take a change of a pod; False if it belongs to no gang of these APIs."""
        pod, meta = change.object, change.object.metadata
        named = None if change.type is ChangeType.DELETED else gang_of(pod, self._apis)
        key = "" if named is None else f"{meta.namespace}/{named[0].name}/{named[1]}"
        before = self._key_of.pop(meta.key, "")
        if before and before != key:
            pods = self._pods.get(before, {})
            pods.pop(meta.name, None)
            if not pods:
                self._pods.pop(before, None)
            self.queue.add(before, SETTLE)
        if not key:
            return False
        self._key_of[meta.key] = key
        known = self._pods[key].get(meta.name)
        if known is None or int(known.metadata.resource_version) < int(meta.resource_version):
            self._pods[key][meta.name] = pod
            self.queue.add(key, SETTLE)
        return True

    def take_group(self, change: Change[PodGroup]) -> bool:
        """Take a change of a PodGroup of volcanopy; False if it is not that of a gang of these APIs."""
        group, owner = change.object, change.object.metadata.controller
        if owner is None or group.api_version != self.client.of_api(POD_GROUPS).api_version:
            return False
        key = self._key(owner, group.metadata.namespace)
        if not key:
            return False
        known = self._groups.get(key)
        if change.type is not ChangeType.DELETED:
            self._group_seen(group)
        elif known is not None and known.metadata.uid == group.metadata.uid:
            del self._groups[key]
            self.queue.add(key)
        return True

    def _key(self, owner: OwnerReference, namespace: str) -> str:
        """Return the key of the PodGroup that an owner reference names, empty if it is of no gang API."""
        group = owner.api_version.partition("/")[0]
        api = next((api for api in self._apis if api.group == group and owner.kind == "PodGroup"), None)
        return "" if api is None else f"{namespace}/{api.name}/{owner.name}"

    def _group_seen(self, group: PodGroup) -> None:
        owner = group.metadata.controller
        key = "" if owner is None else self._key(owner, group.metadata.namespace)
        known = self._groups.get(key)
        if key and (known is None or int(known.metadata.resource_version) < int(group.metadata.resource_version)):
            self._groups[key] = group
            self.queue.add(key, SETTLE)

    def _gang_changes(self, api: GangApi, changes: Sequence[Change[GangGroup]]) -> None:
        for change in changes:
            meta = change.object.metadata
            key = f"{meta.namespace}/{api.name}/{meta.name}"
            known = self._gangs.get(key)
            if change.type is ChangeType.DELETED:
                self._gangs.pop(key, None)
            elif known is None or int(known.metadata.resource_version) <= int(meta.resource_version):
                self._gangs[key] = change.object
            self.queue.add(key, SETTLE)

    # Reconciles

    def exists(self, key: str) -> bool:
        """Whether there is a PodGroup of another API, or pods or a group of this key."""
        return key in self._gangs or super().exists(key)

    def subject(self, key: str) -> ObjectReference | None:
        """Return the PodGroup of the other API, else the newest of the pods."""
        gang = self._gangs.get(key)
        if gang is None:
            return super().subject(key)
        return ObjectReference.of(self._reflectors[key.split("/")[1]].kind, gang)

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile one gang."""
        _, name, gang_name = key.split("/", 2)
        api, kind = GANG_APIS[name], self._reflectors[name].kind
        gang, group = self._gangs.get(key), self._groups.get(key)
        if gang is not None:
            owner = None if group is None else group.metadata.controller
            if owner is not None and owner.uid != gang.metadata.uid:
                group = None  # of an earlier PodGroup of this name, which the garbage collector deletes
        seen = GangObserved(
            api=api,
            version=kind.version,
            name=gang_name,
            gang=gang,
            group=group,
            pods=tuple(self._pods.get(key, {}).values()),
            queue_labels=(*api.queue_labels, *self._queue_labels),
        )
        effects = reconcile_gang(seen, self.now())
        await self._carry_out(key, [effect for effect in effects if not isinstance(effect, PatchGangStatus)])
        for effect in effects:
            if isinstance(effect, PatchGangStatus) and gang is not None:
                await self._write_status(key, kind, gang, effect)
        return None

    async def _write_status(self, key: str, kind: Kind[GangGroup], gang: GangGroup, effect: PatchGangStatus) -> None:
        meta = gang.metadata
        body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": effect.status}
        try:
            written = await self.client.patch_status(kind, meta.namespace, meta.name, body)
        except (NotFound, Conflict):
            return  # the watch shows the current object, which triggers a reconcile
        known = self._gangs.get(key)
        if known is not None and known.metadata.uid == meta.uid:
            self._gangs[key] = written


def _kind(api: GangApi) -> Kind[GangGroup]:
    return Kind(api.group, api.versions[0], "PodGroup", "podgroups", True, GangGroup)
