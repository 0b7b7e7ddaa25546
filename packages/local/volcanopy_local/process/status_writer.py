"""Writes the statuses of pods and their Events to the API server; a status again if an older one takes its place there.

A write that the server did not answer in time is repeated. It may still be carried out later, after writes that followed it.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import structlog

from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.backoff import answered
from volcanopy.kube.client.errors import Conflict, Invalid, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import PODS
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy_local.process.pod_events import PodEvent, events_of

log = structlog.get_logger(__name__)


@dataclass
class _LatestStatus:
    """The newest status of a pod, and the version of the pod that has it; -1 until it is written."""

    status: Json = field(default_factory=dict)
    version: int = -1
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class StatusWriter:
    """The statuses of the pods of a kubelet, until they are forgotten."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client, self._events = client, events
        self._written: dict[str, _LatestStatus] = {}
        self._closed = False

    def close(self) -> None:
        """Write no new statuses from now on: the node stops, and what its pods do is not by themselves."""
        self._closed = True

    async def write(self, pod: Json, status: Json) -> None:
        """Write a new status; returns when the server has it, or the pod is gone."""
        if self._closed:
            return
        latest = self._written.setdefault(pod["metadata"]["uid"], _LatestStatus())
        for event in events_of(pod, latest.status, status):
            self.record(pod, event)
        latest.status = status
        await self._send(pod, latest)

    def record(self, pod: Json, event: PodEvent) -> None:
        """Write an Event of a pod."""
        metadata, place = pod["metadata"], event.place
        reference = ObjectReference(
            "v1", "Pod", metadata["name"], metadata["namespace"], metadata["uid"], field_path=place
        )
        self._events.record(reference, event.type, event.reason, event.message)

    def is_replaced(self, pod: Json) -> bool:
        """Whether this state of a pod follows the write of its newest status, but has another one."""
        latest = self._written.get(pod["metadata"]["uid"])
        return (
            latest is not None
            and 0 <= latest.version < int(pod["metadata"]["resourceVersion"])
            and _summary(latest.status) != _summary(pod.get("status") or {})
        )

    async def repeat(self, pod: Json) -> None:
        """Write the newest status of a pod again."""
        if (latest := self._written.get(pod["metadata"]["uid"])) is not None:
            await self._send(pod, latest)

    def forget(self, uid: str) -> None:
        """The pod is deleted."""
        self._written.pop(uid, None)

    async def _send(self, pod: Json, latest: _LatestStatus) -> None:
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        async with latest.lock:
            patch = {"metadata": {"uid": metadata["uid"]}, "status": latest.status}
            try:
                result = await answered(
                    lambda: self._client.patch_status(PODS, namespace, name, patch, PatchType.STRATEGIC)
                )
                latest.version = int(result["metadata"]["resourceVersion"])
            except (NotFound, Conflict) as gone:
                log.debug("pod is gone", pod=name, error=str(gone))
            except Invalid as error:
                log.error("status of pod rejected", pod=name, error=str(error))


def _summary(status: Json) -> tuple[Any, ...]:
    """What must not be lost: the phase, and for each container its state and restarts."""
    containers = [
        (container["name"], container["restartCount"], *(container.get("state") or {}))
        for key in ("initContainerStatuses", "containerStatuses")
        for container in status.get(key) or ()
    ]
    return (status.get("phase"), sorted(containers))
