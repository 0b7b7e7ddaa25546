"""Operations on the ledger that are committed or rolled back together.

A statement changes the ledger at once and records how to undo the change. At the end of ``with session.statement() as
statement:`` whatever was not committed or kept is undone, also after an exception.
"""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

Undo = Callable[[], object]


class Statement:
    """A list of operations on the ledger that are committed or rolled back together."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._undo: list[Undo] = []
        self.placed: list[tuple[Rows, Rows]] = []
        """Tasks placed on free resources, with their nodes, in order."""
        self.evicted: list[tuple[int, str]] = []
        """Evicted tasks with the reason, in order."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rollback(0)

    def __len__(self) -> int:
        return len(self._undo)

    def allocate(self, task: int, node: int) -> None:
        """Place a pending task on free resources."""
        self._move(task, Status.ALLOCATED, node)
        self.placed.append((self._ledger.single(task), self._ledger.single(node)))
        self._undo.append(self.placed.pop)

    def place_run(self, tasks: Sequence[int], choose: Callable[[int], tuple[Rows, bool] | None]) -> int:
        """Place equal pending tasks of one job up to the first that must wait or has no node; return how many were placed.

        ``choose`` returns nodes for the next of the tasks after so many, and whether their resources are free.
        """
        placed, rows, nodes = 0, np.array(tasks), list[Rows]()
        while placed < len(tasks) and (chosen := choose(placed)) is not None:
            if not chosen[1]:
                self.pipeline(tasks[placed], int(chosen[0][0]))
                placed += 1
                break
            self._move_all(rows[placed : placed + len(chosen[0])], Status.ALLOCATED, chosen[0])
            placed += len(chosen[0])
            nodes.append(chosen[0])
        if nodes:
            on = np.concatenate(nodes)
            self.placed.append((rows[: len(on)], on))
            self._undo.append(self.placed.pop)
        return placed

    def pipeline(self, task: int, node: int) -> None:
        """Place a pending task on resources of pods that terminate."""
        self._move(task, Status.PIPELINED, node)

    def run_all(self, tasks: Rows) -> None:
        """Set placed tasks to running, to evaluate the state after the evictions; to be rolled back."""
        self._move_all(tasks, Status.RUNNING, self._ledger.node[tasks].astype(np.intp))

    def hold(self, job: int, node: int, amount: Ints) -> None:
        """Reserve an amount of a node for a job, as :meth:`Ledger.hold` does."""
        self._ledger.hold(job, node, amount)
        self._undo.append(lambda: self._ledger.hold(job, node, -amount))

    def evict(self, task: int, reason: str) -> None:
        """Evict a running task, or one that this session binds: that one does not start."""
        self._move(task, Status.RELEASING, int(self._ledger.node[task]))
        self._note_evictions([task], reason)

    def evict_all(self, tasks: Rows, reason: str) -> None:
        """Evict running tasks, all at once."""
        self._move_all(tasks, Status.RELEASING, self._ledger.node[tasks].astype(np.intp))
        self._note_evictions(tasks.tolist(), reason)

    def restore(self, task: int) -> None:
        """Cancel an eviction, of this statement or an earlier one."""
        place = next((place for place, (row, _) in enumerate(self.evicted) if row == task), None)
        if place is not None:
            del self.evicted[place]
        reason = self._ledger.evictions.pop(task)
        self._move(task, self._before(task), int(self._ledger.node[task]))
        self._undo.append(lambda: self._evict_again(task, reason, place))

    def withdraw_all(self, tasks: Rows) -> None:
        """Remove placements, all at once: the tasks are pending again, as victims are after they are created again."""
        self._move_all(tasks, Status.PENDING, np.full(len(tasks), NONE, dtype=np.intp))

    def checkpoint(self) -> int:
        """Return a mark to roll back to."""
        return len(self._undo)

    def rollback(self, mark: int = 0) -> None:
        """Undo everything since the mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def keep(self) -> None:
        """Keep the operations in this session, outside the plan."""
        self._undo.clear()

    def commit(self) -> None:
        """Keep the operations: tasks on free resources are binding."""
        for tasks, _ in self.placed:
            self._ledger.relabel(tasks, Status.ALLOCATED, Status.BINDING)
        self._undo.clear()

    def _before(self, task: int) -> Status:
        """Return the status that an evicted task had."""
        status = Status(int(self._ledger.snapshot.tasks.status[task]))
        return Status.BINDING if status is Status.PENDING else status

    def _evict_again(self, task: int, reason: str, place: int | None) -> None:
        self._ledger.evictions[task] = reason
        if place is not None:
            self.evicted.insert(place, (task, reason))

    def _move(self, task: int, status: Status, node: int) -> None:
        before, node_before = self._ledger.move(task, status, node)
        self._undo.append(lambda: self._ledger.move(task, Status(before), node_before))

    def _move_all(self, tasks: Rows, status: Status, nodes: Rows) -> None:
        if len(tasks) == 1:
            self._move(int(tasks[0]), status, int(nodes[0]))
            return
        before, nodes_before = self._ledger.move_all(tasks, status, nodes)
        self._undo.append(lambda: self._ledger.move_all(tasks, before, nodes_before))

    def _note_evictions(self, tasks: Sequence[int], reason: str) -> None:
        self._ledger.evictions.update(dict.fromkeys(tasks, reason))
        self.evicted += [(task, reason) for task in tasks]
        self._undo.append(lambda: self._forget_evictions(tasks))

    def _forget_evictions(self, tasks: Sequence[int]) -> None:
        for task in tasks:
            self._ledger.evictions.pop(task, None)
        del self.evicted[len(self.evicted) - len(tasks) :]
