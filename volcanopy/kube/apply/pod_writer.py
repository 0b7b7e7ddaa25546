"""Binds, evictions and nominations: what a plan does to pods, carried out once each.

**Never twice.** A bind names the pod's uid, and the server gives a pod one node only, so the danger is not a second bind
but a wrong belief about the first. After every answer that leaves a doubt the pod is read, until the server says where it
is; as long as nobody knows, the room stays taken. Should a bind that we gave up arrive late, either it or its successor
wins, and reading the pod tells which.

**After a refusal** the pod waits again: at once the first time, after growing pauses when it is refused again and again,
since the next cycle would ask for the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from volcanopy.api import core
from volcanopy.kube.apply.claim_writer import ClaimProgress, ClaimWriter
from volcanopy.kube.apply.event_writer import EventRecorder, EventType, ObjectReference
from volcanopy.kube.apply.write_queue import DelayedWrites, KeyLocks
from volcanopy.kube.cache import statuses
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.cache.store import Store
from volcanopy.kube.client.api_client import Client, Json, Patch
from volcanopy.kube.client.backoff import Backoff
from volcanopy.kube.client.errors import ApiError, Conflict, Invalid, KubeError, NotFound, describe
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.metrics import registry
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate

log = logging.getLogger(__name__)

_REMEMBERED = 4096
"""Pods whose refusals are counted at most."""
_LONGEST_PAUSE = 30.0


@dataclass
class WriterContext:
    """What every writer works with.

    ``bind_slots`` and ``write_slots`` bound the requests in flight: separately, so that no flood of explanations holds
    up a bind. ``now`` tells the wall-clock time.
    """

    client: Client
    store: Store
    recorder: EventRecorder
    delayed: DelayedWrites
    locks: KeyLocks = field(default_factory=KeyLocks)
    bind_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(64))
    write_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))
    rng: Random = field(default_factory=Random)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def tell(self, about: core.Pod | core.PodGroup, kind: EventType, reason: str, message: str) -> None:
        """Record an event about an object."""
        known: Kind[Any] = PODS if isinstance(about, core.Pod) else POD_GROUPS
        meta = about.metadata
        reference = ObjectReference(known.api_version, known.kind, meta.name, meta.namespace, meta.uid)
        self.recorder.record(reference, kind, reason, message)

    async def patch_pod(self, key: str, patch: Json, form: Patch = Patch.STRATEGIC) -> bool:
        """Write a pod's status; whether that pod is still there. Other failures are raised."""
        namespace, _, name = key.partition("/")
        try:
            answer = await self.client.patch_status(PODS, namespace, name, patch, form)
        except (NotFound, Conflict, Invalid) as error:
            if isinstance(error, Invalid) and "uid" not in str(error):
                raise
            return False  # it is gone, or another pod has its name now
        self.store.apply_response(answer)
        return True


class PodWriter:
    """Carries out what a plan does to pods."""

    def __init__(self, means: WriterContext) -> None:
        self._means = means
        self._claiming = ClaimWriter(means)
        self._settled: dict[str, ClaimProgress] = {}
        """By uid: what was done about the claims of pods that are being bound."""
        self._refusals: OrderedDict[str, Backoff] = OrderedDict()

    # Bind

    async def bind(self, effect: Bind, uid: str) -> bool:
        """Put the pod of this uid on its node. True once it is there; False if it is not and waits again.

        A pod with claims is put there once these are settled, however long its volumes take.
        """
        if effect.claims is None:
            return await self._bind(effect, uid)
        means, done = self._means, ClaimProgress()
        self._settled[uid] = done
        try:
            await self._claiming.settle(effect, uid, done)
        except KubeError as fault:
            pod = means.store.pods.get(effect.pod)
            if pod is not None and pod.metadata.uid == uid:
                async with means.locks.lock(("Pod", effect.pod)):
                    await self._bind_failed(effect, pod, fault)
            else:
                await self._undo(effect, uid)
                means.store.forget(effect.pod, uid)
            return False
        if await self._bind(effect, uid):
            means.store.state.stock.settle(effect.pod, uid, done.versions)
            del self._settled[uid]
            return True
        await self._undo(effect, uid)
        return False

    async def _undo(self, effect: Bind, uid: str) -> None:
        """Take back what was done about the pod's claims, if that has not happened yet."""
        done = self._settled.pop(uid, None)
        if done is not None:
            await self._claiming.undo(uid, done)
            self._means.store.state.stock.release(effect.pod, uid)

    async def _bind(self, effect: Bind, uid: str) -> bool:
        means, (namespace, _, name) = self._means, effect.pod.partition("/")
        async with means.locks.lock(("Pod", effect.pod)):
            try:
                async with means.bind_slots:
                    await means.client.bind(namespace, name, effect.node, uid=uid, annotations=effect.annotations)
            except NotFound as fault:
                log.info("pod %s was to be bound to %s, but is gone: %s", effect.pod, effect.node, fault)
                means.store.forget(effect.pod, uid)
                return False
            except KubeError as fault:
                found = await self._reread(effect.pod, uid) if _in_doubt(fault) else means.store.pods.get(effect.pod)
                if found is None or found.metadata.uid != uid:
                    means.store.forget(effect.pod, uid)
                    return False
                if found.spec.node_name:
                    # Bound, here or elsewhere: the watch tells it too, and then the assumption ends by itself.
                    if found.spec.node_name != effect.node:
                        log.warning("pod %s is on %s already, not on %s", effect.pod, found.spec.node_name, effect.node)
                    return found.spec.node_name == effect.node
                await self._bind_failed(effect, found, fault)
                return False
            self._refusals.pop(uid, None)
            self._measure(effect.pod)
            return True

    def _measure(self, key: str) -> None:
        """The server has bound this pod."""
        registry.PODS_BOUND.inc()
        pod = self._means.store.pods.get(key)
        if pod is not None and pod.metadata.creation_timestamp is not None:
            waited = (self._means.now() - pod.metadata.creation_timestamp).total_seconds()
            registry.TASK_LATENCY.labels("Bound").observe(max(waited, 0.0) * 1000)

    async def _bind_failed(self, effect: Bind, pod: core.Pod, fault: KubeError) -> None:
        means = self._means
        await self._undo(effect, pod.metadata.uid)
        message = f"could not be bound to node {effect.node}: {describe(fault)}"
        log.warning("pod %s %s", effect.pod, message)
        if pod.metadata.deletion_timestamp is None:
            means.tell(pod, "Warning", "FailedScheduling", message)
            patch = statuses.unscheduled_patch(pod, "SchedulerError", message, means.now())
            if patch is not None:
                await self._patch_or_log(effect.pod, patch)
        self._wait_again(effect.pod, pod.metadata.uid)

    # Evict

    async def evict(self, effect: Evict, uid: str) -> bool:
        """Announce and ask for the end of the pod of this uid. True once it is ending; False if it stays."""
        means, (namespace, _, name) = self._means, effect.pod.partition("/")
        async with means.locks.lock(("Pod", effect.pod)), means.bind_slots:
            pod = means.store.pods.get(effect.pod)
            if pod is None or pod.metadata.uid != uid:
                return True
            self._announce(effect, pod)
            try:
                patch = statuses.disruption_patch(pod, effect, means.now())
                if patch is not None and not await means.patch_pod(effect.pod, patch):
                    return True
                await means.client.delete(PODS, namespace, name, uid=uid)
            except (NotFound, Conflict):
                return True  # it is gone, or another pod has its name now
            except KubeError as fault:
                found = await self._reread(effect.pod, uid) if _in_doubt(fault) else pod
                if found is None or found.metadata.deletion_timestamp is not None:
                    return True
                message = f"could not be evicted: {describe(fault)}"
                log.warning("pod %s %s", effect.pod, message)
                means.tell(pod, "Warning", "FailedEviction", message)
                self._wait_again(effect.pod, uid)
                return False
            self._refusals.pop(uid, None)
            return True

    def _announce(self, effect: Evict, pod: core.Pod) -> None:
        reason = effect.message or effect.reason
        self._means.tell(pod, "Warning", "Evict", f"Pod is evicted, because of {reason}")
        group = self._means.store.groups.get(effect.group)
        if group is not None:
            self._means.tell(group, "Normal", "Evict", f"pod {pod.metadata.name}: {reason}")

    # Nominate

    async def nominate(self, effect: Nominate) -> bool:
        """Write that a node's room is kept for the pod. False if that failed."""
        means = self._means
        async with means.locks.lock(("Pod", effect.pod)), means.write_slots:
            pod = means.store.pods.get(effect.pod)
            patch = None if pod is None or pod.spec.node_name else statuses.nomination_patch(pod, effect.node)
            if pod is None or patch is None:
                return True
            try:
                return await means.patch_pod(effect.pod, patch, Patch.MERGE)
            except KubeError as fault:
                log.warning("pod %s: node %s cannot be kept for it: %s", effect.pod, effect.node, describe(fault))
                means.store.forget_nomination(effect.pod, pod.metadata.uid)
                return False

    # In common

    async def _reread(self, key: str, uid: str) -> core.Pod | None:
        """The pod as the server has it, however long it takes to answer; None if that pod is no more."""
        namespace, _, name = key.partition("/")
        backoff = Backoff(self._means.rng, 0.5, _LONGEST_PAUSE)
        while True:
            try:
                found = await self._means.client.get(PODS, namespace, name)
            except NotFound:
                return None
            except KubeError as fault:
                log.warning("pod %s: what became of it is not known yet: %s", key, describe(fault))
                await asyncio.sleep(backoff.next())
                continue
            if found.metadata.uid != uid:
                return None
            self._means.store.apply_response(found)
            return found

    def _wait_again(self, key: str, uid: str) -> None:
        """Let the next cycle decide anew, after a pause if that has been of no use before."""
        backoff = self._refusals.setdefault(uid, Backoff(self._means.rng, 0.5, _LONGEST_PAUSE))
        self._refusals.move_to_end(uid)
        if len(self._refusals) > _REMEMBERED:
            self._refusals.popitem(last=False)
        again = backoff.failures > 0
        pause = backoff.next()
        if not again:
            self._means.store.forget(key, uid)
            return

        async def forget() -> None:
            self._means.store.forget(key, uid)

        self._means.delayed.put(("forget", uid), pause, forget)

    async def _patch_or_log(self, key: str, patch: Json) -> None:
        try:
            await self._means.patch_pod(key, patch)
        except KubeError as fault:
            log.warning("pod %s: its condition cannot be written: %s", key, describe(fault))


def _in_doubt(fault: KubeError) -> bool:
    """Whether only the pod itself can tell what happened. A conflict: it may be where it should be since long ago."""
    if isinstance(fault, Conflict):
        return True
    return bool(getattr(fault, "in_doubt", False)) or not isinstance(fault, ApiError)
