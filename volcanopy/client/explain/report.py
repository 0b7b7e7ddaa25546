"""Reports about jobs and queues as data: a summary, the gates, and the numbers behind them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import field

from volcanopy.kube.client.kinds import Json

API_VERSION = "volcanopy.io/v1alpha1"


class GateState(StrEnum):
    """State of a job at a gate."""

    PASSED = "passed"
    BLOCKED = "blocked"
    UNCHECKED = "not checked"
    NOT_REQUIRED = "not required"


class _Written(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Part of a report; fields with their defaults are left out where it is written."""


class GateRow(_Written, frozen=True):
    """A gate of a job; ``message`` has the numbers."""

    name: str
    state: GateState
    message: str = ""


class PodProblem(_Written, frozen=True):
    """Pods with the same problem; ``task`` is empty if they belong to several tasks."""

    state: str
    message: str = ""
    names: tuple[str, ...] = ()
    task: str = ""


class JobReport(_Written, frozen=True):
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
        return _document(self, self.kind, ("name", "namespace"), hidden=("kind", "expectedStart", "startsWith"))


class ResourceRow(_Written, frozen=True):
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


class WaitingGroup(_Written, frozen=True):
    """A pod group that waits, under the name of its job if it has one; ``position`` counts from 1, 0 if unknown."""

    name: str
    namespace: str
    gate: str = ""
    message: str = ""
    position: int = 0


class QueueReport(_Written, frozen=True):
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
    counts: Mapping[str, int] = field(default_factory=dict, name="podGroups")
    jobs: int = field(default=0, name="unfinishedJobs")
    gates: Mapping[str, int] = field(default_factory=dict, name="waitingByGate")
    waiting: tuple[WaitingGroup, ...] = ()
    descendants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def document(self) -> Json:
        """Return the report as a JSON object, without empty fields."""
        return _document(self, "QueueExplanation", ("name",))


def _document(report: JobReport | QueueReport, kind: str, metadata: Sequence[str], hidden: Sequence[str] = ()) -> Json:
    """Return the fields of a report: those of its metadata apart, without those that are hidden."""
    fields = msgspec.json.decode(msgspec.json.encode(report))
    key = {name: fields.pop(name) for name in metadata}
    rest = {name: value for name, value in fields.items() if name not in hidden}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": key, **rest}


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return up to ``most`` names and the number of the others."""
    more = len(names) - most
    if more > 0:
        return f"{', '.join(names[:most])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def single_line(text: str) -> str:
    """Return the text with all white space as single spaces."""
    return " ".join(text.split())
