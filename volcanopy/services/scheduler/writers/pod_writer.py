"""Writes of a plan to pods: binds, evictions and nominations.

**Exactly once.** A bind names the pod's uid, and the server gives a pod only one node, so the danger is not a second bind
but a wrong assumption about the first. After every response that leaves a doubt the pod is read until the server answers;
until then its resources stay assumed. If a bind that was given up arrives late, either it or its successor wins, and
reading the pod shows which.

**After a rejection** the next cycle decides again. A pod that is rejected again backs off for growing pauses: its
resources are given back at once, so that other jobs start, but it is not tried, since a cycle would decide the same.
"""

import asyncio
from collections import OrderedDict

from volcanopy.api import core
from volcanopy.api.queue_gate import has_queue_gate
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.client.api_client import PatchType
from volcanopy.kube.client.backoff import AFTER_OUTAGE, Backoff
from volcanopy.kube.client.errors import ApiError, Conflict, KubeError, NotFound, describe, is_outage
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.metrics import registry
from volcanopy.kube.writes.round_robin import namespace_of
from volcanopy.scheduler.model.eviction_record import COOLDOWN
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate
from volcanopy.services.scheduler.state import statuses
from volcanopy.services.scheduler.writers.claim_writer import ClaimProgress, ClaimWriter
from volcanopy.services.scheduler.writers.node_locks import NodeLocks
from volcanopy.services.scheduler.writers.writer_context import WriterContext

log = Logger(__name__)

_REMEMBERED = 4096
"""Most pods whose rejections are counted."""
_LONGEST_PAUSE = 30.0
"""Seconds between the attempts to bind or evict a pod that the API server rejects."""
_LONGEST_PAUSE_OF_PREEMPTORS = COOLDOWN.total_seconds()
"""The same where pods were evicted for it: each attempt evicts again, since others start in the pause."""


class PodWriter:
    """Applies the effects of a plan to pods."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._claims = ClaimWriter(context)
        self._node_locks = NodeLocks(context)
        self._settled: dict[str, ClaimProgress] = {}
        """By uid: the progress with the claims of pods that are being bound."""
        self._rejections: OrderedDict[str, Backoff] = OrderedDict()

    # Bind

    async def bind(self, effect: Bind, uid: str) -> bool:
        """Bind the pod of this uid. True once it is bound; False if it is pending again.

        A pod with claims is bound once these are allocated, however long its volumes take; one with locks of its node once
        no other pod has them.
        """
        if effect.claims is None:
            return await self._bind_in_turn(effect, uid)
        context, done = self._context, ClaimProgress()
        self._settled[uid] = done
        try:
            await self._claims.settle(effect, uid, done)
        except KubeError as fault:
            await self._give_up(effect, uid, fault)
            return False
        if await self._bind_in_turn(effect, uid):
            context.store.state.claims.settle(effect.pod, uid, done.versions)
            del self._settled[uid]
            return True
        await self._undo(effect, uid)
        return False

    async def _bind_in_turn(self, effect: Bind, uid: str) -> bool:
        """Bind the pod when its node is locked for it, if it must be."""
        if not effect.locks:
            return await self._bind(effect, uid)
        try:
            held = await self._node_locks.acquire(effect, uid)
        except KubeError as fault:
            await self._give_up(effect, uid, fault)
            return False
        bound = await self._bind(effect, uid)
        if not bound:
            await self._node_locks.release(effect.node, held)
        return bound

    async def _give_up(self, effect: Bind, uid: str, fault: KubeError) -> None:
        """What must be done before the bind has failed."""
        context = self._context
        pod = context.store.pods.get(effect.pod)
        if pod is not None and pod.metadata.uid == uid:
            async with context.locks.lock(("Pod", effect.pod)):
                await self._bind_failed(effect, pod, fault)
        else:
            await self._undo(effect, uid)
            context.store.forget(effect.pod, uid)

    async def _undo(self, effect: Bind, uid: str) -> None:
        """Undo the allocation of the pod's claims, once."""
        done = self._settled.pop(uid, None)
        if done is not None:
            await self._claims.undo(uid, done)
            self._context.store.state.claims.release(effect.pod, uid)

    async def _bind(self, effect: Bind, uid: str) -> bool:
        context, (namespace, _, name) = self._context, effect.pod.partition("/")
        async with context.locks.lock(("Pod", effect.pod)):
            try:
                async with context.bind_slots.slot(namespace):
                    pod = context.store.pods.get(effect.pod)
                    if pod is not None and has_queue_gate(pod):
                        await context.remove_queue_gate(pod)
                    await context.client.bind(namespace, name, effect.node, uid=uid, annotations=effect.annotations)
            except NotFound as fault:
                log.info("pod to bind is gone", pod=effect.pod, node=effect.node, error=str(fault))
                context.store.forget(effect.pod, uid)
                return False
            except KubeError as fault:
                pod = await self._reread(effect.pod, uid) if _in_doubt(fault) else context.store.pods.get(effect.pod)
                if pod is None or pod.metadata.uid != uid:
                    context.store.forget(effect.pod, uid)
                    return False
                if actual := pod.spec.node_name:
                    # Bound, here or elsewhere: the watch shows it too, which ends the assumption.
                    if actual != effect.node:
                        log.warning("pod is bound to another node", pod=effect.pod, node=actual, decided=effect.node)
                    return actual == effect.node
                await self._bind_failed(effect, pod, fault)
                return False
            self._rejections.pop(uid, None)
            self._bound(effect)
            return True

    def _bound(self, effect: Bind) -> None:
        """Count a bound pod, and record its event if pods get events."""
        registry.PODS_BOUND.inc()
        pod = self._context.store.pods.get(effect.pod)
        if pod is not None and self._context.pod_events:
            message = f"Successfully assigned {effect.pod} to {effect.node}"
            self._context.record_event(pod, "Normal", "Scheduled", message)
        if pod is not None and pod.metadata.creation_timestamp is not None:
            waited = (self._context.now() - pod.metadata.creation_timestamp).total_seconds()
            registry.TASK_LATENCY.labels("Bound").observe(max(waited, 0.0))

    async def _bind_failed(self, effect: Bind, pod: core.Pod, fault: KubeError) -> None:
        context = self._context
        await self._undo(effect, pod.metadata.uid)
        message = f'binding to node "{effect.node}" failed: {describe(fault)}'
        ends = isinstance(fault, ApiError) and fault.namespace_is_deleted  # so does the pod, in a moment
        (log.info if ends else log.warning)("bind failed", pod=effect.pod, node=effect.node, error=describe(fault))
        if pod.metadata.deletion_timestamp is None and not ends:
            context.record_event(pod, "Warning", "FailedScheduling", message)
            patch = statuses.unscheduled_patch(pod, "SchedulerError", message, context.now())
            if patch is not None:
                await self._patch_or_log(effect.pod, patch)
        self._wait_again(effect.pod, pod.metadata.uid, fault)

    # Evict

    async def evict(self, effect: Evict, uid: str) -> bool:
        """Announce the eviction of the pod of this uid, then delete it. True once it is terminating, else False."""
        context, (namespace, _, name) = self._context, effect.pod.partition("/")
        async with context.locks.lock(("Pod", effect.pod)), context.bind_slots.slot(namespace):
            pod = context.store.pods.get(effect.pod)
            if pod is None or pod.metadata.uid != uid:
                return True
            preemptor = context.store.groups.get(effect.preemptor)
            message = statuses.eviction_message(effect, preemptor)
            self._announce(effect, pod, message)
            try:
                patch = statuses.disruption_patch(pod, effect.reason, message, preemptor, context.now())
                if patch is not None and not await context.patch_pod(effect.pod, patch):
                    return True
                # Only an explicit grace period shortens that of an earlier deletion.
                own = pod.spec.termination_grace_period_seconds or 1
                grace = None if pod.metadata.deletion_timestamp is None else own
                await context.client.delete(PODS, namespace, name, uid=uid, grace=grace)
            except NotFound:
                return True
            except KubeError as fault:
                if isinstance(fault, Conflict) and fault.of_uid:
                    return True  # another pod has its name now
                current = await self._reread(effect.pod, uid) if _in_doubt(fault) else pod
                if current is None or current.is_terminating:
                    return True
                log.warning("eviction failed", pod=effect.pod, error=describe(fault))
                context.record_event(pod, "Warning", "FailedEviction", f"eviction failed: {describe(fault)}")
                self._wait_again(effect.pod, uid, fault)
                return False
            self._rejections.pop(uid, None)
            return True

    def _announce(self, effect: Evict, pod: core.Pod, message: str) -> None:
        self._context.record_event(pod, "Warning", "Evicted", message)
        group = self._context.store.groups.get(effect.group)
        if group is not None:
            self._context.record_event(group, "Normal", "Evicted", f'pod "{pod.metadata.name}" {message}')

    # Nominate

    async def nominate(self, effect: Nominate) -> bool:
        """Write the nominated node of a pod. False if that failed."""
        context = self._context
        async with context.locks.lock(("Pod", effect.pod)), context.write_slots.slot(namespace_of(effect.pod)):
            pod = context.store.pods.get(effect.pod)
            patch = None if pod is None or pod.spec.node_name else statuses.nomination_patch(pod, effect.node)
            if pod is None or patch is None:
                return True
            try:
                return await context.patch_pod(effect.pod, patch, PatchType.MERGE)
            except KubeError as fault:
                log.warning("nomination failed", pod=effect.pod, node=effect.node, error=describe(fault))
                context.store.forget_nomination(effect.pod, pod.metadata.uid)
                return False

    # In common

    async def _reread(self, key: str, uid: str) -> core.Pod | None:
        """Read the pod, however long it takes; None if that pod is gone."""
        namespace, _, name = key.partition("/")
        backoff = Backoff(self._context.rng, 0.5, AFTER_OUTAGE)
        while True:
            try:
                pod = await self._context.client.get(PODS, namespace, name)
            except NotFound:
                return None
            except KubeError as fault:
                log.warning("pod not readable, result of the write unknown", pod=key, error=describe(fault))
                await asyncio.sleep(backoff.next())
                continue
            if pod.metadata.uid != uid:
                return None
            self._context.store.apply_response(pod)
            return pod

    def _wait_again(self, key: str, uid: str, fault: KubeError) -> None:
        """Let the next cycle decide again; back off if it has failed before."""
        backoff = self._rejections.setdefault(uid, Backoff(self._context.rng, 0.5, _LONGEST_PAUSE))
        pod = self._context.store.pods.get(key)
        if pod is not None and pod.status.nominated_node_name:
            backoff.cap = _LONGEST_PAUSE_OF_PREEMPTORS
        self._rejections.move_to_end(uid)
        if len(self._rejections) > _REMEMBERED:
            self._rejections.popitem(last=False)
        again = backoff.failures > 0
        pause = backoff.next()
        if is_outage(fault):
            pause = min(pause, AFTER_OUTAGE)
        self._context.store.forget(key, uid, backs_off=again)
        if not again:
            return

        async def forget() -> None:
            self._context.store.forget(key, uid)

        self._context.delayed.put(("forget", uid), pause, forget)

    async def _patch_or_log(self, key: str, patch: Json) -> None:
        try:
            await self._context.patch_pod(key, patch)
        except KubeError as fault:
            log.warning("pod condition not written", pod=key, error=describe(fault))


def _in_doubt(fault: KubeError) -> bool:
    """Whether only the pod shows what happened. After a conflict it may have been bound as decided long ago."""
    if isinstance(fault, Conflict):
        return True
    return bool(getattr(fault, "in_doubt", False)) or not isinstance(fault, ApiError)
