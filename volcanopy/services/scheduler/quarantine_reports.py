"""Reports of objects that the scheduler excludes: an error in the log, an Event, and a condition of pods and PodGroups."""

import asyncio
from typing import Any

import structlog

from volcanopy.api import core
from volcanopy.kube import machine
from volcanopy.kube.cache import followed_kinds as kinds
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import of_object
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.scheduler.model.plan import GroupCondition, SetPodGroup
from volcanopy.services.scheduler.state import statuses
from volcanopy.services.scheduler.state.quarantine import Excluded

log = structlog.get_logger(__name__)

REASON = "Quarantined"
NAME_IN_USE = "NameInUse"
_REPORTED: tuple[Kind[Any], ...] = (
    *(kinds.PODS, kinds.NODES, kinds.NAMESPACES, kinds.PRIORITY_CLASSES, kinds.POD_GROUPS, kinds.QUEUES),
    *(kinds.RESOURCE_QUOTAS, kinds.DISRUPTION_BUDGETS, kinds.HYPER_NODES, kinds.NUMA_TOPOLOGIES),
    *kinds.SUPPLIES,
)
_KINDS = {kind.type: kind for kind in _REPORTED}


def _kind(item: Any) -> Kind[Any]:
    """Return the kind of an object, in the API that it is of."""
    return of_object(_KINDS[type(item)], getattr(item, "api_version", ""))


class QuarantineReports:
    """Reports excluded objects; conditions are written by :meth:`run`."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client, self._recorder = client, recorder
        self._waiting: asyncio.Queue[tuple[Excluded, str]] = asyncio.Queue()

    def report(self, entry: Excluded) -> None:
        """Report an object."""
        kind = _kind(entry.object)
        message = f"excluded from scheduling until it is changed: {entry.error}"
        log.error("object excluded", kind=kind.kind, key=entry.key, error=entry.error)
        self._recorder.record(ObjectReference.of(kind, entry.object), "Warning", REASON, message)
        self._waiting.put_nowait((entry, message))

    def conflict(self, item: Any, taken: Any) -> None:
        """Report an object that is not taken, because an object of another API has its name."""
        kind, other, key = _kind(item), _kind(taken), item.metadata.key
        message = f'ignored: {other.kind} "{key}" of {other.group} has this name: delete one of them'
        log.warning("name in use", kind=kind.kind, group=kind.group, key=key, taken=other.group)
        self._recorder.record(ObjectReference.of(kind, item), "Warning", NAME_IN_USE, message)

    async def run(self) -> None:
        """Write conditions until cancelled."""
        while True:
            entry, message = await self._waiting.get()
            try:
                await self._write(entry, message)
            except KubeError as error:
                log.warning("condition not written", kind=entry.kind, key=entry.key, error=str(error))

    async def _write(self, entry: Excluded, message: str) -> None:
        item, now = entry.object, machine.utc_now()
        meta = item.metadata
        if isinstance(item, core.Pod):
            patch = statuses.unscheduled_patch(item, REASON, message, now)
            if patch is not None and not item.spec.node_name:
                await self._client.patch_status(kinds.PODS, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
        elif isinstance(item, core.PodGroup):
            before = item.status
            condition = GroupCondition(statuses.UNSCHEDULABLE, REASON, message)
            counts = (before.running, before.succeeded, before.failed)
            effect = SetPodGroup(meta.key, before.phase or "Pending", condition, *counts)
            status = statuses.status_patch(before, statuses.group_status(before, effect, REASON, now))
            patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": status.get("conditions", [])}}
            await self._client.patch_status(_kind(item), meta.namespace, meta.name, patch)
