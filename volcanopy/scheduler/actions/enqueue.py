"""enqueue: admit waiting jobs, so that their pods are made.

A job may be refused only because the cluster has no room left. Where the actions take room back, that must not be the
last word: they look at admitted jobs only, so a job that could have its room taken back is admitted all the same.
"""

import heapq
import operator
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from volcanopy.scheduler.fairshare.queue_demand import outstanding
from volcanopy.scheduler.framework.plugin import Rejection
from volcanopy.scheduler.ledger.views import JobView, QueueView
from volcanopy.scheduler.model.messages import Words, closed
from volcanopy.scheduler.model.resources import Ints, Resources
from volcanopy.scheduler.session.session import Session


class Enqueue:
    """Move pod groups from Pending to Inqueue, queue by queue in order, where no plugin objects."""

    name: ClassVar[str] = "enqueue"
    arguments: ClassVar[tuple[str, ...]] = ()

    def __call__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Admit what may be admitted."""
        lines: dict[int, list[tuple[Any, JobView]]] = {}
        for job in session.waiting_jobs():
            if job.phase == "Pending":
                lines.setdefault(job.queue.row, []).append((session.job_key(job), job))
        queues: list[tuple[Any, QueueView]] = []
        for row, line in lines.items():
            heapq.heapify(line)
            queue = session.cluster.queue(row)
            queues.append((session.queue_key(queue), queue))
        heapq.heapify(queues)
        prospects = _Prospects(session)
        while queues:
            _, queue = heapq.heappop(queues)
            line = lines[queue.row]
            _, job = heapq.heappop(line)
            held_up = not _admit(session, job, prospects) and not session.holds_up_nobody(job)
            if held_up and queue.in_turn and queue.is_open:
                message, first = f"queue {queue.name} serves in turn: {job.key} comes first", f"job {job.key}"
                turn = Words(message, {"queue": queue.name}, {}, f"{first} must be admitted", (first,))
                for _, other in sorted(line, key=operator.itemgetter(0)):
                    session.refuse(other, Rejection("queue", turn))
                continue
            if line:
                heapq.heappush(queues, (session.queue_key(queue), queue))


def _admit(session: Session, job: JobView, prospects: "_Prospects") -> bool:
    if not job.queue.is_open:
        session.refuse(job, Rejection("queue", closed(job.queue.name, ": it takes no new jobs")))
        return False
    least = job.min_resources
    if least is not None:
        vote = session.hooks.job_enqueueable(job)
        if vote.value < 0 and not (vote.yields and prospects.are_good(job, least)):
            session.refuse(job, Rejection(vote.gate, vote.reason))
            return False
    denial = None if session.limits is None else session.limits.inadmissible(job)
    if denial is not None:
        session.refuse(job, denial)
        return False
    session.enqueue(job)
    return True


class _Prospects:
    """Whether jobs for which there is no free room can have it nevertheless; what all of them ask about is reckoned once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lesser: dict[tuple[int, int], Resources] = {}

    def are_good(self, job: JobView, least: Resources) -> bool:
        """Whether room is kept for the job, or its minimum could be had from other queues or less important jobs of its own."""
        session, actions, queue = self._session, self._session.config.actions, job.queue
        if session.hooks.reservation(job) is not None:
            return True
        asked = queue.inqueue + Resources(least.axis, self._on_the_way[:, queue.row]) + least
        takes_back = "reclaim" in actions or "gangreclaim" in actions
        if takes_back and session.hooks.within_deserved(queue, queue.allocated + asked):
            return True
        displaces = "preempt" in actions or "gangpreempt" in actions
        return displaces and asked.fits_in(self._held_by_lesser(job) + self._idle)

    @cached_property
    def _on_the_way(self) -> Ints:
        return outstanding(self._session.cluster)

    @cached_property
    def _idle(self) -> Resources:
        """What is free on all nodes together."""
        return Resources(self._session.snapshot.axis, np.maximum(self._session.ledger.idle.sum(axis=1), 0))

    def _held_by_lesser(self, job: JobView) -> Resources:
        """What jobs of lower priority hold in the job's queue."""
        key = (job.queue.row, job.priority)
        if key not in self._lesser:
            jobs = self._session.snapshot.jobs
            lesser = (jobs.queue == key[0]) & (jobs.priority < key[1])
            held = self._session.ledger.job_allocated[:, lesser].sum(axis=1)
            self._lesser[key] = Resources(self._session.snapshot.axis, held)
        return self._lesser[key]
