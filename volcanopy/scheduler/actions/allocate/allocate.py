"""allocate: place the pending tasks of admitted jobs, a gang at once or not at all.

1. Place nominated tasks, then the lost members of running gangs (:mod:`~volcanopy.scheduler.actions.allocate.running_gangs`).
2. Sort the valid jobs with pending tasks by queue (:mod:`.job_queues`).
3. Take the first queue; an overused queue is left out, its jobs are rejected.
4. Take the first job of the queue and place its tasks in order until the job is ready: each run of equal tasks on the best
   nodes, as many as the queue may allocate. Jobs with sub-groups or a network topology search by hypernode
   (:mod:`.topology_search`).
5. Commit a ready job. Reserve the placements of a job that waits for resources being freed. Otherwise roll back and try
   other orders of the tasks (:mod:`.gang_repack`). A job that is not placed is recorded with its rejection or fit error,
   and in a FIFO queue blocks the jobs behind it.
6. Put the job (while it has tasks left) and the queue back with new sort keys, so that jobs which are not ready come before
   further tasks of this one; go on with 3 until no job is left.
7. Repeat 3 to 6 beyond fair shares for the jobs that only these rejected: they get what no queue below its share can use.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from volcanopy.api.gates import Gate
from volcanopy.scheduler.actions.allocate.job_placement import place_job
from volcanopy.scheduler.actions.allocate.job_queues import Entry, JobQueue, PendingJob, job_queues, run_ends
from volcanopy.scheduler.actions.allocate.running_gangs import RunningGangs, place_first
from volcanopy.scheduler.engine.queue_order import QueueOrder
from volcanopy.scheduler.engine.rejections import Recorded
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.ledger.views import QueueView
from volcanopy.scheduler.model.messages import QuotaMessage, blocked_by_head
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import NoArguments, Rejection
from volcanopy.scheduler.policy.registry import action


@action("allocate")
def allocate(session: Session, _: NoArguments) -> None:
    """Place tasks on idle resources or on resources that are being freed."""
    place_first(session)
    if not len(session.unsettled_jobs()):
        return
    with session.quotas.within_shares():
        rest = _place(session, job_queues(session))
    if rest:
        _place(session, _beyond_shares(session, rest), beyond_shares=True)


def _place(
    session: Session, waiting: Mapping[int, JobQueue[PendingJob]], beyond_shares: bool = False
) -> list[PendingJob]:
    """Place the jobs of these queues; return those that are rejected by fair shares only."""
    by_share: list[PendingJob] = []
    if not waiting:
        return by_share
    place = partial(_place_beyond_shares if beyond_shares else place_job, session)
    tried = session.state(RunningGangs).broken
    queues = QueueOrder(session, waiting, session.queue_key)
    while queues:
        queue = queues.first()
        jobs = waiting[queue.row]
        rejection = None if beyond_shares else session.hooks.queue_verdict(queue)
        if rejection is not None:
            for _, pending in jobs:
                if pending.job.row not in tried:
                    session.reject(pending.job, rejection)
                    by_share.append(pending)
            queues.settle(stays=False)
            continue
        pending = jobs.pop()
        is_last, tasks = not jobs and len(queues) == 1, pending.tasks
        placed = pending.job.row not in tried and place(queue, pending, is_last)
        again = placed and bool(pending.left)
        rejected = not beyond_shares and not again and pending.job.row in session.quotas.rejected_by_share
        if rejected:
            pending.tasks = tasks
            by_share.append(pending)
        if not placed and jobs and queue.in_turn and session.blocks_queue(pending.job):
            reason = blocked_by_head(queue.name, pending.job.key)
            for _, other in jobs:
                if rejected:
                    by_share.append(other)
                else:
                    session.reject(other.job, Rejection(Gate.QUEUE, reason))
            queues.settle(stays=False)
            continue
        if again:
            jobs.push(session.job_key(pending.job), pending)
        queues.settle(stays=bool(jobs))
    return by_share


def _beyond_shares(session: Session, jobs: list[PendingJob]) -> dict[int, JobQueue[PendingJob]]:
    """Return these jobs by queue with their tasks that are still pending."""
    entries: dict[int, list[Entry[PendingJob]]] = {}
    status = session.ledger.status
    for pending in jobs:
        tasks = [task for task in pending.tasks if status[task] == Status.PENDING]
        if tasks:
            if not session.snapshot.jobs.structured[pending.job.row]:
                pending.ends = run_ends(session, np.array(tasks, dtype=np.intp))
            pending.tasks, pending.at = tasks, 0
            entries.setdefault(pending.job.queue.row, []).append((session.job_key(pending.job), pending))
    return {queue: JobQueue(jobs) for queue, jobs in entries.items()}


def _place_beyond_shares(session: Session, queue: QueueView, pending: PendingJob, is_last: bool) -> bool:
    """Place a job as :func:`place_job` does, beyond fair shares.

    One that gets nothing keeps the reason that it had before, unless another gate than free resources rejects it: that one
    would reject it with a larger share too. A queue without a share is always beyond it, which is no reason.
    """
    rejections, row = session.rejections, pending.job.row
    before = rejections.begin_retry(row)
    placed = place_job(session, queue, pending, is_last)
    if placed:
        rejections.end_retry(row)
    else:
        fallback = None if row in rejections.reasons and _is_without_share(before) else before
        rejections.record(row, rejections.beside_shares(row) or fallback)
    return placed


def _is_without_share(reason: Recorded | None) -> bool:
    """Return whether a job was rejected by a fair share that is 0 for all that it lacks."""
    message = reason.rejection.reason if reason is not None and reason.rejection is not None else None
    return isinstance(message, QuotaMessage) and not any(message.limit[place] > 0 for place in message.short)
