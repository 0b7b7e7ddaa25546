"""Reconciliation of a queue: its state, Commands and the counts in its status.

Actions and states form a table. A queue whose parent closes is closed with it and annotated, so that it opens with it again;
a queue that was closed by a Command has no annotation and stays closed. Each queue follows its parent; no queue changes its
children, so the order of reconciliation does not matter.

The annotation is written before the state when a queue closes and removed after the state when it opens, so that a crash in
between is completed by the next reconciliation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from volcanopy.api import names
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import Json
from volcanopy.api.scheduling import PodGroupPhase, Queue, QueueState
from volcanopy.jobcontroller.observed import oldest_first
from volcanopy.jobcontroller.plan import DeleteCommand, Plan, RecordEvent


class QueueAction(StrEnum):
    """Actions of Commands for queues."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"


TRANSITIONS = MappingProxyType(
    {
        (QueueState.OPEN, QueueAction.OPEN): QueueState.OPEN,
        (QueueState.OPEN, QueueAction.CLOSE): QueueState.CLOSING,
        (QueueState.CLOSING, QueueAction.OPEN): QueueState.OPEN,
        (QueueState.CLOSING, QueueAction.CLOSE): QueueState.CLOSING,
        (QueueState.CLOSED, QueueAction.OPEN): QueueState.OPEN,
        (QueueState.CLOSED, QueueAction.CLOSE): QueueState.CLOSED,
        (QueueState.UNKNOWN, QueueAction.OPEN): QueueState.OPEN,
        (QueueState.UNKNOWN, QueueAction.CLOSE): QueueState.CLOSING,
    }
)
"""(state, action) -> state, for every pair. A queue that is Closing is Closed once nothing in it is unfinished."""

SHUT = frozenset({QueueState.CLOSING, QueueState.CLOSED})
"""States in which a queue and its descendants accept no jobs."""


@dataclass(frozen=True)
class QueueObserved:
    """What exists around a queue.

    ``parent`` is None where there is no such queue; with ``parent_ordered`` it has Commands that are not executed yet.
    ``groups`` counts the PodGroups of the queue by phase, ``jobs`` its BatchJobs that are neither over nor suspended.
    """

    parent: Queue | None = None
    parent_ordered: bool = False
    commands: tuple[Command, ...] = ()
    groups: Mapping[PodGroupPhase, int] = field(default_factory=dict)
    jobs: int = 0

    @property
    def unfinished(self) -> int:
        """Number of PodGroups that are not completed."""
        return sum(count for phase, count in self.groups.items() if phase is not PodGroupPhase.COMPLETED)

    @property
    def admitted(self) -> int:
        """Number of PodGroups that are admitted and not completed."""
        return self.unfinished - self.groups.get(PodGroupPhase.PENDING, 0)


@dataclass(frozen=True)
class PatchQueue:
    """Change the queue's metadata or spec by a merge patch."""

    patch: Json

    def __str__(self) -> str:
        marks = self.patch.get("metadata", {}).get("annotations", {})
        annotations = [f"{key.rpartition('/')[2]}={value}" for key, value in marks.items()]
        return f"patch: {', '.join([*annotations, *(f'{key}={value}' for key, value in self.patch.get('spec', {}).items())])}"


@dataclass(frozen=True)
class PatchQueueStatus:
    """Change some fields of the queue's status by a merge patch; what the scheduler writes there is not among them.

    A change of the state is rejected if the queue has changed since it was read.
    """

    patch: Json

    def __str__(self) -> str:
        return f"status: {', '.join(f'{key}={value}' for key, value in self.patch.items())}"


QueueEffect = PatchQueue | PatchQueueStatus | DeleteCommand | RecordEvent
QueuePlan = Plan[QueueEffect]


def reconcile_queue(queue: Queue, seen: QueueObserved) -> QueuePlan:
    """Return the plan for a queue."""
    if queue.metadata.deletion_timestamp is not None:  # its counts state what its deletion waits for
        return QueuePlan(tuple(_status(queue, state_of(queue), seen)))
    course = _Course(queue, seen)
    done = course.execute(oldest_first(seen.commands))
    course.follow_parent()
    course.drain()
    marking: list[QueueEffect] = [*_marking(queue, course.marked)]
    status: list[QueueEffect] = [*_status(queue, course.state, seen)]
    # The annotation is written before the queue closes and removed after it has opened.
    writes = [*marking, *status] if course.state in SHUT else [*status, *marking]
    deleted = [DeleteCommand(command.metadata.name, command.metadata.uid) for command in done]
    return QueuePlan((*writes, *course.events, *deleted, *_placing(queue)))


def state_of(queue: Queue) -> QueueState:
    """Return the state of a queue; the default is open."""
    return queue.status.state or QueueState.OPEN


def is_marked(queue: Queue) -> bool:
    """Whether a queue is closed because its parent is."""
    return (queue.metadata.annotations or {}).get(names.CLOSED_BY_PARENT) == "true"


class _Course:
    """State and annotation of a queue during a reconciliation, and the events to record."""

    def __init__(self, queue: Queue, seen: QueueObserved) -> None:
        self.queue, self.seen = queue, seen
        self.state = state_of(queue)
        self.marked = is_marked(queue)
        self.events: list[RecordEvent] = []

    @property
    def _shut_parent(self) -> Queue | None:
        parent = self.seen.parent
        return parent if parent is not None and state_of(parent) in SHUT else None

    def execute(self, commands: Sequence[Command]) -> list[Command]:
        """Execute or reject Commands; return those that are handled."""
        for position, command in enumerate(commands):
            if self._must_wait(command):
                return list(commands[:position])
            if rejection := self._rejection(command):
                message = f'Command "{command.metadata.name}" rejected: {rejection}'
                self._record("Warning", "CommandRejected", message)
                continue
            # A Command without effect may have been executed and not deleted yet.
            cause = command.message or f'requested by Command "{command.metadata.name}"'
            self._turn(QueueAction(command.action), cause)
            self.marked = False
        return list(commands)

    def follow_parent(self) -> None:
        """Close with the parent; open with it again if it was the parent that closed this one."""
        parent = self.seen.parent
        if self._shut_parent is not None:
            if self.state not in SHUT:
                self._turn(QueueAction.CLOSE, f'parent queue "{self._shut_parent.metadata.name}" is closed')
                self.marked = True
        elif parent is not None and self.marked:
            self._turn(QueueAction.OPEN, f'parent queue "{parent.metadata.name}" is open')
            self.marked = False

    def drain(self) -> None:
        """Close a closing queue without unfinished jobs; one in which an admitted job goes on is closing again."""
        if self.state is QueueState.CLOSED and self.seen.admitted:
            self.state = QueueState.CLOSING
        if self.state is QueueState.CLOSING and not self.seen.unfinished and not self.seen.jobs:
            self.state = QueueState.CLOSED
            self._record("Normal", "QueueClosed", "all jobs are finished")

    def _turn(self, action: QueueAction, cause: str) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, action]
        if self.state is before:
            return
        if action is QueueAction.OPEN:
            self._record("Normal", action, f"queue opened: {cause}")
        else:
            left = ", ".join(_left(self.seen)) or "no unfinished PodGroups"
            self._record("Normal", action, f"queue closed to new jobs: {cause}; {left}")

    def _must_wait(self, command: Command) -> bool:
        """Return whether the Command depends on Commands for the parent."""
        opens = command.action == QueueAction.OPEN and not self._fixed_rejection(command)
        return opens and self._shut_parent is not None and self.seen.parent_ordered

    def _rejection(self, command: Command) -> str:
        """Return the reason why a Command cannot be executed; empty if it can."""
        if rejection := self._fixed_rejection(command):
            return rejection
        if command.action == QueueAction.OPEN and (parent := self._shut_parent) is not None:
            name = parent.metadata.name
            return f'parent queue "{name}" is {state_of(parent)}: open it first'
        return ""

    def _fixed_rejection(self, command: Command) -> str:
        # Users also write Commands by hand: one without a UID applies to the queue with the name.
        if command.target.uid not in {"", self.queue.metadata.uid}:
            return "target.uid does not match the UID of the queue"
        if command.action not in set(QueueAction):
            return f'unsupported action "{command.action}": supported actions: {", ".join(QueueAction)}'
        if command.action == QueueAction.CLOSE and self.queue.metadata.name == names.ROOT_QUEUE:
            return "the root queue cannot be closed: close its child queues"
        return ""

    def _record(self, kind: str, reason: str, message: str) -> None:
        self.events.append(RecordEvent("Warning" if kind == "Warning" else "Normal", str(reason), message))


def _left(seen: QueueObserved) -> Iterator[str]:
    for phase in PodGroupPhase:
        if phase is not PodGroupPhase.COMPLETED and (count := seen.groups.get(phase, 0)):
            yield f"{count} PodGroup{'s' if count > 1 else ''} {phase}"


def _marking(queue: Queue, marked: bool) -> Iterable[PatchQueue]:
    if marked != is_marked(queue):
        yield PatchQueue({"metadata": {"annotations": {names.CLOSED_BY_PARENT: "true" if marked else None}}})


def _placing(queue: Queue) -> Iterable[PatchQueue]:
    """Set the default parent."""
    if not queue.spec.parent and queue.metadata.name != names.ROOT_QUEUE:
        yield PatchQueue({"spec": {"parent": names.ROOT_QUEUE}})


def _status(queue: Queue, state: QueueState, seen: QueueObserved) -> Iterable[PatchQueueStatus]:
    status = queue.status
    counts = {phase.lower(): seen.groups.get(phase, 0) for phase in PodGroupPhase} | {"jobs": seen.jobs}
    patch: Json = {name: count for name, count in counts.items() if getattr(status, name) != count}
    if status.state is not state:
        patch = {"state": str(state)} | patch
    if patch:
        yield PatchQueueStatus(patch)
