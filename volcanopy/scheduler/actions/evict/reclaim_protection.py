"""Who is spared when room is taken back: jobs that look more important to the taker than its own job does to them.

What each sees of the other is the priority at the place where the lines of their queues meet; see
:mod:`volcanopy.scheduler.ledger.cross_queue_priority`.
"""

from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.ledger.cross_queue_priority import Outlook, outlook
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.session.session import Session


@dataclass(frozen=True, eq=False)
class Seen:
    """The priorities of running jobs as a queue that takes room back sees them."""

    session: Session
    outlook: Outlook

    @classmethod
    def by(cls, session: Session, queue: QueueView) -> "Seen | None":
        """As this queue sees them; None where no queue shows any priorities."""
        found = outlook(session.snapshot.queues, queue.row)
        return None if found is None else cls(session, found)

    def no_higher(self, reclaimer: TaskView, rows: Rows) -> Mask:
        """(M,): which of these tasks of other queues look no more important than the job of the taker."""
        tasks, jobs = self.session.snapshot.tasks, self.session.snapshot.jobs
        owners = tasks.job[rows]
        queues = jobs.queue[owners].astype(np.intp)
        theirs = self.outlook.of_theirs(queues, jobs.priority[owners])
        mine = self.outlook.of_mine(queues, int(jobs.priority[tasks.job[reclaimer.row]]))
        return np.asarray(theirs <= mine)

    def standing(self, rows: Rows) -> Ints:
        """(T,): of these tasks, the order in which they give: the nearest relatives first, of these who looks least important."""
        tasks, jobs = self.session.snapshot.tasks, self.session.snapshot.jobs
        owners = tasks.job[rows]
        queues = jobs.queue[owners].astype(np.intp)
        keys = np.stack([-self.outlook.nearness[queues], self.outlook.of_theirs(queues, jobs.priority[owners])])
        standing = np.zeros(len(tasks), dtype=np.int64)
        if len(rows):
            standing[rows] = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        return standing
