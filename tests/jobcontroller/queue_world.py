"""Queues with what is in them, for tests: plans are carried out as the controller would, whole or up to a crash."""

import itertools
from collections.abc import Mapping

from volcanopy.api import names
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import Json
from volcanopy.api.scheduling import PodGroupPhase, Queue, QueueState
from volcanopy.jobcontroller.plan import DeleteCommand, RecordEvent
from volcanopy.jobcontroller.queues import (
    SHUT,
    PatchQueue,
    PatchQueueStatus,
    QueueObserved,
    QueuePlan,
    is_marked,
    reconcile_queue,
    state_of,
)


def merged(target: Json, patch: Json) -> Json:
    """A JSON merge patch, applied."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


class QueueWorld:
    """A tree of queues. ``parents`` maps each queue to the one above; it need not name the root."""

    def __init__(self, parents: Mapping[str, str]) -> None:
        self.raw: dict[str, Json] = {}
        self.groups: dict[str, dict[PodGroupPhase, int]] = {}
        self.jobs: dict[str, int] = {}
        self.commands: dict[str, dict[str, Command]] = {}
        self.events: list[str] = []
        self._numbers = itertools.count()
        for name, parent in {"root": "", **parents}.items():
            metadata = {"name": name, "uid": f"uid-{name}"}
            self.raw[name] = {"metadata": metadata, "spec": {"parent": parent} if parent else {}}

    def queue(self, name: str) -> Queue:
        """A queue as the server has it."""
        return Queue.read(self.raw[name], unknown="forbid")

    def state(self, name: str) -> QueueState:
        """The state of a queue."""
        return state_of(self.queue(name))

    def marked(self, name: str) -> bool:
        """Whether it is closed because the queue above it is."""
        return is_marked(self.queue(name))

    def parent(self, name: str) -> str:
        """The name of the queue above; empty for the root."""
        return "" if name == "root" else self.queue(name).spec.parent or "root"

    def is_shut(self, name: str) -> bool:
        """Whether a queue takes nothing new."""
        return self.state(name) in SHUT

    def set_state(self, name: str, state: QueueState | None, marked: bool = False) -> None:
        """A queue is found in a state."""
        self.raw[name]["status"] = {"state": str(state)} if state else {}
        self.raw[name]["metadata"]["annotations"] = {names.CLOSED_BY_PARENT: "true"} if marked else {}

    def fill(self, name: str, phase: PodGroupPhase, count: int = 1) -> None:
        """PodGroups of this phase are in a queue."""
        self.groups.setdefault(name, {})[phase] = count

    def ask(self, action: str, name: str, uid: str | None = "", message: str = "") -> None:
        """A person leaves a Command; for this very queue unless another ``uid``, or none, is given."""
        number = next(self._numbers)
        target = {"apiVersion": names.SCHEDULING_V1BETA1, "kind": "Queue", "name": name, "uid": ""}
        target["uid"] = "" if uid is None else uid or f"uid-{name}"
        metadata = {"name": f"c{number:04}", "namespace": "default", "uid": f"c-{number}"}
        command = Command.read({"metadata": metadata, "action": action, "target": target, "message": message})
        self.commands.setdefault(name, {})[command.metadata.uid] = command

    def observed(self, name: str) -> QueueObserved:
        """What exists around a queue."""
        above = self.parent(name)
        return QueueObserved(
            parent=self.queue(above) if above in self.raw else None,
            parent_ordered=bool(self.commands.get(above)),
            commands=tuple(self.commands.get(name, {}).values()),
            groups=self.groups.get(name, {}),
            jobs=self.jobs.get(name, 0),
        )

    def plan(self, name: str) -> QueuePlan:
        """What the controller would do now."""
        return reconcile_queue(self.queue(name), self.observed(name))

    def look(self, name: str, crash: int | None = None) -> bool:
        """Carry out a plan, or only its first effects; whether there was anything to do."""
        effects = self.plan(name).effects
        for effect in effects[:crash]:
            match effect:
                case PatchQueue():
                    self.raw[name] = merged(self.raw[name], effect.patch)
                case PatchQueueStatus():
                    self.raw[name] = merged(self.raw[name], {"status": effect.patch})
                case DeleteCommand():
                    del self.commands[name][effect.uid]
                case RecordEvent():
                    self.events.append(f"{name}: {effect.type} {effect.reason}: {effect.message}")
        return bool(effects)

    def settle(self) -> "QueueWorld":
        """Look at all queues until there is nothing to do."""
        for _ in range(3 * len(self.raw) + 3):
            if not sum(self.look(name) for name in sorted(self.raw)):
                return self
        raise AssertionError("does not come to rest")

    def states(self) -> dict[str, str]:
        """The states of all queues but the root."""
        return {name: str(self.state(name)) for name in self.raw if name != "root"}
