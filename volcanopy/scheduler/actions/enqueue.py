"""enqueue: admit waiting jobs, so that their pods are created.

1. Take the first queue: by its share, with what admitted jobs still lack counted as allocated.
2. Admit its first job, unless a plugin or a limit rejects it; then compare the queues again. A job with alternatives is
   considered with the one with which it is expected to finish first.
3. If it is rejected, admitted jobs of lower priority that have no pods on nodes give way (:mod:`.withdrawal`).

A rejection for lack of free resources only (``Vote.yields``) is not final. A job is admitted all the same if it has a
reservation, if its queue stays within its fair share, or if ``preempt`` could free its minimal resources: others that were
admitted before do not keep it out.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from volcanopy.api.core import PodGroupAlternative
from volcanopy.api.gates import Gate
from volcanopy.scheduler.actions.allocate.job_queues import Entry, JobQueue
from volcanopy.scheduler.actions.withdrawal import Withdrawal
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.queue_order import QueueOrder
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.shares.queue_demand import lacking, outstanding
from volcanopy.scheduler.ledger.views import JobView, QueueView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import blocked_by_head, closed
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Ints, Resources
from volcanopy.scheduler.policy.plugin import PERMIT, NoArguments, Rejection, Vote
from volcanopy.scheduler.policy.registry import action
from volcanopy.scheduler.policy.roles import Moment


@action("enqueue")
def enqueue(session: Session, _: NoArguments) -> None:
    """Move pod groups from Pending to Inqueue, queue by queue in order, where no plugin and no limit rejects them."""
    withdrawal = Withdrawal(session)
    withdrawal.withdraw_excess()
    rows = session.unadmitted()
    if not len(rows):
        return
    entries: dict[int, list[Entry[JobView]]] = {}
    job_keys = session.keys_of(rows) if len(rows) > 1 else [()] * len(rows)  # a single one needs no order
    for row, queue, key in zip(rows.tolist(), session.snapshot.jobs.queue[rows].tolist(), job_keys, strict=True):
        entries.setdefault(queue, []).append((key, session.cluster.job(row)))
    admission = _Admission(session, withdrawal, {queue: JobQueue(jobs) for queue, jobs in entries.items()})
    queues = QueueOrder(session, entries, partial(session.queue_key, admission=True))
    while queues:
        queues.settle(stays=admission.admit_first(queues.first()))


class _Admission:
    """The jobs of each queue that wait for admission."""

    def __init__(self, session: Session, withdrawal: Withdrawal, waiting: Mapping[int, JobQueue[JobView]]) -> None:
        self._session, self._withdrawal, self._waiting = session, withdrawal, waiting
        self._precedence = _Precedence(session)
        self._moldable = any(session.alternatives.of(job) for jobs in waiting.values() for _, job in jobs)
        """Whether any job has alternatives."""

    def admit_first(self, queue: QueueView) -> bool:
        """Admit the first job of a queue that can be; return whether others may be: rejections do not change queue keys."""
        session, jobs = self._session, self._waiting[queue.row]
        while jobs:
            job = jobs.pop()
            is_admitted = self._admit(queue, job)
            if self._moldable and (
                is_admitted or session.alternatives.starts_before(session.rejections.rejection(job.row))
            ):
                session.alternatives.add_before(job)
            if is_admitted:
                return bool(jobs)
            if queue.is_open and queue.in_turn and session.blocks_queue(job):
                reason = blocked_by_head(queue.name, job.key)
                while jobs:
                    session.reject(jobs.pop(), Rejection(Gate.QUEUE, reason))
        return False

    def _admit(self, queue: QueueView, job: JobView) -> bool:
        """Admit a job, or record why not."""
        session = self._session
        if not queue.is_open:
            session.reject(job, Rejection(Gate.QUEUE, closed(queue.name)))
            return False
        rejection = self._rejection(job)
        withdrawn = (
            [] if rejection is None else self._withdrawal.withdraw_for(job, lambda: self._rejection(job) is None)
        )
        if rejection is not None and not withdrawn:
            session.reject(job, rejection)
            return False
        session.enqueue(job)
        self._precedence.withdrawn.update(pending.row for pending in withdrawn)
        for pending in withdrawn:
            self._waiting[queue.row].push(session.job_key(pending), pending)
        return True

    def _rejection(self, job: JobView) -> Rejection | None:
        """Return why a job is not admitted, with the alternative with which it finishes first."""
        alternatives = self._session.alternatives.of(job) if self._moldable else ()
        if not alternatives:
            return self._rejection_as_it_is(job)[0]
        limits: list[tuple[PodGroupAlternative, Rejection | None]] = []
        rejections: list[Rejection | None] = []
        for alternative in alternatives:
            self._session.ledger.consider(job.row, alternative)
            rejection, vote = self._rejection_as_it_is(job)
            rejections.append(rejection)
            # A job that is admitted although resources are insufficient starts when they are free.
            limits.append((alternative, rejection or (Rejection(vote.gate, vote.reason) if vote.value < 0 else None)))
        selected = self._session.alternatives.first_to_finish(job, limits)
        self._session.ledger.consider(job.row, selected)
        return rejections[alternatives.index(selected)]

    def _rejection_as_it_is(self, job: JobView) -> tuple[Rejection | None, Vote]:
        """Return why a job is not admitted with its minimum or the considered alternative; and the vote of the policies."""
        session = self._session
        vote = PERMIT if job.minimum_key is None else session.hooks.verdict(job, Moment.ENQUEUE)
        if vote.value < 0 and not (vote.yields and self._precedence.of(job, vote)):
            return Rejection(vote.gate, vote.reason), vote
        return None if session.limits is None else session.limits.rejects_admission(job), vote


class _Precedence:
    """Which jobs are admitted although resources are insufficient; what is common to several jobs is computed once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._preempts = session.cluster.queries.preempts
        self._known: dict[tuple[int, bytes | None, int, str], bool] = {}
        """By queue, minimum, priority and gate."""
        self.withdrawn: set[int] = set()
        """The jobs whose admission was withdrawn: they have no precedence."""
        self._admissions = 0
        """The number of admissions for which ``_known`` is valid."""

    def of(self, job: JobView, vote: Vote) -> bool:
        """Return whether the job has a reservation, is within the share of its queue, or could preempt in it."""
        if job.row in self.withdrawn:
            return False
        reservations = self._session.reservations
        if reservations is not None and reservations.details(job) is not None:
            return True
        admissions = self._session.ledger.admissions
        if admissions != self._admissions:
            self._admissions = admissions
            self._known.clear()
        queue = int(self._session.snapshot.jobs.queue[job.row])
        key = queue, job.minimum_key, job.priority if self._preempts else 0, vote.gate
        if key not in self._known:
            self._known[key] = self._is_covered(job, vote)
        return self._known[key]

    def _is_covered(self, job: JobView, vote: Vote) -> bool:
        """Return whether the share of the queue, or what could be preempted, covers the job and those admitted before.

        Those for which nothing could be reclaimed keep no others out, but with them they request a multiple of it at most.
        """
        queue, minimum = job.queue, job.min_resources
        if minimum is None:
            return False
        inqueue = queue.inqueue.values  # withdrawn admissions count negatively
        requested = Resources(minimum.axis, np.maximum(inqueue + self._lacking[:, queue.row], 0) + minimum.values)
        least = requested.values // defaults.TRIED_MULTIPLE
        untried = Resources(requested.axis, np.maximum(requested.values - self._tried[:, queue.row], least))
        if self._session.quotas.within_fair_share(queue, queue.allocated + untried):
            return True
        if not self._preempts:
            return False
        lower = self._lower_priority_allocated(queue.row, job.priority)
        return untried.fits_in(lower + self._idle if vote.gate == Gate.OVERCOMMIT else lower)

    @cached_property
    def _lacking(self) -> Ints:
        """(R, Q): what admitted jobs lack."""
        return lacking(self._session.cluster)

    @cached_property
    def _tried(self) -> Ints:
        """(R, Q): the part of it for which pods were to be reclaimed without effect."""
        if not self._session.cluster.queries.reclaims:
            return np.zeros_like(self._lacking)
        return np.maximum(self._lacking - outstanding(self._session.cluster), 0)

    @cached_property
    def _idle(self) -> Resources:
        """The idle resources of all nodes together."""
        return Resources(self._session.snapshot.axis, np.maximum(self._session.ledger.idle.sum(axis=1), 0))

    @once
    def _lower_priority_allocated(self, queue: int, priority: int) -> Resources:
        """Return the amounts allocated to jobs of lower priority in a queue."""
        jobs = self._session.snapshot.jobs
        lower = (jobs.queue == queue) & (jobs.priority < priority)
        return Resources(self._session.snapshot.axis, self._session.ledger.job_allocated[:, lower].sum(axis=1))
