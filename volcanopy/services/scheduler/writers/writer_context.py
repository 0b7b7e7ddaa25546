"""What the writers of a scheduler share: client, store, events, and the limits of requests in flight."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from volcanopy.api import core
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.errors import Conflict, Invalid, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import of_object
from volcanopy.kube.writes.event_writer import EventRecorder, EventType, ObjectReference
from volcanopy.kube.writes.write_queue import DelayedWrites, KeyLocks
from volcanopy.kube.writes.write_slots import WriteSlots
from volcanopy.services.scheduler.state.store import Store


@dataclass
class WriterContext:
    """The shared parts of all writers.

    ``bind_slots`` and ``write_slots`` limit the requests in flight, separately, so that explanations do not delay binds.
    ``now`` returns the wall-clock time.
    """

    client: Client
    store: Store
    recorder: EventRecorder
    delayed: DelayedWrites
    locks: KeyLocks = field(default_factory=KeyLocks)
    bind_slots: WriteSlots = field(default_factory=lambda: WriteSlots(64))
    write_slots: WriteSlots = field(default_factory=lambda: WriteSlots(16))
    rng: Random = field(default_factory=Random)
    now: Callable[[], datetime] = machine.utc_now
    pod_events: bool = False
    """Whether pods get kube-scheduler's events ``Scheduled`` and ``FailedScheduling``: one more request for each pod."""

    def record_event(self, item: core.Pod | core.PodGroup, event_type: EventType, reason: str, message: str) -> None:
        """Record an event of an object."""
        kind: Kind[Any] = PODS if isinstance(item, core.Pod) else of_object(POD_GROUPS, item.api_version)
        self.recorder.record(ObjectReference.of(kind, item), event_type, reason, message)

    async def patch_pod(self, key: str, patch: Json, form: PatchType = PatchType.STRATEGIC) -> bool:
        """PatchType a pod's status; False if that pod is gone. Other errors are raised."""
        namespace, _, name = key.partition("/")
        try:
            answer = await self.client.patch_status(PODS, namespace, name, patch, form)
        except (NotFound, Conflict, Invalid) as error:
            if (isinstance(error, Invalid) and "uid" not in str(error)) or (
                isinstance(error, Conflict) and not error.of_uid
            ):
                raise
            return False  # it is gone, or another pod has its name now
        self.store.apply_response(answer)
        return True

    async def remove_queue_gate(self, pod: core.Pod) -> None:
        """Remove the scheduling gate of a pod that waits for its queue; it has no other."""
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "spec": {"schedulingGates": None}}
        answer = await self.client.patch(PODS, meta.namespace, meta.name, patch)
        self.store.apply_response(answer)
