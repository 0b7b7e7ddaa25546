"""Reports about jobs and queues as data: a summary, the gates, and the numbers behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
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
        return _document(self, self.kind, ("name", "namespace"), hidden=("kind", "expected_start", "starts_with"))


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
    state: str
    stop_policy: str
    summary: str
    ancestors: tuple[str, ...] = ()
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
        keys = {"counts": "podGroups", "jobs": "unfinishedJobs", "gates": "waitingByGate"}
        return _document(self, "QueueExplanation", ("name",), keys=keys)


_REQUIRED = ("phase", "queue", "state", "stop_policy", "summary")
"""Fields that a document has even if they are empty."""


def _document(
    report: JobReport | QueueReport,
    kind: str,
    metadata: Sequence[str],
    *,
    hidden: Sequence[str] = (),
    keys: Mapping[str, str] = MappingProxyType({}),
) -> Json:
    """Return the fields of a report: those of its metadata apart, without those that are hidden or empty."""
    fields = {name: value for name, value in vars(report).items() if name not in (*metadata, *hidden)}
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {name: getattr(report, name) for name in metadata},
        **{keys.get(name, _camel(name)): _plain(value) for name, value in fields.items() if value or name in _REQUIRED},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, GateRow | PodProblem | ResourceRow | WaitingGroup):
        return {_camel(name): _plain(field) for name, field in vars(value).items() if field}
    if isinstance(value, tuple):
        return list(map(_plain, value))
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return value.value if isinstance(value, GateState) else value


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
