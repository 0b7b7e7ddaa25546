"""enqueue: admit waiting jobs, so that their pods are made."""

import heapq
from collections.abc import Mapping
from typing import Any, ClassVar

from volcanopy.scheduler.plugin import Denial
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
            self._admit(session, job)
            if line:
                heapq.heappush(queues, (session.queue_key(queue), queue))

    @staticmethod
    def _admit(session: Session, job: JobView) -> None:
        if not job.queue.is_open:
            session.refuse(job, Denial("queue", f"queue {job.queue.name} is closed: it takes no new jobs"))
            return
        if job.min_resources is not None:
            vote = session.hooks.job_enqueueable(job)
            if vote.value < 0:
                session.refuse(job, Denial(vote.gate, vote.reason))
                return
        session.enqueue(job)
