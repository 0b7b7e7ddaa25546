"""Locks of nodes: annotations by which a device plugin is given one pod at a time.

A device plugin does not learn for which pod the kubelet asks it. Volcano's takes the pod of its node with the annotation that
its devices have to be handed out, so there must be one such pod only. The scheduler therefore sets an annotation on the node
before it binds the pod, and the device plugin removes it when it has handed out the devices. An annotation that has not been
removed after five minutes is void, as in Volcano: its pod never reached the device plugin.
"""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

from volcanopy.api.times import format_time
from volcanopy.kube.client.errors import Conflict, KubeError, NotFound, describe
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.client.raw_kinds import NODES
from volcanopy.scheduler.model.plan import Bind
from volcanopy.services.scheduler.writers.writer_context import WriterContext

log = Logger(__name__)

EXPIRY = timedelta(minutes=5)
"""How long a lock is valid that is not removed."""


class LockError(KubeError):
    """A node cannot be locked for a pod; the message has the reason."""


class NodeLocks:
    """Sets and removes the locks of nodes for pods that are being bound."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context

    async def acquire(self, effect: Bind, uid: str) -> dict[str, str]:
        """Set the locks of a bind, each once no other pod has it; returns their values. Raises KubeError, then none is set."""
        held: dict[str, str] = {}
        async with AsyncExitStack() as turns:
            for lock in sorted(effect.locks):
                # Pods of this scheduler wait in order; each then sees the lock of the one before.
                await turns.enter_async_context(self._context.locks.lock(("NodeLock", effect.node, lock)))
                try:
                    held[lock] = await self._acquire(effect, uid, lock)
                except KubeError:
                    await self.release(effect.node, held)
                    raise
        return held

    async def release(self, node: str, held: dict[str, str]) -> None:
        """Remove locks that still have these values: the pod was not bound."""
        for lock, value in held.items():
            try:
                while True:
                    current = await self._context.client.get(NODES, None, node)
                    if _annotations(current).get(lock) != value:
                        break
                    if await self._set(current, lock, None):
                        break
            except NotFound:
                return
            except KubeError as fault:
                log.warning("lock of a node not removed", node=node, lock=lock, error=describe(fault))

    async def _acquire(self, effect: Bind, uid: str, lock: str) -> str:
        context, announced = self._context, False
        with context.store.waiters.changes_of([("Pod", effect.pod), ("Node", effect.node)]) as changed:
            while True:
                pod = context.store.pods.get(effect.pod)
                if pod is None or pod.metadata.uid != uid or pod.metadata.deletion_timestamp is not None:
                    raise LockError(f'the pod was deleted before node "{effect.node}" was locked for it')
                changed.clear()
                current = await context.client.get(NODES, None, effect.node)
                now = context.now()
                end = _valid_until(_annotations(current).get(lock, ""))
                if end is None or end <= now:
                    value = format_time(now)
                    if await self._set(current, lock, value):
                        return value
                    continue
                if not announced:
                    announced = True
                    until = f"until the device plugin removes it, at most until {format_time(end)}"
                    message = f'node "{effect.node}" has the annotation {lock} for another pod: waiting {until}'
                    context.record_event(pod, "Normal", "WaitingForNode", message)
                try:
                    async with asyncio.timeout((end - now).total_seconds()):
                        await changed.wait()
                except TimeoutError:
                    continue

    async def _set(self, node: Json, lock: str, value: str | None) -> bool:
        """Write one annotation of the node as it was read. False if it has been written in between."""
        meta = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {lock: value}}
        try:
            await self._context.client.patch(NODES, None, node["metadata"]["name"], {"metadata": meta})
        except Conflict:
            return False
        return True


def _annotations(node: Json) -> dict[str, str]:
    return node["metadata"].get("annotations") or {}


def _valid_until(value: str) -> datetime | None:
    """Until when a lock with this value is valid; None for a value that is not a time."""
    try:
        since = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (since if since.tzinfo else since.replace(tzinfo=UTC)) + EXPIRY
