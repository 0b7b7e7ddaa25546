"""All of these operations, or none.

A statement moves the ledger at once and remembers how to move it back. Within ``with session.statement() as statement:``
whatever was not committed or kept is undone when the block is left, also by an exception.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

Undo = Callable[[], None]


class Statement:
    """A list of operations on the ledger that stand or fall together."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._undo: list[Undo] = []
        self.placed: list[tuple[Rows, Rows]] = []
        """Tasks given room that is free, with their nodes, in order."""
        self.evicted: list[tuple[int, str]] = []
        """Tasks that leave, with the reason, in order."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback(0)

    def __len__(self) -> int:
        return len(self._undo)

    def allocate(self, task: int, node: int) -> None:
        """Give a pending task room that is free."""
        self.allocate_run(self._ledger.single(task), self._ledger.single(node))

    def allocate_run(self, tasks: Rows, nodes: Rows) -> None:
        """Give equal pending tasks of one job room that is free, the first task on the first node and so on."""
        self._ledger.place(tasks, nodes, Status.ALLOCATED)
        self._undo.append(lambda: self._ledger.unplace(tasks, nodes, Status.ALLOCATED))
        self.placed.append((tasks, nodes))
        self._undo.append(self._forget_placed)

    def pipeline(self, task: int, node: int) -> None:
        """Give a pending task room that is being freed."""
        self._move(task, Status.PIPELINED, node)

    def run(self, task: int, node: int) -> None:
        """Show a pending task as one that runs already: to look at the time after, and to be rolled back."""
        self._move(task, Status.RUNNING, node)

    def evict(self, task: int, reason: str) -> None:
        """Make a running task leave."""
        self._move(task, Status.RELEASING, int(self._ledger.node[task]))
        self._ledger.evictions[task] = reason
        self.evicted.append((task, reason))
        self._undo.append(lambda: self._forget_eviction(task))

    def spare(self, task: int) -> None:
        """Let a task stay that this statement was going to evict."""
        place = next(place for place, (row, _) in enumerate(self.evicted) if row == task)
        said = self.evicted.pop(place)
        self._move(task, Status(int(self._ledger.snapshot.tasks.status[task])), int(self._ledger.node[task]))
        del self._ledger.evictions[task]
        self._undo.append(lambda: self._recall(place, said))

    def withdraw(self, task: int) -> None:
        """Take a task off its node again: it is pending, and the room is as if it had never been there."""
        self._move(task, Status.PENDING, NONE)

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self._undo)

    def rollback(self, mark: int = 0) -> None:
        """Take back everything since the mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def keep(self) -> None:
        """Let the operations stand in this session without carrying them out."""
        self._undo.clear()

    def commit(self) -> None:
        """Let the operations stand: tasks with free room are on their way to their nodes."""
        for tasks, _ in self.placed:
            self._ledger.relabel(tasks, Status.ALLOCATED, Status.BINDING)
        self._undo.clear()

    def _recall(self, place: int, said: tuple[int, str]) -> None:
        self.evicted.insert(place, said)
        self._ledger.evictions[said[0]] = said[1]

    def _move(self, task: int, status: Status, node: int) -> None:
        before, node_before = self._ledger.move(task, status, node)
        self._undo.append(lambda: self._back(task, before, node_before))

    def _back(self, task: int, status: int, node: int) -> None:
        self._ledger.move(task, Status(status), node)

    def _forget_placed(self) -> None:
        self.placed.pop()

    def _forget_eviction(self, task: int) -> None:
        self._ledger.evictions.pop(task, None)
        self.evicted.pop()
