"""Statuses and reasons: what a plan says about pod groups, queues and waiting pods, written sparingly.

A change of phase is written at once: others act on it. Counts and sentences wait a little, since they change again
within the second; what is newest when the time comes is written, and nothing if it is what the server has already. That a
group or a pod cannot be scheduled is told only after a grace time, so that those which get room soon never hear of it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.kube.apply.pod_writer import WriterContext
from volcanopy.kube.cache import statuses
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, QUEUES
from volcanopy.kube.client.errors import KubeError, NotFound, describe
from volcanopy.scheduler.model.plan import Explain

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timing:
    """How long writes wait, in seconds."""

    settle: float = 1.0
    """Counts, and the first word that something cannot be scheduled."""
    message_delay: float = 5.0
    """Another sentence in a pod group's condition that stands already."""
    repeat_delay: float = 30.0
    """Another sentence on pods that have been told one, and another event."""


class PodGroupStatusWriter:
    """Writes what the store expects of pod groups' statuses, and why those wait that do.

    A group that says it cannot be scheduled explains it in the same write. Other words for a sentence that stays as it is
    (what would unblock it, whom it comes after) are written seldom, other numbers only beside something else: they change
    with every pod that comes or goes.
    """

    def __init__(self, means: WriterContext, timing: Timing) -> None:
        self._means, self._timing = means, timing
        self._why: dict[str, Explain] = {}
        """Why groups wait, as it was found out last."""
        self._since: dict[str, float] = {}
        """Since when a group is to be called unschedulable that is not yet."""

    def enqueue(self, key: str) -> asyncio.Task[None] | None:
        """See that the expected status gets written: the task that does it, or None if it waits."""
        group, wanted = self._means.store.groups.get(key), self._means.store.expected_group(key)
        if group is None or wanted is None:
            return None
        delayed = self._means.delayed
        news = statuses.unschedulable(wanted) is not None and statuses.unschedulable(group.status) is None
        if news:
            self._since.setdefault(key, asyncio.get_running_loop().time())
        else:
            self._since.pop(key, None)
        if wanted.phase != group.status.phase:
            return delayed.now(("PodGroup", key), partial(self._write, key, at_once=True))
        only_words = (
            not news and _counts(wanted) == _counts(group.status) and statuses.unschedulable(wanted) is not None
        )
        self._put(key, self._timing.message_delay if only_words else self._timing.settle)
        return None

    def explain(self, explain: Explain) -> None:
        """See that the group tells why it waits, and that other words for it get written if they are others still then."""
        key, known = explain.job, self._why.get(explain.job)
        self._why[key] = explain
        if known is not None and _words(known) == _words(explain):
            return
        group = self._means.store.groups.get(key)
        if group is None:
            del self._why[key]
        elif statuses.unschedulable(group.status) is not None and not statuses.same_text(
            group.status.explanation, statuses.explanation(explain)
        ):
            self._put(key, self._timing.repeat_delay)
        groups = self._means.store.groups
        if len(self._why) > 2 * len(groups) + 256:
            self._why = {one: why for one, why in self._why.items() if one in groups}

    def _put(self, key: str, delay: float) -> None:
        self._means.delayed.put(("PodGroup", key), delay, partial(self._write, key))

    async def _write(self, key: str, at_once: bool = False) -> None:
        means, timing = self._means, self._timing
        async with means.locks.lock(("PodGroup", key)), means.write_slots:
            group = means.store.groups.get(key)
            if group is None:
                self._since.pop(key, None)
                self._why.pop(key, None)
                return
            wanted = means.store.expected_group(key)
            if wanted is None:
                self._since.pop(key, None)
                wanted = group.status
            if at_once and wanted.phase == group.status.phase:
                self._put(key, timing.settle)  # the write before this one has brought the phase
                return
            status, early = wanted, 0.0
            if key in self._since:
                early = self._since[key] + timing.settle - asyncio.get_running_loop().time()
                if early > 0 and not means.delayed.flushing:
                    status = replace(wanted, conditions=group.status.conditions)
                else:
                    del self._since[key]
            if not await self._send(key, group, self._explained(key, status, group.status)):
                means.store.settle_group(key, wanted)
            elif status is not wanted:
                self._put(key, early)
            else:
                means.store.settle_group(key, wanted)

    def _explained(self, key: str, status: core.PodGroupStatus, before: core.PodGroupStatus) -> core.PodGroupStatus:
        """The status with why the group waits, if it does; with what it says already, if only the numbers are others."""
        said, old, explain = statuses.unschedulable(status), before.explanation, self._why.get(key)
        fresh = None if explain is None else statuses.explanation(explain)
        if said is None:
            if key not in self._since:
                self._why.pop(key, None)
            return replace(status, explanation=None)
        if fresh is None or fresh.message != said.message:
            return replace(status, explanation=old if old is not None and old.message == said.message else None)
        same = replace(status, explanation=old)
        return same if same == before and statuses.same_text(old, fresh) else replace(status, explanation=fresh)

    async def _send(self, key: str, group: core.PodGroup, status: core.PodGroupStatus) -> bool:
        """Write what differs; False if that failed for good."""
        patch = statuses.status_patch(group.status, status)
        if not patch:
            return True
        meta = group.metadata
        body = {"metadata": {"uid": meta.uid}, "status": patch}
        try:
            answer = await self._means.client.patch_status(POD_GROUPS, meta.namespace, meta.name, body)
        except NotFound:
            return False
        except KubeError as fault:
            log.warning("podgroup %s: its status cannot be written: %s", key, describe(fault))
            return False
        self._means.store.apply_response(answer)
        if _scheduled(status) and not _scheduled(group.status):
            self._means.tell(group, "Normal", "Scheduled", "pod group is ready")
        return True


def _words(explain: Explain) -> tuple[object, ...]:
    return explain.gate, explain.message, explain.unblock, explain.ahead


def _counts(status: core.PodGroupStatus) -> tuple[int, int, int]:
    return status.running, status.succeeded, status.failed


def _scheduled(status: core.PodGroupStatus) -> bool:
    return any(one.type == "Scheduled" and one.status == "True" for one in status.conditions)


_SPREAD = 0.02
"""Seconds that the writing of a queue's status waits for each queue that there is, where it is in no hurry."""


class QueueStatusWriter:
    """Writes what the store expects of queues' statuses."""

    def __init__(self, means: WriterContext, timing: Timing) -> None:
        self._means, self._timing = means, timing

    def enqueue(self, name: str) -> None:
        """See that the expected status gets written.

        What follows for a queue from the doings of others (its share of a cluster in which somebody else asks for more)
        changes for all queues at once: that is written later, and the later the more queues there are.
        """
        store, delay = self._means.store, self._timing.settle
        queue, wanted = store.queues.get(name), store.expected_queue(name)
        if queue is not None and wanted is not None and wanted.allocated == queue.status.allocated:
            delay = max(self._timing.message_delay, _SPREAD * len(store.queues))
        self._means.delayed.put(("Queue", name), delay, partial(self._write, name))

    async def _write(self, name: str) -> None:
        means = self._means
        async with means.locks.lock(("Queue", name)), means.write_slots:
            queue, wanted = means.store.queues.get(name), means.store.expected_queue(name)
            if queue is None or wanted is None:
                return
            # Its state may have been set since this was decided: that is not ours to take back.
            status = replace(wanted, state=queue.status.state or wanted.state)
            patch = statuses.status_patch(queue.status, status)
            if patch:
                body = {"metadata": {"uid": queue.metadata.uid}, "status": patch}
                try:
                    answer = await means.client.patch_status(QUEUES, None, name, body)
                except KubeError as fault:
                    if not isinstance(fault, NotFound):
                        log.warning("queue %s: its status cannot be written: %s", name, describe(fault))
                else:
                    means.store.apply_response(answer)
            means.store.settle_queue(name, wanted)


class _Told(NamedTuple):
    """What was last said of a job, and when (the loop's seconds)."""

    uid: str
    message: str
    at: float


class ExplanationWriter:
    """Tells the owners of waiting pods and groups why they wait."""

    def __init__(self, means: WriterContext, timing: Timing) -> None:
        self._means, self._timing = means, timing
        self._wanted: dict[str, Explain] = {}
        self._told: dict[str, _Told] = {}

    def enqueue(self, explain: Explain) -> None:
        """See that this gets told, unless it has been, or the pods get room soon."""
        job, known = explain.job, self._wanted.get(explain.job)
        if known is not None and (known.gate, known.message, known.pods) == (
            explain.gate,
            explain.message,
            explain.pods,
        ):
            return
        self._wanted[job] = explain
        told = self._told.get(job)
        untold = told is None or any(not self._knows(pod) for pod in explain.pods)
        self._put(job, self._timing.settle if untold else self._timing.repeat_delay)
        if len(self._wanted) > 2 * len(self._means.store.groups) + 256:
            self._forget_the_gone()

    def _put(self, job: str, delay: float) -> None:
        self._means.delayed.put(("Explain", job), delay, partial(self._tell, job))

    def _knows(self, key: str) -> bool:
        """Whether a pod says that it is not scheduled, for whatever reason."""
        pod = self._means.store.pods.get(key)
        said = None if pod is None else statuses.pod_condition(pod, "PodScheduled")
        return said is not None and said.status == "False"

    def _forget_the_gone(self) -> None:
        groups = self._means.store.groups
        self._wanted = {job: explain for job, explain in self._wanted.items() if job in groups}
        self._told = {job: told for job, told in self._told.items() if job in groups}

    async def _tell(self, job: str) -> None:
        means = self._means
        explain, group = self._wanted.get(job), means.store.groups.get(job)
        if explain is None:
            return
        waiting = [pod for pod in explain.pods if means.store.waits(pod)]
        if group is None or not (waiting or _waits(means.store.expected_group(job) or group.status)):
            # It got room, or is gone: when it waits again, that is news again.
            self._wanted.pop(job, None)
            self._told.pop(job, None)
            return
        now = asyncio.get_running_loop().time()
        told = self._told.get(job)
        fresh = told is None or told.uid != group.metadata.uid
        again = told is not None and now - told.at >= self._timing.repeat_delay
        if fresh or again:
            if told is None or fresh or told.message != explain.message:
                means.tell(group, "Warning", statuses.UNSCHEDULABLE, explain.message)
            self._told[job] = _Told(group.metadata.uid, explain.message, now)
        elif told is not None:
            # Only those who have not heard anything yet are told now, the others with the next round.
            if told.message != explain.message:
                self._put(job, told.at + self._timing.repeat_delay - now)
            waiting = [pod for pod in waiting if not self._knows(pod)]
        reason = statuses.reason_of(explain)
        await asyncio.gather(*(self._tell_pod(pod, reason, explain.pods[pod]) for pod in waiting))

    async def _tell_pod(self, key: str, reason: str, message: str) -> None:
        means = self._means
        async with means.locks.lock(("Pod", key)), means.write_slots:
            pod = means.store.pods.get(key)
            if pod is None or not means.store.waits(key):
                return
            patch = statuses.unscheduled_patch(pod, reason, message, means.now())
            if patch is None:
                return
            means.tell(pod, "Warning", "FailedScheduling", message)
            try:
                await means.patch_pod(key, patch)
            except KubeError as fault:
                log.warning("pod %s: why it waits cannot be written: %s", key, describe(fault))


def _waits(status: core.PodGroupStatus) -> bool:
    """Whether a group without waiting pods waits nevertheless: it has not been admitted, or nobody has made its pods."""
    return status.phase in {"", "Pending"} or statuses.unschedulable(status) is not None
