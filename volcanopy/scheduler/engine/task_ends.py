"""When the tasks of a snapshot are expected to end, and what is free until then."""

from typing import Literal

import numpy as np

from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.run_times import likely, shortest
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import HOLDING, Status

Basis = Literal["walltime", "estimate", "assumed"]
"""The run times that count as known: enforced limits only, also declared and learnt estimates, or all."""


class TaskEnds:
    """The expected ends of tasks. An end that does not count as known is a guess, which helps to choose nodes."""

    def __init__(self, snapshot: Snapshot, basis: Basis, assumed: float) -> None:
        """``assumed`` is the run time in seconds of tasks without a limit or estimate."""
        self._snapshot, self._basis, self._assumed = snapshot, basis, assumed

    @cached_property
    def free(self) -> Ints:
        """(R, N): the free resources of nodes without terminating pods and with nominated ones."""
        nodes, table = self._snapshot.nodes, self._snapshot.tasks
        free: Ints = nodes.allocatable.values - nodes.used.values + nodes.releasing.values
        nominated = ((table.nominated != NONE) & (table.status == Status.PENDING)).nonzero()[0]
        np.subtract.at(free.T, table.nominated[nominated], self._snapshot.requests(nominated).T)
        return free

    @cached_property
    def running(self) -> tuple[Rows, Floats, Mask]:
        """The running tasks of jobs, their ends in seconds, and whether these are known."""
        table, now = self._snapshot.tasks, self._snapshot.now.timestamp()
        rows = (HOLDING[table.status] & (table.job != NONE) & (table.node != NONE)).nonzero()[0]
        started = np.where(table.started[rows] > 0, table.started[rows], now)
        total, known = self.run_times(rows, np.maximum(now - started, 0.0))
        return rows, started + total, known

    def running_extended(self, before: float) -> tuple[Rows, Floats, Mask, Mask]:
        """As :attr:`running`, and which tasks started before a time, in seconds since the epoch.

        Of these, one without a limit that has run longer than was learnt from other jobs runs for twice its extended estimate.
        """
        table, jobs = self._snapshot.tasks, self._snapshot.jobs
        rows, ends, known = self.running
        started = table.started[rows]
        is_earlier = (started > 0) & (started < before)
        if not jobs.learnt.any():
            return rows, ends, known, is_earlier
        job = table.job[rows]
        guessed = jobs.learnt[job] & (table.runtime[rows] == 0) & (jobs.walltime[job] == 0)
        too_short = is_earlier & guessed & (self._snapshot.now.timestamp() - started >= jobs.estimate[job])
        return rows, np.where(too_short, 2 * ends - started, ends), known, is_earlier

    @cached_property
    def released(self) -> tuple[Rows, Ints]:
        """The nodes of the running tasks of jobs, and what they release there (R, M)."""
        rows, _, _ = self.running
        return self._snapshot.tasks.node[rows].astype(np.intp), self._snapshot.requests(rows)

    def of_new(self, row: int) -> tuple[float, float]:
        """Return how long a task would run if it started now, in seconds: infinite if not known, and with guesses."""
        (time,), (is_known,) = self.run_times(np.array([row]), np.zeros(1))
        return (float(time) if is_known else np.inf), float(time)

    def run_times(self, rows: Rows, age: Floats) -> tuple[Floats, Mask]:
        """(M,): the expected run times of tasks of jobs that have run for ``age`` seconds, and whether these are known.

        A limit, the task's own or the walltime of the job, counts until it is over. No estimate exceeds it.
        """
        table, jobs = self._snapshot.tasks, self._snapshot.jobs
        limit, estimate = shortest(table.runtime[rows], jobs.walltime[table.job[rows]]), jobs.estimate[table.job[rows]]
        limited = (limit > 0) & (age < limit)
        likely_time = likely(estimate, self._assumed, age)
        counts = np.full(len(rows), self._basis == "assumed") | ((estimate > 0) & (self._basis == "estimate"))
        bounded = np.minimum(likely_time, np.where(limited, limit, np.inf))
        return np.where(limited & ~counts, limit, bounded), limited | counts
