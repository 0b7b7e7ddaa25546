"""The cluster as plugins see it: nodes as columns, and everything else by name.

Like all views these are read-only and show the session as it is at the moment of asking.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from volcanopy.scheduler.ledger import Ledger
from volcanopy.scheduler.resources import Axis, Columns, Ints, Resources, Rows
from volcanopy.scheduler.snapshot import NodeTraits, Snapshot
from volcanopy.scheduler.views import JobView, QueueView, TaskView


class NodesView:
    """Some nodes, as columns. ``rows`` are their row numbers.

    The same row may stand in a view several times, each time with another number of equal tasks taken as placed on it:
    this is how a run of equal tasks is asked about in one call. A hook that reads only these columns need not care.
    """

    __slots__ = ("_extra", "_ledger", "_task_nonzero", "_task_request", "rows")

    def __init__(self, ledger: Ledger, rows: Rows, task: TaskView | None = None, extra: Ints | None = None) -> None:
        self._ledger = ledger
        self.rows = rows
        self._extra = extra
        self._task_request = None if task is None or extra is None else task.request.values
        self._task_nonzero = None if task is None or extra is None else task.nonzero

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def allocatable(self) -> Columns:
        """What each node can hand out in all."""
        return self._ledger.columns(self._ledger.snapshot.nodes.allocatable.values.take(self.rows, axis=1))

    @property
    def used(self) -> Columns:
        """What the tasks on each node take."""
        return self._ledger.columns(self._with_extra(self._ledger.used.take(self.rows, axis=1), +1))

    @property
    def idle(self) -> Columns:
        """What each node has left."""
        return self._ledger.columns(self._with_extra(self._ledger.idle.take(self.rows, axis=1), -1))

    @property
    def future_idle(self) -> Columns:
        """What each node will have left when those that leave are gone and those that wait for their room are in."""
        return self._ledger.columns(self._with_extra(self._ledger.future.take(self.rows, axis=1), -1))

    @property
    def nonzero(self) -> Ints:
        """(2, M): cpu and memory in use, with kube-scheduler's defaults for containers that request none."""
        taken = self._ledger.nonzero.take(self.rows, axis=1)
        if self._extra is not None and self._task_nonzero is not None:
            taken = taken + self._task_nonzero[:, None] * self._extra[None, :]
        return taken

    def _with_extra(self, values: Ints, sign: int) -> Ints:
        if self._extra is not None and self._task_request is not None:
            return values + self._task_request[:, None] * (sign * self._extra)[None, :]
        return values


class Cluster:
    """All that a plugin may read: the snapshot's tables, and views of things as the session has moved them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @property
    def snapshot(self) -> Snapshot:
        """The frozen tables."""
        return self._ledger.snapshot

    @property
    def axis(self) -> Axis:
        """The resources that are counted."""
        return self._ledger.snapshot.axis

    @property
    def now(self) -> datetime:
        """The moment of the snapshot."""
        return self._ledger.snapshot.now

    @property
    def total(self) -> Resources:
        """What all nodes together can hand out."""
        return Resources(self.axis, self._ledger.snapshot.total)

    @property
    def traits(self) -> NodeTraits:
        """Labels, taints and images of the nodes, with a memo that lives as long as they hold."""
        return self._ledger.snapshot.nodes.traits

    @property
    def ledger(self) -> "LedgerView":
        """The session's columns over all rows, read-only."""
        return LedgerView(self._ledger)

    def task(self, row: int) -> TaskView:
        """One task."""
        return TaskView(self._ledger, row)

    def job(self, row: int) -> JobView:
        """One job."""
        return JobView(self._ledger, row)

    def queue(self, row: int) -> QueueView:
        """One queue."""
        return QueueView(self._ledger, row)

    def nodes(self, rows: Rows | None = None) -> NodesView:
        """Some nodes, all if no rows are given."""
        return NodesView(self._ledger, np.arange(len(self.snapshot.nodes)) if rows is None else rows)

    def jobs(self) -> Iterator[JobView]:
        """The jobs that have a pod group and a queue that exists."""
        return (JobView(self._ledger, int(row)) for row in self.job_rows())

    def job_rows(self) -> Rows:
        """The rows of the jobs that have a pod group and a queue that exists."""
        jobs, queues = self.snapshot.jobs, self.snapshot.queues
        with_queue = np.array([queue is not None for queue in queues.objects] + [False], dtype=np.bool_)
        with_group = np.fromiter((group is not None for group in jobs.groups), np.bool_, len(jobs))
        return np.flatnonzero(with_group & with_queue[jobs.queue])


class LedgerView:
    """The ledger's columns, for plugins that reckon over all tasks or nodes at once. They are read-only."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @property
    def changes(self) -> int:
        """How many changes to nodes there were so far: what was reckoned before the last one may be stale."""
        return len(self._ledger.touched)

    def touched_since(self, change: int) -> list[int]:
        """The rows of the nodes that changed after the first ``change`` changes, a node as often as it did."""
        return self._ledger.touched[change:]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._ledger, name)
        if isinstance(value, np.ndarray):
            view = value.view()
            view.setflags(write=False)
            return view
        if isinstance(value, Mapping):
            return dict(value)
        raise AttributeError(f"the ledger has no column {name!r}")
