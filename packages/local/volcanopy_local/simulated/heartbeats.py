"""The nodes of the simulated kubelet: registration, heartbeats and removal."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from volcanopy.api import core
from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.backoff import answered
from volcanopy.kube.client.errors import AlreadyExists, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import LEASES, NAMESPACES
from volcanopy_local.simulated import nodes
from volcanopy_local.simulated.nodes import LEASE_NAMESPACE, NODES
from volcanopy_local.simulated.timers import TimedWorkers

log = structlog.get_logger(__name__)

LEASE_PERIOD = 10.0
"""Seconds between renewals of a node's Lease."""
STATUS_PERIOD = 300.0
"""Seconds between status reports of an unchanged node."""


class Heartbeats:
    """The nodes of the cluster, and heartbeats of those for which ``is_own`` is true.

    ``arrived`` and ``departed`` are called with the name of a node that is served from now on, or was deleted; ``describe``
    returns the status that a node has from its start.
    """

    def __init__(
        self,
        client: Client,
        *,
        is_own: Callable[[core.Node], bool],
        arrived: Callable[[str], None],
        departed: Callable[[str], None],
        describe: Callable[[core.Node, str, float], Json] = nodes.description,
    ) -> None:
        self.nodes: dict[str, core.Node] = {}
        self.failed: set[str] = set()
        self.reflector = Reflector(client, NODES)
        self._client, self._is_own, self._describe = client, is_own, describe
        self._arrived, self._left = arrived, departed
        self._workers = TimedWorkers("node", self._heartbeat, 8)
        self._reported: dict[str, float] = {}
        self._numbers: dict[str, int] = {}

    def serves(self, name: str) -> bool:
        """Return whether the node exists, is served here, and has not failed."""
        return name in self._numbers and name not in self.failed

    def address(self, name: str) -> str:
        """Return the address of the node."""
        return nodes.node_address(self._numbers[name])

    async def renewal_times(self) -> dict[str, float]:
        """Return the times of the last renewals of the nodes' Leases, in seconds since the epoch."""
        listing = await answered(lambda: self._client.list(LEASES, LEASE_NAMESPACE))
        renewals = {lease["metadata"]["name"]: (lease.get("spec") or {}).get("renewTime") for lease in listing.items}
        return {name: datetime.fromisoformat(time).timestamp() for name, time in renewals.items() if time}

    async def run(self) -> None:
        """Serve the nodes until cancelled."""
        with contextlib.suppress(AlreadyExists):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
            await answered(lambda: self._client.create(NAMESPACES, None, namespace))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._workers.run())
            tasks.create_task(self.reflector.run(self.on_changes))

    def on_changes(self, changes: Sequence[Change[core.Node]]) -> None:
        """Process changes of nodes."""
        for change in changes:
            node, name = change.object, change.object.metadata.name
            if change.type is ChangeType.DELETED:
                del self.nodes[name]
                self.failed.discard(name)
                self._reported.pop(name, None)
                self._workers.drop(name)
                if self._numbers.pop(name, None) is not None:
                    self._left(name)
                continue
            self.nodes[name] = node
            if name not in self._numbers and self._is_own(node):
                self._numbers[name] = self._free_number()
                self._workers.put(name)
                self._arrived(name)

    def _free_number(self) -> int:
        return max(self._numbers.values(), default=0) + 1

    async def _heartbeat(self, name: str) -> float:
        """Renew the Lease of a node; report its status first if it is new or was reported long ago."""
        node, now = self.nodes.get(name), machine.epoch()
        if node is None or not self.serves(name):
            return math.inf
        try:
            if now - self._reported.get(name, -math.inf) >= STATUS_PERIOD:
                await self._report(node, now)
            await self._renew(node, now)
        except NotFound as gone:
            log.debug("node is gone", node=name, error=str(gone))
            return now + LEASE_PERIOD
        return now + LEASE_PERIOD

    async def _report(self, node: core.Node, now: float) -> None:
        name = node.metadata.name
        if any(taint.key == nodes.UNREACHABLE for taint in node.spec.taints):
            await self._client.update_with_retry(NODES.raw, None, name, _reachable)
        status: Json = {"conditions": nodes.conditions(now, None if nodes.is_ready(node) else now)}
        if name not in self._reported:
            status = self._describe(node, self.address(name), now) | status
        await self._client.patch_status(NODES, None, name, {"status": status}, PatchType.STRATEGIC)
        self._reported[name] = now

    async def _renew(self, node: core.Node, now: float) -> None:
        name, lease = node.metadata.name, nodes.lease(node, now)
        try:
            await self._client.patch(LEASES, LEASE_NAMESPACE, name, {"spec": lease["spec"]})
        except NotFound:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(LEASES, LEASE_NAMESPACE, lease)

    def stop(self, name: str) -> None:
        """Send no heartbeats of a node, and change none of its pods, until it is started again."""
        self.failed.add(name)
        self._workers.drop(name)

    def start(self, name: str) -> None:
        """Serve a node again that was stopped."""
        self.failed.discard(name)
        if name in self._numbers:
            self._workers.put(name)
            self._arrived(name)


def _reachable(node: Json) -> Json:
    taints = (node.get("spec") or {}).get("taints") or []
    remaining = [taint for taint in taints if taint["key"] != nodes.UNREACHABLE]
    node["spec"] = {**(node.get("spec") or {}), "taints": remaining}
    return node
