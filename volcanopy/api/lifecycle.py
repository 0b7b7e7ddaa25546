"""Events and actions of jobs, the lifecycle policies that connect them, and the full model of Command."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from volcanopy.api.model import Duration, Int32, Model, ObjectMeta, OwnerReference, Rule


class Action(StrEnum):
    """Action on a job."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"


class Event(StrEnum):
    """Event of a job that a policy can react to."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    JOB_UPDATED = "JobUpdated"


_EVENTS = "[" + ", ".join(f"'{event}'" for event in Event) + "]"
_HAS_EVENT = "(has(p.event) && p.event == e) || (has(p.events) && e in p.events)"


class LifecyclePolicy(Model):
    """Lifecycle policy: the action to take on events or on an exit code."""

    action: Action
    """Action to take."""
    event: Event | None = None
    """Event that triggers the action. `*` matches every event except PodPending and JobUpdated."""
    events: list[Event] = Field(default_factory=list, max_length=16)
    """Events that trigger the action."""
    exit_code: Int32 | None = None
    """Exit code of a failed container that triggers the action. Must not be 0."""
    timeout: Duration | None = None
    """Delay before the action, such as 90s or 10m. The action is cancelled if its cause no longer exists by then."""

    rules = (
        Rule(
            "has(self.exitCode) != (has(self.event) || (has(self.events) && self.events.size() > 0))",
            "exactly one of exitCode and event (or events) must be set",
        ),
        Rule("!has(self.exitCode) || self.exitCode != 0", "must not be 0", ".exitCode"),
        Rule(
            "has(self.timeout) || !((has(self.event) && self.event == 'PodPending')"
            " || (has(self.events) && 'PodPending' in self.events))",
            "timeout is required for event PodPending",
        ),
        Rule(
            "!((has(self.event) && self.event == '*') || (has(self.events) && '*' in self.events))"
            " || ((!has(self.event) || self.event == '*') && (!has(self.events) || self.events.all(e, e == '*')))",
            "`*` matches every event: remove the other events",
        ),
    )

    @property
    def all_events(self) -> frozenset[Event]:
        """All events of the policy."""
        return frozenset(self.events) | ({self.event} if self.event else frozenset())


def _unique(what: str, listing: str) -> Rule:
    return Rule(listing, f"{what} must not occur in more than one policy")


Policies = Annotated[
    list[LifecyclePolicy],
    Field(
        max_length=32,
        json_schema_extra={
            "x-kubernetes-list-type": "atomic",
            "x-kubernetes-validations": [
                _unique("an event", f"{_EVENTS}.all(e, self.filter(p, {_HAS_EVENT}).size() <= 1)").schema(),
                _unique(
                    "an exit code",
                    "self.all(p, !has(p.exitCode) || self.exists_one(q, has(q.exitCode) && q.exitCode == p.exitCode))",
                ).schema(),
                Rule(
                    "!self.exists(p, (has(p.event) && p.event == '*') || (has(p.events) && '*' in p.events))"
                    " || self.filter(p, has(p.event) || (has(p.events) && p.events.size() > 0)).size() == 1",
                    "`*` matches every event: remove the policies for other events",
                ).schema(),
            ],
        },
    ),
]


COMMAND_ACTIONS = (*Action, "OpenQueue", "CloseQueue")


class Command(Model):
    """A command for a job or queue. The controller executes it once and deletes it."""

    api_version: Literal["bus.volcanopy.io/v1alpha1"] = "bus.volcanopy.io/v1alpha1"
    kind: Literal["Command"] = "Command"
    metadata: ObjectMeta
    action: str = Field(json_schema_extra={"enum": list(map(str, COMMAND_ACTIONS))})
    """Action to execute."""
    target: OwnerReference
    """Job or queue that the action applies to."""
    reason: str = Field(default="", max_length=1024)
    """Machine-readable reason."""
    message: str = Field(default="", max_length=32768)
    """Human-readable message."""
