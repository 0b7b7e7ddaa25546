"""The base of the controllers of PodGroups: the pods and PodGroups that they know, and the effects of their reconciles."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from itertools import groupby

from volcanopy.api import names
from volcanopy.api.core import PodGroup
from volcanopy.jobcontroller.plan import CreatePodGroup, DeletePodGroup, Plan, RecordEvent, UpdatePodGroup
from volcanopy.jobcontroller.workload_podgroups import GroupEffect, JoinGroup, WorkloadPod, slim
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.writes.round_robin import namespace_of
from volcanopy.kube.writes.write_slots import WriteSlots
from volcanopy.services.controllers.owned_objects import OutdatedError, all_of, create_owned, delete_same
from volcanopy.services.controllers.steps import MOST_WRITES
from volcanopy.services.controllers.worker import Worker

WORKLOAD_PODS = raw_kinds.PODS.of(WorkloadPod)

SETTLE = 0.02
"""Seconds that a pod waits for other pods of its group."""


class GroupWorker(Worker):
    """Reconciles PodGroups of volcanopy with the pods that belong to them. A key starts with the namespace."""

    def __init__(self, client: Client, recorder: EventRecorder, now: Callable[[], datetime], at_once: int) -> None:
        """``client``: the view of the API of the PodGroups; ``at_once`` limits the requests in flight."""
        super().__init__(client, recorder, now)
        self._pods: defaultdict[str, dict[str, WorkloadPod]] = defaultdict(dict)
        """By key, by name: the pods that have, or will get, a group of this controller."""
        self._groups: dict[str, PodGroup] = {}
        """By key."""
        self._rejected: set[str] = set()
        """Keys of groups that the server rejected, usually because of a closed queue."""
        self._slots = WriteSlots(at_once)

    @abstractmethod
    def _group_seen(self, group: PodGroup) -> None:
        """Take a PodGroup that was observed or written."""

    def queue_opened(self, _: str) -> None:
        """Retry rejected groups at once, because a queue was opened."""
        for key in self._rejected:
            self.queue.add(key)

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
        return None if not pods else ObjectReference.of(WORKLOAD_PODS, next(reversed(pods.values())))

    async def _carry_out(self, key: str, effects: Iterable[GroupEffect]) -> None:
        """Apply effects in their order, those on pods concurrently: as many as a step has, the others in the next one."""
        step, remaining = Plan(tuple(effects)).cut(MOST_WRITES)
        written = partial(self.queue.progress, key)
        for kind, batch in groupby(step.effects, type):
            if kind is JoinGroup:
                apply = partial(self._apply, key)
                if error := await all_of(self._slots, namespace_of(key), apply, batch, written):
                    raise error
            else:
                for effect in batch:
                    await self._apply(key, effect)
                    written()
        if remaining.effects:
            self.queue.again(key)

    async def _apply(self, key: str, effect: GroupEffect) -> None:
        namespace = namespace_of(key)
        match effect:
            case CreatePodGroup():
                self._group_seen(await self._make(namespace, effect))
            case UpdatePodGroup():
                try:
                    self._group_seen(await self.client.patch(POD_GROUPS, namespace, effect.name, effect.patch))
                except NotFound:
                    self._groups.pop(key, None)
                    raise OutdatedError from None
            case DeletePodGroup():
                await delete_same(self.client, POD_GROUPS, namespace, effect.name, effect.uid)
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

        group, _ = await create_owned(self.client, POD_GROUPS, namespace, effect.manifest, owned, "owner of the pod")
        return group

    async def _join(self, key: str, effect: JoinGroup) -> None:
        patch = {"metadata": {"resourceVersion": effect.version, "annotations": {names.GROUP_NAME: effect.group}}}
        try:
            joined = await self.client.patch(WORKLOAD_PODS, namespace_of(key), effect.pod, patch)
        except (NotFound, Conflict):
            # The watch shows the current pod, which triggers a reconcile.
            return
        known = self._pods.get(key, {}).get(effect.pod)
        if known is not None and known.metadata.uid == joined.metadata.uid:
            self._pods[key][effect.pod] = slim(joined)
