"""enqueue: admit waiting jobs, so that their pods are created.

1. Take the first queue: by its share, with what admitted jobs still lack counted as allocated.
2. Admit its first job, unless a plugin or a limit rejects it; then compare the queues again. A job with alternatives is
   considered with the one with which it is expected to finish first.

A rejection for lack of free resources only (``Vote.yields``) is not final. A job is admitted all the same if it has a
reservation, if its queue stays within its fair share, or if ``preempt`` could free its minimal resources: others that were
admitted before do not keep it out.
"""

import heapq
import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from volcanopy.api.core import Alternative
from volcanopy.api.gates import Gate
from volcanopy.scheduler.fairshare.queue_demand import lacking, outstanding
from volcanopy.scheduler.framework.plugin import PERMIT, Rejection, Vote
from volcanopy.scheduler.ledger.views import JobView, QueueView
from volcanopy.scheduler.model.messages import blocked_by_head, closed
from volcanopy.scheduler.model.resources import Ints, Resources
from volcanopy.scheduler.session.session import Session


class Enqueue:
    """Move pod groups from Pending to Inqueue, queue by queue in order, where no plugin and no limit rejects them."""

    name: ClassVar[str] = "enqueue"
    arguments: ClassVar[tuple[str, ...]] = ()

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Admit one job of the first queue at a time; after a rejection a FIFO queue admits no further job."""
        waiting: dict[int, list[tuple[Any, JobView]]] = {}
        rows = session.unadmitted()
        if not len(rows):
            return
        queues_of = session.snapshot.jobs.queue[rows].tolist()
        job_keys = session.keys_of(rows) if len(rows) > 1 else [()] * len(rows)  # a single one needs no order
        for row, queue_row, job_key in zip(rows.tolist(), queues_of, job_keys, strict=True):
            waiting.setdefault(queue_row, []).append((job_key, session.cluster.job(row)))
        keys = _Keys(session)
        for jobs in waiting.values():
            heapq.heapify(jobs)
        single = len(waiting) == 1
        queues = [(() if single else keys.of(queue), queue) for queue in map(session.cluster.queue, waiting)]
        heapq.heapify(queues)
        precedence = _Precedence(session)
        moldable = any(session.alternatives.of(job) for jobs in waiting.values() for _, job in jobs)
        while queues:
            _, queue = heapq.heappop(queues)
            if queues and (key := keys.of(queue)) > queues[0][0]:
                heapq.heappush(queues, (key, queue))  # jobs admitted to other queues of the tree changed its key
                continue
            jobs = waiting[queue.row]
            _, job = heapq.heappop(jobs)
            is_admitted = _admit(session, job, precedence)
            if moldable and (is_admitted or session.alternatives.starts_before(session.rejections.by_job[job.row])):
                session.alternatives.add_before(job)
            keys.admitted += is_admitted
            blocks = not is_admitted and not session.has_submitter_limit(job)
            if blocks and queue.in_turn and queue.is_open:
                reason = blocked_by_head(queue.name, job.key)
                for _, other in sorted(jobs, key=operator.itemgetter(0)):
                    session.reject(other, Rejection(Gate.QUEUE, reason))
                continue
            if jobs:
                heapq.heappush(queues, (() if single else keys.of(queue), queue))


class _Keys:
    """The sort keys of queues, which change only when a job is admitted."""

    def __init__(self, session: Session) -> None:
        self.admitted = 0
        self._session = session
        self._known: dict[int, tuple[int, Any]] = {}

    def of(self, queue: QueueView) -> Any:
        """Return the current key of a queue."""
        admitted, key = self._known.get(queue.row, (-1, None))
        if admitted != self.admitted:
            key = self._session.admission_key(queue)
            self._known[queue.row] = (self.admitted, key)
        return key


def _admit(session: Session, job: JobView, precedence: "_Precedence") -> bool:
    if not job.queue.is_open:
        session.reject(job, Rejection(Gate.QUEUE, closed(job.queue.name)))
        return False
    alternatives = session.alternatives.of(job)
    if alternatives:
        rejection = _consider(session, job, alternatives, precedence)
    else:
        vote = PERMIT if job.min_resources is None else session.hooks.job_enqueueable(job)
        rejection = _rejection(session, job, vote, precedence)
    if rejection is not None:
        session.reject(job, rejection)
        return False
    session.enqueue(job)
    return True


def _consider(
    session: Session, job: JobView, alternatives: Sequence[Alternative], precedence: "_Precedence"
) -> Rejection | None:
    """Select the alternative with which the job finishes first; return why it is not admitted with it, if so."""
    limits: list[tuple[Alternative, Rejection | None]] = []
    rejections: list[Rejection | None] = []
    for alternative in alternatives:
        session.ledger.consider(job.row, alternative)
        vote = session.hooks.job_enqueueable(job)
        rejections.append(_rejection(session, job, vote, precedence))
        # A job that is admitted although resources are insufficient starts when they are free.
        limits.append((alternative, rejections[-1] or (Rejection(vote.gate, vote.reason) if vote.value < 0 else None)))
    selected = session.alternatives.first_to_finish(job, limits)
    session.ledger.consider(job.row, selected)
    return rejections[alternatives.index(selected)]


def _rejection(session: Session, job: JobView, vote: Vote, precedence: "_Precedence") -> Rejection | None:
    minimum = job.min_resources
    if minimum is not None and vote.value < 0 and not (vote.yields and precedence.of(job, minimum, vote)):
        return Rejection(vote.gate, vote.reason)
    return None if session.limits is None else session.limits.rejects_admission(job)


class _Precedence:
    """Which jobs are admitted although resources are insufficient; amounts common to several jobs are computed once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lower: dict[tuple[int, int], Resources] = {}
        self._claimed: dict[int, tuple[int, Resources]] = {}
        self._within_share: dict[tuple[int, bytes], bool] = {}
        """By queue and what is claimed in it together."""

    def of(self, job: JobView, minimum: Resources, vote: Vote) -> bool:
        """Return whether the job has a reservation, is within the share of its queue, or could preempt in it."""
        session, actions, queue = self._session, self._session.config.actions, job.queue
        if session.hooks.reservation(job) is not None:
            return True
        requested = self._claimed_by(queue) + minimum
        claim = queue.allocated + requested
        key = queue.row, claim.values.tobytes()
        if key not in self._within_share:
            self._within_share[key] = session.hooks.within_fair_share(queue, claim)
        if self._within_share[key]:
            return True
        if "preempt" not in actions and "gangpreempt" not in actions:
            return False
        lower = self._lower_priority_allocated(job)
        return requested.fits_in(lower + self._idle if vote.gate == Gate.OVERCOMMIT else lower)

    def _claimed_by(self, queue: QueueView) -> Resources:
        """Return what the jobs claim that were admitted to a queue, in this session or before."""
        admissions = self._session.ledger.admissions
        known = self._claimed.get(queue.row)
        if known is None or known[0] != admissions:
            inqueue = queue.inqueue
            claimed = inqueue + Resources(inqueue.axis, self._lacking[:, queue.row])
            known = self._claimed[queue.row] = (admissions, claimed)
        return known[1]

    @cached_property
    def _lacking(self) -> Ints:
        """(R, Q): what admitted jobs lack; where pods can be reclaimed, without those for which that was tried without effect."""
        actions, cluster = self._session.config.actions, self._session.cluster
        return outstanding(cluster) if {"reclaim", "gangreclaim"} & set(actions) else lacking(cluster)

    @cached_property
    def _idle(self) -> Resources:
        """The idle resources of all nodes together."""
        return Resources(self._session.snapshot.axis, np.maximum(self._session.ledger.idle.sum(axis=1), 0))

    def _lower_priority_allocated(self, job: JobView) -> Resources:
        """Return the amounts allocated to jobs of lower priority in the job's queue."""
        key = (job.queue.row, job.priority)
        if key not in self._lower:
            jobs = self._session.snapshot.jobs
            lower = (jobs.queue == key[0]) & (jobs.priority < key[1])
            allocated = self._session.ledger.job_allocated[:, lower].sum(axis=1)
            self._lower[key] = Resources(self._session.snapshot.axis, allocated)
        return self._lower[key]
