"""What plugins read of a session, recorded, so that the engine knows how long their answers about nodes are valid."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.resources import Ints, Rows, frozen


class Scope(IntEnum):
    """Which answers about nodes for a task a placement changes."""

    STATIC = 0
    """None: the answers are the same during the whole session."""
    COLUMNS = 1
    """Those for the node that is used, by the columns of NodesView alone: many equal tasks are placed with one call."""
    STATE = 2
    """Those for the node that is used, by its columns and what ``node_state`` of the policies returns."""
    NODE = 3
    """Those for the node that is used."""
    CLUSTER = 4
    """Those for all nodes."""


class RecordedLedger:
    """A ledger for plugins: what is read of it, besides what never changes, is recorded."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.snapshot = ledger.snapshot
        self.request = ledger.request
        self.minimum_keys = ledger.minimum_keys
        self._scope = Scope.STATIC
        self._of_reads = Scope.NODE
        self._columns: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the ledger that may change, and record it."""
        self._scope = max(self._scope, self._of_reads)
        return getattr(self.ledger, name)

    def column(self, name: str) -> Any:
        """Return a read-only view of a column of the ledger, and record it: columns change, but are not replaced."""
        self._scope = max(self._scope, self._of_reads)
        if name not in self._columns:
            self._columns[name] = frozen(getattr(self.ledger, name).view())
        return self._columns[name]

    def start(self) -> Scope:
        """Start to record; the result is for :meth:`stop`."""
        before, self._scope = self._scope, Scope.STATIC
        return before

    def stop(self, before: Scope) -> Scope:
        """Return the scope of what was read since :meth:`start`."""
        scope = self._scope
        self._scope = max(before, scope)
        return scope

    def unaffected(self) -> AbstractContextManager[None]:
        """Within, read what the placement of the task, and of equal ones, does not change on its node."""
        return self.counted_as(Scope.COLUMNS)

    @contextmanager
    def counted_as(self, scope: Scope) -> Iterator[None]:
        """Within, reads are recorded with this scope."""
        before, self._of_reads = self._of_reads, scope
        try:
            yield
        finally:
            self._of_reads = before


class LedgerView:
    """Columns of the ledger over all tasks, nodes, jobs and queues, read-only: see :class:`.columns.LedgerColumns`."""

    status: NDArray[np.int8]
    node: NDArray[np.int32]
    used: Ints
    idle: Ints
    future: Ints
    job_counts: Ints
    job_best_effort: Ints
    job_allocated: Ints
    queue_allocated: Ints
    queue_pending: Ints
    queue_inqueue: Ints
    tree_allocated: Ints
    tree_inqueue: Ints

    def __init__(self, ledger: RecordedLedger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        """Return a column."""
        if name not in LedgerView.__annotations__:
            raise AttributeError(f"the ledger has no column {name!r} for plugins")
        return self._ledger.column(name)

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
        return self._ledger.touched.since(change)

    @property
    def moves(self) -> int:
        """How many changes of tasks there were so far."""
        return len(self._ledger.moved)

    def moved_since(self, move: int) -> Rows:
        """The rows of the tasks whose status or node changed after the first ``move`` changes of tasks."""
        return self._ledger.moved.since(move)
