"""Cross-queue priorities: the priority of a job in comparison with jobs of other queues.

A fenced queue shows its offset and nothing of its jobs; one without a fence shows what each of its jobs, as seen in the
queue itself, has of priority, with the offset added. So it goes on upwards: two queues look at each other's jobs where
their lines of parents meet, each as the children there show them.
"""

from dataclasses import dataclass

import numpy as np

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, QueueTable
from volcanopy.scheduler.model.task_status import Status

_NO_QUEUE = -(2**50)
"""The priority of a queue without waiting jobs: less than any other."""


class Precedence:
    """The seen priorities of a session. Nothing is computed where no queue has an offset or opens its fence."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.matters = ledger.snapshot.queues.terms.offsets is not None
        self._passed: set[int] = set()
        self._lines: dict[int, list[int]] | None = None
        self._children: dict[int, list[int]] = {}

    def begin(self) -> None:
        """Start an action: all waiting jobs count again."""
        self._passed.clear()
        self._lines = None

    def pass_over(self, job: int) -> None:
        """Ignore a job that was considered in this action and got nothing."""
        if self.matters:
            self._passed.add(job)

    def of(self, queue: int) -> int:
        """The highest priority, seen from outside the queue, of the jobs that wait in it and below it."""
        offsets = self._ledger.snapshot.queues.terms.offsets
        if offsets is None:
            return 0
        inside = max([self._highest(queue), *(self.of(child) for child in self._below(queue))])
        if inside == _NO_QUEUE:
            return _NO_QUEUE
        return int(offsets.offset[queue]) + (0 if offsets.fenced[queue] else inside)

    def _highest(self, queue: int) -> int:
        """The highest priority of the queue's own jobs that wait."""
        jobs = self._ledger.snapshot.jobs
        line = self._waiting().get(queue, [])
        while line and not self._waits(line[-1]):
            line.pop()
        return int(jobs.priority[line[-1]]) if line else _NO_QUEUE

    def _waiting(self) -> dict[int, list[int]]:
        """The jobs that wait, by queue, the most important last."""
        if self._lines is None:
            jobs, counts = self._ledger.snapshot.jobs, self._ledger.job_counts
            waits = self._ledger.unadmitted | (counts[Status.PENDING] > 0)
            rows = np.flatnonzero(waits & (jobs.queue != NONE))
            stops = self._ledger.snapshot.queues.terms.stops
            if stops is not None:
                rows = rows[~stops.held[jobs.queue[rows]]]
            self._lines = {}
            for row in rows[np.argsort(jobs.priority[rows], kind="stable")].tolist():
                self._lines.setdefault(int(jobs.queue[row]), []).append(row)
        return self._lines

    def _waits(self, job: int) -> bool:
        ledger = self._ledger
        waits = ledger.unadmitted[job] or ledger.job_counts[Status.PENDING, job] > 0
        return bool(waits) and job not in self._passed

    def _below(self, queue: int) -> list[int]:
        if not self._children:
            for row, parent in enumerate(self._ledger.snapshot.queues.above.tolist()):
                self._children.setdefault(parent, []).append(row)
        return self._children.get(queue, [])


@dataclass(frozen=True, eq=False)
class Outlook:
    """The priorities of the jobs of one queue and of each other queue at the queue above both.

    Each is seen as a constant, with its own priority added where nothing fences that off.
    """

    nearness: Ints
    """(Q,): how many queues both are below."""
    theirs: Ints
    theirs_open: Mask
    mine: Ints
    mine_open: Mask

    def of_theirs(self, queues: Rows, priorities: Ints) -> Ints:
        """(M,): how jobs of these queues, with these priorities of their own, are seen."""
        seen: Ints = self.theirs[queues] + np.where(self.theirs_open[queues], priorities, 0)
        return seen

    def of_mine(self, queues: Rows, priority: int) -> Ints:
        """(M,): how a job of the one queue is seen by each of these queues."""
        seen: Ints = self.mine[queues] + np.where(self.mine_open[queues], priority, 0)
        return seen


def outlook(queues: QueueTable, own: int) -> Outlook | None:
    """Return the priorities of a queue against all others; None without cross-queue priorities."""
    offsets = queues.terms.offsets
    if offsets is None:
        return None
    count = len(queues)
    outlook = Outlook(
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.ones(count, np.bool_),
        np.zeros(count, np.int64),
        np.ones(count, np.bool_),
    )
    mine = queues.lines[own].tolist()
    for other in range(count):
        theirs = queues.lines[other].tolist()
        shared = set(mine) & set(theirs)
        outlook.nearness[other] = len(shared)
        for line, constant, is_open in (
            (theirs, outlook.theirs, outlook.theirs_open),
            (mine, outlook.mine, outlook.mine_open),
        ):
            for row in line:
                if row in shared:
                    break
                if offsets.fenced[row]:
                    constant[other], is_open[other] = 0, False
                constant[other] += offsets.offset[row]
    return outlook
