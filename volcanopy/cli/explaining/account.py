"""What is said about a job or a queue, as data: a verdict, the gates, and what each rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from volcanopy.kube.client.kinds import Json

API_VERSION = "volcanopy.io/v1alpha1"


class Mark(StrEnum):
    """How a job stands at a gate."""

    PASSED = "passed"
    HELD = "held"
    UNASKED = "not asked yet"
    NEEDLESS = "not asked for"


@dataclass(frozen=True)
class Gate:
    """A gate that jobs pass one after another."""

    name: str
    mark: Mark
    text: str = ""


@dataclass(frozen=True)
class PodsAlike:
    """Pods of which the same is to be said. ``task`` is theirs, empty if they are of several."""

    state: str
    message: str
    names: tuple[str, ...]
    task: str = ""


@dataclass(frozen=True)
class JobAccount:
    """What is said about one job.

    ``stands`` is the verdict's word: waits, starts, runs, suspended, completed, failed, ... ``nodes`` are how many nodes
    refuse for which reason, ``ahead`` whom it waits for, ``notes`` what could not be looked at.
    """

    name: str
    namespace: str
    phase: str
    queue: str
    stands: str
    verdict: str
    gate: str = ""
    gates: tuple[Gate, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    ahead: tuple[str, ...] = ()
    unblock: str = ""
    numbers: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    pods: tuple[PodsAlike, ...] = ()
    notes: tuple[str, ...] = ()

    def document(self) -> Json:
        """The same as an object; what is empty is left out."""
        entries: Json = {
            "apiVersion": API_VERSION,
            "kind": "JobExplanation",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "phase": self.phase,
            "queue": self.queue,
            "stands": self.stands,
            "verdict": self.verdict,
        }
        more: Json = {
            "gate": self.gate,
            "gates": [{"name": one.name, "state": one.mark.value, "text": one.text} for one in self.gates],
            "nodes": dict(self.nodes),
            "waitsFor": list(self.ahead),
            "unblock": self.unblock,
            "numbers": dict(self.numbers),
            "amounts": {kind: dict(found) for kind, found in self.amounts.items()},
            "tasks": list(self.tasks),
            "pods": [
                {"state": one.state, "message": one.message, "task": one.task, "names": list(one.names)}
                for one in self.pods
            ],
            "notes": list(self.notes),
        }
        return entries | {key: value for key, value in more.items() if value}


@dataclass(frozen=True)
class Holding:
    """What a queue has of one resource, as quantities; empty where there is no such amount.

    ``limit`` is the most that it may hold by its own capability and those above it, whichever ends first; ``capped_by``
    the queue whose it is. ``left`` is what may still be taken before any of them ends.
    """

    resource: str
    held: str = ""
    deserved: str = ""
    limit: str = ""
    capped_by: str = ""
    left: str = ""
    guaranteed: str = ""
    borrowed: str = ""
    lendable: str = ""
    waiting: str = ""


@dataclass(frozen=True)
class Waiting:
    """A pod group that waits: the job's name where it is one's, the gate and the sentence, and its place in the line."""

    name: str
    namespace: str
    gate: str
    message: str
    place: int = 0


@dataclass(frozen=True)
class QueueAccount:
    """What is said about one queue.

    ``counts`` are its pod groups by phase, ``jobs`` its BatchJobs that are neither over nor suspended, ``gates`` how many of
    those who wait in it do so at which gate, ``caps`` the queues above that end it.
    """

    name: str
    parents: tuple[str, ...]
    state: str
    stop_policy: str
    verdict: str
    share: str = ""
    holdings: tuple[Holding, ...] = ()
    caps: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    jobs: int = 0
    gates: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()
    below: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def document(self) -> Json:
        """The same as an object; what is empty is left out."""
        entries: Json = {
            "apiVersion": API_VERSION,
            "kind": "QueueExplanation",
            "metadata": {"name": self.name},
            "state": self.state,
            "stopPolicy": self.stop_policy,
            "verdict": self.verdict,
        }
        more: Json = {
            "parents": list(self.parents),
            "share": self.share,
            "resources": [_filled(one) for one in self.holdings],
            "caps": list(self.caps),
            "podGroups": dict(self.counts),
            "unfinishedJobs": self.jobs,
            "waitingByGate": dict(self.gates),
            "waiting": [
                {"name": one.name, "namespace": one.namespace, "gate": one.gate, "message": one.message}
                | ({"place": one.place} if one.place else {})
                for one in self.waiting
            ],
            "below": list(self.below),
            "notes": list(self.notes),
        }
        return entries | {key: value for key, value in more.items() if value}


def _filled(one: Holding) -> Json:
    words = {"held": "holds", "limit": "mayHold", "capped_by": "cappedBy", "left": "mayTake"}
    return {words.get(key, key): value for key, value in vars(one).items() if value}


def counted(number: int, word: str) -> str:
    """``1 pod``, ``3 pods``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Some of these names, and how many more there are."""
    more = len(names) - most
    if more <= 0:
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
    return f"{', '.join(names[:most])} and {more} more"
