"""Reports about jobs and queues as data: a summary, the gates, and the numbers behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from volcanopy.kube.client.kinds import Json

API_VERSION = "volcanopy.io/v1alpha1"


class GateState(StrEnum):
    """State of a job at a gate."""

    PASSED = "passed"
    BLOCKED = "blocked"
    UNCHECKED = "not checked"
    NOT_REQUIRED = "not required"


@dataclass(frozen=True)
class GateRow:
    """A gate of a job; ``message`` has the numbers."""

    name: str
    state: GateState
    message: str = ""


@dataclass(frozen=True)
class PodProblem:
    """Pods with the same problem; ``task`` is empty if they belong to several tasks."""

    state: str
    message: str
    names: tuple[str, ...]
    task: str = ""


@dataclass(frozen=True)
class JobReport:
    """Report about a job, or about a pod group without one (``kind``).

    ``state`` is pending, starting, running, suspended, completed, failed, ... ``nodes`` counts nodes by the reason for
    which they were filtered. ``notes`` lists what could not be read. ``unblocked_by`` is the scheduler's estimate, ``result``
    and ``remedies`` (``starts_with`` in sentences) are confirmed; empty if they were not searched for.
    """

    name: str
    namespace: str
    phase: str
    queue: str
    state: str
    summary: str
    gate: str = ""
    gates: tuple[GateRow, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    blocked_by: tuple[str, ...] = ()
    unblocked_by: str = ""
    result: str = ""
    estimated_start: str = ""
    expected_start: str = ""
    """The estimated start for people, who read how far away it is and the local time."""
    alternatives: tuple[str, ...] = ()
    """The alternatives of the job: which one is selected or considered, and the expected start and finish of each."""
    starts_with: tuple[str, ...] = ()
    remedies: tuple[Json, ...] = ()
    search_ended: str = ""
    """What ended the search for remedies before it was complete, as in the document of a plan."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    pods: tuple[PodProblem, ...] = ()
    notes: tuple[str, ...] = ()
    kind: str = "JobExplanation"

    def document(self) -> Json:
        """Return the report as a JSON object, without empty fields."""
        return _document(
            self.kind,
            {"name": self.name, "namespace": self.namespace},
            {"phase": self.phase, "queue": self.queue, "state": self.state, "summary": self.summary},
            {
                "gate": self.gate,
                "gates": [_filled(vars(row) | {"state": row.state.value}) for row in self.gates],
                "nodes": dict(self.nodes),
                "blockedBy": list(self.blocked_by),
                "unblockedBy": self.unblocked_by,
                "result": self.result,
                "estimatedStart": self.estimated_start,
                "alternatives": list(self.alternatives),
                "remedies": list(self.remedies),
                "searchEnded": self.search_ended,
                "numbers": dict(self.numbers),
                "amounts": {key: dict(amounts) for key, amounts in self.amounts.items()},
                "tasks": list(self.tasks),
                "pods": [_filled(vars(problem)) for problem in self.pods],
                "notes": list(self.notes),
            },
        )


@dataclass(frozen=True)
class ResourceRow:
    """Amounts of one resource of a queue, as quantities; empty where there is no such amount.

    ``capability`` is the lowest of the queue and its ancestors. ``available`` is what they leave, ``limited_by`` the
    queue that leaves least.
    """

    resource: str
    allocated: str = ""
    fair_share: str = ""
    capability: str = ""
    available: str = ""
    limited_by: str = ""
    guaranteed: str = ""
    borrowed: str = ""
    lendable: str = ""
    waiting: str = ""


@dataclass(frozen=True)
class WaitingGroup:
    """A pod group that waits, under the name of its job if it has one; ``position`` counts from 1, 0 if unknown."""

    name: str
    namespace: str
    gate: str
    message: str
    position: int = 0


@dataclass(frozen=True)
class QueueReport:
    """Report about a queue.

    ``counts`` are its pod groups by phase, ``jobs`` its unfinished BatchJobs, ``gates`` the number of waiting pod groups
    by gate, ``limited_by`` the ancestors whose capability limits it.
    """

    name: str
    ancestors: tuple[str, ...]
    state: str
    stop_policy: str
    summary: str
    share: str = ""
    resources: tuple[ResourceRow, ...] = ()
    limited_by: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    jobs: int = 0
    gates: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[WaitingGroup, ...] = ()
    descendants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def document(self) -> Json:
        """Return the report as a JSON object, without empty fields."""
        return _document(
            "QueueExplanation",
            {"name": self.name},
            {"state": self.state, "stopPolicy": self.stop_policy, "summary": self.summary},
            {
                "ancestors": list(self.ancestors),
                "share": self.share,
                "resources": [_filled(vars(row)) for row in self.resources],
                "limitedBy": list(self.limited_by),
                "podGroups": dict(self.counts),
                "unfinishedJobs": self.jobs,
                "waitingByGate": dict(self.gates),
                "waiting": [_filled(vars(group)) for group in self.waiting],
                "descendants": list(self.descendants),
                "notes": list(self.notes),
            },
        )


def _document(kind: str, metadata: Json, fields: Json, optional: Json) -> Json:
    head = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}
    return head | fields | {key: value for key, value in optional.items() if value}


def _filled(fields: Mapping[str, Any]) -> Json:
    return {_camel(key): list(value) if isinstance(value, tuple) else value for key, value in fields.items() if value}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return up to ``most`` names and the number of the others."""
    more = len(names) - most
    if more > 0:
        return f"{', '.join(names[:most])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def single_line(text: str) -> str:
    """Return the text with all white space as single spaces."""
    return " ".join(text.split())
