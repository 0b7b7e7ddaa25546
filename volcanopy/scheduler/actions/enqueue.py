"""enqueue: admit waiting jobs, so that their pods are made.

A job may be refused only because the cluster has no room left. Where the actions take room back, that must not be the
last word: they look at admitted jobs only, so a job that could have its room taken back is admitted all the same.
"""

import heapq
from collections.abc import Mapping
from typing import Any, ClassVar

from volcanopy.scheduler.plugin import Denial
from volcanopy.scheduler.resources import Resources
from volcanopy.scheduler.session import Session
from volcanopy.scheduler.views import JobView, QueueView


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
        while queues:
            _, queue = heapq.heappop(queues)
            line = lines[queue.row]
            _, job = heapq.heappop(line)
            _admit(session, job)
            if line:
                heapq.heappush(queues, (session.queue_key(queue), queue))


def _admit(session: Session, job: JobView) -> None:
    if not job.queue.is_open:
        session.refuse(job, Denial("queue", f"queue {job.queue.name} is closed: it takes no new jobs"))
        return
    least = job.min_resources
    if least is not None:
        vote = session.hooks.job_enqueueable(job)
        if vote.value < 0 and not (vote.yields and _can_take_room(session, job, least)):
            session.refuse(job, Denial(vote.gate, vote.reason))
            return
    session.enqueue(job)


def _can_take_room(session: Session, job: JobView, least: Resources) -> bool:
    """Whether the job's minimum could be had from other queues, or from less important jobs of its own."""
    actions, queue = session.config.actions, job.queue
    if "reclaim" in actions or "gangreclaim" in actions:
        claim = queue.allocated + queue.inqueue + least
        if session.hooks.entitled(queue, claim):
            return True
    if "preempt" in actions or "gangpreempt" in actions:
        return (queue.inqueue + least).fits_in(_held_by_lesser(session, job))
    return False


def _held_by_lesser(session: Session, job: JobView) -> Resources:
    """What jobs of lower priority hold in the job's queue."""
    jobs = session.snapshot.jobs
    lesser = (jobs.queue == job.queue.row) & (jobs.priority < job.priority)
    return Resources(session.snapshot.axis, session.ledger.job_allocated[:, lesser].sum(axis=1))
