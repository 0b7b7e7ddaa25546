"""What plugins read of a session, recorded, so that the engine knows how long their answers about nodes are valid."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.resources import Ints, Rows

A = TypeVar("A", bound="np.ndarray[Any, Any]")


class Scope(IntEnum):
    """Which answers about nodes for a task a placement changes."""

    STATIC = 0
    """None: the answers are the same during the whole session."""
    COLUMNS = 1
    """Those for the node that is used, by the columns of NodesView alone: many equal tasks are placed with one call."""
    NODE = 2
    """Those for the node that is used."""
    CLUSTER = 3
    """Those for all nodes."""


class RecordedLedger:
    """A ledger for plugins: what is read of it, besides what never changes, is recorded."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.snapshot = ledger.snapshot
        self.request = ledger.request
        self._scope = Scope.STATIC
        self._of_reads = Scope.NODE

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the ledger that may change, and record it."""
        self._scope = max(self._scope, self._of_reads)
        return getattr(self.ledger, name)

    def start(self) -> Scope:
        """Start to record; the result is for :meth:`stop`."""
        before, self._scope = self._scope, Scope.STATIC
        return before

    def stop(self, before: Scope) -> Scope:
        """Return the scope of what was read since :meth:`start`."""
        scope = self._scope
        self._scope = max(before, scope)
        return scope

    @contextmanager
    def unaffected(self) -> Iterator[None]:
        """Within, read what the placement of the task, and of equal ones, does not change on its node."""
        before, self._of_reads = self._of_reads, Scope.COLUMNS
        try:
            yield
        finally:
            self._of_reads = before


class _Column(Generic[A]):
    """A column of the ledger, read-only."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, view: "LedgerView", owner: type) -> A:
        column: A = getattr(view._ledger, self._name).view()
        column.setflags(write=False)
        return column


class LedgerView:
    """The ledger's columns over all tasks, nodes, jobs and queues, read-only. R is the number of resources."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    status = _Column[NDArray[np.int8]]()
    """(tasks,): a :class:`Status` each."""
    node = _Column[NDArray[np.int32]]()
    """(tasks,): the row of the task's node, NONE without one."""
    used = _Column[Ints]()
    """(R, nodes): allocated to the tasks on each node."""
    idle = _Column[Ints]()
    """(R, nodes): allocatable and not used."""
    future = _Column[Ints]()
    """(R, nodes): idle once evicted pods have terminated and the tasks that wait for them are placed."""
    job_counts = _Column[Ints]()
    """(statuses, jobs): tasks of each status."""
    job_best_effort = _Column[Ints]()
    """(jobs,): pending tasks that request nothing and have no scheduling gate."""
    job_allocated = _Column[Ints]()
    """(R, jobs)."""
    queue_allocated = _Column[Ints]()
    """(R, queues): of each queue's own jobs."""
    queue_pending = _Column[Ints]()
    """(R, queues): requested by the pending tasks of its own jobs when the session began."""
    queue_inqueue = _Column[Ints]()
    """(R, queues): the minimal resources of its own jobs that were enqueued in this session."""
    tree_allocated = _Column[Ints]()
    """(R, queues): of each queue with the queues below it."""
    tree_inqueue = _Column[Ints]()
    """(R, queues): as ``queue_inqueue``, with the queues below it."""

    @property
    def admissions(self) -> int:
        """How many jobs were enqueued so far whose minimal resources count."""
        return self._ledger.admissions

    @property
    def evictions(self) -> Mapping[int, str]:
        """The tasks that this session evicts, each with the reason."""
        return MappingProxyType(self._ledger.evictions)

    @property
    def changes(self) -> int:
        """How many changes of nodes there were so far."""
        return len(self._ledger.touched)

    def touched_since(self, change: int) -> Rows:
        """The rows of the nodes that changed after the first ``change`` changes, once for each change."""
        return self._ledger.touched[change:]

    @property
    def moves(self) -> int:
        """How many changes of tasks there were so far."""
        return len(self._ledger.moved)

    def moved_since(self, move: int) -> Rows:
        """The rows of the tasks whose status or node changed after the first ``move`` changes of tasks."""
        return self._ledger.moved[move:]
