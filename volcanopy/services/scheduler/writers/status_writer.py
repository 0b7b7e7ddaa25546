"""Writes of statuses and explanations to pod groups, queues and pending pods, as few as possible.

A change of phase is written at once, because other components act on it: the job controller creates the pods of an admitted
group. Where these exist, the admission is written with what follows it. Counts and messages are delayed, since they change
again within the second; the newest state is written then, and nothing if the server has it already. That a group or pod is
unschedulable is written only after a delay, so one that is scheduled soon never gets the condition.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.gates import Gate
from volcanopy.api.queue_gate import has_queue_gate
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, QUEUES
from volcanopy.kube.client.errors import KubeError, NotFound, describe
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.client.raw_kinds import of_object
from volcanopy.kube.writes.round_robin import namespace_of
from volcanopy.kube.writes.write_queue import SPREAD, spread
from volcanopy.scheduler.model.plan import Explain
from volcanopy.services.scheduler.state import statuses
from volcanopy.services.scheduler.writers.writer_context import WriterContext

log = Logger(__name__)


@dataclass(frozen=True)
class Timing:
    """Delays of writes, in seconds."""

    settle: float = 1.0
    """Counts, and the first unschedulable condition. With many objects that wait for it at once, up to ``message_delay``."""
    message_delay: float = 5.0
    """A new message of a pod group's unschedulable condition, and the first one of a gang after its last pod was created."""
    repeat_delay: float = 30.0
    """A new message of pods that have the condition, and a repeated event."""
    queue_delay: float = SPREAD
    """For each queue that exists: a status of a queue in which nothing was allocated or released."""


_PODS_AT_ONCE = 8
"""Pods of a job whose conditions are written at the same time."""
_RESOLUTION = 0.001
"""Seconds; a timer may be early by a rounding error, and would be set again and again."""


def _settle(context: WriterContext, timing: Timing) -> float:
    """Return the delay of counts and first messages."""
    return spread(timing.settle, timing.message_delay, len(context.delayed))


class PodGroupStatusWriter:
    """Writes the expected statuses of pod groups, with the explanations of unschedulable ones.

    The condition and its explanation are one write. Changed texts under an unchanged message (what unblocks the group,
    what is before it) are written rarely, changed numbers only with another change, since they change with every pod.
    """

    def __init__(self, context: WriterContext, timing: Timing) -> None:
        self._context, self._timing = context, timing
        self._why: dict[str, Explain] = {}
        """The last explanation of each group."""
        self._since: dict[str, tuple[float, float]] = {}
        """When a group became unschedulable whose condition is not written yet, and when the last of its pods was created."""

    def enqueue(self, key: str) -> asyncio.Task[None] | None:
        """Write the expected status: returns the task if that is done at once, None if it is delayed."""
        group, expected = self._context.store.groups.get(key), self._context.store.expected_group(key)
        if group is None or expected is None:
            return None
        delayed = self._context.delayed
        newly = statuses.unschedulable(expected) is not None and statuses.unschedulable(group.status) is None
        if newly:
            now = asyncio.get_running_loop().time()
            self._since.setdefault(key, (now, now))
        elif self._since.pop(key, None) is not None and self._is_unawaited(key, expected):
            delayed.cancel(("PodGroup", key))  # it was for the condition
        changes_phase = expected.phase != group.status.phase
        if changes_phase and not self._is_unawaited(key, expected):
            return delayed.now(("PodGroup", key), partial(self._write, key, at_once=True))
        only_message = _counts(expected) == _counts(group.status) and statuses.unschedulable(expected) is not None
        is_late = not newly and (changes_phase or only_message)
        self._put(key, self._timing.message_delay if is_late else _settle(self._context, self._timing))
        return None

    def _is_unawaited(self, key: str, expected: core.PodGroupStatus) -> bool:
        """Whether a status admits a group whose pods exist, so that no controller waits for it."""
        return expected.phase == "Inqueue" and not self._context.store.awaits_admission(key)

    def explain(self, explain: Explain) -> None:
        """Store the explanation of a group and write it, with a delay, if its texts have changed."""
        key, known = explain.job, self._why.get(explain.job)
        self._why[key] = explain
        if known is not None and _texts(known) == _texts(explain):
            return
        group = self._context.store.groups.get(key)
        if explain.gate == Gate.GANG and known is not None and key in self._since:
            self._since[key] = self._since[key][0], asyncio.get_running_loop().time()
        if group is None:
            del self._why[key]
        elif statuses.unschedulable(group.status) is not None and not statuses.same_text(
            group.status.explanation, statuses.explanation(explain)
        ):
            self._put(key, self._timing.repeat_delay)
        groups = self._context.store.groups
        if len(self._why) > 2 * len(groups) + 256:
            self._why = {name: why for name, why in self._why.items() if name in groups}

    def _put(self, key: str, delay: float) -> None:
        self._context.delayed.put(("PodGroup", key), delay, partial(self._write, key))

    async def _write(self, key: str, at_once: bool = False) -> None:
        context = self._context
        async with context.locks.lock(("PodGroup", key)), context.write_slots.slot(namespace_of(key)):
            group = context.store.groups.get(key)
            if group is None:
                self._since.pop(key, None)
                self._why.pop(key, None)
                return
            expected = context.store.expected_group(key)
            if expected is None:
                self._since.pop(key, None)
                expected = group.status
            if at_once and expected.phase == group.status.phase:
                self._put(key, _settle(self._context, self._timing))  # the write before this one has written the phase
                return
            status, early = expected, 0.0
            if key in self._since:
                early = self._due(key) - asyncio.get_running_loop().time()
                if early > _RESOLUTION and not context.delayed.flushing:
                    if self._is_unawaited(key, expected):
                        self._put(key, early)
                        return
                    status = replace(expected, conditions=group.status.conditions)
                else:
                    del self._since[key]
            if not await self._send(key, group, self._explained(key, status, group.status)):
                self._since.pop(key, None)
                context.store.settle_group(key, expected)
            elif status is not expected:
                self._put(key, early)
            else:
                context.store.settle_group(key, expected)

    def _due(self, key: str) -> float:
        """Return when the condition of a group that became unschedulable is written.

        One that lacks pods waits for something only when no more of them come.
        """
        (first, last), why = self._since[key], self._why.get(key)
        if why is not None and why.gate == Gate.GANG:
            return min(last + self._timing.message_delay, first + self._timing.repeat_delay)
        return first + _settle(self._context, self._timing)

    def _explained(self, key: str, status: core.PodGroupStatus, before: core.PodGroupStatus) -> core.PodGroupStatus:
        """Return the status with the explanation of an unschedulable group; the old one if only its numbers differ."""
        condition, old, explain = statuses.unschedulable(status), before.explanation, self._why.get(key)
        fresh = None if explain is None else statuses.explanation(explain)
        if condition is None:
            if key not in self._since:
                self._why.pop(key, None)
            return replace(status, explanation=None)
        if fresh is None or fresh.message != condition.message:
            return replace(status, explanation=old if old is not None and old.message == condition.message else None)
        same = replace(status, explanation=old)
        return same if same == before and statuses.same_text(old, fresh) else replace(status, explanation=fresh)

    async def _send(self, key: str, group: core.PodGroup, status: core.PodGroupStatus) -> bool:
        """Write the difference; False if that failed for good."""
        # The estimated start is written by another part; it ends with the start.
        waits = status.phase not in _STARTED
        status = replace(status, estimated_start=group.status.estimated_start if waits else None)
        patch = statuses.status_patch(group.status, status)
        if not patch:
            return True
        meta = group.metadata
        body = {"metadata": {"uid": meta.uid}, "status": patch}
        try:
            kind = of_object(POD_GROUPS, group.api_version)
            answer = await self._context.client.patch_status(kind, meta.namespace, meta.name, body)
        except NotFound:
            return False
        except KubeError as fault:
            log.warning("podgroup status not written", podgroup=key, error=describe(fault))
            return False
        self._context.store.apply_response(answer)
        if _scheduled(status) and not _scheduled(group.status):
            self._context.record_event(group, "Normal", "Scheduled", "pod group is ready")
        return True


_STARTED = frozenset({"Running", "Completed"})


def _texts(explain: Explain) -> tuple[object, ...]:
    return explain.gate, explain.message, explain.unblocked_by, explain.blocked_by


def _counts(status: core.PodGroupStatus) -> tuple[int, int, int]:
    return status.running, status.succeeded, status.failed


def _scheduled(status: core.PodGroupStatus) -> bool:
    return any(condition.type == "Scheduled" and condition.status == "True" for condition in status.conditions)


class QueueStatusWriter:
    """Writes the expected statuses of queues."""

    def __init__(self, context: WriterContext, timing: Timing) -> None:
        self._context, self._timing = context, timing

    def enqueue(self, name: str) -> None:
        """Write the expected status, with a delay.

        A change that other queues cause (of the fair share, when another queue requests more) concerns all queues at
        once: its delay grows with the number of queues.
        """
        store, delay = self._context.store, self._timing.settle
        queue, expected = store.queues.get(name), store.expected_queue(name)
        if queue is not None and expected is not None and expected.allocated == queue.status.allocated:
            delay = max(delay, self._timing.queue_delay * len(store.queues))
        self._context.delayed.put(("Queue", name), delay, partial(self._write, name))

    async def _write(self, name: str) -> None:
        context = self._context
        async with context.locks.lock(("Queue", name)), context.write_slots.slot(name):
            queue, expected = context.store.queues.get(name), context.store.expected_queue(name)
            if queue is None or expected is None:
                return
            # The controller may have set state and counts since the decision: they must not be overwritten.
            status = statuses.with_scheduler_fields(queue.status, expected)
            status = replace(status, state=queue.status.state or expected.state)
            patch = statuses.status_patch(queue.status, status)
            if patch:
                body = {"metadata": {"uid": queue.metadata.uid}, "status": patch}
                try:
                    answer = await context.client.patch_status(of_object(QUEUES, queue.api_version), None, name, body)
                except KubeError as fault:
                    if not isinstance(fault, NotFound):
                        log.warning("queue status not written", queue=name, error=describe(fault))
                else:
                    context.store.apply_response(answer)
            context.store.settle_queue(name, expected)


class _LastMessage(NamedTuple):
    """The last message of a job, and its time (the loop's seconds)."""

    uid: str
    message: str
    at: float


class ExplanationWriter:
    """Writes events of pod groups, and conditions of pods, that explain why they are pending.

    Pods of a gang that is not complete get no condition, since only its other pods are missing: with thousands of pods that
    are being created, it would be one more write for each, outdated within seconds. Pods whose PodGroup does not exist get one.
    """

    def __init__(self, context: WriterContext, timing: Timing) -> None:
        self._context, self._timing = context, timing
        self._explains: dict[str, Explain] = {}
        self._written: dict[str, _LastMessage] = {}
        self._running: set[str] = set()
        """The jobs whose explanation is being written."""

    def enqueue(self, explain: Explain) -> None:
        """Write an explanation, with a delay, unless it has been written or the pods are scheduled before."""
        job, known = explain.job, self._explains.get(explain.job)
        if known is not None and (known.gate, known.message, known.pods) == (
            explain.gate,
            explain.message,
            explain.pods,
        ):
            return
        self._explains[job] = explain
        first = job not in self._written or any(not self._has_condition(pod) for pod in _with_condition(explain))
        soon = self._timing.message_delay if explain.gate == Gate.GANG else _settle(self._context, self._timing)
        self._put(job, soon if first else self._timing.repeat_delay)
        if len(self._explains) > 2 * len(self._context.store.groups) + 256:
            self._forget_deleted()

    def _put(self, job: str, delay: float) -> None:
        self._context.delayed.put(("Explain", job), delay, partial(self._write, job))

    def _has_condition(self, key: str) -> bool:
        """Whether a pod has the condition that it is not scheduled, for any reason but a scheduling gate."""
        pod = self._context.store.pods.get(key)
        condition = None if pod is None else statuses.pod_condition(pod, "PodScheduled")
        return condition is not None and condition.status == "False" and condition.reason != "SchedulingGated"

    def _forget_deleted(self) -> None:
        groups = self._context.store.groups
        self._explains = {job: explain for job, explain in self._explains.items() if job in groups}
        self._written = {job: last for job, last in self._written.items() if job in groups}

    async def _write(self, job: str) -> None:
        if job in self._running:  # a job with very many pods
            self._put(job, _settle(self._context, self._timing))
            return
        self._running.add(job)
        try:
            await self._write_explanation(job)
        finally:
            self._running.remove(job)

    async def _write_explanation(self, job: str) -> None:
        context = self._context
        explain, group = self._explains.get(job), context.store.groups.get(job)
        if explain is None:
            return
        waiting = [pod for pod in explain.pods if context.store.waits(pod)]
        if group is None and waiting:
            await self._write_pods(explain, waiting, explain.pods, grouped=False)
            return
        if group is None or not (waiting or _waits(context.store.expected_group(job) or group.status)):
            # It was scheduled or deleted: when it is pending again, it gets a new event.
            self._explains.pop(job, None)
            self._written.pop(job, None)
            return
        now = asyncio.get_running_loop().time()
        last = self._written.get(job)
        fresh = last is None or last.uid != group.metadata.uid
        # Compared as it is set: a difference may be rounded to less than the delay, and would be due again at once.
        repeat = last is not None and now >= last.at + self._timing.repeat_delay
        if fresh or repeat:
            if last is None or fresh or last.message != explain.message:
                context.record_event(group, "Warning", statuses.UNSCHEDULABLE, explain.message)
            self._written[job] = _LastMessage(group.metadata.uid, explain.message, now)
        elif last is not None:
            # Only pods without the condition are written now, the others with the next repetition.
            if last.message != explain.message:
                self._put(job, last.at + self._timing.repeat_delay - now)
            waiting = [pod for pod in waiting if not self._has_condition(pod)]
        await self._write_pods(explain, waiting, _with_condition(explain), grouped=True)

    async def _write_pods(
        self, explain: Explain, waiting: Sequence[str], texts: Mapping[str, str], *, grouped: bool
    ) -> None:
        """Write the conditions of pods, a few at a time: explanations of other jobs are written between them."""
        reason, admitted = statuses.reason_of(explain), explain.gate in _AFTER_QUEUE
        pods = [pod for pod in waiting if pod in texts]
        for start in range(0, len(pods), _PODS_AT_ONCE):
            batch = pods[start : start + _PODS_AT_ONCE]
            await asyncio.gather(
                *(self._write_pod(pod, reason, texts[pod], admitted, grouped=grouped) for pod in batch)
            )

    async def _write_pod(self, key: str, reason: str, message: str, admitted: bool, *, grouped: bool) -> None:
        """Write the condition of a pod; one with the gate of queues has it until its queue admits the pod.

        A pod whose PodGroup does not exist gets an event as well: there is no group that could have it.
        """
        context = self._context
        async with context.locks.lock(("Pod", key)), context.write_slots.slot(namespace_of(key)):
            pod = context.store.pods.get(key)
            if pod is None or not context.store.waits(key):
                return
            patch = statuses.unscheduled_patch(pod, reason, message, context.now())
            waits_for_queue = has_queue_gate(pod)
            if patch is None or (waits_for_queue and not admitted):
                return
            if context.pod_events or not grouped:
                context.record_event(pod, "Warning", "FailedScheduling", message)
            try:
                if waits_for_queue:
                    await context.remove_queue_gate(pod)
                await context.patch_pod(key, patch)
            except KubeError as fault:
                log.warning("pod condition not written", pod=key, error=describe(fault))


_AFTER_QUEUE = frozenset({Gate.TOPOLOGY, Gate.NODES})
"""Gates of jobs that their queues have admitted: they wait for nodes."""


def _with_condition(explain: Explain) -> Mapping[str, str]:
    """Return the pods that get a condition, with their messages."""
    return {} if explain.gate == Gate.GANG else explain.pods


def _waits(status: core.PodGroupStatus) -> bool:
    """Whether a group without pending pods is pending: not admitted, or without pods."""
    return status.phase in {"", "Pending"} or statuses.unschedulable(status) is not None
