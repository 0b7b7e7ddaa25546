"""The simulated kubelet: takes the pods of simulated nodes through their lives, as far as the API server can tell.

It uses nothing but the API, so it serves an embedded cluster and a real one alike, and it remembers nothing that it
could not read there again: where a pod stands follows from its start, its annotations and the time (:mod:`.stages`).
A pod's life takes two writes, Running and its end, and one more where its start takes long.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client, Patch
from volcanopy.kube.client.errors import Conflict, Invalid, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.local.simulated import pod_stages as stages
from volcanopy.local.simulated import pod_status
from volcanopy.local.simulated.heartbeats import Heartbeats
from volcanopy.local.simulated.pod_stages import AnnotationError, Moment, Script, Stages
from volcanopy.local.simulated.pod_status import PODS, Place, Pod, Shown
from volcanopy.local.simulated.timers import Crew

log = logging.getLogger(__name__)

BRIEF = 1.0
"""A pod that will run within so many seconds need not be reported as being prepared."""
LOST_AFTER = 40.0
"""Seconds after which a pod of a node that does not exist is cleared away."""


class _WrittenMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"


class _Written(msgspec.Struct):
    """What we read of the answer to a status patch."""

    metadata: _WrittenMeta


_STATUS: Kind[_Written] = Kind("", "v1", "Pod", "pods", True, _Written)


class _Held:
    """A pod on its node. ``version`` is that of our last write, ``asked`` when it was first seen that the pod is to go."""

    __slots__ = ("address", "asked", "began", "ended", "fault", "pod", "script", "seen", "shown", "version")

    def __init__(self, pod: Pod, now: float, address: str, usual: Stages) -> None:
        self.pod, self.seen, self.address = pod, now, address
        started = pod.status.start_time
        self.began = now if started is None else started.timestamp()
        self.shown: Shown = pod_status.shown(pod.status)
        self.version = 0
        self.asked: float | None = None
        self.ended = False
        self.script: Script | None = None
        self.fault: AnnotationError | None = None
        self.read(usual)

    def read(self, usual: Stages) -> None:
        """Read the script from the annotations as they are now."""
        try:
            self.script, self.fault = pod_status.read_script(self.pod, usual), None
        except AnnotationError as fault:
            self.script, self.fault = None, fault


class Kubelet:
    """Serves the simulated nodes of a cluster (with ``adopt_all``: all nodes) and the pods that are bound to them.

    ``writers`` bounds the status writes in flight. ``clock`` gives seconds of the epoch; it is there for tests.
    """

    def __init__(
        self,
        client: Client,
        *,
        stages: Stages | None = None,
        adopt_all: bool = False,
        writers: int = 32,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.nodes = Heartbeats(client, adopt_all=adopt_all, arrived=self._arrived, left=self._left, clock=clock)
        self.written = 0
        """Status writes so far."""
        self._client, self._usual, self._adopt_all, self._clock = client, stages or Stages(), adopt_all, clock
        self._pods = Reflector(client, PODS, field_selector="spec.nodeName!=")
        self._crew = Crew("pod", self._act, writers, clock)
        self._held: dict[str, _Held] = {}
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        self._number = 0
        self._told: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def run(self, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
        """Serve until ``stop`` is set; ``ready`` is set once the nodes and pods that exist have been seen."""
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(self.nodes.run(), name="kubelet nodes"),
                tasks.create_task(self._pods.run(self.take), name="kubelet pods"),
                tasks.create_task(self._crew.run(), name="kubelet crew"),
                tasks.create_task(self._tell_ready(ready), name="kubelet ready"),
            ]
            await stop.wait()
            for task in working:
                task.cancel()

    async def _tell_ready(self, ready: asyncio.Event | None) -> None:
        await self.nodes.reflector.synced.wait()
        await self._pods.synced.wait()
        if ready is not None:
            ready.set()

    # What a test, a user or chaos may do to nodes

    async def add_nodes(self, manifests: Iterable[Json]) -> None:
        """Have nodes join the cluster (see :func:`volcanopy.local.simulated.nodes.manifests`)."""
        await self.nodes.add(manifests)

    async def remove_node(self, name: str) -> None:
        """Take a node out of the cluster, and with it what ran there. Raises NotFound."""
        await self.nodes.remove(name)

    async def fail_node(self, name: str) -> None:
        """Have a node fall silent: nothing on it changes any more, and the cluster taints it as unreachable."""
        await self.nodes.fail(name)

    async def restore_node(self, name: str) -> None:
        """Have a failed node speak again: what ran there has gone on meanwhile."""
        await self.nodes.restore(name)

    def next_change(self, pod: str) -> asyncio.Event:
        """An event that is set when the watch next tells something of the pod (``namespace/name``), its end included."""
        return self._told[pod]

    # What the watches tell

    def take(self, changes: Sequence[Change[Pod]]) -> None:
        """Take in what the watch tells of pods that have a node."""
        for change in changes:
            pod = change.object
            key = pod.metadata.key
            if waiting := self._told.pop(key, None):
                waiting.set()
            if change.type is ChangeType.DELETED:
                self._forget(key)
                continue
            held = self._held.get(key)
            if held is None or held.pod.metadata.uid != pod.metadata.uid:
                self._hold(key, pod)
                self._crew.put(key)
                continue
            before, held.pod = held.pod, pod
            if before.metadata.annotations != pod.metadata.annotations:
                held.read(self._usual)
            elif (
                int(pod.metadata.resource_version) <= held.version
                and pod.metadata.deletion_timestamp == before.metadata.deletion_timestamp
            ):
                continue  # our own write; but if it came after a deletion, it tells of that as well
            held.shown = pod_status.shown(pod.status)
            self._crew.put(key)

    def _hold(self, key: str, pod: Pod) -> None:
        self._forget(key)
        if pod.status.pod_ip:
            address = pod.status.pod_ip
            self._number = max(self._number, pod_status.address_number(address))
        else:
            self._number += 1
            address = pod_status.pod_address(self._number)
        self._held[key] = _Held(pod, self._clock(), address, self._usual)
        self._on[pod.spec.node_name].add(key)

    def _forget(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is None:
            return
        self._crew.drop(key)
        there = self._on[held.pod.spec.node_name]
        there.discard(key)
        if not there:
            del self._on[held.pod.spec.node_name]

    def _arrived(self, node: str) -> None:
        for key in self._on.get(node, ()):
            self._crew.put(key)

    def _left(self, node: str) -> None:
        for key in self._on.get(node, ()):
            self._held[key].seen = -math.inf
            self._crew.put(key)

    # What is done about it

    async def _act(self, key: str) -> float:
        """Do what is due for a pod; returns when it is due again."""
        held = self._held.get(key)
        if held is None or held.ended:
            return math.inf
        now, node = self._clock(), held.pod.spec.node_name
        if not self.nodes.serves(node):
            return await self._without_node(held, node, now)
        if held.pod.metadata.deletion_timestamp is not None:
            return await self._stop(held, now)
        if held.shown[0] in {"Succeeded", "Failed"}:
            return math.inf
        if held.script is None:
            assert held.fault is not None
            await self._write(held, pod_status.unreadable(held.fault, held.began), ("Failed", ()))
            return math.inf
        moment = stages.at(held.script, held.began, now)
        brief = moment.phase == "Pending" and moment.until - now < BRIEF
        if pod_status.to_show(moment) != held.shown and not brief:
            await self._tell(held, held.script, moment, now)
        return moment.until

    async def _without_node(self, held: _Held, node: str, now: float) -> float:
        """A pod whose node does not work here: nobody's, a failed one's, or to be cleared away with its lost node."""
        if node in self.nodes.nodes or not (self._adopt_all or held.seen < 0):
            return math.inf
        if now < held.seen + LOST_AFTER:
            return held.seen + LOST_AFTER
        await self._delete(held)
        return math.inf

    async def _stop(self, held: _Held, now: float) -> float:
        """A pod that is to go: its containers get their time to stop, then it goes."""
        if held.shown[0] == "Running" and held.script is not None:
            grace = held.pod.metadata.deletion_grace_period_seconds or 0
            needed = held.script.stop_delay
            if held.asked is None:
                held.asked = now
            if now < (stop := held.asked + min(needed, grace)):
                return stop
            last = stages.at(held.script, held.began, now)
            if not last.over:
                last = stages.cut(last, now, stages.KILLED if needed > grace else stages.TERMINATED)
            await self._tell(held, held.script, last, now)
        await self._delete(held)
        return math.inf

    async def _tell(self, held: _Held, script: Script, moment: Moment, now: float) -> None:
        place = Place(held.address, self.nodes.address(held.pod.spec.node_name))
        status = pod_status.status(held.pod, script, moment, held.began, now, place)
        await self._write(held, status, pod_status.to_show(moment))

    async def _write(self, held: _Held, status: Json, showing: Shown) -> None:
        meta = held.pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            answer = await self._client.patch_status(_STATUS, meta.namespace, meta.name, patch, Patch.STRATEGIC)
        except (NotFound, Conflict) as gone:
            # It is gone, or another pod has its name: the watch will tell.
            log.debug("pod %s: %s", meta.key, gone)
            held.ended = True
        except Invalid as refusal:
            log.error("pod %s: its status was refused, it is left as it is: %s", meta.key, refusal)
            held.ended = True
        else:
            self.written += 1
            held.shown, held.version = showing, int(answer.metadata.resource_version)

    async def _delete(self, held: _Held) -> None:
        meta = held.pod.metadata
        try:
            await self._client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace=0)
        except (NotFound, Conflict) as gone:
            log.debug("pod %s: %s", meta.key, gone)
        held.ended = True


def _alike(before: pod_status.Meta, after: pod_status.Meta) -> bool:
    """Whether what users say about a pod's life is unchanged: its annotations, and whether and how it is to go."""
    return (
        before.annotations == after.annotations
        and before.deletion_timestamp == after.deletion_timestamp
        and before.deletion_grace_period_seconds == after.deletion_grace_period_seconds
    )
