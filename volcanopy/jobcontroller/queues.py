"""A queue, the queue above it and what is in it in; what to do for it out.

What each action does in each state is a table. Closing spreads downwards: a queue whose parent closes closes with it and
carries a mark, so that it opens with it again; one that was closed by itself has no mark and stays closed. Each queue
looks at its parent, and nobody gives orders to children, so it does not matter who is looked at first, or how often.

The mark and the state are written one after the other. Before a queue closes, the mark says why; after it has opened,
the mark goes: whoever dies in between leaves something from which the next look goes on to the same end.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from volcanopy.api import names
from volcanopy.api.bus import Command
from volcanopy.api.model import Json
from volcanopy.api.scheduling import PodGroupPhase, Queue, QueueState
from volcanopy.jobcontroller.observed import oldest_first
from volcanopy.jobcontroller.plan import DeleteCommand, RecordEvent


class QueueAction(StrEnum):
    """What a Command can ask of a queue."""

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
"""States in which a queue takes nothing new, and in which the queues below it are shut as well."""


@dataclass(frozen=True)
class QueueObserved:
    """What exists around a queue.

    ``parent`` is None where there is no such queue; ``parent_ordered`` says that Commands for it are not carried out yet.
    ``groups`` counts the PodGroups of the queue by phase, ``jobs`` its BatchJobs that are neither over nor suspended.
    """

    parent: Queue | None = None
    parent_ordered: bool = False
    commands: tuple[Command, ...] = ()
    groups: Mapping[PodGroupPhase, int] = field(default_factory=dict)
    jobs: int = 0

    @property
    def unfinished(self) -> int:
        """How many PodGroups have not come to their end."""
        return sum(count for phase, count in self.groups.items() if phase is not PodGroupPhase.COMPLETED)


@dataclass(frozen=True)
class PatchQueue:
    """Change the queue's metadata or spec by a merge patch."""

    patch: Json

    def __str__(self) -> str:
        marks = self.patch.get("metadata", {}).get("annotations", {})
        said = [f"{key.rpartition('/')[2]}={value}" for key, value in marks.items()]
        return f"patch: {', '.join([*said, *(f'{key}={value}' for key, value in self.patch.get('spec', {}).items())])}"


@dataclass(frozen=True)
class PatchQueueStatus:
    """Change some fields of the queue's status by a merge patch; what the scheduler writes there is not among them.

    A change of the state is refused if the queue has changed since it was looked at.
    """

    patch: Json

    def __str__(self) -> str:
        return f"status: {', '.join(f'{key}={value}' for key, value in self.patch.items())}"


QueueEffect = PatchQueue | PatchQueueStatus | DeleteCommand | RecordEvent


@dataclass(frozen=True)
class QueuePlan:
    """Effects in order. What follows a status that was refused must not happen."""

    effects: tuple[QueueEffect, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.effects))


def reconcile_queue(queue: Queue, seen: QueueObserved) -> QueuePlan:
    """What to do for a queue."""
    if queue.metadata.deletion_timestamp is not None:
        return QueuePlan()
    course = _Course(queue, seen)
    done = course.obey(oldest_first(seen.commands))
    course.follow_parent()
    course.drain()
    marking: list[QueueEffect] = [*_marking(queue, course.marked)]
    status: list[QueueEffect] = [*_status(queue, course.state, seen)]
    # Why it closes is said before it closes; that it was closed by its parent is forgotten after it has opened.
    writes = [*marking, *status] if course.state in SHUT else [*status, *marking]
    forgotten = [DeleteCommand(one.metadata.name, one.metadata.uid) for one in done]
    return QueuePlan((*writes, *course.events, *forgotten, *_placing(queue)))


def state_of(queue: Queue) -> QueueState:
    """The state of a queue; one of which nobody has said anything is open."""
    return queue.status.state or QueueState.OPEN


def is_marked(queue: Queue) -> bool:
    """Whether a queue is closed because its parent is."""
    return (queue.metadata.annotations or {}).get(names.CLOSED_BY_PARENT) == "true"


class _Course:
    """A queue's state and mark as they change in one look, and what people are told of it."""

    def __init__(self, queue: Queue, seen: QueueObserved) -> None:
        self.queue, self.seen = queue, seen
        self.state = state_of(queue)
        self.marked = is_marked(queue)
        self.events: list[RecordEvent] = []

    @property
    def _shut_parent(self) -> Queue | None:
        parent = self.seen.parent
        return parent if parent is not None and state_of(parent) in SHUT else None

    def obey(self, commands: Sequence[Command]) -> list[Command]:
        """Carry out Commands or refuse them; returns those that are done with."""
        for position, command in enumerate(commands):
            if self._must_wait(command):
                return list(commands[:position])
            if told := self._refusal(command):
                self._tell("Warning", "CommandRefused", f"Command {command.metadata.name} {told}")
                continue
            # A Command for what a queue is already may be one that was carried out and not yet deleted.
            says = command.message or f"Command {command.metadata.name} asks for it"
            self._turn(QueueAction(command.action), says)
            self.marked = False
        return list(commands)

    def follow_parent(self) -> None:
        """Close with the parent; open with it again if it was the parent that closed this one."""
        parent = self.seen.parent
        if self._shut_parent is not None:
            if self.state not in SHUT:
                self._turn(QueueAction.CLOSE, f"queue {self._shut_parent.metadata.name} above it is closed")
                self.marked = True
        elif parent is not None and self.marked:
            self._turn(QueueAction.OPEN, f"queue {parent.metadata.name} above it is open")
            self.marked = False

    def drain(self) -> None:
        """A queue in which nothing is left has closed."""
        if self.state is QueueState.CLOSING and not self.seen.unfinished and not self.seen.jobs:
            self.state = QueueState.CLOSED
            self._tell("Normal", "QueueClosed", "nothing unfinished is left in the queue")

    def _turn(self, action: QueueAction, why: str) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, action]
        if self.state is before:
            return
        if action is QueueAction.OPEN:
            self._tell("Normal", action, f"the queue takes jobs again: {why}")
        else:
            left = ", ".join(_left(self.seen)) or "nothing is left in it"
            self._tell("Normal", action, f"the queue takes no new jobs: {why}; {left}")

    def _must_wait(self, command: Command) -> bool:
        """Whether what is asked for depends on what becomes of the parent."""
        asked = command.action == QueueAction.OPEN and not self._refused_anyway(command)
        return asked and self._shut_parent is not None and self.seen.parent_ordered

    def _refusal(self, command: Command) -> str:
        """Why a Command cannot be carried out; empty if it can."""
        if told := self._refused_anyway(command):
            return told
        if command.action == QueueAction.OPEN and (parent := self._shut_parent) is not None:
            name = parent.metadata.name
            return (
                f"asks for {command.action}, but queue {name} above this one is {state_of(parent)}: open {name} first"
            )
        return ""

    def _refused_anyway(self, command: Command) -> str:
        # People write Commands for queues by hand, too: one without a uid is for the queue of that name.
        if command.target.uid not in {"", self.queue.metadata.uid}:
            return "is for an earlier queue of this name"
        if command.action not in set(QueueAction):
            return f"asks for {command.action}, which no queue can do: ask for {' or '.join(QueueAction)}"
        if command.action == QueueAction.CLOSE and self.queue.metadata.name == names.ROOT_QUEUE:
            return f"asks for {command.action}, but the root queue stays open: close the queues below it"
        return ""

    def _tell(self, kind: str, reason: str, message: str) -> None:
        self.events.append(RecordEvent("Warning" if kind == "Warning" else "Normal", str(reason), message))


def _left(seen: QueueObserved) -> Iterator[str]:
    for phase in PodGroupPhase:
        if phase is not PodGroupPhase.COMPLETED and (count := seen.groups.get(phase, 0)):
            yield f"{count} pod group{'s' if count > 1 else ''} {phase}"


def _marking(queue: Queue, marked: bool) -> Iterable[PatchQueue]:
    if marked != is_marked(queue):
        yield PatchQueue({"metadata": {"annotations": {names.CLOSED_BY_PARENT: "true" if marked else None}}})


def _placing(queue: Queue) -> Iterable[PatchQueue]:
    """Write down where the queue belongs, for those who read queues."""
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
