"""The simulated kubelet: writes the statuses of pods on simulated nodes.

It uses only the API, so it works on an embedded and on a real cluster, and it has no state of its own: the status of a
pod follows from its start time, its annotations and the current time (:mod:`.pod_stages`). A pod takes two status
writes, Running and its end, and one more if its start takes longer than :data:`BRIEF`.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence

import msgspec
import structlog

from volcanopy.api import core
from volcanopy.api.names import RUNTIME_LABEL
from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.errors import Invalid, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy_local.simulated import pod_stages as stages
from volcanopy_local.simulated import pod_status
from volcanopy_local.simulated.heartbeats import Heartbeats
from volcanopy_local.simulated.nodes import SIMULATED
from volcanopy_local.simulated.pod_stages import AnnotationError, Moment, Script, Stages
from volcanopy_local.simulated.pod_status import PODS, PodAddresses, Shown, SimulatedPod
from volcanopy_local.simulated.timers import TimedWorkers

log = structlog.get_logger(__name__)

BRIEF = 1.0
"""Seconds; a pod that will run within this time gets no status for its preparation."""
LOST_AFTER = 40.0
"""Seconds after which a pod of a missing node is deleted."""
_WRITES_AT_ONCE = 8
"""Writes in flight, over all nodes. A real kubelet has one; an API server with few cores does more of them no faster."""


class _WrittenMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"


class _PatchedPod(msgspec.Struct):
    """The part of the response to a status patch that is read."""

    metadata: _WrittenMeta


_STATUS: Kind[_PatchedPod] = Kind("", "v1", "Pod", "pods", True, _PatchedPod)


class _PodRecord:
    """A pod on its node. ``version`` is that of the last write, ``stop_requested`` the time its deletion was first seen."""

    __slots__ = ("address", "began", "ended", "fault", "pod", "script", "seen", "shown", "stop_requested", "version")

    def __init__(self, pod: SimulatedPod, now: float, address: str, usual: Stages) -> None:
        self.pod, self.seen, self.address = pod, now, address
        started = pod.status.start_time
        self.began = now if started is None else started.timestamp()
        self.shown: Shown = pod_status.shown(pod.status)
        self.version = 0
        self.stop_requested: float | None = None
        self.ended = False
        self.script: Script | None = None
        self.fault: AnnotationError | None = None
        self.read(usual)

    def read(self, usual: Stages) -> None:
        """Read the script from the current annotations."""
        try:
            self.script, self.fault = pod_status.read_script(self.pod, usual), None
        except AnnotationError as fault:
            self.script, self.fault = None, fault


class Kubelet:
    """Serves the simulated nodes of a cluster (with ``adopt_all``: all nodes) and the pods that are bound to them."""

    def __init__(self, client: Client, *, stages: Stages | None = None, adopt_all: bool = False) -> None:
        self.nodes = Heartbeats(client, is_own=self._is_own, arrived=self._arrived, departed=self._left)
        self.written = 0
        """Status writes so far."""
        self._client, self._usual, self._adopt_all = client, stages or Stages(), adopt_all
        self._pods = Reflector(client, PODS, field_selector="spec.nodeName!=", transform=pod_status.sharing())
        self._workers = TimedWorkers("pod", self._act, _WRITES_AT_ONCE)
        self._records: dict[str, _PodRecord] = {}
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        self._last_address = 0
        self._next_changes: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def run(self, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; ``ready`` is set once nodes and pods are listed."""
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(self.nodes.run(), name="kubelet nodes"),
                tasks.create_task(self._pods.run(self.on_changes), name="kubelet pods"),
                tasks.create_task(self._workers.run(), name="kubelet workers"),
                tasks.create_task(self._set_ready(ready), name="kubelet ready"),
            ]
            await stop.wait()
            for task in working:
                task.cancel()

    async def _set_ready(self, ready: asyncio.Event | None) -> None:
        await self.nodes.reflector.synced.wait()
        await self._pods.synced.wait()
        if ready is not None:
            ready.set()

    # Nodes

    def _is_own(self, node: core.Node) -> bool:
        labels = node.metadata.labels
        return SIMULATED in labels or (self._adopt_all and RUNTIME_LABEL not in labels)

    def next_change(self, pod: str) -> asyncio.Event:
        """Return an event that is set when the pod (``namespace/name``) changes next or is deleted."""
        return self._next_changes[pod]

    # Watch events

    def on_changes(self, changes: Sequence[Change[SimulatedPod]]) -> None:
        """Process changes of pods that have a node."""
        for change in changes:
            pod = change.object
            key = pod.metadata.key
            if waiting := self._next_changes.pop(key, None):
                waiting.set()
            if change.type is ChangeType.DELETED:
                self._forget(key)
                continue
            record = self._records.get(key)
            if record is None or record.pod.metadata.uid != pod.metadata.uid:
                self._add(key, pod)
                self._workers.put(key)
                continue
            before, record.pod = record.pod, pod
            if before.metadata.annotations != pod.metadata.annotations:
                record.read(self._usual)
            elif (
                int(pod.metadata.resource_version) <= record.version
                and pod.metadata.deletion_timestamp == before.metadata.deletion_timestamp
            ):
                continue  # Our own write, unless it came after a deletion.
            record.shown = pod_status.shown(pod.status)
            self._workers.put(key)

    def _add(self, key: str, pod: SimulatedPod) -> None:
        self._forget(key)
        if pod.status.pod_ip:
            address = pod.status.pod_ip
            self._last_address = max(self._last_address, pod_status.address_number(address))
        else:
            self._last_address += 1
            address = pod_status.pod_address(self._last_address)
        self._records[key] = _PodRecord(pod, machine.epoch(), address, self._usual)
        self._on[pod.spec.node_name].add(key)

    def _forget(self, key: str) -> None:
        record = self._records.pop(key, None)
        if record is None:
            return
        self._workers.drop(key)
        there = self._on[record.pod.spec.node_name]
        there.discard(key)
        if not there:
            del self._on[record.pod.spec.node_name]

    def _arrived(self, node: str) -> None:
        for key in self._on.get(node, ()):
            self._workers.put(key)

    def _left(self, node: str) -> None:
        for key in self._on.get(node, ()):
            self._records[key].seen = -math.inf
            self._workers.put(key)

    # Actions

    async def _act(self, key: str) -> float:
        """Process a pod that is due; return its next due time."""
        record = self._records.get(key)
        if record is None or record.ended:
            return math.inf
        now, node = machine.epoch(), record.pod.spec.node_name
        if not self.nodes.serves(node):
            return await self._without_node(record, node, now)
        if record.pod.metadata.deletion_timestamp is not None:
            return await self._stop(record, now)
        if record.shown[0] in {"Succeeded", "Failed"}:
            return math.inf
        if record.script is None:
            assert record.fault is not None
            await self._write(record, pod_status.unreadable(record.fault, record.began), ("Failed", ()))
            return math.inf
        moment = stages.at(record.script, record.began, now)
        brief = moment.phase == "Pending" and moment.until - now < BRIEF
        if pod_status.to_show(moment) != record.shown and not brief:
            await self._write_moment(record, record.script, moment, now)
        return moment.until

    async def _without_node(self, record: _PodRecord, node: str, now: float) -> float:
        """Process a pod whose node is missing, failed or not served here; delete it if its node is gone."""
        if node in self.nodes.nodes or not (self._adopt_all or record.seen < 0):
            return math.inf
        if now < record.seen + LOST_AFTER:
            return record.seen + LOST_AFTER
        await self._delete(record)
        return math.inf

    async def _stop(self, record: _PodRecord, now: float) -> float:
        """Stop the containers of a pod that is being deleted within its grace period, then delete it."""
        if record.shown[0] == "Running" and record.script is not None:
            grace = record.pod.metadata.deletion_grace_period_seconds or 0
            stop_delay = record.script.stop_delay
            if record.stop_requested is None:
                record.stop_requested = now
            if now < (stop := record.stop_requested + min(stop_delay, grace)):
                return stop
            last = stages.at(record.script, record.began, now)
            if not last.over:
                last = stages.cut(last, now, stages.KILLED if stop_delay > grace else stages.TERMINATED)
            await self._write_moment(record, record.script, last, now)
        await self._delete(record)
        return math.inf

    async def _write_moment(self, record: _PodRecord, script: Script, moment: Moment, now: float) -> None:
        place = PodAddresses(record.address, self.nodes.address(record.pod.spec.node_name))
        status = pod_status.status(record.pod, script, moment, record.began, now, place)
        await self._write(record, status, pod_status.to_show(moment))

    async def _write(self, record: _PodRecord, status: Json, showing: Shown) -> None:
        """Write a status. Raises Conflict if the pod has changed: it is judged again, at the latest after a back-off."""
        meta = record.pod.metadata
        # A write without an answer is repeated, and may be carried out after later ones: it must not undo these.
        version = max(record.version, int(meta.resource_version))
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": str(version)}, "status": status}
        try:
            answer = await self._client.patch_status(_STATUS, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
        except NotFound as gone:
            log.debug("pod is gone", pod=meta.key, error=str(gone))
            record.ended = True
        except Invalid as error:
            log.error("status of pod rejected", pod=meta.key, error=str(error))
            record.ended = True
        else:
            self.written += 1
            record.shown, record.version = showing, int(answer.metadata.resource_version)

    async def _delete(self, record: _PodRecord) -> None:
        meta = record.pod.metadata
        try:
            await self._client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace=0)
        except NotFound as gone:
            log.debug("pod is gone", pod=meta.key, error=str(gone))
        record.ended = True
