"""Kinds of tasks: those of one shape for which policies read the same values, so that they share the answers about nodes."""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Resources
from volcanopy.scheduler.model.snapshot import NONE

V = TypeVar("V", bound=Hashable)


class TaskKind(TaskView):
    """A task that stands for all of its kind: it has a shape, and the values that policies read, and nothing of its own."""

    __slots__ = ("_representative", "_shape", "values")

    def __init__(self, task: TaskView, values: tuple[Hashable, ...]) -> None:
        self._ledger, self._representative, self._shape = task._ledger, task, task.shape
        self.values = values

    @property
    def key_of_kind(self) -> Hashable:
        """Equal for tasks of one kind."""
        return (self._shape, *self.values) if self.values else self._shape

    @property
    def row(self) -> int:  # type: ignore[override]
        """Not available: tasks of one kind differ in it, and in all that is looked up with it."""
        raise AttributeError(
            "answers about nodes are shared by all tasks of one shape: what else a policy reads of a task (its pod, its job, "
            "its row) must be a value that open makes with task_value"
        )

    @property
    def shape(self) -> int:  # type: ignore[override]
        """The number of the shape."""
        return self._shape

    @property
    def request(self) -> Resources:
        """The resources that each of the tasks requests."""
        snapshot = self._ledger.snapshot
        return Resources(snapshot.axis, snapshot.shapes.request.values[:, self._shape])

    @property
    def representative(self) -> TaskView:
        """One of the tasks, for what follows from the values."""
        return self._representative


class TaskValue(Generic[V]):
    """What answers about nodes depend on besides the shape of a task: a value that is read of each task."""

    def __init__(self, read: Callable[[TaskView], V], columns: Sequence[str] | None = None) -> None:
        self.read = read
        self.columns = columns  # Of the tasks of a job: those that it follows from; None where that is not known.
        self.number = NONE
        """Its position among the values of a kind; NONE where kinds do not have it."""

    def __call__(self, task: TaskView) -> V:
        """Return the value of a task, or of a kind of tasks."""
        if self.number != NONE and isinstance(task, TaskKind):
            value: V = task.values[self.number]  # type: ignore[assignment]
            return value
        return self.read(task.representative)
